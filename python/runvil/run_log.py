"""The run log: everything about a run in one file, for its author to look at afterwards.

It is the one file that holds conversation text, written because the user asked for it. No key, header or credential and
none of a provider's own words ever reach it.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from runvil.jsonl import LineFile
from runvil.texts import to_json

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from runvil._native import Effect, Event, RoundRequest
    from runvil.broker import Request, Retry
    from runvil.harness import Answer


class RunLog:
    """Writes the log of one run."""

    def __init__(self, path: str | os.PathLike[str], execution: str) -> None:
        self._lines = LineFile(path)
        self._execution = execution
        self._sent: dict[str, RoundRequest] = {}

    def parameters(self, fields: Mapping[str, Any]) -> None:
        """Writes the first line: what the run started from."""
        self._lines.write({"kind": "run_parameters", "execution": self._execution, **fields})

    def events(self, events: Sequence[Event]) -> None:
        """Writes the events of a step, in order."""
        for event in events:
            self._lines.write_json(event.to_json().encode())

    def request(self, request: Request) -> None:
        """Writes what a request adds to the one before it on its message list.

        `from` is the 1-based position of the first message that differs; the messages before it are those of the
        earlier request. An inference is a list of its own.
        """
        native = request.native
        earlier = None if request.conversation is None else self._sent.get(request.conversation)
        kept, messages = (0, native.messages_json()) if earlier is None else native.difference(earlier)
        if request.conversation is not None:
            self._sent[request.conversation] = native
        before = {
            "kind": "chat",
            "execution": self._execution,
            "section": request.section,
            "round": request.round,
            "origin": request.origin,
            "model": request.model,
            "role": request.role,
            "from": kept + 1,
        }
        after: dict[str, Any] = {
            "tools": request.tool_names,
            "estimate": request.estimate,
            "count": request.count,
            "reserve": request.reserve,
            "window": request.window,
        }
        if request.estimator is not None:
            after["estimator"] = request.estimator
        opening, closing = to_json(before)[:-1].encode(), to_json(after)[1:].encode()
        self._lines.write_json(b"".join((opening, b',"messages":', messages, b",", closing)))

    def retry(self, retry: Retry) -> None:
        """Writes that a request is sent again."""
        fields = asdict(retry)
        fields["failure"] = fields.pop("kind")
        self._lines.write({"kind": "model_retry", "execution": self._execution, **fields})

    def answer(self, effect: Effect, answer: Answer, seconds: float) -> None:
        """Writes the answer to an effect, which took so many seconds."""
        what, payload = answer
        line = {"kind": "answer", "execution": self._execution, "effect": effect.id, "of": effect.kind, "answer": what}
        if effect.kind == "round":
            line["round"] = effect.request.round
        elif effect.kind == "tool_call":
            line |= {"tool": effect.path, "call_id": effect.call_id, "caller": effect.caller}
            if effect.caller == "script":
                line["arguments"] = effect.arguments
        self._lines.write(line | {"seconds": round(seconds, 6)} | _loggable(payload))

    def outcome(self, fields: Mapping[str, Any]) -> None:
        """Writes how the run ended; its last events follow."""
        self._lines.write({"kind": "outcome", "execution": self._execution, **fields})

    def close(self) -> None:
        """Closes the file."""
        self._lines.close()


def _loggable(payload: Any) -> dict[str, Any]:
    """An answer's fields without a provider's own words, and with source bytes as text."""
    fields = {name: value for name, value in (payload or {}).items() if name != "detail"}
    if "kind" in fields:  # of a failure; `kind` is what tags a line
        fields["failure"] = fields.pop("kind")
    if isinstance(fields.get("source"), bytes):
        fields["source"] = fields["source"].decode(errors="replace")
    return fields
