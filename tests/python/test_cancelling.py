"""Cancelling a run with tools at every point: the list never holds half a batch, work is stopped, the log keeps all."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import runvil
from conftest import document, json_lines

if TYPE_CHECKING:
    from pathlib import Path

PROMPT = runvil.Prompt.parse(
    """---
name: cancelled
description: Runs tools of every kind.
runvil: 0
uses: [web]
models:
  writer: {}
---

# Cancelled

## Only

```lua
models.use('writer')
packs.offer('web')
tools.offer_local('local', 'Asks a side question', {}, function()
  return models.infer('side') .. tools.call('web/plain', { n = 9 })
end)
messages:user('go')
models.loop()
messages:user('more')
models.loop()
local roles = {}
for i = 1, #messages do roles[i] = messages[i].role end
return table.concat(roles, ',')
```
"""
)


class Watcher:
    """Counts tools that run and those that ended."""

    def __init__(self) -> None:
        self.started = 0
        self.ended = 0

    def pack(self) -> runvil.Pack:
        async def waits(n: int) -> str:
            """Suspends a few times."""
            self.started += 1
            try:
                for _ in range(n):
                    await asyncio.sleep(0)
                return f"waited {n}"
            finally:
                self.ended += 1

        def plain(n: int) -> str:
            """Takes a moment on a thread."""
            time.sleep(0.001)
            return f"plain {n}"

        return runvil.Pack("web", [waits, plain])


def calls(*names: str, turn: int = 1) -> dict[str, Any]:
    batch = [
        {"id": f"{turn}.{at}", "name": name, "arguments": {} if name == "local" else {"n": at}}
        for at, name in enumerate(names, start=1)
    ]
    return {"tool_calls": batch}


SCRIPT = [
    calls("web_waits", "web_plain", "local", "web_waits"),
    {"text": "aside"},
    calls("web_waits", turn=2),
    {"text": "first"},
    {"text": "second"},
]


class Steps:
    """Cancels a run after so many observed things: events and answers."""

    def __init__(self, after: int) -> None:
        self.left = after
        self.handle: runvil.RunHandle | None = None

    def __call__(self) -> None:
        self.left -= 1
        if self.left == 0 and self.handle is not None:
            self.handle.cancel()


class Observer(runvil.Host):
    """Passes every event on."""

    def __init__(self, seen: Steps) -> None:
        self.seen = seen

    def on_event(self, event: runvil.Event) -> None:
        self.seen()


def check_log(log: Path) -> list[dict[str, Any]]:
    """Every request in the log has whole batches; every effect that was handed out has its answer."""
    lines = json_lines(log)
    sent: list[Any] = []
    for line in lines:
        if line["kind"] == "chat" and line["origin"] == "chat":
            sent = sent[: line["from"] - 1] + line["messages"]
            open_calls: set[str] = set()
            for message in sent:
                open_calls -= {message.get("tool_call_id")}
                assert not open_calls or message["role"] == "tool"
                open_calls |= {call["id"] for call in message.get("tool_calls", ())}
            assert not open_calls
    return lines


async def test_cancelling_after_every_event(tmp_path: Path) -> None:
    whole = 0
    for after in range(1, 200):
        seen, watcher, log = Steps(after), Watcher(), tmp_path / f"{after}.jsonl"
        model = runvil.Model("m", broker=runvil.ScriptedBroker(SCRIPT))
        seen.handle = runvil.start(PROMPT, models=model, packs=[watcher.pack()], host=Observer(seen), log=log)
        try:
            result = await seen.handle.result()
        except runvil.RunCancelled as cancelled:
            lines = check_log(log)
            assert lines[-1]["kind"] == "run_failed"
            replies = sum(line["kind"] == "model_turn_completed" for line in lines)
            assert cancelled.turns == replies
        else:
            # Late enough: the run ended before it was cancelled.
            assert result.text == "user,assistant,tool,tool,tool,tool,assistant,tool,assistant,user,assistant"
            assert check_log(log)[-1]["kind"] == "run_succeeded"
            whole += 1
        assert watcher.started == watcher.ended
        if whole == 2:
            break
    assert whole == 2


async def test_cancelling_the_task_at_every_tick(tmp_path: Path) -> None:
    for ticks in range(0, 120, 3):
        watcher, log = Watcher(), tmp_path / f"{ticks}.jsonl"
        model = runvil.Model("m", broker=runvil.ScriptedBroker(SCRIPT))
        task = asyncio.create_task(runvil.run_async(PROMPT, models=model, packs=[watcher.pack()], log=log))
        for _ in range(ticks):
            await asyncio.sleep(0)
        if ticks % 2:
            await asyncio.sleep(0.002)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            if log.exists():  # the run may have ended before its caller heard of it
                assert check_log(log)[-1]["kind"] in ("run_failed", "run_succeeded")
        assert watcher.started == watcher.ended


async def test_a_deadline_inside_a_batch(tmp_path: Path) -> None:
    stopped: list[str] = []
    log = tmp_path / "run.jsonl"

    async def waits(n: int) -> str:
        """Never ends by itself."""
        if n == 1:
            return "quick"
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.005)
            stopped.append("waits")
        return ""

    def plain(n: int) -> str:
        """Is not called."""
        raise AssertionError

    model = runvil.Model("m", broker=runvil.ScriptedBroker([calls("web_waits", "web_waits")]))
    handle = runvil.start(PROMPT, models=model, packs=[runvil.Pack("web", [waits, plain])], log=log, deadline=0.1)
    with pytest.raises(runvil.RunCancelled, match=r"its deadline of 0\.1 seconds passed"):
        await handle.result()
    assert stopped == ["waits"]
    answers = [line for line in check_log(log) if line["kind"] == "answer" and line["of"] == "tool_call"]
    assert [line["answer"] for line in answers] == ["tool_output", "dropped"]
    assert answers[0]["text"] == "quick"
    # The half-answered batch is in no request.
    assert sum(line["kind"] == "chat" for line in json_lines(log)) == 1


async def test_an_answer_that_arrives_with_the_cancelling_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    handles: list[runvil.RunHandle] = []

    async def waits(n: int) -> str:
        """Cancels the run, and then ends."""
        handles[0].cancel()
        return f"kept {n}"

    model = runvil.Model("m", broker=runvil.ScriptedBroker([calls("web_waits")]))
    handles.append(runvil.start(PROMPT, models=model, packs=[runvil.Pack("web", [waits])], log=log))
    with pytest.raises(runvil.RunCancelled):
        await handles[0].result()
    answers = [json.dumps(line) for line in json_lines(log) if line["kind"] == "answer"]
    assert any("kept 1" in line for line in answers)


class Slow:
    """Work that takes a while to end when it is cancelled, as a tool and as a broker."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.release = asyncio.Event()
        self.ended = False

    async def work(self) -> None:
        self.begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            await self.release.wait()
            self.ended = True

    async def waits(self, n: int) -> str:
        """Waits."""
        await self.work()
        return str(n)


class SlowBroker(runvil.Broker):
    """Never answers."""

    def __init__(self, slow: Slow) -> None:
        self.slow = slow

    async def complete(self, request: Any, on_fragment: Any = None) -> runvil.Reply:
        await self.slow.work()
        return runvil.Reply(text="late")


async def cancelled_again(task: asyncio.Task[Any], slow: Slow, times: int = 3) -> None:
    """Cancels a task so many times; it ends when its work has, and not before."""
    await slow.begun.wait()
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0.01)
        assert not task.done()
    slow.release.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert slow.ended
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("what", ["tool", "broker"])
async def test_a_run_that_is_cancelled_again_still_waits_for_its_work(what: str) -> None:
    slow = Slow()

    def plain(n: int) -> str:
        """Is not called."""
        raise AssertionError

    tools: list[Any] = [runvil.tool(name="waits")(slow.waits), plain]
    broker: Any = runvil.ScriptedBroker([calls("web_waits")]) if what == "tool" else SlowBroker(slow)
    model = runvil.Model("m", broker=broker)
    run = runvil.run_async(PROMPT, models=model, packs=[runvil.Pack("web", tools)])
    await cancelled_again(asyncio.create_task(run), slow)


@pytest.mark.parametrize("what", ["tool", "broker"])
async def test_a_loop_of_a_conversation_that_is_cancelled_again_still_waits_for_its_work(what: str) -> None:
    slow = Slow()
    conv = runvil.Conversation().user("go")
    broker: Any = runvil.ScriptedBroker([calls("waits")]) if what == "tool" else SlowBroker(slow)
    tools = [runvil.tool(name="waits")(slow.waits)]
    task = asyncio.create_task(conv.loop(runvil.Model("m", broker=broker), tools=tools))
    await cancelled_again(task, slow, times=3 if what == "tool" else 1)  # the broker runs within the task itself
    assert len(conv) == 1


async def test_a_plain_function_is_not_awaited() -> None:
    release, begun = threading.Event(), threading.Event()

    async def waits(n: int) -> str:
        """Is not called."""
        raise AssertionError

    def plain(n: int) -> str:
        """Blocks."""
        begun.set()
        release.wait(30)
        return str(n)

    model = runvil.Model("m", broker=runvil.ScriptedBroker([calls("web_plain")]))
    handle = runvil.start(PROMPT, models=model, packs=[runvil.Pack("web", [waits, plain])])
    await asyncio.to_thread(begun.wait, 30)
    handle.cancel()
    with pytest.raises(runvil.RunCancelled):
        await asyncio.wait_for(handle.result(), 5)
    release.set()


def test_a_busy_run_that_its_event_loop_abandons_keeps_no_process_alive() -> None:
    program = """
import asyncio, sys, runvil
async def main():
    runvil.start(runvil.Prompt.parse(sys.argv[1]))
    await asyncio.sleep(0.2)
asyncio.run(main())
"""
    busy = document("while true do end", roles="")
    subprocess.run([sys.executable, "-c", program, busy], timeout=20, check=True)


async def test_a_broker_that_gives_up_a_call_of_a_conversation() -> None:
    # ERR-14
    class GivesUp(runvil.Broker):
        async def complete(self, request: Any, on_fragment: Any = None) -> runvil.Reply:
            raise asyncio.CancelledError

    conv = runvil.Conversation().user("go")
    with pytest.raises(runvil.LoopError) as caught:
        await conv.loop(runvil.Model("m", broker=GivesUp()))
    assert (caught.value.kind, len(conv)) == ("cancelled", 1)
    assert (await conv.loop(runvil.Model("m", broker=runvil.ScriptedBroker([{"text": "again"}])))).content == "again"
