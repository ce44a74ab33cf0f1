"""Packs: named sets of tools that an application supplies."""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, overload

from runvil import _native
from runvil.errors import ToolError
from runvil.schema import Signature, result_text
from runvil.texts import escaped, is_unicode
from runvil.threads import call_user_code

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

SEGMENT_RULE = "use lower-case ASCII letters, digits, '-', '_' and '.'"
_SEGMENT = re.compile(r"[a-z0-9\-_.]+")
_NAME = re.compile(r"[A-Za-z0-9\-_.]+")


class Tool:
    """A tool of a pack or of a loop.

    `runvil.tool` makes one from a typed function. Construct one directly to bring a JSON Schema of your own; then the
    arguments of a call are passed on unchecked.

    Args:
        name: The tool's name: letters, digits, `-`, `_` and `.`; within a pack lower-case.
        function: What runs. It is called with the arguments as keywords; an `async def` is awaited, a plain `def` runs
            on a thread of its own. What it returns becomes text: a string as it is, anything else as JSON.
        description: What the model reads about the tool.
        parameters: The JSON Schema of the arguments, an object schema.
        trusted: Whether its output is passed on bare. Untrusted output is wrapped and marked as data.
        structured: Whether its output is JSON that a script receives decoded.
        timeout: Seconds a call may take; None sets no limit. An async function is cancelled then, a thread is left to
            itself.
        read: Turns the arguments of a call into keywords; raises `ToolError` for what does not fit.
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
        timeout: float | None = None,
        read: Callable[[Mapping[str, Any]], dict[str, Any]] = dict,
    ) -> None:
        if not _NAME.fullmatch(name):
            raise ValueError(f"invalid tool name {name!r}: use ASCII letters, digits, '-', '_' and '.'")
        _check_timeout(timeout)
        if not isinstance(parameters, Mapping):
            raise TypeError(
                f"parameters of tool {name!r} must be a JSON Schema, a dict, got {type(parameters).__name__}"
            )
        if not is_unicode(description):
            raise ValueError(f"description of tool {name!r} holds text with a lone surrogate")
        _native.check_json(dict(parameters), f"parameters of tool {name!r}")
        self.name = name
        self.function = function
        self.description = description
        self.parameters = dict(parameters)
        self.trusted = trusted
        self.structured = structured
        self.timeout = timeout
        self._read = read
        self.__name__ = getattr(function, "__name__", name)
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function as it is."""
        return self.function(*args, **kwargs)

    async def call(self, arguments: Mapping[str, Any]) -> str:
        """Runs the tool with arguments as a model or a script gives them, and returns its output as text.

        Raises:
            ToolError: The arguments do not fit the schema, the call took too long, or the tool says so. Other
                exceptions are its own.
        """
        keywords = self._read(arguments)
        scope = asyncio.timeout(self.timeout)
        try:
            async with scope:
                result = await call_user_code(functools.partial(self.function, **keywords))
        except Exception as error:
            if not scope.expired():
                raise
            # Whatever an async function raises while it is cancelled, what happened is that it took too long.
            cause = None if isinstance(error, TimeoutError) else error
            raise _TimeoutError(self, self.name) from cause
        if scope.expired():  # the function caught its cancellation and returned
            raise _TimeoutError(self, self.name)
        return result_text(result, structured=self.structured)

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


class _TimeoutError(ToolError):
    """A call that took too long. It knows its tool, so that a run can say the path it called the tool by."""

    def __init__(self, tool: Tool, path: str) -> None:
        super().__init__(f"{path} timed out after {_seconds(tool.timeout or 0)} s")
        self.tool = tool


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    trusted: bool = False,
    structured: bool = False,
    timeout: float | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    trusted: bool = False,
    structured: bool = False,
    timeout: float | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Makes a tool from a typed function, as `@tool` or `@tool(trusted=True)`.

    The JSON Schema of its arguments comes from the signature by way of pydantic: plain types, lists and dicts, unions,
    `Literal`, enums, dataclasses and pydantic's models, `Annotated[…, Field(…)]`. A parameter with a default may be
    left out; the default may be a `Field(…)`. The tool's description is the docstring's; a parameter's comes from
    `Annotated[…, "text"]` or from the docstring.

    Raises:
        TypeError: A parameter has no type, or one that JSON cannot express; or the function has no name of its own and
            none is given.
        ValueError: The name cannot be used, or the timeout is not positive.
    """

    def decorate(inner: Callable[..., Any]) -> Tool:
        if not callable(inner):
            raise TypeError(f"a tool is made of a function, got {type(inner).__name__}")
        own = getattr(inner, "__name__", None) if name is None else name
        if own is None:
            raise TypeError(
                f"an object of type {type(inner).__name__} has no name of its own; pass name=... to runvil.tool"
            )
        signature = Signature(inner, own)
        return Tool(
            own,
            inner,
            description=signature.description if description is None else description,
            parameters=signature.parameters,
            trusted=trusted,
            structured=structured,
            timeout=timeout,
            read=signature.read,
        )

    return decorate if function is None else decorate(function)


def schema_tool(
    schema: Mapping[str, Any], dispatch: Callable[[str, dict[str, Any]], Any] | None, *, trusted: bool = False
) -> Tool:
    """Makes a tool of a schema and a function `dispatch(name, arguments)` that runs it.

    The schema is `{"name", "description", "parameters"}` or the form of the OpenAI API, and may also say `trusted` and
    `structured`.

    Raises:
        TypeError: There is no such function, or a part of the schema has the wrong type.
        ValueError: The name cannot be used.
    """
    fields = schema.get("function", schema) if schema.get("type") == "function" else schema
    if not isinstance(fields, Mapping):
        raise TypeError(f'the "function" of a tool schema must be a dict, got {type(fields).__name__}')
    name = fields.get("name")
    if not isinstance(name, str):
        raise TypeError('a tool schema needs a "name", a text')
    if dispatch is None:
        raise TypeError(f"tool {name!r} is a schema; pass dispatch=, the function that runs it")
    if not callable(dispatch):
        raise TypeError(f"dispatch must be a function, got {type(dispatch).__name__}")

    def read(arguments: Mapping[str, Any]) -> dict[str, Any]:
        return {"name": name, "arguments": dict(arguments)}

    run = _dispatched_async if inspect.iscoroutinefunction(dispatch) else _dispatched
    return Tool(
        name,
        functools.partial(run, dispatch),
        description=_schema_part(name, fields, "description", str) or "",
        parameters=_schema_part(name, fields, "parameters", Mapping) or {"type": "object", "properties": {}},
        trusted=_flag(name, schema, fields, "trusted", default=trusted),
        structured=_flag(name, schema, fields, "structured", default=False),
        read=read,
    )


def _schema_part(name: str, fields: Mapping[str, Any], key: str, kind: type) -> Any:
    value = fields.get(key)
    if value is not None and not isinstance(value, kind):
        expected = {str: "a text", bool: "True or False"}.get(kind, "a dict")
        raise TypeError(f'the "{key}" of tool {name!r} must be {expected}, got {type(value).__name__}')
    return value


def _flag(name: str, schema: Mapping[str, Any], fields: Mapping[str, Any], key: str, *, default: bool) -> bool:
    """A flag of a schema, beside its `function` or within it."""
    for place in (schema, fields):
        value = _schema_part(name, place, key, bool)
        if value is not None:
            return bool(value)
    return default


def _dispatched(dispatch: Callable[[str, dict[str, Any]], Any], *, name: str, arguments: dict[str, Any]) -> Any:
    return dispatch(name, arguments)


async def _dispatched_async(
    dispatch: Callable[[str, dict[str, Any]], Awaitable[Any]], *, name: str, arguments: dict[str, Any]
) -> Any:
    # An async function of its own: a plain one that passes a coroutine on would cost each call a thread.
    return await dispatch(name, arguments)


class Pack:
    """A named set of tools. A prompt lists the name under `uses:`; a tool's path is `pack/tool`.

    Args:
        name: Lower-case letters, digits, `-`, `_` and `.`.
        tools: The tools in the order they are offered in. Plain functions become tools as `runvil.tool` makes them.
            Schemas (`{"name", "description", "parameters"}`, or the form of the OpenAI API) are run by `dispatch`.
        conflicts: The names of packs that cannot be used together with it.
        dispatch: Runs the tools given as schemas: `dispatch(name, arguments)`, an `async def` or a plain `def`.
    """

    def __init__(
        self,
        name: str,
        tools: Iterable[Tool | Callable[..., Any] | Mapping[str, Any]],
        *,
        conflicts: Iterable[str] = (),
        dispatch: Callable[[str, dict[str, Any]], Any] | None = None,
    ) -> None:
        _check_segment("pack", name)
        self.name = name
        if isinstance(conflicts, str):
            raise TypeError(f"conflicts must be a list of pack names, got the text {conflicts!r}")
        self.conflicts = list(conflicts)
        self.tools: dict[str, Tool] = {}
        for entry in tools:
            made = make_tool(entry, dispatch)
            _check_segment("tool", made.name)
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
        return {
            "name": self.name,
            "tools": [entry.to_dict() for entry in self.tools.values()],
            "conflicts": self.conflicts,
        }

    def __repr__(self) -> str:
        return f"Pack({self.name!r}, [{', '.join(self.tools)}])"


def make_tool(
    entry: Tool | Callable[..., Any] | Mapping[str, Any],
    dispatch: Callable[[str, dict[str, Any]], Any] | None,
    *,
    trusted: bool = False,
) -> Tool:
    """A tool from what an application gives for one: a `Tool`, a typed function, or a schema that `dispatch` runs."""
    if isinstance(entry, Tool):
        return entry
    if callable(entry):
        return tool(entry)
    if not isinstance(entry, Mapping):
        raise TypeError(f"a tool is a function, a runvil.Tool or a schema (a dict), got {type(entry).__name__}")
    return schema_tool(entry, dispatch, trusted=trusted)


async def call_tool(path: str, tool: Tool, arguments: Mapping[str, Any]) -> str:
    """Runs a tool for a run.

    Raises:
        ToolError: It failed. For an exception that is no ToolError the text names the exception's class alone, and the
            exception is its cause.
    """
    try:
        return await tool.call(arguments)
    except _TimeoutError as error:
        if error.tool is not tool:  # another one, which this tool called
            raise
        raise _TimeoutError(tool, path) from error.__cause__
    except ToolError as error:
        if is_unicode(str(error)):
            raise
        raise ToolError(escaped(str(error))) from error
    except (Exception, SystemExit) as error:
        # A tool that leaves with `sys.exit`, as command lines do, ends its call and not the program.
        raise ToolError(f"{path} failed: {type(error).__name__}") from error


def is_segment(name: str) -> bool:
    """Whether a text can name a pack, or a tool within its pack."""
    return _SEGMENT.fullmatch(name) is not None


def _check_segment(what: str, name: str) -> None:
    if not is_segment(name):
        hint = "; pass name=... to runvil.tool" if what == "tool" else ""
        raise ValueError(f"invalid {what} name {name!r}: {SEGMENT_RULE}{hint}")


def _check_timeout(timeout: float | None) -> None:
    if timeout is None:
        return
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError(f"timeout must be a number of seconds, got {type(timeout).__name__}")
    if not (timeout > 0 and math.isfinite(timeout)):
        raise ValueError(f"timeout must be a positive number of seconds, got {timeout}")


def _seconds(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)
