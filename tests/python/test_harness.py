"""The driver, on a state machine made for the test."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import pytest

from runvil import threads
from runvil.harness import Answer, Harness


@dataclass
class Effect:
    id: int
    kind: str = "timer"


@dataclass
class Step:
    effects: list[Effect] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    outcome: str | None = None


class Machine:
    """Asks for the effects of each step in turn; is done when every one is answered."""

    def __init__(self, *steps: list[Effect], busy: bool = False) -> None:
        self.steps = list(steps)
        self.open: set[int] = set()
        self.answers: list[tuple[int, Answer]] = []
        self.cancelled = threading.Event()
        self.decided = False
        self.busy = busy
        self.step_threads: set[str] = set()

    def step_within(self, work: int) -> Step | None:
        assert work > 0
        return None if self.busy else self.step()

    def step(self) -> Step:
        self.step_threads.add(threading.current_thread().name)
        while self.busy and not self.cancelled.is_set():
            time.sleep(0.001)
        if self.cancelled.is_set():
            self.decided = True
            return Step(events=["end"], outcome="cancelled") if not self.open else Step()
        if self.steps and not self.open:
            effects = self.steps.pop(0)
            self.open = {effect.id for effect in effects}
            return Step(effects, events=["step"])
        return Step() if self.open else Step(events=["end"], outcome="completed")

    def resume(self, effect_id: int, answer: Answer) -> None:
        self.open.remove(effect_id)
        self.answers.append((effect_id, answer))

    def cancel(self) -> None:
        self.cancelled.set()


def harness(machine: Any, perform: Any, **observers: Any) -> Harness:
    nothing = {"on_events": lambda _: None, "on_answer": lambda *_: None}
    return Harness(machine, perform, **(nothing | observers))


async def drive(machine: Any, perform: Any, **observers: Any) -> Any:
    return await harness(machine, perform, **observers).drive()


async def within(seconds: float, driver: Harness) -> Any:
    return await asyncio.wait_for(driver.drive(), seconds)


async def test_effects_run_concurrently_and_answers_go_back_as_they_arrive() -> None:
    machine = Machine([Effect(1), Effect(2), Effect(3)], [Effect(4)])
    started: list[int] = []
    all_started = asyncio.Event()

    async def perform(effect: Effect) -> Answer:
        started.append(effect.id)
        if len(started) == 3:
            all_started.set()
        await all_started.wait()
        await asyncio.sleep({1: 0.03, 2: 0.01, 3: 0.02, 4: 0}[effect.id])
        return "timer", effect.id

    assert await drive(machine, perform) == "completed"
    assert started == [1, 2, 3, 4]
    assert machine.answers == [(2, ("timer", 2)), (3, ("timer", 3)), (1, ("timer", 1)), (4, ("timer", 4))]
    assert machine.step_threads == {threading.current_thread().name}


async def test_an_answer_is_observed_before_the_run_sees_it() -> None:
    machine = Machine([Effect(1)])
    seen: list[Any] = []

    async def perform(effect: Effect) -> Answer:
        return "timer", effect.id

    def on_answer(effect: Effect, answer: Answer, seconds: float) -> None:
        assert seconds >= 0
        seen.append((effect.id, answer, list(machine.answers)))

    await drive(machine, perform, on_events=seen.append, on_answer=on_answer)
    assert seen == [["step"], (1, ("timer", 1), []), ["end"]]


async def test_cancel_stops_the_work_and_drops_it() -> None:
    machine = Machine([Effect(1), Effect(2)])
    stopped: list[int] = []

    async def perform(effect: Effect) -> Answer:
        try:
            await asyncio.sleep(60)
        finally:
            stopped.append(effect.id)
        return "timer", None

    driver = harness(machine, perform)
    asyncio.get_running_loop().call_later(0.02, driver.cancel)
    assert await within(1, driver) == "cancelled"
    assert sorted(stopped) == [1, 2]
    assert machine.answers == [(1, ("dropped", None)), (2, ("dropped", None))]


async def test_cancel_reaches_a_busy_step_from_another_thread() -> None:
    machine = Machine(busy=True)
    driver = harness(machine, None)
    threading.Timer(0.05, driver.cancel).start()
    assert await within(1, driver) == "cancelled"
    assert all(name.startswith("runvil step") for name in machine.step_threads)


async def test_a_run_that_was_busy_once_stays_with_the_workers() -> None:
    class BusyOnce(Machine):
        def step_within(self, work: int) -> Step | None:
            begun.append(work)
            return None

    begun: list[int] = []
    machine = BusyOnce([Effect(1)], [Effect(2)])

    async def perform(effect: Effect) -> Answer:
        return "timer", effect.id

    assert await drive(machine, perform) == "completed"
    assert len(begun) == 1
    assert all(name.startswith("runvil step") for name in machine.step_threads)


async def test_cancel_waits_for_work_that_takes_its_time_and_names_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(threads, "PATIENCE", 0.02)
    release = asyncio.Event()

    async def perform(_effect: Effect) -> Answer:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "timer", None

    driver = harness(machine := Machine([Effect(1)]), perform)
    driving: asyncio.Task[Any] = asyncio.create_task(driver.drive())
    asyncio.get_running_loop().call_later(0.02, driver.cancel)
    await asyncio.wait([driving], timeout=0.2)
    assert not driving.done()
    assert [record.message for record in caplog.records] == [
        "waiting for what was cancelled and has not ended: the hook for timer"
    ]
    driving.cancel()  # does not cut the wait short
    await asyncio.sleep(0.01)
    assert not driving.done()
    release.set()
    assert await driving == "cancelled"
    assert machine.answers == [(1, ("dropped", None))]
    assert len(asyncio.all_tasks()) == 1


async def test_a_driver_that_is_cancelled_itself_tells_of_every_answer() -> None:
    seen: list[tuple[int, Answer]] = []

    async def perform(_effect: Effect) -> Answer:
        await asyncio.sleep(60)
        return "timer", None

    driver = harness(
        Machine([Effect(1)]), perform, on_answer=lambda effect, answer, _: seen.append((effect.id, answer))
    )
    driving = asyncio.create_task(driver.drive())
    await asyncio.sleep(0.01)
    driving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await driving
    assert seen == [(1, ("dropped", None))]
    assert len(asyncio.all_tasks()) == 1


async def test_a_driver_that_is_cancelled_itself_stops_the_busy_step() -> None:
    machine = Machine(busy=True)
    driving = asyncio.create_task(harness(machine, None).drive())
    await asyncio.sleep(0.05)
    driving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await driving
    assert machine.cancelled.is_set()


async def test_a_settled_run_has_its_other_work_dropped() -> None:
    class Settles(Machine):
        def step(self) -> Step:
            if self.answers and self.open:
                self.decided = True
                return Step()
            return super().step()

    machine = Settles([Effect(1), Effect(2)])

    async def perform(effect: Effect) -> Answer:
        await asyncio.sleep(0 if effect.id == 1 else 60)
        return "timer", None

    assert await asyncio.wait_for(drive(machine, perform), 1) == "completed"
    assert machine.answers == [(1, ("timer", None)), (2, ("dropped", None))]


async def test_an_exception_in_the_work_ends_the_run_and_comes_out() -> None:
    async def perform(_effect: Effect) -> Answer:
        raise LookupError("mine")

    machine = Machine([Effect(1)], [Effect(2)])
    with pytest.raises(LookupError, match="mine"):
        await drive(machine, perform)
    assert machine.cancelled.is_set()
    assert machine.answers == [(1, ("dropped", None))]


async def test_an_exception_in_an_observer_ends_the_run_and_comes_out() -> None:
    async def perform(_effect: Effect) -> Answer:
        return "timer", None

    def on_events(_events: list[str]) -> None:
        raise LookupError("mine")

    machine = Machine([Effect(1)])
    with pytest.raises(LookupError, match="mine"):
        await drive(machine, perform, on_events=on_events)
    assert machine.cancelled.is_set()


async def test_a_machine_that_breaks_leaves_no_work_behind() -> None:
    class Breaks(Machine):
        def step(self) -> Step:
            if self.answers:
                raise RuntimeError("broken")
            return super().step()

    stopped = asyncio.Event()

    async def perform(effect: Effect) -> Answer:
        try:
            await asyncio.sleep(0 if effect.id == 1 else 60)
        finally:
            stopped.set()
        return "timer", None

    with pytest.raises(RuntimeError, match="broken"):
        await drive(Breaks([Effect(1), Effect(2)]), perform)
    assert stopped.is_set()
    assert len(asyncio.all_tasks()) == 1


async def test_an_answer_the_run_refuses_ends_it_and_the_reason_comes_out() -> None:
    class Refuses(Machine):
        def resume(self, effect_id: int, answer: Answer) -> None:
            if answer[0] != "dropped":
                raise UnicodeError("half a character")
            super().resume(effect_id, answer)

    async def perform(_effect: Effect) -> Answer:
        return "timer", None

    with pytest.raises(UnicodeError, match="half a character"):
        await drive(Refuses([Effect(1)]), perform)
