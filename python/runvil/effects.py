"""How each effect of a run is performed: models through brokers, tools through packs, the rest through the Host."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from runvil import _native
from runvil.asking import Live, LiveText, ask
from runvil.broker import Request
from runvil.errors import InputError, ToolError
from runvil.estimators import Counter, Tokenizer, failed_count
from runvil.host import Host, read_library
from runvil.packs import call_tool
from runvil.texts import escaped, is_unicode
from runvil.threads import call_user_code, in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from runvil._native import Effect
    from runvil.broker import Broker, Retry
    from runvil.harness import Answer
    from runvil.model import Model
    from runvil.packs import Pack

_log = logging.getLogger("runvil")

# How many of the latest exceptions are kept for the error of the run.
CAUSES = 16


class Effects:
    """Performs the effects of one run.

    Args:
        models: The model of each bound role.
        raw_broker: Serves model ids that the prompt names itself.
        packs: The packs of the run.
        host: The application's hooks.
        prompt_path: The prompt's file; libraries are looked for beside it.

    Attributes:
        request_sinks: Called with each model request when it leaves.
        call_sinks: Called with each tool call before it is made.
        retry_sinks: Called with each report of a model request that is sent again.
    """

    def __init__(
        self,
        models: Mapping[str, Model],
        raw_broker: Broker | None,
        packs: Sequence[Pack],
        host: Host,
        prompt_path: Path | None,
    ) -> None:
        self._models = models
        self._raw_broker = raw_broker
        self._packs = {pack.name: pack for pack in packs}
        self._tools = {f"{pack.name}/{tool.name}": tool for pack in packs for tool in pack.tools.values()}
        self._host = host
        self._prompt_path = prompt_path
        self.request_sinks: list[Callable[[Request], None]] = []
        self.call_sinks: list[Callable[[Effect], None]] = []
        self._counters: dict[int, Counter] = {}
        self.retry_sinks: list[Callable[[Retry], object]] = [host.on_retry] if overrides(host, "on_retry") else []
        self._wants_fragments = overrides(host, "on_fragment")
        self._causes: list[tuple[str, BaseException]] = []

    async def perform(self, effect: Effect) -> Answer:
        """Does the work of one effect and returns its answer."""
        match effect.kind:
            case "round":
                return await self._round(effect.request)
            case "count_tokens":
                return await self._count_tokens(effect.count)
            case "render_packs":
                return self._render(effect.tools)
            case "tool_call":
                for sink in self.call_sinks:
                    sink(effect)
                return await self._tool_call(effect.path, effect.arguments)
            case "load_library":
                return await self._load_library(effect.name)
            case "user_input":
                return await self._user_input()
            case "timer":
                await asyncio.sleep(effect.seconds)
                return "timer", None
            case kind:
                raise NotImplementedError(f"no one performs the effect {kind!r}")

    def cause_of(self, message: str) -> BaseException | None:
        """The latest exception that led to a run error's message."""
        return next((error for text, error in reversed(self._causes) if text in message), None)

    def _caused(self, cause: tuple[str, BaseException]) -> None:
        self._causes = [*self._causes[1 - CAUSES :], cause]

    async def _round(self, native: _native.RoundRequest) -> Answer:
        retries = Live(self._retried)
        request = Request(native, retries)
        for sink in self.request_sinks:
            sink(request)
        live = LiveText(self._host.on_fragment, request) if self._wants_fragments and request.origin == "chat" else None
        broker = self._raw_broker if request.role is None else self._models[request.role].broker
        try:
            answer, failure, cause = await ask(broker, request, live)
        finally:
            raised = (live and live.failure) or retries.failure
            if raised is not None:
                raise raised
        if failure is not None and cause is not None:
            message = _native.failure_text(failure.kind, failure.status, failure.note)
            overflow = failure.kind == "ContextOverflow"
            self._caused(("the provider rejected the request as exceeding" if overflow else message, cause))
            _log.info("model request failed: %s", failure.kind)
        return answer

    async def _count_tokens(self, request: _native.CountRequest) -> Answer:
        model = self._models[request.role] if request.role is not None else None
        estimator = None if model is None else model.estimator
        if not isinstance(estimator, Tokenizer):
            return "count_failure", {"message": "the model has no estimator"}
        counter = self._counters.setdefault(id(estimator), Counter(estimator))
        try:
            tokens = await in_thread(counter.count, request.conversation, request.messages(), request.tools)
        except Exception as error:  # noqa: BLE001 - a tokenizer may raise anything; the caller finds it as the cause
            message = failed_count(estimator, error)
            self._caused((message, error))
            return "count_failure", {"message": message}
        return "counted", {"tokens": tokens}

    def _render(self, paths: Sequence[str]) -> Answer:
        """What models read about tools, in the order they were asked for."""
        rendered = []
        for path in paths:
            pack, _, name = path.partition("/")
            try:
                tool = self._packs[pack].render(name)
                _native.check_rendered_tool(tool)
                rendered.append(tool)
            except Exception as error:  # noqa: BLE001 - a pack may raise anything; the caller finds it as the cause
                self._caused((path, error))
                return "render_failure", {"path": path}
        return "rendered", {"tools": rendered}

    def _retried(self, retry: Retry) -> None:
        for sink in self.retry_sinks:
            sink(retry)

    async def _tool_call(self, path: str, arguments: Mapping[str, Any]) -> Answer:
        tool = self._tools.get(path)
        try:
            if tool is None:
                raise ToolError(f"no pack of this run has the tool {path}")
            return "tool_output", {"text": await call_tool(path, tool, arguments)}
        except ToolError as error:
            self._caused((str(error), error.__cause__ or error))
            return "tool_failure", {"message": str(error)}

    async def _load_library(self, name: str) -> Answer:
        source = None
        if overrides(self._host, "load_library"):
            try:
                source = await call_user_code(self._host.load_library, name)
            except Exception as error:  # noqa: BLE001 - a hook may raise anything; the caller finds it as the cause
                message = f"the Host's load_library hook raised {type(error).__name__}"
                self._caused((message, error))
                return "library_missing", {"message": message}
        if source is None:
            try:
                data, path = read_library(name, self._prompt_path)
            except LookupError as error:
                return "library_missing", {"message": str(error)}
            return "library", {"source": data, "path": path}
        problem = None if isinstance(source, bytes) else _text_problem(source, "a string, bytes or None")
        if problem is not None:
            return "library_missing", {"message": f"the Host's load_library hook gave {problem}"}
        return "library", {"source": source.encode() if isinstance(source, str) else source, "path": f"{name}.lua"}

    async def _user_input(self) -> Answer:
        if not overrides(self._host, "user_input"):
            return "input_unavailable", None
        try:
            text = await call_user_code(self._host.user_input)
        except InputError as error:
            message = escaped(str(error))
            self._caused((message, error))
            return "input_failure", {"message": message}
        except Exception as error:  # noqa: BLE001 - a hook may raise anything; the caller finds it as the cause
            message = f"the Host's user_input hook raised {type(error).__name__}"
            self._caused((message, error))
            return "input_failure", {"message": message}
        if text is None:
            return "input_unavailable", None
        problem = _text_problem(text, "a string or None")
        if problem is not None:
            return "input_failure", {"message": f"the Host's user_input hook gave {problem}"}
        return "user_input", {"text": text}


def _text_problem(value: Any, wanted: str) -> str | None:
    """Why a value that a hook gave is no text that can be passed on; None when it is one."""
    if not isinstance(value, str):
        return f"a {type(value).__name__}, and not {wanted}"
    return None if is_unicode(value) else "text with a lone surrogate"


def overrides(host: Host, hook: str) -> bool:
    """Whether a Host has a hook of its own."""
    own = getattr(host, hook, None)
    return own is not None and getattr(own, "__func__", own) is not getattr(Host, hook)
