"""The run log: everything about a run in one file, for its author to look at afterwards.

It is the one file that holds conversation text, written because the user asked for it. No key, header or credential and
none of a provider's own words ever reach it.
"""

from __future__ import annotations

from dataclasses import asdict
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from runvil.jsonl import LineFile
from runvil.packs import to_json

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from runvil._native import Effect, Event
    from runvil.broker import Request, Retry
    from runvil.harness import Answer


class RunLog:
    """Writes the log of one run."""

    def __init__(self, path: str | os.PathLike[str], execution: str) -> None:
        self._lines = LineFile(path)
        self._execution = execution
        self._sent: dict[str, list[bytes]] = {}

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
        messages = request.messages
        kept = 0
        if request.conversation is not None:
            digests = [blake2b(to_json(message).encode(), digest_size=16).digest() for message in messages]
            kept = _shared_start(self._sent.get(request.conversation, []), digests)
            self._sent[request.conversation] = digests
        line = {"kind": "chat", "execution": self._execution, "section": request.section, "round": request.round}
        line |= {"origin": request.origin, "model": request.model, "from": kept + 1, "messages": messages[kept:]}
        self._lines.write(line)

    def retry(self, retry: Retry) -> None:
        """Writes that a request is sent again."""
        fields = asdict(retry)
        fields["failure"] = fields.pop("kind")
        self._lines.write({"kind": "model_retry", "execution": self._execution, **fields})

    def answer(self, effect: Effect, answer: Answer) -> None:
        """Writes the answer to an effect."""
        what, payload = answer
        line = {"kind": "answer", "execution": self._execution, "effect": effect.id, "of": effect.kind, "answer": what}
        if effect.kind == "round":
            line["round"] = effect.request.round
        elif effect.kind == "tool_call":
            line["tool"] = effect.path
        self._lines.write(line | _loggable(payload))

    def close(self) -> None:
        """Closes the file."""
        self._lines.close()


def _shared_start(earlier: list[bytes], later: list[bytes]) -> int:
    """How many messages two requests have in common from their start."""
    pairs = zip(earlier, later, strict=False)
    return next((at for at, (old, new) in enumerate(pairs) if old != new), min(len(earlier), len(later)))


def _loggable(payload: Any) -> dict[str, Any]:
    """An answer's fields without a provider's own words, and with source bytes as text."""
    fields = {name: value for name, value in (payload or {}).items() if name != "detail"}
    if "kind" in fields:  # of a failure; `kind` is what tags a line
        fields["failure"] = fields.pop("kind")
    if isinstance(fields.get("source"), bytes):
        fields["source"] = fields["source"].decode(errors="replace")
    return fields
