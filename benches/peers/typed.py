"""Typed models: msgspec structs, pydantic models, and pydantic over the types of the openai package."""

# mypy: disable-error-code="import-not-found, no-any-return, misc, call-arg"
# The peers are installed for the comparison alone, so that the type checker of the project does not see them.

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import orjson
from openai.types.chat import ChatCompletionMessageParam
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from benches import baselines, rules
from benches.contestant import WINDOW, Contestant

if TYPE_CHECKING:
    from collections.abc import Callable

    from benches.contestant import Turn
    from benches.conversations import Conversation, Record


class TextPart(msgspec.Struct, tag_field="type", tag="text"):
    """A piece of text."""

    text: str


class ImageUrl(msgspec.Struct):
    """Where an image is."""

    url: str


class ImagePart(msgspec.Struct, tag_field="type", tag="image_url"):
    """An image."""

    image_url: ImageUrl


Content = str | Annotated[list[TextPart | ImagePart], msgspec.Meta(min_length=1)]


class Call(msgspec.Struct):
    """A tool call as it is stored."""

    id: str
    name: str
    arguments: dict[str, Any] = {}


class Message(msgspec.Struct, tag_field="role", omit_defaults=True):
    """What every record has."""

    content: Content
    meta: Any = None


class System(Message, tag="system"):
    """A system record."""


class User(Message, tag="user"):
    """A user record."""


class Assistant(Message, tag="assistant"):
    """An assistant record."""

    tool_calls: list[Call] | None = None


class Tool(Message, tag="tool", kw_only=True):
    """A tool result."""

    tool_call_id: str


Native = list[System | User | Assistant | Tool]


class WireFunction(msgspec.Struct):
    """The function of a tool call, its arguments as JSON text."""

    name: str
    arguments: str


class WireCall(msgspec.Struct, tag_field="type", tag="function"):
    """A tool call as the model receives it."""

    id: str
    function: WireFunction


class WireMessage(msgspec.Struct, omit_defaults=True):
    """A message as the model receives it."""

    role: str
    content: Any
    tool_calls: list[WireCall] | None = None
    tool_call_id: str | None = None


_ROLES: dict[type, str] = {System: "system", User: "user", Assistant: "assistant", Tool: "tool"}
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Native).decode


def _sequence(records: Native) -> Native:
    take = (sequence := rules.Sequence()).take
    for position, record in enumerate(records, 1):
        kind = type(record)
        if kind is Assistant:
            take("assistant", record.content, record.tool_calls, None)
        elif kind is Tool:
            take("tool", record.content, None, record.tool_call_id)
        else:
            take(_ROLES[kind], record.content, None, None)
        if record.meta is not None:
            _check_meta(record.meta, position)
    sequence.finish()
    return records


def _check_meta(meta: Any, position: int) -> None:
    size = len(_encode(meta))
    if size > rules.META_LIMIT:
        raise ValueError(f"messages[{position}] meta is {size} bytes as JSON; the limit is {rules.META_LIMIT} bytes")


def _validate(objects: list[Record]) -> Native:
    return _sequence(msgspec.convert(objects, Native))


def _parse(data: bytes) -> Native:
    return _sequence(_decode(data))


def _wire_calls(calls: list[Call]) -> list[WireCall]:
    return [WireCall(call.id, WireFunction(call.name, _encode(call.arguments).decode())) for call in calls]


def _to_wire(records: Native) -> list[WireMessage]:
    messages = []
    for record in records:
        kind = type(record)
        if kind is Tool:
            messages.append(WireMessage("tool", record.content, None, record.tool_call_id))
        elif kind is Assistant and record.tool_calls:
            messages.append(WireMessage("assistant", record.content, _wire_calls(record.tool_calls)))
        else:
            messages.append(WireMessage(_ROLES[kind], record.content))
    return messages


def _merge(messages: list[WireMessage]) -> list[WireMessage]:
    merged: list[WireMessage] = []
    growing: WireMessage | None = None
    run: list[Any] = []

    def close() -> None:
        if growing is not None and len(run) > 1:
            growing.content = _joined(growing.role, run)

    for message in messages:
        if growing is not None and message.role == growing.role:
            run.append(message.content)
            growing.tool_calls = message.tool_calls
        else:
            close()
            growing = WireMessage(message.role, message.content, message.tool_calls, message.tool_call_id)
            merged.append(growing)
            run = [message.content]
        if message.tool_calls or message.role == "tool":
            close()
            growing = None
    close()
    return merged


def _joined(role: str, run: list[Any]) -> Any:
    content = rules.joined_content(role, run)
    if isinstance(content, str):
        return content
    return [TextPart(part["text"]) if isinstance(part, dict) else part for part in content]


def _estimate(messages: list[WireMessage]) -> int:
    size = 0
    for message in messages:
        content = message.content
        if isinstance(content, str):
            size += len(content) if content.isascii() else len(content.encode())
        else:
            size += sum(len(part.text.encode()) for part in content if type(part) is TextPart)
        for call in message.tool_calls or ():
            size += len(_encode(call))
    return rules.estimate_tokens(size, len(messages))


def _body(messages: list[WireMessage]) -> bytes:
    return _encode({"model": baselines.MODEL, "messages": messages})


def _turn(records: Native) -> Turn:
    messages = _merge(_to_wire(records))
    return _body(messages), _estimate(messages)


def _appender(records: Native) -> Callable[[Record], object]:
    records = records.copy()
    kind = System | User | Assistant | Tool

    def append(record: Record) -> None:
        message = msgspec.convert(record, kind)
        if message.meta is not None:
            _check_meta(message.meta, len(records) + 1)
        records.append(message)

    return append


def _looper(objects: list[Record]) -> Callable[[list[Record]], Turn]:
    held = msgspec.convert(objects, Native)

    def step(added: list[Record]) -> Turn:
        held.extend(msgspec.convert(added, Native))
        body, estimate = _turn(_sequence(held))
        if estimate + rules.reserve(WINDOW) > WINDOW:
            raise ValueError("context exhausted")
        return body, estimate

    return step


def _read(records: Native) -> tuple[int, int]:
    roles = strings = 0
    for record in records:
        roles += len(_ROLES[type(record)])
        strings += isinstance(record.content, str)
    return roles, strings


def _records(conversation: Conversation) -> list[Record]:
    return conversation.records


def _records_json(conversation: Conversation) -> bytes:
    return conversation.records_json


def _messages(body: bytes | memoryview) -> list[Record]:
    messages: list[Record] = orjson.loads(body)["messages"]
    return messages


MSGSPEC = Contestant(
    name="msgspec",
    packages=("msgspec",),
    objects=_records,
    json=_records_json,
    validate=_validate,
    parse=_parse,
    merge=lambda records: _merge(_to_wire(records)),
    composed=lambda records: _merge(_to_wire(records)),
    estimate=_estimate,
    serialize=lambda records: _body(_to_wire(records)),
    turn_objects=lambda objects: _turn(_validate(objects)),
    turn_json=lambda data: _turn(_parse(data)),
    appender=_appender,
    looper=_looper,
    read=_read,
    snapshot=list.copy,
    merges_by_rules=True,
    wire_form=_messages,
    remarks={"append": "the record's own rules only"},
)


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore")


class ModelTextPart(_Model):
    """A piece of text."""

    type: Literal["text"]
    text: str


class ModelImageUrl(_Model):
    """Where an image is."""

    url: str


class ModelImagePart(_Model):
    """An image."""

    type: Literal["image_url"]
    image_url: ModelImageUrl


_Parts = Annotated[list[Annotated[ModelTextPart | ModelImagePart, Field(discriminator="type")]], Field(min_length=1)]


class ModelFunction(_Model):
    """The function of a tool call."""

    name: str
    arguments: str


class ModelCall(_Model):
    """A tool call."""

    id: str
    type: Literal["function"]
    function: ModelFunction


class ModelSystem(_Model):
    """A system message."""

    role: Literal["system"]
    content: str | _Parts


class ModelUser(_Model):
    """A user message."""

    role: Literal["user"]
    content: str | _Parts


class ModelAssistant(_Model):
    """An assistant message."""

    role: Literal["assistant"]
    content: str | _Parts
    tool_calls: list[ModelCall] | None = None


class ModelTool(_Model):
    """A tool result."""

    role: Literal["tool"]
    content: str | _Parts
    tool_call_id: str


_AnyModel = Annotated[ModelSystem | ModelUser | ModelAssistant | ModelTool, Field(discriminator="role")]
_models: TypeAdapter[list[Any]] = TypeAdapter(list[_AnyModel])
_model: TypeAdapter[Any] = TypeAdapter(_AnyModel)


def _model_appender(records: list[Any]) -> Callable[[Record], object]:
    records = records.copy()
    return lambda record: records.append(_model.validate_python(record))


def _read_models(records: list[Any]) -> tuple[int, int]:
    roles = strings = 0
    for record in records:
        roles += len(record.role)
        strings += isinstance(record.content, str)
    return roles, strings


PYDANTIC = Contestant(
    name="pydantic models",
    packages=("pydantic",),
    validate=_models.validate_python,
    parse=_models.validate_json,
    serialize=lambda records: _models.dump_json(records, exclude_none=True),
    appender=_model_appender,
    read=_read_models,
    snapshot=list.copy,
    wire_form=orjson.loads,
    remarks={"validate": "shapes only", "append": "shapes only"},
)

_params: TypeAdapter[list[Any]] = TypeAdapter(list[ChatCompletionMessageParam])
_param: TypeAdapter[Any] = TypeAdapter(ChatCompletionMessageParam)


def _drained(message: Any) -> Any:
    # Lists are declared as iterables there, which pydantic checks only as they are read.
    for name in ("content", "tool_calls"):
        value = message.get(name)
        if value is not None and not isinstance(value, str):
            message[name] = list(value)
    return message


def _validate_params(objects: list[Record]) -> list[Any]:
    return [_drained(message) for message in _params.validate_python(objects)]


def _param_appender(records: list[Any]) -> Callable[[Record], object]:
    records = records.copy()
    return lambda record: records.append(_drained(_param.validate_python(record)))


OPENAI = Contestant(
    name="openai types (pydantic)",
    packages=("openai",),
    validate=_validate_params,
    parse=lambda data: _validate_params(orjson.loads(data)),
    serialize=orjson.dumps,
    appender=_param_appender,
    wire_form=orjson.loads,
    remarks={"validate": "shapes only", "append": "shapes only"},
)
