"""Tools made from functions: their schemas, their arguments, their results; and packs of them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

import runvil
from runvil.packs import call_tool


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
        items: list,  # type: ignore[type-arg]
        table: dict[str, int],
        bare: dict,  # type: ignore[type-arg]
        choice: Literal["a", "b"],
        mixed: Literal["a", 1],
        either: int | str,
        maybe: str | None,
        told: Annotated[str, "What it is for."],
    ) -> None:
        """Takes everything."""

    assert every.parameters["properties"] == {
        "text": {"type": "string"},
        "number": {"type": "number"},
        "flag": {"type": "boolean"},
        "anything": {},
        "items": {"type": "array"},
        "table": {"type": "object", "additionalProperties": {"type": "integer"}},
        "bare": {"type": "object"},
        "choice": {"enum": ["a", "b"], "type": "string"},
        "mixed": {"enum": ["a", 1]},
        "either": {"type": ["integer", "string"]},
        "maybe": {"type": ["string", "null"]},
        "told": {"type": "string", "description": "What it is for."},
    }


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
        ("def f(a: bytes): ...", "which JSON cannot express"),
        ("def f(*a: str): ...", "must be an ordinary or keyword-only parameter"),
        ("def f(**a: str): ...", "must be an ordinary or keyword-only parameter"),
        ("def f(a: dict[int, str]): ...", "is a dict whose keys are not strings"),
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
        ({"query": 3}, "search: query must be string, got integer"),
        ({"query": "a", "limit": "many"}, "search: limit must be integer, got string"),
        ({"query": "a", "limit": True}, "search: limit must be integer, got boolean"),
        ({"query": "a", "limit": 1.5}, "search: limit must be integer, got number"),
        ({"query": "a", "tags": [1]}, "search: tags[0] must be string, got integer"),
        ({"query": "a", "tags": "x"}, "search: tags must be array, got string"),
    ],
)
async def test_arguments_that_do_not_fit_are_told_to_the_model(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(runvil.ToolError) as caught:
        await search.call(arguments)
    assert words in str(caught.value)


async def test_a_whole_number_written_as_a_float_is_an_integer() -> None:
    assert await search.call({"query": "a", "limit": 3.0, "tags": ["x"]}) == "a 3 ['x']"


@given(
    st.dictionaries(
        st.sampled_from(["query", "limit", "tags", "other"]),
        st.none() | st.integers() | st.text() | st.lists(st.text()),
    )
)
def test_arguments_are_refused_or_taken_but_never_break_the_check(arguments: dict[str, Any]) -> None:
    from runvil.schema import check_arguments

    try:
        assert check_arguments("search", arguments, search.parameters) == arguments
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


async def test_a_result_that_is_no_json_is_a_failure_of_the_tool() -> None:
    @runvil.tool
    def give() -> Any:
        return {1, 2}

    with pytest.raises(runvil.ToolError, match=r"^p/give failed: TypeError$"):
        await call_tool("p/give", give, {})


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
        runvil.tool(name="Go")(plain)
