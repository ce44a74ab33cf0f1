"""A LiteLLM proxy, with replies of its own and with a scripted server behind it."""

from __future__ import annotations

from typing import Any

import pytest

import runvil

KEY = "sk-the-test-key"
TEXT = "Grüße aus dem Proxy, in mehreren Stücken."


def model(litellm: str, name: str, **options: Any) -> runvil.Model:
    broker = runvil.HttpBroker(litellm, api_key=KEY, **({"retries": 0} | options))
    return runvil.Model(name, context=4096, broker=broker)


async def replied(model: runvil.Model, **options: Any) -> tuple[str, list[str]]:
    pieces: list[str] = []
    record = (
        await runvil.Conversation()
        .user("hi")
        .loop(model, on_fragment=lambda fragment: pieces.append(fragment.text), **options)
    )
    assert isinstance(record.content, str)
    return record.content, pieces


@pytest.mark.parametrize("stream", [True, False])
async def test_a_reply(litellm: str, stream: bool) -> None:
    text, pieces = await replied(model(litellm, "text", stream=stream))
    assert text == TEXT
    assert "".join(pieces) == TEXT
    assert (len(pieces) > 5) is stream


async def test_usage_is_reported(litellm: str) -> None:
    record = await runvil.Conversation().user("hi").loop(model(litellm, "text"))
    assert record.meta is None
    events: list[dict[str, Any]] = []
    await (
        runvil.Conversation()
        .user("hi")
        .loop(model(litellm, "text"), on_event=lambda event: events.append(event.to_dict()))
    )
    (reply,) = (event for event in events if event["kind"] == "assistant_reply")
    assert reply["finish_reason"] == "stop"
    usage = reply["metrics"]["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


async def test_tool_calls_that_are_streamed_interleaved(litellm: str) -> None:
    @runvil.tool(trusted=True)
    def add(a: int, b: int) -> str:
        """Adds."""
        return str(a + b)

    text, _ = await replied(model(litellm, "upstream/tools"), tools=[add])
    assert text == "results: 42, 2"


async def test_reasoning_is_kept_apart(litellm: str) -> None:
    events: list[dict[str, Any]] = []
    text, _ = await replied(model(litellm, "upstream/reasoning"), on_event=lambda event: events.append(event.to_dict()))
    assert text == "done"
    assert [event["text"] for event in events if event["kind"] == "thinking"] == ["let me think"]


@pytest.mark.parametrize(
    ("name", "kind", "status"),
    [("limited", "RateLimited", 429), ("broken", "ServerError", 500), ("nothing", "Rejected", 400)],
)
async def test_failures_are_classified(litellm: str, name: str, kind: str, status: int) -> None:
    with pytest.raises(runvil.LoopError) as caught:
        await replied(model(litellm, name))
    cause = caught.value.__cause__
    assert isinstance(cause, runvil.ModelError)
    assert (cause.kind, cause.status) == (kind, status)
    assert "litellm" not in str(caught.value).lower()


async def test_a_limited_rate_is_tried_again(litellm: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="runvil"), pytest.raises(runvil.LoopError):
        await replied(model(litellm, "limited", retries=1))
    assert caplog.text.count("model request failed (RateLimited, status 429); retry 1 in") == 1


async def test_an_overflow_exhausts_the_context(litellm: str) -> None:
    with pytest.raises(runvil.LoopError) as caught:
        await replied(model(litellm, "overflow"))
    assert caught.value.kind == "context_exhausted"


async def test_a_key_that_the_proxy_does_not_know_is_refused(litellm: str) -> None:
    wrong = runvil.Model("text", broker=runvil.HttpBroker(litellm, api_key="sk-wrong"))
    with pytest.raises(runvil.LoopError) as caught:
        await replied(wrong)
    # Without a database the proxy answers 400, not 401.
    assert str(caught.value) == "the model backend rejected the request (status 400)"
    assert "sk-wrong" not in f"{caught.value!r} {caught.value.__cause__!r}"


async def test_an_error_inside_a_started_stream_is_a_failure(litellm: str) -> None:
    pieces: list[str] = []
    conversation = runvil.Conversation().user("hi")
    with pytest.raises(runvil.LoopError) as caught:
        await conversation.loop(
            model(litellm, "upstream/break-off"), on_fragment=lambda fragment: pieces.append(fragment.text)
        )
    assert pieces == ["half of "]
    assert len(conversation) == 1
    cause = caught.value.__cause__
    assert isinstance(cause, runvil.ModelError)
    assert (cause.kind, cause.status) == ("ServerError", None)
    assert cause.detail is not None
    assert cause.detail.endswith("the text that had arrived: half of ")
    assert "half" not in str(caught.value)
