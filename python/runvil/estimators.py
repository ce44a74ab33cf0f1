"""Estimators: how a model's requests are counted before they are sent.

Without one the estimate is the specified one: a quarter of the text's bytes and four tokens a message. Another
estimator changes which requests the precheck admits, so it is a choice: `runvil.Model(..., estimator=...)`. Where the
provider reported token counts, those are used whatever the estimator. The requests file and the run log name it.
"""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass
from operator import index
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Detailed:
    """The specified estimate, and what it leaves out.

    It adds tool schemas (a quarter of their bytes), a flat cost for each image, and one token a character for runs of
    256 or more base64-like characters. A compaction need not shrink the specified estimate: the retry's precheck
    decides.

    Args:
        image_tokens: The tokens of one image.
    """

    image_tokens: int = 1000

    def __post_init__(self) -> None:
        _check_count("image_tokens", self.image_tokens)

    def to_dict(self) -> dict[str, Any]:
        """The estimator in the engine's form."""
        return {"kind": "detailed", "image_tokens": self.image_tokens}


class WrongCountError(Exception):
    """What a tokenizer's function gave is no count."""


class Tokenizer:
    """Counts with a tokenizer of yours.

    It counts each message's text, its tool calls as JSON, the tool schemas as JSON, `per_message` tokens of framing a
    message and a flat cost for each image. A message that was counted in the request before is not counted again.

        import tiktoken
        encoding = tiktoken.get_encoding("o200k_base")
        estimator = Tokenizer(lambda text: len(encoding.encode(text)), name="o200k_base")

    Args:
        count: Gives the tokens of a text, a plain function. It may be called from any thread.
        name: What files call the estimator.
        per_message: The framing of a message, in tokens.
        image_tokens: The tokens of one image.
    """

    def __init__(
        self, count: Callable[[str], int], *, name: str, per_message: int = 4, image_tokens: int = 1000
    ) -> None:
        if not callable(count):
            raise TypeError(f"count must be a function, got {type(count).__name__}")
        if inspect.iscoroutinefunction(count):
            raise TypeError("count must be a plain function, got an async one; it runs beside the event loop anyway")
        if not name.strip():
            raise ValueError("an estimator's name must be a text that is not blank")
        _check_count("per_message", per_message)
        _check_count("image_tokens", image_tokens)
        self._count = count
        self.name = name
        self.per_message = per_message
        self.image_tokens = image_tokens

    def to_dict(self) -> dict[str, Any]:
        """The estimator in the engine's form."""
        return {"kind": "external", "name": self.name}

    def count_message(self, message: Mapping[str, Any]) -> int:
        """The tokens of one message in wire form."""
        tokens = self.per_message
        content = message.get("content") or ""
        parts: list[dict[str, Any]] = content if isinstance(content, list) else [{"text": content}]
        for part in parts:
            if "image_url" in part:
                tokens += self.image_tokens
            elif text := part.get("text"):
                tokens += self._tokens(text)
        if calls := message.get("tool_calls"):
            tokens += self._tokens(_json(calls))
        return tokens

    def count_tools(self, tools: Sequence[Mapping[str, Any]]) -> int:
        """The tokens of tool schemas in wire form."""
        return self._tokens(_json(tools)) if tools else 0

    def _tokens(self, text: str) -> int:
        tokens: Any = self._count(text)
        if inspect.iscoroutine(tokens):
            tokens.close()
        if isinstance(tokens, bool) or not hasattr(tokens, "__index__"):
            raise WrongCountError(f"gave a {type(tokens).__name__} for the tokens of a text, and not an integer")
        if not 0 <= tokens < 2**53:
            raise WrongCountError(f"gave {tokens} for the tokens of a text")
        return index(tokens)

    def __repr__(self) -> str:
        return f"Tokenizer(name={self.name!r})"


Estimator = Detailed | Tokenizer


def failed_count(estimator: Tokenizer, error: Exception) -> str:
    """What went wrong when an estimator raised this."""
    what = str(error) if isinstance(error, WrongCountError) else f"raised {type(error).__name__}"
    return f"the estimator {estimator.name} {what}"


class Counter:
    """The running counts of one estimator over the conversations of a run."""

    def __init__(self, estimator: Tokenizer) -> None:
        self._estimator = estimator
        self._known: dict[str, list[tuple[str, int]]] = {}

    def count(self, conversation: str | None, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> int:
        """The tokens of a request. Its messages that are those of the request before are not counted again."""
        texts = [_json(message) for message in messages]
        known = self._known.get(conversation, []) if conversation is not None else []
        counted: list[tuple[str, int]] = []
        for position, (text, message) in enumerate(zip(texts, messages, strict=True)):
            if position < len(known) and known[position][0] == text:
                counted.append(known[position])
            else:
                counted.append((text, self._estimator.count_message(message)))
        if conversation is not None:
            self._known[conversation] = counted
        return sum(tokens for _, tokens in counted) + self._estimator.count_tools(tools)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _check_count(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}")
    if value < 0:
        raise ValueError(f"{name} must not be negative, got {value}")
