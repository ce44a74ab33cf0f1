"""openai-agents: its conversion of a run's items to chat messages, and its session."""

# mypy: disable-error-code="import-not-found, no-any-return"
# The peers are installed for the comparison alone, so that the type checker of the project does not see them.

from __future__ import annotations

import asyncio
import atexit
from typing import TYPE_CHECKING, Any

import orjson
from agents import SQLiteSession
from agents.models.chatcmpl_converter import Converter

from benches.contestant import Contestant

if TYPE_CHECKING:
    from collections.abc import Callable

    from benches.contestant import Turn
    from benches.conversations import Conversation, Record


def _items(record: Record) -> list[Record]:
    content = record["content"]
    if record["role"] == "tool":
        return [{"type": "function_call_output", "call_id": record["tool_call_id"], "output": content}]
    if not isinstance(content, str):
        content = [
            {"type": "input_text", "text": part["text"]}
            if part["type"] == "text"
            else {"type": "input_image", "image_url": part["image_url"]["url"], "detail": "auto"}
            for part in content
        ]
    items = []
    if content or "tool_calls" not in record:
        items.append({"type": "message", "role": record["role"], "content": content})
    for call in record.get("tool_calls", ()):
        function = call["function"]
        items.append(
            {
                "type": "function_call",
                "call_id": call["id"],
                "name": function["name"],
                "arguments": function["arguments"],
            }
        )
    return items


def _objects(conversation: Conversation) -> list[Record]:
    return [item for record in conversation.openai for item in _items(record)]


def _json(conversation: Conversation) -> bytes:
    return orjson.dumps(_objects(conversation))


def _convert(items: list[Any]) -> list[Any]:
    return Converter.items_to_messages(items)


def _serialize(items: list[Any]) -> bytes:
    return orjson.dumps(_convert(items))


def _looper(objects: list[Any]) -> Callable[[list[Any]], Turn]:
    held = list(objects)

    def step(added: list[Any]) -> Turn:
        held.extend(added)
        return _serialize(held), 0

    return step


def _appender(items: list[Any]) -> Callable[[Any], object]:
    session = SQLiteSession("bench")
    loop = asyncio.new_event_loop()
    atexit.register(loop.close)
    loop.run_until_complete(session.add_items(items))
    return lambda item: loop.run_until_complete(session.add_items([item]))


OPENAI_AGENTS = Contestant(
    name="openai-agents",
    packages=("openai-agents",),
    objects=_objects,
    json=_json,
    serialize=_serialize,
    turn_objects=lambda objects: (_serialize(objects), 0),
    turn_json=lambda data: (_serialize(orjson.loads(data)), 0),
    appender=_appender,
    looper=_looper,
    remarks={
        "turn": "converts and serializes: it neither checks, merges nor counts",
        "append": "to a session in memory; a call with its text is several items",
        "loop": "converts and serializes only",
    },
)
