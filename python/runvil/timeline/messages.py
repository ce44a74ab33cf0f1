"""A message of the log, taken apart for showing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runvil.timeline.entries import RequestedCall
from runvil.timeline.fields import list_of, map_of, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Message:
    """A message as people read it.

    Args:
        role: Who speaks.
        text: What is said; of content parts, the text parts and a line about each other one.
        calls: The tool calls in it.
        tool_call_id: The call that it answers.
    """

    role: str
    text: str
    calls: Sequence[RequestedCall]
    tool_call_id: str


def read_message(value: Any) -> Message:
    """Takes a message apart. Whatever it is, it can be shown."""
    if not isinstance(value, dict):
        return Message("unknown", json_text(value), (), "")
    content = value.get("content")
    if isinstance(content, str):
        text = content
    elif isinstance(content, list):
        text = "\n".join(_part_text(part) for part in content)
    else:
        text = "" if content is None else json_text(content)
    calls = [_call(call) for call in list_of(value, "tool_calls") if isinstance(call, dict)]
    return Message(text_of(value, "role") or "unknown", text, calls, text_of(value, "tool_call_id"))


def json_text(value: Any, *, indented: bool = False) -> str:
    """A value as JSON; a string, which is a model's own writing, as it is."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, indent=2 if indented else None)
    except RecursionError:
        return "(nested too deeply to show)"


def _call(call: Mapping[str, Any]) -> RequestedCall:
    about = map_of(call, "function") or call
    return RequestedCall(text_of(call, "id"), text_of(about, "name"), about.get("arguments"))


def _part_text(part: Any) -> str:
    if not isinstance(part, dict):
        return json_text(part)
    if part.get("type") == "text":
        return text_of(part, "text")
    url = text_of(map_of(part, "image_url"), "url")
    if url.startswith("data:"):
        return f"[{url.partition(',')[0]}, {len(url):,} characters]"
    return json_text(part)
