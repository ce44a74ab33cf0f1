"""JSON Schemas from Python signatures, and arguments read by them: pydantic's work, put in a tool's terms.

pydantic is imported when the first tool is made of a typed function, not with the package.
"""

from __future__ import annotations

import functools
import inspect
import typing
from typing import TYPE_CHECKING, Annotated, Any

from runvil.errors import ToolError
from runvil.texts import is_unicode, to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import BaseModel, ValidationError
    from pydantic.json_schema import GenerateJsonSchema

PROBLEMS = 3
"""How many problems of a call's arguments its error names."""
PROBLEM_LENGTH = 300
"""How many characters of each: a type with many choices, or a long argument name, is not repeated in full."""


class Signature:
    """The parameters of a typed function, as a schema and as what reads arguments.

    Args:
        function: The function. Its parameters have types and can be given by name.
        tool: The tool's name, which errors begin with.

    Raises:
        TypeError: A parameter has no type, or one that JSON cannot express.
    """

    def __init__(self, function: Callable[..., Any], tool: str) -> None:
        from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError

        typed = _typed(function)
        self.description, texts = read_docstring(typed)
        self._tool = tool
        self._names: list[str] = []
        self._supplied: set[str] = set()
        try:
            self._model = self._make_model(function, _types(typed, tool), texts)
            self.parameters = self._model.model_json_schema(schema_generator=_generator())
        except PydanticUndefinedAnnotation as error:
            raise _unreadable(tool, error) from error
        except PydanticUserError as error:
            reason = str(error).splitlines()[0]
            raise TypeError(f"tool {tool!r} has a type that JSON cannot express: {reason}") from error
        self.parameters.setdefault("properties", {})

    def _make_model(
        self, function: Callable[..., Any], hints: Mapping[str, Any], texts: Mapping[str, str]
    ) -> type[BaseModel]:
        from pydantic import ConfigDict, Field, create_model
        from pydantic.fields import FieldInfo

        fields: dict[str, Any] = {}
        for name, parameter in inspect.signature(function).parameters.items():
            where = f"parameter {name!r} of tool {self._tool!r}"
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise TypeError(f"{where} must be an ordinary or keyword-only parameter")
            if name not in hints:
                raise TypeError(f"{where} needs a type")
            hint, default = hints[name], ... if parameter.default is parameter.empty else parameter.default
            is_field = isinstance(default, FieldInfo)
            if is_field:
                # To Python the `Field(…)` itself is the default, so the value that it stands for is always given.
                self._supplied.add(name)
                hint = Annotated[hint, default]
            hint, text = _described(hint, texts.get(name))
            settings: dict[str, Any] = {"alias": name} | ({} if text is None else {"description": text})
            if is_field:
                field = Field(**settings)
            elif default is None or (default is not ... and not _is_json(default)):
                # A default that a schema need not or cannot show: the function itself supplies it.
                field = Field(default=None, json_schema_extra=_without_default, **settings)
            else:
                field = Field(default=default, **settings)
            # Fields have names of their own, because a parameter may be called like a method of pydantic's models.
            fields[f"p{len(self._names)}"] = (hint, field)
            self._names.append(name)
        # The error of pydantic is the cause of ours: a traceback that is printed must not show the arguments.
        config = ConfigDict(extra="forbid", hide_input_in_errors=True)
        return create_model(self._tool, __config__=config, **fields)

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The keywords to call the function with. What was left out stays out, so that the function's defaults count.

        Raises:
            ToolError: They do not fit; the text names the argument and is meant for the model.
        """
        from pydantic import ValidationError

        try:
            model = self._model.model_validate(dict(arguments))
        except ValidationError as error:
            raise ToolError(f"{self._tool}: {self._problems(error)}") from error
        given = model.model_fields_set
        keywords = {}
        for at, name in enumerate(self._names):
            field = f"p{at}"
            if field in given or name in self._supplied:
                keywords[name] = getattr(model, field)
        return keywords

    def _problems(self, error: ValidationError) -> str:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        texts = [
            _cut(self._problem(problem["type"], problem["loc"], problem["msg"])) for problem in problems[:PROBLEMS]
        ]
        if len(problems) > PROBLEMS:
            texts.append(f"and {len(problems) - PROBLEMS} more")
        return "; ".join(texts)

    def _problem(self, kind: str, place: tuple[int | str, ...], message: str) -> str:
        name = _place(place)
        if kind == "missing":
            return f"missing argument {name!r}"
        if kind == "extra_forbidden" and len(place) == 1:
            return f"unknown argument {name!r}; arguments: {', '.join(self._names) or 'none'}"
        if kind == "union_tag_invalid":  # pydantic's text repeats the value
            message = "expected " + message.rpartition("expected tags: ")[2]
        return f"{name}: {message[:1].lower()}{message[1:]}"


def _typed(function: Callable[..., Any]) -> Callable[..., Any]:
    """What has the types and the docstring of a callable: of an object its `__call__`."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function) or inspect.isclass(function):
        return function
    call: Callable[..., Any] = type(function).__call__
    return call


def _types(function: Callable[..., Any], tool: str) -> dict[str, Any]:
    """The types of a function's parameters.

    What it returns needs no type that exists at run time.

    Raises:
        TypeError: A type is named that does not exist at run time.
    """
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError:
        pass
    function = inspect.unwrap(function)

    def parameters() -> None: ...

    annotations = inspect.get_annotations(function)
    parameters.__annotations__ = {name: hint for name, hint in annotations.items() if name != "return"}
    try:
        names = getattr(function, "__globals__", None)
        return typing.get_type_hints(parameters, globalns=names, include_extras=True)
    except NameError as error:
        raise _unreadable(tool, error) from error


def _unreadable(tool: str, error: Exception) -> TypeError:
    reason = str(error).splitlines()[0]
    return TypeError(f"tool {tool!r} has a type that does not exist at run time ({reason}); import or define it there")


def _cut(text: str) -> str:
    return text if len(text) <= PROBLEM_LENGTH else f"{text[: PROBLEM_LENGTH - 1]}…"


def _place(place: tuple[int | str, ...]) -> str:
    first, *rest = place or ("arguments",)
    return str(first) + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in rest)


def _described(hint: Any, text: str | None) -> tuple[Any, str | None]:
    """The type, and the description: a plain text in `Annotated[…]`, else the docstring's."""
    if typing.get_origin(hint) is not Annotated:
        return hint, text
    inner, *notes = typing.get_args(hint)
    told = next((note for note in notes if isinstance(note, str)), None)
    kept = [note for note in notes if not isinstance(note, str)]
    for note in kept:
        inner = Annotated[inner, note]
    if told is None and any(getattr(note, "description", None) for note in kept):
        return inner, None
    return inner, text if told is None else told


def _is_json(value: Any) -> bool:
    from pydantic_core import PydanticSerializationError, to_json

    try:
        to_json(value)
    except PydanticSerializationError:
        return False
    return True


def _without_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


@functools.cache
def _generator() -> type[GenerateJsonSchema]:
    """Pydantic's generator without the titles it makes of names: a model reads each schema, and pays for it."""
    from pydantic.json_schema import GenerateJsonSchema

    class Untitled(GenerateJsonSchema):
        def generate(self, schema: Any, mode: Any = "validation") -> dict[str, Any]:
            return _strip_titles(super().generate(schema, mode))

        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

    return Untitled


def _strip_titles(schema: dict[str, Any]) -> dict[str, Any]:
    schema.pop("title", None)
    for definition in schema.get("$defs", {}).values():
        definition.pop("title", None)
    return schema


def read_docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The description and the parameter descriptions of a docstring: Google's, NumPy's or reStructuredText's form."""
    from docstring_parser import parse

    docstring = parse(inspect.getdoc(function) or "")
    texts = {entry.arg_name: " ".join(entry.description.split()) for entry in docstring.params if entry.description}
    return (docstring.description or "").strip(), texts


def result_text(value: Any, *, structured: bool) -> str:
    """What a tool returned, as text: a string as it is, nothing for None, everything else as compact JSON.

    A structured result is JSON in every case.

    Raises:
        ToolError: It has no JSON form, or is no text that can be sent.
    """
    if isinstance(value, str) and not structured:
        text = str.__str__(value)  # of an enum of texts its value, not its name
    else:
        text = "" if value is None and not structured else _json(value)
    if not is_unicode(text):
        raise ToolError("the result has half of a surrogate pair, which no text can hold")
    return text


def _json(value: Any) -> str:
    try:
        try:
            return to_json(value)
        except TypeError:
            from pydantic_core import to_jsonable_python

            # Models, dataclasses, enums, dates and the like.
            return to_json(to_jsonable_python(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolError(f"the result has no JSON form: {type(value).__name__}") from error
