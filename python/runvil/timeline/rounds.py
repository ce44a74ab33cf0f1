"""Rounds: a request, its answer and the events about it are lines of their own, put together here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runvil import _native
from runvil.timeline.entries import Conversation, RequestedCall, Round, Summary
from runvil.timeline.fields import count_of, counts_of, list_of, map_of, seconds_of, text_of
from runvil.timeline.messages import read_message
from runvil.timeline.sections import MAIN_TASK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runvil.timeline.entries import Entry
    from runvil.timeline.sections import OpenSection, Sections

_ABOUT_A_REPLY = frozenset(
    {
        "model_turn_completed",
        "model_metadata_degraded",
        "thinking",
        "model_turn_truncated",
        "assistant_reply",
        "assistant_tool_calls",
        "request",
        "response",
    }
)
"""Events of a round; all of one round follow each other."""

_PRODUCTS = frozenset({"assistant_reply", "assistant_tool_calls"})

_SIZES = "estimate", "count", "reserve", "window"


class _Pending:
    """A round that is not over."""

    def __init__(self, entry: Round, section: OpenSection | None) -> None:
        self.entry = entry
        self.section = section


class Rounds:
    """Puts rounds together.

    Args:
        sections: The open sections.
        summary: Where rounds are counted.
    """

    def __init__(self, sections: Sections, summary: Summary) -> None:
        self._sections = sections
        self._summary = summary
        self._roles: dict[str, str] = {}
        self._pending: dict[int, _Pending] = {}
        self._settling: _Pending | None = None

    def learn_models(self, models: Mapping[str, Any]) -> None:
        """Takes the models of a run; a model that two roles share tells no role."""
        names = [text_of(models[label], "model") if isinstance(models[label], dict) else "" for label in models]
        self._roles = {name: label for label, name in zip(models, names, strict=True) if names.count(name) == 1}

    def send(self, line: Mapping[str, Any], section: OpenSection | None) -> None:
        """Takes a request that was sent."""
        model = text_of(line, "model")
        entry = Round(
            section=text_of(line, "section"),
            task=MAIN_TASK if section is None else section.task,
            depth=self._sections.depth if section is None else section.inner_depth,
            origin=text_of(line, "origin"),
            number=count_of(line, "round"),
            model=model,
            role=text_of(line, "role") or self._roles.get(model),
            first=max(count_of(line, "from") or 1, 1),
            messages=list_of(line, "messages"),
            sizes={name: size for name in _SIZES if (size := count_of(line, name)) is not None},
        )
        if section is not None and entry.origin == "chat":
            entry.echoes = _echoes(entry, section.conversation)
            entry.replaced = section.conversation.send(entry.first, entry.messages)
        self._summary.rounds += 1
        self._pending[-1 if entry.number is None else entry.number] = _Pending(entry, section)

    def answer(self, line: Mapping[str, Any]) -> Iterator[Entry]:
        """Takes a round's answer. A reply shows when the events about it come; work that was given up has none."""
        number = count_of(line, "round")
        pending = None if number is None else self._pending.get(number)
        if pending is None:
            return
        entry = pending.entry
        entry.seconds = seconds_of(line)
        if entry.seconds is not None:
            self._summary.model_seconds = (self._summary.model_seconds or 0.0) + entry.seconds
        match text_of(line, "answer"):
            case "reply":
                _read_reply(entry, line)
            case "model_failure":
                entry.status = "failed"
                entry.failure = _failure_text(line)
            case "dropped":
                entry.status = "dropped"
                yield self._pending.pop(number or 0).entry

    def event(self, kind: str, line: Mapping[str, Any], section: OpenSection | None) -> bool:
        """Takes an event if it is about a round."""
        if kind == "model_turn_failed":
            self._fail(line, section)
        elif kind in _ABOUT_A_REPLY:
            self._describe(kind, line, section)
        else:
            return False
        return True

    def settle(self, line: Mapping[str, Any] | None) -> Iterator[Entry]:
        """Ends the round whose last event was the one before this line."""
        if self._settling is None:
            return
        entry = self._settling.entry
        if line is not None and _belongs(line, entry):
            return
        self._settling = None
        yield entry

    def leave(self, section: OpenSection | None, *, given_up: bool) -> Iterator[Entry]:
        """Ends the rounds of a section that ends; None ends all. `given_up` says that no answer can come any more."""
        left = [number for number, pending in self._pending.items() if section is None or pending.section is section]
        for number in left:
            entry = self._pending.pop(number).entry
            if given_up and entry.status == "unanswered":
                entry.status = "dropped"
            yield entry

    def _fail(self, line: Mapping[str, Any], section: OpenSection | None) -> None:
        pending = self._settling or self._of(line)
        if pending is None:
            pending = self._unsent(line, section)
            if section is not None:
                self._sections.refused(section)
            pending.entry.status = "refused"
            self._summary.refused += 1
        else:
            pending.entry.status = "failed"
        self._summary.failed_rounds += 1
        self._settling = pending

    def _describe(self, kind: str, line: Mapping[str, Any], section: OpenSection | None) -> None:
        pending = self._settling or self._of(line) or self._unsent(line, section)
        self._settling = pending
        entry = pending.entry
        match kind:
            case "model_turn_completed":
                self._complete(entry, line)
            case "model_metadata_degraded":
                entry.remarks.append(text_of(line, "message"))
            case "thinking":
                entry.thinking = text_of(line, "text") or entry.thinking
            case "model_turn_truncated":
                entry.truncated = True
            case "assistant_reply":
                entry.text = text_of(line, "text") or entry.text
                entry.usage = entry.usage or counts_of(map_of(line, "metrics"), "usage")
            case "assistant_tool_calls":
                entry.calls = read_calls(line, "calls") or entry.calls
            case _:
                entry.bodies[kind] = line.get("body")
        entry.served_by = text_of(line, "model") or entry.served_by
        if pending.section is not None and entry.origin == "chat" and kind in _PRODUCTS:
            pending.section.conversation.reply = entry

    def _complete(self, entry: Round, line: Mapping[str, Any]) -> None:
        entry.status = "replied"
        entry.turn = count_of(line, "turn")
        entry.finish_reason = text_of(line, "finish_reason") or entry.finish_reason
        entry.failure = text_of(line, "message") or None
        self._summary.replies += 1
        for name, count in entry.usage.items():
            if name != "total_tokens":
                self._summary.usage[name] = self._summary.usage.get(name, 0) + count

    def _of(self, line: Mapping[str, Any]) -> _Pending | None:
        number = count_of(line, "round")
        return None if number is None else self._pending.pop(number, None)

    def _unsent(self, line: Mapping[str, Any], section: OpenSection | None) -> _Pending:
        entry = Round(
            section=text_of(line, "section"),
            task=text_of(line, "task") or MAIN_TASK,
            depth=self._sections.depth if section is None else section.inner_depth,
            origin=text_of(line, "origin"),
            number=count_of(line, "round"),
        )
        return _Pending(entry, section)


def _belongs(line: Mapping[str, Any], entry: Round) -> bool:
    """Whether an event is about a round whose first event has come. A reply that is no good has a failure after it."""
    number = count_of(line, "round")
    match line.get("kind"):
        case "model_turn_failed":
            return number is not None and number == entry.number
        case str(kind) if kind in _ABOUT_A_REPLY:
            return number is None or number == entry.number
        case _:
            return False


def read_calls(line: Mapping[str, Any], name: str) -> list[RequestedCall]:
    """The tool calls of a line."""
    return [
        RequestedCall(text_of(call, "id"), text_of(call, "name"), call.get("arguments"))
        for call in list_of(line, name)
        if isinstance(call, dict)
    ]


def _echoes(entry: Round, conversation: Conversation) -> frozenset[int]:
    """The positions of the messages that the timeline has shown already, as a reply or as a tool's result."""
    found = set()
    for position, value in enumerate(entry.messages, start=entry.first):
        message = read_message(value)
        reply = conversation.reply
        if message.role == "assistant" and reply is not None:
            asked = [(call.id, call.name) for call in reply.calls]
            if message.text == reply.text and [(call.id, call.name) for call in message.calls] == asked:
                found.add(position)
        elif message.role == "tool" and conversation.results.get(message.tool_call_id) == message.text:
            found.add(position)
    return frozenset(found)


def _read_reply(entry: Round, line: Mapping[str, Any]) -> None:
    entry.status = "unused"
    entry.text = text_of(line, "text")
    entry.thinking = text_of(line, "reasoning")
    entry.calls = read_calls(line, "tool_calls")
    entry.finish_reason = text_of(line, "finish_reason") or None
    entry.served_by = text_of(line, "model")
    entry.usage = counts_of(line, "usage")


def _failure_text(line: Mapping[str, Any]) -> str:
    kind, status, note = text_of(line, "failure"), count_of(line, "status"), text_of(line, "note")
    try:
        return _native.failure_text(kind, status, note or None)
    except (ValueError, OverflowError):
        return kind or "the model request failed"
