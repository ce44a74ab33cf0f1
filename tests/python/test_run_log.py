"""The run log's conversation lines: each request from the first message that differs from the one before it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import runvil
from conftest import document, json_lines

if TYPE_CHECKING:
    from pathlib import Path


def chats(tmp_path: Path, lua: str, *replies: dict[str, Any]) -> list[dict[str, Any]]:
    """Runs a block; gives its conversation lines, having checked that they rebuild every request."""
    log, requests = tmp_path / "run.jsonl", tmp_path / "requests.jsonl"
    broker = runvil.ScriptedBroker(replies or [{"text": f"reply {number}"} for number in range(9)])
    prompt = runvil.Prompt.parse(document("models.use('writer')\n" + lua))
    models = runvil.Model("m", broker=broker)
    runvil.run(prompt, models=models, packs=broker.packs, log=log, requests=requests)
    lines = [line for line in json_lines(log) if line["kind"] == "chat"]
    sent: list[Any] = []
    rebuilt = []
    for line in lines:
        if line["origin"] == "infer":
            assert line["from"] == 1
            rebuilt.append(line["messages"])
            continue
        sent = sent[: line["from"] - 1] + line["messages"]
        rebuilt.append(sent)
    assert rebuilt == [line["messages"] for line in json_lines(requests)]
    return lines


def compact(edit: str) -> str:
    return f"models.compact(function() {edit} end, 'edit')\n"


@pytest.mark.parametrize(
    ("name", "between", "first", "added"),
    [
        ("LOG-11: what the request adds", "messages:user('b')\n", 2, ["reply 0", "b"]),
        ("LOG-12: an unchanged resend adds nothing", compact("messages:replace(2, 2)"), 2, []),
        (
            "LOG-14: a system edit keeps nothing",
            compact("messages:replace(1, 0, { role = 'system', content = 's' })"),
            1,
            ["s", "a", "reply 0"],
        ),
        (
            "LOG-16: what is added and removed between two requests leaves no trace",
            "messages:user('b')\n" + compact("messages:replace(3, 3)"),
            2,
            ["reply 0"],
        ),
        (
            "LOG-17: an identical record put in again is no difference",
            compact("messages:replace(1, 1, { role = 'user', content = 'a' })"),
            2,
            ["reply 0"],
        ),
        (
            "LOG-18: metadata is no difference",
            compact("messages:replace(1, 1, { role = 'user', content = 'a', meta = { n = 1 } })"),
            2,
            ["reply 0"],
        ),
    ],
)
def test_the_second_request(tmp_path: Path, name: str, between: str, first: int, added: list[str]) -> None:
    one, two = chats(tmp_path, f"messages:user('a')\nmodels.loop()\n{between}models.loop()")
    assert (one["from"], [message["content"] for message in one["messages"]]) == (1, ["a"])
    assert (two["from"], [message["content"] for message in two["messages"]]) == (first, added), name


def test_an_edit_in_the_middle_keeps_what_is_before_it(tmp_path: Path) -> None:
    # LOG-13
    lua = (
        "messages:user('1'):assistant('2'):user('3'):assistant('4'):user('5')\nmodels.loop()\n"
        + compact("messages:replace(4, 4, { role = 'assistant', content = 'four' })")
        + "messages:user('7')\nmodels.loop()"
    )
    _, two = chats(tmp_path, lua)
    assert two["from"] == 4
    assert [message["content"] for message in two["messages"]] == ["four", "5", "reply 0", "7"]


def test_a_reply_removed_and_asked_for_again(tmp_path: Path) -> None:
    # LOG-15: after the reply and the next question are gone, the request is the first one again.
    lua = (
        "messages:user('a')\nmodels.loop()\nmessages:user('b')\nmodels.loop()\n"
        + compact("messages:replace(2, #messages)")
        + "models.loop()"
    )
    lines = chats(tmp_path, lua)
    assert [(line["from"], len(line["messages"])) for line in lines] == [(1, 1), (2, 2), (2, 0)]


def test_tool_rounds_infers_and_refused_rounds(tmp_path: Path) -> None:
    # OVF-27: a request that the precheck refused is not written; a batch is written once.
    lua = (
        "tools.offer_local('ask', 'Asks', {}, function() return models.infer('side') end)\n"
        "messages:user('a')\nmodels.loop()\nmessages:user(string.rep('x', 100000))\npcall(models.loop)\n"
        + compact("messages:replace(#messages, #messages, { role = 'user', content = 'short' })")
        + "models.loop()"
    )
    call = {"tool_calls": [{"id": "c", "name": "ask", "arguments": {}}]}
    lines = chats(tmp_path, lua, call, {"text": "aside"}, {"text": "done"}, {"text": "end"})
    shapes = [(line["round"], line["origin"], line["from"], len(line["messages"])) for line in lines]
    assert shapes == [(0, "chat", 1, 1), (1, "infer", 1, 1), (2, "chat", 2, 2), (3, "chat", 4, 2)]


def test_answers_carry_their_time_and_come_before_what_they_lead_to(tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    script: list[dict[str, Any]] = [
        {"pack": "web", "tools": [{"name": "search"}]},
        {"tool": "web/search", "result": "found", "delay_ms": 20},
        {"tool_calls": [{"id": "c", "name": "web_search", "arguments": {"q": 1}}]},
        {"text": "done"},
    ]
    broker = runvil.ScriptedBroker(script)
    lua = "models.use('writer')\ntools.offer('web/search')\nmessages:user('a')\nmodels.loop()\n"
    lua += "return tools.call('web/search', { q = 2 })"
    prompt = runvil.Prompt.parse(document(lua).replace("models:", "uses: [web]\nmodels:"))
    runvil.run(prompt, models=runvil.Model("m", broker=broker), packs=broker.packs, log=log)
    lines = json_lines(log)
    answers = [line for line in lines if line["kind"] == "answer" and line["of"] == "tool_call"]
    told = [(line["tool"], line["caller"], line["call_id"], line.get("arguments")) for line in answers]
    assert told == [("web/search", "model", "c", None), ("web/search", "script", "", {"q": 2})]
    assert all(line["seconds"] >= 0.02 for line in answers)
    kinds = [line["kind"] for line in lines]
    assert kinds.index("answer") < kinds.index("model_turn_completed")
    first_answer = lines.index(answers[0])
    assert kinds[first_answer:].index("tool_result") < kinds[first_answer:].index("chat")
    outcome = next(line for line in lines if line["kind"] == "outcome")
    assert (outcome["outcome"], outcome["turns"]) == ("completed", 2)


def test_a_failed_run_says_why_without_the_providers_words(tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    broker = runvil.ScriptedBroker([{"error": {"status": 500, "body": "private words"}}])
    prompt = runvil.Prompt.parse(document("models.use('writer')\nmessages:user('a')\nmodels.loop()"))
    with pytest.raises(runvil.RunError):
        runvil.run(prompt, models=runvil.Model("m", broker=broker), log=log)
    lines = json_lines(log)
    outcome = next(line for line in lines if line["kind"] == "outcome")
    assert outcome["error"]["kind"] == "Completion"
    assert outcome["error"]["status"] == 500
    assert "private words" not in log.read_text()
    assert lines[-1]["kind"] == "run_failed"


def test_a_round_writes_what_it_adds(tmp_path: Path) -> None:
    # The bytes of the log grow with the conversation, not with its square.
    def size(rounds: int) -> int:
        log = tmp_path / f"{rounds}.jsonl"
        lua = f"models.use('writer')\nfor i = 1, {rounds} do messages:user('x') models.loop() end"
        broker = runvil.ScriptedBroker([{"text": "y"}] * rounds)
        runvil.run(runvil.Prompt.parse(document(lua)), models=runvil.Model("m", broker=broker), log=log)
        lines = [line for line in json_lines(log) if line["kind"] == "chat"]
        assert all(len(line["messages"]) <= 2 for line in lines)
        return sum(len(json.dumps(line)) for line in lines)

    assert size(200) < 2.2 * size(100)


def test_a_compaction_that_summarizes(tmp_path: Path) -> None:
    # CPT-54: the summary's request holds the old turns once, the retried round the compacted records once.
    lua = """
messages:user('first'):assistant(string.rep('y', 20000)):user('now')
models.loop()
messages:user(string.rep('x', 20000))
models.loop(function()
  local old = {}
  for at = 1, #messages - 1 do old[at] = messages[at].content end
  local summary = models.infer('Summarize:\\n' .. table.concat(old, '\\n'))
  messages:replace(1, #messages - 1, { role = 'user', content = summary }, { role = 'assistant', content = 'noted' })
end)
"""
    first, summary, retried = chats(tmp_path, lua, {"text": "one"}, {"text": "short"}, {"text": "two"})
    assert (first["from"], len(first["messages"])) == (1, 3)
    prompt = "Summarize:\nfirst\n" + "y" * 20_000 + "\nnow\none"
    assert (summary["origin"], [message["content"] for message in summary["messages"]]) == ("infer", [prompt])
    contents = [message["content"] for message in retried["messages"]]
    assert (retried["origin"], retried["from"], contents) == ("chat", 1, ["short", "noted", "x" * 20_000])
