"""Measuring time and memory.

Time is CPU time of the process, best of several runs: other programs on the machine disturb it least. The contestants
take turns, so that a drift of the machine meets them all. The garbage collector is off while one is timed, which
favours those that make many objects.
"""

from __future__ import annotations

import gc
import statistics
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_clock = time.process_time_ns
# Nanoseconds; shorter work is repeated.
SHORTEST = 500_000


@dataclass(frozen=True)
class Timing:
    """What one contestant took for one kind of work."""

    seconds: float
    runs: int
    sampled: bool = False
    """Whether only some of its rounds were run, and the rest counted like them."""


@contextmanager
def without_collector() -> Iterator[None]:
    """Keeps the garbage collector from running, after it ran once."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def frozen() -> Iterator[None]:
    """Keeps the collector from looking at what is there already: it is no part of what is measured."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def per(timing: Timing, count: int) -> Timing:
    """The time of one of `count`."""
    return replace(timing, seconds=timing.seconds / count)


def once(work: Callable[[], Any]) -> float:
    """The seconds that one run takes. What it returns is dropped after the clock is read.

    One too short for the clock is repeated, and the mean is taken.
    """
    with without_collector():
        start = _clock()
        result = work()
        taken = _clock() - start
        del result
        if taken >= SHORTEST:
            return taken / 1e9
        count = min(SHORTEST // max(taken, 1), 1_000)
        start = _clock()
        for _ in range(count):
            work()
        return (_clock() - start) / count / 1e9


def interleaved(
    makers: Mapping[str, Callable[[], Callable[[], Any] | None]],
    *,
    runs: int,
    budget: float = 6.0,
    fresh: bool = False,
) -> dict[str, Timing]:
    """The best of up to `runs` runs of what each maker makes, taking turns.

    One that has taken `budget` seconds in all takes no further turn. With `fresh`, it is made anew for each run, and a
    run is not repeated.
    """
    best: dict[str, float] = {}
    made = {name: work for name, make in makers.items() if (work := make()) is not None}
    spent = dict.fromkeys(made, 0.0)
    count = dict.fromkeys(made, 0)
    with frozen():
        for turn in range(runs):
            for name in made:
                if turn and spent[name] * (turn + 1) / turn > budget:
                    continue
                if turn and fresh:
                    begun = time.process_time()
                    made[name] = makers[name]() or made[name]
                    # What takes long to make is not made often.
                    spent[name] += time.process_time() - begun
                taken = _single(made[name]) if fresh else once(made[name])
                spent[name] += taken
                count[name] += 1
                best[name] = min(taken, best.get(name, taken))
    return {name: Timing(best[name], count[name]) for name in made}


def _single(work: Callable[[], Any]) -> float:
    with without_collector():
        start = _clock()
        work()
        return (_clock() - start) / 1e9


def rounds(step: Callable[[Any], Any], added: list[Any], *, batch: int, budget: float) -> Timing:
    """The seconds that one round takes: the median of batches, until `budget` seconds are spent."""
    means = []
    spent = 0.0
    with without_collector():
        for start in range(0, len(added) - batch + 1, batch):
            records = added[start : start + batch]
            before = _clock()
            for item in records:
                step(item)
            taken = (_clock() - before) / 1e9
            means.append(taken / batch)
            spent += taken
            if spent > budget:
                break
    return Timing(statistics.median(means), len(means))


def loop(step: Callable[[Any], Any], added: list[Any]) -> Timing:
    """The seconds that all rounds of a loop take."""
    with without_collector():
        start = _clock()
        for item in added:
            step(item)
        taken = _clock() - start
    return Timing(taken / 1e9, 1)


def sampled_loop(step: Callable[[list[Any]], Any], added: list[list[Any]], samples: int) -> Timing:
    """What all rounds of a loop would take, from evenly spaced rounds.

    For a contestant whose round depends on the length of the conversation alone. Between two sampled rounds the others
    are added in one round that is not timed.
    """
    taken = 0
    done = 0
    for sample in range(samples):
        index = int((sample + 0.5) * len(added) / samples)
        if index > done:
            step([record for item in added[done:index] for record in item])
        with without_collector():
            before = _clock()
            step(added[index])
            taken += _clock() - before
        done = index + 1
    return Timing(taken / 1e9 / samples * len(added), 1, sampled=True)
