"""The tool loop of a conversation, driven from Python by the machine that runs `models.loop`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import pickle
import threading
from typing import TYPE_CHECKING, Any

import pytest

import runvil
from conftest import document, json_lines
from runvil import Conversation, LoopError, Model, Reply, ScriptedBroker, ToolError

if TYPE_CHECKING:
    from pathlib import Path

UNTRUSTED = "<untrusted_input_"


def scripted(*lines: dict[str, Any], context: int = 8192) -> Model:
    return Model("small", context=context, broker=ScriptedBroker.parse("\n".join(map(json.dumps, lines))))


def calls(*pairs: tuple[str, str], **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"id": call, "name": name, "arguments": arguments} for call, name in pairs]}


@runvil.tool(trusted=True)
def search(query: str) -> str:
    """Searches."""
    if query == "boom":
        raise ToolError("the index is down")
    if query == "bug":
        raise KeyError("secret")
    return f"results for {query}"


def roles(conversation: Conversation) -> str:
    return ",".join(conversation.roles())


async def test_tool_rounds_until_text() -> None:
    # LOP-06, TUL-01
    conv = Conversation().user("hello")
    model = scripted(calls(("c1", "search"), query="one"), calls(("c2", "search"), query="two"), {"text": "both done"})
    record = await conv.loop(model, tools=[search])
    assert (record.role, record.content) == ("assistant", "both done")
    assert roles(conv) == "user,assistant,tool,assistant,tool,assistant"
    assert conv[1].content == ""
    assert conv[1].tool_calls == [{"id": "c1", "name": "search", "arguments": {"query": "one"}}]
    assert (conv[2].tool_call_id, conv[2].content) == ("c1", "results for one")
    conv.check()


async def test_calls_of_a_batch_run_side_by_side_and_land_in_order() -> None:
    # TUL-03, TUL-04, TUL-05
    started: list[str] = []
    both = asyncio.Event()

    @runvil.tool(trusted=True)
    async def wait(name: str) -> str:
        """Waits for the other."""
        started.append(name)
        if len(started) == 2:
            both.set()
        await both.wait()
        if name == "first":
            await asyncio.sleep(0.01)
        return name

    conv = Conversation().user("go")
    batch = [{"id": name, "name": "wait", "arguments": {"name": name}} for name in ("first", "second")]
    events: list[str] = []
    await conv.loop(
        scripted({"tool_calls": batch}, {"text": "x"}), tools=[wait], on_event=lambda event: events.append(event.kind)
    )
    assert started == ["first", "second"]
    assert conv.texts() == ["go", "", "first", "second", "x"]
    assert events == [
        "model_turn_completed",
        "assistant_tool_calls",
        *["tool_call_succeeded", "tool_result"] * 2,
        "model_turn_completed",
        "assistant_reply",
    ]


async def test_failures_of_tools_become_text_for_the_model() -> None:
    # TUL-16
    conv = Conversation().user("go")
    batch = calls(("a", "search"), query="boom")["tool_calls"] + calls(("b", "search"), query="bug")["tool_calls"]
    await conv.loop(scripted({"tool_calls": batch}, {"text": "sorry"}), tools=[search])
    assert UNTRUSTED in conv[2].content
    assert "the index is down" in conv[2].content
    assert "search failed: KeyError" in conv[3].content
    assert "secret" not in conv[3].content


async def test_untrusted_output_is_marked_and_repeatable_with_a_seed() -> None:
    # TUL-17, TUL-19
    @runvil.tool
    def fetch() -> str:
        """Fetches."""
        return "<b>page</b>"

    async def run(seed: int | None) -> str:
        conv = Conversation().user("go")
        await conv.loop(scripted(calls(("c", "fetch")), {"text": "x"}), tools=[fetch], seed=seed)
        return str(conv[2].content)

    assert UNTRUSTED in await run(1)
    assert await run(1) == await run(1)
    assert await run(None) != await run(None)


async def test_schemas_with_a_dispatch_function() -> None:
    seen: list[tuple[str, dict[str, Any]]] = []

    async def dispatch(name: str, arguments: dict[str, Any]) -> Any:
        seen.append((name, arguments))
        return {"sum": arguments["a"] + 1} if name == "add" else None

    broker_saw: list[Any] = []

    class Broker(runvil.Broker):
        def complete(self, request: runvil.Request, on_fragment: Any = None) -> Reply:
            broker_saw.append(json.loads(request.body())["messages"][-1]["role"])
            if len(broker_saw) > 1:
                return Reply(text="done")
            names = ("add", "noop")
            return Reply(tool_calls=[{"id": name, "name": name, "arguments": {"a": 1}} for name in names])

    schemas = [
        {"name": "add", "description": "Adds.", "parameters": {"type": "object", "properties": {"a": {}}}},
        {"type": "function", "function": {"name": "noop"}},
    ]
    conv = Conversation().user("go")
    await conv.loop(Model("m", broker=Broker()), tools=schemas, dispatch=dispatch, trusted=True)
    assert seen == [("add", {"a": 1}), ("noop", {"a": 1})]
    assert conv.texts() == ["go", "", '{"sum":2}', "", "done"]
    assert broker_saw == ["user", "tool"]


@pytest.mark.parametrize(
    ("tools", "options", "error"),
    [
        ([{"name": "x"}], {}, TypeError),
        ([{"description": "x"}], {"dispatch": print}, TypeError),
        ([search, search], {}, ValueError),
        ([], {"max_rounds": 0}, ValueError),
        ([], {"max_rounds": True}, TypeError),
        ([], {"compactor": 5}, LoopError),
    ],
)
async def test_arguments_that_cannot_be_used(tools: list[Any], options: dict[str, Any], error: type[Exception]) -> None:
    conv = Conversation().user("go")
    with pytest.raises(error):
        await conv.loop(scripted({"text": "x"}), tools=tools, **options)
    assert len(conv) == 1


OUT_OF_SCOPE = 'tool "rogue" is not in this section\'s scope; in-scope tools: ["search"]'
EMPTY = "the model replied with no text and no tool calls"
FAULT = "the model backend reported a fault of its own (status 500)"
MALFORMED = (
    "the model backend sent a reply that could not be understood: tool call 1 has arguments that are not a JSON object"
)
LIST_ARGUMENTS = {"tool_calls": [{"id": "c", "name": "search", "arguments": "[]"}]}


@pytest.mark.parametrize(
    ("line", "kind", "message"),
    [
        (calls(("c", "rogue")), "out_of_scope_tool", OUT_OF_SCOPE),  # TUL-25, TUL-27
        ({"text": "", "finish_reason": "stop"}, "empty_model_reply", EMPTY),  # EMP-01
        ({"error": {"status": 500, "body": "private"}}, "internal", FAULT),  # LOP-32
        (LIST_ARGUMENTS, "internal", MALFORMED),  # TUL-30
    ],
)
async def test_failed_loops_leave_the_list_alone(line: dict[str, Any], kind: str, message: str) -> None:
    conv = Conversation().user("go")
    with pytest.raises(LoopError) as caught:
        await conv.loop(scripted(line), tools=[search])
    assert (caught.value.kind, str(caught.value)) == (kind, message)
    assert roles(conv) == "user"
    assert "private" not in repr(caught.value)
    again = pickle.loads(pickle.dumps(caught.value))
    assert vars(again) == dict(vars(caught.value))
    # LOP, ARG-36: a loop after a failed one runs.
    assert (await conv.loop(scripted({"text": "fine"}))).content == "fine"


async def test_fields_of_errors() -> None:
    conv = Conversation().user("go")
    with pytest.raises(LoopError) as caught:
        await conv.loop(scripted(calls(("c", "rogue"))))
    assert caught.value.name == "rogue"
    with pytest.raises(LoopError) as caught:
        await conv.loop(scripted({"text": " ", "finish_reason": "length"}))
    assert caught.value.finish_reason == "length"
    with pytest.raises(LoopError) as caught:
        await conv.loop(scripted({"error": {"status": 503, "body": "busy"}}))
    assert (caught.value.status, caught.value.detail) == (503, "busy")
    assert isinstance(caught.value.__cause__, runvil.ModelError)
    with pytest.raises(LoopError) as caught:
        await Conversation().loop(scripted())
    assert (caught.value.kind, str(caught.value)) == ("lua", "messages must not be empty")
    broken = Conversation().user("go").tool("x", "nobody")
    with pytest.raises(LoopError) as caught:
        await broken.loop(scripted())
    cause = caught.value.__cause__
    assert isinstance(cause, runvil.ConversationError)
    assert cause.position == 2


async def test_the_round_cap_keeps_complete_rounds() -> None:
    # CAP-05, CAP-06
    conv = Conversation().user("go")
    model = scripted(calls(("a", "search"), query="1"), calls(("b", "search"), query="2"), {"text": "never"})
    with pytest.raises(LoopError, match="tool-call loop did not converge") as caught:
        await conv.loop(model, tools=[search], max_rounds=2)
    assert caught.value.kind == "tool_loop_exhausted"
    assert len(conv) == 5
    conv.check()


async def test_the_clean_exit() -> None:
    # EMP-07
    conv = Conversation().user("go")
    record = await conv.loop(
        scripted(calls(("a", "search"), query="1"), {"text": "", "finish_reason": "stop"}), tools=[search]
    )
    assert (record.content, len(conv)) == ("", 4)


async def test_one_loop_at_a_time() -> None:
    conv = Conversation().user("go")
    refusals: list[str] = []

    @runvil.tool(trusted=True)
    async def nested() -> str:
        """Tries another loop."""
        for attempt in (conv.loop(scripted({"text": "x"})), conv.compact_async(lambda c, r: None, "why")):
            with pytest.raises((LoopError, runvil.ConversationError)) as caught:
                await attempt
            refusals.append(str(caught.value))
        return "tried"

    await conv.loop(scripted(calls(("c", "nested")), {"text": "done"}), tools=[nested])
    assert refusals == [
        "a loop or a compactor is already running in this section; ask a side question with models.infer(prompt)",
        "models.compact cannot start while a loop or a compactor is running in this section",
    ]
    assert conv.texts() == ["go", "", "tried", "done"]


async def test_compactors() -> None:
    conv = Conversation().user("x" * 40_000).user("short")
    reasons: list[str] = []

    async def compact(conversation: Conversation, reason: str) -> None:
        await asyncio.sleep(0)
        reasons.append(reason)
        with pytest.raises(LoopError, match="already running"):
            await conversation.loop(scripted({"text": "x"}))
        conversation.replace(1, 1)

    await conv.loop(scripted({"text": "fits"}), compactor=compact)
    assert (reasons, conv.texts()) == (["precheck"], ["short", "fits"])

    async def fail(conversation: Conversation, reason: str) -> None:
        conversation.replace(1, 2)
        raise RuntimeError("mine")

    over = {"error": {"status": 400, "body": "This model's maximum context length is 4096 tokens."}}
    with pytest.raises(RuntimeError, match="mine"):
        await conv.loop(scripted(over), compactor=fail)
    assert conv.texts() == ["short", "fits"]
    with pytest.raises(LoopError) as caught:
        await conv.loop(scripted(over))
    assert (caught.value.kind, caught.value.reason) == ("context_exhausted", "provider")
    with pytest.raises(LoopError) as caught:
        await conv.loop(scripted(over, over), compactor=lambda c, r: c.replace(1, 1))
    assert caught.value.kind == "context_exhausted"
    assert conv.texts() == ["short", "fits"]
    with pytest.raises(LoopError) as caught:
        await conv.loop(scripted(over), compactor=lambda c, r: None)
    assert (caught.value.kind, len(conv)) == ("context_exhausted", 2)


async def test_a_reply_anchors_the_next_precheck() -> None:
    conv = Conversation().user("go")
    usage = {"prompt_tokens": 7000, "completion_tokens": 500}
    await conv.loop(scripted({"text": "x", "usage": usage}))
    conv.user("more")
    with pytest.raises(LoopError) as caught:
        await conv.loop(scripted({"text": "y"}))
    assert caught.value.reason == "precheck"


async def test_lenient_loops_answer_what_they_cannot_call() -> None:
    conv = Conversation().user("go")
    batch = [
        {"id": "a", "name": "rogue", "arguments": {}},
        {"id": "b", "name": "search", "arguments": "not json"},
        {"id": "c", "name": "search", "arguments": {"query": "x"}},
    ]
    only_bad = [{"id": "d", "name": "rogue", "arguments": {}}]
    model = scripted({"tool_calls": batch}, {"tool_calls": only_bad}, {"text": "done"})
    await conv.loop(model, tools=[search], lenient=True)
    assert roles(conv) == "user,assistant,tool,tool,tool,assistant,tool,assistant"
    assert 'there is no tool "rogue"; tools: "search"' in conv[2].content
    assert "this call has arguments that are not valid JSON" in conv[3].content
    assert conv[4].content == "results for x"
    conv.check()


async def test_fragments_arrive_in_order() -> None:
    # LOP-37
    conv = Conversation().user("go")
    pieces: list[str] = []
    model = scripted({"text": "partial", "fragments": ["par", "tial"]})
    await conv.loop(model, on_fragment=lambda fragment: pieces.append(fragment.text))
    assert (pieces, conv[-1].content) == (["par", "tial"], "partial")


@pytest.mark.parametrize("keep", [False, True])
async def test_cancelling_inside_a_batch(keep: bool) -> None:
    ended: list[str] = []
    waits = asyncio.Event()

    @runvil.tool(trusted=True)
    async def slow() -> str:
        """Never ends by itself."""
        waits.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            ended.append("slow")
        return "never"

    conv = Conversation().user("go")
    batch = [{"id": "a", "name": "search", "arguments": {"query": "x"}}, {"id": "b", "name": "slow", "arguments": {}}]
    task = asyncio.create_task(conv.loop(scripted({"tool_calls": batch}), tools=[search, slow], keep_finished=keep))
    await waits.wait()
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["slow"]
    assert conv.texts() == (["go", "", "results for x", "the call was cancelled"] if keep else ["go"])
    conv.check()
    assert (await conv.loop(scripted({"text": "again"}))).content == "again"


@pytest.mark.parametrize("keep", [False, True])
async def test_a_call_that_is_given_up(keep: bool) -> None:
    # TUL-28
    @runvil.tool
    async def gives_up() -> str:
        """Cancels itself."""
        raise asyncio.CancelledError

    conv = Conversation().user("go")
    batch = [
        {"id": "a", "name": "search", "arguments": {"query": "x"}},
        {"id": "b", "name": "gives_up", "arguments": {}},
    ]
    with pytest.raises(LoopError) as caught:
        await conv.loop(scripted({"tool_calls": batch}), tools=[search, gives_up], keep_finished=keep)
    assert caught.value.kind == "cancelled"
    assert len(conv) == (4 if keep else 1)


async def test_a_malformed_reply_is_no_turn_and_anchors_nothing_as_in_a_document(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 7000, "completion_tokens": 3}
    lines: list[dict[str, Any]] = [
        {"tool_calls": [{"id": "a", "name": "search"}], "usage": usage},
        {"text": "fine", "usage": {"prompt_tokens": 10, "completion_tokens": 2}},
    ]
    lua = "models.use('writer')\nmessages:user('go')\npcall(models.loop)\nmodels.loop()"
    log = tmp_path / "run.jsonl"
    result = await runvil.run_async(runvil.Prompt.parse(document(lua)), models=scripted(*lines), log=log)
    # The tokens were spent all the same.
    assert (result.turns, result.usage) == (1, {"prompt_tokens": 7010, "completion_tokens": 5})

    conv, model = Conversation().user("go"), scripted(*lines)
    events: list[runvil.Event] = []
    with pytest.raises(LoopError) as caught:
        await conv.loop(model, on_event=events.append)
    assert (caught.value.kind, len(conv)) == ("internal", 1)
    count = conv.compose().precheck(context=8192, model="small").count
    assert (await conv.loop(model, on_event=events.append)).content == "fine"
    assert count < 100  # an anchor of the malformed reply would make it more than 7,000
    told = [(event.kind, event.to_dict().get("turn")) for event in events if event.kind.startswith("model_turn")]
    assert told == [("model_turn_failed", None), ("model_turn_completed", 1)]
    document_told = [(line["kind"], line.get("turn")) for line in json_lines(log) if "model_turn" in line["kind"]]
    assert document_told == told


async def test_a_task_that_went_on_after_it_was_cancelled_still_hears_of_fragments() -> None:
    pieces: list[str] = []

    async def chat() -> None:
        with contextlib.suppress(asyncio.CancelledError):  # and `uncancel` forgotten, as most do
            await asyncio.sleep(60)
        conv = Conversation().user("go")
        await conv.loop(scripted({"text": "hi"}), on_fragment=lambda fragment: pieces.append(fragment.text))

    task = asyncio.create_task(chat())
    await asyncio.sleep(0)
    task.cancel()
    await task
    assert pieces == ["hi"]


async def test_cancelling_at_every_await_never_leaves_half_a_batch() -> None:
    batch = [{"id": name, "name": "hop", "arguments": {"steps": steps}} for name, steps in (("a", 1), ("b", 3))]

    @runvil.tool(trusted=True)
    async def hop(steps: int) -> str:
        """Suspends a few times."""
        for _ in range(steps):
            await asyncio.sleep(0)
        return str(steps)

    sizes = set()
    for ticks in range(40):
        conv = Conversation().user("go")
        lines = ({"tool_calls": batch}, calls(("c", "hop"), steps=2), {"text": "end"})
        task = asyncio.create_task(conv.loop(scripted(*lines), tools=[hop]))
        for _ in range(ticks):
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        conv.check()
        sizes.add(len(conv))
    assert sizes <= {1, 4, 6, 7}
    assert 1 in sizes


def test_from_plain_code_and_from_several_threads() -> None:
    conv = Conversation().user("go")
    assert conv.loop_sync(scripted({"text": "hi"})).content == "hi"

    results: list[str] = []

    def one(number: int) -> None:
        mine = conv.copy()
        results.append(str(mine.loop_sync(scripted({"text": str(number)})).content))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [str(number) for number in range(8)]
    assert len(conv) == 2

    async def inside() -> None:
        with pytest.raises(RuntimeError, match="await loop"):
            conv.loop_sync(scripted())

    asyncio.run(inside())
