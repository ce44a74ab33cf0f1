"""The results as text: ratios on the terminal, `results.md`, the plot, and the summary in the README."""

# ruff: noqa: RUF001 - a ratio is written with a multiplication sign

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from benches import plot, targets
from benches.work import WORKS

if TYPE_CHECKING:
    from benches.contestant import Contestant
    from benches.results import Results

COMMAND = "make bench-peers"
OURS = "runvil"
LENT = "runvil, body lent"
BUFFER = "hand-written, one lent buffer"
MARKS = ("<!-- bench-peers: begin -->", "<!-- bench-peers: end -->")
README = Path(__file__).parent.parent / "README.md"
PLOT = "growing-loop.svg"

# Kinds of work that are not measured like the others, with their titles.
_ROUND = ("round", "one more round on a conversation of this length")
_LONG_RUN = ("long_run", "merge one run of user records of this length")
_LOOP = ("loop", "a growing loop of this many rounds")

# The columns of the summary besides this package's own.
_SUMMARY_COLUMNS = (
    "hand-written + orjson",
    "hand-written, incremental",
    "msgspec",
    "pydantic models",
    "openai types (pydantic)",
    "langchain-core",
    "litellm",
    "pydantic-ai",
    "openai-agents",
)


def duration(seconds: float) -> str:
    """Three digits and a unit."""
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= unit:
            value = seconds / unit
            return f"{value:,.0f} {name}" if value >= 100 else f"{value:.3g} {name}"
    return f"{seconds * 1e9:.0f} ns"


def times(ratio: float) -> str:
    """A ratio with the digits it deserves."""
    return f"{ratio:,.0f}×" if ratio >= 10 else f"{ratio:.2g}×"


def _rows(results: Results) -> list[tuple[str, str, int]]:
    """Work, title and length of each row of the summary."""
    size = results.sizes[-1]
    titles = {"estimate": "estimate tokens (a running count)"}
    rows = [(work.key, titles.get(work.key, work.title), size) for work in WORKS]
    rows.append((_ROUND[0], "one more round, body lent", size))
    longer = ((_LONG_RUN[0], "merge one run of {:,} user records"), (_LOOP[0], "loop of {:,} rounds, body lent"))
    for key, title in longer:
        lengths = sorted(length for work, length in results.times if work == key)
        if lengths:
            length = next((shown for shown in (3_000, 16_000) if shown in lengths), lengths[-1])
            rows.append((key, title.format(length), length))
    return rows


def summary(results: Results) -> str:
    """One table: what this package takes, and how many times as long the others take."""
    present = {contestant.name for contestant in results.contestants}
    columns = [name for name in _SUMMARY_COLUMNS if name in present]
    lines = ["| | runvil | " + " | ".join(columns) + " |", "|---|---:|" + "---:|" * len(columns)]
    for key, title, length in _rows(results):
        ours = LENT if key in ("round", "loop") else OURS
        base = results.seconds_of(key, length, ours)
        if base is None:
            continue
        cells = [_compared(results, key, length, name, ours) for name in columns]
        lines.append(f"| {title} | {duration(base)} | " + " | ".join(cells) + " |")
    if OURS in results.memory:
        cells = [
            f"{results.memory[name].kept / results.content_bytes:.2g}" if name in results.memory else ""
            for name in columns
        ]
        kept = results.memory[OURS].kept / results.content_bytes
        lines.append(f"| memory, times the bytes of content | {kept:.2g} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _compared(results: Results, key: str, length: int, name: str, ours: str) -> str:
    """How many times as long as ours: at the longest length that was measured, named when it is a shorter one."""
    lengths = [measured for measured in results.lengths(key, name) if measured <= length]
    if not lengths:
        return ""
    ratio = results.ratio(key, lengths[-1], name, ours)
    note = "" if lengths[-1] == length else f" at {lengths[-1]:,}"
    return "" if ratio is None else times(ratio) + note


def readme_section(results: Results) -> str:
    """What the README shows."""
    size = results.sizes[-1]
    shape = results.shapes[size]
    return f"""
`{COMMAND}` compares `runvil.Conversation` with what else one would pick, on the same seeded conversation of {size:,}
records ({shape.content_bytes:.0f} bytes of text each on average, {shape.tool_results:.0%} tool results,
{shape.in_parts:.0%} in content parts, {shape.non_ascii:.0%} with non-ASCII text, {shape.with_meta:.0%} with metadata).
The first column is this package's CPU time, the others are how many times as long the same work takes there; an empty
cell is work that a library does not do. All figures are of one run.

{summary(results)}
A whole turn checks every rule, merges, counts and serializes. The others check fewer rules; what each leaves out, the
other sizes and the versions are in [`benches/results.md`](benches/results.md).

The loop grows by two records a round and makes the whole request each time. {_nearest(results)}

![Total time of a growing loop against its length](benches/{PLOT})
"""


def _nearest(results: Results) -> str:
    """The best that plain Python does in the loop."""
    ratio = results.ratio("loop", 3_000, BUFFER, LENT)
    if ratio is None:
        return ""
    return (
        f"The nearest is hand-written Python that keeps its body in one buffer, as this package does: {times(ratio)} "
        "at 3,000 rounds."
    )


def _work_table(results: Results, key: str, title: str) -> list[str]:
    lengths = sorted(length for work, length in results.times if work == key)
    lines = [
        f"## {title[0].upper()}{title[1:]}",
        "",
        "| | " + " | ".join(f"{length:,}" for length in lengths) + " | to runvil | remark |",
        "|---|" + "---:|" * (len(lengths) + 1) + "---|",
    ]
    for contestant in results.contestants:
        cells = []
        for length in lengths:
            timing = results.times[key, length].get(contestant.name)
            text = "" if timing is None else duration(timing.seconds)
            cells.append(f"~{text}" if timing and timing.sampled else text)
        if not any(cells):
            continue
        compared = _compared(results, key, lengths[-1], contestant.name, OURS)
        remark = _remark(contestant, key)
        lines.append(f"| {contestant.name} | " + " | ".join(cells) + f" | {compared} | {remark} |")
    return [*lines, ""]


def _remark(contestant: Contestant, key: str) -> str:
    names = {"long_run": "merge", "round": "loop", "turn_objects": "turn", "turn_json": "turn"}
    return contestant.remarks.get(names.get(key, key), "")


def _memory_table(results: Results) -> list[str]:
    lines = [
        f"## Memory of {results.sizes[-1]:,} records",
        "",
        f"Loaded from JSON, in a process of its own, times the {results.content_bytes / 1e6:.1f} MB of text.",
        "",
        "| | kept | peak while loading | peak to kept |",
        "|---|---:|---:|---:|",
    ]
    for name, memory in results.memory.items():
        kept, peak = memory.kept / results.content_bytes, memory.peak / results.content_bytes
        lines.append(f"| {name} | {kept:.2f} | {peak:.2f} | {peak / kept:.2f} |")
    return [*lines, ""]


def versions(results: Results) -> list[str]:
    """Each distribution and its version."""
    names = dict.fromkeys(package for contestant in results.contestants for package in contestant.packages)
    return [f"{name} {metadata.version(name)}" for name in names]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def markdown(results: Results) -> str:
    """The whole report."""
    size = results.sizes[-1]
    parts = [
        "# Comparison",
        "",
        f"Made by `{COMMAND}` in {results.seconds / 60:.0f} minutes, all figures in one run. CPU time, best of several",
        "runs, the contestants taking turns, the garbage collector off. `~` marks a loop of which evenly spaced rounds",
        "were run and the rest counted like them. Ratios are to runvil at the same length, with the body as bytes.",
        "",
        f"{platform.python_implementation()} {platform.python_version()}, {_processor()}, {os.cpu_count()} cores. "
        + ", ".join(versions(results))
        + ".",
        "",
        "| records | as JSON | bytes of text each | tool results | in parts | non-ASCII | with metadata |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for length in results.sizes:
        shape = results.shapes[length]
        shares = (shape.tool_results, shape.in_parts, shape.non_ascii, shape.with_meta)
        parts.append(
            f"| {length:,} | {results.json_bytes[length] / 1e6:.2f} MB | {shape.content_bytes:.0f} | "
            + " | ".join(f"{share:.1%}" for share in shares)
            + " |"
        )
    parts += ["", f"## Summary: {size:,} records", "", summary(results)]
    parts += ["## What should hold", "", *targets.table(results), ""]
    for work in WORKS:
        parts += _work_table(results, work.key, work.title)
    for key, title in (_ROUND, _LONG_RUN, _LOOP):
        parts += _work_table(results, key, title)
    parts += [f"![Total time against length]({PLOT})", ""]
    parts += _memory_table(results)
    parts += ["## What was compared", "", "The run stops when any of these differ."]
    for length in sorted(results.agreed):
        parts += ["", f"At {length:,} records:" if length else "At no size in particular:", ""]
        parts += [f"- {line}" for line in results.agreed[length]]
    return "\n".join(parts) + "\n"


def text(results: Results) -> str:
    """What the terminal shows."""
    return "\n".join([summary(results), *targets.table(results), *_memory_table(results), *versions(results), ""])


def loop_plot(results: Results) -> str:
    """Total time against length for the growing loop."""
    lines = []
    for contestant in results.contestants:
        lengths = results.lengths("loop", contestant.name)
        timings = [results.times["loop", length][contestant.name] for length in lengths]
        if lengths:
            points = [(length, timing.seconds) for length, timing in zip(lengths, timings, strict=True)]
            hollow = frozenset(length for length, timing in zip(lengths, timings, strict=True) if timing.sampled)
            label = "runvil, body as bytes" if contestant.name == OURS else contestant.name
            lines.append(plot.Line(label, points, hollow, strong=contestant.name == LENT))
    return plot.log_log(
        "A growing loop: two records a round, then the whole request",
        "rounds",
        "CPU time of all rounds",
        lines,
        f"{COMMAND} · hollow: evenly spaced rounds measured",
    )


def write(results: Results, folder: Path) -> None:
    """Writes `results.md` and the plot, and renews the README's section when it has one."""
    (folder / "results.md").write_text(markdown(results))
    (folder / PLOT).write_text(loop_plot(results))
    if folder == Path(__file__).parent:
        page = README.read_text()
        begin, end = (page.find(mark) for mark in MARKS)
        if 0 <= begin < end:
            README.write_text(page[: begin + len(MARKS[0])] + readme_section(results) + page[end:])
