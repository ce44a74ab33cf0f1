"""The tool loop of a conversation: the same machine that runs `models.loop`, driven from Python."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import secrets
from typing import TYPE_CHECKING, Any, TypedDict

from runvil import _native
from runvil.asking import LiveText, ask
from runvil.broker import Request
from runvil.errors import LoopError, ToolError
from runvil.estimators import Counter, Tokenizer, failed_count
from runvil.packs import Tool, call_tool, make_tool
from runvil.threads import cancellings, ended, in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from runvil.conversation import Conversation
    from runvil.host import Fragment
    from runvil.model import Model

Answer = tuple[str, str, bool]
"""The outcome of a tool call (`output`, `failure` or `dropped`), its text, and whether it is passed on bare."""


class LoopOptions(TypedDict, total=False):
    """The keywords of `Conversation.loop`."""

    tools: Iterable[Any]
    """What the model may call: typed functions, `Tool` objects, or schemas (`{"name", "description", "parameters"}`, or
    the form of the OpenAI API) that `dispatch` runs."""

    dispatch: Callable[[str, dict[str, Any]], Any] | None
    """Runs the tools that are given as schemas: `dispatch(name, arguments)`, an `async def` or a plain `def`. What it
    returns becomes text, a `ToolError` it raises a text for the model."""

    trusted: bool
    """Whether what `dispatch` returns is passed on bare. Untrusted text is wrapped and marked as data."""

    compactor: Callable[[Any, str], Any] | None
    """Called as `compactor(conversation, reason)` when a round does not fit the context window; may be async. It
    rewrites the records with `replace`; then the round is tried once more. Without one the loop fails."""

    max_rounds: int
    """The most rounds, 1 to 1000; 24 when left out."""

    temperature: float | None
    """The sampling temperature of every round."""

    max_tokens: int | None
    """The most tokens of a reply; the model's own setting when left out."""

    thinking: bool | None
    """Whether a switchable model thinks."""

    on_event: Callable[[_native.Event], object] | None
    """Called with what the loop reports, in order, on the event loop's thread."""

    on_fragment: Callable[[Fragment], object] | None
    """Called with each piece of a reply's text as it arrives."""

    seed: int | None
    """Makes the marks around untrusted text repeatable; random when left out."""

    lenient: bool
    """A departure from the rules, off by default: a call of an unknown tool, or one with arguments that are no JSON
    object, is answered with a text that says so, instead of failing the loop."""

    keep_finished: bool
    """A departure from the rules, off by default: when a call is cancelled, its batch is still recorded with the
    results of the calls that finished, and `the call was cancelled` for the others."""


class Loop:
    """One loop call over a conversation. See `Conversation.loop` for the arguments."""

    def __init__(
        self,
        conversation: Conversation,
        model: Model,
        *,
        tools: Iterable[Any] = (),
        dispatch: Callable[[str, dict[str, Any]], Any] | None = None,
        trusted: bool = False,
        compactor: Callable[[Any, str], Any] | None = None,
        max_rounds: int = 24,
        temperature: float | None = None,
        max_tokens: int | None = None,
        thinking: bool | None = None,
        on_event: Callable[[_native.Event], object] | None = None,
        on_fragment: Callable[[Fragment], object] | None = None,
        seed: int | None = None,
        lenient: bool = False,
        keep_finished: bool = False,
    ) -> None:
        if isinstance(max_rounds, bool) or not isinstance(max_rounds, int):
            raise TypeError(f"max_rounds must be an integer, got {type(max_rounds).__name__}")
        if not 1 <= max_rounds <= 1000:
            raise ValueError(f"max_rounds must be between 1 and 1000, got {max_rounds}")
        if compactor is not None and not callable(compactor):
            raise LoopError("lua", f"compactor must be a function, got {type(compactor).__name__}")
        self._conversation = conversation
        self._model = model
        self._toolbox = Toolbox(tools, dispatch, trusted=trusted)
        self._compactor = compactor
        self._max_rounds = max_rounds
        limit = model.max_tokens if max_tokens is None else max_tokens
        thinks = thinking if model.thinking == "switchable" else None
        options = {"temperature": temperature, "max_tokens": limit, "thinking": thinks}
        self._options = {name: value for name, value in options.items() if value is not None}
        self._on_event = on_event
        self._on_fragment = on_fragment
        self._seed = secrets.randbits(64) if seed is None else seed
        self._lenient = lenient
        self._counter: Counter | None = None
        self._keep_finished = keep_finished

    async def run(self) -> None:
        """Runs rounds until the terminal record is the conversation's last.

        Raises:
            LoopError: The loop failed. What a compactor raises comes out unchanged.
        """
        loop = _native.ConversationLoop(
            self._conversation,
            self._toolbox.schemas,
            max_rounds=self._max_rounds,
            seed=self._seed,
            is_lenient=self._lenient,
            keeps_finished=self._keep_finished,
        )
        try:
            await self._drive(loop)
        finally:
            loop.close()

    async def _drive(self, loop: _native.ConversationLoop) -> None:
        step = loop.send(self._model.to_dict(), self._options)
        cause: BaseException | None = None
        while True:
            self._report(loop)
            match step.kind:
                case "round":
                    step = loop.send(self._model.to_dict(), self._options)
                case "count":
                    step = await self._count(loop, step.count)
                case "send":
                    step, cause = await self._ask(loop, Request(step.request))
                case "calls":
                    step = await self._call_tools(loop, step.calls)
                case "compact":
                    step = await self._compact(loop, step.reason)
                case "finished":
                    return
                case _:
                    error = step.error
                    raise error from (error.__cause__ or cause)

    async def _count(self, loop: _native.ConversationLoop, request: _native.CountRequest) -> _native.LoopStep:
        estimator = self._model.estimator
        if not isinstance(estimator, Tokenizer):
            raise LoopError("internal", "the request could not be counted: the model has no estimator")
        self._counter = self._counter or Counter(estimator)
        try:
            tokens = await in_thread(self._counter.count, request.conversation, request.messages(), request.tools)
        except Exception as error:
            message = failed_count(estimator, error)
            raise LoopError("internal", f"the request could not be counted: {message}") from error
        return loop.counted(tokens)

    def _report(self, loop: _native.ConversationLoop) -> None:
        events = loop.events()
        if self._on_event is not None:
            for event in events:
                self._on_event(event)

    async def _ask(
        self, loop: _native.ConversationLoop, request: Request
    ) -> tuple[_native.LoopStep, BaseException | None]:
        live = None if self._on_fragment is None else LiveText(self._on_fragment, request)
        before = cancellings()
        try:
            (kind, fields), _, cause = await ask(self._model.broker, request, live)
        except asyncio.CancelledError:
            if cancellings() > before:
                raise
            # The broker gave the call up; a run reports that in these words.
            raise LoopError("cancelled", "interrupted by Ctrl-C") from None
        finally:
            if live is not None and live.failure is not None:
                raise live.failure
        return (loop.replied(fields) if kind == "reply" else loop.failed(fields)), cause

    async def _call_tools(
        self, loop: _native.ConversationLoop, calls: list[tuple[int, str, str, dict[str, Any]]]
    ) -> _native.LoopStep:
        """Runs the calls of a batch side by side. When this task is cancelled they are cancelled and awaited."""
        tasks = {asyncio.ensure_future(self._toolbox.call(name, arguments)): at for at, _, name, arguments in calls}
        names = {at: name for at, _, name, _ in calls}
        waiting = dict(tasks)
        try:
            while waiting:
                done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    step = loop.call_answered(waiting.pop(task), *task.result())
                    self._report(loop)
        except BaseException:
            for task in waiting:
                task.cancel()
            await ended({task: f"the tool {names[at]}" for task, at in waiting.items()})
            for task, at in waiting.items():
                is_answer = not task.cancelled() and task.exception() is None
                loop.call_answered(at, *(task.result() if is_answer else ("dropped", "", False)))
            self._report(loop)
            raise
        return step

    async def _compact(self, loop: _native.ConversationLoop, reason: str) -> _native.LoopStep:
        if self._compactor is None:
            used, limit = loop.overflow
            message = _native.exhausted_message(reason)
            raise LoopError("context_exhausted", message, reason=reason, used=used, limit=limit)
        compactor = self._compactor
        conversation = self._conversation
        number, token = conversation._enter_compaction(in_loop=True)
        try:
            result = compactor(conversation, reason)
            if inspect.isawaitable(result):
                await result
        except BaseException:
            left = loop.measure()
            conversation._leave_compaction(number, keep=False)
            loop.compaction_failed(*left)
            self._report(loop)
            raise
        finally:
            with contextlib.suppress(ValueError):  # an async compactor that is closed outside its context
                _native.compactions.reset(token)
        return loop.compacted(number)


class Toolbox:
    """The tools of a loop: typed functions, `Tool` objects, or schemas that `dispatch` runs."""

    def __init__(
        self, tools: Iterable[Any], dispatch: Callable[[str, dict[str, Any]], Any] | None, *, trusted: bool
    ) -> None:
        self._tools: dict[str, Tool] = {}
        for entry in tools:
            made = make_tool(entry, dispatch, trusted=trusted)
            if made.name in self._tools:
                raise ValueError(f"two tools are named {made.name!r}")
            self._tools[made.name] = made
        self.schemas = [made.to_dict() for made in self._tools.values()]

    async def call(self, name: str, arguments: dict[str, Any]) -> Answer:
        """Runs one call; what it raises becomes its outcome."""
        made = self._tools[name]
        try:
            return "output", await call_tool(name, made, arguments), made.trusted
        except ToolError as error:
            return "failure", str(error), False
        except asyncio.CancelledError:
            if cancellings():
                raise
            return "dropped", "", False
