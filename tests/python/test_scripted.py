"""The scripted broker: which line a request gets, and what it does with it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

import runvil
from runvil.packs import call_tool


@dataclass
class Asked:
    """A request as far as the broker looks at it."""

    role: str | None = "writer"
    texts: list[Any] = field(default_factory=lambda: ["hello"])
    round: int = 0

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [{"role": "user", "content": text} for text in self.texts]


async def ask(broker: runvil.ScriptedBroker, **request: Any) -> runvil.Reply:
    return await broker.complete(cast("runvil.Request", Asked(**request)))


async def texts(broker: runvil.ScriptedBroker, *requests: dict[str, Any]) -> list[str | None]:
    return [(await ask(broker, **request)).text for request in requests]


async def test_lines_are_used_in_order() -> None:
    broker = runvil.ScriptedBroker([{"text": "a"}, {"text": "b"}])
    assert await texts(broker, {}, {}) == ["a", "b"]


async def test_the_first_unused_line_that_fits_is_taken() -> None:
    broker = runvil.ScriptedBroker(
        [
            {"text": "critic", "when": {"role": "critic"}},
            {"text": "about cats", "when": {"contains": "cat"}},
            {"text": "critic on cats", "when": {"role": "critic", "contains": "cat"}},
            {"text": "any"},
        ]
    )
    parts = [{"type": "text", "text": "my cat"}, {"type": "image_url", "image_url": {"url": "data:,"}}]
    assert await texts(
        broker,
        {"role": "writer", "texts": ["system", parts]},
        {"role": "writer", "texts": ["dogs"]},
        {"role": "critic", "texts": ["cats"]},
        {"role": "critic", "texts": ["cats"]},
    ) == ["about cats", "any", "critic", "critic on cats"]


async def test_running_out_is_a_model_failure_that_says_so() -> None:
    broker = runvil.ScriptedBroker([{"text": "a", "when": {"role": "critic"}}])
    with pytest.raises(runvil.ModelError) as caught:
        await ask(broker, round=3)
    assert caught.value.kind == "Unavailable"
    expected = "the scripted replies have no answer for request 3 of role writer: 1 unused line fit other requests"
    assert caught.value.note == expected
    with pytest.raises(runvil.ModelError, match="no answer for request 0: every line is used"):
        await ask(runvil.ScriptedBroker(), role=None)


async def test_fragments_come_in_order_each_after_the_delay() -> None:
    broker = runvil.ScriptedBroker([{"fragments": ["par", "tial"], "delay_ms": 20}, {"text": "whole"}])
    request = cast("runvil.Request", Asked())
    pieces: list[str] = []
    began = time.monotonic()
    assert (await broker.complete(request, pieces.append)).text == "partial"
    assert time.monotonic() - began >= 0.04
    assert pieces == ["par", "tial"]
    await broker.complete(request, pieces.append)
    assert pieces == ["par", "tial", "whole"]


async def test_an_error_inside_a_started_stream_comes_after_its_fragments() -> None:
    broker = runvil.ScriptedBroker([{"error": {"body": "context length exceeded"}, "fragments": ["a", "b"]}])
    pieces: list[str] = []
    with pytest.raises(runvil.ModelError) as caught:
        await broker.complete(cast("runvil.Request", Asked()), pieces.append)
    assert (pieces, caught.value.kind, caught.value.status) == (["a", "b"], "ContextOverflow", None)


async def test_scripted_tools_answer_in_order_and_the_last_line_repeats() -> None:
    broker = runvil.ScriptedBroker(
        [
            {"tool": "web/search", "result": "one"},
            {"pack": "web", "tools": [{"name": "search"}, {"name": "fetch", "trusted": True, "structured": True}]},
            {"tool": "web/search", "error": "boom"},
            {"tool": "web/search", "result": "last"},
            {"tool": "web/fetch", "result": {"a": 1}},
        ]
    )
    (pack,) = broker.packs
    search, fetch = pack.tools["search"], pack.tools["fetch"]
    assert (search.trusted, fetch.trusted, fetch.structured) == (False, True, True)
    assert await call_tool("web/search", search, {"any": "thing"}) == "one"
    with pytest.raises(runvil.ToolError, match=r"^boom$"):
        await call_tool("web/search", search, {})
    assert [await call_tool("web/search", search, {}) for _ in range(3)] == ["last"] * 3
    assert await call_tool("web/fetch", fetch, {}) == '{"a":1}'


async def test_a_scripted_tool_without_a_line_fails() -> None:
    (pack,) = runvil.ScriptedBroker([{"pack": "web", "tools": [{"name": "search"}]}]).packs
    with pytest.raises(runvil.ToolError, match="web/search has no scripted result"):
        await call_tool("web/search", pack.tools["search"], {})


def test_user_lines_are_used_in_order_and_then_there_is_no_input() -> None:
    broker = runvil.ScriptedBroker([{"user": "first"}, {"user": ""}])
    assert [broker.user_input() for _ in range(4)] == ["first", "", None, None]
