"""The kinds of work: what is timed, and over what it is counted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from benches import conversations

if TYPE_CHECKING:
    from collections.abc import Callable

    from benches.contestant import Contestant
    from benches.conversations import Conversation

APPENDS = 1_000
TRIM_TOKENS = 100_000


class Prepared:
    """One contestant's forms of one conversation, made when they are first needed and kept for every kind of work."""

    def __init__(self, contestant: Contestant, conversation: Conversation) -> None:
        self.contestant = contestant
        self.conversation = conversation
        self._made: dict[str, Any] = {}

    def _once(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    @property
    def objects(self) -> Any:
        """What `validate` and `turn_objects` are given."""
        return self._once("objects", lambda: self.contestant.objects(self.conversation))

    @property
    def json(self) -> bytes:
        """What `parse` and `turn_json` are given."""
        data: bytes = self._once("json", lambda: self.contestant.json(self.conversation))
        return data

    @property
    def native(self) -> Any:
        """What the contestant holds."""
        return self._once("native", self._native)

    def _native(self) -> Any:
        # Objects of its own: some contestants keep those they are given, and change them.
        objects = self.contestant.objects(self.conversation)
        return objects if self.contestant.validate is None else self.contestant.validate(objects)

    @property
    def composed(self) -> Any:
        """What `estimate` is given."""
        return self._once("composed", lambda: self.contestant.composed(self.native))


Make = "Callable[[Prepared], Callable[[], Any] | None]"


@dataclass(frozen=True)
class Work:
    """One kind of work."""

    key: str
    title: str
    make: Callable[[Prepared], Callable[[], Any] | None]
    """Returns what is timed, or None when the contestant has nothing of the kind."""
    per: int = 1
    """How many of what the title names one run does."""
    fresh: bool = False
    """Whether each run needs what `make` prepares anew."""


def _validate(it: Prepared) -> Callable[[], Any] | None:
    return it.contestant.validate and partial(it.contestant.validate, it.objects)


def _parse(it: Prepared) -> Callable[[], Any] | None:
    return it.contestant.parse and partial(it.contestant.parse, it.json)


def _merge(it: Prepared) -> Callable[[], Any] | None:
    return it.contestant.merge and partial(it.contestant.merge, it.native)


def _estimate(it: Prepared) -> Callable[[], Any] | None:
    return it.contestant.estimate and partial(it.contestant.estimate, it.composed)


def _serialize(it: Prepared) -> Callable[[], Any] | None:
    return it.contestant.serialize and partial(it.contestant.serialize, it.native)


def _turn_objects(it: Prepared) -> Callable[[], Any] | None:
    return it.contestant.turn_objects and partial(it.contestant.turn_objects, it.objects)


def _turn_json(it: Prepared) -> Callable[[], Any] | None:
    return it.contestant.turn_json and partial(it.contestant.turn_json, it.json)


def _append(it: Prepared) -> Callable[[], Any] | None:
    if it.contestant.appender is None:
        return None
    pairs = conversations.rounds(APPENDS // 2, seed=conversations.SEED + 1)
    added = it.contestant.objects(conversations.Conversation([record for pair in pairs for record in pair]))
    append = it.contestant.appender(it.native)

    def run() -> None:
        for item in added:
            append(item)

    return run


def _read(it: Prepared) -> Callable[[], Any] | None:
    return it.contestant.read and partial(it.contestant.read, it.native)


def _columns(it: Prepared) -> Callable[[], Any] | None:
    return it.contestant.columns and partial(it.contestant.columns, it.native)


def _snapshot(it: Prepared) -> Callable[[], Any] | None:
    return it.contestant.snapshot and partial(it.contestant.snapshot, it.native)


def _trim(it: Prepared) -> Callable[[], Any] | None:
    return it.contestant.trim and partial(it.contestant.trim, it.native, TRIM_TOKENS)


WORKS = (
    Work("validate", "check objects", _validate),
    Work("parse", "parse and check JSON", _parse),
    Work("merge", "merge runs of one role", _merge),
    Work("estimate", "estimate tokens", _estimate),
    Work("serialize", "serialize", _serialize),
    Work("turn_objects", "whole turn from objects", _turn_objects),
    Work("turn_json", "whole turn from JSON", _turn_json),
    Work("append", "append one record", _append, per=APPENDS, fresh=True),
    Work("read", "read role and content of every record", _read),
    Work("columns", "all roles and all texts", _columns),
    Work("snapshot", "snapshot", _snapshot),
    Work("trim", f"trim to {TRIM_TOKENS:,} tokens", _trim),
)
