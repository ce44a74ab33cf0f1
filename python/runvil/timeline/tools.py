"""Tool calls: what asked for one, its answer and the events about it are lines of their own, put together here."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from runvil.timeline.entries import RequestedCall, Summary, ToolCall
from runvil.timeline.fields import count_of, seconds_of, text_of
from runvil.timeline.messages import open_envelope
from runvil.timeline.rounds import read_calls
from runvil.timeline.sections import MAIN_TASK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runvil.timeline.entries import Entry
    from runvil.timeline.sections import OpenSection


class _Requested:
    """A call that a reply asks for."""

    def __init__(self, call: RequestedCall, turn: int | None) -> None:
        self.call = call
        self.turn = turn


class _Answer:
    """The answer to a call that left the Engine."""

    def __init__(self, line: Mapping[str, Any]) -> None:
        self.line = line
        self.used = False

    @property
    def seconds(self) -> float | None:
        return seconds_of(self.line)


class Tools:
    """Puts tool calls together.

    Args:
        summary: Where calls are counted.
    """

    def __init__(self, summary: Summary) -> None:
        self._summary = summary
        self._requested: dict[OpenSection | None, dict[tuple[int | None, str], deque[_Requested]]] = {}
        self._answers: dict[tuple[str, str], deque[_Answer]] = {}
        self._failures: deque[_Answer] = deque()
        self._outcome: tuple[ToolCall, OpenSection | None] | None = None
        self._complete: ToolCall | None = None

    def request(self, line: Mapping[str, Any], section: OpenSection | None) -> None:
        """Takes the calls that a reply asks for."""
        turn = count_of(line, "turn")
        requested = self._requested.setdefault(section, {})
        for call in read_calls(line, "calls"):
            requested.setdefault((turn, call.id), deque()).append(_Requested(call, turn))

    def answer(self, line: Mapping[str, Any]) -> None:
        """Takes the answer to a call; it shows when the events about it come."""
        answer = _Answer(line)
        key = text_of(line, "call_id"), text_of(line, "tool")
        self._answers.setdefault(key, deque()).append(answer)
        if text_of(line, "answer") != "tool_output":
            self._failures.append(answer)
        if answer.seconds is not None:
            self._summary.tool_seconds = (self._summary.tool_seconds or 0.0) + answer.seconds

    def event(self, kind: str, line: Mapping[str, Any], section: OpenSection | None) -> bool:
        """Takes an event if it is about a tool call."""
        match kind:
            case "tool_call_succeeded" | "tool_call_failed":
                self._outcome = self._entry(line, section, failed=kind == "tool_call_failed"), section
                self._summary.tool_calls += 1
                self._summary.failed_tool_calls += kind == "tool_call_failed"
            case "tool_result":
                self._take_result(line, section)
            case _:
                return False
        return True

    def settle(self, line: Mapping[str, Any] | None) -> Iterator[Entry]:
        """Ends the call whose last event was the one before this line."""
        if self._complete is not None:
            entry, self._complete = self._complete, None
            yield entry
        if self._outcome is not None and not _is_its_result(line, self._outcome[0]):
            (entry, _), self._outcome = self._outcome, None
            if entry.status == "failed":
                self._name_failure(entry)
            yield entry

    def leave(self, section: OpenSection | None) -> Iterator[Entry]:
        """Gives the calls of a section that have no outcome when it ends. None is for what belongs to no section."""
        for requests in self._requested.pop(section, {}).values():
            for request in requests:
                yield ToolCall(
                    section="" if section is None else section.name,
                    task=MAIN_TASK if section is None else section.task,
                    depth=0 if section is None else section.inner_depth,
                    tool=request.call.name,
                    status="unanswered",
                    call_id=request.call.id,
                    turn=request.turn,
                    arguments=request.call.arguments,
                    has_arguments=True,
                )

    def _entry(self, line: Mapping[str, Any], section: OpenSection | None, *, failed: bool) -> ToolCall:
        return ToolCall(
            section=text_of(line, "section"),
            task=text_of(line, "task") or MAIN_TASK,
            depth=0 if section is None else section.inner_depth,
            tool="",
            status="failed" if failed else "succeeded",
        )

    def _take_result(self, line: Mapping[str, Any], section: OpenSection | None) -> None:
        entry = self._entry(line, section, failed=False) if self._outcome is None else self._outcome[0]
        self._outcome = None
        entry.turn, entry.call_id = count_of(line, "turn"), text_of(line, "tool_call_id")
        entry.tool, entry.content = text_of(line, "alias"), text_of(line, "content")
        trusted = line.get("trusted")
        entry.trusted = trusted if isinstance(trusted, bool) else None
        if entry.call_id and (request := self._requested_call(entry, section)):
            entry.arguments, entry.has_arguments = request.call.arguments, True
            entry.tool = entry.tool or request.call.name
            if section is not None:
                section.conversation.results[entry.call_id], _ = open_envelope(entry.content)
        answer = self._next_answer(entry.call_id, entry.tool) or self._next_answer("", entry.tool)
        if answer is not None:
            self._use(entry, answer)
        self._complete = entry

    def _next_answer(self, call_id: str, tool: str) -> _Answer | None:
        queue = self._answers.get((call_id, tool), deque())
        while queue and queue[0].used:
            queue.popleft()
        return queue.popleft() if queue else None

    def _requested_call(self, entry: ToolCall, section: OpenSection | None) -> _Requested | None:
        requested = self._requested.get(section, {})
        queue = requested.get((entry.turn, entry.call_id))
        if not queue:
            return None
        request = queue.popleft()
        if not queue:
            del requested[entry.turn, entry.call_id]
        return request

    def _name_failure(self, entry: ToolCall) -> None:
        """A script's failed call has no result: its answer tells which tool it was, and what went wrong."""
        while self._failures:
            answer = self._failures.popleft()
            if not answer.used:
                entry.tool, entry.call_id = text_of(answer.line, "tool"), text_of(answer.line, "call_id")
                entry.content = text_of(answer.line, "message") or None
                self._use(entry, answer)
                return

    def _use(self, entry: ToolCall, answer: _Answer) -> None:
        answer.used = True
        entry.seconds = answer.seconds
        if not entry.has_arguments and "arguments" in answer.line:
            entry.arguments, entry.has_arguments = answer.line["arguments"], True


def _is_its_result(line: Mapping[str, Any] | None, entry: ToolCall) -> bool:
    return line is not None and line.get("kind") == "tool_result" and text_of(line, "section") == entry.section
