"""Compactions of a conversation; the names of the cases are those of the specification."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from numbered_records import compacted, conversation, record, refused, texts

if TYPE_CHECKING:
    from collections.abc import Callable

    import runvil


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
