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

TOO_LONG = "This model's maximum context length is 4096 tokens. However, your messages resulted in 5,000 tokens."


@contextmanager
def answering(status: int, body: Any) -> Iterator[str]:
    """A server that gives every request this answer; yields its base URL."""
    text = (body if isinstance(body, str) else json.dumps(body)).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
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
