"""The format of scripted replies: what one line may hold.

A script is JSON Lines; blank lines are skipped, and an unknown key is refused. There are four kinds of line:

- A model's answer. A reply has `text`, `tool_calls` (each `id`, `name`, `arguments`), `finish_reason`, `usage`,
  `reasoning`, `model`, `metrics` (an object) and `degraded` (what its reader had to ignore); each may be left out.
  `fragments` are the pieces its text arrives in. With `"host_built": true` it counts as a reply that an application's
  own broker built.
- A failed model call, `{"error": {...}}`. It is what came from the provider: `status` and `body`, classified by the
  rules of the language; without a status an error inside a started stream, after the line's `fragments`. Or it is
  `transport`, the words for a broken connection. With `kind`, one of `runvil.errors.MODEL_ERROR_KINDS`, nothing is
  classified: that is the failure, and `status`, `body`, `note`, `used` and `limit` (tokens) are its attributes as in
  `runvil.ModelError`. A recording has the kind, because other rules may have judged the live run.
- A tool: `{"pack": NAME, "tools": [...]}` declares a pack, `{"tool": PATH, "result": ...}` or `{"tool": PATH, "error":
  TEXT}` answers that tool's calls in order; the last line repeats.
- The user: `{"user": TEXT}` answers `user_input()` in order. `{"user": null}` says that there is no input this time,
  `{"user": null, "error": TEXT}` that it could not be asked for.

`{"dropped": true}`, `{"tool": PATH, "dropped": true}` and `{"user": null, "dropped": true}` are calls that got no
answer because they were cancelled, by the end of their run or from within. They are cancelled again, which their caller
sees as an error of kind `cancelled`.

A model's answer and a tool's may have a `delay_ms`, and a model's a `when`, which limits the requests it fits.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from runvil import _native
from runvil.errors import MODEL_ERROR_KINDS, ModelError, RepliesError
from runvil.packs import SEGMENT_RULE, is_segment
from runvil.reply import USAGE, BackendReply, Reply
from runvil.texts import is_unicode, to_json

if TYPE_CHECKING:
    from collections.abc import Callable

_COUNT = "a whole number, 0 or more and below 2^64"
_REPLY_KEYS = (
    "text",
    "tool_calls",
    "finish_reason",
    "usage",
    "reasoning",
    "model",
    "metrics",
    "degraded",
    "host_built",
)


@dataclass(frozen=True, slots=True)
class When:
    """Which requests a line fits: those of the role, and those with the text in a message."""

    role: str | None
    contains: str | None


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed model call: an HTTP answer, an error inside a started stream, or a broken connection.

    With a `kind` it is a failure of that kind, whatever the rest of it says.
    """

    status: int | None
    body: str
    transport: str | None
    streamed: bool
    kind: str | None = None
    note: str | None = None
    used: int | None = None
    limit: int | None = None

    def to_exception(self) -> ModelError:
        """The exception a broker raises for it."""
        if self.kind is not None:
            return ModelError(self.kind, self.status, self.body or None, self.note, self.used, self.limit)
        if self.transport is not None:
            return ModelError("Transport", detail=self.transport)
        kind = _native.classify(self.status, self.body, self.streamed)
        return ModelError(kind, status=self.status, detail=self.body or None)


@dataclass(frozen=True, slots=True)
class AnswerLine:
    """A model answer: a reply or a failure; neither for a call that is cancelled. `delay` is seconds."""

    reply: Reply | None
    error: Failure | None
    fragments: list[str] | None
    delay: float
    when: When | None

    def pieces(self) -> list[str]:
        """What arrives bit by bit: the fragments, else the whole text at once."""
        if self.fragments is not None:
            return self.fragments
        return [self.reply.text] if self.reply is not None and self.reply.text else []


@dataclass(frozen=True, slots=True)
class PackLine:
    """A pack and its tools' declarations by name."""

    name: str
    tools: dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ToolLine:
    """The answer to one call of a tool, or that the call is cancelled. `delay` is seconds."""

    tool: str
    result: Any
    error: str | None
    delay: float
    dropped: bool = False


@dataclass(frozen=True, slots=True)
class UserLine:
    """What the user types; with None there is no input, or an error, or the question is cancelled."""

    text: str | None
    error: str | None = None
    dropped: bool = False


Line: TypeAlias = AnswerLine | PackLine | ToolLine | UserLine


def parse_line(text: str, where: str) -> Line:
    """Reads one line. `where` names it in errors, as `file:line`.

    Raises:
        RepliesError: The line is not valid.
    """
    try:
        value = json.loads(text, object_pairs_hook=_unique_keys)
    except RecursionError:
        raise RepliesError(f"{where}: the line is nested too deeply") from None
    except ValueError as error:
        raise RepliesError(f"{where}: not valid JSON: {error}") from None
    if not (is_unicode(text) and ("\\ud" not in text.lower() or _is_unicode(value))):
        raise RepliesError(f"{where}: the line has half of a surrogate pair, which no text can hold")
    line = _Fields(value, where, "the line")
    for key, read in _READERS.items():
        if key in line.values:
            return read(line)
    return _read_answer(line)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a key appears twice in one object")
    return values


class _Fields:
    """An object of the line, read field by field; what is left over is an unknown key."""

    def __init__(self, values: Any, where: str, what: str) -> None:
        if not isinstance(values, dict):
            raise RepliesError(f"{where}: {what} must be an object, got {_json_type(values)}")
        self.values: dict[str, Any] = values
        self._known: list[str] = []
        self._where = where
        self._what = what

    def fail(self, message: str) -> RepliesError:
        return RepliesError(f"{self._where}: {message}")

    def take(self, key: str, wanted: str, test: Callable[[Any], bool], *, null: bool = False) -> Any:
        """The value of a key, None when it is absent (or null, where that is allowed)."""
        self._known.append(key)
        if key not in self.values or (null and self.values[key] is None):
            return None
        value = self.values[key]
        if not test(value):
            raise self.fail(f'"{key}" must be {wanted}, got {_json_type(value)}')
        return value

    def text(self, key: str, *, null: bool = False) -> str | None:
        value: str | None = self.take(key, "a string", lambda value: isinstance(value, str), null=null)
        return value

    def required_text(self, key: str) -> str:
        value = self.text(key)
        if value is None:
            raise self.fail(f'{self._what} needs "{key}"')
        return value

    def mark(self, key: str) -> bool:
        """Whether a key is there; then its value must be true."""
        return bool(self.take(key, "true", lambda value: value is True))

    def flag(self, key: str) -> bool:
        return self.take(key, "true or false", lambda value: isinstance(value, bool)) or False

    def objects(self, key: str, what: str) -> list[_Fields] | None:
        values = self.take(key, "a list", lambda value: isinstance(value, list), null=True)
        return None if values is None else [_Fields(value, self._where, what) for value in values]

    def object(self, key: str, *, null: bool = False) -> _Fields | None:
        value = self.take(key, "an object", lambda value: isinstance(value, dict), null=null)
        return None if value is None else _Fields(value, self._where, f'"{key}"')

    def delay(self) -> float:
        """`delay_ms` in seconds."""
        value = self.take(
            "delay_ms", "a number of milliseconds, 0 or more", lambda value: _is_number(value) and value >= 0
        )
        return (value or 0) / 1000

    def finish(self) -> None:
        unknown = [key for key in self.values if key not in self._known]
        if unknown:
            raise self.fail(f'{self._what} has the unknown key "{unknown[0]}"; keys: {", ".join(self._known)}')


def _read_pack(line: _Fields) -> PackLine:
    name = line.required_text("pack")
    tools: dict[str, dict[str, Any]] = {}
    for tool in line.objects("tools", "a tool") or []:
        tool_name = tool.required_text("name")
        if tool_name in tools:
            raise line.fail(f'pack "{name}" has two tools named "{tool_name}"')
        parameters = tool.take("parameters", "an object", lambda value: isinstance(value, dict))
        tools[tool_name] = {
            "description": tool.text("description") or "",
            "parameters": {"type": "object", "properties": {}} if parameters is None else parameters,
            "trusted": tool.flag("trusted"),
            "structured": tool.flag("structured"),
        }
        tool.finish()
    line.finish()
    for what, checked in [("pack", name), *(("tool", tool_name) for tool_name in tools)]:
        if not is_segment(checked):
            raise line.fail(f'invalid {what} name "{checked}": {SEGMENT_RULE}')
    return PackLine(name, tools)


def _read_tool(line: _Fields) -> ToolLine:
    tool = line.required_text("tool")
    if tool.count("/") != 1:
        raise line.fail(f'"tool" must be a path of a pack and a tool, such as "web/search", got "{tool}"')
    error = line.text("error")
    result = line.take("result", "a value", lambda value: value is not None)
    dropped = line.mark("dropped")
    delay = line.delay()
    line.finish()
    if (result is not None) + (error is not None) + dropped != 1:
        raise line.fail('a tool line needs either "result" or "error" or "dropped"')
    return ToolLine(tool, result, error, delay, dropped)


def _read_user(line: _Fields) -> UserLine:
    text = line.text("user", null=True)
    error, dropped = line.text("error"), line.mark("dropped")
    line.finish()
    if (text is not None) + (error is not None) + dropped > 1:
        raise line.fail('a user line has a text, or null and perhaps "error" or "dropped"')
    return UserLine(text, error, dropped)


_READERS: dict[str, Callable[[_Fields], Line]] = {"pack": _read_pack, "tool": _read_tool, "user": _read_user}


def _read_answer(line: _Fields) -> AnswerLine:
    reply = _read_reply(line)
    fragments = line.take("fragments", "a list of strings", _is_texts)
    delay = line.delay()
    error = _read_error(line, fragments is not None)
    dropped = line.mark("dropped")
    when = _read_when(line)
    line.finish()
    held = [key for key in _REPLY_KEYS if key in line.values]
    if dropped:
        held += [key for key in ("error", "fragments") if key in line.values]
        if held:
            raise line.fail(f'"dropped" cannot stand beside "{held[0]}": a dropped call has no answer')
        return AnswerLine(None, None, None, delay, when)
    if error is not None:
        if held:
            raise line.fail(f'"error" cannot stand beside "{held[0]}": a line is a reply or a failure')
        return AnswerLine(None, error, fragments, delay, when)
    if fragments is not None:
        joined = "".join(fragments)
        if reply.text is not None and reply.text != joined:
            raise line.fail('"fragments" joined must give "text"')
        reply.text = joined
    return AnswerLine(reply, None, fragments, delay, when)


def _read_reply(line: _Fields) -> Reply:
    fields: dict[str, Any] = {
        "text": line.text("text", null=True),
        "tool_calls": _read_calls(line),
        "finish_reason": line.text("finish_reason", null=True),
        "usage": _read_usage(line),
        "reasoning": line.text("reasoning", null=True),
        "model": line.text("model", null=True),
        "metrics": line.take("metrics", "an object", lambda value: isinstance(value, dict), null=True),
    }
    degraded = line.take("degraded", "a list of strings", _is_texts)
    if not line.mark("host_built"):
        return BackendReply(**fields, degraded=degraded or ())
    if degraded:
        raise line.fail('"degraded" cannot stand beside "host_built": nobody had to read such a reply')
    return Reply(**fields)


def _read_calls(line: _Fields) -> list[dict[str, Any]] | None:
    calls = line.objects("tool_calls", "a tool call")
    if calls is None:
        return None
    read = []
    for call in calls:
        name, identifier = call.text("name"), call.text("id")
        arguments = call.take(
            "arguments", "an object or a string", lambda value: isinstance(value, dict | str), null=True
        )
        call.finish()
        read.append({"id": identifier or "", "name": name or "", "arguments": arguments})
    return read


def _read_usage(line: _Fields) -> dict[str, int] | None:
    usage = line.object("usage", null=True)
    if usage is None:
        return None
    counts = {key: usage.take(key, _COUNT, _is_count, null=True) for key in USAGE}
    usage.finish()
    return {key: count for key, count in counts.items() if count is not None}


def _read_error(line: _Fields, streamed: bool) -> Failure | None:
    error = line.object("error")
    if error is None:
        return None
    kind = error.text("kind")
    if kind is not None and kind not in MODEL_ERROR_KINDS:
        raise line.fail(f'"kind" must be one of {", ".join(MODEL_ERROR_KINDS)}, got {to_json(kind)}')
    # A kind may come with whatever status a broker of the application's own gave it.
    least, most = (100, 599) if kind is None else (0, 65535)
    status = error.take("status", "an HTTP status", lambda value: _is_count(value) and least <= value <= most)
    body, transport = error.text("body"), error.text("transport")
    note = error.text("note")
    used, limit = (error.take(key, _COUNT, _is_count) for key in ("used", "limit"))
    error.finish()
    with_kind = [key for key in ("note", "used", "limit") if key in error.values]
    if kind is None and with_kind:
        raise line.fail(f'"{with_kind[0]}" needs "kind", which says what failed')
    if kind is not None and transport is not None:
        raise line.fail('"transport" cannot stand beside "kind"; the "kind" of a broken connection is "Transport"')
    if transport is not None and (status is not None or body is not None):
        raise line.fail('"transport" cannot stand beside "status" or "body"')
    if kind is None and status is None and body is None and transport is None:
        raise line.fail('"error" needs "status", "body", "transport" or "kind"')
    if status is not None and streamed:
        raise line.fail('an "error" with a "status" comes before any of the answer: leave out "fragments" or "status"')
    return Failure(status, body or "", transport, status is None, kind, note, used, limit)


def _read_when(line: _Fields) -> When | None:
    when = line.object("when")
    if when is None:
        return None
    role, contains = when.text("role"), when.text("contains")
    when.finish()
    if role is None and contains is None:
        raise line.fail('"when" needs "role" or "contains"')
    return When(role, contains)


def _is_unicode(value: Any) -> bool:
    try:
        to_json(value).encode()
    except ValueError:
        return False
    return True


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value  # NaN is no number


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**64


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _json_type(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), f"the number {value}")
