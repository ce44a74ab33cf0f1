"""Builders, edits, compactions and reading back; the names of the cases are those of the specification."""

from __future__ import annotations

import asyncio
import copy
import pickle
import threading
from functools import partial
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


def compacted(before: str, edit: Callable[[runvil.Conversation], object]) -> runvil.Conversation:
    conv = conversation(before)
    conv.compact(lambda same, _: edit(same), "test")
    return conv


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


# Compactions.


def test_a_compaction_calls_the_compactor_once() -> None:  # CMD-01, CMD-24
    seen: list[tuple[Any, ...]] = []
    conv = conversation("u1 a1")
    assert conv.compact(lambda *arguments: seen.append(arguments), "") is None  # type: ignore[func-returns-value]
    assert seen == [(conv, "")]
    assert seen[0][0] is conv


ALLOWED = [
    pytest.param(lambda c: c.user("more"), "u1 a1 more", id="CMD-03"),
    pytest.param(lambda c: None, "u1 a1", id="CMD-04"),
    pytest.param(lambda c: c.replace(1, 2), "", id="CMD-05"),
    pytest.param(lambda c: c.replace(2, 2), "u1", id="CMD-19"),
    pytest.param(lambda c: c.extend([record("u2")]).append(record("u3")), "u1 a1 u2 u3", id="BLD-46"),
]


@pytest.mark.parametrize(("edit", "after"), ALLOWED)
def test_a_compaction_is_kept(edit: Callable[[runvil.Conversation], object], after: str) -> None:
    assert texts(compacted("u1 a1", edit)) == after


def test_a_compaction_that_breaks_a_rule_is_undone() -> None:  # CMD-06
    conv = conversation("u1 a1")
    before = conv.compose().to_json()

    def edit(c: runvil.Conversation, _: str) -> None:
        c.replace(1, 1, record("u9"))
        c.assistant("", [{"id": "c1", "name": "w"}])

    assert refused(lambda: conv.compact(edit, "x")).message == 'messages[3] tool call "c1" has no tool result'
    assert texts(conv) == "u1 a1"
    assert conv.compose().to_json() == before


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, SystemExit])
def test_a_compactor_that_raises_is_undone(error: type[BaseException]) -> None:  # CMD-07
    conv = conversation("u1 a1")
    kept: list[runvil.Record] = []

    def edit(c: runvil.Conversation, _: str) -> None:
        kept.append(c.replace(1, 1, record("u9"))[0])
        raise error

    with pytest.raises(error):
        conv.compact(edit, "x")
    assert texts(conv) == "u1 a1"
    assert kept[0].content == "u9"  # VEW-10
    conv.compact(lambda c, _: c.replace(1, 1), "and the next one works")
    assert refused(lambda: conv.replace(1, 1)).code == "replace_outside_compactor"  # RPL-04


def test_the_arguments_of_compact_are_checked() -> None:
    conv: Any = conversation("u1")
    calls: list[int] = []

    def compactor(*_: object) -> None:
        calls.append(1)

    refusals: list[tuple[Any, ...]] = [
        ((None, "why"), "compactor must be a function, got NoneType", "compactor_not_function"),  # CMD-09
        ((5, 5), "compactor must be a function, got int", "compactor_not_function"),  # CMD-11, CMD-14
        ((compactor, 5), "reason must be a string, got int", "reason_not_string"),  # CMD-13
        ((compactor, None), "reason must be a string, got NoneType", "reason_not_string"),
    ]
    for arguments, message, code in refusals:
        error = refused(partial(conv.compact, *arguments))
        assert (error.message, error.code) == (message, code)
    for given in ((), (compactor,), (compactor, "a", "b")):  # CMD-08, CMD-10, CMD-12
        with pytest.raises(TypeError):
            conv.compact(*given)
    assert not calls


def test_a_compaction_cannot_start_inside_one() -> None:  # CMD-16
    conv = conversation("u1")

    def edit(c: runvil.Conversation, _: str) -> None:
        error = refused(lambda: c.compact(lambda *_: None, "again"))
        assert error.message == "models.compact cannot start while a loop or a compactor is running in this section"
        assert error.code == "compaction_running"
        assert refused(lambda: c.compact(None, "again")).code == "compactor_not_function"  # type: ignore[arg-type]
        # Another conversation is none of its business, and is inside as well.
        other = conversation("u1")
        other.compact(lambda o, _: (o.replace(1, 1), c.replace(1, 1, record("u2"))), "other")
        assert texts(other) == ""

    conv.compact(edit, "x")
    assert texts(conv) == "u2"


def test_forks_made_inside_a_compactor_are_free() -> None:
    forks: list[runvil.Conversation] = []
    conv = conversation("u1")

    def edit(c: runvil.Conversation, _: str) -> None:
        fork = c.replace(1, 1, record("u2")).copy()
        assert refused(lambda: fork.replace(1, 1)).code == "replace_outside_compactor"
        forks.append(fork.user("u3"))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        conv.compact(edit, "x")
    assert (texts(conv), texts(forks[0])) == ("u1", "u2 u3")


def test_only_the_compactor_edits_while_it_runs() -> None:
    conv = conversation("u1 a1")
    seen: list[Any] = []

    def elsewhere() -> None:
        seen.append(texts(conv))
        edits: list[Callable[[], object]] = [
            lambda: conv.user("x"),
            lambda: conv.extend([record("u2")]),
            lambda: conv.replace(1, 1),
            lambda: conv.compact(lambda *_: None, "x"),
        ]
        seen.extend(refused(edit).code for edit in edits)

    def edit(c: runvil.Conversation, _: str) -> None:
        c.replace(1, 1, record("u9"))
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()

    conv.compact(edit, "x")
    assert seen == [
        "u9 a1",
        "compaction_running",
        "compaction_running",
        "replace_outside_compactor",
        "compaction_running",
    ]
    assert texts(conv.user("u2")) == "u9 a1 u2"


async def test_async_compactors() -> None:
    conv = conversation("u1 a1")
    started = asyncio.Event()
    go_on = asyncio.Event()

    async def edit(c: runvil.Conversation, reason: str) -> None:
        started.set()
        await go_on.wait()
        c.replace(1, 1, record("u9"))
        await asyncio.to_thread(c.user, reason)

    task = asyncio.create_task(conv.compact_async(edit, "why"))
    await started.wait()
    assert refused(lambda: conv.user("x")).code == "compaction_running"
    go_on.set()
    await task
    assert texts(conv) == "u9 a1 why"
    await conv.compact_async(lambda c, _: c.replace(1, 1), "a plain one")
    assert texts(conv) == "a1 why"

    with pytest.raises(TypeError, match="compact_async"):
        conv.compact(edit, "x")
    assert texts(conv) == "a1 why"


async def test_a_cancelled_compaction_is_undone() -> None:
    conv = conversation("u1 a1")

    async def edit(c: runvil.Conversation, _: str) -> None:
        c.replace(1, 1)
        await asyncio.sleep(60)

    task = asyncio.create_task(conv.compact_async(edit, "x"))
    await asyncio.sleep(0)
    assert texts(conv) == "a1"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert texts(conv.user("u2")) == "u1 a1 u2"


# Reading.


def test_positions_slices_and_walks() -> None:  # ITR-01, ITR-02, ITR-03
    conv = conversation("u1 a1 u2 a2")
    assert [conv[index].content for index in (0, 3, -1, -4)] == ["u1", "a2", "a2", "u1"]
    for index in (4, -5, 2**63, -(2**70)):
        with pytest.raises(IndexError):
            conv[index]
    for key in ("0", 1.0, None):
        with pytest.raises(TypeError):
            conv[key]  # type: ignore[call-overload]
    names = ["u1", "a1", "u2", "a2"]
    for cut in (slice(1, 3), slice(None), slice(None, None, -1), slice(3, 0, -2), slice(10, 20), slice(-2, None)):
        assert [view.content for view in conv[cut]] == names[cut]
    assert [view.content for view in reversed(conv)] == names[::-1]
    passes = 0
    for view in conv:
        passes += 1
        conv.user(view.content)
    assert (passes, len(conv)) == (4, 8)
    assert list(runvil.Conversation()) == []
    assert conv[0] in conv
    assert conv.roles()[:4] == ["user", "assistant", "user", "assistant"]
    parts = [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {"url": "u"}},
        {"type": "text", "text": "b"},
    ]
    assert runvil.Conversation().user(parts).texts() == ["ab"]


def test_views_only_read() -> None:
    calls = [{"id": "c1", "name": "w", "arguments": {"q": ["hi"]}}]
    conv = runvil.Conversation().assistant([{"type": "text", "text": "t"}], calls, {"k": {"n": 1}})
    view: Any = conv[0]
    for field in ("content", "tool_calls", "meta"):
        assert getattr(view, field) is not getattr(view, field)  # VEW-04
    view.tool_calls[0]["arguments"]["q"].append("changed")  # VEW-05
    view.content[0]["text"] = "changed"  # VEW-06
    view.meta["k"]["n"] = 2  # MET-24
    assert view.tool_calls == calls
    assert view.content == [{"type": "text", "text": "t"}]
    assert view.meta == {"k": {"n": 1}}
    for field in ("role", "content", "tool_calls", "tool_call_id", "meta", "extra"):  # VEW-07, VEW-08
        for work in (partial(setattr, view, field, None), partial(delattr, view, field)):
            with pytest.raises(AttributeError) as caught:
                work()
            assert str(caught.value) == (
                "records read from messages are read-only; rewrite history with models.compact(compactor, reason)"
            )
    with pytest.raises(AttributeError):
        _ = view.extra  # VEW-03
    with pytest.raises(TypeError):
        conv[0] = view  # type: ignore[index]


def test_views_are_equal_by_value() -> None:
    conv = runvil.Conversation().user("a", {"k": 1}).user("a", {"k": 1}).user("a").assistant("a")
    assert conv[0] == conv[0] == conv[1]
    assert hash(conv[0]) == hash(conv[1])
    assert len({*conv}) == 3
    assert conv[0] != conv[0].to_dict()  # type: ignore[comparison-overlap]


def test_no_repr_shows_text() -> None:  # LST-40
    secret = "SECRET"
    calls = [{"id": secret, "name": secret, "arguments": {secret: secret}}]
    conv = runvil.Conversation().system(secret).assistant(secret, calls, secret).tool(secret, secret)
    request = conv.compose()
    shown = [conv, *conv, iter(conv), request, request.body_view(model=secret), request.precheck(context=1)]
    assert secret not in "".join(map(repr, shown)) + "".join(map(str, shown))
    assert repr(conv) == "<Conversation of 3 records>"
    assert repr(conv[0]) == "<Record system>"


def test_equality_and_hashing() -> None:
    conv = conversation("u1 a1")
    assert conv == conversation("u1 a1")
    assert conv != conversation("u1") != conversation("u2")
    assert conv != runvil.Conversation().user("u1").assistant("a1", None, 1)
    assert conv != [record("u1"), record("a1")]  # type: ignore[comparison-overlap]
    assert not runvil.Conversation()
    with pytest.raises(TypeError):
        hash(conv)


class Named(runvil.Conversation):
    """A conversation of an application's own."""

    def __init__(self, name: str) -> None:
        self.name = name


def test_copies_are_forks() -> None:
    conv = Named("mine")
    conv.extend([record("u1"), record("a1")])
    for fork in (conv.copy(), copy.copy(conv), copy.deepcopy(conv), pickle.loads(pickle.dumps(conv))):
        assert type(fork) is Named
        assert fork == conv
        fork.user("u2")
        assert texts(conv) == "u1 a1"
        fork.compose()
        conv.compose()
    assert copy.copy(conv).name == copy.deepcopy(conv).name == pickle.loads(pickle.dumps(conv)).name == "mine"
    with pytest.raises(TypeError, match="takes no arguments"):
        runvil.Conversation([record("u1")])
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(conversation("s1 u1"), protocol)) == conversation("s1 u1")


def test_errors_can_be_pickled() -> None:
    error = refused(lambda: runvil.Conversation().user([{"type": "video"}]))
    back = pickle.loads(pickle.dumps(error))
    assert vars(back) == vars(error)
    assert str(back) == str(error)
