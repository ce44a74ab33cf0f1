"""langchain-core: its messages, and the functions it has for merging, counting and trimming them."""

# mypy: disable-error-code="import-not-found, no-any-return"
# The peers are installed for the comparison alone, so that the type checker of the project does not see them.

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from langchain_core.messages import (
    BaseMessage,
    convert_to_messages,
    convert_to_openai_messages,
    merge_message_runs,
    trim_messages,
)
from langchain_core.messages.utils import count_tokens_approximately

from benches.contestant import Contestant

if TYPE_CHECKING:
    from collections.abc import Callable

    from benches.contestant import Turn
    from benches.conversations import Record

Native = list[BaseMessage]


def _parse(data: bytes) -> Native:
    return convert_to_messages(orjson.loads(data))


def _serialize(messages: Native) -> bytes:
    return orjson.dumps(convert_to_openai_messages(messages))


def _turn(messages: Native) -> Turn:
    merged = merge_message_runs(messages)
    return _serialize(merged), count_tokens_approximately(merged)


def _appender(messages: Native) -> Callable[[Record], object]:
    messages = messages.copy()
    return lambda record: messages.extend(convert_to_messages([record]))


def _looper(objects: list[Record]) -> Callable[[list[Record]], Turn]:
    held = convert_to_messages(objects)

    def step(added: list[Record]) -> Turn:
        held.extend(convert_to_messages(added))
        return _turn(held)

    return step


_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}


def _read(messages: Native) -> tuple[int, int]:
    roles = strings = 0
    for message in messages:
        roles += len(_ROLES[message.type])
        strings += isinstance(message.content, str)
    return roles, strings


def _trim(messages: Native, tokens: int) -> Any:
    return trim_messages(
        messages,
        max_tokens=tokens,
        token_counter=count_tokens_approximately,
        strategy="last",
        include_system=True,
        start_on="human",
    )


def _flat(messages: list[Record]) -> list[Record]:
    # Text parts alone become one text.
    flat = []
    for message in messages:
        content = message["content"]
        if not isinstance(content, str) and all(part["type"] == "text" for part in content):
            message = {**message, "content": "\n".join(part["text"] for part in content)}
        flat.append(message)
    return flat


def _wire_form(data: bytes | memoryview) -> list[Record]:
    messages: list[Record] = orjson.loads(data)
    for message in messages:
        for call in message.get("tool_calls", ()):
            # It writes arguments with Python's json, whose separators have spaces.
            function = call["function"]
            function["arguments"] = orjson.dumps(orjson.loads(function["arguments"])).decode()
    return messages


LANGCHAIN = Contestant(
    name="langchain-core",
    packages=("langchain-core",),
    validate=convert_to_messages,
    parse=_parse,
    merge=merge_message_runs,
    composed=merge_message_runs,
    estimate=count_tokens_approximately,
    serialize=_serialize,
    turn_objects=lambda objects: _turn(convert_to_messages(objects)),
    turn_json=lambda data: _turn(_parse(data)),
    appender=_appender,
    looper=_looper,
    read=_read,
    snapshot=list.copy,
    trim=_trim,
    wire_form=_wire_form,
    expected_wire=_flat,
    merges_like=lambda record: None if record["role"] == "tool" else record["role"],
    remarks={
        "validate": "shapes only",
        "merge": "joins with one line break; keeps empty records",
        "append": "shapes only",
        "loop": "no precheck",
    },
)
