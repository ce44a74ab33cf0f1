"""Recording a run and replaying it: each call gets the answer it had, whichever came first."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import runvil
from conftest import document, json_lines

if TYPE_CHECKING:
    from pathlib import Path

LUA = """
models.use('writer')
packs.offer('web')
messages:user('go')
models.loop()
local texts = {}
for at = 3, #messages - 1 do texts[#texts + 1] = messages[at].content end
return table.concat(texts, ' ')
"""
PROMPT = runvil.Prompt.parse(document(LUA).replace("models:", "uses: [web]\nmodels:"))


def batch(*numbers: int) -> list[dict[str, Any]]:
    calls = [{"id": f"c{number}", "name": "web_look", "arguments": {"number": number}} for number in numbers]
    return [{"tool_calls": calls}, {"text": "done"}]


async def record(path: Path, look: Any, **options: Any) -> runvil.Result:
    model = runvil.Model("m", broker=runvil.ScriptedBroker(batch(1, 2, 3)))
    packs = [runvil.Pack("web", [runvil.tool(trusted=True, name="look")(look)])]
    return await runvil.run_async(PROMPT, models=model, packs=packs, record=path, **options)


async def test_calls_that_end_in_another_order_than_they_began(tmp_path: Path) -> None:
    turns = {number: asyncio.Event() for number in (1, 2, 3)}
    turns[3].set()

    async def look(number: int) -> str:
        """Looks, once the next one has."""
        await turns[number].wait()
        if number > 1:
            turns[number - 1].set()
        if number == 2:
            raise runvil.ToolError("failed 2")
        return f"found {number}"

    file = tmp_path / "record.jsonl"
    first = await record(file, look, seed=1)
    answers = [line.get("result", line.get("error")) for line in json_lines(file) if "tool" in line]
    assert answers == ["found 1", "failed 2", "found 3"]
    script = runvil.ScriptedBroker.load(file)
    again = await runvil.run_async(PROMPT, models=runvil.Model("m", broker=script), packs=script.packs, seed=1)
    assert again.text == first.text


async def test_answers_behind_a_call_that_never_ends_are_kept(tmp_path: Path) -> None:
    answered = asyncio.Event()

    async def look(number: int) -> str:
        """The first never ends."""
        if number == 1:
            await asyncio.sleep(60)
        if number == 3:
            answered.set()
        return f"found {number}"

    file = tmp_path / "record.jsonl"
    run = asyncio.create_task(record(file, look))
    await answered.wait()
    await asyncio.sleep(0.02)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    tools = [line for line in json_lines(file) if "tool" in line]
    assert [line.get("result", line.get("dropped")) for line in tools] == [True, "found 2", "found 3"]
    # The replay gives each call the answer it had; the first is cancelled again, and with it the run.
    log = tmp_path / "run.jsonl"
    script = runvil.ScriptedBroker.load(file)
    with pytest.raises(runvil.RunCancelled):
        await runvil.run_async(PROMPT, models=runvil.Model("m", broker=script), packs=script.packs, log=log)
    answers = [line for line in json_lines(log) if line["kind"] == "answer" and line["of"] == "tool_call"]
    assert [(line["call_id"], line["answer"]) for line in answers if line["answer"] == "dropped"] == [("c1", "dropped")]
    assert all(line["text"] == f"found {line['call_id'][1]}" for line in answers if line["answer"] == "tool_output")
