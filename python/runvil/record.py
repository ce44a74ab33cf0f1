"""Recording a live run's answers as a script that replays them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runvil.jsonl import LineFile

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from runvil._native import Effect
    from runvil.harness import Answer
    from runvil.packs import Pack


class AnswerRecorder:
    """Writes each answer of a run in the format of scripted replies.

    Model answers are written in the order of their requests and a tool's answers in the order of its calls, so a
    replay gives each the answer it had.
    """

    def __init__(self, path: str | os.PathLike[str], packs: Sequence[Pack]) -> None:
        self._lines = LineFile(path)
        self._next_round = 0
        self._early: dict[int, dict[str, Any] | None] = {}
        self._calls: dict[str, deque[_Call]] = {}
        for pack in packs:
            fields = pack.to_dict()
            self._lines.write({"pack": fields["name"], "tools": fields["tools"]})

    def called(self, effect: Effect) -> None:
        """Notes that a tool is called; its answer comes later."""
        self._calls.setdefault(effect.path, deque()).append(_Call(effect.id))

    def answer(self, effect: Effect, answer: Answer, seconds: float) -> None:
        """Writes the answer to one effect; effects that a script cannot answer are left out."""
        del seconds
        what, payload = answer
        if effect.kind == "round":
            self._early[effect.request.round] = _model_line(what, payload)
            while self._next_round in self._early:
                line = self._early.pop(self._next_round)
                self._next_round += 1
                if line is not None:
                    self._lines.write(line)
        elif effect.kind == "tool_call":
            self._tool_answer(effect, _tool_line(effect.path, what, payload))
        elif what == "user_input":
            self._lines.write({"user": payload["text"]})

    def _tool_answer(self, effect: Effect, line: dict[str, Any] | None) -> None:
        calls = self._calls.get(effect.path, deque())
        for call in calls:
            if call.effect == effect.id:
                call.answered, call.line = True, line
        while calls and calls[0].answered:
            self._write_call(calls.popleft())

    def _write_call(self, call: _Call) -> None:
        if call.line is not None:
            self._lines.write(call.line)

    def close(self) -> None:
        """Writes what is left of the tools' answers, and closes the file."""
        for calls in self._calls.values():
            for call in calls:
                self._write_call(call)
        self._lines.close()


@dataclass(slots=True)
class _Call:
    """A call of a tool, and the line of its answer; None for a call that was dropped."""

    effect: int
    answered: bool = False
    line: dict[str, Any] | None = None


def _tool_line(path: str, what: str, payload: Any) -> dict[str, Any] | None:
    if what == "tool_output":
        return {"tool": path, "result": payload["text"]}
    if what == "tool_failure":
        return {"tool": path, "error": payload["message"]}
    return None


def _model_line(what: str, payload: Any) -> dict[str, Any] | None:
    if what == "reply":
        kept = ("text", "tool_calls", "finish_reason", "usage", "reasoning", "model")
        return {name: payload[name] for name in kept if payload.get(name) not in (None, [], {})}
    if what == "model_failure":
        if payload["status"] is not None:
            return {"error": {"status": payload["status"], "body": payload["detail"] or ""}}
        if payload["detail"]:
            return {"error": {"body": payload["detail"]}}
        return {"error": {"transport": payload["kind"]}}
    return None
