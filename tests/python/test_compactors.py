"""The shipped compactors, alone and inside a loop; and what a compaction leaves behind whatever it does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import runvil
from runvil import Conversation, ConversationError, LoopError, Model, ScriptedBroker, compactors

OVERFLOW = {"error": {"status": 400, "body": "This model's maximum context length is 4096 tokens."}}


def scripted(*lines: dict[str, Any], context: int = 8192) -> Model:
    return Model("small", context=context, broker=ScriptedBroker.parse("\n".join(map(json.dumps, lines))))


def chat(turns: int) -> Conversation:
    """A system record, then turns of a question, a tool round and an answer."""
    conv = Conversation().system("be terse")
    for turn in range(1, turns + 1):
        call = {"id": f"c{turn}", "name": "look", "arguments": {}}
        conv.user(f"question {turn}").assistant("", tool_calls=[call]).tool(f"found {turn}", f"c{turn}")
        conv.assistant(f"answer {turn}")
    return conv


def test_fail_and_clear() -> None:
    conv = chat(1)
    with pytest.raises(LoopError) as caught:
        conv.compact(compactors.fail, "the notes are too long")
    assert (caught.value.kind, caught.value.reason) == ("context_exhausted", "the notes are too long")
    assert str(caught.value) == "context exhausted: the notes are too long"
    assert len(conv) == 5
    conv.compact(compactors.clear, "new topic")
    assert len(conv) == 0
    with pytest.raises(ConversationError, match="replace works only inside a compactor"):
        compactors.clear(conv.user("x"), "outside")


@pytest.mark.parametrize(("keep", "left"), [(1, 5), (2, 9), (3, 13)])
def test_trim_keeps_the_system_block_and_whole_turns(keep: int, left: int) -> None:
    conv = chat(4)
    conv.compact(compactors.trim(keep_turns=keep), "why")
    assert len(conv) == left
    assert conv[0].role == "system"
    assert conv[1].content == f"question {5 - keep}"
    conv.check()


def test_trim_with_nothing_to_drop_hands_over_to_fail() -> None:
    for keep in (4, 5):
        conv = chat(4)
        before = conv.copy()
        with pytest.raises(LoopError, match="context exhausted: why"):
            conv.compact(compactors.trim(keep_turns=keep), "why")
        assert conv == before


@pytest.mark.parametrize("make", [compactors.trim, lambda **keys: compactors.summarize(scripted(), **keys)])
def test_settings_that_cannot_be_used(make: Any) -> None:
    with pytest.raises(ValueError, match="keep_turns must be at least 1, got 0"):
        make(keep_turns=0)
    with pytest.raises(TypeError, match="keep_turns must be an integer, got str"):
        make(keep_turns="2")


async def test_summarize_puts_one_marked_record_in_place_of_the_oldest_turns() -> None:
    conv = chat(4)
    prompts: list[str] = []

    class Broker(runvil.Broker):
        def complete(self, request: runvil.Request, on_fragment: Any = None) -> runvil.Reply:
            assert request.origin == "infer"
            prompts.append(request.messages[0]["content"])
            return runvil.Reply(text="it was all about x")

    await conv.compact_async(compactors.summarize(Model("m", broker=Broker()), prompt="SUM UP\n"), "why")
    assert conv.texts()[1] == "Summary of the earlier conversation: it was all about x"
    assert conv[1].meta == {"summary": True}
    assert conv[2].content == "question 3"
    assert len(conv) == 10
    (prompt,) = prompts
    assert prompt.startswith('SUM UP\nuser: "question 1"\nassistant: "" [{')
    assert prompt.endswith('assistant: "answer 2"')


async def test_a_summary_that_does_not_fit_is_made_of_half_as_much() -> None:
    # Refused by the provider once, then by the precheck: each time half of the turns are left.
    conv = chat(9)
    await conv.compact_async(compactors.summarize(scripted(OVERFLOW, {"text": "short"}), keep_turns=1), "why")
    assert conv[1].content == "Summary of the earlier conversation: short"
    assert conv[2].content == "question 5"
    conv.check()
    conv = chat(8)
    small = scripted({"text": "short"}, context=300)
    await conv.compact_async(compactors.summarize(small, keep_turns=1), "why")
    assert conv[1].meta == {"summary": True}
    assert str(conv[2].content).startswith("question")
    conv.check()


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (scripted(*[OVERFLOW] * 9), "context_exhausted"),
        (scripted(context=16), "context_exhausted"),
        (scripted({"error": {"status": 500, "body": "private"}}), "internal"),
        (scripted({"text": " ", "finish_reason": "stop"}), "empty_model_reply"),
    ],
)
async def test_a_summary_that_cannot_be_had_leaves_the_list_unchanged(model: Model, kind: str) -> None:
    conv = chat(6)
    before = conv.copy()
    with pytest.raises(LoopError) as caught:
        await conv.compact_async(compactors.summarize(model), "why")
    assert caught.value.kind == kind
    assert conv == before


async def test_a_loop_that_summarizes_and_goes_on() -> None:
    conv = chat(6).user("the last question")
    model = scripted(OVERFLOW, {"text": "goes on"})
    events: list[dict[str, Any]] = []
    record = await conv.loop(
        model,
        compactor=compactors.summarize(scripted({"text": "s"})),
        on_event=lambda event: events.append(event.to_dict()),
    )
    assert record.content == "goes on"
    started, accepted = (event for event in events if event["kind"].startswith("compaction"))
    assert (started["kind"], started["reason"], started["records"]) == ("compaction_started", "provider", 26)
    assert (accepted["kind"], accepted["records_before"], accepted["records"]) == ("compaction_accepted", 26, 7)
    assert accepted["estimate_before"] == started["estimate"] > accepted["estimate"]


async def test_a_retry_that_overflows_is_reported_as_restored() -> None:
    conv = chat(6)
    before = conv.copy()
    events: list[dict[str, Any]] = []
    with pytest.raises(LoopError):
        await conv.loop(
            scripted(OVERFLOW, OVERFLOW),
            compactor=compactors.trim(),
            on_event=lambda event: events.append(event.to_dict()),
        )
    assert conv == before
    kinds = [event["kind"] for event in events if event["kind"].startswith("compaction")]
    assert kinds == ["compaction_started", "compaction_accepted", "compaction_restored"]
    assert (events[-1]["records_before"], events[-1]["records"]) == (9, 25)


RECORDS = st.sampled_from(
    [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": "a"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "name": "n", "arguments": {}}]},
        {"role": "tool", "content": "t", "tool_call_id": "c"},
    ]
)
EDITS = st.lists(st.tuples(st.integers(0, 12), st.integers(-1, 12), st.lists(RECORDS, max_size=3)), max_size=4)


@given(turns=st.integers(0, 3), edits=EDITS, raises=st.booleans(), overflows=st.integers(0, 3))
async def test_a_compaction_keeps_accepted_records_or_brings_back_the_old_ones(
    turns: int, edits: list[tuple[int, int, list[dict[str, Any]]]], raises: bool, overflows: int
) -> None:
    conv = chat(turns).user("now")
    before, left = conv.copy(), Conversation()

    def compactor(conversation: Conversation, reason: str) -> None:
        nonlocal left
        for first, last, records in edits:
            conversation.replace(first, last, *records)
        left = conversation.copy()
        if raises:
            raise RuntimeError("mine")

    try:
        conv.compact(compactor, "why")
    except (ConversationError, RuntimeError):
        assert conv == before
    else:
        assert conv == left
        conv.check()
    conv = before.copy()
    try:
        await conv.loop(scripted(*[OVERFLOW] * overflows, {"text": "done"}), compactor=compactor)
    except (ConversationError, RuntimeError, LoopError) as error:
        kept_empty = isinstance(error, LoopError) and str(error) == "messages must not be empty"
        assert conv == (left if kept_empty else before)
    else:
        assert conv[-1].content == "done"
        expected = (left if overflows else before).copy()
        assert conv == expected.assistant("done")
