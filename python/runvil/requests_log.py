"""The file of model requests: one line for each request, written when it leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runvil.jsonl import LineFile
from runvil.texts import to_json

if TYPE_CHECKING:
    import os

    from runvil.broker import Request


class RequestsLog:
    """Writes each model request of a run, with its messages in exactly the bytes that go into the body."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._lines = LineFile(path)

    def request(self, request: Request) -> None:
        """Writes one request."""
        self._lines.write_json(request_json(request))

    def close(self) -> None:
        """Closes the file."""
        self._lines.close()


def request_json(request: Request) -> bytes:
    """A request and how it was measured, as one JSON object."""
    before = {
        "round": request.round,
        "origin": request.origin,
        "section": request.section,
        "model": request.model,
        "role": request.role,
        "handle": request.handle,
    }
    after: dict[str, Any] = {
        "tools": request.tool_names,
        "options": request.options,
        "estimate": request.estimate,
        "count": request.count,
        "reserve": request.reserve,
        "window": request.window,
    }
    if request.estimator is not None:
        after["estimator"] = request.estimator
    opening, closing = to_json(before)[:-1].encode(), to_json(after)[1:].encode()
    return b"".join((opening, b',"messages":', request.messages_json(), b",", closing))
