"""Asserts that contestants agree where they should: speed alone proves nothing."""

# mypy: disable-error-code="import-not-found, no-any-return"
# The peers are installed for the comparison alone, so that the type checker of the project does not see them.

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

import runvil
from benches import baselines, conversations
from benches.work import TRIM_TOKENS, Prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from benches.contestant import Contestant
    from benches.conversations import Conversation, Record


class DisagreementError(AssertionError):
    """Two contestants came to different results."""


def _expect(what: str, name: str, got: Any, expected: Any) -> None:
    if got == expected:
        return
    if isinstance(got, list) and isinstance(expected, list):
        for index, (one, other) in enumerate(zip(got, expected, strict=False)):
            if one != other:
                raise DisagreementError(f"{what}: {name} differs at {index}: {one!r:.300} instead of {other!r:.300}")
        raise DisagreementError(f"{what}: {name} has {len(got)} items instead of {len(expected)}")
    raise DisagreementError(f"{what}: {name} gives {got!r:.300} instead of {expected!r:.300}")


def check(prepared: Iterable[Prepared], conversation: Conversation) -> list[str]:
    """Compares all contestants on one conversation. Returns what was compared."""
    wire = baselines.to_wire(conversation.records)
    merged = baselines.merge(wire)
    estimate = baselines.estimate(merged)
    strings = sum(isinstance(record["content"], str) for record in conversation.records)
    read = (sum(len(record["role"]) for record in conversation.records), strings)
    compared: dict[str, list[str]] = {}

    def expect(what: str, name: str, got: Any, expected: Any) -> None:
        _expect(what, name, got, expected)
        compared.setdefault(what, []).append(name)

    for it in prepared:
        contestant, name = it.contestant, it.contestant.name
        if contestant.serialize and contestant.wire_form:
            got = contestant.wire_form(contestant.serialize(it.native))
            expect("messages as sent, before merging", name, got, contestant.expected_wire(wire))
        if contestant.merge:
            count = contestant.merged_count(contestant.merge(it.native))
            if contestant.merges_by_rules:
                expect("number of merged messages", name, count, len(merged))
            elif contestant.merges_like:
                expected = _groups(conversation.records, contestant.merges_like)
                expect("number of merged messages by its own rule", name, count, expected)
        if contestant.merges_by_rules:
            for turn, given in ((contestant.turn_objects, it.objects), (contestant.turn_json, it.json)):
                if turn:
                    body, tokens = turn(given)
                    messages = orjson.loads(body or b"{}")["messages"]
                    expect("merged messages of the body", name, messages, merged)
                    expect("estimate", name, tokens, estimate)
        if contestant.read:
            expect("roles and contents read", name, contestant.read(it.native), read)
    _expect_same("columns", prepared, lambda it: it.contestant.columns and it.contestant.columns(it.native))
    _expect_same("trimmed length", prepared, lambda it: _trimmed(it) if it.contestant.merges_by_rules else None)
    return [f"{what}: {', '.join(dict.fromkeys(names))}" for what, names in compared.items()]


def _trimmed(it: Prepared) -> int | None:
    return it.contestant.trim and len(it.contestant.trim(it.native, TRIM_TOKENS))


def _expect_same(what: str, prepared: Iterable[Prepared], result: Callable[[Prepared], Any]) -> None:
    first: Any = None
    for it in prepared:
        got = result(it)
        if got is not None:
            first = first or got
            _expect(what, it.contestant.name, got, first)


def _groups(records: list[Record], key: Callable[[Record], str | None]) -> int:
    count = 0
    before: str | None = None
    for record in records:
        this = key(record)
        count += this is None or this != before
        before = this
    return count


def check_loops(contestants: Iterable[Contestant], rounds: int = 40) -> list[str]:
    """Compares the last request of a short growing loop."""
    first = conversations.conversation(3).records
    pairs = conversations.rounds(rounds)
    everything = conversations.Conversation([*first, *(record for pair in pairs for record in pair)])
    messages = baselines.merge(baselines.to_wire(everything.records))
    names = []
    for contestant in contestants:
        if contestant.looper and contestant.merges_by_rules:
            step = contestant.looper(contestant.objects(conversations.Conversation(first)))
            for pair in pairs:
                body, tokens = step(contestant.objects(conversations.Conversation(list(pair))))
                sent = bytes(body or b"{}")
                del body
            _expect("last body of a loop", contestant.name, orjson.loads(sent)["messages"], messages)
            _expect("last estimate of a loop", contestant.name, tokens, baselines.estimate(messages))
            names.append(contestant.name)
    return [f"last request of a growing loop: {', '.join(names)}"]


def _call(name: str = "a") -> Record:
    return {"role": "assistant", "content": "", "tool_calls": [{"id": name, "name": "t", "arguments": {}}]}


def _result(name: str = "a") -> Record:
    return {"role": "tool", "content": "r", "tool_call_id": name}


def _user(content: Any = "u", **fields: Any) -> Record:
    return {"role": "user", "content": content, **fields}


BROKEN: tuple[list[Any], ...] = (
    [1],
    [{"content": "x"}],
    [{"role": "robot", "content": "x"}],
    [_user(None)],
    [_user([])],
    [_user(["x"])],
    [_user([{"type": "audio"}])],
    [_user([{"type": "text"}])],
    [_user([{"type": "image_url", "image_url": {}}])],
    [_user(tool_call_id="a")],
    [_user(), {"role": "tool", "content": "x"}],
    [_user(tool_calls="x")],
    [{"role": "assistant", "content": "", "tool_calls": [{"name": "t"}]}],
    [{"role": "assistant", "content": "", "tool_calls": [{"id": "a"}]}],
    [{"role": "assistant", "content": "", "tool_calls": [{"id": "a", "name": "t", "arguments": [1]}]}],
    [_user(meta="x" * 9000)],
    [_user(), {"role": "system", "content": "late"}],
    [{"role": "system", "content": "s"}, {"role": "system", "content": [{"type": "text", "text": "t"}]}, _user()],
    [_user(tool_calls=[{"id": "a", "name": "t"}])],
    [_call(), _result(), _call(), _result()],
    [_call(), _user()],
    [_user(), _call()],
    [_user(), _result("z")],
    [_call(), _result(), _result()],
)


def check_refusals(contestants: Iterable[Contestant]) -> list[str]:
    """Compares what is said about conversations that break a rule. Each breaks one."""
    names = []
    for contestant in contestants:
        if contestant.refuses_by_rules and contestant.turn_objects:
            for records in BROKEN:
                expected = _refusal(baselines.check, records)
                _expect(
                    f"refusal of {records!r:.80}", contestant.name, _refusal(contestant.turn_objects, records), expected
                )
            names.append(contestant.name)
    return [f"texts of {len(BROKEN)} refusals: {', '.join(names)}"]


def _refusal(turn: Callable[[Any], Any], records: list[Any]) -> str:
    try:
        turn(records)
    except (ValueError, runvil.ConversationError) as error:
        return str(error)
    return "no error"
