"""The part of an application that talks to models."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from runvil._native import RoundRequest
    from runvil.reply import Reply

_log = logging.getLogger("runvil")


@dataclass(frozen=True, slots=True)
class Retry:
    """A request that failed and is sent again.

    Attributes:
        section: The heading of the section that asked.
        round: The number of the request in its run, from 0.
        number: Counts the further tries of the request, from 1.
        delay: Seconds until it is sent again.
        kind: The kind of the failure, as in `ModelError.kind`.
        status: The HTTP status of the failure; None when there was none.
    """

    section: str
    round: int
    number: int
    delay: float
    kind: str
    status: int | None = None


class Request:
    """One model request. Everything is read-only; the messages are converted when they are first read."""

    def __init__(self, native: RoundRequest, on_retry: Callable[[Retry], object] | None = None) -> None:
        self._native = native
        self._on_retry = on_retry

    @property
    def model(self) -> str:
        """The model's name in the catalog, or the raw id the prompt named."""
        return self._native.model

    @property
    def model_id(self) -> str:
        """The provider's name for the model."""
        return self._native.model_id

    @property
    def role(self) -> str | None:
        """The role the model is bound to; None for a raw id."""
        return self._native.role

    @property
    def handle(self) -> str | None:
        """The name of the model handle the round was pinned to; None when it was not."""
        return self._native.handle

    @property
    def round(self) -> int:
        """The number of the request in its run, from 0."""
        return self._native.round

    @property
    def origin(self) -> Literal["chat", "infer"]:
        """`chat` for a round of a loop, `infer` for a single inference."""
        return self._native.origin

    @property
    def conversation(self) -> str | None:
        """The id of the message list that is sent; None for an inference, which has none."""
        return self._native.conversation

    @property
    def section(self) -> str:
        """The heading of the section that asks."""
        return self._native.section

    @cached_property
    def messages(self) -> list[dict[str, Any]]:
        """The messages in their wire form."""
        return self._native.messages()

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools the model may call, in the form of a request body: `{"type": "function", "function": {…}}`."""
        return self._native.tools

    @property
    def tool_names(self) -> list[str]:
        """The names of the tools the model may call."""
        return self._native.tool_names

    @property
    def native(self) -> RoundRequest:
        """The request as the engine made it."""
        return self._native

    @property
    def options(self) -> dict[str, Any]:
        """The options that are set: `temperature`, `max_tokens`, `thinking`."""
        return self._native.options

    @property
    def estimate(self) -> int:
        """The plain token estimate of the messages."""
        return self._native.estimate

    @property
    def count(self) -> int:
        """The token count that admitted the request."""
        return self._native.count

    @property
    def reserve(self) -> int:
        """The tokens kept free for the reply."""
        return self._native.reserve

    @property
    def window(self) -> int:
        """The model's context window in tokens."""
        return self._native.window

    @property
    def estimator(self) -> str | None:
        """The name of the estimator that counted the request; None for the specified one."""
        return self._native.estimator

    def messages_json(self) -> bytes:
        """The messages as a JSON array, byte for byte as they go into the body."""
        return self._native.messages_json()

    def body(self, **fields: Any) -> bytes:
        """The whole JSON body of a chat completion request.

        It holds `model`, `messages`, `tools` when there are any, and what is set of `temperature` and `max_tokens`.
        `fields` adds to that or replaces it; a field that is None is left out.
        """
        return self._native.body(self.body_fields(**fields))

    def body_fields(self, **fields: Any) -> dict[str, Any]:
        """The fields of `body(**fields)` besides the messages."""
        options = self._native.options
        named = {name: options.get(name) for name in ("temperature", "max_tokens")}
        merged = {"model": self._native.model_id, **named, **fields}
        return {name: value for name, value in merged.items() if value is not None}

    def report_retry(self, number: int, delay: float, kind: str, status: int | None = None) -> None:
        """Reports that the request failed and that the broker sends it again. May be called from any thread.

        The report goes to `Host.on_retry`, the run log, and the logger `runvil`.

        Args:
            number: Counts the further tries, from 1.
            delay: Seconds until the request is sent again.
            kind: The kind of the failure, as in `ModelError.kind`.
            status: The HTTP status of the failure, if there was one.
        """
        failed = kind if status is None else f"{kind}, status {status}"
        _log.info("model request failed (%s); retry %d in %.1f seconds", failed, number, delay)
        if self._on_retry is not None:
            self._on_retry(Retry(self.section, self.round, number, delay, kind, status))

    def __repr__(self) -> str:
        return f"<Request round={self.round} model={self.model!r} section={self.section!r}>"


class Broker(ABC):
    """Answers model requests. Subclass it to bring your own way to a model."""

    @abstractmethod
    def complete(
        self, request: Request, on_fragment: Callable[[str], object] | None = None
    ) -> Reply | Awaitable[Reply]:
        """Answers one request. An `async def` is awaited; a plain `def` runs on a thread of its own.

        Several requests may be under way at once. Call `on_fragment`, when it is given, with each piece of the reply's
        text as it arrives, in order, from any thread; the reply still holds the whole text.

        Raises:
            ModelError: The call failed. Any other exception counts as kind `Transport`, and a reply or a piece that
                UTF-8 or JSON cannot hold as kind `MalformedResponse`.
            CancelledError: The call is given up, which the prompt sees as an error of kind `cancelled`.
        """
