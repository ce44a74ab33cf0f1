"""What a model answers."""

from __future__ import annotations

from dataclasses import dataclass
from operator import index
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


USAGE = ("prompt_tokens", "completion_tokens", "total_tokens", "reasoning_tokens", "cached_tokens")
"""The token counts of a reply that mean something; others are ignored."""


@dataclass(slots=True, kw_only=True)
class Reply:
    """One reply of a model, as a broker returns it.

    Args:
        text: The text.
        tool_calls: The tools the model asks for, each `{"id": …, "name": …, "arguments": …}`. `arguments` is a dict, or
            the provider's JSON text.
        finish_reason: Why the model stopped, in the provider's word; None when it named no reason.
        usage: Token counts: `prompt_tokens`, `completion_tokens`, `total_tokens`, `reasoning_tokens`, `cached_tokens`.
            Counts the provider did not report are left out.
        reasoning: The model's thinking.
        model: The name of the model that served the request.
        metrics: Timings the provider reported.
    """

    text: str | None = None
    tool_calls: Sequence[Mapping[str, Any]] | None = None
    finish_reason: str | None = None
    usage: Mapping[str, int | None] | None = None
    reasoning: str | None = None
    model: str | None = None
    metrics: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        for name in ("text", "finish_reason", "reasoning", "model"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise TypeError(f"{name} must be a string or None, got {type(value).__name__}")
        for position, call in enumerate(self.tool_calls or (), start=1):
            if "name" not in call:
                raise ValueError(
                    f'tool call {position} has no "name"; a tool call is {{"id": …, "name": …, "arguments": …}}'
                )

    def to_answer(self) -> dict[str, Any]:
        """The reply in the engine's form.

        Raises:
            TypeError: A token count is no integer.
        """
        calls = [
            {"id": call.get("id") or "", "name": call["name"] or "", "arguments": call.get("arguments")}
            for call in self.tool_calls or ()
        ]
        return {
            "text": self.text,
            "tool_calls": calls,
            "finish_reason": self.finish_reason,
            "usage": self.usage
            and {name: _count(self.usage, name) for name in USAGE if self.usage.get(name) is not None},
            "reasoning": self.reasoning,
            "model": self.model,
            "metrics": None if self.metrics is None else dict(self.metrics),
            "degraded": [],
            "host_built": True,
        }


def _count(usage: Mapping[str, Any], name: str) -> int:
    try:
        return index(usage[name])
    except TypeError:
        raise TypeError(f"{name} of the reply's usage cannot be a {type(usage[name]).__name__}") from None


@dataclass(slots=True, kw_only=True)
class BackendReply(Reply):
    """A reply that was read from a backend, by the HTTP broker or from a file of scripted replies.

    An empty one is reported differently from an empty reply that an application's own broker built.

    Args:
        degraded: What the reader had to ignore in it, a sentence each.
    """

    degraded: Sequence[str] = ()

    def to_answer(self) -> dict[str, Any]:
        """The reply in the engine's form."""
        # A dataclass with slots is a new class: `super()` without arguments would look at the old one.
        return Reply.to_answer(self) | {"degraded": list(self.degraded), "host_built": False}
