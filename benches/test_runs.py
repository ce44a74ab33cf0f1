"""What a run costs besides its model."""

# mypy: disable-error-code="no-untyped-call"
# `pedantic` of pytest-benchmark has no types.

from __future__ import annotations

import asyncio
import gc
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import runvil

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_benchmark.fixture import BenchmarkFixture

PROMPT = """---
name: bench
description: One section, one round.
runvil: 0
models:
  writer: {}
---

# Bench

## Chat

Say hello.

```lua
models.use('writer')
messages:user(prose)
models.loop()
return messages[#messages].content
```
"""
ENDLESS = PROMPT.replace("models.loop()\n", "while true do models.infer('again') end\n")

RUNS_AT_ONCE = 1_000


class Pong(runvil.Broker):
    """Answers at once."""

    async def complete(
        self, request: runvil.Request, on_fragment: Callable[[str], object] | None = None
    ) -> runvil.Reply:
        """Answers `pong`."""
        del request, on_fragment
        return runvil.Reply(text="pong", finish_reason="stop")


class Gate(Pong):
    """Lets every request wait until the gate opens."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.waiting = 0

    async def complete(
        self, request: runvil.Request, on_fragment: Callable[[str], object] | None = None
    ) -> runvil.Reply:
        """Answers `pong` once the gate is open."""
        self.waiting += 1
        await self.open.wait()
        return await super().complete(request, on_fragment)


@pytest.mark.benchmark(group="runs")
def test_document_of_one_round(benchmark: BenchmarkFixture) -> None:
    """A parsed prompt with one section: one request, one text reply, through the asynchronous API."""
    prompt = runvil.Prompt.parse(PROMPT)
    model = runvil.Model("small", broker=Pong())
    with asyncio.Runner() as runner:

        def run() -> str:
            return runner.run(runvil.run_async(prompt, models=model)).text

        assert benchmark(run) == "pong"


@pytest.mark.benchmark(group="runs")
def test_parse_a_document(benchmark: BenchmarkFixture) -> None:
    """Parses the document and compiles its Lua."""
    assert benchmark(runvil.Prompt.parse, PROMPT).name == "bench"


@pytest.mark.benchmark(group="runs at once")
def test_runs_that_wait(benchmark: BenchmarkFixture, report_figure: Callable[[str], None]) -> None:
    """Starts many runs, lets all of them wait for their model, then lets all of them end."""
    prompt = runvil.Prompt.parse(PROMPT)
    memory: list[float] = []

    async def together() -> int:
        gate = Gate()
        model = runvil.Model("small", broker=gate)
        gc.collect()
        before = _resident()
        runs = [asyncio.ensure_future(runvil.run_async(prompt, models=model)) for _ in range(RUNS_AT_ONCE)]
        while gate.waiting < RUNS_AT_ONCE:
            await asyncio.sleep(0.001)
        memory.append((_resident() - before) / RUNS_AT_ONCE)
        gate.open.set()
        results = await asyncio.gather(*runs)
        return sum(result.text == "pong" for result in results)

    with asyncio.Runner() as runner:
        ended = benchmark.pedantic(lambda: runner.run(together()), rounds=3)
    assert ended == RUNS_AT_ONCE
    # The first round: the later ones find memory that the allocator kept.
    report_figure(f"{RUNS_AT_ONCE:,} waiting runs: {memory[0] / 1000:.0f} kB of memory each")


@pytest.mark.benchmark(group="runs at once")
def test_step_beside_many_waiting_runs(benchmark: BenchmarkFixture, report_figure: Callable[[str], None]) -> None:
    """Answers each of many waiting runs in turn and steps it to its next request."""
    native = runvil.Prompt.parse(ENDLESS)._native
    params: dict[str, Any] = {
        "args": "",
        "execution": "bench",
        "seed": 1,
        "started_at_ms": 1,
        "models": {"writer": {"model": "small", "id": "small", "context": 8192}},
        "raw_models": False,
        "packs": [],
    }
    runs = [runvil._native.Run(native, params) for _ in range(RUNS_AT_ONCE)]
    effects = [run.step().effects[0].id for run in runs]
    steps: list[int] = []

    def answer_all() -> None:
        for index, run in enumerate(runs):
            run.resume(effects[index], ("reply", {"text": "pong", "finish_reason": "stop"}))
            before = time.perf_counter_ns()
            step = run.step()
            steps.append(time.perf_counter_ns() - before)
            effects[index] = step.effects[0].id

    benchmark.pedantic(answer_all, rounds=5)
    steps.sort()
    median, last = steps[len(steps) // 2], steps[len(steps) * 99 // 100]
    report_figure(
        f"one step beside {RUNS_AT_ONCE:,} waiting runs: median {median / 1e3:.0f} µs, p99 {last / 1e3:.0f} µs"
    )
    assert not any(run.decided for run in runs)


def _resident() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    pytest.skip("memory is measured on Linux only")
