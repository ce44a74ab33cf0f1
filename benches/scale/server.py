"""A model server for the comparison: four tool calls, then a text, over and over. `python -m benches.scale.server`.

Prints its port. It reads each request to its end and looks at nothing in it.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys

ROUNDS = 4
"""Tool rounds before the text."""


def _answers() -> list[bytes]:
    """The answers of one conversation in their order."""
    answers = []
    for number in range(ROUNDS + 1):
        message: dict[str, object] = {"role": "assistant", "content": "done"}
        if number < ROUNDS:
            function = {"name": "lookup", "arguments": json.dumps({"number": number})}
            call = {"id": f"call_{number}", "type": "function", "function": function}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        reason = "tool_calls" if number < ROUNDS else "stop"
        choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        reply = {
            "id": "x",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [choice],
            "usage": usage,
        }
        body = json.dumps(reply).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        answers.append(head.encode() + body)
    return answers


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: itertools.cycle[bytes]) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = head.partition(b"content-length:")[2].partition(b"\r\n")[0].strip()
            if length:
                await reader.readexactly(int(length))
            else:
                await _read_chunks(reader)
            writer.write(next(answers))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def _read_chunks(reader: asyncio.StreamReader) -> None:
    while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
        await reader.readexactly(size + 2)
    await reader.readuntil(b"\r\n")


async def main() -> None:
    """Serves until it is killed."""
    answers = itertools.cycle(_answers())
    server = await asyncio.start_server(
        lambda reader, writer: _serve(reader, writer, answers), "127.0.0.1", 0, limit=1 << 22
    )
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
