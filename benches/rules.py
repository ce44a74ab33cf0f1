"""The rules of a conversation, written by hand in Python: what a careful user would write with orjson at hand.

Records are dicts. Every rule that `runvil.Conversation` checks is here, with the same texts, but for values that have
no JSON form: those the encoder refuses.
"""

# mypy: disable-error-code="import-not-found, no-any-return"
# The peers are installed for the comparison alone, so that the type checker of the project does not see them.

# ruff: noqa: TRY004 - every broken rule is one kind of error

from __future__ import annotations

from typing import Any

import orjson

Record = dict[str, Any]

META_LIMIT = 8192
BYTES_PER_TOKEN = 4
TOKENS_PER_MESSAGE = 4

_ROLES = frozenset({"system", "user", "assistant", "tool"})
_KNOWN_ROLES = "system, user, assistant, tool"


def check_record(record: Any, position: int) -> None:
    """Checks one record by itself. `position` is 1-based."""
    if not isinstance(record, dict):
        raise ValueError(f"messages[{position}] must be a message table")
    role = record.get("role")
    if role not in _ROLES:
        if not isinstance(role, str):
            raise ValueError(f"messages[{position}] role must be a string, one of: {_KNOWN_ROLES}")
        raise ValueError(f'messages[{position}] role "{role}" is unknown; known roles: {_KNOWN_ROLES}')
    content = record.get("content")
    if not isinstance(content, str):
        _check_parts(content, position)
    name = record.get("tool_call_id")
    if role == "tool":
        if not isinstance(name, str):
            raise ValueError(f"messages[{position}] is a tool message and must set a string tool_call_id")
    elif name is not None:
        if not isinstance(name, str):
            raise ValueError(f"messages[{position}] tool_call_id must be a string")
        raise ValueError(f"messages[{position}] sets a tool_call_id but is not a tool message")
    calls = record.get("tool_calls")
    if calls is not None:
        _check_calls(calls, position)
    meta = record.get("meta")
    if meta is not None:
        size = len(orjson.dumps(meta))
        if size > META_LIMIT:
            raise ValueError(f"messages[{position}] meta is {size} bytes as JSON; the limit is {META_LIMIT} bytes")


def _check_parts(content: Any, position: int) -> None:
    if not isinstance(content, list) or not content:
        raise ValueError(f"messages[{position}] content must be a string or a non-empty array of content parts")
    for index, part in enumerate(content, 1):
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            raise ValueError(f"messages[{position}] content part {index} must be a table with a string type field")
        kind = part["type"]
        if kind == "text":
            if not isinstance(part.get("text"), str):
                raise ValueError(
                    f"messages[{position}] content part {index} is a text part and must set a string text field"
                )
        elif kind == "image_url":
            image = part.get("image_url")
            if not isinstance(image, dict) or not isinstance(image.get("url"), str):
                raise ValueError(
                    f"messages[{position}] content part {index} is an image_url part and must set an image_url table "
                    "with a string url field"
                )
        else:
            raise ValueError(
                f'messages[{position}] content part {index} has unknown type "{kind}"; known types: text, image_url'
            )


def _check_calls(calls: Any, position: int) -> None:
    if not isinstance(calls, list):
        raise ValueError(f"messages[{position}] tool_calls must be an array")
    for index, call in enumerate(calls, 1):
        if not isinstance(call, dict):
            raise ValueError(f"messages[{position}] tool_calls[{index}] must be a table")
        if not isinstance(call.get("id"), str):
            raise ValueError(f"messages[{position}] tool_calls[{index}] must set a string id")
        if not isinstance(call.get("name"), str):
            raise ValueError(f"messages[{position}] tool_calls[{index}] must set a string name")
        arguments = call.get("arguments")
        if arguments is not None and not isinstance(arguments, dict):
            raise ValueError(f"messages[{position}] tool_calls[{index}] arguments must be a table")


class Sequence:
    """The rules across records, record by record."""

    __slots__ = ("_leading", "_leading_parts", "_open", "_open_position", "_position", "_seen", "_started")

    def __init__(self) -> None:
        self._position = 0
        self._started = False
        self._leading = 0
        self._leading_parts = 0
        self._seen: set[str] = set()
        self._open: dict[str, None] = {}
        self._open_position = 0

    def take(self, role: str, content: Any, calls: Any, name: str | None) -> None:
        """Takes the next record: its role, content, tool calls (as objects with an `id` key) and tool call id."""
        position = self._position = self._position + 1
        if role == "system":
            if self._started:
                raise ValueError(
                    f"messages[{position}] is a system message after a non-system message; system messages lead the "
                    "list, and only a compactor can change the leading block"
                )
            self._leading += 1
            if not isinstance(content, str) and not self._leading_parts:
                self._leading_parts = position
            if self._leading > 1 and self._leading_parts:
                raise ValueError(
                    f"messages[{self._leading_parts}] is a system message with content parts; only plain text system "
                    "messages can be composed"
                )
        else:
            self._started = True
        if calls and role != "assistant":
            raise ValueError(f"messages[{position}] sets tool_calls but is not an assistant message")
        if role == "tool":
            if name not in self._open:
                raise ValueError(
                    f'messages[{position}] is an orphan tool record: no pending assistant tool call with id "{name}"'
                )
            del self._open[name]
            return
        if self._open:
            self.finish()
        if calls:
            self._open_position = position
            for call in calls:
                name = call["id"] if isinstance(call, dict) else call.id
                if name in self._seen:
                    raise ValueError(f'messages[{position}] tool call id "{name}" duplicates an earlier tool call')
                self._seen.add(name)
                self._open[name] = None

    def finish(self) -> None:
        """Checks that every call has its result."""
        for name in self._open:
            raise ValueError(f'messages[{self._open_position}] tool call "{name}" has no tool result')


def to_wire(record: Record) -> Record:
    """What the model receives of one record."""
    calls = record.get("tool_calls")
    if calls:
        return {
            "role": record["role"],
            "content": wire_content(record["content"]),
            "tool_calls": [wire_call(call) for call in calls],
        }
    content = wire_content(record["content"])
    if record["role"] == "tool":
        return {"role": "tool", "content": content, "tool_call_id": record["tool_call_id"]}
    return {"role": record["role"], "content": content}


def wire_call(call: Record) -> Record:
    """What the model receives of a tool call."""
    arguments = orjson.dumps(call.get("arguments") or {}).decode()
    return {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": arguments}}


def wire_content(content: Any) -> Any:
    """The content without fields that the model does not receive."""
    if isinstance(content, str):
        return content
    return [
        {"type": "text", "text": part["text"]}
        if part["type"] == "text"
        else {"type": "image_url", "image_url": {"url": part["image_url"]["url"]}}
        for part in content
    ]


def joined_content(role: str, run: list[Any]) -> Any:
    """The content of one message that is made from the contents of a run of records."""
    separator = "" if role == "assistant" else "\n\n"
    if all(isinstance(content, str) for content in run):
        return separator.join(run if role == "system" else filter(None, run))
    parts: list[Any] = []
    texts: list[str] = []
    for index, content in enumerate(run):
        if isinstance(content, str):
            if parts:
                if separator:
                    parts.append({"type": "text", "text": separator})
                if content:
                    parts.append({"type": "text", "text": content})
            else:
                texts.append(content)
            continue
        if not parts:
            before = separator.join(filter(None, texts))
            if before:
                parts.append({"type": "text", "text": before})
        if index and separator:
            parts.append({"type": "text", "text": separator})
        parts.extend(content)
    return parts


def text_bytes(content: Any) -> int:
    """Bytes of a content's text, images aside."""
    if isinstance(content, str):
        return len(content) if content.isascii() else len(content.encode())
    return sum(text_bytes(part["text"]) for part in content if part["type"] == "text")


def estimate_tokens(size: int, messages: int) -> int:
    """The estimated tokens of this many messages with this many bytes of text and serialized tool calls."""
    return size // BYTES_PER_TOKEN + TOKENS_PER_MESSAGE * messages


def reserve(context: int, max_tokens: int | None = None) -> int:
    """The room kept for the reply, in tokens."""
    wanted = min(context // 8, 8192) if max_tokens is None else max_tokens
    return min(wanted, context // 2)
