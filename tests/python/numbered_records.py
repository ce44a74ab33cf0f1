"""Conversations of records that are named by their role and a number, such as `u1 a1 s1`, and edits of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import runvil

if TYPE_CHECKING:
    from collections.abc import Callable

PLACED = (
    "is a system message after a non-system message; system messages lead the list, "
    "and only a compactor can change the leading block"
)


def conversation(texts: str) -> runvil.Conversation:
    """Records named by their role and a number: `u1 a1 s1`."""
    return runvil.Conversation().extend(record(name) for name in texts.split())


def record(name: str) -> dict[str, Any]:
    role = {"u": "user", "a": "assistant", "s": "system"}[name[0]]
    return {"role": role, "content": name}


def texts(conv: runvil.Conversation) -> str:
    return " ".join(conv.texts())


def refused(work: Callable[[], object]) -> runvil.ConversationError:
    with pytest.raises(runvil.ConversationError) as caught:
        work()
    return caught.value


def compacted(before: str, edit: Callable[[runvil.Conversation], object]) -> runvil.Conversation:
    conv = conversation(before)
    conv.compact(lambda same, _: edit(same), "test")
    return conv
