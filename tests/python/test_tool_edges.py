"""Tools at their edges: unusual callables, defaults and schemas, private values, and calls that are cut short."""

from __future__ import annotations

import asyncio
import functools
import threading
import traceback
from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

import runvil
from runvil.packs import call_tool


class Colour(StrEnum):
    """A colour."""

    RED = "r"


class Node(BaseModel):
    """A node of a tree."""

    label: str = Field(description="What it says.")
    children: list[Node] = []


class Cat(BaseModel):
    """A cat."""

    kind: Literal["cat"]


class Dog(BaseModel):
    """A dog."""

    kind: Literal["dog"]


class Adder:
    """Has a sum."""

    async def __call__(self, left: int, right: int = 2) -> int:
        """Adds."""
        return left + right


async def test_models_are_taken_and_returned() -> None:
    @runvil.tool
    def grow(node: Node) -> Node:
        """Grows."""
        return Node(label=node.label, children=[node])

    assert grow.parameters["$defs"]["Node"]["properties"]["label"]["description"] == "What it says."
    text = await grow.call({"node": {"label": "a"}})
    assert text == '{"label":"a","children":[{"label":"a","children":[]}]}'
    with pytest.raises(runvil.ToolError, match=r"^grow: missing argument 'node.children\[0\].label'$"):
        await grow.call({"node": {"label": "a", "children": [{}]}})


def test_numpy_docstrings_describe_parameters() -> None:
    @runvil.tool
    def add(left: int) -> None:
        """Adds.

        Parameters
        ----------
        left : int
            The first.
        """

    assert add.description == "Adds."
    assert add.parameters["properties"]["left"] == {"type": "integer", "description": "The first."}


async def test_a_default_may_be_a_field() -> None:
    @runvil.tool
    def give(
        count: int = Field(5, ge=1, description="How many."),
        names: list[str] = Field(default_factory=lambda: ["x"]),  # noqa: B008 - what is tested
        maybe: str | None = Field(None),
        marker: Any = Field(Ellipsis, description="Needed."),  # noqa: B008 - what is tested
    ) -> str:
        """Gives.

        Args:
            count: Told by the field instead.
            names: The names.
        """
        return f"{count} {names} {maybe} {marker}"

    assert give.parameters["required"] == ["marker"]
    properties = give.parameters["properties"]
    assert properties["count"] == {"type": "integer", "minimum": 1, "description": "How many.", "default": 5}
    assert properties["names"] == {"type": "array", "items": {"type": "string"}, "description": "The names."}
    assert properties["marker"] == {"description": "Needed."}
    assert await give.call({"marker": 1}) == "5 ['x'] None 1"
    assert await give.call({"marker": 1, "count": 2, "names": [], "maybe": "m"}) == "2 [] m 1"
    with pytest.raises(runvil.ToolError, match="give: count: input should be greater than or equal to 1"):
        await give.call({"marker": 1, "count": 0})


async def test_objects_and_partial_functions_are_tools_when_they_have_a_name() -> None:
    added = runvil.tool(name="add")(Adder())
    assert (added.description, added.parameters["required"]) == ("Adds.", ["left"])
    assert await added.call({"left": 1}) == "3"
    bound = runvil.tool(name="two")(functools.partial(Adder().__call__, right=5))
    assert bound.description == "Adds."
    assert await bound.call({"left": 1}) == "6"
    with pytest.raises(TypeError, match=r"an object of type Adder has no name of its own; pass name=\.\.\."):
        runvil.Pack("web", [Adder()])


def test_a_type_that_is_not_known_is_named() -> None:
    names: dict[str, Any] = {}
    exec("def look(a: 'Nowhere'): ...", names)
    with pytest.raises(TypeError, match=r"tool 'look' has a type that does not exist at run time \(name 'Nowhere'"):
        runvil.tool(names["look"])


async def test_errors_begin_with_the_name_the_model_knows() -> None:
    @runvil.tool(name="known")
    def hidden(a: int) -> int:
        """Gives it back."""
        return a

    with pytest.raises(runvil.ToolError, match=r"^known: missing argument 'a'$"):
        await hidden.call({})


@pytest.mark.parametrize("value", ["hunter2", {"kind": "hunter2"}, ["hunter2"], {"kind": "cat", "hunter": "hunter2"}])
async def test_errors_never_repeat_a_value(value: Any) -> None:
    @runvil.tool
    def take(pet: Annotated[Cat | Dog, Field(discriminator="kind")], choice: Literal["a", "b"], number: int) -> None:
        """Takes."""

    with pytest.raises(runvil.ToolError) as caught:
        await take.call({"pet": value, "choice": value, "number": value})
    with pytest.raises(runvil.ToolError) as number_error:
        await take.call({"pet": {"kind": "cat"}, "choice": "a", "number": value})
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in "".join(traceback.format_exception(number_error.value))
    assert "choice: input should be 'a' or 'b'" in str(caught.value)


async def test_a_wrong_tag_is_answered_with_the_right_ones() -> None:
    @runvil.tool
    def take(pet: Annotated[Cat | Dog, Field(discriminator="kind")]) -> None:
        """Takes."""

    with pytest.raises(runvil.ToolError, match=r"^take: pet: expected 'cat', 'dog'$"):
        await take.call({"pet": {"kind": "cow"}})


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], b"\xff", {"a": object()}])
@pytest.mark.parametrize("structured", [False, True])
async def test_results_without_a_json_form(value: Any, structured: bool) -> None:
    @runvil.tool(structured=structured)
    def give() -> Any:
        return value

    with pytest.raises(runvil.ToolError, match=rf"^the result has no JSON form: {type(value).__name__}$"):
        await give.call({})


async def test_a_result_that_holds_itself_has_no_json_form() -> None:
    @runvil.tool
    def give() -> Any:
        value: list[Any] = []
        value.append(value)
        return value

    with pytest.raises(runvil.ToolError, match=r"^the result has no JSON form: list$"):
        await give.call({})


async def test_an_enum_of_texts_is_its_value() -> None:
    @runvil.tool
    def give() -> Colour:
        return Colour.RED

    text = await give.call({})
    assert (text, type(text)) == ("r", str)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("text", "a tool is a function, a runvil.Tool or a schema (a dict), got str"),
        (None, "a tool is a function, a runvil.Tool or a schema (a dict), got NoneType"),
        ({"type": "function"}, 'a tool schema needs a "name"'),
        ({"type": "function", "function": None}, 'the "function" of a tool schema must be a dict, got NoneType'),
        ({"name": "a", "parameters": [1]}, "the \"parameters\" of tool 'a' must be a dict, got list"),
        ({"name": "a", "description": 5}, "the \"description\" of tool 'a' must be a text, got int"),
        ({"name": "a", "trusted": "no"}, "the \"trusted\" of tool 'a' must be True or False, got str"),
        ({"name": "a", "structured": 1}, "the \"structured\" of tool 'a' must be True or False, got int"),
    ],
)
def test_an_odd_schema_is_refused(schema: Any, words: str) -> None:
    with pytest.raises(TypeError) as caught:
        runvil.Pack("web", [schema], dispatch=lambda name, arguments: "")
    assert words in str(caught.value)


def test_flags_of_a_schema_stand_beside_its_function_or_in_it() -> None:
    within = {"type": "function", "function": {"name": "a", "trusted": True, "structured": True}}
    beside = {"type": "function", "function": {"name": "b", "trusted": True}, "trusted": False}
    pack = runvil.Pack("web", [within, beside], dispatch=lambda name, arguments: "")
    flags = {made.name: (made.trusted, made.structured) for made in pack.tools.values()}
    assert flags == {"a": (True, True), "b": (False, False)}


async def test_dispatch_runs_where_its_kind_belongs() -> None:
    threads: list[threading.Thread] = []

    async def later(name: str, arguments: dict[str, Any]) -> None:
        threads.append(threading.current_thread())

    def plain(name: str, arguments: dict[str, Any]) -> None:
        threads.append(threading.current_thread())

    for dispatch in (later, plain):
        await runvil.Pack("web", [{"name": "a"}], dispatch=dispatch).tools["a"].call({})
    here = threading.current_thread()
    assert [thread is here for thread in threads] == [True, False]


@pytest.mark.parametrize("ending", ["returns", "raises", "tells"])
async def test_a_call_that_resists_its_timeout_has_timed_out_all_the_same(ending: str) -> None:
    @runvil.tool(timeout=0.02)
    async def resist() -> str:
        """Resists."""
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            if ending == "raises":
                raise KeyError("secret") from None
            if ending == "tells":
                raise runvil.ToolError("mine") from None
        return "late"

    with pytest.raises(runvil.ToolError, match=r"^web/resist timed out after 0\.02 s$"):
        await call_tool("web/resist", resist, {})


async def test_a_plain_call_that_timed_out_is_left_to_itself() -> None:
    release = threading.Event()
    finished = threading.Event()

    @runvil.tool(timeout=0.02)
    def block() -> str:
        """Blocks."""
        release.wait(30)
        finished.set()
        return ""

    with pytest.raises(runvil.ToolError, match=r"^web/block timed out after 0\.02 s$"):
        await call_tool("web/block", block, {})
    assert not finished.is_set()
    release.set()
    assert await asyncio.to_thread(finished.wait, 30)


async def test_a_timeout_of_a_tool_that_the_tool_calls_keeps_its_name() -> None:
    @runvil.tool(timeout=0.02)
    async def inner() -> str:
        """Waits."""
        await asyncio.sleep(30)
        return ""

    @runvil.tool(timeout=30)
    async def outer() -> str:
        """Calls another."""
        return await inner.call({})

    with pytest.raises(runvil.ToolError, match=r"^inner timed out after 0\.02 s$"):
        await call_tool("web/outer", outer, {})


@pytest.mark.parametrize("seconds", [None, 30])
async def test_a_cancelled_call_ends_its_function_and_is_no_timeout(seconds: float | None) -> None:
    started = asyncio.Event()
    ended: list[str] = []

    @runvil.tool(timeout=seconds)
    async def wait() -> str:
        """Waits."""
        started.set()
        try:
            await asyncio.sleep(30)
        finally:
            await asyncio.sleep(0)
            ended.append("wait")
        return ""

    task = asyncio.ensure_future(call_tool("web/wait", wait, {}))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["wait"]


@pytest.mark.parametrize(
    ("timeout", "error", "words"),
    [
        (-1, ValueError, "timeout must be a positive number of seconds, got -1"),
        (float("nan"), ValueError, "timeout must be a positive number of seconds, got nan"),
        (float("inf"), ValueError, "timeout must be a positive number of seconds, got inf"),
        ("5", TypeError, "timeout must be a number of seconds, got str"),
        (True, TypeError, "timeout must be a number of seconds, got bool"),
    ],
)
def test_a_timeout_is_a_positive_number(timeout: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        runvil.Tool("a", print, parameters={}, timeout=timeout)


@pytest.mark.parametrize(("seconds", "words"), [(1234567, "1234567 s"), (2.0, "2 s"), (2.5, "2.5 s")])
async def test_the_seconds_of_a_timeout_are_written_in_full(
    seconds: float, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @runvil.tool(timeout=seconds)
    async def wait() -> str:
        """Waits."""
        await asyncio.sleep(30)
        return ""

    real = asyncio.timeout
    monkeypatch.setattr("runvil.packs.asyncio.timeout", lambda _: real(0.01))
    with pytest.raises(runvil.ToolError, match=rf"^wait timed out after {words}$"):
        await wait.call({})
