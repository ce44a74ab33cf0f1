"""Recording a live run's answers as a script that replays them."""

from __future__ import annotations

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

    Model answers are written in the order of their requests, so a replay gives each request the answer it had.
    """

    def __init__(self, path: str | os.PathLike[str], packs: Sequence[Pack]) -> None:
        self._lines = LineFile(path)
        self._next_round = 0
        self._early: dict[int, dict[str, Any] | None] = {}
        for pack in packs:
            fields = pack.to_dict()
            self._lines.write({"pack": fields["name"], "tools": fields["tools"]})

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
        elif what == "tool_output":
            self._lines.write({"tool": effect.path, "result": payload["text"]})
        elif what == "tool_failure":
            self._lines.write({"tool": effect.path, "error": payload["message"]})
        elif what == "user_input":
            self._lines.write({"user": payload["text"]})

    def close(self) -> None:
        """Closes the file."""
        self._lines.close()


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
