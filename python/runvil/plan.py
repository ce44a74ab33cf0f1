"""What a run starts from: its checked keywords, its state machine, and who watches it."""

from __future__ import annotations

import contextlib
import functools
import secrets
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypedDict

from runvil import _native
from runvil.activation import activate, needs_activation
from runvil.effects import Effects, overrides
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
    from collections.abc import Callable, Sequence

    from runvil._native import Effect, Event, Outcome
    from runvil.broker import Broker
    from runvil.harness import Answer
    from runvil.model import Model

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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


@dataclass
class Plan:
    """A run that is ready to start: the state machine, who performs its effects, and who watches."""

    prompt: Prompt
    packs: list[Pack]
    params: dict[str, Any]
    execution: str
    options: RunOptions
    effects: Effects
    deadline: float | None
    native: _native.Run | None = None
    event_sinks: list[Callable[[Sequence[Event]], None]] = field(default_factory=list)
    answer_sinks: list[Callable[[Effect, Answer, float], None]] = field(default_factory=list)
    outcome_sinks: list[Callable[[dict[str, Any]], None]] = field(default_factory=list)
    files: contextlib.ExitStack | None = None

    @classmethod
    def make(cls, prompt: Prompt, args: str, options: RunOptions) -> Plan:
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
        effects = Effects(bound, raw_broker, packs, host, prompt.path)
        plan = cls(prompt, packs, params, execution, options, effects, deadline)
        if not needs_activation(prompt, packs):
            plan.open()
        if overrides(host, "on_event"):
            plan.event_sinks.append(functools.partial(_tell, host))
        return plan

    async def activate(self) -> None:
        """Activates the packs. One that fails is from now on a pack that the application does not have."""
        self.packs = await activate(self.prompt, self.packs)
        self.params["packs"] = [pack.to_dict() for pack in self.packs]

    def open(self) -> _native.Run:
        """Builds the state machine and opens the files.

        Raises:
            OSError: A file cannot be written.
        """
        # The engine has them from here on; a run that waits need not hold them twice.
        params, self.params = self.params, {}
        native = self.native = _native.Run(self.prompt._native, params)
        if any(self.options.get(name) for name in ("log", "requests", "record")):
            self._open_files(self.prompt, params, self.packs, self.options)
        return native

    def _open_files(self, prompt: Prompt, params: dict[str, Any], packs: Sequence[Pack], options: RunOptions) -> None:
        with contextlib.ExitStack() as opened:
            if log := options.get("log"):
                run_log = opened.enter_context(contextlib.closing(RunLog(log, self.execution)))
                run_log.parameters(_logged_parameters(prompt, params))
                self.event_sinks.append(run_log.events)
                self.answer_sinks.append(run_log.answer)
                self.outcome_sinks.append(run_log.outcome)
                self.effects.request_sinks.append(run_log.request)
                self.effects.retry_sinks.append(run_log.retry)
            if requests := options.get("requests"):
                requests_log = opened.enter_context(contextlib.closing(RequestsLog(requests)))
                self.effects.request_sinks.append(requests_log.request)
            if record := options.get("record"):
                recorder = opened.enter_context(contextlib.closing(AnswerRecorder(record, packs)))
                self.effects.call_sinks.append(recorder.called)
                self.answer_sinks.append(recorder.answer)
            self.files = opened.pop_all()

    def on_events(self, events: Sequence[Event]) -> None:
        """Tells of the events of a step."""
        for sink in self.event_sinks:
            sink(events)

    def on_answer(self, effect: Effect, answer: Answer, seconds: float) -> None:
        """Tells of the answer to an effect, which took so many seconds."""
        for sink in self.answer_sinks:
            sink(effect, answer, seconds)

    def on_outcome(self, outcome: Outcome) -> None:
        """Tells how the run ended."""
        for sink in self.outcome_sinks:
            sink(outcome_fields(outcome))

    def close(self) -> None:
        """Closes the files."""
        if self.files is not None:
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


def outcome_fields(outcome: Outcome) -> dict[str, Any]:
    """How a run ended, without a provider's own words."""
    fields: dict[str, Any] = {"outcome": outcome.status}
    if outcome.status == "completed":
        fields["result"] = outcome.text or ""
    elif outcome.status == "failed":
        error = outcome.error or {}
        fields["error"] = {name: value for name, value in error.items() if value is not None and name != "detail"}
    return fields | {"turns": outcome.turns, "usage": outcome.usage}
