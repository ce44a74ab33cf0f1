"""Cross-record rules, composing, the precheck and the anchor; the names of the cases are those of the specification."""

from __future__ import annotations

import json
from typing import Any

import pytest

import runvil


def s(content: object = "s") -> dict[str, Any]:
    return {"role": "system", "content": content}


def u(content: object = "u") -> dict[str, Any]:
    return {"role": "user", "content": content}


def a(content: object = "", *ids: str) -> dict[str, Any]:
    calls = [{"id": name, "name": "echo", "arguments": {}} for name in ids]
    return {"role": "assistant", "content": content} | ({"tool_calls": calls} if calls else {})


def t(answers: str, content: object = "r") -> dict[str, Any]:
    return {"role": "tool", "content": content, "tool_call_id": answers}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


IMAGE = {"type": "image_url", "image_url": {"url": "u"}}
CALLS = a("", "c1")["tool_calls"]


def wire_call(name: str) -> dict[str, Any]:
    return {"id": name, "type": "function", "function": {"name": "echo", "arguments": "{}"}}


SOUND = [
    pytest.param([s(), u(), a("a"), u()], id="XRC-01"),
    pytest.param([u(), a("", "c1"), t("c1")], id="XRC-02"),
    pytest.param([a("", "c1", "c2"), t("c2"), t("c1")], id="XRC-03"),
    pytest.param([s([text("x")]), u()], id="XRC-27"),
    pytest.param([a("", ""), t("")], id="XRC-32"),
    pytest.param([s(), s()], id="SYS-07"),
    pytest.param([], id="an empty list"),
]


@pytest.mark.parametrize("records", SOUND)
def test_a_list_keeps_the_rules_across_records(records: list[dict[str, Any]]) -> None:
    runvil.Conversation().extend(records).check()


def unanswered(name: str) -> tuple[str, str]:
    return f'tool call "{name}" has no tool result', "call_unanswered"


def orphan(name: str) -> tuple[str, str]:
    return f'is an orphan tool record: no pending assistant tool call with id "{name}"', "orphan_result"


def duplicate(name: str) -> tuple[str, str]:
    return f'tool call id "{name}" duplicates an earlier tool call', "call_id_duplicate"


MISPLACED = ("sets tool_calls but is not an assistant message", "tool_calls_misplaced")
SYSTEM_PARTS = (
    "is a system message with content parts; only plain text system messages can be composed",
    "system_parts",
)
BROKEN = [
    pytest.param([u(), a("", "c1")], 2, unanswered("c1"), id="XRC-04"),
    pytest.param([a("", "c1", "c2"), t("c1"), u()], 1, unanswered("c2"), id="XRC-05"),
    pytest.param([a("", "c1", "c2"), u()], 1, unanswered("c1"), id="XRC-06"),
    pytest.param([a("", "c1", "c2"), t("c2")], 1, unanswered("c1"), id="XRC-07"),
    pytest.param([a("", "c1"), a("", "c2"), t("c1"), t("c2")], 1, unanswered("c1"), id="XRC-08"),
    pytest.param([a("", "c1"), a("text"), t("c1")], 1, unanswered("c1"), id="XRC-09"),
    pytest.param([u(), t("c9")], 2, orphan("c9"), id="XRC-10"),
    pytest.param([t("c1")], 1, orphan("c1"), id="XRC-11"),
    pytest.param([a("", "c1"), t("c2")], 2, orphan("c2"), id="XRC-12"),
    pytest.param([a("", "c1"), t("c1"), t("c1")], 3, orphan("c1"), id="XRC-13"),
    pytest.param([a("", "c1"), t("c1"), u(), t("c1")], 4, orphan("c1"), id="XRC-14"),
    pytest.param([a("", "c1", "c1")], 1, duplicate("c1"), id="XRC-15"),
    pytest.param([a("", "c1"), t("c1"), a("", "c1")], 3, duplicate("c1"), id="XRC-16"),
    pytest.param([a("", "c1"), a("", "c1")], 1, unanswered("c1"), id="XRC-17"),
    pytest.param([a("", "c1", "c1"), t("c1")], 1, duplicate("c1"), id="XRC-18"),
    pytest.param([u() | {"tool_calls": CALLS}], 1, MISPLACED, id="XRC-19"),
    pytest.param([s() | {"tool_calls": CALLS}], 1, MISPLACED, id="XRC-20"),
    pytest.param([a("", "c1"), u() | {"tool_calls": CALLS}], 2, MISPLACED, id="XRC-21"),
    pytest.param([a("", "c1"), t("c1") | {"tool_calls": CALLS}], 2, MISPLACED, id="XRC-22"),
    pytest.param([t("c9") | {"tool_calls": CALLS}], 1, MISPLACED, id="XRC-23"),
    pytest.param([s([text("x")]), s(), u()], 1, SYSTEM_PARTS, id="XRC-24"),
    pytest.param([s(), s([text("x")]), u()], 2, SYSTEM_PARTS, id="XRC-25"),
    pytest.param([s([text("x")]), s([text("x")])], 1, SYSTEM_PARTS, id="XRC-26"),
    pytest.param([s([text("x")]), s(), t("c9")], 1, SYSTEM_PARTS, id="XRC-28"),
    pytest.param([a("", "c1"), t("c1"), a("", "c1", "c2")], 3, duplicate("c1"), id="XRC-29"),
    pytest.param([u(), u() | {"tool_calls": CALLS}, t("c9")], 2, MISPLACED, id="XRC-30"),
    pytest.param([t('a"\n')], 1, (orphan("x")[0].replace('"x"', '"a\\"\\n"'), "orphan_result"), id="XRC-31"),
    pytest.param([u(), a("", "c1"), t("c1"), t("c2")], 4, orphan("c2"), id="XRC-38"),
]


@pytest.mark.parametrize(("records", "position", "refusal"), BROKEN)
def test_a_list_breaks_a_rule_across_records(
    records: list[dict[str, Any]], position: int, refusal: tuple[str, str]
) -> None:
    conv = runvil.Conversation().extend(records)  # each record is fine by itself
    for work in (conv.check, conv.compose, conv.check):
        with pytest.raises(runvil.ConversationError) as caught:
            work()
        assert (caught.value.message, caught.value.code) == (f"messages[{position}] {refusal[0]}", refusal[1])
        assert (caught.value.position, caught.value.part, caught.value.call) == (position, None, None)
    assert len(conv) == len(records)


def test_a_list_that_was_completed_passes() -> None:  # XRC-34, XRC-35
    conv = runvil.Conversation().user("u").append(a("", "c1"))
    with pytest.raises(runvil.ConversationError):
        conv.check()
    conv.tool("r", "c1").check()


def test_nothing_cannot_be_sent() -> None:
    with pytest.raises(runvil.ConversationError, match=r"^messages must not be empty$") as caught:
        runvil.Conversation().compose()
    assert (caught.value.code, caught.value.position) == ("list_empty", None)


COMPOSED = [
    pytest.param([s(), u("hi"), a("hello"), u("thanks")], None, id="CMP-01"),
    pytest.param(
        [s("You are terse."), s("Answer in French."), u("Hello."), u("What time is it?")],
        [s("You are terse.\n\nAnswer in French."), u("Hello.\n\nWhat time is it?")],
        id="CMP-02",
    ),
    pytest.param([u("one"), u("two"), a("a"), u("three")], [u("one\n\ntwo"), a("a"), u("three")], id="CMP-03"),
    pytest.param(
        [u("hi"), a("Hello, "), a("world"), a("!"), u("next")], [u("hi"), a("Hello, world!"), u("next")], id="CMP-04"
    ),
    pytest.param(
        [u(), a("let me check"), a("", "c1"), t("c1"), a("done")],
        [u(), a("let me check", "c1"), t("c1"), a("done")],
        id="CMP-05",
    ),
    pytest.param([u(), a("x"), a("y", "c1"), t("c1")], [u(), a("xy", "c1"), t("c1")], id="CMP-06"),
    pytest.param([u(), a("x"), a("y"), a("", "c1"), t("c1")], [u(), a("xy", "c1"), t("c1")], id="CMP-07"),
    pytest.param([a("", "c1", "c2"), t("c2", "2"), t("c1", "1")], None, id="CMP-08"),
    pytest.param([a("", "c1"), t("c1"), a("a"), a("b")], [a("", "c1"), t("c1"), a("ab")], id="CMP-09"),
    pytest.param(
        [s("s1"), s("s2"), u(""), u("hi"), a(""), a("answer"), a(""), u("next")],
        [s("s1\n\ns2"), u("hi"), a("answer"), u("next")],
        id="CMP-10",
    ),
    pytest.param([u(""), u("")], [u("")], id="CMP-11"),
    pytest.param([u("hi"), a(""), u("x")], None, id="CMP-12"),
    pytest.param([u("")], None, id="CMP-13"),
    pytest.param([s(""), s("x")], [s("\n\nx")], id="CMP-14"),
    pytest.param([s([text("look"), IMAGE]), u()], None, id="CMP-15 SYS-08"),
    pytest.param([u("a"), u([text("b"), IMAGE])], [u([text("a"), text("\n\n"), text("b"), IMAGE])], id="CMP-16"),
    pytest.param([u([text("b")]), u("a")], [u([text("b"), text("\n\n"), text("a")])], id="CMP-17"),
    pytest.param([u(""), u([text("b")])], [u([text("\n\n"), text("b")])], id="CMP-18"),
    pytest.param([u([text("b")]), u("")], [u([text("b"), text("\n\n")])], id="CMP-19"),
    pytest.param([u([text("a")]), u([text("b")])], [u([text("a"), text("\n\n"), text("b")])], id="CMP-20"),
    pytest.param([u("a"), u(""), u([text("b")])], [u([text("a"), text("\n\n"), text("b")])], id="CMP-21"),
    pytest.param([u([text("a")]), u(""), u("b")], [u([text("a"), text("\n\n"), text("\n\n"), text("b")])], id="CMP-22"),
    pytest.param([a(""), a([text("a")]), a("b")], [a([text("a"), text("b")])], id="CMP-23"),
    pytest.param([a([text("a")]), a([text("b")])], [a([text("a"), text("b")])], id="CMP-24"),
    pytest.param([a([text("a")]), a("", "c1"), t("c1")], [a([text("a")], "c1"), t("c1")], id="CMP-25"),
    pytest.param([u("a"), a("b"), u("c"), u("d")], [u("a"), a("b"), u("c\n\nd")], id="CMP-26"),
    pytest.param([a("", "c1"), t("c1"), a(""), u("second")], None, id="CMP-35"),
    pytest.param([u("a\n\n"), u("\n\nb")], [u("a\n\n\n\n\n\nb")], id="CMP-38"),
    pytest.param([a("", "c1"), t("c1", [text("r")])], None, id="CMP-39"),
]


@pytest.mark.parametrize(("records", "expected"), COMPOSED)
def test_what_the_model_receives(records: list[dict[str, Any]], expected: list[dict[str, Any]] | None) -> None:
    conv = runvil.Conversation().extend(record | {"meta": "m"} for record in records)  # MET-21
    before = conv.to_json()
    request = conv.compose()
    messages = json.loads(json.dumps(expected or records))
    for message in messages:
        for index, call in enumerate(message.get("tool_calls", [])):
            message["tool_calls"][index] = wire_call(call["id"])  # CMP-29, CMP-30
    assert request.messages == messages
    assert len(request) == len(messages)
    compact = json.dumps(messages, ensure_ascii=False, separators=(",", ":")).encode()
    assert request.to_json() == compact
    assert bytes(request.json_view()) == compact
    assert conv.to_json() == before  # CMP-34


def test_a_request_is_frozen() -> None:  # LST-36
    conv = runvil.Conversation().user("a")
    request = conv.compose()
    conv.user("b")
    assert request.messages == [u("a")]
    assert conv.compose().messages == [u("a\n\nb")]
    assert request.to_json() == b'[{"role":"user","content":"a"}]'


def test_a_body_holds_model_messages_tools_and_options() -> None:
    request = runvil.Conversation().user("hé").compose()
    assert request.body(model="m") == '{"model":"m","messages":[{"role":"user","content":"hé"}]}'.encode()
    tools = [{"type": "function", "function": {"name": "f"}}]
    body = request.body(model="m", tools=tools, temperature=0.5, max_tokens=None, stop=["x"], stream=True)
    assert json.loads(body) == {
        "model": "m",
        "messages": [u("hé")],
        "tools": tools,
        "temperature": 0.5,
        "stop": ["x"],
        "stream": True,
    }
    assert list(json.loads(body)) == ["model", "messages", "tools", "temperature", "stop", "stream"]
    assert request.body(model="m", tools=[]) == request.body(model="m", tools=None) == request.body(model="m")
    with pytest.raises(TypeError):
        request.body(model="m", messages=[])
    with pytest.raises(TypeError):
        request.body()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="option stop"):
        request.body(model="m", stop={1})


def test_lent_bodies_stay_what_they_were() -> None:
    conv = runvil.Conversation().user("a")
    views = []
    for index in range(50):
        view = conv.compose().body_view(model="m")
        assert view.readonly
        assert bytes(view) == conv.compose().body(model="m")
        views.append((view, bytes(view)))
        if index % 3 == 0:
            views.pop(0)[0].release()
        conv.assistant(f"a{index}").user(f"u{index}")
    other = conv.copy()
    conv.user("x")
    other.user("y")
    for fork in (conv, other, conv):
        with fork.compose().body_view(model="m", temperature=1) as lent:
            assert bytes(lent) == fork.compose().body(model="m", temperature=1)
    for view, expected in views:
        assert bytes(view) == expected
    last = conv.compose().body_view(model="m")
    expected = bytes(last)
    del conv, other
    assert bytes(last) == expected


def test_the_memory_of_a_body_serves_the_next_conversation() -> None:
    for size in (3_000_000, 2_000_000, 1_500_000, 10, 4_000_000, 2_500_000):
        conv = runvil.Conversation().user("x" * size).assistant(f"{size}")
        with conv.compose().body_view(model="m") as lent:
            assert bytes(lent) == conv.compose().body(model="m")
            other = runvil.Conversation().user("y" * size)
            with other.compose().body_view(model="n") as second:
                assert bytes(second) == other.compose().body(model="n")
            assert bytes(lent) == conv.compose().body(model="m")


ESTIMATES = [
    pytest.param([u("x" * 396)], 103, id="PRE-02"),
    pytest.param([u("x" * 100_000)], 25_004, id="PRE-01"),
    pytest.param([u("xxx"), a("xxx"), u("xxx")], 14, id="PRE-13"),
    pytest.param([u("é" * 100)], 54, id="PRE-14"),
    pytest.param([u("🦀" * 100)], 104, id="PRE-14 emoji"),
    pytest.param([u("x" * 10), u("x" * 10)], 9, id="PRE-15"),
    pytest.param(COMPOSED[1].values[0], 22, id="PRE-16"),
    pytest.param([u([text("look"), {"type": "image_url", "image_url": {"url": "x" * 10_000}}])], 5, id="PRE-17"),
    pytest.param(
        [
            u("hi"),
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "call_1", "name": "echo", "arguments": {"value": "hi"}}],
            },
            t("call_1", "echoed: hi"),
        ],
        38,
        id="PRE-20",
    ),
    pytest.param([u("") | {"meta": "x" * 4000, "extra": "x" * 4000}], 4, id="PRE-21 PRE-27"),
]


@pytest.mark.parametrize(("records", "tokens"), ESTIMATES)
def test_the_estimate(records: list[dict[str, Any]], tokens: int) -> None:
    request = runvil.Conversation().extend(records).compose()
    assert request.estimate == tokens
    assert request.precheck(context=10**9).count == tokens


ADMISSIONS = [
    pytest.param(396, 123, 20, True, 20, id="PRE-03"),
    pytest.param(396, 122, 20, False, 20, id="PRE-04"),
    pytest.param(14_323, 4096, None, True, 512, id="PRE-05"),
    pytest.param(14_324, 4096, None, False, 512, id="PRE-05 refused"),
    pytest.param(12_371, 4096, 1000, True, 1000, id="PRE-06"),
    pytest.param(12_372, 4096, 1000, False, 1000, id="PRE-06 refused"),
    pytest.param(8_179, 4096, 100_000, True, 2048, id="PRE-08"),
    pytest.param(8_180, 4096, 100_000, False, 2048, id="PRE-08 refused"),
    pytest.param(28_659, 8192, None, True, 1024, id="PRE-09"),
    pytest.param(28_660, 8192, None, False, 1024, id="PRE-09 refused"),
    pytest.param(396, 117, None, True, 14, id="PRE-12"),
    pytest.param(396, 116, None, False, 14, id="PRE-12 refused"),
]


@pytest.mark.parametrize(("size", "context", "max_tokens", "admitted", "reserve"), ADMISSIONS)
def test_the_precheck(size: int, context: int, max_tokens: int | None, admitted: bool, reserve: int) -> None:
    check = runvil.Conversation().user("x" * size).compose().precheck(context=context, max_tokens=max_tokens)
    count = size // 4 + 4
    assert (check.admitted, check.count, check.reserve, check.total) == (admitted, count, reserve, count + reserve)
    assert bool(check) is admitted


def served(conv: runvil.Conversation, reply: str = "ok", model: str = "small", **usage: int) -> runvil.ComposedRequest:
    """Sends the conversation and records the reply."""
    request = conv.compose()
    counts = {f"{name}_tokens": count for name, count in usage.items()}
    conv.record_reply(runvil.Reply(text=reply, usage=counts or None), model=model, request=request)
    return request


def anchored(*tail: str, **usage: int) -> runvil.Precheck:
    conv = runvil.Conversation().user("x" * 5)
    served(conv, "ok", "small", **usage)
    for words in tail:
        conv.user(words)
    return conv.compose().precheck(context=4096)


def test_the_precheck_counts_from_reported_usage() -> None:
    assert anchored("x" * 400, prompt=3400, completion=100).total == 3500 + 104 + 512  # ANC-01
    assert anchored("x" * 323, prompt=3400, completion=100).admitted  # ANC-02
    assert not anchored("x" * 324, prompt=3400, completion=100).admitted
    assert anchored("x" * 400).count == 113  # ANC-04
    assert anchored("x" * 400, prompt=3000, completion=1200, reasoning=800).count == 3400 + 104  # ANC-05
    assert anchored("x" * 400, prompt=3000, completion=1200).count == 4200 + 104  # ANC-06
    assert anchored("x" * 400, prompt=5, completion=5, reasoning=100).count == 104  # ANC-07


def test_the_measurement_belongs_to_its_model_and_its_request() -> None:
    conv = runvil.Conversation().user("x" * 5)
    sent = served(conv, prompt=3400, completion=100)
    assert sent.precheck(context=4096).count == 5  # ANC-11: the request itself was composed before
    conv.user("y")
    assert conv.compose().precheck(context=4096, model="small").count == 3504
    assert conv.compose().precheck(context=4096).count == 3504
    assert conv.compose().precheck(context=4096, model="other").count == conv.compose().estimate  # ANC-23
    served(conv, model="other")
    conv.user("z")
    assert conv.compose().precheck(context=4096, model="small").count == conv.compose().estimate  # ANC-25
    rewritten = runvil.Conversation().user("x" * 5)
    served(rewritten, prompt=3400, completion=100)
    rewritten.user("y").compact(lambda c, _: c.replace(1, 1, u("changed")), "rewrite")
    assert rewritten.compose().precheck(context=4096).count == rewritten.compose().estimate  # ANC-14


def test_a_reply_is_recorded_as_it_came() -> None:
    conv = runvil.Conversation().user("u")
    request = conv.compose()
    calls: list[dict[str, Any]] = [
        {"id": "c1", "name": "w", "arguments": '{"q": "é"}'},
        {"id": "c2", "name": "v", "arguments": {"n": 1}},
    ]
    assert conv.record_reply(runvil.Reply(text="so", tool_calls=calls), model="m", request=request) is conv
    assert conv[-1].content == "so"
    assert conv[-1].tool_calls == [calls[0] | {"arguments": {"q": "é"}}, calls[1]]
    bad = runvil.Reply(tool_calls=[{"id": "c3", "name": "w", "arguments": "not json"}])
    with pytest.raises(runvil.ConversationError, match=r"messages\[3\] tool_calls\[1\] arguments must be a table"):
        conv.record_reply(bad, model="m", request=request)
    assert len(conv) == 2
