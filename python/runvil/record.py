"""Recording a live run's answers as a script that replays them."""

from __future__ import annotations

import contextlib
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runvil.jsonl import LineFile
from runvil.texts import to_json

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from runvil._native import Effect
    from runvil.harness import Answer
    from runvil.packs import Pack


_REPLY = ("text", "finish_reason", "usage", "reasoning", "model", "metrics", "degraded")


class AnswerRecorder:
    """Writes each answer of a run in the format of scripted replies.

    Model answers are written in the order of their requests and a tool's answers in the order of its calls, so a
    replay gives each the answer it had. A call that was dropped has a line of its own, and the replay drops it again:
    where the run had been cancelled the replay ends as cancelled at that call, unless the prompt catches the error.
    """

    def __init__(self, path: str | os.PathLike[str], packs: Sequence[Pack]) -> None:
        self._lines = LineFile(path)
        self._next_round = 0
        self._rounds: dict[int, dict[str, Any]] = {}
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
            self._rounds[effect.request.round] = _model_line(what, payload)
            while self._next_round in self._rounds:
                self._lines.write(self._rounds.pop(self._next_round))
                self._next_round += 1
        elif effect.kind == "tool_call":
            self._tool_answer(effect, _tool_line(effect.path, what, payload))
        elif effect.kind == "user_input":
            self._lines.write(_user_line(what, payload))

    def _tool_answer(self, effect: Effect, line: dict[str, Any]) -> None:
        calls = self._calls.setdefault(effect.path, deque())
        call = next((call for call in calls if call.effect == effect.id), None)
        if call is None:  # it was dropped before it began, with all that came after it
            calls.append(call := _Call(effect.id))
        call.line = line
        while calls and calls[0].line is not None:
            self._lines.write(calls.popleft().line)

    def close(self) -> None:
        """Writes what is left, the answers behind one that never came, and closes the file."""
        with contextlib.closing(self._lines):
            for number in range(self._next_round, max(self._rounds, default=-1) + 1):
                self._lines.write(self._rounds.get(number, {"dropped": True}))
            for path, calls in self._calls.items():
                for call in calls:
                    self._lines.write(call.line or {"tool": path, "dropped": True})


@dataclass(slots=True)
class _Call:
    """A call of a tool, and the line of its answer; None for a call that has none yet."""

    effect: int
    line: dict[str, Any] | None = None


def _tool_line(path: str, what: str, payload: Any) -> dict[str, Any]:
    if what == "tool_output":
        return {"tool": path, "result": payload["text"]}
    if what == "tool_failure":
        return {"tool": path, "error": payload["message"]}
    return {"tool": path, "dropped": True}


def _user_line(what: str, payload: Any) -> dict[str, Any]:
    if what == "user_input":
        return {"user": payload["text"]}
    if what == "input_failure":
        return {"user": None, "error": payload["message"]}
    return {"user": None} | ({} if what == "input_unavailable" else {"dropped": True})


def _model_line(what: str, payload: Any) -> dict[str, Any]:
    if what == "reply":
        line = {name: payload[name] for name in _REPLY if payload.get(name) not in (None, [], {})}
        if payload["tool_calls"]:
            line["tool_calls"] = [_call(call) for call in payload["tool_calls"]]
        return line | ({"host_built": True} if payload["host_built"] else {})
    if what == "model_failure":
        fields = {("body" if name == "detail" else name): value for name, value in payload.items()}
        return {"error": {name: value for name, value in fields.items() if value is not None}}
    return {"dropped": True}


def _call(call: dict[str, Any]) -> dict[str, Any]:
    """A tool call that a script can hold: arguments that no model may give are kept as their JSON text."""
    arguments = call["arguments"]
    return call if arguments is None or isinstance(arguments, dict | str) else {**call, "arguments": to_json(arguments)}
