"""The driver: performs what a run asks for and hands the answers back. It knows no rule of the language."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, TypeAlias

from runvil.threads import ended, step_workers

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from runvil._native import Effect, Event, Outcome, Run, Step

Answer: TypeAlias = tuple[str, Any]
DROPPED: Answer = ("dropped", None)
LOOP_WORK = 20_000
"""What a step may do on the event loop's thread, in Lua instructions or work that takes about as long."""


class Harness:
    """Drives one run to its end.

    Effects are performed concurrently, each as a task of its own, and their answers go back in the order they arrive.
    A step begins on the event loop's thread, which spares a short one two changes of threads. One that is not finished
    soon goes on in a worker thread, and so do all later steps of the run: busy Lua holds up neither the event loop nor
    other runs.

    When the run is cancelled, fails or is settled, the work it still has out is cancelled, and `drive` returns once it
    has ended, however long that takes, as an `asyncio.TaskGroup` would: nothing runs on behind a run that is over. Only
    plain functions are left alone, for no thread can be stopped. Work that takes no notice of its cancellation keeps
    `drive` waiting; the log of `runvil` then names it.

    Args:
        run: The state machine.
        perform: Does the work of one effect. An exception it raises cancels the run and comes out of `drive`.
        on_events: Called with the events of each step.
        on_answer: Called with each effect, its answer and the seconds it took, before the run sees it.
        on_outcome: Called with the outcome, before the last events.
    """

    def __init__(
        self,
        run: Run,
        perform: Callable[[Effect], Coroutine[Any, Any, Answer]],
        on_events: Callable[[Sequence[Event]], None],
        on_answer: Callable[[Effect, Answer, float], None],
        on_outcome: Callable[[Outcome], None] = lambda _: None,
    ) -> None:
        self._run = run
        self._perform = perform
        self._on_events = on_events
        self._on_answer = on_answer
        self._on_outcome = on_outcome
        self._loop = asyncio.get_running_loop()
        self._pending: dict[asyncio.Task[Answer], tuple[Effect, float]] = {}
        self._stopping: dict[asyncio.Task[Answer], str] = {}
        self._answers: list[tuple[Effect, Answer, float]] = []
        # What `drive` waits for. A queue of asyncio holds more memory than all else here, and one waits for each run.
        self._arrival: asyncio.Future[None] | None = None
        self._busy = False
        self._cancelled = False
        self._failure: BaseException | None = None

    def cancel(self) -> None:
        """Cancels the run and stops its work. May be called from any thread, at any time, more than once."""
        self._run.cancel()
        with contextlib.suppress(RuntimeError):  # the loop is closed: the run has ended
            self._loop.call_soon_threadsafe(self._stop)

    async def drive(self) -> Outcome:
        """Steps the run until it is done. Cancel the run with `cancel`, not by cancelling this coroutine."""
        try:
            outcome = await self._step_until_done()
        except BaseException:
            self._run.cancel()  # a step in a worker thread would go on and on
            raise
        finally:
            self._drop_all()
            for answered in self._answers:  # of a run that did not get to its end; records tell of them all the same
                self._guarded(self._on_answer, *answered)
            await ended(self._stopping)
        if self._failure is not None:
            raise self._failure
        return outcome

    async def _step_until_done(self) -> Outcome:
        while True:
            step = await self._step()
            if step.outcome is not None:
                self._guarded(self._on_outcome, step.outcome)
            self._guarded(self._on_events, step.events)
            if step.outcome is not None:
                return step.outcome
            for effect in step.effects:
                task = self._loop.create_task(self._perform(effect))
                self._pending[task] = effect, self._loop.time()
                task.add_done_callback(self._finish)
            if self._cancelled or self._run.decided:
                self._drop_all()
            await self._resume_with_answers()

    async def _step(self) -> Step:
        if not self._busy:
            step = self._run.step_within(LOOP_WORK)
            if step is not None:
                return step
            self._busy = True
        return await self._loop.run_in_executor(step_workers(), self._run.step)

    async def _resume_with_answers(self) -> None:
        """Waits for an answer and hands it over, along with all others that have arrived."""
        while not self._answers:
            self._arrival = self._loop.create_future()
            await self._arrival
        while self._answers:
            answers, self._answers = self._answers, []
            for effect, answer, seconds in answers:
                self._guarded(self._on_answer, effect, answer, seconds)
                try:
                    self._run.resume(effect.id, answer)
                except Exception as error:  # noqa: BLE001 - an answer the engine cannot take ends the run, not the driver
                    self._fail(error)
                    self._run.resume(effect.id, DROPPED)

    def _put(self, effect: Effect, answer: Answer, seconds: float) -> None:
        self._answers.append((effect, answer, seconds))
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    def _finish(self, task: asyncio.Task[Answer]) -> None:
        self._stopping.pop(task, None)
        pending = self._pending.pop(task, None)
        if pending is None:  # dropped before: the run has its answer, and nobody asks for what came of it
            if not task.cancelled():
                task.exception()
            return
        self._answered(task, *pending)

    def _answered(self, task: asyncio.Task[Answer], effect: Effect, started: float) -> None:
        """Queues the answer of a task that is done; one that was cancelled or raised drops its effect."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._fail(error)
        answer = DROPPED if task.cancelled() or error is not None else task.result()
        self._put(effect, answer, self._loop.time() - started)

    def _stop(self) -> None:
        self._cancelled = True
        self._drop_all()

    def _drop_all(self) -> None:
        pending, self._pending = self._pending, {}
        for task, (effect, started) in pending.items():
            if task.done():  # its answer has come, and is not lost
                self._answered(task, effect, started)
                continue
            self._stopping[task] = _name(effect)
            task.cancel()
            self._put(effect, DROPPED, self._loop.time() - started)

    def _guarded(self, observer: Callable[..., None], *args: Any) -> None:
        """Calls an observer; an exception it raises ends the run instead of breaking the driver."""
        try:
            observer(*args)
        except Exception as error:  # noqa: BLE001 - it is raised again when the run has ended
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self.cancel()


def _name(effect: Effect) -> str:
    """What an effect is, for the log."""
    match effect.kind:
        case "round":
            return "a broker"
        case "tool_call":
            return f"the tool {effect.path}"
        case kind:
            return f"the hook for {kind}"
