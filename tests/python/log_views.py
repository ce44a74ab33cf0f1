"""A run log as `runvil log` shows it, for tests."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import TYPE_CHECKING

from runvil.cli.timeline_text import TimelineText
from runvil.timeline import Timeline, read_lines, write_page

if TYPE_CHECKING:
    from pathlib import Path

    from runvil.timeline import Entry


def entries_of(file: Path) -> list[Entry]:
    return list(Timeline(read_lines(file)))


def shown(file: Path, *, full: bool = False) -> list[str]:
    timeline, text = Timeline(read_lines(file)), TimelineText(full=full)
    lines = [line for entry in timeline for line in text.lines_of(entry, timeline.summary)]
    return [" " * indent + line.plain for indent, line in [*lines, *text.end(timeline.summary)]]


class Page(HTMLParser):
    """The elements and the texts of a page; fails when elements are not closed in order."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.words = ""
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def page_of(file: Path) -> tuple[str, Page]:
    out = file.with_suffix(".html")
    write_page(Timeline(read_lines(file)), out)
    source = out.read_text(encoding="utf-8")
    return source, Page(source)
