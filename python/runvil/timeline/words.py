"""Counts and durations in words, the same wherever a timeline is shown."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from runvil.timeline.fields import count_of, map_of, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runvil.timeline.entries import Note, Round, Summary

_ROUND_STATUS = {
    "replied": "replied",
    "failed": "failed",
    "refused": "refused before it was sent",
    "dropped": "given up",
    "unused": "answered, but the log ends before the reply is used",
    "unanswered": "no answer in the log",
}

_SMALL = 60

NO_ERROR_TEXT = "The log does not hold the reason, which `runvil run` printed; a cancelled run ends like this too."


def plural(count: int, noun: str) -> str:
    """A count with its noun: `1 line`, `1,200 lines`, `2 replies`."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun[:-1]}ies" if noun.endswith("y") else f"{count:,} {noun}s"


def seconds_text(seconds: float) -> str:
    """A duration: `3 ms`, `1.25 s`, `2 min 05 s`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.2f} s"
    return f"{int(seconds) // 60:,} min {int(seconds) % 60:02} s"


def usage_text(usage: Mapping[str, int]) -> str:
    """Token counts: `10 prompt + 5 completion tokens (2 reasoning, 4 cached)`."""
    main = [f"{usage[name]:,} {name.removesuffix('_tokens')}" for name in _in_order(usage, _MAIN_COUNTS)]
    inner = [f"{usage[name]:,} {name.removesuffix('_tokens')}" for name in _in_order(usage, _INNER_COUNTS)]
    text = " + ".join(main) + " tokens" if main else ""
    return " ".join(filter(None, (text, f"({', '.join(inner)})" if inner else "")))


_MAIN_COUNTS = ("prompt_tokens", "completion_tokens")
_INNER_COUNTS = ("reasoning_tokens", "cached_tokens")


def _in_order(usage: Mapping[str, int], names: tuple[str, ...]) -> list[str]:
    return [name for name in names if name in usage]


def status_text(entry: Round) -> str:
    """How a round went."""
    return _ROUND_STATUS[entry.status]


def model_text(entry: Round) -> str:
    """Who was asked: the role and the model's name."""
    return f"{entry.role} ({entry.model})" if entry.role and entry.role != entry.model else entry.model


def messages_text(entry: Round) -> str:
    """Which messages a request has, and what it keeps of the one before it."""
    new = len(entry.messages)
    total = entry.first - 1 + new
    if new == 0:
        text = f"{plural(total, 'message')}, all as before"
    elif entry.first == 1:
        text = plural(total, "message")
    else:
        text = f"{plural(total, 'message')}, new from {entry.first:,} on"
    return f"{text}; replaces {entry.replaced:,} of the request before" if entry.replaced else text


def sizes_text(entry: Round) -> str:
    """The sizes of a request in tokens: `estimate 103, reserve 512, window 4,096`."""
    return ", ".join(f"{name} {size:,}" for name, size in entry.sizes.items())


def note_facts(entry: Note) -> list[str]:
    """The small fields of a note, each with its name: `records 3`, or `records 12 → 3` when it tells both."""
    small = {name: text for name, value in entry.fields.items() if (text := _small(value)) is not None}
    pairs = {name: f"{earlier} → {text}" for name, text in small.items() if (earlier := small.get(f"{name}_before"))}
    return [
        f"{_spaced(name)} {pairs.get(name, text)}"
        for name, text in small.items()
        if name.removesuffix("_before") not in pairs or name in pairs
    ]


def note_blocks(entry: Note) -> list[tuple[str, Any]]:
    """The other fields of a note."""
    return [(_spaced(name), value) for name, value in entry.fields.items() if _small(value) is None]


def _spaced(name: str) -> str:
    return name.replace("_", " ")


def _small(value: Any) -> str | None:
    """A value that fits on the line, or None."""
    match value:
        case bool():
            return str(value).lower()
        case int():
            return f"{value:,}"
        case float():
            return str(value)
        case str() if len(value) <= _SMALL and value.isprintable():
            return value
        case _:
            return None


def outcome_text(summary: Summary) -> str:
    """How the run ended, or that the log does not tell."""
    return summary.outcome or "unfinished: the log ends before the run does"


def error_text(summary: Summary) -> str:
    """What failed, as a failed run prints it; empty when the log does not tell."""
    kind, message = text_of(summary.error, "kind"), text_of(summary.error, "message")
    return f"error[{kind}]: {message}" if kind else message


def error_location(summary: Summary) -> tuple[str, int, int | None] | None:
    """Where it failed: path, 1-based line and column."""
    location = map_of(summary.error, "location")
    line = count_of(location, "line")
    return None if line is None else (text_of(location, "path"), line, count_of(location, "column"))


def started_text(parameters: Mapping[str, Any]) -> str:
    """When the run started; empty when the log does not tell."""
    milliseconds = count_of(parameters, "started_at_ms")
    if milliseconds is None:
        return ""
    try:
        return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return ""


def totals(summary: Summary) -> list[tuple[str, str]]:
    """The sums of a run, each with its name."""
    failed = summary.failed_rounds - summary.refused
    rounds = ", ".join(
        [plural(summary.rounds, "request"), plural(summary.replies, "reply")]
        + ([f"{failed:,} failed"] if failed else [])
        + ([f"{summary.refused:,} refused"] if summary.refused else [])
    )
    found = [("rounds", rounds)]
    if summary.tool_calls:
        failed_calls = f", {summary.failed_tool_calls:,} failed" if summary.failed_tool_calls else ""
        found.append(("tool calls", f"{summary.tool_calls:,}{failed_calls}"))
    if summary.compactions:
        found.append(("compactions", f"{summary.compactions:,}"))
    if usage := usage_text(summary.usage):
        found.append(("usage", usage))
    for name, seconds in (("model time", summary.model_seconds), ("tool time", summary.tool_seconds)):
        if seconds is not None:
            found.append((name, seconds_text(seconds)))
    lines = plural(summary.lines, "line") + (f", {summary.skipped:,} skipped" if summary.skipped else "")
    found.append(("log", lines))
    return found
