"""How much memory one contestant takes to hold a conversation: `python -m benches.memory NAME FILE` in a fresh process.

Prints the bytes that are kept, and the peak while loading, both without the JSON they were loaded from.
"""

from __future__ import annotations

import ctypes
import gc
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benches.contestant import Contestant


@dataclass(frozen=True)
class Memory:
    """Bytes of resident memory."""

    kept: int
    peak: int


def of(contestant: Contestant, file: Path) -> Memory:
    """Measures in a process of its own."""
    command = [sys.executable, "-m", "benches.memory", contestant.name, str(file)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Memory(**json.loads(done.stdout.splitlines()[-1]))


def _resident(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


def _settle() -> None:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def main(name: str, path: str) -> None:
    """Loads the file as the contestant does and prints what that took."""
    from benches.conversations import conversation
    from benches.peers.all import by_name

    contestant = by_name(name)
    load = contestant.hold or contestant.parse
    if load is None:
        raise SystemExit(f"{name} does not load JSON")
    # Whatever it sets up at its first use is not the conversation's.
    load(contestant.json(conversation(100)))
    _settle()
    before = _resident("VmRSS")
    data = Path(path).read_bytes()
    Path("/proc/self/clear_refs").write_text("5")
    held = load(data)
    peak = _resident("VmHWM") - before - len(data)
    del data
    _settle()
    kept = _resident("VmRSS") - before
    del held
    sys.stdout.write(json.dumps({"kept": kept, "peak": max(peak, kept)}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
