"""Conversations: records, the rules they keep, and the requests they make."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
from typing import TYPE_CHECKING, Any

from runvil import _native
from runvil.errors import ConversationError
from runvil.looping import Loop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from typing import Self, Unpack

    from runvil._native import Record
    from runvil.looping import LoopOptions
    from runvil.model import Model
    from runvil.reply import Reply


class Conversation(_native.Conversation):
    """An ordered list of message records.

    conv = runvil.Conversation()
    conv.system("be terse").user("hi", meta={"source": "form"})
    request = conv.compose()

    A record has a `role` (`system`, `user`, `assistant` or `tool`) and a `content`, a string or a list of content
    parts; an assistant record may have `tool_calls`, a tool record has the `tool_call_id` of the call it answers, and
    any record may have `meta`, which no model sees. Each record is checked when it is added, and never changes; `None`
    stands for an absent field. Edits return the conversation. One that is refused raises `ConversationError` and leaves
    every record as it was.

    `len(conv)`, `conv[0]`, `conv[-1]`, `conv[2:5]` (a list) and `for record in conv` read records; a walk visits the
    records that were there when it began. Conversations are equal when their records are. They can be copied, pickled,
    and used by several threads at once.
    """

    __slots__ = ()

    def record_reply(self, reply: Reply, *, model: str, request: _native.ComposedRequest) -> Self:
        """Appends a model's reply as an assistant record.

        `request` is what the model answered. When the reply has token counts, the next request that extends this one is
        counted from them; see `ComposedRequest.precheck`.

        Raises:
            ConversationError: The reply makes no valid record, as when the arguments of a call are not a JSON object.
        """
        calls = [
            {"id": call.get("id"), "name": call.get("name"), "arguments": _decoded(call.get("arguments"))}
            for call in reply.tool_calls or ()
        ]
        self.assistant(reply.text or "", calls or None)
        usage = reply.usage
        counts = usage and [usage.get(f"{name}_tokens") for name in ("prompt", "completion", "reasoning")]
        self._anchor(request, model, counts or None)
        return self

    def compact(self, compactor: Callable[[Self, str], object], reason: str) -> None:
        """Rewrites history: calls `compactor(conversation, reason)`, which may use `replace`.

        What it returns is ignored. The records it leaves must pass `check`; an empty list passes. When they do not, or
        the compactor raises, the records from before come back and the error is raised. Until it ends, other threads
        and tasks can read the conversation, but an edit of theirs raises.

        Raises:
            ConversationError: The records break a rule, an argument is of the wrong type, or a compaction runs already.
        """
        _check_arguments(compactor, reason)
        with self._compacting():
            result = compactor(self, reason)
            if inspect.isawaitable(result):
                if inspect.iscoroutine(result):
                    result.close()
                raise TypeError("compact takes a plain compactor; await compact_async for an async one")

    async def compact_async(self, compactor: Callable[[Self, str], object | Awaitable[object]], reason: str) -> None:
        """As `compact`, for a compactor that may be an async function."""
        _check_arguments(compactor, reason)
        with self._compacting():
            result = compactor(self, reason)
            if inspect.isawaitable(result):
                await result

    async def loop(self, model: Model, **options: Unpack[LoopOptions]) -> Record:
        """Runs rounds on a model until it answers with text, running the tools it asks for; the rules of `models.loop`.

        Every round sends the records as they stand. A tool round appends its calls and their results together, once
        every call is answered; the calls of one reply run side by side. The conversation ends with the reply, which is
        returned. When an error is raised, or the task is cancelled, the records of every finished round stay, and
        nothing of an unfinished one; tools that run are cancelled and awaited.

        Args:
            model: What answers. Its usage anchors the next precheck.
            **options: See `LoopOptions`.

        Raises:
            LoopError: The loop failed.
        """
        await Loop(self, model, **options).run()
        return self[-1]

    def loop_sync(self, model: Model, **options: Unpack[LoopOptions]) -> Record:
        """As `loop`, from plain synchronous code.

        Raises:
            RuntimeError: An event loop runs in this thread: await `loop` there.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.loop(model, **options))
        raise RuntimeError("loop_sync() cannot wait inside a running event loop; await loop() there")

    @contextlib.contextmanager
    def _compacting(self) -> Iterator[None]:
        number, token = self._enter_compaction()
        keep = False
        try:
            yield
            keep = True
        finally:
            # An async compactor that nobody awaits to its end is closed outside its context.
            with contextlib.suppress(ValueError):
                _native.compactions.reset(token)
            self._leave_compaction(number, keep)

    def __copy__(self) -> Self:
        fork = self.copy()
        if hasattr(self, "__dict__"):  # of a subclass
            vars(fork).update(vars(self))
        return fork

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self)._unpickled, (self.to_json(),), getattr(self, "__dict__", None)


def _check_arguments(compactor: object, reason: object) -> None:
    if not callable(compactor):
        raise ConversationError(
            f"compactor must be a function, got {type(compactor).__name__}", "compactor_not_function"
        )
    if not isinstance(reason, str):
        raise ConversationError(f"reason must be a string, got {type(reason).__name__}", "reason_not_string")


def _decoded(arguments: object) -> object:
    """Arguments of a call, decoded when they came as JSON text; text that is no JSON stays what it is."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments
