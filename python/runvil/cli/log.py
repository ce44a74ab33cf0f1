"""`runvil log`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from runvil.cli.output import say
from runvil.cli.timeline_text import TimelineText
from runvil.cli.usage import UsageError
from runvil.timeline import NotARunLogError, Timeline, read_lines, write_page

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rich.text import Text


def show_log(file: Path, *, full: bool, html: Path | None) -> int:
    """Shows a run log as a timeline: on stdout, or as a page in a file."""
    timeline = Timeline(read_lines(file))
    try:
        if html is not None:
            return _write(file, timeline, html)
        write, flush = _terminal() if sys.stdout.isatty() else _plain()
        text = TimelineText(full=full)
        for entry in timeline:
            for indent, line in text.lines_of(entry, timeline.summary):
                write(indent, line)
        for indent, line in text.end(timeline.summary):
            write(indent, line)
        flush()
    except NotARunLogError as error:
        raise UsageError(str(error)) from None
    return 0


def _write(file: Path, timeline: Timeline, html: Path) -> int:
    if html.exists() and html.samefile(file):
        raise UsageError(f"--html {html} is the log itself; name another file")
    write_page(timeline, html)
    say(f"wrote {html}")
    return 0


def _plain() -> tuple[Callable[[int, Text], None], Callable[[], None]]:
    """Lines as they are, in UTF-8 whatever the terminal's encoding."""
    out = sys.stdout.buffer

    def write(indent: int, line: Text) -> None:
        for part in line.plain.split("\n"):
            out.write(f"{' ' * indent}{part}".rstrip().encode("utf-8", "backslashreplace") + b"\n")

    return write, out.flush


def _terminal() -> tuple[Callable[[int, Text], None], Callable[[], None]]:
    """Lines with colours, wrapped inside their indentation."""
    from rich.console import Console
    from rich.padding import Padding

    console = Console(highlight=False)

    def write(indent: int, line: Text) -> None:
        console.print(Padding(line, (0, 0, 0, min(indent, console.width // 2)), expand=False))

    return write, lambda: None
