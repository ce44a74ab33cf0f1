"""The server of the comparison, run as a process of its own: `python -m benches.client.server`. Prints its port.

The model's id says how it answers: `FRAGMENTS` pieces at once, `FRAGMENTS/together/STREAMS` pieces that are sent round
by round once that many requests wait, or `FRAGMENTS/timed/MILLISECONDS` pieces with pauses, each the time it was sent.
"""

from __future__ import annotations

import asyncio
import json
import re
import resource
import sys
import time

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def piece(number: int) -> str:
    """A piece of a reply. Neighbours differ: litellm ends a stream that repeats itself."""
    return f"a piece of text, number {number % 100:02} "


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _event(delta: dict[str, str], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    value = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return _chunk(f"data: {json.dumps(value)}\n\n".encode())


def _end() -> bytes:
    usage = {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30}
    value = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []}
    usage_event = _chunk(f"data: {json.dumps(value | {'usage': usage})}\n\n".encode())
    return _event({}, "stop") + usage_event + _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"


PIECES, END = [_event({"content": piece(number)}) for number in range(100)], _end()
_MODEL = re.compile(rb'"model":\s*"([^"]*)"')


class Server:
    """Answers on every connection, one request after the other."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.StreamWriter] = []

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves a connection."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                body = await self._body(reader, head)
                # The name stands at one of the ends of the body, which may be long.
                found = _MODEL.search(body[:500]) or _MODEL.search(body[-500:]) or _MODEL.search(body)
                assert found is not None
                await self._answer(found[1].decode(), writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _body(self, reader: asyncio.StreamReader, head: bytes) -> bytes:
        length = re.search(rb"content-length: *(\d+)", head)
        if length:
            return await reader.readexactly(int(length[1]))
        body = b""
        while size := int(await reader.readline(), 16):
            body += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
        return body

    async def _answer(self, model: str, writer: asyncio.StreamWriter) -> None:
        fragments, how, number = (*model.split("/"), "", "")[:3]
        if how == "together":
            self._waiting.append(writer)
            if len(self._waiting) == int(number):
                waiting, self._waiting = self._waiting, []
                await self._answer_together(waiting, int(fragments))
        elif how == "timed":
            writer.write(HEAD)
            for _ in range(int(fragments)):
                await asyncio.sleep(float(number) / 1000)
                writer.write(_event({"content": f"{time.monotonic_ns()} "}))
            writer.write(END)
        else:
            writer.write(HEAD + b"".join(PIECES[number % 100] for number in range(int(fragments))) + END)
            await writer.drain()

    async def _answer_together(self, waiting: list[asyncio.StreamWriter], fragments: int) -> None:
        for writer in waiting:
            writer.write(HEAD)
        for number in range(fragments):
            for writer in waiting:
                writer.write(PIECES[number % 100])
            await asyncio.gather(*(writer.drain() for writer in waiting))
            # Time for the pieces to leave one by one.
            await asyncio.sleep(0)
        for writer in waiting:
            writer.write(END)


async def serve() -> None:
    """Serves until the process is stopped."""
    server = await asyncio.start_server(Server().connected, "127.0.0.1", 0, backlog=4096, limit=1 << 20)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    asyncio.run(serve())
