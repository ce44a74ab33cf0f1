"""Runs the comparison at scale: `python -m benches.scale.run`. Writes `benches/scale.md`."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import time
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benches.scale import windows

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent.parent
MESSAGES = (100, 1_000, 10_000)
NAMES = ("runvil", "openai client", "openai-agents", "pydantic-ai", "litellm")
BOUNDS = {"openai client": 40, "openai-agents": 40, "pydantic-ai": 40, "litellm": 5}
PACKAGES = ("openai", "openai-agents", "pydantic-ai-slim", "litellm", "langchain-core")
CROWD = 10_000
CROWDS = {
    "plain": "prompt documents, `run_async`, waiting for the first answer",
    "documents": "the same, after a tool round",
    "loops": "`Conversation.loop`, after a tool round",
}


def say(text: str) -> None:
    """Tells how far it is: on stderr."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")


def module(name: str, *arguments: object) -> str:
    """What a module of this folder prints, in a process of its own."""
    command = [sys.executable, "-m", f"benches.scale.{name}", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, encoding="utf-8").stdout.splitlines()[-1]


@contextmanager
def serving() -> Iterator[int]:
    """The model server in a process of its own; yields its port."""
    command = [sys.executable, "-m", "benches.scale.server"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def tool_rounds() -> dict[int, dict[str, float]]:
    """CPU seconds of four tool rounds and a text, by length of history and contestant."""
    found: dict[int, dict[str, float]] = {}
    with serving() as port:
        for messages in MESSAGES:
            found[messages] = {}
            for name in NAMES:
                say(f"{messages:,} messages: {name}")
                runs = 3 if messages == MESSAGES[-1] and name != "runvil" else 7
                found[messages][name] = min(json.loads(module("contestants", name, port, messages, runs)))
    return found


def report(rounds: dict[int, dict[str, float]], crowds: dict[str, Any], fits: dict[int, dict[str, float]]) -> str:
    """The tables as Markdown."""
    lines = [
        "# The tool loop at scale",
        "",
        "Made by `make bench-scale`. Times are CPU time of the client's process, the least of several runs; ratios are",
        "against runvil in the same run.",
        "",
        f"Python {platform.python_version()}, runvil {version('runvil')}, "
        + ", ".join(f"{name} {version(name)}" for name in PACKAGES),
        "",
        "## Four tool rounds and a text, over HTTP on loopback",
        "",
        "The client sends the whole history five times, not streamed, and runs a tool four times. Loading the history,",
        "making the client, and the first of the runs are not counted, for any of them: this is the steady state.",
        "",
        "| messages | runvil | " + " | ".join(NAMES[1:]) + " |",
        "|---:|" + "---:|" * len(NAMES),
    ]
    for messages, seconds in rounds.items():
        ours = seconds["runvil"]
        cells = [times(seconds[name] / ours) for name in NAMES[1:]]
        lines.append(f"| {messages:,} | {ours * 1e3:.1f} ms | " + " | ".join(cells) + " |")
    longest = rounds[MESSAGES[-1]]
    lines += ["", f"At {MESSAGES[-1]:,} messages:", "", "| against | wanted | measured | |", "|---|---:|---:|---|"]
    for name, bound in BOUNDS.items():
        ratio = longest[name] / longest["runvil"]
        lines.append(f"| {name} | at least {bound} times | {times(ratio)} | {'met' if ratio >= bound else 'missed'} |")
    lines += [
        "",
        f"## {CROWD:,} conversations at once in one process",
        "",
        "When all of them wait for an answer, memory is read, and then all go on. Then a second crowd follows in the",
        "same process. The steps of the first one touch memory that is new to the process: the system zeroes it, 2 MiB",
        "at a time where it has huge pages, which takes milliseconds on a virtual machine.",
        "",
        "| | wall time | memory of each | steps | p99 of one step | p99, second crowd |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for kind, title in CROWDS.items():
        crowd = crowds[kind]
        steps = " | | "
        if crowd["p99"] is not None:
            steps = f"{crowd['steps']:,} | {crowd['p99'] * 1e3:.2f} ms | {crowd['again'] * 1e3:.2f} ms"
        lines.append(f"| {title} | {crowd['wall']:.1f} s | {crowd['bytes'] / 1e3:.1f} kB | {steps} |")
    lines += [
        "",
        "Wanted for documents: under 100 kB each, and a p99 under 1 ms. "
        + " ".join(
            f"{CROWDS[kind].split(', ')[-1].capitalize()}: memory {_met(crowds[kind]['bytes'] <= 100e3)}, "
            f"p99 {_met(crowds[kind]['p99'] <= 1e-3)}, of the second crowd {_met(crowds[kind]['again'] <= 1e-3)}."
            for kind in ("plain", "documents")
        ),
        "",
        "## Fitting a window",
        "",
        f"Trimming keeps the last {windows.KEPT} records. langchain-core counts each record as one token, the cheapest",
        "counter it can have. litellm's trimming is measured on the shortest history, once.",
        "",
    ]
    works = list(dict.fromkeys(work for found in fits.values() for work in found))
    lines.append("| records | " + " | ".join(works) + " |")
    lines.append("|---:|" + "---:|" * len(works))
    for size, found in fits.items():
        lines.append(f"| {size:,} | " + " | ".join(_time(found.get(work)) for work in works) + " |")
    return "\n".join(lines) + "\n"


def times(ratio: float) -> str:
    """A ratio as the tables show it."""
    return f"{ratio:.1f}\u00d7"


def _met(is_met: bool) -> str:
    return "met" if is_met else "**missed**"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds * 1e6:,.1f} µs" if seconds < 1e-3 else f"{seconds * 1e3:,.1f} ms"


def main() -> None:
    """Measures everything and writes the report."""
    rounds = tool_rounds()
    crowds = {}
    for kind in CROWDS:
        say(f"{CROWD:,} {kind}")
        crowds[kind] = json.loads(module("crowd", kind, CROWD))
    fits = {}
    for size in windows.SIZES:
        say(f"windows of {size:,} records")
        fits[size] = windows.measure(size)
    text = report(rounds, crowds, fits)
    (ROOT / "benches" / "scale.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
