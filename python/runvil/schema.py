"""JSON Schemas from Python signatures, and arguments checked against them."""

from __future__ import annotations

import inspect
import json
import re
import types
import typing
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from runvil.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_SCALARS: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_SECTION = re.compile(r"(?:Args|Arguments|Parameters|Returns|Raises|Yields|Examples?|Notes?|Attributes):")
_ENTRY = re.compile(r"(\w+)(?:\s*\([^)]*\))?:\s*(.*)")
_FIELD = re.compile(r":param\s+(?:[\w\[\], .|]+\s+)?(\w+):\s*(.*)")


def describe_parameters(function: Callable[..., Any], texts: Mapping[str, str]) -> dict[str, Any]:
    """The object schema of a function's parameters. `texts` are descriptions by parameter name.

    Raises:
        TypeError: A parameter is missing its type, or has one that JSON cannot express.
    """
    hints = typing.get_type_hints(function, include_extras=True)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        where = f"parameter {name!r} of tool {getattr(function, '__name__', function)!r}"
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TypeError(f"{where} must be an ordinary or keyword-only parameter")
        if name not in hints:
            raise TypeError(f"{where} needs a type")
        schema = _schema_of(hints[name], where)
        if name in texts:
            schema.setdefault("description", texts[name])
        if parameter.default is parameter.empty:
            required.append(name)
        elif parameter.default is not None and _is_json(parameter.default):
            schema["default"] = parameter.default
        properties[name] = schema
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _schema_of(hint: Any, where: str) -> dict[str, Any]:
    if hint is Any:
        return {}
    if hint in _SCALARS:
        return {"type": _SCALARS[hint]}
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        described = next((text for text in arguments[1:] if isinstance(text, str)), None)
        schema = _schema_of(arguments[0], where)
        return schema if described is None else schema | {"description": described}
    if origin is Literal:
        kinds = sorted({_SCALARS[type(value)] for value in arguments if type(value) in _SCALARS})
        return {"enum": list(arguments)} | ({"type": kinds[0]} if len(kinds) == 1 else {})
    if origin in (Union, types.UnionType):
        members = [_schema_of(member, where) for member in arguments]
        if all(set(member) == {"type"} for member in members):
            return {"type": [member["type"] for member in members]}
        return {"anyOf": members}
    if hint is list or origin is list:
        return {"type": "array"} | ({"items": _schema_of(arguments[0], where)} if arguments else {})
    if hint is dict or origin is dict:
        if arguments and arguments[0] is not str:
            raise TypeError(f"{where} is a dict whose keys are not strings")
        return {"type": "object"} | ({"additionalProperties": _schema_of(arguments[1], where)} if arguments else {})
    raise TypeError(
        f"{where} has the type {hint!r}, which JSON cannot express; "
        "use str, int, float, bool, list, dict, Literal, Any or a union of them"
    )


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def read_docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The description and the parameter descriptions of a docstring, in Google's or reStructuredText's form."""
    lines = (inspect.getdoc(function) or "").splitlines()
    summary: list[str] = []
    texts: dict[str, str] = {}
    section, current, entry_indent = "", "", 0
    for line in lines:
        if _SECTION.fullmatch(line.strip()) and not line.startswith(" "):
            section, current = line.strip(), ""
        elif field := _FIELD.match(line):
            section, current = ":param", field[1]
            texts[current] = field[2]
        elif section in ("Args:", "Arguments:", "Parameters:"):
            indent = len(line) - len(line.lstrip())
            entry = _ENTRY.match(line.strip())
            if entry and (not current or indent <= entry_indent):
                current, entry_indent = entry[1], indent
                texts[current] = entry[2]
            elif current and line.strip():
                texts[current] = f"{texts[current]} {line.strip()}".strip()
        elif section == ":param" and line.startswith((" ", "\t")):
            texts[current] = f"{texts[current]} {line.strip()}".strip()
        elif not section:
            summary.append(line)
        elif line.startswith(":"):
            section = line
    return "\n".join(summary).strip(), texts


def check_arguments(tool: str, arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call, checked against the parts of JSON Schema that `describe_parameters` writes.

    Schema keywords it does not know are left to the tool. A whole number given as a float becomes an integer where one
    is asked for.

    Raises:
        ToolError: They do not fit; the text names the argument and is meant for the model.
    """
    properties = schema.get("properties", {})
    missing = [name for name in schema.get("required", ()) if name not in arguments]
    if missing:
        raise ToolError(f"{tool}: missing argument {missing[0]!r}")
    if schema.get("additionalProperties") is False:
        unknown = [name for name in arguments if name not in properties]
        if unknown:
            raise ToolError(f"{tool}: unknown argument {unknown[0]!r}; arguments: {', '.join(properties) or 'none'}")
    return {name: _checked(value, properties.get(name, {}), f"{tool}: {name}") for name, value in arguments.items()}


def _checked(value: Any, schema: Any, where: str) -> Any:
    if not isinstance(schema, dict):
        return value
    if "enum" in schema and value not in schema["enum"]:
        raise ToolError(f"{where} must be one of {', '.join(map(json.dumps, schema['enum']))}")
    if "anyOf" in schema:
        return _first_fit(value, schema["anyOf"], where)
    wanted = schema.get("type")
    if wanted is not None:
        kinds = [wanted] if isinstance(wanted, str) else list(wanted)
        if "integer" in kinds and isinstance(value, float) and value.is_integer():
            value = int(value)
        kind = _kind_of(value)
        if kind not in kinds and not (kind == "integer" and "number" in kinds):
            raise ToolError(f"{where} must be {' or '.join(kinds)}, got {kind}")
    if isinstance(value, list) and "items" in schema:
        return [_checked(item, schema["items"], f"{where}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, dict) and "additionalProperties" in schema:
        return {key: _checked(item, schema["additionalProperties"], f"{where}.{key}") for key, item in value.items()}
    return value


def _first_fit(value: Any, members: list[Mapping[str, Any]], where: str) -> Any:
    problems: list[str] = []
    for member in members:
        try:
            return _checked(value, member, where)
        except ToolError as error:
            problems.append(str(error))
    raise ToolError(problems[0] if len(problems) == 1 else f"{where} fits none of its types: {'; '.join(problems)}")


def _kind_of(value: Any) -> str:
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list):
        return "array"
    return _SCALARS.get(type(value), type(value).__name__)
