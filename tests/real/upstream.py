"""A scripted model server behind the LiteLLM proxy. Prints its port; what it streams depends on the model's id."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Streams a reply in pieces."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = body["model"]
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        if name == "break-off":  # more is announced than comes
            self.send_header("Content-Length", "100000")
        self.end_headers()
        self.close_connection = True
        if name == "tools" and body["messages"][-1]["role"] == "tool":
            results = [message["content"] for message in body["messages"] if message["role"] == "tool"]
            self._deltas([{"content": "results: "}, {"content": ", ".join(results)}], "stop")
        elif name == "tools":
            first = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "add", "arguments": ""}}
            second = {"index": 1, "id": "call_2", "type": "function", "function": {"name": "add", "arguments": ""}}
            pieces = [(0, '{"a": 2,'), (1, '{"a": 1, '), (0, ' "b": 40}'), (1, '"b": 1}')]
            calls = [[first, second], *([{"index": at, "function": {"arguments": text}}] for at, text in pieces)]
            self._deltas([{"tool_calls": delta} for delta in calls], "tool_calls")
        elif name == "reasoning":
            thoughts = [{"reasoning_content": "let me "}, {"reasoning_content": "think"}]
            self._deltas([*thoughts, {"content": "done"}], "stop")
        elif name == "break-off":
            self._deltas([{"content": "half of "}], None)

    def _deltas(self, deltas: list[dict[str, Any]], finish: str | None) -> None:
        for delta in deltas:
            self._event([{"index": 0, "delta": delta, "finish_reason": None}])
        if finish is None:
            return
        self._event([{"index": 0, "delta": {}, "finish_reason": finish}])
        self.wfile.write(b"data: [DONE]\n\n")

    def _event(self, choices: list[dict[str, Any]]) -> None:
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices}
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Says nothing."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)  # noqa: T201 - the parent reads it
    server.serve_forever()
