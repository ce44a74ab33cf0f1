"""A server that speaks the OpenAI chat protocol on the loopback address, run as a process of its own by the tests.

    python openai_server.py REQUESTS_FILE

Prints its port on the first line of stdout. Every request is appended to REQUESTS_FILE as a JSON line with its path,
its headers, its body as received and the port it came from; a stream that the client left, as `{"left": MODEL}`. The
key it accepts is `right-key`. What it answers depends on the model's id.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

KEY = "right-key"
OVERFLOW = {
    "error": {"message": "This model's maximum context length is 4096 tokens.", "type": "invalid_request_error"}
}


class Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    protocol_version = "HTTP/1.1"
    requests_file: Path
    lock = threading.Lock()
    failed_once: set[str] = set()  # noqa: RUF012 - one for the whole server

    def do_POST(self) -> None:
        """Answers a chat completion request."""
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        port = self.client_address[1]
        self._note({"path": self.path, "headers": headers, "body": raw.decode(), "port": port})
        body = json.loads(raw)
        if headers.get("authorization") != f"Bearer {KEY}":
            self._send(401, {"error": {"message": "Incorrect API key provided: sk-...", "code": "invalid_api_key"}})
            return
        self._answer(str(body["model"]), streamed=bool(body.get("stream")))

    def _answer(self, model: str, *, streamed: bool) -> None:
        match model:
            case "hang":
                time.sleep(60)
            case "hang-midway":
                self._start_stream()
                self._chunk(_delta("first "))
                time.sleep(60)
            case "endless":
                self._start_stream()
                try:
                    while True:
                        self._chunk(_delta("more "))
                        time.sleep(0.01)
                except OSError:
                    self._note({"left": model})
                    self.close_connection = True
            case "overflow":
                self._send(400, OVERFLOW)
            case "break-off":
                self._start_stream()
                self._chunk(_delta("first "))
                self.close_connection = True
                self.connection.close()
            case "busy-once" if model not in self.failed_once:
                self.failed_once.add(model)
                self._send(503, {"error": {"message": "overloaded"}})
            case _ if streamed:
                self._stream()
            case _:
                message = {"role": "assistant", "content": "whole answer"}
                self._send(200, {"model": "served", "choices": [{"message": message, "finish_reason": "stop"}]})

    def _note(self, value: dict[str, Any]) -> None:
        with self.lock, self.requests_file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(value) + "\n")

    def _stream(self) -> None:
        self._start_stream()
        for piece in ("one ", "two ", "three"):
            self._chunk(_delta(piece))
            time.sleep(0.15)
        self._chunk({"model": "served", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        usage = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}
        self._chunk({"model": "served", "choices": [], "usage": usage})
        self._write(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _start_stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _chunk(self, value: dict[str, Any]) -> None:
        self._write(f"data: {json.dumps(value)}\n\n".encode())

    def _write(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _send(self, status: int, value: dict[str, Any]) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Says nothing."""


def _delta(text: str) -> dict[str, Any]:
    return {"model": "served", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}


if __name__ == "__main__":
    Handler.requests_file = Path(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)  # noqa: T201 - the parent reads it
    server.serve_forever()
