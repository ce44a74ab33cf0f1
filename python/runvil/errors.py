"""The exceptions of Runvil.

Few classes; what exactly went wrong is told by `kind`. No message holds a key, a header or a provider's own words:
those are in `detail`, which is never printed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runvil._native import Problem

MODEL_ERROR_KINDS = (
    "ContextOverflow",
    "RateLimited",
    "QuotaExhausted",
    "Overloaded",
    "Refused",
    "Timeout",
    "Transport",
    "ServerError",
    "Rejected",
    "MalformedResponse",
    "EmptyReply",
    "Unavailable",
)
"""Every kind a `ModelError` can have."""


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a prompt: `line` and `column` are 1-based."""

    path: str
    line: int
    column: int | None = None

    def __str__(self) -> str:
        column = "" if self.column is None else f":{self.column}"
        return f"{self.path}:{self.line}{column}"


class ParseError(Exception):
    """A prompt document that cannot be read.

    Attributes:
        kind: `Frontmatter`, `Structure`, `Fence`, `List` or `Lua`: the kind of the first problem.
        message: What is wrong, for the first problem.
        line: The 1-based line of the first problem, when it has one.
        column: The 1-based column (in bytes) of the first problem, when it has one.
        problems: Every problem found, the first one included.
        path: The file, when the prompt came from one.
    """

    def __init__(self, problems: Sequence[Problem], path: str | None = None) -> None:
        first = problems[0]
        super().__init__(first.message)
        self.kind = first.kind
        self.message = first.message
        self.line = first.line
        self.column = first.column
        self.problems = list(problems)
        self.path = path

    def __str__(self) -> str:
        return "\n".join(problem_text(problem, self.path) for problem in self.problems)


def problem_text(problem: Problem, path: str | None) -> str:
    """A problem on one line: `path:line:column: kind: message`."""
    place = ":".join(str(part) for part in (path or "<prompt>", problem.line, problem.column) if part is not None)
    return f"{place}: {problem.kind}: {problem.message}"


class RunError(Exception):
    """A run that failed.

    Attributes:
        kind: The run error kind, such as `Lua`, `Completion` or `ContextExhausted`.
        message: The error text.
        reason: Why the context was exhausted: `precheck`, `provider` or the compactor's own word.
        finish_reason: The finish reason of an empty reply, when the provider sent one.
        name: The tool or label the error is about.
        location: Where in the prompt, when that is known.
        parse_kind: The kind of parse error, for kind `Parse`.
        detail: The provider's own words, for a failed model call. Not part of the message.
        status: The HTTP status, for a failed model call.
        used: For an exhausted context the tokens of the request, when the provider counted them.
        limit: For an exhausted context the most tokens that fit, when the provider said so.
        turns: How many replies the run had received.
        usage: The sums of the token counts that the replies reported.

    `__cause__` is the exception behind it when a broker, a tool or a hook raised one.
    """

    def __init__(self, kind: str, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.reason: str | None = fields.get("reason")
        self.finish_reason: str | None = fields.get("finish_reason")
        self.name: str | None = fields.get("name")
        self.location: Location | None = fields.get("location")
        self.parse_kind: str | None = fields.get("parse_kind")
        self.detail: str | None = fields.get("detail")
        self.status: int | None = fields.get("status")
        self.used: int | None = fields.get("used")
        self.limit: int | None = fields.get("limit")
        self.turns: int = fields.get("turns", 0)
        self.usage: dict[str, int] = fields.get("usage", {})

    @classmethod
    def from_outcome(cls, error: Mapping[str, Any], turns: int, usage: Mapping[str, int]) -> RunError:
        """Builds the exception from the engine's error value."""
        fields = dict(error)
        location = fields.pop("location", None)
        return cls(**fields, location=location and Location(**location), turns=turns, usage=dict(usage))

    def __str__(self) -> str:
        place = "" if self.location is None else f" (at {self.location})"
        return f"{self.kind}: {self.message}{place}"


class RunCancelled(Exception):  # noqa: N818 - a cancelled run is an outcome, not an error
    """A run that was cancelled: by its handle, by its deadline, or by Ctrl-C.

    Attributes:
        turns: How many replies the run had received.
        usage: The sums of the token counts that the replies reported.
    """

    def __init__(
        self, message: str = "the run was cancelled", turns: int = 0, usage: Mapping[str, int] | None = None
    ) -> None:
        super().__init__(message)
        self.turns = turns
        self.usage = dict(usage or {})


class ModelError(Exception):
    """A model call that failed. A broker raises it; any other exception counts as kind `Transport`.

    Args:
        kind: One of the twelve names in `runvil.errors.MODEL_ERROR_KINDS`.
        status: The HTTP status, when there was one.
        detail: The provider's own words. They reach `RunError.detail` and nothing else.
        note: Your own words, appended to the fixed text of the kind. The prompt's Lua can read them.
        used: Of a context overflow the tokens of the request, when the provider counted them.
        limit: Of a context overflow the most tokens that fit, when the provider said so.

    Raises:
        ValueError: There is no such kind, or a number is out of range.
        TypeError: Another argument has the wrong type.
    """

    def __init__(
        self,
        kind: str,
        status: int | None = None,
        detail: str | None = None,
        note: str | None = None,
        used: int | None = None,
        limit: int | None = None,
    ) -> None:
        if kind not in MODEL_ERROR_KINDS:
            raise ValueError(f"unknown model error kind {kind!r}; known kinds: {', '.join(MODEL_ERROR_KINDS)}")
        for name, text in (("detail", detail), ("note", note)):
            if text is not None and not isinstance(text, str):
                raise TypeError(f"{name} must be a string or None, got {type(text).__name__}")
        for name, number, most in (("status", status, 2**16), ("used", used, 2**64), ("limit", limit, 2**64)):
            if number is not None:
                _check_number(name, number, most - 1)
        super().__init__(kind, status)
        self.kind = kind
        self.status = status
        self.detail = detail
        self.note = note
        self.used = used
        self.limit = limit

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.kind, self.status, self.detail, self.note, self.used, self.limit)

    def __str__(self) -> str:
        # Imported late: the extension module imports this file.
        from runvil._native import failure_text

        return failure_text(self.kind, self.status, self.note)


def _check_number(name: str, number: int, most: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(f"{name} must be an integer or None, got {type(number).__name__}")
    if not 0 <= number <= most:
        raise ValueError(f"{name} must be between 0 and {most}, got {number}")


class ConversationError(Exception):
    """An edit that a conversation refuses, records that break a rule, or text that is no conversation.

    Positions count from 1.

    Attributes:
        message: What is wrong.
        code: The broken rule in one word, such as `content_invalid` or `call_unanswered`.
        position: The record's position in the list as it would stand after the edit, when the error is about a record.
        part: The position of the part in the record's content, when the error is about one.
        call: The position of the call in the record's tool calls, when the error is about one.
    """

    def __init__(
        self, message: str, code: str, position: int | None = None, part: int | None = None, call: int | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.position = position
        self.part = part
        self.call = call

    def __reduce__(self) -> tuple[type[ConversationError], tuple[str, str, int | None, int | None, int | None]]:
        return type(self), (self.message, self.code, self.position, self.part, self.call)


class LoopError(Exception):
    """A loop over a conversation that failed.

    Attributes:
        kind: One of the kinds of an error value, such as `tool_loop_exhausted`, `context_exhausted`,
            `empty_model_reply`, `out_of_scope_tool`, `internal` (a model call), `lua` (a broken rule) or `cancelled`.
        message: What went wrong.
        reason: Why the context was exhausted: `precheck` or `provider`.
        finish_reason: The finish reason of an empty reply, when the provider sent one.
        name: The name of a tool that was not offered.
        status: The HTTP status of a failed model call.
        detail: The provider's own words. Not part of the message.
        used: For an exhausted context the tokens of the request, when the provider counted them.
        limit: For an exhausted context the most tokens that fit, when the provider said so.

    `__cause__` is the exception behind it: the `ModelError`, or the `ConversationError` of a broken rule.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        reason: str | None = None,
        finish_reason: str | None = None,
        name: str | None = None,
        status: int | None = None,
        detail: str | None = None,
        used: int | None = None,
        limit: int | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.used = used
        self.limit = limit
        self.reason = reason
        self.finish_reason = finish_reason
        self.name = name
        self.status = status
        self.detail = detail

    def __reduce__(self) -> tuple[Any, ...]:
        fields = ("reason", "finish_reason", "name", "status", "detail", "used", "limit")
        return type(self), (self.kind, self.message), {field: getattr(self, field) for field in fields}


class ToolError(Exception):
    """A tool call that failed, with a text the model may read."""


class InputError(Exception):
    """A question to the user that failed, with a text the prompt may read. A `Host.user_input` hook raises it."""


class ConfigError(Exception):
    """A `runvil.toml` that cannot be used. The message names the file, the key and, where it is known, the line."""


class RepliesError(Exception):
    """A file of scripted replies that cannot be used. The message names the file and the line."""
