"""A timeline as one self-contained page: no scripts, and nothing that a browser would fetch."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Any

from runvil.timeline import words
from runvil.timeline.entries import Note, Round, SectionClosed, SectionOpened, SkippedLine, ToolCall
from runvil.timeline.fields import text_of
from runvil.timeline.messages import json_block, json_text, open_envelope, read_message

if TYPE_CHECKING:
    import os

    import jinja2

    from runvil.timeline.entries import Summary
    from runvil.timeline.timeline import Timeline

_HELD_IN_MEMORY = 16 * 1024 * 1024
_COPIED_AT_ONCE = 1024 * 1024
_LINES_AROUND = 4
_MACROS = {
    SectionOpened: "section_opened",
    SectionClosed: "section_closed",
    Round: "round",
    ToolCall: "tool_call",
    Note: "note",
    SkippedLine: "skipped_line",
}


def write_page(timeline: Timeline, path: str | os.PathLike[str]) -> None:
    """Writes the page of a timeline. The file is opened when the whole timeline has been read.

    Raises:
        NotARunLogError: As from the timeline's lines.
        OSError: The log cannot be read or the page not written.
    """
    templates = _templates()
    macros: Any = templates.get_template("entries.html").module
    longest = 0.0
    # What stands above the entries follows from all of them, so they wait in a file.
    with SpooledTemporaryFile(max_size=_HELD_IN_MEMORY) as body:
        for entry in timeline:
            if isinstance(entry, Round | ToolCall):
                longest = max(longest, entry.seconds or 0.0)
            body.write(getattr(macros, _MACROS[type(entry)])(entry).encode("utf-8", "replace"))
        body.seek(0)
        style = templates.get_template("page.css").render(scale=100 / longest if longest else 1)
        head, foot = _frame(templates, timeline.summary, style)
        with Path(path).open("wb") as page:
            page.write(head)
            while chunk := body.read(_COPIED_AT_ONCE):
                page.write(chunk)
            page.write(foot)


def _frame(templates: jinja2.Environment, summary: Summary, style: str) -> tuple[bytes, bytes]:
    """What stands before the entries and after them."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    names = {"summary": summary, "style": style, "style_digest": digest, "source": _source_around(summary)}
    head = templates.get_template("head.html").render(names)
    foot = templates.get_template("foot.html").render(names)
    return head.encode("utf-8", "replace"), foot.encode("utf-8", "replace")


def _source_around(summary: Summary) -> list[tuple[int, str, bool]]:
    """The prompt's lines around the place where the run failed: number, text, and whether it is the place."""
    location = words.error_location(summary)
    source = text_of(summary.parameters, "prompt").split("\n")
    names = {text_of(summary.parameters, "path"), text_of(summary.parameters, "name"), "<prompt>"} - {""}
    if location is None or location[0] not in names or not 1 <= location[1] <= len(source):
        return []
    at = location[1]
    first = max(at - _LINES_AROUND, 1)
    shown = enumerate(source[first - 1 : at + _LINES_AROUND], start=first)
    return [(number, text, number == at) for number, text in shown]


def _templates() -> jinja2.Environment:
    import jinja2

    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        loader=jinja2.PackageLoader("runvil.timeline", "templates"),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "message": read_message,
        "json": json_text,
        "json_block": json_block,
        "opened": open_envelope,
        "field": text_of,
    }
    environment.globals["words"] = words
    return environment
