"""The format of scripted replies, line by line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runvil import RepliesError, ScriptedBroker
from runvil.replies import AnswerLine, PackLine, ToolLine, UserLine, parse_line

if TYPE_CHECKING:
    from pathlib import Path


def answer(value: dict[str, Any]) -> AnswerLine:
    line = parse_line(json.dumps(value), "f:1")
    assert isinstance(line, AnswerLine)
    return line


def test_a_reply_keeps_every_field() -> None:
    line = answer(
        {
            "text": "partial",
            "fragments": ["par", "tial"],
            "delay_ms": 5,
            "model": "served-name",
            "finish_reason": "stop",
            "reasoning": "hmm",
            "usage": {"prompt_tokens": 3400, "completion_tokens": 100, "reasoning_tokens": 0},
            "tool_calls": [
                {"id": "call_1", "name": "web_search", "arguments": {"query": "hi"}},
                {"id": "c", "name": "t", "arguments": "not json"},
            ],
            "when": {"role": "writer", "contains": "text"},
        }
    )
    assert line.reply is not None
    assert line.reply.to_answer() == {
        "text": "partial",
        "tool_calls": [
            {"id": "call_1", "name": "web_search", "arguments": {"query": "hi"}},
            {"id": "c", "name": "t", "arguments": "not json"},
        ],
        "finish_reason": "stop",
        "usage": {"prompt_tokens": 3400, "completion_tokens": 100, "reasoning_tokens": 0},
        "reasoning": "hmm",
        "model": "served-name",
        "metrics": None,
        "degraded": [],
        "host_built": False,
    }
    assert (line.pieces(), line.delay) == (["par", "tial"], 0.005)
    assert line.when is not None
    assert (line.when.role, line.when.contains) == ("writer", "text")


def test_every_field_may_be_left_out() -> None:
    line = answer({})
    assert line.reply is not None
    assert line.error is None
    assert line.when is None
    assert line.pieces() == []
    sent = line.reply.to_answer()
    assert (sent["text"], sent["finish_reason"], sent["model"], sent["usage"]) == (None, None, None, None)


def test_fragments_alone_make_the_text() -> None:
    line = answer({"fragments": ["a", "b"]})
    assert line.reply is not None
    assert line.reply.text == "ab"


def test_a_tool_call_may_lack_what_a_model_may_forget() -> None:
    line = answer({"tool_calls": [{"name": "t"}]})
    assert line.reply is not None
    assert line.reply.to_answer()["tool_calls"] == [{"id": "", "name": "t", "arguments": None}]


@pytest.mark.parametrize(
    ("error", "kind", "status", "detail"),
    [
        ({"status": 400, "body": "maximum context length"}, "ContextOverflow", 400, "maximum context length"),
        ({"status": 418}, "Rejected", 418, None),
        ({"transport": "connection reset"}, "Transport", None, "connection reset"),
        ({"body": "something broke"}, "ServerError", None, "something broke"),
    ],
)
def test_an_error_line_becomes_a_model_error(error: dict[str, Any], kind: str, status: int | None, detail: str) -> None:
    line = answer({"error": error})
    assert line.error is not None
    raised = line.error.to_exception()
    assert (raised.kind, raised.status, raised.detail) == (kind, status, detail)


def test_the_kind_of_an_error_decides_and_has_all_attributes() -> None:
    error = {"kind": "ContextOverflow", "status": 200, "body": "fine", "note": "so", "used": 5000, "limit": 4096}
    line = answer({"error": error})
    assert line.error is not None
    raised = line.error.to_exception()
    assert (raised.kind, raised.status, raised.detail) == ("ContextOverflow", 200, "fine")
    assert (raised.note, raised.used, raised.limit) == ("so", 5000, 4096)
    # The strict rule would call it an overflow.
    line = answer({"error": {"kind": "Rejected", "body": "maximum context length"}, "fragments": ["a"]})
    assert line.error is not None
    assert line.error.to_exception().kind == "Rejected"
    assert line.pieces() == ["a"]


def test_the_other_lines() -> None:
    tool = {
        "name": "search",
        "description": "Finds.",
        "parameters": {"type": "object"},
        "trusted": True,
        "structured": False,
    }
    assert parse_line(json.dumps({"pack": "web", "tools": [tool]}), "f:1") == PackLine(
        "web",
        {"search": {"description": "Finds.", "parameters": {"type": "object"}, "trusted": True, "structured": False}},
    )
    assert parse_line('{"tool": "web/search", "result": "three results", "delay_ms": 1000}', "f:1") == ToolLine(
        "web/search", "three results", None, 1.0
    )
    assert parse_line('{"tool": "web/search", "error": "boom"}', "f:1") == ToolLine("web/search", None, "boom", 0)
    assert parse_line('{"tool": "web/search", "dropped": true}', "f:1") == ToolLine("web/search", None, None, 0, True)
    assert parse_line('{"user": "text"}', "f:1") == UserLine("text")


MISTAKES: list[tuple[str, str]] = [
    ("{", "not valid JSON"),
    ("[]", "the line must be an object, got a list"),
    ('{"text": "a", "text": "b"}', "a key appears twice"),
    ('{"txt": "a"}', 'the line has the unknown key "txt"; keys: text, tool_calls, finish_reason, usage'),
    ('{"text": 3}', '"text" must be a string, got the number 3'),
    ('{"finish_reason": true}', '"finish_reason" must be a string, got a boolean'),
    ('{"usage": "lots"}', '"usage" must be an object, got a string'),
    ('{"usage": {"tokens": 1}}', '"usage" has the unknown key "tokens"; keys: prompt_tokens'),
    ('{"usage": {"prompt_tokens": -1}}', '"prompt_tokens" must be a whole number, 0 or more'),
    ('{"usage": {"prompt_tokens": 18446744073709551616}}', "0 or more and below 2^64"),
    ('{"usage": {"prompt_tokens": 1.5}}', '"prompt_tokens" must be a whole number, 0 or more'),
    ('{"tool_calls": {}}', '"tool_calls" must be a list, got an object'),
    ('{"tool_calls": ["x"]}', "a tool call must be an object, got a string"),
    ('{"tool_calls": [{"function": {}}]}', 'a tool call has the unknown key "function"; keys: name, id, arguments'),
    ('{"tool_calls": [{"name": "t", "arguments": [1]}]}', '"arguments" must be an object or a string, got a list'),
    ('{"fragments": "ab"}', '"fragments" must be a list of strings'),
    ('{"fragments": [1]}', '"fragments" must be a list of strings'),
    ('{"text": "abc", "fragments": ["a"]}', '"fragments" joined must give "text"'),
    ('{"delay_ms": -1}', '"delay_ms" must be a number of milliseconds, 0 or more'),
    ('{"delay_ms": NaN}', '"delay_ms" must be a number of milliseconds, 0 or more'),
    ('{"error": "boom"}', '"error" must be an object, got a string'),
    ('{"error": {}}', '"error" needs "status", "body", "transport" or "kind"'),
    ('{"error": {"status": 99}}', '"status" must be an HTTP status, got the number 99'),
    ('{"error": {"code": 1}}', '"error" has the unknown key "code"; keys: kind, status, body, transport'),
    ('{"error": {"kind": 1}}', '"kind" must be a string, got the number 1'),
    ('{"error": {"kind": "Overflow"}}', '"kind" must be one of ContextOverflow, RateLimited, QuotaExhausted'),
    ('{"error": {"kind": "Overflow"}}', 'Unavailable, got "Overflow"'),
    ('{"error": {"kind": "Transport", "transport": "x"}}', '"transport" cannot stand beside "kind"'),
    ('{"error": {"kind": "Refused", "status": 70000}}', '"status" must be an HTTP status, got the number 70000'),
    ('{"error": {"status": 400, "used": 5}}', '"used" needs "kind", which says what failed'),
    ('{"error": {"kind": "ContextOverflow", "used": -5}}', '"used" must be a whole number, 0 or more'),
    ('{"error": {"kind": "Refused", "status": 400}, "fragments": ["a"]}', 'leave out "fragments" or "status"'),
    ('{"dropped": false}', '"dropped" must be true, got a boolean'),
    ('{"dropped": true, "text": "a"}', '"dropped" cannot stand beside "text"'),
    ('{"dropped": true, "error": {"status": 500}}', '"dropped" cannot stand beside "error"'),
    ('{"host_built": true, "degraded": ["x"]}', '"degraded" cannot stand beside "host_built"'),
    ('{"metrics": [1]}', '"metrics" must be an object, got a list'),
    ('{"error": {"status": 500, "transport": "x"}}', '"transport" cannot stand beside "status" or "body"'),
    ('{"error": {"status": 500}, "text": "a"}', '"error" cannot stand beside "text"'),
    ('{"error": {"status": 500}, "fragments": ["a"]}', 'leave out "fragments" or "status"'),
    ('{"when": {}}', '"when" needs "role" or "contains"'),
    ('{"when": {"round": 1}}', '"when" has the unknown key "round"; keys: role, contains'),
    ('{"when": "writer"}', '"when" must be an object, got a string'),
    ('{"pack": 1}', '"pack" must be a string, got the number 1'),
    ('{"pack": "Web"}', 'invalid pack name "Web": use lower-case ASCII letters'),
    ('{"pack": "web", "tools": [{}]}', 'a tool needs "name"'),
    ('{"pack": "web", "tools": [{"name": "a b"}]}', 'invalid tool name "a b"'),
    ('{"pack": "web", "tools": [{"name": "a"}, {"name": "a"}]}', 'pack "web" has two tools named "a"'),
    ('{"pack": "web", "tools": [{"name": "a", "kind": 1}]}', 'a tool has the unknown key "kind"'),
    ('{"pack": "web", "tools": [{"name": "a", "trusted": 1}]}', '"trusted" must be true or false'),
    ('{"pack": "web", "version": 1}', 'the line has the unknown key "version"; keys: pack, tools'),
    ('{"tool": "search", "result": "x"}', '"tool" must be a path of a pack and a tool, such as "web/search"'),
    ('{"tool": "web/search"}', 'a tool line needs either "result" or "error"'),
    ('{"tool": "web/search", "result": "x", "error": "y"}', 'a tool line needs either "result" or "error"'),
    ('{"tool": "web/search", "result": "x", "dropped": true}', 'a tool line needs either "result" or "error"'),
    ('{"tool": "web/search", "result": "x"}', 'tool "web/search" is declared by no "pack" line'),
    ('{"user": "a", "error": "b"}', 'a user line has a text, or null and perhaps "error" or "dropped"'),
    ('{"user": null, "error": "b", "dropped": true}', "a user line has a text, or null and perhaps"),
    ('{"user": 1}', '"user" must be a string, got the number 1'),
    ('{"user": "a", "delay_ms": 1}', 'the line has the unknown key "delay_ms"; keys: user, error, dropped'),
]


@pytest.mark.parametrize(("line", "words"), MISTAKES)
def test_a_mistake_names_the_line(tmp_path: Path, line: str, words: str) -> None:
    file = tmp_path / "replies.jsonl"
    file.write_text(f'{{"text": "fine"}}\n\n  \n{line}\n', encoding="utf-8")
    with pytest.raises(RepliesError) as caught:
        ScriptedBroker.load(file)
    assert str(caught.value).startswith(f"{file}:4: ")
    assert words in str(caught.value)


def test_a_pack_is_declared_once() -> None:
    with pytest.raises(RepliesError, match='<replies>:2: pack "web" is declared twice'):
        ScriptedBroker.parse('{"pack": "web"}\n{"pack": "web"}')


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "replies.jsonl"
    file.write_bytes(b'{"text": "\xff"}')
    with pytest.raises(RepliesError, match="not valid UTF-8"):
        ScriptedBroker.load(file)


@given(st.text())
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        ScriptedBroker.parse(text)
    except RepliesError as error:
        assert str(error).startswith("<replies>:")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
KEYS = [
    "text",
    "tool_calls",
    "usage",
    "fragments",
    "delay_ms",
    "error",
    "dropped",
    "metrics",
    "host_built",
    "when",
    "pack",
    "tools",
    "tool",
    "result",
    "user",
]


@given(st.dictionaries(st.sampled_from(KEYS), JSON))
def test_no_values_break_the_reader(value: dict[str, Any]) -> None:
    try:
        ScriptedBroker([value])
    except RepliesError as error:
        assert str(error).startswith("line:1: ")
