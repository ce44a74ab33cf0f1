"""What becomes of results that are no text a model can be sent, and of tools that leave the program."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import pytest

import runvil
from conftest import document
from runvil.packs import call_tool

HALF = "a\ud800b"


@dataclass
class Measured:
    """A number."""

    value: float


def nested(depth: int) -> list[Any]:
    inner: list[Any] = []
    for _ in range(depth):
        inner = [inner]
    return inner


def circle() -> list[Any]:
    own: list[Any] = []
    own.append(own)
    return own


@pytest.mark.parametrize("structured", [True, False])
@pytest.mark.parametrize(
    ("result", "words"),
    [
        (object(), "the result has no JSON form: object"),
        (float("nan"), "the result has no JSON form: float"),
        ([float("inf")], "the result has no JSON form: list"),
        (Measured(float("nan")), "the result has no JSON form: Measured"),
        ({"a": [Measured(float("-inf"))]}, "the result has no JSON form: dict"),
        (circle(), "the result has no JSON form: list"),
        (nested(100_000), "the result has no JSON form: list"),
        (b"\xff", "the result has no JSON form: bytes"),
        (HALF, "the result has half of a surrogate pair, which no text can hold"),
        ({"a": HALF}, "the result has half of a surrogate pair, which no text can hold"),
    ],
)
async def test_a_result_that_cannot_be_sent_is_a_failure_of_the_tool(result: Any, structured: bool, words: str) -> None:
    @runvil.tool(structured=structured)
    async def give() -> Any:
        return result

    with pytest.raises(runvil.ToolError) as caught:
        await call_tool("p/give", give, {})
    assert str(caught.value) == words


async def test_a_failure_is_told_whatever_its_text_holds() -> None:
    @runvil.tool
    async def fail() -> None:
        raise runvil.ToolError(HALF)

    with pytest.raises(runvil.ToolError) as caught:
        await call_tool("p/fail", fail, {})
    assert str(caught.value) == "a\\ud800b"


@pytest.mark.parametrize("waits", [True, False])
def test_a_tool_that_leaves_the_program_ends_its_call(waits: bool) -> None:
    def leave() -> None:
        """Leaves."""
        sys.exit(3)

    async def leave_async() -> None:
        """Leaves."""
        leave()

    lua = """
models.use('writer')
packs.offer('web')
messages:user('go')
models.loop()
return messages[3].content
"""
    prompt = runvil.Prompt.parse(document(lua).replace("models:", "uses: [web]\nmodels:"))
    call = {"id": "c", "name": "web_leave", "arguments": {}}
    model = runvil.Model("m", broker=runvil.ScriptedBroker([{"tool_calls": [call]}, {"text": "done"}]))
    tool = runvil.tool(name="leave")(leave_async if waits else leave)
    result = runvil.run(prompt, models=model, packs=[runvil.Pack("web", [tool])])
    assert "web/leave failed: SystemExit" in result.text
