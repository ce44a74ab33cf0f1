"""Runs the comparison: `python -m benches.run`. Prints ratios; writes `results.md` and the plot beside this file."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benches import agreement, conversations, measure, memory, report, targets
from benches.peers.all import NAMES, by_name
from benches.results import Results
from benches.work import WORKS, Prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benches.contestant import Contestant
    from benches.measure import Timing

SIZES = (1_000, 10_000, 100_000)
LONG_RUNS = (1_000, 4_000, 16_000)
LOOPS = (100, 300, 1_000, 3_000, 10_000)
# How often a kind of work is run, when it does not take too long: single runs vary by a half on a shared machine.
RUNS = 9
# Longer ones are not run, or sampled: seconds.
LONGEST = 10.0
SAMPLES = 8
# A loop that takes this many seconds is run once.
ONCE = 2.0


def say(text: str) -> None:
    """Tells how far it is: on stderr."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")


def measure_size(results: Results, contestants: Sequence[Contestant], size: int) -> None:
    """Everything that is measured on one conversation."""
    conversation = conversations.conversation(size)
    prepared = [Prepared(contestant, conversation) for contestant in contestants]
    say(f"{size:,} records: comparing results")
    # On the longest one the peers' own forms are not compared again, which takes longer than measuring them.
    compared = [it for it in prepared if it.contestant.merges_by_rules or size < SIZES[-1]]
    results.agreed[size] = agreement.check(compared, conversation)
    results.shapes[size] = conversations.shape(conversation.records)
    results.json_bytes[size] = len(conversation.records_json)
    for work in WORKS:
        say(f"{size:,} records: {work.title}")
        makers = {it.contestant.name: partial(work.make, it) for it in prepared}
        timings = measure.interleaved(makers, runs=RUNS, fresh=work.fresh)
        results.times[work.key, size] = {name: measure.per(timing, work.per) for name, timing in timings.items()}
    say(f"{size:,} records: one more round")
    with measure.frozen():
        results.times["round", size] = one_more_round(prepared)


def one_more_round(prepared: list[Prepared]) -> dict[str, Timing]:
    """What a round costs on a conversation that is there already."""
    timings = {}
    for it in prepared:
        contestant = it.contestant
        if contestant.looper is None:
            continue
        count = 400 if contestant.incremental else 6
        added = _pairs(contestant, count, seed=conversations.SEED + 2)
        step = contestant.looper(contestant.objects(it.conversation))
        # The first round makes what the later ones continue.
        step(added[0])
        batch = 20 if contestant.incremental else 1
        timings[contestant.name] = measure.rounds(step, added[1:], batch=batch, budget=2.0)
    return timings


def _pairs(contestant: Contestant, count: int, seed: int = conversations.SEED) -> list[list[Any]]:
    pairs = conversations.rounds(count, seed)
    return [contestant.objects(conversations.Conversation(list(pair))) for pair in pairs]


def measure_long_runs(results: Results, contestants: Sequence[Contestant]) -> None:
    """Runs of one role, as long as the time that they are predicted to take allows."""
    merge = next(work for work in WORKS if work.key == "merge")
    predicted: dict[str, float] = {}
    for length in LONG_RUNS:
        say(f"a run of {length:,} user records")
        conversation = conversations.long_run(length)
        makers: dict[str, Callable[[], Callable[[], Any] | None]] = {
            contestant.name: partial(merge.make, Prepared(contestant, conversation))
            for contestant in contestants
            if predicted.get(contestant.name, 0.0) <= LONGEST
        }
        makers[targets.COPYING] = partial(_copying, conversation)
        timings = measure.interleaved(makers, runs=5, budget=2.0)
        results.times["long_run", length] = timings
        # Whoever was left out stays out.
        predicted |= {name: timing.seconds * 16 for name, timing in timings.items()}


def _copying(conversation: conversations.Conversation) -> Callable[[], bytes]:
    texts = [json.dumps(record["content"]).encode() for record in conversation.records]
    return partial(b"\n\n".join, texts)


def measure_loops(results: Results, contestants: Sequence[Contestant], lengths: Sequence[int]) -> None:
    """Conversations that grow by two records each round, from a question on."""
    first = conversations.Conversation(conversations.conversation(3).records)
    loopers = [contestant for contestant in contestants if contestant.looper]
    added = {contestant.name: _pairs(contestant, max(lengths)) for contestant in loopers}
    before: dict[str, tuple[int, float]] = {}
    with measure.frozen():
        for length in lengths:
            say(f"a loop of {length:,} rounds")
            timings = results.times["loop", length] = {}
            for turn in range(3):
                for contestant in loopers:
                    name = contestant.name
                    if turn and timings[name].seconds > ONCE:
                        continue
                    assert contestant.looper is not None
                    step = contestant.looper(contestant.objects(first))
                    rounds = added[name][:length]
                    earlier, took = before.get(name, (length, 0.0))
                    if took * (length / earlier) ** 2 > LONGEST:
                        timing = measure.sampled_loop(step, rounds, SAMPLES)
                    else:
                        timing = measure.loop(step, rounds)
                    if name not in timings or timing.seconds < timings[name].seconds:
                        timings[name] = timing
            before = {name: (length, timing.seconds) for name, timing in timings.items()}


def measure_memory(results: Results, contestants: Sequence[Contestant], size: int) -> None:
    """What holding a conversation takes, each contestant in a process of its own."""
    conversation = conversations.conversation(size)
    shape = conversations.shape(conversation.records)
    results.content_bytes = round(shape.content_bytes * size)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "conversation.json"
        for contestant in contestants:
            if contestant.hold or contestant.parse:
                say(f"{size:,} records: memory of {contestant.name}")
                file.write_bytes(contestant.json(conversation))
                results.memory[contestant.name] = memory.of(contestant, file)


def main() -> None:
    """Measures, compares and reports."""
    parser = argparse.ArgumentParser(prog="python -m benches.run", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the smaller sizes only; writes no file")
    parser.add_argument(
        "--only", metavar="NAME", action="append", choices=NAMES, help="one contestant; may be repeated"
    )
    parser.add_argument("--output", type=Path, default=Path(__file__).parent, help="the folder of the results")
    options = parser.parse_args()
    contestants = [by_name(name) for name in NAMES if not options.only or name in options.only]
    sizes = SIZES[:2] if options.quick else SIZES
    start = time.monotonic()
    results = Results(contestants=contestants, sizes=list(sizes))
    results.agreed[0] = agreement.check_refusals(contestants) + agreement.check_loops(contestants)
    for size in sizes:
        measure_size(results, contestants, size)
    measure_long_runs(results, contestants)
    measure_loops(results, contestants, LOOPS[:3] if options.quick else LOOPS)
    measure_memory(results, contestants, sizes[-1])
    results.seconds = time.monotonic() - start
    sys.stdout.write(report.text(results))
    if not options.quick:
        report.write(results, options.output)
        say(f"wrote {options.output}/results.md")


if __name__ == "__main__":
    main()
