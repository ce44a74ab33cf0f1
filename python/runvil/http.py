"""The broker for OpenAI-compatible servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from runvil import _native
from runvil.broker import Broker
from runvil.reply import BackendReply
from runvil.texts import is_unicode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from runvil._native import OverflowRule
    from runvil.broker import Request


class HttpBroker(Broker):
    """Sends requests to one OpenAI-compatible server.

    A broker keeps its connections open and uses them again, also in later runs and in other event loops.

    Failures that may pass (rate limits, overload, server faults, broken connections, no first byte in time) are tried
    again, before the first piece of text only.

    Args:
        base_url: The address that `/chat/completions` is appended to, such as `http://127.0.0.1:8080/v1`.
        api_key: The key, sent as a bearer token. It is kept in the native client alone: no attribute or repr shows it.
        headers: Further request headers.
        extra_body: Further fields of every request body.
        timeout: Seconds to wait for each next part of an answer.
        connect_timeout: Seconds to wait for a connection.
        retries: How many times a request is tried again.
        max_tokens_field: The body field for a reply's token limit: `max_tokens` or `max_completion_tokens`.
        stream: Whether to ask for the answer in pieces.
        stream_usage: Whether to ask for token counts in a streamed answer.
        thinking_field: Where a switchable model's thinking goes, as a dotted path such as
            `chat_template_kwargs.enable_thinking`; None sends it nowhere.
        max_response_bytes: The largest answer that is read, in bytes.
        null_content: Whether null, and not an empty text, is sent for the content of an assistant message that has tool
            calls and no text. Servers differ in which of the two they accept.
        strict_tools: Whether tools are marked `strict` whose schema requires all properties and allows no others, so
            that the server makes the model keep to it. Servers refuse others that are marked, so they never are.
        proxy_from_environment: Whether requests go through the proxies that the environment names (`HTTPS_PROXY`,
            `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`).
        overflow: Which failures are context overflows. `strict` is the rule of the language: status 400 or 413, or an
            error inside a stream, with one of twelve phrases. `extended`, for gateways, knows the codes and wordings of
            many providers, and the token counts of replies that should not have come.
        overflow_rules: Rules of your own, asked first, in order.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        extra_body: Mapping[str, Any] | None = None,
        timeout: float = 120.0,
        connect_timeout: float = 10.0,
        retries: int = 2,
        max_tokens_field: str = "max_tokens",
        stream: bool = True,
        stream_usage: bool = True,
        thinking_field: str | None = None,
        max_response_bytes: int = 16 * 1024 * 1024,
        null_content: bool = False,
        strict_tools: bool = False,
        proxy_from_environment: bool = False,
        overflow: Literal["strict", "extended"] = "strict",
        overflow_rules: Sequence[OverflowRule] = (),
    ) -> None:
        # Checked here: an encoder's error would hold the key.
        for name, text in (("base_url", base_url), ("api_key", api_key), ("max_tokens_field", max_tokens_field)):
            if isinstance(text, str) and not is_unicode(text):
                raise ValueError(f"{name} holds text with a lone surrogate")
        _native.check_json(dict(extra_body or {}), "extra_body")
        self.base_url = base_url
        self._client = _native.HttpClient(
            base_url,
            api_key=api_key,
            headers=None if headers is None else dict(headers),
            timeout=timeout,
            connect_timeout=connect_timeout,
            retries=retries,
            max_response_bytes=max_response_bytes,
            proxy_from_environment=proxy_from_environment,
            overflow=overflow,
            overflow_rules=list(overflow_rules),
        )
        self._extra_body = dict(extra_body or {})
        self._max_tokens_field = max_tokens_field
        self._stream = stream
        self._stream_usage = stream_usage
        self._null_content = null_content
        self._strict_tools = strict_tools
        self._thinking_path = thinking_field.split(".") if thinking_field else []

    async def complete(self, request: Request, on_fragment: Callable[[str], object] | None = None) -> BackendReply:
        """Sends the request and reads the answer."""
        fields = request.body_fields(**self._fields(request))
        reply = await self._client.send(
            request._native,
            fields,
            on_fragment,
            request.report_retry,
            null_content=self._null_content,
            strict_tools=self._strict_tools,
        )
        return BackendReply(**reply)

    def _fields(self, request: Request) -> dict[str, Any]:
        """The body's fields besides messages, model and temperature."""
        options = request.options
        fields: dict[str, Any] = {"max_tokens": None, self._max_tokens_field: options.get("max_tokens")}
        if self._stream:
            fields["stream"] = True
            if self._stream_usage:
                fields["stream_options"] = {"include_usage": True}
        fields |= self._extra_body
        thinking = options.get("thinking")
        if thinking is not None and self._thinking_path:
            _set_path(fields, self._thinking_path, thinking)
        return fields

    def __repr__(self) -> str:
        return f"HttpBroker({_without_credentials(self.base_url)!r})"


def _set_path(fields: dict[str, Any], path: list[str], value: Any) -> None:
    """Sets a nested field, copying each table on the way so that no other request sees the change."""
    *parents, last = path
    for name in parents:
        inner = fields.get(name)
        fields[name] = dict(inner) if isinstance(inner, dict) else {}
        fields = fields[name]
    fields[last] = value


def _without_credentials(url: str) -> str:
    """The URL without a user name, a password, a query or a fragment."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "", url
    authority, slash, path = rest.partition("/")
    host = authority.rpartition("@")[2]
    return f"{scheme}{separator}{host}{slash}{path.partition('?')[0].partition('#')[0]}"
