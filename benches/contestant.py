"""What a contestant can do: each kind of work is a function, or None when it has nothing of the kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from benches.conversations import Conversation, Record

    # A request: its body, or None when the contestant makes none, and its estimated tokens.
    Turn: TypeAlias = tuple[bytes | memoryview | None, int]


# Tokens: the context window of a loop's model, which every conversation here fits.
WINDOW = 100_000_000


def openai_form(conversation: Conversation) -> Any:
    """Objects in the form of OpenAI's chat API."""
    return conversation.openai


def openai_json(conversation: Conversation) -> bytes:
    """JSON in the form of OpenAI's chat API."""
    return conversation.openai_json


def same(native: Any) -> Any:
    """What a contestant without a form of its own merges into."""
    return native


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """One way to do the work.

    `objects` and `json` make what the timed functions are given: they are not timed. `native` is what a contestant
    holds a conversation in, as `validate` returns it.
    """

    name: str
    packages: tuple[str, ...] = ()
    """The distributions whose versions matter."""
    objects: Callable[[Conversation], Any] = openai_form
    json: Callable[[Conversation], bytes] = openai_json
    validate: Callable[[Any], Any] | None = None
    """Checks objects; returns the native form."""
    parse: Callable[[bytes], Any] | None = None
    """Parses and checks JSON; returns the native form."""
    hold: Callable[[bytes], Any] | None = None
    """Loads what a program keeps of a conversation, for measuring memory; `parse` when it is None."""
    merge: Callable[[Any], Any] | None = None
    """Merges the runs of one role of a native conversation."""
    merged_count: Callable[[Any], int] = len
    """How many messages `merge` returned."""
    merges_like: Callable[[Record], str | None] | None = None
    """What neighbouring records have in common that `merge` joins; None for one that is never joined."""
    composed: Callable[[Any], Any] = same
    """What `estimate` is given, made from a native conversation: it is not timed."""
    estimate: Callable[[Any], int] | None = None
    """Counts tokens approximately."""
    serialize: Callable[[Any], bytes | memoryview] | None = None
    """Makes the request body, or its messages alone, of a native conversation without merging unless it cannot
    do without."""
    turn_objects: Callable[[Any], Turn] | None = None
    """Checks, merges, counts and serializes objects."""
    turn_json: Callable[[bytes], Turn] | None = None
    """The same from JSON."""
    appender: Callable[[Any], Callable[[Any], object]] | None = None
    """Returns a function that adds one checked record, in the form of `objects`, to a native conversation."""
    looper: Callable[[Any], Callable[[list[Any]], Turn]] | None = None
    """Starts a conversation from objects; returns a function that adds the records of one round, checks, composes,
    estimates, prechecks and makes the body."""
    incremental: bool = False
    """Whether a round costs what changed, so that every round of a long loop is run."""
    read: Callable[[Any], tuple[int, int]] | None = None
    """Reads the role and content of each record; returns `characters of the roles, string contents`."""
    columns: Callable[[Any], tuple[Sequence[str], Sequence[str]]] | None = None
    """All roles and all texts at once."""
    snapshot: Callable[[Any], Any] | None = None
    """Takes a copy that later edits do not change."""
    trim: Callable[[Any, int], Any] | None = None
    """Keeps the leading system records and the newest records that fit a number of tokens."""
    merges_by_rules: bool = False
    """Whether merging follows the rules of `runvil.Conversation`, so that bodies and estimates are equal."""
    refuses_by_rules: bool = False
    """Whether it also says the same as `runvil.Conversation` about records that break a rule."""
    wire_form: Callable[[bytes | memoryview], list[Record]] | None = None
    """Brings what `serialize` made to the form of OpenAI's chat API, for comparing."""
    expected_wire: Callable[[list[Record]], list[Record]] = same
    """Does to the expected messages what `serialize` does by design."""
    remarks: dict[str, str] = field(default_factory=dict)
    """By kind of work: what it does not do, or does otherwise."""
