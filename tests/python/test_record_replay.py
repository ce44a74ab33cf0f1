"""Runs of every kind, recorded and replayed: the same events, the same outcome, whatever order answers came in."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

import runvil
from conftest import json_lines

if TYPE_CHECKING:
    from pathlib import Path

PROMPT = runvil.Prompt.parse(
    """---
name: all
description: Does everything that asks for answers.
runvil: 0
uses: [web]
models:
  writer: {}
---

# All

## Only

```lua
models.use('writer')
packs.offer('web')
tools.offer_local('aside', 'Asks a side question', {}, function()
  local fine, text = pcall(models.infer, 'side')
  local _, found = pcall(tools.call, 'web/look', { n = 9 })
  return tostring(fine) .. tostring(text) .. tostring(found)
end)
local seen = {}
local function note(...)
  for _, value in ipairs({ ... }) do
    seen[#seen + 1] = type(value) == 'table' and value.kind .. ': ' .. value.message or tostring(value)
  end
end
local function shorten(reason)
  note(reason)
  if #messages > 1 then messages:replace(1, #messages, { role = 'user', content = 'short' }) end
end
for turn = 1, 6 do
  local fine, text = pcall(user_input)
  note(tostring(fine), text)
  messages:user('turn ' .. turn)
  local ok, err = pcall(models.loop, shorten)
  note(tostring(ok), err, #messages)
end
return table.concat(seen, '\\n')
```
"""
)


APART = ("run_parameters", "answer", "chat", "model_retry", "outcome")
"""The lines of a run log that are no events."""


class Live(runvil.Broker):
    """Answers at random, as a model and its server may."""

    def __init__(self, chance: random.Random, *, cancels: bool) -> None:
        self.chance, self.cancels, self.calls = chance, cancels, 0

    def call(self) -> dict[str, Any]:
        self.calls += 1
        name = self.chance.choice(["web_look", "web_look", "web_ask", "aside"])
        arguments: Any = {} if name == "aside" else {"n": self.calls}
        return {
            "id": f"c{self.calls}",
            "name": name,
            "arguments": self.chance.choice([arguments] * 40 + [None, "{", [1]]),
        }

    async def complete(self, request: Any, on_fragment: Any = None) -> runvil.Reply:
        await asyncio.sleep(self.chance.choice([0, 0, 0.001]))
        usage = {"prompt_tokens": self.chance.randint(1, 50), "completion_tokens": 3}
        if self.chance.random() < 0.1:
            request.report_retry(1, 0.0, "RateLimited", 429)
        if self.cancels and self.chance.random() < 0.05:
            raise asyncio.CancelledError
        if self.chance.random() < 0.15:
            kind = self.chance.choice([*runvil.errors.MODEL_ERROR_KINDS, "ContextOverflow", "ContextOverflow"])
            status, count = self.chance.choice([None, 400, 200, 503]), self.chance.choice([None, 9000])
            raise runvil.ModelError(kind, status, "private", self.chance.choice([None, "so"]), count, count)
        if self.chance.random() < 0.05:
            return runvil.Reply(text=self.chance.choice(["", "a\ud800", None]), usage=usage)
        if request.origin == "chat" and self.chance.random() < 0.6:
            calls = [self.call() for _ in range(self.chance.randint(1, 4))]
            return runvil.Reply(tool_calls=calls, finish_reason="tool_calls", usage=usage, reasoning="hm")
        if on_fragment is not None:
            on_fragment("te")
        return runvil.Reply(text="text", usage=usage, model="served", metrics={"took": 3})


class User(runvil.Host):
    """Types, has nothing to say, or is not to be had."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def on_fragment(self, fragment: runvil.Fragment) -> None:
        pass

    async def user_input(self) -> str | None:
        match self.chance.randint(1, 4):
            case 1:
                return None
            case 2:
                raise OSError("private")
            case _:
                return f"line {self.chance.random()}"


class Scripted(runvil.Host):
    """The user of a script."""

    def __init__(self, script: runvil.ScriptedBroker) -> None:
        self.user_input = script.user_input  # type: ignore[method-assign]


def tools(chance: random.Random, *, cancels: bool) -> runvil.Pack:
    async def answer(n: int) -> str:
        await asyncio.sleep(chance.choice([0, 0.001, 0.003]))
        if cancels and chance.random() < 0.1:
            raise asyncio.CancelledError
        if chance.random() < 0.2:
            raise chance.choice([runvil.ToolError(f"failed {n}"), KeyError("private")])
        return f"found {n}"

    async def look(n: int) -> str:
        """Looks."""
        return await answer(n)

    async def ask(n: int) -> str:
        """Asks."""
        return await answer(n)

    return runvil.Pack("web", [runvil.tool(trusted=True)(look), ask])


async def outcome(log: Path, **options: Any) -> tuple[list[dict[str, Any]], tuple[Any, ...]]:
    """The events of a run, and how it ended."""
    start = datetime(2026, 1, 2, tzinfo=UTC)
    ended: tuple[Any, ...]
    try:
        result = await runvil.run_async(PROMPT, execution="x", seed=1, started_at=start, log=log, **options)
        ended = ("completed", *result)
    except runvil.RunError as error:
        ended = (error.kind, error.message, error.detail, error.status, error.turns, error.usage)
    except runvil.RunCancelled as error:
        ended = ("cancelled", error.turns, error.usage)
    return [line for line in json_lines(log) if line["kind"] not in APART], ended


async def both(folder: Path, seed: int, *, cancels: bool) -> tuple[Any, Any]:
    chance = random.Random(seed)
    record = folder / f"{seed}.record.jsonl"
    broker = Live(chance, cancels=cancels)
    first = await outcome(
        folder / f"{seed}.live.jsonl",
        models=runvil.Model("m", context=2000, broker=broker),
        packs=[tools(chance, cancels=cancels)],
        host=User(chance),
        record=record,
    )
    script = runvil.ScriptedBroker.load(record)
    again = await outcome(
        folder / f"{seed}.again.jsonl",
        models=runvil.Model("m", context=2000, broker=script),
        packs=script.packs,
        host=Scripted(script),
        record=folder / f"{seed}.again.record.jsonl",
    )
    written = [(folder / f"{seed}.{name}.jsonl").read_text(encoding="utf-8") for name in ("record", "again.record")]
    assert sorted(written[0].splitlines()) == sorted(written[1].splitlines())
    return first, again


@pytest.mark.parametrize("cancels", [False, True])
async def test_a_replay_is_the_same_run(tmp_path: Path, cancels: bool) -> None:
    kinds = set()
    for seed in range(30):
        first, again = await both(tmp_path, seed, cancels=cancels)
        assert first == again, seed
        kinds |= {line["kind"] for line in first[0]}
    assert kinds >= {"compaction_accepted", "model_turn_failed", "tool_call_failed", "tool_result", "user_input"}


class Impatient(User):
    """Cancels the run after so many events."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance)
        self.left = chance.randint(1, 150)
        self.handle: runvil.RunHandle | None = None

    def on_event(self, event: runvil.Event) -> None:
        self.left -= 1
        if self.left == 0 and self.handle is not None:
            self.handle.cancel()


async def test_a_replay_of_a_cancelled_run_is_the_same_up_to_there(tmp_path: Path) -> None:
    cancelled = 0
    for seed in range(40):
        chance = random.Random(seed)
        host, broker = Impatient(chance), Live(chance, cancels=False)
        record, log = tmp_path / f"{seed}.record.jsonl", tmp_path / f"{seed}.live.jsonl"
        host.handle = runvil.start(
            PROMPT,
            models=runvil.Model("m", context=2000, broker=broker),
            packs=[tools(chance, cancels=False)],
            host=host,
            record=record,
            log=log,
            execution="x",
            seed=1,
        )
        try:
            await host.handle.result()
        except runvil.RunCancelled:
            cancelled += 1
        assert asyncio.all_tasks() == {asyncio.current_task()}
        live = [line for line in json_lines(log) if line["kind"] not in APART]
        ended = ("lua_teardown_started", "lua_teardown_succeeded", "run_failed")
        while live[-1]["kind"] in ended:
            live.pop()
        script = runvil.ScriptedBroker.load(record)
        model = runvil.Model("m", context=2000, broker=script)
        log = tmp_path / f"{seed}.again.jsonl"
        again, _ = await outcome(log, models=model, packs=script.packs, host=Scripted(script))
        assert again[: len(live)] == live, seed
    assert cancelled > 10
