"""From the lines of a run log to what happened, in one pass that remembers only what is still going on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runvil.timeline.entries import Note, SkippedLine, Summary
from runvil.timeline.fields import map_of, text_of
from runvil.timeline.rounds import Rounds
from runvil.timeline.sections import MAIN_TASK, Sections
from runvil.timeline.tools import Tools

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from runvil.timeline.entries import Entry, Outcome
    from runvil.timeline.lines import Line
    from runvil.timeline.sections import OpenSection

_SILENT = frozenset(
    {
        "run_started",
        "parse_started",
        "parse_succeeded",
        "lua_compilation_started",
        "lua_compilation_succeeded",
        "lua_chunk_started",
        "lua_chunk_succeeded",
        "lua_teardown_started",
        "lua_teardown_succeeded",
        "tool_scope_validation_started",
        "tool_scope_validation_succeeded",
        "user_input_wait_started",
        "section_started",
        "section_finished",
    }
)
"""Kinds that a reader learns nothing from, or that show as the section around them."""

_OUTCOMES: dict[str, Outcome] = {"completed": "completed", "failed": "failed", "cancelled": "cancelled"}

_ENVELOPE = frozenset({"kind", "execution", "section", "task", "seq"})

_LABELS = {
    "lua": "log",
    "user_input": "user input",
    "lua_chunk_failed": "the Lua block failed",
    "parse_failed": "the prompt does not parse",
    "tool_scope_validation_failed": "the tool list is not valid",
}


class Timeline:
    """Iterates over what happened. Iterate once.

    Args:
        lines: The lines of a run log, as `read_lines` gives them.

    Attributes:
        summary: What the lines so far amount to; complete after the last entry.
    """

    def __init__(self, lines: Iterable[Line]) -> None:
        self.summary = Summary()
        self._lines = lines
        self._log_ended = False
        self._sections = Sections(self._leave)
        self._rounds = Rounds(self._sections, self.summary)
        self._tools = Tools(self.summary)

    def __iter__(self) -> Iterator[Entry]:
        for number, line in self._lines:
            self.summary.lines += 1
            if isinstance(line, str):
                self.summary.skipped += 1
                yield SkippedLine(number, line, self._sections.depth)
            else:
                yield from self._take(line)
        yield from self._settle(None)
        self._log_ended = True
        yield from self._sections.close_all()
        yield from self._leave(None)

    def _take(self, line: dict[str, Any]) -> Iterator[Entry]:
        yield from self._settle(line)
        match text_of(line, "kind"):
            case "run_parameters":
                self.summary.parameters = line
                self._rounds.learn_models(map_of(line, "models"))
            case "chat":
                self._rounds.send(line, self._sections.sender(line))
            case "answer":
                yield from self._answer(line)
            case "outcome":
                self._end(line)
            case kind:
                yield from self._event(kind, line)

    def _settle(self, line: Mapping[str, Any] | None) -> Iterator[Entry]:
        """Ends what the next line shows to be complete."""
        yield from self._rounds.settle(line)
        yield from self._tools.settle(line)

    def _leave(self, section: OpenSection | None) -> Iterator[Entry]:
        """What a section leaves behind when it ends; None is for what belongs to no section."""
        yield from self._rounds.leave(section, given_up=not self._log_ended)
        yield from self._tools.leave(section)

    def _answer(self, line: dict[str, Any]) -> Iterator[Entry]:
        answer = text_of(line, "answer")
        match text_of(line, "of"):
            case "round":
                yield from self._rounds.answer(line)
            case "tool_call":
                self._tools.answer(line)
            case "user_input" if answer == "user_input":
                return  # an event tells it too
            case "load_library" if answer == "library":
                yield self._note(line, "library", f"library {text_of(line, 'path')} loaded", {})
            case of:
                rest = _rest(
                    line, {"effect", "of", "answer", "seconds"} | ({"tools"} if of == "render_packs" else set())
                )
                failed = answer.endswith(("failure", "missing"))
                label = f"{of.replace('_', ' ')}: {answer.replace('_', ' ')}"
                yield self._note(line, "answer", label, rest, failed=failed)

    def _event(self, kind: str, line: dict[str, Any]) -> Iterator[Entry]:
        yield from self._sections.follow(kind, line)
        section = self._sections.of(line)
        if self._rounds.event(kind, line, section):
            if kind == "assistant_tool_calls":
                self._tools.request(line, section)
            return
        if self._tools.event(kind, line, section):
            return
        if kind in ("run_succeeded", "run_failed"):
            if self.summary.outcome is None:
                self.summary.outcome = "completed" if kind == "run_succeeded" else "failed"
            return
        if kind in _SILENT:
            return
        if kind == "compaction_started":
            self.summary.compactions += 1
        label = _LABELS.get(kind, kind.replace("_", " "))
        yield self._note(line, kind, label, _rest(line, ()), failed=kind.endswith("_failed"))

    def _end(self, line: Mapping[str, Any]) -> None:
        self.summary.outcome = _OUTCOMES.get(text_of(line, "outcome"), self.summary.outcome)
        self.summary.error = map_of(line, "error")
        self.summary.result = text_of(line, "result") or None

    def _note(
        self, line: Mapping[str, Any], kind: str, label: str, fields: dict[str, Any], *, failed: bool = False
    ) -> Note:
        section = self._sections.of(line)
        text = next((fields.pop(name) for name in ("message", "text") if isinstance(fields.get(name), str)), "")
        return Note(
            section=text_of(line, "section"),
            task=text_of(line, "task") or MAIN_TASK,
            depth=self._sections.depth if section is None else section.inner_depth,
            kind=kind,
            label=label,
            text=text,
            fields=fields,
            tone="failure" if failed else "compaction" if kind.startswith("compaction_") else "plain",
        )


def _rest(line: Mapping[str, Any], known: Iterable[str]) -> dict[str, Any]:
    dropped = {*_ENVELOPE, *known}
    return {name: value for name, value in line.items() if name not in dropped and value is not None}
