"""What Python code gives and no UTF-8 or JSON can hold: it fails where it was given, and what was recorded stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import runvil
from conftest import document, json_lines
from runvil.estimators import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

BAD = "a\ud800b"
ASKS = "log('begun')\nmodels.use('writer')\nmodels.infer('first')\nmessages:user('x')\nmodels.loop()"
MALFORMED = "the model backend sent a reply that could not be understood: "


class Wrong(runvil.Broker):
    """Answers well once; then it gives these pieces and this reply, or raises."""

    def __init__(self, reply: Any = None, pieces: Sequence[Any] = (), error: Exception | None = None) -> None:
        self.reply, self.pieces, self.error, self.asked = reply or runvil.Reply(text="ok"), pieces, error, 0

    async def complete(self, request: Any, on_fragment: Any = None) -> Any:
        self.asked += 1
        if self.asked == 1:
            return runvil.Reply(text="well")
        for piece in self.pieces:
            on_fragment(piece)
        if self.error is not None:
            raise self.error
        return self.reply


class Deaf(Wrong):
    """Takes no notice of what its pieces come to."""

    async def complete(self, request: Any, on_fragment: Any = None) -> Any:
        try:
            return await super().complete(request, on_fragment)
        except runvil.ModelError:
            return self.reply


class App(runvil.Host):
    """Gives this to whoever asks."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def on_fragment(self, fragment: runvil.Fragment) -> None:
        fragment.text.encode()

    def user_input(self) -> Any:
        return self.given

    def load_library(self, name: str) -> Any:
        if isinstance(self.given, Exception):
            raise self.given
        return self.given


def call(**fields: Any) -> Wrong:
    return Wrong(runvil.Reply(tool_calls=[{"id": "c", "name": "n", "arguments": {}} | fields]))


def reply(**fields: Any) -> Wrong:
    return Wrong(runvil.Reply(**({"text": "ok"} | fields)))


def counts(count: Callable[[str], Any]) -> runvil.Model:
    return runvil.Model("m", broker=Wrong(), estimator=Tokenizer(count, name="mine"))


async def later(text: str) -> int:
    return len(text)


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        (reply(text=BAD), "Completion", MALFORMED + "text of the reply holds text with a lone surrogate"),
        (reply(reasoning=BAD), "Completion", MALFORMED + "reasoning of the reply holds text with a lone"),
        (reply(model=BAD), "Completion", MALFORMED + "model of the reply holds text with a lone surrogate"),
        (reply(finish_reason=BAD), "Completion", MALFORMED + "finish_reason of the reply holds text with a lone"),
        (reply(metrics={"a": [BAD]}), "Completion", MALFORMED + "metrics of the reply holds text with a lone"),
        (reply(usage={"prompt_tokens": -1}), "Completion", "prompt_tokens of the reply's usage cannot be a int"),
        (reply(usage={"prompt_tokens": 1.5}), "Completion", "prompt_tokens of the reply's usage cannot be a float"),
        (call(id=BAD), "Completion", MALFORMED + "id of tool call 1 of the reply holds text with a lone"),
        (call(name=BAD), "Completion", MALFORMED + "name of tool call 1 of the reply holds text with a lone"),
        (call(arguments=BAD), "Completion", "arguments of tool call 1 of the reply holds text with a lone surrogate"),
        (call(arguments={"a": BAD}), "Completion", "arguments of tool call 1 of the reply holds text with a lone"),
        (call(arguments={BAD: 1}), "Completion", "arguments of tool call 1 of the reply has a key with a lone"),
        (call(arguments={"a": float("inf")}), "Completion", "arguments of tool call 1 of the reply holds inf"),
        (call(arguments={"a": 2**64}), "Completion", "reply holds an integer beyond 64 bits"),
        (Wrong(pieces=["fine", BAD]), "Completion", MALFORMED + "a fragment of the reply holds text with a lone"),
        (Wrong(pieces=[3]), "Completion", MALFORMED + "a fragment of the reply is a int"),
        (Deaf(pieces=[BAD]), "Completion", MALFORMED + "a fragment of the reply holds text with a lone surrogate"),
        (
            Wrong(error=runvil.ModelError("Rejected", note=BAD, detail=BAD)),
            "Completion",
            r"the model backend rejected the request: a\ud800b",
        ),
        (
            counts(lambda text: later(text)),
            "Completion",
            "the estimator mine gave a coroutine for the tokens of a text",
        ),
        (counts(lambda text: "3"), "Completion", "the estimator mine gave a str for the tokens of a text"),
        (counts(lambda text: -3), "Completion", "the estimator mine gave -3 for the tokens of a text"),
        (counts(lambda text: 2**70), "Completion", "the estimator mine gave 1180591620717411303424 for the tokens"),
        (App(BAD), "Input", "the Host's user_input hook gave text with a lone surrogate"),
        (App(3), "Input", "the Host's user_input hook gave a int, and not a string or None"),
        (App("return '\ud800'"), "Lua", 'library "mine" failed: the Host\'s load_library hook gave text with a lone'),
        (App(3), "Lua", "the Host's load_library hook gave a int, and not a string, bytes or None"),
        (App(KeyError("private")), "Lua", "the Host's load_library hook raised KeyError"),
    ],
)
async def test_a_run_fails_exactly_and_keeps_what_was_recorded(
    tmp_path: Path, given: Any, kind: str, words: str
) -> None:
    log, record = tmp_path / "log.jsonl", tmp_path / "record.jsonl"
    options: dict[str, Any] = {"log": log, "record": record, "host": App(None)}
    lua = {"Input": "log('begun')\nuser_input()", "Lua": "log('begun')\nrequire('mine')"}.get(kind, ASKS)
    if isinstance(given, runvil.Host):
        options |= {"host": given, "models": runvil.Model("m", broker=Wrong())}
    else:
        options["models"] = given if isinstance(given, runvil.Model) else runvil.Model("m", broker=given)
    with pytest.raises(runvil.RunError) as caught:
        await runvil.run_async(runvil.Prompt.parse(document(lua)), **options)
    assert (caught.value.kind, words in caught.value.message) == (kind, True), caught.value.message
    assert "private" not in caught.value.message
    lines = json_lines(log)
    assert "lua" in [line["kind"] for line in lines]  # what the prompt logged before
    assert lines[-1]["kind"] == "run_failed"
    if isinstance(given, runvil.Broker):
        assert [line.get("text", "error" in line) for line in json_lines(record)] == ["well", True]
        # The replay fails in the same words.
        script = runvil.ScriptedBroker.load(record)
        with pytest.raises(runvil.RunError) as again:
            await runvil.run_async(runvil.Prompt.parse(document(lua)), models=runvil.Model("m", broker=script))
        assert (again.value.kind, again.value.message) == (kind, caught.value.message)


def plain_run(**options: Any) -> runvil.Result:
    model = options.pop("models", None) or runvil.Model("m", broker=runvil.ScriptedBroker([{"text": "ok"}]))
    return runvil.run(runvil.Prompt.parse(document("return 1")), models=model, **options)


class Ui(runvil.Host):
    """Has state that is no JSON."""

    def ui(self) -> dict[str, Any]:
        return {"name": BAD}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: plain_run(args=BAD), "args of the run parameters holds text with a lone surrogate"),
        (lambda: plain_run(execution=BAD), "execution of the run parameters holds text with a lone surrogate"),
        (lambda: plain_run(host=Ui()), "ui holds text with a lone surrogate"),
        (
            lambda: plain_run(models=runvil.Model("m", description=BAD, broker=Wrong())),
            "description of the run parameters holds text with a lone surrogate",
        ),
        (lambda: runvil.Prompt.parse(document("return 1") + BAD), "16:2: Structure: file is not valid UTF-8"),
        (
            lambda: runvil.Tool("look", print, description=BAD, parameters={}),
            "description of tool 'look' holds text with a lone surrogate",
        ),
        (
            lambda: runvil.Tool("look", print, parameters={"title": BAD}),
            "parameters of tool 'look' holds text with a lone surrogate",
        ),
        (lambda: runvil.HttpBroker(f"http://{BAD}"), "base_url holds text with a lone surrogate"),
        (lambda: runvil.HttpBroker("http://h", api_key=BAD), "api_key holds text with a lone surrogate"),
        (
            lambda: runvil.HttpBroker("http://h", extra_body={"a": {"b": BAD}}),
            "extra_body holds text with a lone surrogate",
        ),
        (lambda: Tokenizer(later, name="mine"), "count must be a plain function, got an async one"),  # type: ignore[arg-type]
        (lambda: runvil.ModelError("Rejected", status="400"), "status must be an integer or None, got str"),  # type: ignore[arg-type]
        (lambda: runvil.ModelError("Rejected", status=-1), "status must be between 0 and 65535, got -1"),
        (lambda: runvil.ModelError("Rejected", note=3), "note must be a string or None, got int"),  # type: ignore[arg-type]
        (
            lambda: runvil.ScriptedBroker.parse('{"text": "a\ud800"}', "f"),
            "f:1: the line has half of a surrogate pair",
        ),
    ],
)
def test_a_value_is_refused_where_it_is_given(make: Callable[[], object], words: str) -> None:
    errors = (ValueError, TypeError, runvil.ParseError, runvil.RepliesError)
    with pytest.raises(errors) as caught:
        make()
    assert not isinstance(caught.value, UnicodeError)
    assert words in str(caught.value)


@pytest.mark.parametrize("given", [Wrong(runvil.Reply(text=BAD)), Wrong(pieces=[BAD])])
async def test_a_loop_of_a_conversation_fails_exactly(given: Wrong) -> None:
    given.asked = 1
    conv = runvil.Conversation().user("x")
    with pytest.raises(runvil.LoopError, match=r"could not be understood: .* with a lone surrogate") as caught:
        await conv.loop(runvil.Model("m", broker=given), on_fragment=lambda _: None)
    assert caught.value.kind == "internal"
    assert len(conv) == 1
