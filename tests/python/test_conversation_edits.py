"""Builders, `extend` and `replace`; the names of the cases are those of the specification."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import runvil
from numbered_records import PLACED, compacted, conversation, record, refused, texts

# Builders.


def test_builders_chain_and_add_in_order() -> None:  # BLD-01, BLD-02, BLD-26
    conv = runvil.Conversation()
    chained = (
        conv.system("be terse")
        .user("hi", meta={"source": "form", "id": 7})
        .assistant("working", [{"id": "call_1", "name": "web_search", "arguments": {"query": "hi"}}])
        .tool("three results for hi", "call_1", {"k": 1})
        .assistant("done", None, {"draft": True})
        .append({"role": "user", "content": "thanks"})
    )
    assert chained is conv
    assert [view.to_dict() for view in conv] == [
        {"role": "system", "content": "be terse"},
        {"role": "user", "content": "hi", "meta": {"source": "form", "id": 7}},
        {
            "role": "assistant",
            "content": "working",
            "tool_calls": [{"id": "call_1", "name": "web_search", "arguments": {"query": "hi"}}],
        },
        {"role": "tool", "content": "three results for hi", "tool_call_id": "call_1", "meta": {"k": 1}},
        {"role": "assistant", "content": "done", "meta": {"draft": True}},
        {"role": "user", "content": "thanks"},
    ]


def test_a_failing_builder_ends_its_chain() -> None:  # BLD-39, BLD-14
    conv = runvil.Conversation()
    with pytest.raises(runvil.ConversationError, match=r"messages\[2\] content"):
        conv.user("a").user(5).user("b")
    assert texts(conv) == "a"
    error = refused(lambda: conv.assistant("done", {"draft": True}))
    assert error.message == "messages[2] tool_calls must be an array"


def test_long_and_odd_texts_are_kept_byte_for_byte() -> None:  # BLD-19, BLD-25
    odd = ["", "x" * 1_000_000, "\0\x01\x1f\x7f\x80", '"\\/\b\f\n\r\t', "é日本🦀\u2028", " \n\n "]
    conv = runvil.Conversation()
    for words in odd:
        conv.user(words).append({"role": "user", "content": words})
    assert conv.texts() == [words for words in odd for _ in range(2)]


def test_views_are_records() -> None:  # BLD-31, MET-26, VEW-20, JSN-14, JSN-16
    conv = runvil.Conversation().user("hi", meta={"k": [1]})
    conv.append(conv[0]).extend([conv[0], conv[0]]).extend(conv)
    assert len(conv) == 8
    assert all(view == conv[0] for view in conv)
    conv.user("x", meta={"inner": conv[0]})
    assert conv[-1].meta == {"inner": {"role": "user", "content": "hi", "meta": {"k": [1]}}}
    assert refused(lambda: conv.user(conv[0])).code == "content_invalid"  # BLD-24


def test_system_records_lead() -> None:
    conv = conversation("s1 s2 s3 u1")  # SYS-01
    for edit in (lambda: conv.system("late"), lambda: conv.append(record("s4")), lambda: conv.extend([record("s4")])):
        error = refused(edit)
        assert (error.message, error.code) == (f"messages[5] {PLACED}", "late_system")
    assert texts(conv) == "s1 s2 s3 u1"
    conv.compact(lambda c, _: c.replace(1, len(c)), "clear")
    assert texts(conv.system("s")) == "s"  # SYS-05
    conversation("u1").check()  # SYS-06


EXTENDED = [
    pytest.param([record("u2"), record("s1"), 5], 3, "late_system", id="the first problem is told"),
    pytest.param([record("u2"), {"role": "user"}, record("s1")], 3, "content_invalid", id="in order"),
    pytest.param("ab", 2, "record_not_table", id="text"),
    pytest.param({"role": "user"}, 2, "record_not_table", id="one record"),
]


@pytest.mark.parametrize(("records", "position", "code"), EXTENDED)
def test_extend_takes_all_or_none(records: Any, position: int, code: str) -> None:
    conv = conversation("u1")
    for given in (records, tuple(records), iter(records)):
        error = refused(partial(conv.extend, given))
        assert (error.position, error.code, texts(conv)) == (position, code, "u1")


def test_extend_with_an_iterable_that_fails() -> None:
    conv = conversation("u1")

    def records() -> Any:
        yield record("u2")
        conv.user("meanwhile")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        conv.extend(records())
    assert texts(conv) == "u1 meanwhile"
    with pytest.raises(TypeError):
        conv.extend(5)  # type: ignore[arg-type]


# replace.


REPLACED = [
    pytest.param("u1 a1 u2 a2", (3, 3, "u9"), "u1 a1 u9 a2", id="RPL-05"),
    pytest.param("u1 a1 u2 a2", (2, 3), "u1 a2", id="RPL-06"),
    pytest.param("u1 a1 u2 a2", (4, 4), "u1 a1 u2", id="RPL-07"),
    pytest.param("u1 a1 u2 a2", (1, 4, "s1", "u9"), "s1 u9", id="RPL-08"),
    pytest.param("u1 a1 u2 a2", (2, 4, "u9"), "u1 u9", id="RPL-09"),
    pytest.param("u1 a1 u2 a2", (3, 2, "u9"), "u1 a1 u9 u2 a2", id="RPL-10"),
    pytest.param("u1 a1 u2 a2", (1, 0, "s1"), "s1 u1 a1 u2 a2", id="RPL-11"),
    pytest.param("u1 a1 u2 a2", (5, 4, "u9"), "u1 a1 u2 a2 u9", id="RPL-12 RPL-25"),
    pytest.param("u1 a1 u2 a2", (1, 0), "u1 a1 u2 a2", id="RPL-13"),
    pytest.param("", (1, 0, "u9"), "u9", id="RPL-14"),
    pytest.param("u1 a1 u2 a2", (1, 4), "", id="RPL-16"),
    pytest.param("u1 a1 u2 a2", (1, 1, "u7", "u8", "u9"), "u7 u8 u9 a1 u2 a2", id="RPL-17"),
    pytest.param("u1 a1 u2 a2", (2.0, 4.0), "u1", id="RPL-27"),
    pytest.param("s1 s2 u1", (1, 2, "s7", "s8", "s9"), "s7 s8 s9 u1", id="RPL-46"),
    pytest.param("s1 s2 u1", (1, 2), "u1", id="RPL-49"),
    pytest.param("s1 s2 u1", (3, 3, "s9"), "s1 s2 s9", id="RPL-50"),
    pytest.param("s1 u1 a1", (1, 1, "s9"), "s9 u1 a1", id="RPL-51"),
    pytest.param("u1 a1", (1, 0, "s9"), "s9 u1 a1", id="RPL-52"),
]


@pytest.mark.parametrize(("before", "arguments", "after"), REPLACED)
def test_replace(before: str, arguments: tuple[Any, ...], after: str) -> None:
    first, last, *new = arguments
    conv = compacted(before, lambda c: c.replace(first, last, *map(record, new)))
    assert texts(conv) == after
    fresh = conversation(after)
    assert conv == fresh
    if after:
        assert conv.compose().to_json() == fresh.compose().to_json()
        assert conv.compose().estimate == fresh.compose().estimate


def bounds(first: object, last: object, length: int = 4) -> str:
    return (
        f"replace({first}, {last}) is out of bounds on a list of {length} records: "
        f"it needs 1 <= first <= last + 1 <= {length + 1}"
    )


NOT_REPLACED = [
    *(
        pytest.param((first, last), bounds(first, last), "range_out_of_bounds", id=f"RPL-{number}")
        for number, first, last in [
            (19, 0, 0),
            (20, -1, 2),
            (21, -1, 0),
            (22, 3, 1),
            (23, 2, 5),
            (24, 6, 5),
            ("26", 6, 4),
            ("26 b", 5, 3),
            ("39 c", 2**63 - 1, 1),
        ]
    ),
    pytest.param((3.0, 1.0), bounds(3, 1), "range_out_of_bounds", id="whole floats print as integers"),
    pytest.param((1.5, 2), "replace first must be an integer, got 1.5", "bound_not_integer", id="RPL-28"),
    pytest.param((1, 2.25), "replace last must be an integer, got 2.25", "bound_not_integer", id="RPL-29"),
    pytest.param((1, "2"), "replace last must be an integer, got str", "bound_not_integer", id="RPL-30"),
    pytest.param(("1", 2), "replace first must be an integer, got str", "bound_not_integer", id="RPL-31"),
    pytest.param((1, None), "replace last must be an integer, got NoneType", "bound_not_integer", id="RPL-32"),
    pytest.param((True, 1), "replace first must be an integer, got bool", "bound_not_integer", id="RPL-34"),
    pytest.param(({}, 1), "replace first must be an integer, got dict", "bound_not_integer", id="RPL-34 dict"),
    pytest.param(("a", "b"), "replace first must be an integer, got str", "bound_not_integer", id="RPL-35"),
    pytest.param((9, "b"), "replace last must be an integer, got str", "bound_not_integer", id="RPL-36"),
    pytest.param((9, 9, 5), bounds(9, 9), "range_out_of_bounds", id="RPL-37"),
    pytest.param((float("inf"), 1), "replace first must be an integer, got float", "bound_not_integer", id="RPL-38"),
    pytest.param((float("nan"), 1), "replace first must be an integer, got float", "bound_not_integer", id="RPL-38 b"),
    pytest.param((1e300, 1), "replace first must be an integer, got 1e+300", "bound_not_integer", id="RPL-39"),
    pytest.param(
        (2**200, 1),
        "replace first must be an integer, got an integer beyond 64 bits",
        "bound_not_integer",
        id="RPL-39 b",
    ),
    pytest.param(
        (1, 1, record("u9"), {"role": "user"}),
        "messages[2] content must be a string or a non-empty array of content parts",
        "content_invalid",
        id="RPL-40",
    ),
    pytest.param((1, 1, None), "messages[1] must be a message table", "record_not_table", id="RPL-42"),
    pytest.param(
        (3, 3, record("u9"), {}),
        "messages[4] role must be a string, one of: system, user, assistant, tool",
        "role_not_string",
        id="RPL-41 ORD-20",
    ),
    pytest.param(
        (1, 1, record("u9"), print),
        "messages[2] must be a JSON-representable message table: unsupported value type `builtin_function_or_method`",
        "record_not_json",
        id="JSN-11",
    ),
    pytest.param(
        (1, 1, {}, print),
        "messages[1] role must be a string, one of: system, user, assistant, tool",
        "role_not_string",
        id="ORD-21",
    ),
    pytest.param(
        (2, 2, record("u9") | {"tool_call_id": "c"}),
        "messages[2] sets a tool_call_id but is not a tool message",
        "tool_call_id_misplaced",
        id="RPL-45",
    ),
    pytest.param((2, 1, record("s9")), f"messages[2] {PLACED}", "late_system", id="RPL-53"),
]


@pytest.mark.parametrize(("arguments", "message", "code"), NOT_REPLACED)
def test_replace_refuses(arguments: tuple[Any, ...], message: str, code: str) -> None:
    def edit(conv: runvil.Conversation) -> None:
        error = refused(lambda: conv.replace(*arguments))
        assert (error.message, error.code, texts(conv)) == (message, code, "u1 a1 u2 a2")
        conv.replace(4, 4)  # RPL-55

    assert texts(compacted("u1 a1 u2 a2", edit)) == "u1 a1 u2"
    conv = conversation("u1 a1 u2 a2")
    # RPL-56
    assert refused(lambda: conv.compact(lambda c, _: c.replace(1, 0).replace(*arguments), "x")).message == message
    assert texts(conv) == "u1 a1 u2 a2"
    # RPL-01, RPL-02: that no compactor runs is told first.
    error = refused(lambda: conv.replace(*arguments))
    assert (
        error.message == "replace works only inside a compactor; rewrite history with models.compact(compactor, reason)"
    )
    assert (error.code, error.position) == ("replace_outside_compactor", None)


@pytest.mark.parametrize(
    ("arguments", "position"),
    [((4, 3, record("s9")), 4), ((1, 1, record("u9")), 2), ((1, 0, record("u9")), 2)],
    ids=["RPL-47", "RPL-48", "RPL-54"],
)
def test_replace_keeps_the_leading_block(arguments: tuple[Any, ...], position: int) -> None:
    conv = conversation("s1 s2 u1")
    assert (
        refused(lambda: conv.compact(lambda c, _: c.replace(*arguments), "x")).message
        == f"messages[{position}] {PLACED}"
    )
    assert texts(conv) == "s1 s2 u1"


def test_replace_takes_views_and_returns_the_list() -> None:  # RPL-18, RPL-59, VEW-09, VEW-21
    def edit(conv: runvil.Conversation) -> None:
        first = conv[0]
        assert conv.replace(1, 1) is conv
        assert first.content == "u1"
        conv.replace(1, 0, first)

    assert texts(compacted("u1 a1", edit)) == "u1 a1"
