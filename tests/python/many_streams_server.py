"""A model server that answers many requests at once, run as a process of its own by the tests.

    python many_streams_server.py STREAMS

Prints its port. It begins to answer when STREAMS requests wait for it: then each gets its text in pieces, a piece at a
time to all of them.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys

PIECES = 5
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(delta: dict[str, str], finish: str | None = None) -> bytes:
    value = {"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return chunk(f"data: {json.dumps(value)}\n\n".encode())


async def serve(streams: int) -> None:
    waiting: list[asyncio.StreamWriter] = []

    async def answer_all() -> None:
        for writer in waiting:
            writer.write(HEAD)
        for piece in range(PIECES):
            for number, writer in enumerate(waiting):
                writer.write(event({"content": f"{number}.{piece} "}))
            await asyncio.gather(*(writer.drain() for writer in waiting))
        for writer in waiting:
            writer.write(event({}, "stop") + chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
        waiting.clear()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(length.partition(b":")[2]))
            waiting.append(writer)
            if len(waiting) == streams:
                await answer_all()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=streams)
    print(server.sockets[0].getsockname()[1], flush=True)  # noqa: T201 - the parent reads it
    await server.serve_forever()


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    asyncio.run(serve(int(sys.argv[1])))
