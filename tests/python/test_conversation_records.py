"""The rules for one record, their order and their texts; the names of the cases are those of the specification."""

from __future__ import annotations

import collections
import enum
import types
from typing import TYPE_CHECKING, Any

import pytest

import runvil

if TYPE_CHECKING:
    from collections.abc import Callable

CONTENT = "content must be a string or a non-empty array of content parts"
ROLES = "known roles: system, user, assistant, tool"
CALL: dict[str, Any] = {"id": "c1", "name": "w"}
NO_ROLES: list[Any] = [5, True, None, {}, []]
NO_CONTENTS: list[Any] = [5, 1.5, True, None, {"a": 1}, {}, [], ()]
NO_IMAGES: list[dict[str, Any]] = [
    {},  # REC-20
    {"image_url": {"detail": "high"}},
    {"image_url": "data:"},
    {"image_url": {"url": 5}},
    {"image_url": {}},
    {"image_url": {"url": None}},
]
NO_TEXTS: list[dict[str, Any]] = [{}, {"text": 5}, {"text": None}]


def refusal(record: object, before: int = 0) -> runvil.ConversationError:
    """How a list of this many user records refuses the record, and that it stays as it was."""
    conv = runvil.Conversation().extend([{"role": "user", "content": "u"}] * before)
    with pytest.raises(runvil.ConversationError) as caught:
        conv.append(record)
    assert conv.texts() == ["u"] * before
    assert caught.value.message == str(caught.value)
    assert caught.value.position == before + 1
    return caught.value


def user(content: object, **fields: object) -> dict[str, object]:
    return {"role": "user", "content": content, **fields}


def assistant(calls: object) -> dict[str, object]:
    return {"role": "assistant", "content": "", "tool_calls": calls}


REFUSED = [
    # A record's shape and role.
    pytest.param(None, "must be a message table", "record_not_table", id="BLD-28"),
    pytest.param("hello", "must be a message table", "record_not_table", id="BLD-29"),
    pytest.param(42, "must be a message table", "record_not_table", id="BLD-30 number"),
    pytest.param(True, "must be a message table", "record_not_table", id="BLD-30 boolean"),
    pytest.param(["a"], "must be a message table", "record_not_table", id="REC-59"),
    pytest.param([], "must be a message table", "record_not_table", id="REC-59 empty"),
    pytest.param({}, f"role must be a string, one of: {ROLES[13:]}", "role_not_string", id="REC-03"),
    pytest.param({"content": "x"}, f"role must be a string, one of: {ROLES[13:]}", "role_not_string", id="REC-04"),
    *(
        pytest.param(
            {"role": role, "content": "x"},
            f"role must be a string, one of: {ROLES[13:]}",
            "role_not_string",
            id=f"REC-05 {role}",
        )
        for role in NO_ROLES
    ),
    *(
        pytest.param(
            {"role": role, "content": "x"}, f'role "{shown}" is unknown; {ROLES}', "role_unknown", id=f"REC-07 {shown}"
        )
        for role, shown in [
            ("wizard", "wizard"),
            ("User", "User"),
            ("", ""),
            (" user", " user"),
            ('a"b\\c\nd\x7f', 'a\\"b\\\\c\\nd\\u007f'),  # REC-08
            ("developer", "developer"),
        ]
    ),
    # Content.
    pytest.param({"role": "user"}, CONTENT, "content_invalid", id="REC-09"),
    *(pytest.param(user(content), CONTENT, "content_invalid", id=f"REC-10 {content}") for content in NO_CONTENTS),
    pytest.param(user({"type": "text", "text": "a"}), CONTENT, "content_invalid", id="BLD-23"),
    # Tool call ids.
    pytest.param(user("x", tool_call_id=7), "tool_call_id must be a string", "tool_call_id_not_string", id="REC-27"),
    pytest.param(
        {"role": "tool", "content": "x", "tool_call_id": 7},
        "tool_call_id must be a string",
        "tool_call_id_not_string",
        id="REC-28",
    ),
    pytest.param(
        {"role": "tool", "content": "x", "tool_call_id": None},
        "is a tool message and must set a string tool_call_id",
        "tool_call_id_missing",
        id="REC-29 none is absent",
    ),
    pytest.param(
        {"role": "tool", "content": "x"},
        "is a tool message and must set a string tool_call_id",
        "tool_call_id_missing",
        id="REC-30",
    ),
    *(
        pytest.param(
            {"role": role, "content": "x", "tool_call_id": "c1"},
            "sets a tool_call_id but is not a tool message",
            "tool_call_id_misplaced",
            id=f"REC-32 {role}",
        )
        for role in ("user", "assistant", "system")
    ),
    # Tool calls.
    *(
        pytest.param(assistant(calls), "tool_calls must be an array", "tool_calls_not_array", id=f"REC-34 {calls}")
        for calls in ("raw", 5, True, CALL, {})
    ),
]


@pytest.mark.parametrize(("record", "text", "code"), REFUSED)
@pytest.mark.parametrize("before", [0, 2])
def test_a_record_is_refused(record: object, text: str, code: str, before: int) -> None:
    error = refusal(record, before)
    assert (error.message, error.code) == (f"messages[{before + 1}] {text}", code)
    assert (error.part, error.call) == (None, None)


TYPED = "must be a table with a string type field"
PARTS = [
    pytest.param(["bare"], 1, TYPED, "part_not_table", id="REC-13"),
    pytest.param([{"type": "text", "text": "ok"}, "x"], 2, TYPED, "part_not_table", id="REC-14"),
    pytest.param([{"text": "no type"}], 1, TYPED, "part_not_table", id="REC-15"),
    pytest.param([{"type": 5}], 1, TYPED, "part_not_table", id="REC-15 number"),
    pytest.param([{"type": None}], 1, TYPED, "part_not_table", id="REC-15 none"),
    pytest.param([["text"]], 1, TYPED, "part_not_table", id="REC-16"),
    pytest.param(
        [{"type": "text", "text": "ok"}, {"type": "video"}],
        2,
        'has unknown type "video"; known types: text, image_url',
        "part_type_unknown",
        id="REC-17",
    ),
    pytest.param(
        [{"type": "Text"}], 1, 'has unknown type "Text"; known types: text, image_url', "part_type_unknown", id="REC-18"
    ),
    *(
        pytest.param(
            [{"type": "text", **rest}],
            1,
            "is a text part and must set a string text field",
            "text_part_invalid",
            id=f"REC-19 {rest}",
        )
        for rest in NO_TEXTS
    ),
    *(
        pytest.param(
            [{"type": "image_url", **rest}],
            1,
            "is an image_url part and must set an image_url table with a string url field",
            "image_part_invalid",
            id=f"REC-21 {rest}",
        )
        for rest in NO_IMAGES
    ),
    pytest.param(
        [{"type": "video"}, {}],
        1,
        'has unknown type "video"; known types: text, image_url',
        "part_type_unknown",
        id="REC-25",
    ),
]


@pytest.mark.parametrize(("parts", "part", "text", "code"), PARTS)
def test_a_content_part_is_refused(parts: object, part: int, text: str, code: str) -> None:
    error = refusal(user(parts))
    assert (error.message, error.code) == (f"messages[1] content part {part} {text}", code)
    assert (error.part, error.call) == (part, None)


CALLS = [
    *(
        pytest.param([call], 1, "must be a table", "call_not_table", id=f"REC-38 {call}")
        for call in ("raw", 5, ["a"], None)
    ),
    pytest.param([{"name": "w"}], 1, "must set a string id", "call_id_not_string", id="REC-39"),
    pytest.param([{"id": 5, "name": "w"}], 1, "must set a string id", "call_id_not_string", id="REC-40"),
    pytest.param([{"id": None, "name": "w"}], 1, "must set a string id", "call_id_not_string", id="REC-40 none"),
    pytest.param([{"id": "c1"}], 1, "must set a string name", "call_name_not_string", id="REC-41"),
    pytest.param([{"id": "c1", "name": 5}], 1, "must set a string name", "call_name_not_string", id="REC-41 number"),
    pytest.param([{}], 1, "must set a string id", "call_id_not_string", id="ORD-14"),
    pytest.param([{"arguments": "raw"}], 1, "must set a string id", "call_id_not_string", id="REC-42"),
    *(
        pytest.param(
            [CALL | {"arguments": arguments}],
            1,
            "arguments must be a table",
            "call_arguments_not_table",
            id=f"REC-44 {arguments}",
        )
        for arguments in ("raw", '{"a":1}', 5, True, [1, 2], [], ())  # REC-43, REC-45
    ),
    pytest.param(
        [{"id": "c1", "name": "a"}, {"id": "c2"}], 2, "must set a string name", "call_name_not_string", id="REC-52"
    ),
    pytest.param([{"id": "c1"}, {"name": "x"}], 1, "must set a string name", "call_name_not_string", id="ORD-15"),
]


@pytest.mark.parametrize(("calls", "call", "text", "code"), CALLS)
def test_a_tool_call_is_refused(calls: object, call: int, text: str, code: str) -> None:
    error = refusal(assistant(calls), before=1)
    assert (error.message, error.code) == (f"messages[2] tool_calls[{call}] {text}", code)
    assert (error.part, error.call) == (None, call)


ORDER = [
    pytest.param({"extra": print}, "record_not_json", id="ORD-01"),
    pytest.param({"role": "wizard", "content": 5}, "role_unknown", id="ORD-05"),
    pytest.param(user(5, tool_call_id=7), "content_invalid", id="ORD-06"),
    pytest.param(user("x", tool_call_id=7, tool_calls="raw"), "tool_call_id_not_string", id="ORD-07"),
    pytest.param(user("x", tool_call_id="c", tool_calls="raw"), "tool_call_id_misplaced", id="ORD-08"),
    pytest.param({"role": "tool", "content": "x", "tool_calls": "raw"}, "tool_call_id_missing", id="ORD-09"),
    pytest.param(user("x", tool_calls="raw", meta="x" * 9000), "tool_calls_not_array", id="ORD-10"),
    pytest.param({"role": "system", "content": "x", "meta": "x" * 9000}, "meta_too_large", id="ORD-11"),
    pytest.param({"role": "system", "content": 5}, "content_invalid", id="ORD-12"),
    pytest.param(user([{"type": "text", "text": ""}, 5], tool_calls=[5]), "part_not_table", id="ORD-13"),
    pytest.param({"role": "system", "content": "x"}, "late_system", id="SYS-03"),
]


@pytest.mark.parametrize(("record", "code"), ORDER)
def test_the_first_broken_rule_is_told(record: object, code: str) -> None:
    assert refusal(record, before=3).code == code


ACCEPTED = [
    pytest.param({"role": "system", "content": "a"}, {}, id="REC-01 system"),
    pytest.param(user("a"), {}, id="REC-01 user"),
    pytest.param({"role": "assistant", "content": "a"}, {}, id="REC-01 assistant"),
    pytest.param({"role": "tool", "content": "r", "tool_call_id": "c1"}, {}, id="REC-02"),
    pytest.param(user(""), {}, id="REC-11"),
    pytest.param(user([{"type": "text", "text": ""}]), {}, id="REC-12"),
    pytest.param(user([{"type": "image_url", "image_url": {"url": ""}}]), {}, id="REC-22"),
    pytest.param(
        user([{"type": "image_url", "image_url": {"url": "u", "detail": "x"}}]),
        {"content": [{"type": "image_url", "image_url": {"url": "u"}}]},
        id="REC-23",
    ),
    pytest.param(
        user(
            [{"type": "text", "text": "look", "cache": True}, {"type": "image_url", "image_url": {"url": "u"}, "x": 1}]
        ),
        {"content": [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "u"}}]},
        id="BLD-36",
    ),
    pytest.param({"role": "tool", "content": "r", "tool_call_id": ""}, {}, id="REC-33"),
    pytest.param(assistant([]), {"tool_calls": None}, id="REC-37"),
    pytest.param(assistant(None), {"tool_calls": None}, id="REC-35 none is absent"),
    pytest.param(assistant([CALL]), {"tool_calls": [CALL | {"arguments": {}}]}, id="REC-46"),
    pytest.param(assistant([CALL | {"arguments": None}]), {"tool_calls": [CALL | {"arguments": {}}]}, id="REC-47 none"),
    pytest.param(assistant([CALL | {"arguments": {"path": "notes.txt", "limit": 3}}]), {}, id="REC-48"),
    pytest.param(assistant([CALL | {"arguments": {"tags": {}}}]), {}, id="REC-49"),
    pytest.param(assistant([CALL | {"arguments": {"tags": [], "x": None}}]), {}, id="REC-50 REC-51"),
    pytest.param(
        assistant([CALL | {"type": "function", "arguments": {}}]),
        {"tool_calls": [CALL | {"arguments": {}}]},
        id="BLD-38",
    ),
    pytest.param(assistant([{"id": "", "name": "", "arguments": {}}]), {}, id="REC-53"),
    pytest.param(assistant([CALL | {"arguments": {}}, CALL | {"arguments": {}}]), {}, id="REC-54"),
    pytest.param(user("x", tool_calls=[CALL | {"arguments": {}}]), {}, id="REC-55"),
    pytest.param({"role": "tool", "content": [{"type": "text", "text": "r"}], "tool_call_id": "c"}, {}, id="REC-58"),
    pytest.param(user("x", meta={"k": [1, None]}), {}, id="MET-05"),
    pytest.param(user("x", meta=False), {}, id="MET-02"),
    pytest.param(user("x", meta={}), {}, id="MET-03"),
    pytest.param(user("x", meta=None), {}, id="MET-04"),
    pytest.param(user("x", meta="text"), {}, id="MET-01 string"),
    pytest.param(user("x", meta=1.5), {}, id="MET-01 number"),
]


@pytest.mark.parametrize(("record", "read"), ACCEPTED)
def test_a_record_is_accepted_and_reads_as_it_was_given(record: dict[str, Any], read: dict[str, Any]) -> None:
    view = runvil.Conversation().append(record)[0]
    expected: dict[str, Any] = {"tool_calls": None, "tool_call_id": None, "meta": None, **record, **read}
    for field, value in expected.items():
        assert getattr(view, field) == value, field
    present = {name: value for name, value in expected.items() if value is not None}
    assert view.to_dict() == present
    order = ("role", "content", "tool_calls", "tool_call_id", "meta")
    assert list(view.to_dict()) == [name for name in order if name in present]


def test_other_fields_are_dropped() -> None:  # BLD-33, BLD-34, BLD-35, CMP-40
    extra = {"name": "bob", "weight": 3, "extra": {"nested": True}, "api_key": "secret", "nothing": None}
    conv = runvil.Conversation().append(user("hi", **extra))
    assert conv[0].to_dict() == {"role": "user", "content": "hi"}
    assert conv.compose().to_json() == b'[{"role":"user","content":"hi"}]'


NO_JSON = [
    pytest.param(print, "unsupported value type `builtin_function_or_method`", id="JSN-01"),
    pytest.param(lambda: 0, "unsupported value type `function`", id="JSN-01 lambda"),
    pytest.param({1}, "unsupported value type `set`", id="set"),
    pytest.param(b"x", "unsupported value type `bytes`", id="bytes"),
    pytest.param(runvil.Conversation(), "unsupported value type `Conversation`", id="BLD-32 JSN-13"),
    pytest.param({"a": {"b": [print]}}, "unsupported value type `builtin_function_or_method`", id="JSN-05"),
    pytest.param(float("nan"), "a number is not finite: nan", id="JSN-20 nan"),
    pytest.param(float("-inf"), "a number is not finite: inf", id="JSN-20 infinity"),
    pytest.param(2**64, "an integer does not fit 64 bits", id="large integer"),
    pytest.param(-(2**63) - 1, "an integer does not fit 64 bits", id="small integer"),
    pytest.param("\ud800", "a string holds a lone surrogate", id="JSN-21"),
    pytest.param({"\udfff": 1}, "a string holds a lone surrogate", id="JSN-21 key"),
    pytest.param({3: "x"}, "unsupported key type `int`", id="JSN-22"),
    pytest.param({"a": 1, None: 2}, "unsupported key type `NoneType`", id="JSN-24"),
]


@pytest.mark.parametrize(("value", "reason"), NO_JSON)
def test_a_value_has_no_json_form(value: object, reason: str) -> None:
    whole = f"messages[2] must be a JSON-representable message table: {reason}"
    # JSN-02, JSN-03, JSN-04: wherever in the record it stands, and whatever else is wrong.
    for record in (user(value), user("x", extra=value), user("x", meta=value), {"extra": value}):
        assert (refusal(record, before=1).message, refusal(record, before=1).code) == (whole, "record_not_json")
    conv = runvil.Conversation().user("u")
    edits: dict[str, Callable[[], object]] = {
        "content": lambda: conv.system(value),  # JSN-06
        "tool_calls": lambda: conv.assistant("a", [{"id": "c", "name": "n", "arguments": value}]),  # JSN-08
        "tool_call_id": lambda: conv.tool("r", value),  # JSN-09
        "meta": lambda: conv.user("a", value),  # JSN-10
    }
    for field, edit in edits.items():
        with pytest.raises(runvil.ConversationError) as caught:
            edit()
        # JSN-30, ORD-19
        assert caught.value.message == f"messages[2] {field} must be JSON-representable: {reason}"
        assert (caught.value.code, caught.value.position, len(conv)) == ("field_not_json", 2, 1)


def nested(levels: int) -> Any:
    value: Any = 0
    for level in range(levels):
        value = [value] if level % 2 else {"k": value}
    return value


def test_the_depth_of_a_field_is_limited() -> None:  # JSN-19
    reason = "nesting is deeper than 128 levels"
    conv = runvil.Conversation()
    conv.user("a", nested(128)).append(user("b", meta=nested(128)))
    assert conv[0].meta == conv[1].meta == nested(128)
    deep: list[Callable[[], object]] = [
        lambda: conv.user("a", nested(129)),
        lambda: conv.append(user("b", meta=nested(129))),
        lambda: conv.append(user("b", extra=nested(129))),
        lambda: conv.append(user("b", meta=nested(100_000))),
        lambda: conv.assistant("", [CALL | {"arguments": nested(128)}]),
    ]
    for edit in deep:
        with pytest.raises(runvil.ConversationError, match=reason):
            edit()
    # An array of calls and a call are the first two of its levels.
    conv.assistant("", [CALL | {"arguments": {"k": nested(125)}}])
    with pytest.raises(runvil.ConversationError, match=reason):
        conv.assistant("", [CALL | {"arguments": {"k": nested(126)}}])


def test_a_value_within_itself_is_refused() -> None:  # JSN-17, JSN-18
    loop: list[object] = []
    loop += [loop, loop]
    with pytest.raises(runvil.ConversationError, match="nesting is deeper than 128 levels"):
        runvil.Conversation().user("a", loop)
    twice = {"a": 1}
    assert runvil.Conversation().user("a", [twice, twice])[0].meta == [twice, twice]


def test_builders_convert_before_they_check() -> None:
    conv = runvil.Conversation()
    edits: list[tuple[Callable[[], object], str]] = [
        (lambda: conv.user(5, print), "messages[1] meta must be"),  # ORD-02
        (lambda: conv.assistant(print, print, print), "messages[1] content must be"),  # ORD-03
    ]
    for edit, text in edits:
        with pytest.raises(runvil.ConversationError) as caught:
            edit()
        assert caught.value.message.startswith(text)


def test_missing_arguments_are_type_errors() -> None:
    conv: Any = runvil.Conversation()
    for edit in (conv.user, conv.system, conv.assistant, conv.tool, conv.append, lambda: conv.tool("r")):
        with pytest.raises(TypeError):
            edit()
    assert len(conv) == 0


SIZES = [
    pytest.param("x" * 9000, 9002, id="MET-06"),
    pytest.param("x" * 8190, None, id="MET-07"),
    pytest.param("x" * 8191, 8193, id="MET-08"),
    pytest.param("é" * 4095, None, id="MET-09"),
    pytest.param("é" * 4096, 8194, id="MET-10"),
    pytest.param("🦀" * 2047, None, id="MET-11"),
    pytest.param("🦀" * 2048, 8194, id="MET-11 larger"),
    pytest.param('"' * 4095, None, id="MET-12"),
    pytest.param('"' * 4096, 8194, id="MET-12 larger"),
    pytest.param("\\" * 4095, None, id="MET-13 backslash"),
    pytest.param("\n" * 4095, None, id="MET-13 newline"),
    pytest.param("\x01" * 1365, None, id="MET-14"),
    pytest.param("\x01" * 1366, 8198, id="MET-14 larger"),
    pytest.param("/" * 8190, None, id="MET-15 slash"),
    pytest.param("\x7f" * 8190, None, id="MET-15 delete"),
    pytest.param({"k": "x" * 8184}, None, id="MET-16"),
    pytest.param({"k": "x" * 8185}, 8193, id="MET-16 larger"),
    pytest.param([1] * 4095, None, id="MET-17"),
    pytest.param([1] * 4096, 8193, id="MET-17 larger"),
]


@pytest.mark.parametrize(("meta", "size"), SIZES)
def test_the_size_of_metadata_is_limited(meta: object, size: int | None) -> None:
    conv = runvil.Conversation()
    edits: list[Callable[[], runvil.Conversation]] = [
        lambda: conv.user("hi", meta),
        lambda: conv.append(user("hi", meta=meta)),  # MET-19
    ]
    for edit in edits:
        if size is None:
            assert edit()[-1].meta == meta
            continue
        with pytest.raises(runvil.ConversationError) as caught:
            edit()
        assert caught.value.message == f"messages[1] meta is {size} bytes as JSON; the limit is 8192 bytes"
        assert (caught.value.code, len(conv)) == ("meta_too_large", 0)  # MET-18


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


def test_kinds_of_plain_types_count_as_plain_types() -> None:
    arguments = collections.OrderedDict(z=Colour.RED, a=Level.HIGH, t=(1, 2), m=types.MappingProxyType({"k": True}))
    conv = runvil.Conversation().assistant(Colour.RED, ({"id": "c", "name": "n", "arguments": arguments},), meta=(1,))
    plain = {"z": "red", "a": 3, "t": [1, 2], "m": {"k": True}}
    assert conv[0].content == "red"
    assert conv[0].tool_calls == [{"id": "c", "name": "n", "arguments": plain}]
    assert list(conv[0].tool_calls[0]["arguments"]) == ["z", "a", "t", "m"]
    assert conv[0].meta == [1]
    by_dict = runvil.Conversation().append(
        {
            "role": "assistant",
            "content": "red",
            "tool_calls": [{"id": "c", "name": "n", "arguments": plain}],
            "meta": [1],
        }
    )
    assert by_dict == conv


NUMBERS = [0, -1, 2**63 - 1, -(2**63), 2**64 - 1, 0.0, -0.0, 3.0, 0.1, 1e16, 1e-7, 5e-324, 1.7976931348623157e308]


def test_numbers_keep_their_kind_and_their_digits() -> None:  # JSN-26, JSN-27
    conv = runvil.Conversation().user("a", meta=NUMBERS)
    back = conv[0].meta
    assert back == NUMBERS
    assert [type(number) for number in back] == [type(number) for number in NUMBERS]
    assert str(back[6]) == "-0.0"


def test_an_error_of_a_mapping_is_raised_as_it_is() -> None:
    class Broken(collections.abc.Mapping[str, int]):
        def __getitem__(self, key: str) -> int:
            raise KeyError(key)

        def __iter__(self) -> Any:
            raise ZeroDivisionError

        def __len__(self) -> int:
            return 1

    conv = runvil.Conversation()
    with pytest.raises(ZeroDivisionError):
        conv.user("a", Broken())
    with pytest.raises(ZeroDivisionError):
        conv.append(user("a", extra=Broken()))
    assert len(conv) == 0
