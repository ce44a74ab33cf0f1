"""What a timeline consists of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Conversation:
    """The messages of one list as they were last sent.

    Attributes:
        missing: How many messages at the start the log does not hold.
        messages: The messages after them, in order.
        reply: The round that answered them.
        results: What the tool calls of that reply gave, by the calls' ids.
    """

    def __init__(self) -> None:
        self.missing = 0
        self.messages: list[Any] = []
        self.reply: Round | None = None
        self.results: dict[str, str] = {}

    def __len__(self) -> int:
        return self.missing + len(self.messages)

    def send(self, first: int, messages: Sequence[Any]) -> int:
        """Takes the messages of a request from 1-based position `first` on; says how many of the earlier ones went."""
        kept = first - 1
        gone = max(len(self) - kept, 0)
        self.reply = None
        self.results = {}
        if kept > len(self) or kept < self.missing:
            self.missing = kept
            self.messages.clear()
        else:
            del self.messages[kept - self.missing :]
        self.messages.extend(messages)
        return gone


@dataclass(frozen=True, slots=True)
class SectionOpened:
    """A section begins.

    Args:
        name: The heading's text.
        task: The task that walks it; `0` is the main walk.
        depth: How many sections are open around it.
        contains: Whether the entries up to its end belong to it. Sections of concurrent tasks run into each other and
            contain nothing.
    """

    name: str
    task: str
    depth: int
    contains: bool


@dataclass(frozen=True, slots=True)
class SectionClosed:
    """A section ends.

    Args:
        name: The heading's text.
        task: The task that walked it.
        depth: How many sections are open around it.
        contains: As in its `SectionOpened`.
        finished: Whether it ran to its end.
        conversation: Its message list as last sent, with the reply to it.
    """

    name: str
    task: str
    depth: int
    contains: bool
    finished: bool
    conversation: Conversation


@dataclass(frozen=True, slots=True)
class RequestedCall:
    """A tool call in a reply."""

    id: str
    name: str
    arguments: Any


RoundStatus: TypeAlias = Literal["replied", "failed", "refused", "dropped", "unused", "unanswered"]
"""How a round went: a reply or a failure came; it was refused before it was sent; it was given up; an answer came and
the log ends before its use; the log ends before an answer."""


@dataclass(slots=True)
class Round:
    """A model request and what came of it.

    Args:
        section: The section that asked.
        task: The task that asked.
        depth: How many sections are open around it.
        origin: `chat` or `infer`.
        number: The request's number, from 0; None for one that was refused.
        model: The model's name in the catalog.
        role: The role that the model is bound to, when the log tells.
        first: The 1-based position of the first message that is new in this request.
        messages: The messages from there on.
        echoes: Positions of those that repeat the reply to the section's last request, and its tools' results.
        replaced: How many messages of the list's earlier request are no longer in it.
        sizes: `estimate`, `count`, `reserve` and `window` in tokens, as far as the log tells.
        status: How it went.
        turn: The reply's number in the run, from 1.
        text: The reply's text.
        thinking: The model's thinking.
        calls: The tool calls of the reply.
        finish_reason: Why the model stopped, in the provider's word.
        served_by: The model's name in the reply.
        usage: Token counts by name.
        seconds: How long the answer took.
        truncated: Whether the text was cut short by the model's limit.
        failure: What went wrong, in words.
        remarks: What was ignored in the reply, a sentence each.
        bodies: The captured bodies, by `request` and `response`.
    """

    section: str
    task: str
    depth: int
    origin: str
    number: int | None = None
    model: str = ""
    role: str | None = None
    first: int = 1
    messages: Sequence[Any] = ()
    echoes: frozenset[int] = frozenset()
    replaced: int = 0
    sizes: Mapping[str, int] = field(default_factory=dict)
    status: RoundStatus = "unanswered"
    turn: int | None = None
    text: str = ""
    thinking: str = ""
    calls: Sequence[RequestedCall] = ()
    finish_reason: str | None = None
    served_by: str = ""
    usage: Mapping[str, int] = field(default_factory=dict)
    seconds: float | None = None
    truncated: bool = False
    failure: str | None = None
    remarks: list[str] = field(default_factory=list)
    bodies: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class ToolCall:
    """A tool call and its result.

    Args:
        section: The section it belongs to.
        task: The task it belongs to.
        depth: How many sections are open around it.
        tool: The tool's path or name; empty when the log does not tell.
        status: `succeeded`, `failed`, or `unanswered` when the log holds no outcome.
        call_id: The model's id of the call; empty when a script called.
        turn: The reply that asked for it, or the replies so far when a script called.
        arguments: The arguments; `has_arguments` says whether the log tells them.
        has_arguments: Whether `arguments` is known.
        content: The result or the failure, as the caller sees it; None when the log holds none.
        trusted: Whether the result was passed on bare.
        seconds: How long the answer took.
    """

    section: str
    task: str
    depth: int
    tool: str
    status: Literal["succeeded", "failed", "unanswered"]
    call_id: str = ""
    turn: int | None = None
    arguments: Any = None
    has_arguments: bool = False
    content: str | None = None
    trusted: bool | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """Anything else that happened.

    Args:
        section: The section it belongs to; empty when the log does not tell.
        task: The task it belongs to.
        depth: How many sections are open around it.
        kind: The line's kind.
        label: What happened, in a few words.
        text: The words that go with it.
        fields: The line's other fields.
        tone: How to show it.
    """

    section: str
    task: str
    depth: int
    kind: str
    label: str
    text: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    tone: Literal["plain", "compaction", "failure"] = "plain"


@dataclass(frozen=True, slots=True)
class SkippedLine:
    """A line that could not be read: its 1-based number and what is wrong with it."""

    number: int
    reason: str
    depth: int


Outcome: TypeAlias = Literal["completed", "failed", "cancelled"]
"""How a run ended."""

Entry: TypeAlias = SectionOpened | SectionClosed | Round | ToolCall | Note | SkippedLine


@dataclass(slots=True)
class Summary:
    """What a whole log amounts to.

    Args:
        parameters: What the run started from: the log's first line.
        outcome: How the run ended; None when the log ends before that.
        error: `kind`, `message` and perhaps `location` of a failed run, when the log tells.
        result: The result text, when the log tells.
        lines: Lines read.
        skipped: Lines that could not be read.
        rounds: Requests sent.
        refused: Requests that were refused before they were sent.
        replies: Replies that the run took.
        failed_rounds: Requests that failed, the refused ones included.
        tool_calls: Tool calls with an outcome.
        failed_tool_calls: Those that failed.
        compactions: Compactions begun.
        usage: Token sums over the replies by name; a count that no reply reported is absent.
        model_seconds: Sum of the rounds' durations; None when the log holds none.
        tool_seconds: The same for the tool calls.
    """

    parameters: Mapping[str, Any] = field(default_factory=dict)
    outcome: Outcome | None = None
    error: Mapping[str, Any] = field(default_factory=dict)
    result: str | None = None
    lines: int = 0
    skipped: int = 0
    rounds: int = 0
    refused: int = 0
    replies: int = 0
    failed_rounds: int = 0
    tool_calls: int = 0
    failed_tool_calls: int = 0
    compactions: int = 0
    usage: dict[str, int] = field(default_factory=dict)
    model_seconds: float | None = None
    tool_seconds: float | None = None
