"""How each effect of a run is performed: models through brokers, tools through packs, the rest through the Host."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from runvil import _native
from runvil.broker import Broker, Request
from runvil.errors import ModelError, ToolError
from runvil.host import Fragment, Host, read_library
from runvil.packs import call_tool
from runvil.reply import Reply
from runvil.threads import call_user_code

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from runvil._native import Effect
    from runvil.harness import Answer
    from runvil.model import Model
    from runvil.packs import Pack

_log = logging.getLogger("runvil")


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
        self._tools = {f"{pack.name}/{tool.name}": tool for pack in packs for tool in pack.tools.values()}
        self._host = host
        self._prompt_path = prompt_path
        self.request_sinks: list[Callable[[Request], None]] = []
        self._wants_fragments = overrides(host, "on_fragment")
        self._causes: deque[tuple[str, BaseException]] = deque(maxlen=16)

    async def perform(self, effect: Effect) -> Answer:
        """Does the work of one effect and returns its answer."""
        match effect.kind:
            case "round":
                return await self._round(effect.request)
            case "tool_call":
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

    async def _round(self, native: _native.RoundRequest) -> Answer:
        request = Request(native)
        for sink in self.request_sinks:
            sink(request)
        live = _LiveText(self._host, request) if self._wants_fragments and request.origin == "chat" else None
        try:
            return await self._ask(request, live)
        finally:
            if live is not None and live.failure is not None:
                raise live.failure

    async def _ask(self, request: Request, live: _LiveText | None) -> Answer:
        broker = self._raw_broker if request.role is None else self._models[request.role].broker
        try:
            if broker is None:
                raise ModelError("Unavailable", note="no broker serves model ids that the prompt names")
            reply = await call_user_code(broker.complete, request, live)
            if not isinstance(reply, Reply):
                raise TypeError(f"a broker's complete must return a runvil.Reply, got {type(reply).__name__}")
        except ModelError as error:
            return self._model_failure(error, error)
        except Exception as error:  # noqa: BLE001 - a broker may raise anything; the caller finds it as the cause
            return self._model_failure(ModelError("Transport"), error)
        return "reply", reply.to_answer()

    def _model_failure(self, failure: ModelError, cause: Exception) -> Answer:
        message = _native.failure_text(failure.kind, failure.status, failure.note)
        overflow = failure.kind == "ContextOverflow"
        self._causes.append(("the provider rejected the request as exceeding" if overflow else message, cause))
        _log.info("model request failed: %s", failure.kind)
        fields = {"kind": failure.kind, "status": failure.status, "note": failure.note, "detail": failure.detail}
        return "model_failure", fields

    async def _tool_call(self, path: str, arguments: Mapping[str, Any]) -> Answer:
        tool = self._tools.get(path)
        try:
            if tool is None:
                raise ToolError(f"no pack of this run has the tool {path}")
            return "tool_output", {"text": await call_tool(path, tool, arguments)}
        except ToolError as error:
            self._causes.append((str(error), error.__cause__ or error))
            return "tool_failure", {"message": str(error)}

    async def _load_library(self, name: str) -> Answer:
        try:
            source = None
            if overrides(self._host, "load_library"):
                source = await call_user_code(self._host.load_library, name)
            if source is None:
                data, path = read_library(name, self._prompt_path)
                return "library", {"source": data, "path": path}
        except LookupError as error:
            return "library_missing", {"message": str(error)}
        return "library", {"source": source.encode() if isinstance(source, str) else source, "path": f"{name}.lua"}

    async def _user_input(self) -> Answer:
        if not overrides(self._host, "user_input"):
            return "input_unavailable", None
        try:
            text = await call_user_code(self._host.user_input)
        except Exception as error:  # noqa: BLE001 - a hook may raise anything; the caller finds it as the cause
            message = f"the Host's user_input hook raised {type(error).__name__}"
            self._causes.append((message, error))
            return "input_failure", {"message": message}
        return ("input_unavailable", None) if text is None else ("user_input", {"text": text})


class _LiveText:
    """What a broker calls with pieces of text, from any thread. They reach the Host in order, on the loop's thread.

    Attributes:
        failure: What the hook raised, which stops the request.
    """

    def __init__(self, host: Host, request: Request) -> None:
        self.failure: Exception | None = None
        self._host = host
        self._request = request
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._thread = threading.get_ident()

    def __call__(self, text: str) -> None:
        if threading.get_ident() == self._thread:
            self._deliver(text)
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens
            self._loop.call_soon_threadsafe(self._deliver, text)

    def _deliver(self, text: str) -> None:
        if self.failure is not None or self._task is None or self._task.cancelled() or self._task.cancelling():
            return
        try:
            self._host.on_fragment(Fragment(self._request.section, self._request.round, text))
        except Exception as error:  # noqa: BLE001 - a hook may raise anything; the round raises it
            self.failure = error
            self._task.cancel()


def overrides(host: Host, hook: str) -> bool:
    """Whether a Host has a hook of its own."""
    own = getattr(host, hook, None)
    return own is not None and getattr(own, "__func__", own) is not getattr(Host, hook)
