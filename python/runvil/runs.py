"""Running a prompt: to its end, in the background, or from plain synchronous code."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import secrets
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from runvil import _native
from runvil.effects import Effects, overrides
from runvil.errors import RunCancelled, RunError
from runvil.harness import Harness
from runvil.host import Host
from runvil.limits import Limits
from runvil.model import Models, bind_roles
from runvil.packs import Pack
from runvil.prompt import Prompt
from runvil.record import AnswerRecorder
from runvil.requests_log import RequestsLog
from runvil.run_log import RunLog

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Callable, Sequence
    from typing import Unpack

    from runvil._native import Effect, Event, Outcome
    from runvil.broker import Broker
    from runvil.harness import Answer
    from runvil.model import Model

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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


class RunOptions(TypedDict, total=False):
    """The keywords of `run`, `run_async` and `start`.

    Keys:
        models: A `Model` for every role, or models by role label (`*` is every role not named).
        broker: Serves model ids that the prompt names itself. Without it the broker of the model for every role does;
            where there is none either, such ids are refused.
        packs: The packs whose tools the prompt may use.
        host: The application's hooks.
        limits: What the run may spend.
        seed: Feeds what is random in the run; drawn at random when left out. Below 2 to the power of 64.
        started_at: The instant the run takes as its start; now when left out.
        execution: The run's id in its events and its log; random when left out.
        deadline: Seconds after which the run is cancelled.
        log: A file for the run log.
        requests: A file for the model requests.
        record: A file for the answers, as a script that replays the run.
        debug: Whether the events include each request and response in full.
    """

    models: Models
    broker: Broker | None
    packs: Sequence[Pack]
    host: Host | None
    limits: Limits | None
    seed: int | None
    started_at: datetime | None
    execution: str | None
    deadline: float | None
    log: str | os.PathLike[str] | None
    requests: str | os.PathLike[str] | None
    record: str | os.PathLike[str] | None
    debug: bool


async def run_async(prompt: Prompt, args: str = "", **options: Unpack[RunOptions]) -> Result:
    """Runs a prompt to its end.

    Cancelling the call cancels the run, stops its work, and raises CancelledError.

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
    return RunHandle(_Plan.make(prompt, args, options))


class RunHandle:
    """A run in the background."""

    def __init__(self, plan: _Plan) -> None:
        self._plan = plan
        self._listeners: list[_EventQueue] = []
        self._harness = Harness(plan.native, plan.effects.perform, self._on_events, plan.on_answer)
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
        """Cancels the run and stops its work. May be called from any thread; a run that has ended is left alone."""
        self._harness.cancel()

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
        await asyncio.wait([self._task])

    def _pass_deadline(self) -> None:
        self._too_late = True
        self.cancel()

    def _on_events(self, events: Sequence[Event]) -> None:
        self._plan.on_events(events)
        for listener in self._listeners:
            listener.put(events)

    async def _drive(self) -> Outcome:
        try:
            return await self._harness.drive()
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


@dataclass
class _Plan:
    """A run that is ready to start: the state machine, who performs its effects, and who watches."""

    native: _native.Run
    effects: Effects
    execution: str
    deadline: float | None
    event_sinks: list[Callable[[Sequence[Event]], None]] = field(default_factory=list)
    answer_sinks: list[Callable[[Effect, Answer], None]] = field(default_factory=list)
    files: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    @classmethod
    def make(cls, prompt: Prompt, args: str, options: RunOptions) -> _Plan:
        """Checks a run's keywords and builds it. Files are opened last, so a refused call leaves none behind."""
        unknown = options.keys() - RunOptions.__annotations__.keys()
        if unknown:
            raise TypeError(f"unknown keyword {min(unknown)!r}; keywords: {', '.join(RunOptions.__annotations__)}")
        if not isinstance(prompt, Prompt):
            raise TypeError(
                f"prompt must be a runvil.Prompt, got {type(prompt).__name__}; use Prompt.load or Prompt.parse"
            )
        if not isinstance(args, str):
            raise TypeError(f"args must be a string, got {type(args).__name__}")
        bound, other = bind_roles(prompt, options.get("models"))
        raw_broker = options.get("broker") or (other.broker if other is not None else None)
        packs = _checked_packs(options.get("packs", ()))
        host = options.get("host") or Host()
        deadline = options.get("deadline")
        if deadline is not None and not deadline > 0:
            raise ValueError(f"deadline must be a positive number of seconds, got {deadline}")
        execution = options.get("execution") or uuid.uuid4().hex
        params = _params(args, bound, packs, execution, raw_broker is not None, options)
        params["ui"] = host.ui()
        native = _native.Run(prompt._native, params)
        effects = Effects(bound, raw_broker, packs, host, prompt.path)
        plan = cls(native, effects, execution, deadline)
        plan._open_files(prompt, params, packs, options)
        if overrides(host, "on_event"):
            plan.event_sinks.append(functools.partial(_tell, host))
        return plan

    def _open_files(self, prompt: Prompt, params: dict[str, Any], packs: Sequence[Pack], options: RunOptions) -> None:
        with contextlib.ExitStack() as opened:
            if log := options.get("log"):
                run_log = opened.enter_context(contextlib.closing(RunLog(log, self.execution)))
                run_log.parameters(_logged_parameters(prompt, params))
                self.event_sinks.append(run_log.events)
                self.answer_sinks.append(run_log.answer)
                self.effects.request_sinks.append(run_log.request)
                self.effects.retry_sinks.append(run_log.retry)
            if requests := options.get("requests"):
                requests_log = opened.enter_context(contextlib.closing(RequestsLog(requests)))
                self.effects.request_sinks.append(requests_log.request)
            if record := options.get("record"):
                recorder = opened.enter_context(contextlib.closing(AnswerRecorder(record, packs)))
                self.answer_sinks.append(recorder.answer)
            self.files = opened.pop_all()

    def on_events(self, events: Sequence[Event]) -> None:
        for sink in self.event_sinks:
            sink(events)

    def on_answer(self, effect: Effect, answer: Answer) -> None:
        for sink in self.answer_sinks:
            sink(effect, answer)

    def close(self) -> None:
        self.files.close()


def _tell(host: Host, events: Sequence[Event]) -> None:
    for event in events:
        host.on_event(event)


def _params(
    args: str, bound: dict[str, Model], packs: Sequence[Pack], execution: str, raw_models: bool, options: RunOptions
) -> dict[str, Any]:
    """The run's parameters in the engine's form."""
    seed = options.get("seed")
    if seed is None:
        seed = secrets.randbits(64)
    elif isinstance(seed, bool) or not isinstance(seed, int):
        raise TypeError(f"seed must be an integer, got {type(seed).__name__}")
    elif not 0 <= seed < 2**64:
        raise ValueError(f"seed must be between 0 and {2**64 - 1}, got {seed}")
    limits = options.get("limits") or Limits()
    if not isinstance(limits, Limits):
        raise TypeError(f"limits must be a runvil.Limits, got {type(limits).__name__}")
    started_at = options.get("started_at") or datetime.now(UTC)
    return {
        "args": args,
        "execution": execution,
        "seed": seed,
        "started_at_ms": (started_at.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1),
        "models": {label: model.to_dict() for label, model in bound.items()},
        "raw_models": raw_models,
        "packs": [pack.to_dict() for pack in packs],
        "debug": bool(options.get("debug", False)),
        **limits.to_dict(),
    }


def _logged_parameters(prompt: Prompt, params: dict[str, Any]) -> dict[str, Any]:
    """The run's parameters in the form of the run log's first line."""
    limits = {name: params[name] for name in Limits().to_dict()}
    rest = {name: value for name, value in params.items() if name not in limits and name != "execution"}
    path = None if prompt.path is None else str(prompt.path)
    return {
        "runvil": _native.__version__,
        "name": prompt.name,
        "path": path,
        "prompt": prompt.source,
        **rest,
        "limits": limits,
    }


def _checked_packs(packs: Sequence[Pack]) -> list[Pack]:
    names: set[str] = set()
    for pack in packs:
        if not isinstance(pack, Pack):
            raise TypeError(f"packs must hold runvil.Pack objects, got {type(pack).__name__}")
        if pack.name in names:
            raise ValueError(f"two packs are named {pack.name!r}")
        names.add(pack.name)
    return list(packs)


def _retrieve(task: asyncio.Task[Outcome]) -> None:
    """Marks a task's exception as seen: a handle whose result nobody asks for is no mistake."""
    if not task.cancelled():
        task.exception()
