"""Compactors: what to do with a conversation that outgrew its model's context window.

A compactor is called as `compactor(conversation, reason)` by `Conversation.compact`, `compact_async` and `loop`, and
rewrites the records with `conversation.replace`, positions counted from 1. `reason` is `precheck` or `provider` when a
round did not fit, and the caller's own text otherwise. One that raises leaves the conversation as it was.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from runvil import _native
from runvil.asking import ask
from runvil.broker import Request
from runvil.errors import LoopError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from runvil.conversation import Conversation
    from runvil.model import Model

SUMMARY_PROMPT = (
    "Summarize this conversation for its own continuation. Keep names, numbers, decisions, open questions and what "
    "tools found out. Answer with the summary alone.\n\n"
)
"""What `summarize` asks, with the records after it."""


def fail(conversation: Conversation, reason: str) -> None:
    """Never compacts: raises the error of a conversation that does not fit. It is what a loop does by default.

    Raises:
        LoopError: Always, of kind `context_exhausted`.
    """
    del conversation
    raise LoopError("context_exhausted", _native.exhausted_message(reason), reason=reason)


def clear(conversation: Conversation, reason: str) -> None:
    """Removes every record."""
    del reason
    conversation.replace(1, len(conversation))


def trim(*, keep_turns: int = 2) -> Callable[[Conversation, str], None]:
    """Makes a compactor that drops the oldest records: it keeps the leading system records and the last user turns.

    The cut falls on a user record, so that no batch of tool calls is split. Where there is nothing to drop the
    compactor does what `fail` does.

    Args:
        keep_turns: How many user records are kept, with everything after the first of them; at least 1.
    """
    turns = _checked_turns(keep_turns)

    def compact(conversation: Conversation, reason: str) -> None:
        first, cut = _native.turn_bounds(conversation, turns)
        if cut is None or cut <= first:
            fail(conversation, reason)
        else:
            conversation.replace(first, cut - 1)

    return compact


def summarize(
    model: Model, *, keep_turns: int = 2, prompt: str = SUMMARY_PROMPT
) -> Callable[[Conversation, str], Awaitable[None]]:
    """Makes an async compactor that puts one user record with a summary in the place of the oldest records.

    It keeps the leading system records and the last user turns, as `trim` does, and asks `model` for the summary of
    what lies between. The record's metadata is `{"summary": True}`. When the request for the summary itself does not
    fit, half as many records are summarized, and half of those, until it does; the rest of them stays. Where there is
    nothing to summarize, or not even the oldest turn fits, it does what `fail` does.

    Args:
        model: What writes the summary.
        keep_turns: How many user records are kept, with everything after the first of them; at least 1.
        prompt: The text in front of the records.
    """
    turns = _checked_turns(keep_turns)
    if not isinstance(prompt, str):
        raise TypeError(f"prompt must be a string, got {type(prompt).__name__}")

    async def compact(conversation: Conversation, reason: str) -> None:
        first, cut = _native.turn_bounds(conversation, turns)
        last = len(conversation) if cut is None else cut - 1
        while last >= first:
            text = await _summary(model, prompt + _transcript(conversation, first, last), reason)
            if text is not None:
                summary = f"Summary of the earlier conversation: {text}"
                conversation.replace(first, last, {"role": "user", "content": summary, "meta": {"summary": True}})
                return
            last = _half(conversation, first, last)
        fail(conversation, reason)

    return compact


async def _summary(model: Model, prompt: str, reason: str) -> str | None:
    """What the model answers; None when the request does not fit its window.

    Raises:
        LoopError: The model call failed, or came back empty.
    """
    request = _native.single_round(prompt, model.to_dict())
    if request is None:
        return None
    (kind, fields), failure, cause = await ask(model.broker, Request(request), None)
    if failure is not None:
        if failure.kind == "ContextOverflow":
            return None
        message = _native.failure_text(failure.kind, failure.status, failure.note)
        raise LoopError("internal", message, status=failure.status, detail=failure.detail) from cause
    text = fields.get("text") if kind == "reply" else None
    if not isinstance(text, str) or not text.strip():
        message = "the model replied with no text and no tool calls"
        raise LoopError("empty_model_reply", message, finish_reason=fields.get("finish_reason"))
    return text


def _checked_turns(keep_turns: int) -> int:
    if isinstance(keep_turns, bool) or not isinstance(keep_turns, int):
        raise TypeError(f"keep_turns must be an integer, got {type(keep_turns).__name__}")
    if keep_turns < 1:
        raise ValueError(f"keep_turns must be at least 1, got {keep_turns}")
    return keep_turns


def _half(conversation: Conversation, first: int, last: int) -> int:
    """The end of the older half of a range: the record before a user record; below `first` when there is none."""
    roles = conversation.roles()
    for position in range(first + (last - first + 1) // 2, first, -1):
        if roles[position - 1] == "user":
            return position - 1
    return first - 1


def _transcript(conversation: Conversation, first: int, last: int) -> str:
    """The records as text, a line each: the role and the content as JSON."""
    lines = []
    for position in range(first, last + 1):
        record = conversation[position - 1]
        line = f"{record.role}: {_json(record.content)}"
        if record.tool_calls:
            line += f" {_json(record.tool_calls)}"
        lines.append(line)
    return "\n".join(lines)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
