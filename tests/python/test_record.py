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


async def test_every_question_to_the_user_has_its_answer_again(tmp_path: Path) -> None:
    given: list[Any] = ["one", None, OSError("private"), runvil.errors.InputError("busy"), "five"]
    waits = asyncio.Event()

    class App(runvil.Host):
        async def user_input(self) -> str | None:
            if not given:
                waits.set()
                await asyncio.sleep(60)
            answer = given.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return str(answer) if answer is not None else None

    lua = "for _ = 1, 5 do local _, text = pcall(user_input) log(tostring(text)) end user_input()"
    prompt = runvil.Prompt.parse(document(lua, roles=""))
    record = tmp_path / "record.jsonl"
    logs = [tmp_path / "live.jsonl", tmp_path / "again.jsonl"]
    handle = runvil.start(prompt, host=App(), record=record, log=logs[0])
    await waits.wait()
    handle.cancel()
    with pytest.raises(runvil.RunCancelled):
        await handle.result()
    assert json_lines(record) == [
        {"user": "one"},
        {"user": None},
        {"user": None, "error": "the Host's user_input hook raised OSError"},
        {"user": None, "error": "busy"},
        {"user": "five"},
        {"user": None, "dropped": True},
    ]
    script = runvil.ScriptedBroker.load(record)

    class Again(runvil.Host):
        def user_input(self) -> str | None:
            return script.user_input()

    with pytest.raises(runvil.RunCancelled):
        await runvil.run_async(prompt, host=Again(), log=logs[1])
    said = [[line["message"] for line in json_lines(log) if line["kind"] == "lua"] for log in logs]
    assert len(said[0]) == 5
    assert said[0] == said[1]


async def test_a_model_call_that_was_dropped_keeps_its_place(tmp_path: Path) -> None:
    class GivesUp(runvil.Broker):
        async def complete(self, request: Any, on_fragment: Any = None) -> runvil.Reply:
            if request.round == 1:
                raise asyncio.CancelledError
            return runvil.Reply(text=f"answer {request.round}")

    lua = (
        "models.use('writer') local all = {} for _ = 1, 3 do local ok, x = pcall(models.infer, 'x') "
        "all[#all + 1] = ok and x or x.kind end return table.concat(all, ', ')"
    )
    prompt, record = runvil.Prompt.parse(document(lua)), tmp_path / "record.jsonl"
    broker: runvil.Broker = GivesUp()
    for _ in range(2):
        result = await runvil.run_async(prompt, models=runvil.Model("m", broker=broker), record=record)
        assert result.text == "answer 0, cancelled, answer 2"
        broker = runvil.ScriptedBroker.load(record)
