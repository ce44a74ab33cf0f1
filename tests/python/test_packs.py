"""Tools made from functions: their schemas, their arguments, their results; and packs of them."""

from __future__ import annotations

import asyncio
import functools
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from datetime import date  # noqa: TC003 - pydantic reads it
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

import runvil
from runvil.packs import call_tool

if TYPE_CHECKING:
    from pathlib import Path


class Shade(Enum):
    """A shade."""

    DARK = "dark"
    LIGHT = "light"


@dataclass
class Point:
    """A place."""

    x: int
    y: int


@runvil.tool
def search(query: str, limit: int = 5, tags: list[str] | None = None) -> str:
    """Searches the web.

    Finds pages by their words.

    Args:
        query: What to look for,
            in any language.
        limit (int): How many pages.
        tags: Only pages with these.

    Returns:
        The titles.
    """
    return f"{query} {limit} {tags}"


def test_the_schema_comes_from_the_signature_and_the_docstring() -> None:
    assert search.name == "search"
    assert search.description == "Searches the web.\n\nFinds pages by their words."
    assert search.parameters == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for, in any language."},
            "limit": {"type": "integer", "description": "How many pages.", "default": 5},
            "tags": {
                "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}],
                "description": "Only pages with these.",
            },
        },
        "required": ["query"],
        "additionalProperties": False,
    }
    assert search("a") == "a 5 None"


def test_every_type_that_json_can_express() -> None:
    @runvil.tool
    def every(
        text: str,
        number: float,
        flag: bool,
        anything: Any,
        items: list[int],
        table: dict[str, int],
        choice: Literal["a", "b"],
        mixed: Literal["a", 1],
        either: int | str,
        maybe: str | None,
        told: Annotated[str, "What it is for."],
        bounded: Annotated[int, Field(ge=1, description="At least one.")],
        shade: Shade,
        point: Point,
        when: date,
        json: str,
    ) -> None:
        """Takes everything."""

    assert every.parameters["properties"] == {
        "text": {"type": "string"},
        "number": {"type": "number"},
        "flag": {"type": "boolean"},
        "anything": {},
        "items": {"type": "array", "items": {"type": "integer"}},
        "table": {"type": "object", "additionalProperties": {"type": "integer"}},
        "choice": {"enum": ["a", "b"], "type": "string"},
        "mixed": {"enum": ["a", 1]},
        "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "told": {"type": "string", "description": "What it is for."},
        "bounded": {"type": "integer", "minimum": 1, "description": "At least one."},
        "shade": {"$ref": "#/$defs/Shade"},
        "point": {"$ref": "#/$defs/Point"},
        "when": {"type": "string", "format": "date"},
        "json": {"type": "string"},
    }
    assert every.parameters["$defs"]["Shade"]["enum"] == ["dark", "light"]
    point = every.parameters["$defs"]["Point"]
    assert (point["properties"], point["required"]) == (
        {"x": {"type": "integer"}, "y": {"type": "integer"}},
        ["x", "y"],
    )


async def test_arguments_arrive_as_the_types_the_function_names() -> None:
    @runvil.tool
    def place(point: Point, shade: Shade, when: date, note: str = "none") -> Point:
        """Places."""
        assert isinstance(point, Point)
        assert isinstance(shade, Shade)
        assert when.year == 2026
        return Point(point.x + 1, len(note))

    given = {"point": {"x": 1, "y": 2}, "shade": "dark", "when": "2026-12-01"}
    assert await place.call(given) == '{"x":2,"y":4}'
    with pytest.raises(runvil.ToolError) as caught:
        await place.call({"point": {"x": "far"}, "shade": "red", "when": 5, "more": 1, "less": 2})
    assert str(caught.value) == (
        "place: point.x: input should be a valid integer, unable to parse string as an integer; missing argument "
        "'point.y'; shade: input should be 'dark' or 'light'; and 3 more"
    )


async def test_defaults_that_no_schema_can_show_are_the_functions_own() -> None:
    marker = object()

    @runvil.tool
    def give(a: Any = marker, b: list[int] = [1]) -> str:  # noqa: B006 - what is tested
        """Gives."""
        return f"{a is marker} {b}"

    assert give.parameters["properties"] == {
        "a": {},
        "b": {"type": "array", "items": {"type": "integer"}, "default": [1]},
    }
    assert await give.call({}) == "True [1]"


async def test_defaults_that_pydantic_describes() -> None:
    @runvil.tool
    def give(
        a: int = Field(default=3, ge=1, description="How many."),
        b: list[int] = Field(default_factory=lambda: [1]),  # noqa: B008 - what is tested
    ) -> str:
        """Gives."""
        return f"{a} {b}"

    assert give.parameters["properties"] == {
        "a": {"type": "integer", "default": 3, "minimum": 1, "description": "How many."},
        "b": {"type": "array", "items": {"type": "integer"}},
    }
    assert "required" not in give.parameters
    assert await give.call({}) == "3 [1]"
    assert await give.call({"a": 4}) == "4 [1]"
    with pytest.raises(runvil.ToolError, match=r"^give: a: input should be greater than or equal to 1$"):
        await give.call({"a": 0})


def test_a_type_of_the_result_need_not_exist_at_run_time() -> None:
    def give(a: int) -> Path:
        """Gives."""
        raise NotImplementedError

    assert runvil.tool(give).parameters["properties"] == {"a": {"type": "integer"}}


async def test_callables_that_are_no_functions() -> None:
    class Greeter:
        """Greets."""

        async def __call__(self, name: str) -> str:
            return f"hello {name}"

        def shout(self, name: str) -> str:
            """Greets loudly."""
            return f"HELLO {name}"

    def add(left: int, right: int) -> int:
        """Adds."""
        return left + right

    assert await runvil.tool(name="greet")(Greeter()).call({"name": "a"}) == "hello a"
    assert await runvil.tool(Greeter().shout).call({"name": "a"}) == "HELLO a"
    assert await runvil.tool(name="increase")(functools.partial(add, 1)).call({"right": 2}) == "3"
    with pytest.raises(
        TypeError, match=r"^an object of type Greeter has no name of its own; pass name=\.\.\. to runvil\.tool$"
    ):
        runvil.tool(Greeter())
    with pytest.raises(TypeError, match=r"^a tool is made of a function, got int$"):
        runvil.tool(3)  # type: ignore[call-overload]


def test_field_lists_describe_parameters_too() -> None:
    @runvil.tool
    def add(left: int, right: int) -> int:
        """Adds.

        :param left: The first,
            a number.
        :param int right: The second.
        :return: The sum.
        """
        return left + right

    assert add.description == "Adds."
    texts = [add.parameters["properties"][name]["description"] for name in ("left", "right")]
    assert texts == ["The first, a number.", "The second."]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def f(a): ...", "parameter 'a' of tool 'f' needs a type"),
        ("class C: ...\ndef f(a: C): ...", "tool 'f' has a type that JSON cannot express"),
        ("import typing\ndef f(a: typing.Callable): ...", "tool 'f' has a type that JSON cannot express"),
        (
            "def f(a: 'Path'): ...",
            r"tool 'f' has a type that does not exist at run time \(name 'Path' is not defined\); import or define it",
        ),
        (
            "import dataclasses\n@dataclasses.dataclass\nclass C: b: 'Path'\ndef f(a: C): ...",
            "tool 'f' has a type that",
        ),
        ("import typing\nclass D(typing.TypedDict): a: 'Path'\ndef f(a: D): ...", "tool 'f' has a type that"),
        ("def f(*a: str): ...", "must be an ordinary or keyword-only parameter"),
        ("def f(**a: str): ...", "must be an ordinary or keyword-only parameter"),
    ],
)
def test_a_signature_without_a_schema_is_refused(source: str, words: str) -> None:
    names: dict[str, Any] = {}
    exec(source, names)
    with pytest.raises(TypeError, match=words.replace("*", r"\*")):
        runvil.tool(names["f"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "search: missing argument 'query'"),
        ({"query": "a", "colour": 1}, "search: unknown argument 'colour'; arguments: query, limit, tags"),
        ({"query": 3}, "search: query: input should be a valid string"),
        ({"query": "a", "limit": "many"}, "search: limit: input should be a valid integer"),
        ({"query": "a", "limit": 1.5}, "search: limit: input should be a valid integer"),
        ({"query": "a", "tags": [1]}, "search: tags[0]: input should be a valid string"),
        ({"query": "a", "tags": "x"}, "search: tags: input should be a valid list"),
    ],
)
async def test_arguments_that_do_not_fit_are_told_to_the_model(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(runvil.ToolError) as caught:
        await search.call(arguments)
    assert words in str(caught.value)


async def test_the_model_reads_the_name_it_knows_and_no_more_than_it_needs() -> None:
    choices = Enum("choices", {f"choice_{at}": f"choice-{at}" for at in range(500)})  # type: ignore[misc]

    def _implementation(which: Any) -> str:
        raise NotImplementedError

    _implementation.__annotations__["which"] = choices
    pick = runvil.tool(name="pick")(_implementation)
    with pytest.raises(runvil.ToolError, match=r"^pick: which: input should be 'choice-0', .*…$") as caught:
        await pick.call({"which": "other"})
    assert len(str(caught.value)) < 320
    with pytest.raises(runvil.ToolError, match=r"^pick: missing argument 'which'; unknown argument 'k+…$") as caught:
        await pick.call({"k" * 5000: 1})
    assert len(str(caught.value)) < 350


async def test_a_whole_number_written_as_a_float_is_an_integer() -> None:
    assert await search.call({"query": "a", "limit": 3.0, "tags": ["x"]}) == "a 3 ['x']"


@given(
    st.dictionaries(
        st.sampled_from(["query", "limit", "tags", "other"]),
        st.none() | st.integers() | st.text() | st.lists(st.text()),
    )
)
async def test_arguments_are_refused_or_taken_but_never_break_the_check(arguments: dict[str, Any]) -> None:
    try:
        assert (await search.call(arguments)).startswith(arguments["query"])
    except runvil.ToolError as error:
        assert str(error).startswith("search: ")


@pytest.mark.parametrize(
    ("result", "structured", "text"),
    [
        ("plain", False, "plain"),
        (None, False, ""),
        ({"a": [1, "ü"]}, False, '{"a":[1,"ü"]}'),
        (True, False, "true"),
        ("text", True, '"text"'),
        (None, True, "null"),
        ({"a": 1}, True, '{"a":1}'),
    ],
)
async def test_results_become_text(result: Any, structured: bool, text: str) -> None:
    @runvil.tool(structured=structured)
    def give() -> Any:
        return result

    @runvil.tool(structured=structured)
    async def give_later() -> Any:
        return result

    assert await give.call({}) == text
    assert await give_later.call({}) == text


async def test_only_a_tool_error_passes_its_text_on() -> None:
    @runvil.tool
    def fail(how: str) -> str:
        if how == "told":
            raise runvil.ToolError("try again")
        raise KeyError("secret")

    with pytest.raises(runvil.ToolError, match=r"^try again$"):
        await call_tool("p/fail", fail, {"how": "told"})
    with pytest.raises(runvil.ToolError, match=r"^p/fail failed: KeyError$") as caught:
        await call_tool("p/fail", fail, {"how": "bug"})
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_tool_may_bring_its_own_schema() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#/x"}, "b": True}}
    made = runvil.Tool("mine", lambda **_: "x", description="Mine.", parameters=schema, trusted=True)
    assert made.to_dict() == {
        "name": "mine",
        "description": "Mine.",
        "parameters": schema,
        "trusted": True,
        "structured": False,
    }


async def test_schema_words_the_check_does_not_know_are_left_to_the_tool() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#/x"}, "b": True}}
    made = runvil.Tool("mine", lambda **given: given, parameters=schema)
    assert await made.call({"a": 1, "b": [2], "c": None}) == '{"a":1,"b":[2],"c":null}'


def test_a_pack_checks_its_names() -> None:
    def plain(text: str) -> str:
        return text

    pack = runvil.Pack("web", [search, plain])
    assert list(pack.tools) == ["search", "plain"]
    assert [entry["name"] for entry in pack.to_dict()["tools"]] == ["search", "plain"]
    assert repr(pack) == "Pack('web', [search, plain])"
    with pytest.raises(ValueError, match="invalid pack name 'Web'"):
        runvil.Pack("Web", [])
    with pytest.raises(ValueError, match="pack 'web' has two tools named 'search'"):
        runvil.Pack("web", [search, search])
    with pytest.raises(ValueError, match=r"invalid tool name 'Go'.*pass name=\.\.\. to runvil\.tool"):
        runvil.Pack("web", [runvil.tool(name="Go")(plain)])
    with pytest.raises(ValueError, match="invalid tool name 'a b'"):
        runvil.tool(name="a b")(plain)


async def test_schemas_that_one_function_runs() -> None:
    seen: list[Any] = []

    async def dispatch(name: str, arguments: dict[str, Any]) -> Any:
        seen.append((name, arguments))
        return {"ok": name}

    plain = {"name": "one", "description": "One.", "parameters": {"type": "object"}, "trusted": True}
    wrapped = {"type": "function", "function": {"name": "two"}, "structured": True}
    pack = runvil.Pack("web", [plain, wrapped], dispatch=dispatch, conflicts=["other"])
    assert pack.to_dict()["conflicts"] == ["other"]
    assert pack.render("one") == {"description": "One.", "parameters": {"type": "object"}}
    assert pack.render("two") == {"description": "", "parameters": {"type": "object", "properties": {}}}
    assert (pack.tools["one"].trusted, pack.tools["two"].structured) == (True, True)
    assert await pack.tools["one"].call({"a": 1}) == '{"ok":"one"}'
    assert await pack.tools["two"].call({}) == '{"ok":"two"}'
    assert seen == [("one", {"a": 1}), ("two", {})]
    with pytest.raises(TypeError, match="pass dispatch="):
        runvil.Pack("web", [plain])
    with pytest.raises(TypeError, match='needs a "name"'):
        runvil.Pack("web", [{"description": "x"}], dispatch=dispatch)
    with pytest.raises(TypeError, match=r"^dispatch must be a function, got int$"):
        runvil.Pack("web", [plain], dispatch=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^the \"parameters\" of tool 'one' must be a dict, got list$"):
        runvil.Pack("web", [plain | {"parameters": []}], dispatch=dispatch)
    with pytest.raises(TypeError, match=r"a runvil\.Tool or a schema \(a dict\), got str$"):
        runvil.Pack("web", ["search"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"^conflicts must be a list of pack names, got the text 'other'$"):
        runvil.Pack("web", [], conflicts="other")


@pytest.mark.parametrize("waits", [True, False])
async def test_only_a_plain_dispatch_has_a_thread(waits: bool) -> None:
    seen: list[threading.Thread] = []

    def dispatch(name: str, arguments: dict[str, Any]) -> None:
        seen.append(threading.current_thread())

    async def dispatch_async(name: str, arguments: dict[str, Any]) -> None:
        dispatch(name, arguments)

    pack = runvil.Pack("web", [{"name": "one"}], dispatch=dispatch_async if waits else dispatch)
    await pack.tools["one"].call({})
    assert (seen == [threading.current_thread()]) == waits


@pytest.mark.parametrize("wait", [True, False])
async def test_a_call_that_takes_too_long(wait: bool) -> None:
    ended: list[str] = []

    @runvil.tool(timeout=0.02)
    async def later() -> str:
        """Takes long."""
        try:
            await asyncio.sleep(30)
        finally:
            ended.append("later")
        return ""

    @runvil.tool(timeout=0.02)
    def blocking() -> str:
        """Blocks."""
        time.sleep(0.2)
        return ""

    made = later if wait else blocking
    with pytest.raises(runvil.ToolError, match=rf"^{made.name} timed out after 0\.02 s$"):
        await made.call({})
    with pytest.raises(runvil.ToolError, match=rf"^web/{made.name} timed out after 0\.02 s$"):
        await call_tool(f"web/{made.name}", made, {})
    assert ended == (["later", "later"] if wait else [])
    with pytest.raises(ValueError, match="timeout must be a positive number of seconds, got 0"):
        runvil.tool(timeout=0)(blocking.function)


async def test_a_timeout_of_the_tools_own_is_its_own() -> None:
    @runvil.tool(timeout=5)
    def fails() -> str:
        """Fails."""
        raise TimeoutError

    with pytest.raises(runvil.ToolError, match=r"^p/fails failed: TimeoutError$"):
        await call_tool("p/fails", fails, {})


def test_importing_the_package_does_not_import_pydantic() -> None:
    code = "import runvil, sys; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
