"""Many conversations at once in one process: `python -m benches.scale.crowd KIND COUNT`.

A conversation of KIND `plain` is a document that waits for its first answer; `documents` and `loops` make a tool round
and wait for the second. When all wait, memory is read and all are answered. A second crowd does the same in the same
process. Prints one JSON object: wall seconds, bytes for each, and for documents the p99 of the steps, in seconds, of
the first crowd and of the second.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import runvil
from runvil import _native, plan

HEAD = """---
name: crowd
description: One answer of many.
runvil: 0
uses: [web]
models:
  writer: {}
---

# Crowd

## Chat

```lua
models.use('writer')
"""
TAIL = """messages:user('hello')
models.loop()
return messages[#messages].content
```
"""
PLAIN = runvil.Prompt.parse(HEAD.replace("uses: [web]\n", "") + TAIL)
PROMPT = runvil.Prompt.parse(HEAD + "packs.offer('web')\n" + TAIL)


@runvil.tool(trusted=True)
async def search(query: str) -> str:
    """Searches."""
    return f"results for {query}"


PACK = runvil.Pack("web", [search])


class Crowd(runvil.Broker):
    """Asks for a tool that is offered; holds the answers of all others until they all wait."""

    def __init__(self, count: int) -> None:
        self.waiting = 0
        self.count = count
        self.all_wait = asyncio.Event()
        self.go_on = asyncio.Event()

    async def complete(self, request: runvil.Request, on_fragment: Any = None) -> runvil.Reply:
        """Answers a request."""
        if request.round == 0 and request.tool_names:
            name = request.tool_names[0]
            return runvil.Reply(tool_calls=[{"id": "c", "name": name, "arguments": {"query": "x"}}])
        self.waiting += 1
        if self.waiting == self.count:
            self.all_wait.set()
        await self.go_on.wait()
        return runvil.Reply(text="done")


class TimedRun:
    """A run whose steps are timed."""

    seconds: list[float] = []  # noqa: RUF012 - one for the process

    def __init__(self, *arguments: Any) -> None:
        self._run = _native_run(*arguments)

    def step_within(self, work: int) -> Any:
        """One step on the loop's thread."""
        started = time.perf_counter()
        step = self._run.step_within(work)
        self.seconds.append(time.perf_counter() - started)
        return step

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)


_native_run = _native.Run


def resident_bytes() -> int:
    """The memory of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


async def plain(model: runvil.Model) -> None:
    """One run of the prompt without tools."""
    result = await runvil.run_async(PLAIN, models=model)
    assert result.text == "done"


async def documents(model: runvil.Model) -> None:
    """One run of the prompt."""
    result = await runvil.run_async(PROMPT, models=model, packs=[PACK])
    assert result.text == "done"


async def loops(model: runvil.Model) -> None:
    """One loop of a conversation."""
    record = await runvil.Conversation().user("hello").loop(model, tools=[search])
    assert record.content == "done"


async def measure(kind: str, count: int) -> dict[str, Any]:
    """Runs the crowd."""
    one = {"plain": plain, "documents": documents, "loops": loops}[kind]
    for warm_up in (Crowd(1),):
        warm_up.go_on.set()
        await one(runvil.Model("m", broker=warm_up))
    TimedRun.seconds.clear()
    broker = Crowd(count)
    model = runvil.Model("m", broker=broker)
    gc.collect()
    before = resident_bytes()
    started = time.perf_counter()
    tasks = [asyncio.ensure_future(one(model)) for _ in range(count)]
    await broker.all_wait.wait()
    held = resident_bytes() - before
    broker.go_on.set()
    await asyncio.gather(*tasks)
    wall = time.perf_counter() - started
    steps = sorted(TimedRun.seconds)
    p99 = steps[len(steps) * 99 // 100] if steps else None
    return {"wall": wall, "bytes": held / count, "p99": p99, "steps": len(steps)}


async def measure_twice(kind: str, count: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Runs two crowds, one after the other."""
    return await measure(kind, count), await measure(kind, count)


def main() -> None:
    """Measures one kind of crowd."""
    kind, count = sys.argv[1], int(sys.argv[2])
    if kind != "loops":
        plan._native = type("Timed", (), {"Run": TimedRun, "__version__": _native.__version__})  # type: ignore[attr-defined, assignment]
    first, second = asyncio.run(measure_twice(kind, count))
    sys.stdout.write(json.dumps(first | {"again": second["p99"]}) + "\n")


if __name__ == "__main__":
    main()
