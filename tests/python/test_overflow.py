"""Which failures of a server count as a context overflow, and what an error then tells."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

import runvil
from conftest import document
from runvil import Conversation, HttpBroker, LoopError, Model, ModelError, OverflowRule

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOO_LONG = "This model's maximum context length is 4096 tokens. However, your messages resulted in 5,000 tokens."


@contextmanager
def answering(status: int, body: Any, kind: str = "application/json") -> Iterator[str]:
    """A server that gives every request this answer; yields its base URL."""
    text = (body if isinstance(body, str) else json.dumps(body)).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def failure(status: int, body: Any, **options: Any) -> LoopError:
    """What a loop against such a server raises."""
    with answering(status, body) as url:
        model = Model("m", context=4096, broker=HttpBroker(url, retries=0, **options))
        with pytest.raises(LoopError) as caught:
            await Conversation().user("hi").loop(model)
    return caught.value


def error(message: str, **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, **fields}}


async def test_the_strict_rule_is_the_default_and_tells_the_counts() -> None:
    caught = await failure(400, error(TOO_LONG))
    assert (caught.kind, caught.reason, caught.used, caught.limit) == ("context_exhausted", "provider", 5000, 4096)
    caught = await failure(422, error("`inputs` tokens + `max_new_tokens` must be <= 2048"))
    assert (caught.kind, caught.used) == ("internal", None)


@pytest.mark.parametrize(
    ("status", "body", "used", "limit"),
    [
        (422, error("`inputs` tokens + `max_new_tokens` must be <= 2048. Given: 2000 `inputs` tokens"), 2000, 2048),
        (
            400,
            error("prompt is too long: 201000 tokens > 200000 maximum", type="invalid_request_error"),
            201000,
            200000,
        ),
        (400, error("no words that tell", code="context_length_exceeded"), None, None),
        (400, error("Current length is 9000 while limit is 8192"), 9000, 8192),
    ],
)
async def test_the_extended_rule_knows_other_wordings(status: int, body: Any, used: int, limit: int) -> None:
    caught = await failure(status, body, overflow="extended")
    assert (caught.kind, caught.used, caught.limit) == ("context_exhausted", used, limit)


@pytest.mark.parametrize(
    "body",
    [
        error("Rate limit reached: 30000 tokens per minute; too many tokens", code="rate_limit_exceeded"),
        # The user's own words are no overflow.
        error("Invalid value for 'messages[0].content'", echoed="the prompt is too long, it says"),
    ],
)
async def test_the_extended_rule_leaves_other_failures_alone(body: Any) -> None:
    assert (await failure(400, body)).kind == "context_exhausted"
    assert (await failure(400, body, overflow="extended")).kind == "internal"


async def test_a_reply_that_should_not_have_come() -> None:
    reply = {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}
    usage = {"usage": {"prompt_tokens": 5000, "completion_tokens": 1}}
    caught = await failure(200, reply | usage, overflow="extended")
    assert (caught.kind, caught.used, caught.limit) == ("context_exhausted", 5000, 4096)
    with answering(200, reply | usage) as url:
        model = Model("m", context=4096, broker=HttpBroker(url))
        assert (await Conversation().user("hi").loop(model)).content == "x"


async def test_an_error_inside_a_started_stream() -> None:
    started = 'data: {"choices": [{"delta": {"content": "par"}}]}\n\n'
    failed = error("Current length is 9000 while limit is 8192")
    with answering(200, f"{started}data: {json.dumps(failed)}\n\n", "text/event-stream") as url:
        judged = {"internal": HttpBroker(url), "context_exhausted": HttpBroker(url, overflow="extended")}
        for kind, broker in judged.items():
            pieces: list[runvil.Fragment] = []
            with pytest.raises(LoopError) as raised:
                await Conversation().user("hi").loop(Model("m", broker=broker), on_fragment=pieces.append)
            assert (raised.value.kind, [piece.text for piece in pieces]) == (kind, ["par"])
            counts = (None, None) if kind == "internal" else (9000, 8192)
            assert (raised.value.used, raised.value.limit) == counts


LOOP = runvil.Prompt.parse(document("models.use('writer')\nmessages:user('x')\nmodels.loop()"))
REPLY = {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 5000}}


@pytest.mark.parametrize(
    ("status", "body", "options", "kind"),
    [
        (200, REPLY, {"overflow": "extended"}, "ContextExhausted"),
        (422, error("Current length is 9000 while limit is 8192"), {"overflow": "extended"}, "ContextExhausted"),
        (400, error("too many tokens", code="rate_limit_exceeded"), {"overflow": "extended"}, "Completion"),
        (
            418,
            error("brevity: 10 of 5"),
            {"overflow_rules": [OverflowRule("brevity: (?P<used>\\d+)")]},
            "ContextExhausted",
        ),
        (400, error(TOO_LONG), {"overflow_rules": [OverflowRule("maximum", overflow=False)]}, "Completion"),
        (400, error(TOO_LONG), {}, "ContextExhausted"),
        (200, "{", {}, "Completion"),
    ],
)
async def test_a_recorded_failure_is_the_same_again(
    tmp_path: Path, status: int, body: Any, options: dict[str, Any], kind: str
) -> None:
    files = [tmp_path / "live.jsonl", tmp_path / "again.jsonl"]
    record = tmp_path / "record.jsonl"
    caught = []
    with answering(status, body) as url:
        script: Any = HttpBroker(url, retries=0, **options)
        for file in files:
            model = Model("m", context=4096, broker=script)
            with pytest.raises(runvil.RunError) as raised:
                await runvil.run_async(LOOP, models=model, record=record, log=file, execution="x", seed=1)
            caught.append(raised.value)
            script = runvil.ScriptedBroker.load(record)
    first, again = caught
    assert first.kind == kind
    for name in ("kind", "message", "reason", "status", "detail", "used", "limit"):
        assert getattr(first, name) == getattr(again, name), name


async def test_rules_of_the_application_come_first() -> None:
    body = error("brevity please: 10 of 5")
    rule = OverflowRule(r"brevity please: (?P<used>\d+) of (?P<limit>\d+)", status=418)
    caught = await failure(418, body, overflow_rules=[rule])
    assert (caught.kind, caught.used, caught.limit) == ("context_exhausted", 10, 5)
    assert (await failure(417, body, overflow_rules=[rule])).kind == "internal"
    never = OverflowRule("maximum context length", overflow=False)
    assert (await failure(400, error(TOO_LONG), overflow_rules=[never])).kind == "internal"
    assert repr(never) == 'OverflowRule("maximum context length", overflow=False)'
    with pytest.raises(ValueError, match="an overflow rule's pattern must be a regular expression"):
        OverflowRule("(")
    with pytest.raises(ValueError, match='overflow must be "strict" or "extended", got "wide"'):
        HttpBroker("http://127.0.0.1:1/v1", overflow="wide")  # type: ignore[arg-type]


async def test_runs_and_brokers_of_ones_own_tell_the_counts_too() -> None:
    class Mine(runvil.Broker):
        def complete(self, request: Any, on_fragment: Any = None) -> runvil.Reply:
            raise ModelError("ContextOverflow", 400, "private", used=9, limit=8)

    prompt = runvil.Prompt.parse(document("models.use('writer')\nmessages:user('x')\nmodels.loop()"))
    with pytest.raises(runvil.RunError) as caught:
        await runvil.run_async(prompt, models=Model("m", broker=Mine()))
    assert (caught.value.kind, caught.value.used, caught.value.limit) == ("ContextExhausted", 9, 8)
    assert "private" not in str(caught.value)


def test_classify_in_both_modes() -> None:
    body = json.dumps(error("Current length is 9000 while limit is 8192"))
    assert runvil.classify(400, body) == "Rejected"
    assert runvil.classify(400, body, overflow="extended") == "ContextOverflow"
