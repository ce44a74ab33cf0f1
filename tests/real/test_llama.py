"""llama.cpp's server with a real model: real token counts, a real overflow, a real stop."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

import runvil
from runvil import _native, compactors
from runvil.threads import call_user_code

if TYPE_CHECKING:
    from pathlib import Path

WINDOW = 512
"""The context window that the server is started with, in tokens."""


def model(llama: str, *, context: int = WINDOW, max_tokens: int = 12) -> runvil.Model:
    broker = runvil.HttpBroker(f"{llama}/v1", extra_body={"seed": 7, "temperature": 0})
    return runvil.Model("gemma", context=context, max_tokens=max_tokens, broker=broker)


def slot(llama: str) -> dict[str, Any]:
    """What the server works on."""
    with urllib.request.urlopen(f"{llama}/slots", timeout=10) as answer:
        slots: list[dict[str, Any]] = json.load(answer)
    return slots[0]


async def test_a_round_is_streamed(llama: str) -> None:
    pieces: list[str] = []
    events: list[dict[str, Any]] = []
    record = (
        await runvil.Conversation()
        .user("Count to ten.")
        .loop(
            model(llama),
            on_fragment=lambda fragment: pieces.append(fragment.text),
            on_event=lambda event: events.append(event.to_dict()),
        )
    )
    assert "".join(pieces) == record.content
    assert len(pieces) > 3
    (reply,) = (event for event in events if event["kind"] == "assistant_reply")
    assert reply["metrics"]["usage"]["completion_tokens"] <= 12
    assert reply["metrics"]["llama"]["predicted_n"] <= 12
    assert not [event for event in events if event["kind"] == "model_metadata_degraded"]


PROMPT = """---
name: talk
description: Two rounds of a conversation.
runvil: 0
models:
  writer: {}
---

# Talk

## Only

```lua
models.use('writer')
messages:user('Name a colour.')
models.loop()
messages:user('Name another one, please.')
models.loop()
return 'done'
```
"""


async def test_real_usage_anchors_the_next_precheck(llama: str, tmp_path: Path) -> None:
    requests, log = tmp_path / "requests.jsonl", tmp_path / "run.jsonl"
    result = await runvil.run_async(runvil.Prompt.parse(PROMPT), models=model(llama), requests=requests, log=log)
    assert result.text == "done"
    first, second = (json.loads(line) for line in requests.read_text(encoding="utf-8").splitlines())
    replies = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    usage = next(line["metrics"]["usage"] for line in replies if line["kind"] == "assistant_reply")
    assert first["count"] == first["estimate"]
    measured = usage["prompt_tokens"] + usage["completion_tokens"]
    question = runvil.Conversation().user("Name another one, please.").compose().estimate
    assert second["count"] == measured + question
    assert second["count"] != second["estimate"]


async def test_a_real_overflow_is_answered_by_a_compactor(llama: str) -> None:
    conversation = runvil.Conversation()
    for number in range(6):
        conversation.user(f"Question {number}: {'word ' * 120}").assistant(f"Answer {number}.")
    conversation.user("And now?")
    # The model is said to have a larger window than the server gives it, so that the server is the one to refuse.
    large = model(llama, context=8192)
    reasons: list[str] = []
    trim = compactors.trim(keep_turns=2)

    def compact(conversation: runvil.Conversation, reason: str) -> None:
        reasons.append(reason)
        trim(conversation, reason)

    with pytest.raises(runvil.LoopError) as caught:
        await conversation.copy().loop(large)
    assert (caught.value.kind, caught.value.reason) == ("context_exhausted", "provider")

    record = await conversation.loop(large, compactor=compact)
    assert reasons == ["provider"]
    assert record.content
    assert conversation.roles() == ["user", "assistant", "user", "assistant"]


async def test_what_the_server_says_about_an_overflow(llama: str) -> None:
    large = model(llama, context=8192)
    native = _native.single_round("word " * 1000, large.to_dict())
    assert native is not None
    with pytest.raises(runvil.ModelError) as caught:
        await call_user_code(large.broker.complete, runvil.Request(native))
    assert (caught.value.kind, caught.value.status) == ("ContextOverflow", 400)
    assert "exceeds the available context size" in (caught.value.detail or "")
    assert str(caught.value) == "the request is larger than the model's context window (status 400)"


async def test_a_cancelled_stream_stops_the_server(llama: str) -> None:
    arrived = asyncio.Event()
    conversation = runvil.Conversation().user("Tell me everything you know.")
    endless = model(llama, max_tokens=400)
    task = asyncio.create_task(conversation.loop(endless, on_fragment=lambda _: arrived.set()))
    await arrived.wait()
    assert slot(llama)["is_processing"]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    began = time.monotonic()
    while (state := slot(llama))["is_processing"]:
        assert time.monotonic() - began < 30
        await asyncio.sleep(0.05)
    assert state["next_token"][0]["n_decoded"] < 400
    # The server is free for the next one.
    assert (await runvil.Conversation().user("Hi.").loop(model(llama))).content
