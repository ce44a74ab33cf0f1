"""What the commands print: results to stdout, everything else to stderr."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from runvil.host import Host
from runvil.texts import to_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from runvil._native import Event
    from runvil.errors import ParseError, RunError
    from runvil.host import Fragment


def write_result(text: str) -> None:
    """Writes a text and one newline to stdout, in UTF-8 whatever the terminal's encoding, unchanged on every system."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", "surrogatepass") + b"\n")
    sys.stdout.buffer.flush()


def write_json(value: dict[str, Any]) -> None:
    """Writes an object to stdout on one line."""
    write_result(to_json(value))


def write_indented(value: Any) -> None:
    """Writes a value to stdout for people to read."""
    write_result(json.dumps(value, ensure_ascii=False, indent=2))


def say(text: str) -> None:
    """Writes a line to stderr."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def error_text(error: RunError) -> str:
    """A failed run on stderr: `error[KIND]: MESSAGE`, and where."""
    kind = f"{error.kind}/{error.parse_kind}" if error.parse_kind else error.kind
    place = f"\n  --> {error.location}" if error.location is not None else ""
    return f"error[{kind}]: {error.message}{place}"


def parse_error_text(error: ParseError) -> str:
    """A prompt's problems on stderr, in the form of a failed run."""
    lines = []
    for problem in error.problems:
        lines.append(f"error[Parse/{problem.kind}]: {problem.message}")
        if problem.line is not None:
            column = f":{problem.column}" if problem.column is not None else ""
            lines.append(f"  --> {error.path or '<prompt>'}:{problem.line}{column}")
    return "\n".join(lines)


def make_progress(*, quiet: bool) -> LiveText | None:
    """What shows a run: rich output on a terminal, plain text otherwise, nothing when quiet."""
    if quiet:
        return None
    if not sys.stderr.isatty():
        return LiveText(_PlainPen())
    from rich.console import Console

    return LiveText(_RichPen(Console(stderr=True, highlight=False, soft_wrap=True)))


class _PlainPen:
    """Writes to stderr as it is."""

    def heading(self, text: str) -> None:
        say(text)

    def text(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


class _RichPen:
    """Writes to a terminal with colours."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def heading(self, text: str) -> None:
        self._console.print(text, style="dim", markup=False)

    def text(self, text: str) -> None:
        self._console.print(text, end="", style="cyan", markup=False)


class LiveText:
    """Shows the sections a run enters, the tools it calls, what it logs, and replies as they arrive.

    Replies that arrive at the same time take turns, each under a heading of its own.
    """

    def __init__(self, pen: _PlainPen | _RichPen) -> None:
        self._pen = pen
        self._writing: int | None = None

    def on_event(self, event: Event) -> None:
        """Shows an event that a person wants to see."""
        match event.kind:
            case "section_started":
                self._heading(f"section {event.to_dict()['section']}")
            case "assistant_tool_calls":
                names = ", ".join(call["name"] for call in event.to_dict()["calls"])
                self._heading(f"tools {names}")
            case "lua":
                self._heading(f"log {event.to_dict()['message']}")
            case "model_turn_failed":
                self._heading("model request failed")
            case "model_turn_completed":
                self.finish()

    def on_fragment(self, fragment: Fragment) -> None:
        """Shows a piece of a reply."""
        if self._writing != fragment.round:
            self._heading(f"reply {fragment.round} in {fragment.section}")
            self._writing = fragment.round
        self._pen.text(fragment.text)

    def finish(self) -> None:
        """Ends the line of a reply."""
        if self._writing is not None:
            self._writing = None
            self._pen.text("\n")

    def _heading(self, text: str) -> None:
        self.finish()
        self._pen.heading(text)


class QuietHost(Host):
    """The Host of a command that shows nothing of the run.

    Args:
        user_input: Where the prompt's questions are answered; None says that there is no more input.
    """

    def __init__(self, user_input: Callable[[], str | None]) -> None:
        self._user_input = user_input

    def user_input(self) -> str | None:
        """The user's next line."""
        return self._user_input()


class LiveHost(QuietHost):
    """The Host of a command that shows the run while it goes on."""

    def __init__(self, user_input: Callable[[], str | None], live: LiveText) -> None:
        super().__init__(user_input)
        self._live = live

    def on_event(self, event: Event) -> None:
        """Shows an event."""
        self._live.on_event(event)

    def on_fragment(self, fragment: Fragment) -> None:
        """Shows a piece of a reply."""
        self._live.on_fragment(fragment)
