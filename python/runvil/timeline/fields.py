"""Reading fields of lines that anyone may have edited: a value of another type counts as absent."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def text_of(line: Mapping[str, Any], name: str) -> str:
    """A string; empty when absent."""
    value = line.get(name)
    return value if isinstance(value, str) else ""


def count_of(line: Mapping[str, Any], name: str) -> int | None:
    """A whole number from 0."""
    value = line.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def seconds_of(line: Mapping[str, Any]) -> float | None:
    """The field `seconds`, a duration."""
    value = line.get("seconds")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        return None
    return float(value)


def list_of(line: Mapping[str, Any], name: str) -> list[Any]:
    """A list; empty when absent."""
    value = line.get(name)
    return value if isinstance(value, list) else []


def map_of(line: Mapping[str, Any], name: str) -> dict[str, Any]:
    """An object; empty when absent."""
    value = line.get(name)
    return value if isinstance(value, dict) else {}


def counts_of(line: Mapping[str, Any], name: str) -> dict[str, int]:
    """An object of whole numbers, without what is none."""
    fields = map_of(line, name)
    return {key: count for key in fields if (count := count_of(fields, key)) is not None}
