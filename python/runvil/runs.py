"""Running a prompt: to its end, in the background, or from plain synchronous code."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, NamedTuple

from runvil.errors import RunCancelled, RunError
from runvil.harness import Harness
from runvil.plan import Plan, RunOptions
from runvil.threads import ended

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from typing import Unpack

    from runvil import _native
    from runvil._native import Event, Outcome
    from runvil.prompt import Prompt


class Result(NamedTuple):
    """What a completed run gives.

    Attributes:
        text: The result text.
        turns: How many replies the run received.
        usage: The sums of the token counts that the replies reported; counts that no reply reported are absent.
    """

    text: str
    turns: int
    usage: dict[str, int]


async def run_async(prompt: Prompt, args: str = "", **options: Unpack[RunOptions]) -> Result:
    """Runs a prompt to its end.

    Cancelling the call cancels the run, stops its work, and raises CancelledError. Before, it waits until every tool,
    hook and broker that is an async function has ended; a plain function, on its thread, is left to itself.

    Args:
        prompt: The prompt.
        args: The argument text the prompt reads.
        **options: See `RunOptions`.

    Raises:
        RunError: The run failed.
        RunCancelled: The deadline passed.
        ValueError: A keyword has a value that cannot be used, such as a role that the prompt does not declare.
    """
    handle = start(prompt, args, **options)
    try:
        return await handle.result()
    except asyncio.CancelledError:
        handle.cancel()
        await handle._ended()
        raise


def run(prompt: Prompt, args: str = "", **options: Unpack[RunOptions]) -> Result:
    """Runs a prompt to its end from plain synchronous code; like `run_async` otherwise.

    Ctrl-C cancels the run, stops its work, and raises KeyboardInterrupt.

    Raises:
        RuntimeError: An event loop runs in this thread: await `run_async` there.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run_async(prompt, args, **options))
    raise RuntimeError("runvil.run() cannot wait inside a running event loop; await runvil.run_async() there")


def start(prompt: Prompt, args: str = "", **options: Unpack[RunOptions]) -> RunHandle:
    """Starts a run in the background of the running event loop.

    Args:
        prompt: The prompt.
        args: The argument text the prompt reads.
        **options: See `RunOptions`.

    Raises:
        RuntimeError: No event loop is running.
        ValueError: A keyword has a value that cannot be used.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError("runvil.start() needs a running event loop; use runvil.run() outside of one") from None
    return RunHandle(Plan.make(prompt, args, options))


class RunHandle:
    """A run in the background."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._listeners: list[_EventQueue] = []
        self._cancelled = False
        self._harness: Harness | None = None
        self._activation: asyncio.Task[None] | None = None
        self._given_up: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        if plan.native is not None:
            self._harness = self._make_harness(plan.native)
        self._task = asyncio.get_running_loop().create_task(self._drive())
        self._task.add_done_callback(_retrieve)
        self._too_late = False
        if plan.deadline is not None:
            timer = asyncio.get_running_loop().call_later(plan.deadline, self._pass_deadline)
            self._task.add_done_callback(lambda _task: timer.cancel())

    @property
    def execution(self) -> str:
        """The run's id."""
        return self._plan.execution

    def cancel(self) -> None:
        """Cancels the run and stops its work. May be called from any thread; a run that has ended is left alone.

        The run ends once its work has, which `result` waits for: async functions are awaited, however long they take to
        clean up, plain ones are left to themselves. Work that takes no notice is named in the log of `runvil`.
        """
        self._cancelled = True
        if self._harness is not None:
            self._harness.cancel()
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the run has ended
                self._loop.call_soon_threadsafe(self._stop_activating)

    def done(self) -> bool:
        """Whether the run has ended."""
        return self._task.done()

    async def result(self) -> Result:
        """Waits for the run to end. Cancelling the wait leaves the run alone.

        Raises:
            RunError: The run failed.
            RunCancelled: It was cancelled.
        """
        outcome = await asyncio.shield(self._task)
        usage = outcome.usage
        match outcome.status:
            case "completed":
                return Result(outcome.text or "", outcome.turns, usage)
            case "cancelled":
                late = f"the run was cancelled: its deadline of {self._plan.deadline} seconds passed"
                raise RunCancelled(late if self._too_late else "the run was cancelled", outcome.turns, usage)
            case _:
                error = RunError.from_outcome(outcome.error or {}, outcome.turns, usage)
                raise error from self._plan.effects.cause_of(error.message)

    def events(self) -> AsyncIterator[Event]:
        """Iterates over the run's events from now on, until it ends.

        A run begins once its starter waits for something, so calling this right after `start` misses nothing.
        """
        queue = _EventQueue()
        if self._task.done():
            queue.end()
        else:
            self._listeners.append(queue)
        return queue

    async def _ended(self) -> None:
        """Waits for the end of the run, which is cancelled, also when the waiting task is cancelled meanwhile."""
        while not self._task.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([self._task])

    def _pass_deadline(self) -> None:
        self._too_late = True
        self.cancel()

    def _on_events(self, events: Sequence[Event]) -> None:
        self._plan.on_events(events)
        for listener in self._listeners:
            listener.put(events)

    def _make_harness(self, native: _native.Run) -> Harness:
        plan = self._plan
        return Harness(native, plan.effects.perform, self._on_events, plan.on_answer, plan.on_outcome)

    def _stop_activating(self) -> None:
        if self._activation is not None:
            self._activation.cancel()
        if self._given_up is not None and not self._given_up.done():
            self._given_up.set_result(None)

    async def _activate(self) -> Harness:
        """Activates the packs, then opens the run. A run that is cancelled meanwhile begins, and ends as cancelled."""
        self._activation = self._loop.create_task(self._plan.activate())
        self._given_up = self._loop.create_future()
        if self._cancelled:
            self._stop_activating()
        await asyncio.wait([self._activation, self._given_up], return_when=asyncio.FIRST_COMPLETED)
        await ended({self._activation: "the activation of a pack"})
        if not self._activation.cancelled():
            self._activation.result()
        harness = self._harness = self._make_harness(self._plan.open())
        if self._cancelled:
            harness.cancel()
        return harness

    async def _drive(self) -> Outcome:
        try:
            harness = self._harness or await self._activate()
            return await harness.drive()
        finally:
            for listener in self._listeners:
                listener.end()
            self._plan.close()


class _EventQueue:
    """The events of one listener."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue()

    def put(self, events: Sequence[Event]) -> None:
        for event in events:
            self._queue.put_nowait(event)

    def end(self) -> None:
        self._queue.put_nowait(None)

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        event = await self._queue.get()
        if event is None:
            self.end()  # so that asking again ends again
            raise StopAsyncIteration
        return event


def _retrieve(task: asyncio.Task[Outcome]) -> None:
    """Marks a task's exception as seen: a handle whose result nobody asks for is no mistake."""
    if not task.cancelled():
        task.exception()
