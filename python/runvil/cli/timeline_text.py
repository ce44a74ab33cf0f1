"""A timeline as lines of text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.text import Text

from runvil.timeline.entries import Note, Round, SectionClosed, SectionOpened, SkippedLine
from runvil.timeline.fields import map_of, text_of
from runvil.timeline.messages import json_text, open_envelope, read_message
from runvil.timeline.sections import MAIN_TASK
from runvil.timeline.words import (
    NO_ERROR_TEXT,
    error_location,
    error_text,
    messages_text,
    model_text,
    note_blocks,
    note_facts,
    outcome_text,
    seconds_text,
    sizes_text,
    started_text,
    status_text,
    totals,
    usage_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeAlias

    from runvil.timeline.entries import Entry, RequestedCall, Summary, ToolCall

    IndentedLine: TypeAlias = tuple[int, Text]
    """How far to indent a line, in columns, and its text; a line break in it starts another line as far in."""

_STEP = 2
_CUT_LINES = 8
_CUT_CHARACTERS = 600
_SLACK = 100
"""So few characters are not worth a line that says they are missing."""
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_GOOD, _BAD, _QUIET, _HEADING, _MODEL, _TOOL = "green", "red", "dim", "bold", "cyan", "yellow"


class TimelineText:
    """Turns entries into lines, as they come.

    Args:
        full: Whether long texts are shown in full.
    """

    def __init__(self, *, full: bool) -> None:
        self._full = full
        self._begun = False

    def lines_of(self, entry: Entry, summary: Summary) -> Iterator[IndentedLine]:
        """The lines of an entry; before those of the first one, what the run started from."""
        if not self._begun:
            self._begun = True
            yield from self._head(summary)
        indent = _STEP * entry.depth
        match entry:
            case SectionOpened():
                yield indent, _line((f"## {entry.name}", _HEADING), *_task(entry.task))
            case SectionClosed():
                if not entry.finished:
                    yield indent, _line((f"## {entry.name} ends early", _BAD), *_task(entry.task))
            case Round():
                yield from self._round(entry, indent)
            case Note():
                yield from self._note(entry, indent)
            case SkippedLine():
                yield indent, _line((f"line {entry.number:,} {entry.reason}; skipped", _BAD))
            case _:
                yield from self._tool_call(entry, indent)

    def end(self, summary: Summary) -> Iterator[IndentedLine]:
        """The lines after the last entry: how the run ended, and its sums."""
        if not self._begun:
            yield from self._head(summary)
        yield 0, Text()
        yield 0, _line((outcome_text(summary), _GOOD if summary.outcome == "completed" else _BAD))
        if error := error_text(summary):
            yield 0, _line((error, _BAD))
        elif summary.outcome == "failed":
            yield 0, _line((NO_ERROR_TEXT, _QUIET))
        if location := error_location(summary):
            path, line, column = location
            yield _STEP, _line((f"--> {path}:{line}" + ("" if column is None else f":{column}"), ""))
        if summary.result is not None:
            yield from self._block("result", summary.result, 0)
        for name, total in totals(summary):
            yield 0, _line((f"{name}: ", _QUIET), (total, ""))

    def _head(self, summary: Summary) -> Iterator[IndentedLine]:
        parameters = summary.parameters
        if not parameters:
            yield 0, _line(("the log does not say what the run started from: its first line is missing", _BAD))
            return
        yield 0, _line((f"# {text_of(parameters, 'name') or '(unnamed)'}", _HEADING))
        facts = [text_of(parameters, "path"), started_text(parameters)]
        if (version := text_of(parameters, "runvil")) != "":
            facts.append(f"runvil {version}")
        yield 0, _line((" · ".join(filter(None, facts)), _QUIET))
        for label, model in map_of(parameters, "models").items():
            name = text_of(model, "model") if isinstance(model, dict) else ""
            yield 0, _line((f"{label} = ", _QUIET), (name, _MODEL))
        if args := text_of(parameters, "args"):
            yield from self._block("args", args, 0)
        yield 0, Text()

    def _round(self, entry: Round, indent: int) -> Iterator[IndentedLine]:
        name = "request" if entry.number is None else f"round {entry.number}"
        facts = [model_text(entry), "" if entry.status == "refused" else messages_text(entry), sizes_text(entry)]
        yield (
            indent,
            _line(
                (f"→ {name} ", _HEADING),
                (f"{entry.origin} ", _QUIET),
                (" · ".join(filter(None, facts)), _MODEL),
                *_task(entry.task),
            ),
        )
        for position, message in enumerate(map(read_message, entry.messages), start=entry.first):
            name = " ".join(filter(None, (str(position), message.role, message.tool_call_id)))
            if position in entry.echoes:
                yield indent + _STEP, _line((f"{name}, as above", _QUIET))
                continue
            yield from self._block(f"{name} (untrusted)" if message.untrusted else name, message.text, indent + _STEP)
            yield from self._calls(message.calls, indent + 2 * _STEP)
        for kind, body in entry.bodies.items():
            yield from self._block(f"{kind} body", json_text(body), indent + _STEP)
        yield from self._answer(entry, indent)

    def _answer(self, entry: Round, indent: int) -> Iterator[IndentedLine]:
        good = entry.status == "replied" and not entry.failure
        name = f"turn {entry.turn}" if entry.turn is not None else status_text(entry)
        facts = [
            status_text(entry) if entry.turn is not None and entry.status != "replied" else "",
            entry.finish_reason or "",
            f"by {entry.served_by}" if entry.served_by else "",
            usage_text(entry.usage),
            "" if entry.seconds is None else seconds_text(entry.seconds),
        ]
        about = " · ".join(filter(None, facts))
        yield indent, _line((f"← {name} ", _GOOD if good else _BAD), (about, _QUIET))
        inner = indent + _STEP
        if entry.failure:
            yield from self._block("failure", entry.failure, inner, _BAD)
        for remark in entry.remarks:
            yield from self._block("remark", remark, inner)
        if entry.thinking:
            yield from self._block("thinking", entry.thinking, inner, _QUIET)
        if entry.text:
            yield from self._block("reply", entry.text, inner)
        if entry.truncated:
            yield inner, _line(("the reply is cut short by the model's limit", _BAD))
        yield from self._calls(entry.calls, inner)

    def _calls(self, calls: Sequence[RequestedCall], indent: int) -> Iterator[IndentedLine]:
        for call in calls:
            yield from self._block(f"calls {call.name} {call.id}", json_text(call.arguments), indent, _TOOL)

    def _tool_call(self, entry: ToolCall, indent: int) -> Iterator[IndentedLine]:
        facts = [
            entry.status if entry.status != "unanswered" else "no outcome in the log",
            entry.call_id,
            "" if entry.seconds is None else seconds_text(entry.seconds),
        ]
        style = _GOOD if entry.status == "succeeded" else _BAD
        about = " · ".join(filter(None, facts))
        yield indent, _line((f"tool {entry.tool or '(unnamed)'} ", _TOOL), (about, style), *_task(entry.task))
        if entry.has_arguments:
            yield from self._block("arguments", json_text(entry.arguments), indent + _STEP)
        if entry.content is not None:
            text, untrusted = open_envelope(entry.content)
            yield from self._block("result (untrusted)" if untrusted else "result", text, indent + _STEP)

    def _note(self, entry: Note, indent: int) -> Iterator[IndentedLine]:
        style = {"plain": _QUIET, "compaction": "magenta", "failure": _BAD}[entry.tone]
        facts = " · ".join(note_facts(entry))
        if entry.text:
            yield from self._block(entry.label, entry.text, indent, style)
            if facts:
                yield indent + _STEP, _line((facts, _QUIET))
        else:
            about = f" · {facts}" if facts else ""
            yield indent, _line((entry.label, style), (about, _QUIET), *_task(entry.task))
        for name, value in note_blocks(entry):
            yield from self._block(name, json_text(value), indent + _STEP, _QUIET)

    def _block(self, name: str, text: str, indent: int, style: str = _QUIET) -> Iterator[IndentedLine]:
        """A named text: beside its name when it is one line, below it otherwise."""
        shown, hidden = (text, 0) if self._full else _cut(text)
        if "\n" in shown:
            yield indent, _line((f"{name}:", style))
            yield indent + _STEP, _line((shown, ""))
        else:
            yield indent, _line((f"{name}: ", style), (shown, ""))
        if hidden:
            yield indent + _STEP, _line((f"… {hidden:,} more characters; --full shows them", _QUIET))


def _cut(text: str) -> tuple[str, int]:
    """The start of a text, and how many characters are missing from it."""
    end, start = min(len(text), _CUT_CHARACTERS), 0
    for _ in range(_CUT_LINES):
        found = text.find("\n", start, end)
        if found < 0:
            break
        start = found + 1
    else:
        end = start - 1
    return (text, 0) if len(text) - end <= _SLACK else (text[:end], len(text) - end)


def _task(task: str) -> Sequence[tuple[str, str]]:
    return () if task == MAIN_TASK else ((f" (task {task})", _QUIET),)


def _line(*spans: tuple[str, str]) -> Text:
    """A line of styled pieces. Characters that would steer the terminal show as escapes."""
    return Text.assemble(*((_printable(text), style) for text, style in spans))


def _printable(text: str) -> str:
    return _UNPRINTABLE.sub(lambda found: _escape(ord(found[0])), text.replace("\r\n", "\n"))


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
