"""The lines of a run log, one at a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

Line: TypeAlias = tuple[int, dict[str, Any] | str]
"""A line's 1-based number, and its object or what is wrong with it."""

_BAD_LINES_AT_THE_START = 8
"""So many unreadable lines before the first good one make a file something else than a run log."""


class NotARunLogError(Exception):
    """A file that is no run log: the message says why and what writes one."""


def read_lines(path: str | os.PathLike[str]) -> Iterator[Line]:
    """Reads a run log as it stands, also one that is still being written. Blank lines are passed over.

    Raises:
        NotARunLogError: The file holds something else, or nothing.
        OSError: It cannot be read.
    """
    bad: list[tuple[int, str]] = []
    known = False
    with Path(path).open("rb") as file:
        for number, raw in enumerate(file, start=1):
            if raw.isspace():
                continue
            line = _parse(raw)
            if known:
                yield number, line
            elif isinstance(line, str):
                bad.append((number, line))
                if len(bad) > _BAD_LINES_AT_THE_START:
                    break
            elif isinstance(line.get("kind"), str) and isinstance(line.get("execution"), str):
                known = True
                yield from bad
                yield number, line
            else:
                raise _refusal(path, f"line {number} has no kind and no execution")
    if not known:
        raise _refusal(path, f"line {bad[0][0]} {bad[0][1]}" if bad else "it is empty")


def _parse(raw: bytes) -> dict[str, Any] | str:
    """A line's object, or what is wrong with it."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return "is not JSON" if raw.endswith(b"\n") else "is cut off: the file ends in the middle of it"
    return value if isinstance(value, dict) else "is no JSON object"


def _refusal(path: str | os.PathLike[str], reason: str) -> NotARunLogError:
    return NotARunLogError(f"{path} is no run log: {reason}; `runvil run PROMPT --log FILE` writes one")
