"""What should hold of the figures of one run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benches.results import Results

OURS, LENT = "runvil", "runvil, body lent"
NAIVE, INCREMENTAL, ORJSON = "hand-written + orjson", "hand-written, incremental", "orjson alone"
# What any merging does at least. Its time is not linear either: a longer run no longer fits the caches.
COPYING = "copying the texts"


@dataclass(frozen=True)
class Target:
    """One figure and its bound."""

    key: str
    what: str
    value: float | None
    bound: float
    at_least: bool

    @property
    def met(self) -> bool | None:
        """None when it was not measured."""
        if self.value is None:
            return None
        return self.value >= self.bound if self.at_least else self.value <= self.bound


def all_of(results: Results) -> list[Target]:
    """Every target that this comparison measures."""
    size = results.sizes[-1]
    loop = max((length for key, length in results.times if key == "loop" and length <= 3_000), default=0)
    found: list[Target] = []

    def at_least(key: str, work: str, length: int, name: str, bound: float, ours: str = OURS) -> None:
        what = f"{_WORDS[work].format(length)}: {name} to {ours}"
        found.append(Target(key, what, results.ratio(work, length, name, ours), bound, at_least=True))

    def at_most(key: str, what: str, value: float | None, bound: float) -> None:
        found.append(Target(key, what, value, bound, at_least=False))

    def against(numerator: tuple[str, int, str], denominator: tuple[str, int, str]) -> float | None:
        one, other = results.seconds_of(*numerator), results.seconds_of(*denominator)
        return one / other if one is not None and other else None

    loads, dumps = ("parse", size, ORJSON), ("serialize", size, ORJSON)
    at_most("P1", "turn from JSON to orjson.loads alone, body as bytes", against(("turn_json", size, OURS), loads), 0.6)
    at_most("P1", "turn from JSON to orjson.loads alone, body lent", against(("turn_json", size, LENT), loads), 0.4)
    for name, bound in ((NAIVE, 7), ("msgspec", 4), ("langchain-core", 18)):
        at_least("P1", "turn_json", size, name, bound)
    for name, bound in ((NAIVE, 3), ("msgspec", 2), ("langchain-core", 10)):
        at_least("P2", "turn_objects", size, name, bound)
    at_most("P2", "turn from objects to orjson.dumps of ready dicts", against(("turn_objects", size, OURS), dumps), 3.5)
    one_round = results.seconds_of("round", size, LENT)
    at_most("P3", f"microseconds of one more round on {size:,} records", one_round and one_round * 1e6, 20)
    first = results.sizes[0]
    at_most(
        "P3", f"one more round on {size:,} to {first:,}", against(("round", size, LENT), ("round", first, LENT)), 1.5
    )
    for name, bound in ((INCREMENTAL, 20), (NAIVE, 60), ("langchain-core", 150)):
        at_least("P4", "loop", loop, name, bound, LENT)
    longest = max((length for key, length in results.times if key == "loop"), default=0)
    at_most(
        "P4",
        f"exponent of the loop from 1,000 to {longest:,} rounds",
        results.exponent("loop", LENT, 1_000, longest) if longest > 1_000 else None,
        1.15,
    )
    at_least("P5", "append", size, INCREMENTAL, 1.5)
    at_most(
        "P5",
        f"append to {size:,} to append to {first:,}",
        against(("append", size, OURS), ("append", first, OURS)),
        1.3,
    )
    at_most("P6", "reading through views to a dict", against(("read", size, OURS), ("read", size, NAIVE)), 2)
    at_least("P6", "columns", size, NAIVE, 5)
    memory = results.memory.get(OURS)
    kept = None if memory is None else memory.kept / results.content_bytes
    at_most("P7", "memory kept to the bytes of text", kept, 1.6)
    at_most("P7", "peak while loading to memory kept", None if memory is None else memory.peak / memory.kept, 1.3)
    long_run = results.seconds_of("long_run", 16_000, OURS)
    at_most("P8", "milliseconds of merging a run of 16,000 user records", long_run and long_run * 1e3, 10)
    ours, copying = (results.exponent("long_run", name, 1_000, 16_000) for name in (OURS, COPYING))
    at_most(
        "P8",
        "exponent of merging a run from 1,000 to 16,000 records, above that of copying its texts",
        ours - copying if ours and copying else None,
        0.15,
    )
    snapshot = results.seconds_of("snapshot", size, OURS)
    at_most("P9", f"milliseconds of a snapshot of {size:,} records", snapshot and snapshot * 1e3, 1)
    at_least("P9", "trim", size, "langchain-core", 200)
    return found


_WORDS = {
    "turn_json": "turn from JSON",
    "turn_objects": "turn from objects",
    "loop": "loop of {:,} rounds",
    "append": "append",
    "columns": "columns",
    "trim": "trim",
}


def table(results: Results) -> list[str]:
    """The targets as a table."""
    lines = ["| what | bound | measured | |", "|---|---:|---:|---|"]
    for target in all_of(results):
        bound = f"{'≥' if target.at_least else '≤'} {target.bound:g}"
        value = "" if target.value is None else f"{target.value:,.3g}"
        met = {True: "met", False: "**missed**", None: "not measured"}[target.met]
        lines.append(f"| {target.what} | {bound} | {value} | {met} |")
    return lines
