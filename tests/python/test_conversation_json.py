"""Conversations read from JSON and written to it, in the record form and in that of OpenAI's chat API."""

from __future__ import annotations

import json
from typing import Any

import pytest

import runvil

FUNCTION = {"name": "w", "arguments": '{ "q" : [1, 2.0, "é"] , "a": null }'}
OPENAI: list[dict[str, Any]] = [
    {"role": "system", "content": "be terse", "name": "dropped"},
    {"role": "user", "content": [{"type": "text", "text": "hi"}]},
    {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": FUNCTION}],
    },
    {"role": "tool", "content": "r", "tool_call_id": "c1"},
    {"role": "assistant", "content": "done", "tool_calls": None, "tool_call_id": None},
]
RECORDS: list[dict[str, Any]] = [
    {"role": "system", "content": "be terse"},
    {"role": "user", "content": [{"type": "text", "text": "hi"}]},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c1", "name": "w", "arguments": {"q": [1, 2.0, "é"], "a": None}}],
    },
    {"role": "tool", "content": "r", "tool_call_id": "c1"},
    {"role": "assistant", "content": "done"},
]


def dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def ways(value: object) -> list[Any]:
    """The same data as every kind of thing `from_json` takes."""
    text = json.dumps(value)
    data = json.dumps(value, ensure_ascii=False, indent=1).encode()
    ready = [text, data, bytearray(data), memoryview(data), memoryview(bytearray(data))]
    return [*ready, value, tuple(value)] if isinstance(value, list) else ready


@pytest.mark.parametrize("form", [OPENAI, RECORDS], ids=["openai", "records"])
def test_every_form_reads_as_the_same_records(form: list[dict[str, Any]]) -> None:
    for data in ways(form):
        conv = runvil.Conversation.from_json(data)
        assert [view.to_dict() for view in conv] == RECORDS
        assert conv.to_json().decode() == dumps(RECORDS)
        conv.check()


def test_the_forms_are_told_apart_record_by_record() -> None:
    mixed = [OPENAI[0], RECORDS[1], OPENAI[2], RECORDS[3], RECORDS[2] | {"meta": {"k": 1}}, OPENAI[3]]
    for data in ways(mixed):
        conv = runvil.Conversation.from_json(data)
        assert conv[2].tool_calls == conv[4].tool_calls
        assert conv[4].meta == {"k": 1}


def test_the_wire_form_is_written_record_by_record() -> None:
    conv = runvil.Conversation.from_json(RECORDS).assistant("more", None, {"k": 1})
    wire = json.loads(conv.to_json(form="openai"))
    call = {"id": "c1", "type": "function", "function": {"name": "w", "arguments": '{"q":[1,2.0,"é"],"a":null}'}}
    assert wire[2]["tool_calls"] == [call]
    assert wire[4:] == [{"role": "assistant", "content": "done"}, {"role": "assistant", "content": "more"}]
    assert json.loads(conv.to_json())[5] == {"role": "assistant", "content": "more", "meta": {"k": 1}}
    back = runvil.Conversation.from_json(conv.to_json(form="openai"))
    assert [view.to_dict() | {"meta": 0} for view in back] == [view.to_dict() | {"meta": 0} for view in conv]
    with pytest.raises(ValueError, match="form must be"):
        conv.to_json(form="xml")  # type: ignore[arg-type]


def chat_call(arguments: object) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "function": {"name": "n", "arguments": arguments}}],
    }


USER = {"role": "user", "content": "u"}
CONTENT = "content must be a string or a non-empty array of content parts"
LATE = (
    "is a system message after a non-system message; system messages lead the list, "
    "and only a compactor can change the leading block"
)
NO_ARGUMENTS: list[Any] = ["", "not json", "[1]", "null", "{} x", 5, [], '{"a":}']
REFUSED = [
    pytest.param(
        [USER, {"role": "developer", "content": "x"}],
        2,
        'role "developer" is unknown; known roles: system, user, assistant, tool',
        id="developer",
    ),
    pytest.param(
        [{"role": "function", "content": "x"}],
        1,
        'role "function" is unknown; known roles: system, user, assistant, tool',
        id="function",
    ),
    pytest.param([{"role": "assistant", "content": None}], 1, CONTENT, id="null content without calls"),
    pytest.param([RECORDS[2] | {"content": None}], 1, CONTENT, id="null content in the record form"),
    pytest.param([USER, {"role": "system", "content": "s"}, {"role": "user"}], 2, LATE, id="a late system record"),
    pytest.param([USER, {"role": "user"}, {"role": "system", "content": "s"}], 2, CONTENT, id="the first problem"),
    *(
        pytest.param(
            [USER, chat_call(arguments)], 2, "tool_calls[1] arguments must be a table", id=f"arguments {arguments}"
        )
        for arguments in NO_ARGUMENTS
    ),
    pytest.param(
        [chat_call('{"a":18446744073709551616}')],
        1,
        "must be a JSON-representable message table: tool_calls[1] arguments: an integer does not fit 64 bits",
        id="a large integer in arguments",
    ),
    pytest.param([5], 1, "must be a message table", id="a number"),
    pytest.param([[USER]], 1, "must be a message table", id="a list"),
    pytest.param(
        [{"role": "tool", "content": "x", "tool_call_id": None}],
        1,
        "is a tool message and must set a string tool_call_id",
        id="null id",
    ),
]


@pytest.mark.parametrize(("records", "position", "text"), REFUSED)
def test_the_first_bad_record_is_told(records: list[Any], position: int, text: str) -> None:
    for data in ways(records):
        with pytest.raises(runvil.ConversationError) as caught:
            runvil.Conversation.from_json(data)
        assert (caught.value.message, caught.value.position) == (f"messages[{position}] {text}", position)


def test_arguments_without_a_value_are_empty() -> None:
    for data in ways([chat_call(None)]):
        assert runvil.Conversation.from_json(data)[0].tool_calls == [{"id": "c", "name": "n", "arguments": {}}]
    # In JSON, null is a value; Python's None is an absent field.
    record = {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "name": "n", "arguments": None}]}
    assert len(runvil.Conversation.from_json([record])) == 1
    with pytest.raises(runvil.ConversationError, match="arguments must be a table"):
        runvil.Conversation.from_json(json.dumps([record]))


UNREADABLE = [
    pytest.param("", "invalid_json", "invalid JSON at line 1, column 1", id="nothing"),
    pytest.param("[", "invalid_json", "invalid JSON at line 1, column 2", id="half"),
    pytest.param('[{"role":"user","content":"u"},]', "invalid_json", "invalid JSON at line 1", id="trailing comma"),
    pytest.param('[\n {"role": user}]', "invalid_json", "invalid JSON at line 2, column 11", id="place"),
    pytest.param("[] []", "invalid_json", "invalid JSON at line 1, column 4", id="two values"),
    pytest.param('[{"role":"user","content":"\\ud800"}]', "invalid_json", "invalid JSON at line 1", id="surrogate"),
    pytest.param("[NaN]", "invalid_json", "invalid JSON at line 1", id="not a number"),
    pytest.param("{}", "not_array", "a conversation must be a JSON array of messages", id="object"),
    pytest.param("null", "not_array", "a conversation must be a JSON array of messages", id="null"),
    pytest.param(b"[\xff]", "not_utf8", "the JSON text is not valid UTF-8 at byte offset 1", id="latin"),
    pytest.param("\ud800", "not_utf8", "the JSON text holds a lone surrogate", id="lone surrogate"),
]


@pytest.mark.parametrize(("data", "code", "text"), UNREADABLE)
def test_text_that_is_no_conversation(data: str | bytes, code: str, text: str) -> None:
    with pytest.raises(runvil.ConversationError) as caught:
        runvil.Conversation.from_json(data)
    assert caught.value.message.startswith(text)
    assert (caught.value.code, caught.value.position) == (code, None)


@pytest.mark.parametrize("data", [None, 5, {"role": "user"}, {1}, runvil.Conversation(), iter([])])
def test_other_things_are_type_errors(data: Any) -> None:
    with pytest.raises(TypeError, match="from_json takes bytes, str, a buffer or a list of records"):
        runvil.Conversation.from_json(data)


def test_an_empty_conversation() -> None:
    for data in ways([]):
        assert len(runvil.Conversation.from_json(data)) == 0
    assert runvil.Conversation().to_json() == b"[]"


def test_a_history_is_mended_and_the_changes_are_told() -> None:
    history = [
        {"role": "user", "content": "hi"},
        {"role": "system", "content": "late"},
        {"role": "tool", "content": "lost", "tool_call_id": "gone"},
        chat_call("{}"),
        {"role": "user", "content": "still there?"},
    ]
    conv, changes = runvil.Conversation.repair(history)
    conv.check()
    assert conv.roles() == ["system", "user", "assistant", "tool", "user"]
    assert [(change.position, change.kind) for change in changes] == [
        (2, "system_moved"),
        (3, "orphan_removed"),
        (4, "result_added"),
    ]
    assert "gone" in changes[1].message
    again, nothing = runvil.Conversation.repair(conv)
    assert (again == conv, nothing) == (True, [])
    with pytest.raises(runvil.ConversationError, match=r"messages\[2\] content"):
        runvil.Conversation.repair([*history[:1], {"role": "user"}])
