"""Runs the comparison of the model client and writes `client.md` beside this folder."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benches import conversations
from benches.client.contestants import ALL
from benches.client.server import piece
from benches.report import duration, times

if TYPE_CHECKING:
    from benches.client.contestants import Contestant

SIZES = (10, 1_000, 10_000)
# Requests of one measurement, and measurements, by the size of the history.
REQUESTS = {10: 40, 1_000: 10, 10_000: 2}
ROUNDS = 5
FRAGMENTS = 20
STREAMS = (1, 100, 1_000)
# Pieces of each of the streams that run at once.
PIECES = {1: 500, 100: 50, 1_000: 20}
TIMED = (100, 2)
"""Pieces whose way is timed, and the milliseconds between them."""


@dataclass
class Results:
    """What was measured, by contestant. Times are seconds."""

    request: dict[int, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    """CPU time of a request, by the size of its history."""
    body: dict[int, int] = field(default_factory=dict)
    """Bytes of the messages."""
    first: dict[int, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    """Time to the first fragment."""
    delay: dict[str, tuple[float, float]] = field(default_factory=dict)
    """From the server's write to the callback: median and the slowest of ten."""
    fragment: dict[int, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    """CPU time of a fragment with so many streams at once, their requests included."""
    wall: dict[int, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    """Time until all streams were read."""


def say(text: str) -> None:
    """Tells how far it is: on stderr."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")


def nothing(_: str) -> None:
    """Takes a fragment."""


def reply(fragments: int) -> str:
    """What the server says in so many fragments."""
    return "".join(map(piece, range(fragments)))


async def measure_requests(contestants: list[Contestant], results: Results) -> None:
    """The CPU time of one request and the time to its first fragment."""
    for size in SIZES:
        say(f"{size:,} records")
        records = conversations.conversation(size).records
        histories = {one.name: one.history(records) for one in contestants}
        results.body[size] = len(histories["runvil"].compose().to_json())
        for _ in range(ROUNDS):
            for one in contestants:
                history = histories[one.name]
                await _checked(one, history)
                gc.collect()
                gc.disable()
                began = time.process_time()
                for _ in range(REQUESTS[size]):
                    await one.ask(history, str(FRAGMENTS), nothing)
                spent = (time.process_time() - began) / REQUESTS[size]
                firsts = [await _first_fragment(one, history) for _ in range(REQUESTS[size])]
                gc.enable()
                _keep_least(results.request[size], one.name, spent)
                _keep_least(results.first[size], one.name, statistics.median(firsts))


async def _checked(one: Contestant, history: Any) -> None:
    """The first request of each, which also opens its connection, must bring the whole reply."""
    text = await one.ask(history, str(FRAGMENTS), nothing)
    assert text == reply(FRAGMENTS), f"{one.name} read {text!r}"


async def _first_fragment(one: Contestant, history: Any) -> float:
    seen: list[float] = []
    began = time.perf_counter()
    await one.ask(history, str(FRAGMENTS), lambda _: seen.append(time.perf_counter()) if not seen else None)
    return seen[0] - began


async def measure_delay(contestants: list[Contestant], results: Results) -> None:
    """How long a piece of text takes from the server's write to the callback."""
    say("the way of a fragment")
    pieces, pause = TIMED
    records = conversations.conversation(10).records
    for one in contestants:
        delays: list[float] = []

        def take(text: str, into: list[float] = delays) -> None:
            into.append((time.monotonic_ns() - int(text)) / 1e9)

        for _ in range(ROUNDS):
            await one.ask(one.history(records), f"{pieces}/timed/{pause}", take)
        assert len(delays) == pieces * ROUNDS
        results.delay[one.name] = statistics.median(delays), statistics.quantiles(delays, n=10)[-1]


async def measure_streams(contestants: list[Contestant], results: Results) -> None:
    """The CPU time of a fragment while many streams run at once, and how long all of them take."""
    records = conversations.conversation(10).records
    for streams in STREAMS:
        say(f"{streams:,} streams at once")
        model = f"{PIECES[streams]}/together/{streams}"
        for _ in range(3):
            for one in contestants:
                history = one.history(records)
                gc.collect()
                gc.disable()
                began, began_wall = time.process_time(), time.perf_counter()
                texts = await asyncio.gather(*(one.ask(history, model, nothing) for _ in range(streams)))
                spent, wall = time.process_time() - began, time.perf_counter() - began_wall
                gc.enable()
                assert all(text == reply(PIECES[streams]) for text in texts), one.name
                _keep_least(results.fragment[streams], one.name, spent / (streams * PIECES[streams]))
                _keep_least(results.wall[streams], one.name, wall)


def _keep_least(into: dict[str, float], name: str, value: float) -> None:
    into[name] = min(value, into.get(name, value))


def _table(title: str, rows: list[tuple[str, dict[str, float]]], names: list[str]) -> str:
    """This package's time, and how many times as long the others take."""
    lines = [f"| {title} | runvil | " + " | ".join(names[1:]) + " |", "|---|" + "---:|" * len(names)]
    for label, values in rows:
        ours = values["runvil"]
        cells = [times(values[name] / ours) for name in names[1:]]
        lines.append(f"| {label} | {duration(ours)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def report(results: Results, names: list[str], seconds: float) -> str:
    """The page with all tables."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("openai", "httpx", "litellm"))
    requests = [
        (f"{size:,} records, {results.body[size] / 1000:,.0f} kB", values) for size, values in results.request.items()
    ]
    firsts = [(f"{size:,} records", values) for size, values in results.first.items()]
    streams = [(f"{count:,} at once", values) for count, values in results.fragment.items()]
    walls = [(f"{count:,} at once", values) for count, values in results.wall.items()]
    delays = "\n".join(
        f"| {name} | {duration(median)} | {duration(slow)} |" for name, (median, slow) in results.delay.items()
    )
    return f"""# The model client, compared

`make bench-client` writes this file. All clients talk HTTP to one server on loopback, a process of its own, on
connections that are kept open; only the client's process is measured. runvil's column is this package's time, the
others are how many times as long the same took there; the contestants take turns, and the best of their turns counts.
The garbage collector is off while one is measured. All figures are of one run of {seconds:,.0f} s, on
{os.cpu_count()} cores, {platform.python_implementation()} {platform.python_version()}, with {versions}.

## CPU time of a request

A history in memory is sent, and a reply of {FRAGMENTS} fragments is read. runvil checks every record, composes the
messages, measures them against the context window, judges the reply and appends it to the conversation
(`Conversation.loop`). The others take messages that are composed already, and append nothing.

{_table("history", requests, names)}

## Time to the first fragment

The same requests, from the call to the first fragment (median of a turn). It holds the server's own time to receive the
body, which is the same for all.

{_table("history", firsts, names)}

## The way of a fragment

From the server's write to the client's callback, in a stream with a fragment every {TIMED[1]} ms.

| client | median | nine of ten below |
|---|---:|---:|
{delays}

## Streams at once

CPU time of a fragment, with the requests and the ends of the streams counted in. The server begins when all requests
are there, and sends a fragment to each stream in turn.

{_table("streams", streams, names)}

The time until all of them were read, which is in part the server's:

{_table("streams", walls, names)}
"""


async def measure(base_url: str) -> tuple[Results, list[str]]:
    """Everything."""
    results = Results()
    contestants = [make(base_url) for make in ALL]
    await measure_requests(contestants, results)
    await measure_delay(contestants, results)
    await measure_streams(contestants, results)
    return results, [one.name for one in contestants]


def main() -> None:
    """Measures and reports."""
    parser = argparse.ArgumentParser(prog="python -m benches.client", description=__doc__)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent.parent / "client.md", help="the table")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    began = time.monotonic()
    command = [sys.executable, "-m", "benches.client.server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as server:
        try:
            assert server.stdout is not None
            results, names = asyncio.run(measure(f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"))
        finally:
            server.kill()
    options.output.write_text(report(results, names, time.monotonic() - began), encoding="utf-8")
    say(f"wrote {options.output}")


if __name__ == "__main__":
    main()
