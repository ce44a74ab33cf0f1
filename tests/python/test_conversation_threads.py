"""Conversations used by several threads at once."""

from __future__ import annotations

import gc
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import runvil

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROUNDS = 150


@pytest.fixture(autouse=True)
def switch_often() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def together(*works: Callable[[], None]) -> None:
    """Runs all of them at once; raises what one of them raises."""
    errors: list[BaseException] = []
    start = threading.Barrier(len(works))

    def run(work: Callable[[], None]) -> None:
        start.wait()
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - it is raised again below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_every_append_of_every_thread_lands_once() -> None:
    conv = runvil.Conversation().user("first")

    def writer(name: str) -> Callable[[], None]:
        def work() -> None:
            for index in range(ROUNDS):
                conv.user(f"{name}{index}").append({"role": "user", "content": f"{name}{index}b"})
                conv.extend([conv[0]])

        return work

    together(*(writer(name) for name in "wxyz"))
    assert len(conv) == 1 + 4 * ROUNDS * 3
    texts = conv.texts()
    for name in "wxyz":
        own = [text for text in texts if text.startswith(name)]
        firsts = list(dict.fromkeys(own))
        assert firsts == [f"{name}{index}{end}" for index in range(ROUNDS) for end in ("", "b")]


def test_readers_writers_and_compactors_at_once() -> None:
    conv = runvil.Conversation.from_json([{"role": "user", "content": f"u{index}"} for index in range(2_000)])
    done = threading.Event()
    refused = 0

    def write() -> None:
        nonlocal refused
        for index in range(ROUNDS):
            try:
                conv.user(f"w{index}").extend({"role": "user", "content": "x"} for _ in range(70))
            except runvil.ConversationError as error:
                assert error.code == "compaction_running"
                refused += 1

    def compact() -> None:
        for index in range(ROUNDS):
            before = len(conv)

            def edit(c: runvil.Conversation, _: str, keep: bool = bool(index % 2), before: int = before) -> None:
                length = len(c)
                assert length >= before
                c.replace(1, length - 10, {"role": "user", "content": "summary"})
                assert len(c) == 11  # nobody else edits meanwhile
                if not keep:
                    raise ZeroDivisionError

            try:
                conv.compact(edit, "trim")
            except ZeroDivisionError:
                assert len(conv) >= before
        done.set()

    def read() -> None:
        while not done.is_set():
            data = conv.to_json()
            assert runvil.Conversation.from_json(data).to_json() == data
            request = conv.compose()
            assert bytes(request.body_view(model="m")) == request.body(model="m")
            assert len(list(conv)) >= 11
            assert all(view.role == "user" for view in conv[-5:])
            fork = conv.copy()
            fork.user("fork")
            assert fork != conv
            assert len(conv.texts()) >= 11
            gc.collect(0)

    together(write, compact, read, read)
    conv.check()


class Sneaky:
    """An object in a reference cycle; collecting it uses the conversation, whatever that is busy with."""

    def __init__(self, conv: runvil.Conversation) -> None:
        self.conv = conv
        self.cycle = self

    def __del__(self) -> None:
        self.conv.user("collected").compose()


def test_garbage_may_use_the_conversation_it_interrupts() -> None:
    conv = runvil.Conversation()
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for index in range(200):
            Sneaky(conv)
            conv.append({"role": "user", "content": "x", "meta": {"k": [index]}}).extend([conv[-1]])
            conv.compose()
            assert len(conv[-3:]) <= 3
            conv.roles()
            conv.copy()
    finally:
        gc.set_threshold(*threshold)
    gc.collect()
    assert conv.texts().count("collected") == 200


def progress_during(work: Callable[[], Any]) -> float:
    """How fast another thread runs meanwhile, as a share of its speed alone."""
    count = 0
    stop = False

    def spin() -> None:
        nonlocal count
        while not stop:
            count += 1

    def rate(during: Callable[[], Any]) -> float:
        nonlocal stop, count
        stop, count = False, 0
        thread = threading.Thread(target=spin)
        thread.start()
        begun, clock = count, time.perf_counter()
        during()
        result = (count - begun) / (time.perf_counter() - clock)
        stop = True
        thread.join()
        return result

    return rate(work) / rate(lambda: time.sleep(0.2))


def test_long_work_leaves_the_interpreter_to_others() -> None:
    sys.setswitchinterval(0.005)
    record = {"role": "user", "content": "x" * 400, "meta": {"k": 1}}
    data = runvil.Conversation.from_json([record] * 60_000).to_json()
    conv = runvil.Conversation.from_json(data)

    def work() -> None:
        for _ in range(3):
            runvil.Conversation.from_json(data).compose()
            assert conv == runvil.Conversation.from_json(data)

    # A machine that does other things at the same time is no reason to fail: held all along, it would be near nothing.
    assert max(progress_during(work) for _ in range(3)) > 0.3
