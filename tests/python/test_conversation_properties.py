"""What must always hold for a conversation, whatever is put into it."""

from __future__ import annotations

import copy
import json
import pickle
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import runvil

if TYPE_CHECKING:
    from collections.abc import Callable

texts = st.text(st.characters(codec="utf-8"), max_size=20)
integers = st.integers(-(2**63), 2**64 - 1)
scalars = st.none() | st.booleans() | integers | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=12
)
objects = st.dictionaries(texts, values, max_size=4)
parts = st.one_of(
    texts.map(lambda text: {"type": "text", "text": text}),
    texts.map(lambda url: {"type": "image_url", "image_url": {"url": url}}),
)
contents = texts | st.lists(parts, min_size=1, max_size=4)
ids = st.sampled_from(["c1", "c2", "c3", ""]) | texts
calls = st.lists(st.fixed_dictionaries({"id": ids, "name": texts}, optional={"arguments": objects}), max_size=3)


@st.composite
def good_records(draw: st.DrawFn) -> dict[str, Any]:
    """A record that breaks no rule of its own."""
    role = draw(st.sampled_from(["user", "assistant", "tool"]))
    record: dict[str, Any] = {"role": role, "content": draw(contents)}
    if role == "tool":
        record["tool_call_id"] = draw(ids)
    if draw(st.booleans()):
        record["tool_calls"] = draw(calls)
    if draw(st.booleans()):
        record["meta"] = draw(values)
    return record


def openai(record: dict[str, Any]) -> dict[str, Any]:
    """The record in the form of OpenAI's chat API."""
    if not record.get("tool_calls"):
        return record
    functions = [
        {"id": call["id"], "function": {"name": call["name"], "arguments": json.dumps(call.get("arguments", {}))}}
        for call in record["tool_calls"]
    ]
    return record | {"tool_calls": functions}


leading = st.lists(texts.map(lambda text: {"role": "system", "content": text}), max_size=2)
lists = st.builds(lambda first, rest: first + rest, leading, st.lists(good_records(), max_size=8))
# Bad in every way: values of the wrong type in every place.
odd = values | st.sampled_from([{1}, b"x", 2**64, float("nan"), "\ud800", print])
bad_calls = st.lists(
    odd | st.dictionaries(st.sampled_from(["id", "name", "arguments", "function"]), odd, max_size=3), max_size=3
)
any_records = odd | st.dictionaries(
    st.sampled_from(["role", "content", "tool_calls", "tool_call_id", "meta", "extra"]),
    st.sampled_from(["user", "system", "assistant", "tool"]) | odd | st.lists(parts | odd, max_size=3) | bad_calls,
    max_size=6,
)


def outcome(work: Any) -> Any:
    """What some work returns, or how it is refused."""
    try:
        return work()
    except runvil.ConversationError as error:
        return error.message, error.code, error.position, error.part, error.call


@given(lists, any_records | good_records())
def test_a_refused_edit_changes_nothing(records: list[Any], record: Any) -> None:
    before = runvil.Conversation.from_json(records)
    sent = outcome(lambda: before.compose().to_json())

    def compacted(conv: runvil.Conversation) -> None:
        conv.compact(lambda c, _: c.replace(1, len(c) // 2, record, record), "x")

    edits: list[Callable[[runvil.Conversation], object]] = [
        lambda conv: conv.append(record),
        lambda conv: conv.extend([{"role": "user", "content": "fine"}, record]),
        lambda conv: conv.user(record),
        compacted,
    ]
    for edit in edits:
        conv = before.copy()
        if isinstance(outcome(partial(edit, conv)), tuple):
            assert conv == before
            assert outcome(lambda conv=conv: conv.compose().to_json()) == sent


@given(lists)
def test_composing_twice_gives_the_same(records: list[Any]) -> None:
    conv = runvil.Conversation.from_json(records)
    first = outcome(lambda: conv.compose().to_json())
    assert outcome(lambda: conv.compose().to_json()) == first
    assert outcome(lambda: runvil.Conversation.from_json(records).compose().to_json()) == first
    if isinstance(first, bytes):
        # What was composed composes to itself: nothing is left to merge.
        again = runvil.Conversation.from_json(first).compose()
        request = conv.compose()
        assert (again.to_json(), again.estimate, again.messages) == (first, request.estimate, request.messages)
        assert request.messages == json.loads(first)
        assert bytes(request.body_view(model="m")) == request.body(model="m")


@given(lists)
def test_composing_as_the_list_grows_gives_the_same(records: list[Any]) -> None:
    grown = runvil.Conversation()
    for record in records:
        grown.append(record)
        outcome(grown.compose)
        outcome(grown.check)
    whole = runvil.Conversation.from_json(records)
    assert outcome(lambda: grown.compose().to_json()) == outcome(lambda: whole.compose().to_json())
    assert outcome(lambda: grown.compose().estimate) == outcome(lambda: whole.compose().estimate)


@given(lists)
def test_json_round_trips(records: list[Any]) -> None:
    conv = runvil.Conversation.from_json(records)
    data = conv.to_json()
    assert runvil.Conversation.from_json(data) == conv
    assert runvil.Conversation.from_json(json.loads(data)) == conv
    assert runvil.Conversation.from_json([view.to_dict() for view in conv]) == conv
    assert runvil.Conversation.from_json(data).to_json() == data
    assert pickle.loads(pickle.dumps(conv)) == conv
    wire = conv.to_json(form="openai")
    assert runvil.Conversation.from_json(wire).to_json(form="openai") == wire
    assert json.loads(data) == [view.to_dict() for view in conv]


@given(st.lists(good_records() | good_records().map(openai), max_size=6))
def test_objects_and_text_read_the_same(records: list[Any]) -> None:
    from_objects = runvil.Conversation.from_json(records)
    for text in (json.dumps(records), json.dumps(records, ensure_ascii=False, indent=2).encode()):
        assert runvil.Conversation.from_json(text) == from_objects


@given(st.lists(any_records | good_records(), max_size=4))
def test_objects_and_text_are_refused_the_same(records: list[Any]) -> None:
    try:
        text = json.dumps(records, allow_nan=False)
        text.encode()
        json.loads(text.encode())
    except (TypeError, ValueError):
        return
    if "null" in text or "ud800" in text:
        return  # Python's None is an absent field, null is a value; a lone surrogate is no JSON text
    as_objects = outcome(lambda: runvil.Conversation.from_json(json.loads(text)))
    assert outcome(lambda: runvil.Conversation.from_json(text)) == as_objects


@given(any_records | good_records(), lists)
def test_a_record_is_judged_alike_at_every_door(record: Any, records: list[Any]) -> None:
    conv = runvil.Conversation.from_json(records)
    position = len(conv) + 1

    def replaced() -> runvil.Conversation:
        fork = conv.copy()
        fork.compact(lambda c, _: c.replace(position, len(c), record) and None, "x")
        return fork

    appended = outcome(lambda: conv.copy().append(record))
    assert outcome(lambda: conv.copy().extend([record])) == appended
    assert outcome(lambda: conv.copy().extend(iter([record]))) == appended
    if not isinstance(appended, tuple):
        view = appended[-1]
        assert outcome(lambda: conv.copy().append(view)) == appended
        assert outcome(lambda: conv.copy().append(view.to_dict())) == appended
        with_builder = conv.copy()
        fields = {name: value for name, value in view.to_dict().items() if name != "role"}
        if "tool_calls" not in fields or view.role == "assistant":
            getattr(with_builder, view.role)(**fields)
            assert with_builder == appended
    judged = outcome(replaced)
    if isinstance(appended, tuple) or not isinstance(judged, tuple):
        assert judged == appended


@given(lists, lists)
def test_forks_are_independent(records: list[Any], more: list[Any]) -> None:
    conv = runvil.Conversation.from_json(records)
    data = conv.to_json()
    sent = outcome(lambda: conv.compose().to_json())
    for fork in (conv.copy(), copy.deepcopy(conv)):
        outcome(lambda fork=fork: fork.extend(more))
        outcome(fork.compose)
        fork.compact(lambda c, _: c.replace(1, len(c)), "clear")
        assert len(fork) == 0
        assert conv.to_json() == data
        assert outcome(lambda: conv.compose().to_json()) == sent


@given(lists, st.data())
def test_replace_is_slicing(records: list[Any], data: st.DataObject) -> None:
    conv = runvil.Conversation.from_json(records)
    outcome(conv.compose)
    first = data.draw(st.integers(1, len(conv) + 1))
    last = data.draw(st.integers(first - 1, len(conv)))
    new = data.draw(st.lists(good_records(), max_size=3))
    expected = outcome(lambda: runvil.Conversation().extend([*conv[: first - 1], *new, *conv[last:]]))

    def edit(c: runvil.Conversation, _: str) -> None:
        c.replace(first, last, *new)
        if not isinstance(expected, tuple):
            assert c == expected

    judged = outcome(lambda: conv.compact(edit, "x"))
    if isinstance(expected, tuple):
        assert isinstance(judged, tuple)
    elif judged is None:
        assert outcome(lambda: conv.compose().to_json()) == outcome(lambda: expected.compose().to_json())


@given(st.lists(any_records | good_records(), max_size=5))
def test_repair_always_gives_a_sound_list(records: list[Any]) -> None:
    try:
        conv, _changes = runvil.Conversation.repair(records)
    except runvil.ConversationError:
        return
    conv.check()
    again, changes = runvil.Conversation.repair(conv)
    assert changes == []
    assert again == conv


@pytest.mark.parametrize("size", [63, 64, 65, 1_000, 5_000])
def test_sizes_around_the_thresholds(size: int) -> None:
    conv = runvil.Conversation().extend({"role": "user", "content": f"u{index}"} for index in range(size))
    assert conv.compose().messages == [{"role": "user", "content": "\n\n".join(f"u{index}" for index in range(size))}]
    conv.compact(lambda c, _: c.replace(2, size - 1), "trim")
    assert conv.texts() == ["u0", f"u{size - 1}"]
    assert conv.compose().to_json() == runvil.Conversation.from_json(conv.to_json()).compose().to_json()
