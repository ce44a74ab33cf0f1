"""pydantic-ai: its message types, its repair and merge of a history, and its mapping to OpenAI's chat API."""

# mypy: disable-error-code="import-not-found, no-any-return"
# The peers are installed for the comparison alone, so that the type checker of the project does not see them.

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson
from pydantic import TypeAdapter
from pydantic_ai.messages import (
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
    repair_messages,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from benches.contestant import Contestant

if TYPE_CHECKING:
    from collections.abc import Callable

    from benches.contestant import Turn
    from benches.conversations import Conversation, Record

_WHEN = datetime(2026, 1, 1, tzinfo=UTC)
_model = OpenAIChatModel("small", provider=OpenAIProvider(base_url="http://127.0.0.1:9/v1", api_key="none"))
_one: TypeAdapter[Any] = TypeAdapter(ModelMessage)


def _native(records: list[Record]) -> list[Any]:
    names: dict[str, str] = {}
    return [_message(record, names) for record in records]


def _message(record: Record, names: dict[str, str]) -> Any:
    content = record["content"]
    if record["role"] == "assistant":
        parts: list[Any] = [TextPart(content)] if content or "tool_calls" not in record else []
        for call in record.get("tool_calls", ()):
            names[call["id"]] = call["name"]
            parts.append(ToolCallPart(call["name"], call["arguments"], call["id"]))
        return ModelResponse(parts=parts, timestamp=_WHEN)
    if record["role"] == "tool":
        name = names.get(record["tool_call_id"], "tool")
        part: Any = ToolReturnPart(name, content, record["tool_call_id"], timestamp=_WHEN)
    elif record["role"] == "system":
        part = SystemPromptPart(content, timestamp=_WHEN)
    else:
        if not isinstance(content, str):
            content = [ImageUrl(p["image_url"]["url"]) if p["type"] == "image_url" else p["text"] for p in content]
        part = UserPromptPart(content, timestamp=_WHEN)
    return ModelRequest(parts=[part])


def _json(conversation: Conversation) -> bytes:
    return ModelMessagesTypeAdapter.dump_json(_native(conversation.records))


def _objects(conversation: Conversation) -> list[Any]:
    objects: list[Any] = orjson.loads(_json(conversation))
    return objects


def _map(messages: list[Any]) -> list[Any]:
    # The mapping is a step of `OpenAIChatModel.request`, which has no public name of its own.
    return asyncio.run(_model._map_messages(messages, ModelRequestParameters()))


def _serialize(messages: list[Any]) -> bytes:
    return orjson.dumps(_map(messages))


def _turn(messages: list[Any]) -> Turn:
    mapped = _map(repair_messages(messages))
    size = sum(len(message["content"]) for message in mapped if isinstance(message.get("content"), str))
    return orjson.dumps(mapped), size // 4


def _appender(messages: list[Any]) -> Callable[[Any], object]:
    messages = messages.copy()
    return lambda message: messages.append(_one.validate_python(message))


def _looper(objects: list[Any]) -> Callable[[list[Any]], Turn]:
    held = ModelMessagesTypeAdapter.validate_python(objects)

    def step(added: list[Any]) -> Turn:
        held.extend(ModelMessagesTypeAdapter.validate_python(added))
        return _turn(held)

    return step


_ROLES = {"user-prompt": "user", "system-prompt": "system", "tool-return": "tool"}


def _read(messages: list[Any]) -> tuple[int, int]:
    roles = strings = 0
    for message in messages:
        if message.kind == "response":
            roles += len("assistant")
            strings += 1
        else:
            part = message.parts[0]
            roles += len(_ROLES[part.part_kind])
            strings += isinstance(part.content, str)
    return roles, strings


def _wire_form(data: bytes | memoryview) -> list[Record]:
    messages: list[Record] = orjson.loads(data)
    for message in messages:
        if message.get("content") is None:
            message["content"] = ""
        if isinstance(message["content"], list):
            for part in message["content"]:
                if part["type"] == "image_url":
                    part["image_url"] = {"url": part["image_url"]["url"]}
    return messages


PYDANTIC_AI = Contestant(
    name="pydantic-ai",
    packages=("pydantic-ai-slim",),
    objects=_objects,
    json=_json,
    validate=ModelMessagesTypeAdapter.validate_python,
    parse=ModelMessagesTypeAdapter.validate_json,
    merge=repair_messages,
    merges_like=lambda record: str(record["role"] == "assistant"),
    serialize=_serialize,
    turn_objects=lambda objects: _turn(ModelMessagesTypeAdapter.validate_python(objects)),
    turn_json=lambda data: _turn(ModelMessagesTypeAdapter.validate_json(data)),
    appender=_appender,
    looper=_looper,
    read=_read,
    snapshot=list.copy,
    wire_form=_wire_form,
    remarks={
        "validate": "shapes only, of its own message form",
        "merge": "tool results are part of a request, so the messages are fewer",
        "append": "shapes only",
        "turn": "counts the characters of texts only",
        "loop": "no precheck",
    },
)
