"""Packs: named sets of tools that an application supplies."""

from __future__ import annotations

import functools
import json
import re
from typing import TYPE_CHECKING, Any, overload

from runvil.errors import ToolError
from runvil.schema import check_arguments, describe_parameters, read_docstring
from runvil.threads import call_user_code

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

SEGMENT_RULE = "use lower-case ASCII letters, digits, '-', '_' and '.'"
_SEGMENT = re.compile(r"[a-z0-9\-_.]+")


class Tool:
    """A tool of a pack.

    `runvil.tool` makes one from a typed function. Construct one directly to bring a JSON Schema of your own.

    Args:
        name: The tool's name within its pack: lower-case letters, digits, `-`, `_` and `.`.
        function: What runs. It is called with the arguments as keywords; an `async def` is awaited, a plain `def` runs
            on a thread of its own. What it returns becomes text: a string as it is, anything else as JSON.
        description: What the model reads about the tool.
        parameters: The JSON Schema of the arguments, an object schema.
        trusted: Whether its output is passed on bare. Untrusted output is wrapped and marked as data.
        structured: Whether its output is JSON that a script receives decoded.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        description: str = "",
        parameters: Mapping[str, Any],
        trusted: bool = False,
        structured: bool = False,
    ) -> None:
        _check_segment("tool", name)
        self.name = name
        self.function = function
        self.description = description
        self.parameters = dict(parameters)
        self.trusted = trusted
        self.structured = structured
        self.__name__ = getattr(function, "__name__", name)
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function as it is."""
        return self.function(*args, **kwargs)

    async def call(self, arguments: Mapping[str, Any]) -> str:
        """Runs the tool with arguments as a model or a script gives them, and returns its output as text.

        Raises:
            ToolError: The arguments do not fit the schema, or the tool says so. Other exceptions are its own.
        """
        keywords = check_arguments(self.name, arguments, self.parameters)
        result = await call_user_code(functools.partial(self.function, **keywords))
        if isinstance(result, str) and not self.structured:
            return result
        if result is None and not self.structured:
            return ""
        return to_json(result)

    def to_dict(self) -> dict[str, Any]:
        """The tool without its function, in the engine's form."""
        return {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
            "trusted": self.trusted,
            "structured": self.structured,
        }

    def __repr__(self) -> str:
        return f"<Tool {self.name!r}>"


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *, name: str | None = None, description: str | None = None, trusted: bool = False, structured: bool = False
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    trusted: bool = False,
    structured: bool = False,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Makes a pack tool from a typed function, as `@tool` or `@tool(trusted=True)`.

    The JSON Schema of its arguments comes from the signature: `str`, `int`, `float`, `bool`, `list[…]`, `dict[str, …]`,
    `Literal[…]`, unions, `None` and `Any`; a parameter with a default may be left out. The tool's description is the
    docstring up to its first section; a parameter's comes from `Annotated[…, "text"]` or from the docstring.

    Raises:
        TypeError: A parameter has no type that JSON can express.
    """

    def decorate(inner: Callable[..., Any]) -> Tool:
        summary, texts = read_docstring(inner)
        return Tool(
            name or inner.__name__,
            inner,
            description=summary if description is None else description,
            parameters=describe_parameters(inner, texts),
            trusted=trusted,
            structured=structured,
        )

    return decorate if function is None else decorate(function)


class Pack:
    """A named set of tools. A prompt lists the name under `uses:`; a tool's path is `pack/tool`.

    Args:
        name: Lower-case letters, digits, `-`, `_` and `.`.
        tools: The tools in the order they are offered in. Plain functions become tools as `runvil.tool` makes them.
    """

    def __init__(self, name: str, tools: Iterable[Tool | Callable[..., Any]]) -> None:
        _check_segment("pack", name)
        self.name = name
        self.tools: dict[str, Tool] = {}
        for entry in tools:
            made = entry if isinstance(entry, Tool) else tool(entry)
            if made.name in self.tools:
                raise ValueError(f"pack {name!r} has two tools named {made.name!r}")
            self.tools[made.name] = made

    def activate(self, config: Any) -> Awaitable[None] | None:
        """Prepares the pack for a run; for subclasses. Called before a run that uses the pack begins.

        May be an `async def`; a plain `def` runs on a thread of its own. When it raises, the run goes on as if the
        application did not have the pack.

        Args:
            config: The `config` of the prompt's `uses` entry, as Python data; None when it has none.
        """
        return None

    def render(self, name: str) -> dict[str, Any]:
        """What a model reads about one of the tools: its description and the JSON Schema of its arguments."""
        made = self.tools[name]
        return {"description": made.description, "parameters": made.parameters}

    def to_dict(self) -> dict[str, Any]:
        """The pack without its functions, in the engine's form."""
        return {"name": self.name, "tools": [entry.to_dict() for entry in self.tools.values()]}

    def __repr__(self) -> str:
        return f"Pack({self.name!r}, [{', '.join(self.tools)}])"


async def call_tool(path: str, tool: Tool, arguments: Mapping[str, Any]) -> str:
    """Runs a tool for a run.

    Raises:
        ToolError: It failed. For an exception that is no ToolError the text names the exception's class alone, and the
            exception is its cause.
    """
    try:
        return await tool.call(arguments)
    except ToolError:
        raise
    except Exception as error:
        raise ToolError(f"{path} failed: {type(error).__name__}") from error


def is_segment(name: str) -> bool:
    """Whether a text can name a pack, or a tool within its pack."""
    return _SEGMENT.fullmatch(name) is not None


def to_json(value: Any) -> str:
    """A value as compact JSON text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _check_segment(what: str, name: str) -> None:
    if not is_segment(name):
        hint = "; pass name=... to runvil.tool" if what == "tool" else ""
        raise ValueError(f"invalid {what} name {name!r}: {SEGMENT_RULE}{hint}")
