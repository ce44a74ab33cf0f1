"""The model client as Python code sees it: connections, retries, proxies, trust, and many streams at once."""

from __future__ import annotations

import asyncio
import http.server
import json
import logging
import os
import ssl
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import runvil
from conftest import HERE, Server, chat_prompt, clean_environment, json_lines
from runvil import _native

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEY = "right-key"
CERTIFICATES = HERE / "certificates"
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


def broker(server: Server, **options: Any) -> runvil.HttpBroker:
    return runvil.HttpBroker(server.base_url, api_key=KEY, **options)


def request(name: str = "stream", text: str = "hi") -> runvil.Request:
    model = runvil.Model(name, broker=runvil.HttpBroker("http://127.0.0.1:9/v1"))
    native = _native.single_round(text, model.to_dict())
    assert native is not None
    return runvil.Request(native)


def test_connections_are_used_again_by_later_event_loops(server: Server) -> None:
    one = broker(server)
    for _ in range(3):
        assert asyncio.run(one.complete(request())).text == "one two three"
    assert len({received["port"] for received in server.requests()}) == 1


async def test_cancelling_a_stream_closes_its_connection(server: Server) -> None:
    arrived = asyncio.Event()
    task = asyncio.create_task(broker(server).complete(request("endless"), lambda _: arrived.set()))
    await arrived.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    while {"left": "endless"} not in server.requests():
        await asyncio.sleep(0.01)


async def test_a_failed_stream_keeps_its_text_in_the_detail_alone(server: Server) -> None:
    with pytest.raises(runvil.ModelError) as caught:
        await broker(server).complete(request("break-off"))
    assert caught.value.detail is not None
    assert caught.value.detail.endswith("the text that had arrived: first ")
    assert "first" not in str(caught.value)


async def test_retries_are_reported(server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class App(runvil.Host):
        def __init__(self) -> None:
            self.retries: list[runvil.Retry] = []

        def on_retry(self, retry: runvil.Retry) -> None:
            self.retries.append(retry)

    app, log = App(), tmp_path / "run.jsonl"
    model = runvil.Model("busy-once", broker=broker(server))
    with caplog.at_level(logging.INFO, logger="runvil"):
        await runvil.run_async(chat_prompt(), models=model, host=app, log=log)
    (retry,) = app.retries
    assert (retry.section, retry.round, retry.number) == ("Only", 0, 1)
    assert (retry.kind, retry.status) == ("Overloaded", 503)
    assert 0 <= retry.delay <= 0.5
    (line,) = (line for line in json_lines(log) if line["kind"] == "model_retry")
    assert {name: line[name] for name in ("section", "round", "number", "failure", "status")} == {
        "section": "Only",
        "round": 0,
        "number": 1,
        "failure": "Overloaded",
        "status": 503,
    }
    assert "model request failed (Overloaded, status 503); retry 1 in 0." in caplog.text


async def test_an_exception_of_the_retry_hook_comes_out_of_the_run(server: Server) -> None:
    class App(runvil.Host):
        def on_retry(self, retry: runvil.Retry) -> None:
            raise LookupError(retry.kind)

    with pytest.raises(LookupError, match="Overloaded"):
        await runvil.run_async(chat_prompt(), models=runvil.Model("busy-once", broker=broker(server)), host=App())


async def test_an_exception_of_a_callback_ends_the_call(server: Server) -> None:
    def refuse(text: str) -> None:
        raise LookupError(text)

    with pytest.raises(LookupError, match="one "):
        await broker(server).complete(request(), refuse)


async def test_callbacks_run_in_the_callers_context(server: Server) -> None:
    import contextvars

    name: contextvars.ContextVar[str] = contextvars.ContextVar("name")
    seen: list[str] = []

    async def call(value: str) -> None:
        name.set(value)
        await broker(server).complete(request(), lambda _: seen.append(name.get()))

    await asyncio.gather(call("a"), call("b"))
    assert sorted(seen) == ["a"] * 3 + ["b"] * 3


async def test_null_stands_beside_calls_where_the_server_wants_it(server: Server) -> None:
    conversation = runvil.Conversation()
    conversation.append({"role": "user", "content": "hi"})
    call = {"id": "c", "name": "look", "arguments": {}}
    conversation.append({"role": "assistant", "content": "", "tool_calls": [call]})
    conversation.append({"role": "tool", "content": "", "tool_call_id": "c"})
    for null_content in (False, True):
        model = runvil.Model("stream", broker=broker(server, null_content=null_content))
        await conversation.copy().loop(model)
    plain, null = (json.loads(received["body"])["messages"] for received in server.requests())
    assert [message["content"] for message in plain] == ["hi", "", ""]
    assert [message["content"] for message in null] == ["hi", None, ""]


async def test_tools_are_marked_strict_where_they_can_be(server: Server) -> None:
    def tool(**schema: Any) -> dict[str, Any]:
        return {"type": "function", "function": {"name": "n", "parameters": {"type": "object"} | schema}}

    tools = [tool(properties={}, additionalProperties=False), tool(properties={"a": {}})]
    for strict in (False, True):
        await broker(server, strict_tools=strict, extra_body={"tools": tools}).complete(request())
    plain, marked = (json.loads(received["body"])["tools"] for received in server.requests())
    assert plain == tools
    assert [entry["function"].get("strict") for entry in marked] == [True, None]


ASK = """
import asyncio, sys
import runvil
from runvil import _native
url, proxied, name = sys.argv[1:]
broker = runvil.HttpBroker(url, api_key="right-key", retries=0, proxy_from_environment=proxied == "yes")
native = _native.single_round("hi", runvil.Model(name, broker=broker).to_dict())
try:
    print(asyncio.run(broker.complete(runvil.Request(native))).text)
except runvil.ModelError as error:
    print(error.kind, error.detail)
"""


def ask(url: str, *, proxied: bool = False, name: str = "stream", **variables: str) -> str:
    """What a process with this environment gets from a server."""
    environment = {key: value for key, value in clean_environment().items() if key.upper() not in PROXIES} | variables
    command = [sys.executable, "-c", ASK, url, "yes" if proxied else "no", name]
    ended = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", timeout=30, check=True)
    return ended.stdout


def test_proxies_of_the_environment_are_used_only_when_asked_for(server: Server) -> None:
    proxy = server.base_url.removesuffix("/v1")
    url = "http://127.0.0.1:9/v1"  # nobody listens there
    assert ask(url, HTTP_PROXY=proxy, http_proxy=proxy, ALL_PROXY=proxy).startswith("Transport")
    assert server.requests() == []
    assert ask(url, proxied=True, HTTP_PROXY=proxy, http_proxy=proxy) == "one two three\n"
    assert [received["path"] for received in server.requests()] == [f"{url}/chat/completions"]
    assert ask(url, proxied=True, HTTP_PROXY=proxy, http_proxy=proxy, NO_PROXY="127.0.0.1").startswith("Transport")


def test_the_interpreter_ends_in_good_order_after_a_call(server: Server) -> None:
    # A thread that is about to enter the interpreter when it ends would crash the process, though not every time.
    for _ in range(6):
        assert ask(server.base_url) == "one two three\n"


FORK = """
import os
process = os.fork()
if process:
    status = os.waitpid(process, 0)[1]
    print("the child ended with", os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_process_ends_in_good_order(server: Server) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ASK + FORK, server.base_url, "no", "stream"],
        env=clean_environment(),
        capture_output=True,
        encoding="utf-8",
        timeout=30,
        check=True,
    )
    assert ended.stdout.endswith("the child ended with 0\n")


class Whole(http.server.BaseHTTPRequestHandler):
    """Answers every request with a whole reply."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        reply = {"model": "m", "choices": [{"message": {"content": "trusted"}, "finish_reason": "stop"}]}
        body = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Says nothing."""


@contextmanager
def encrypted_server() -> Iterator[int]:
    """A server with the self-signed certificate; gives its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / "certificate.pem", CERTIFICATES / "key.pem")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Whole) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None  # type: ignore[method-assign] # a refused handshake is what is tested
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system's store is no set of files")
def test_a_server_nobody_vouches_for_is_refused() -> None:
    with encrypted_server() as port:
        said = ask(f"https://localhost:{port}/v1")
        assert said.startswith("Transport")
        assert "certificate" in said
        trusted = str(CERTIFICATES / "certificate.pem")
        assert ask(f"https://localhost:{port}/v1", SSL_CERT_FILE=trusted) == "trusted\n"
        # A certificate that is trusted, but for another host.
        assert "certificate" in ask(f"https://127.0.0.1:{port}/v1", SSL_CERT_FILE=trusted)


STREAMS = 1000


@pytest.mark.skipif(sys.platform == "win32", reason="the limit on open files is raised in another way there")
def test_a_thousand_streams_run_at_once() -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < STREAMS + 200:
        pytest.skip(f"the machine allows only {hard} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    command = [sys.executable, str(HERE / "many_streams_server.py"), str(STREAMS)]
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as process:
            try:
                assert process.stdout is not None
                port = process.stdout.readline().strip()
                asyncio.run(_ask_at_once(runvil.HttpBroker(f"http://127.0.0.1:{port}/v1", retries=0)))
            finally:
                process.kill()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def _ask_at_once(one: runvil.HttpBroker) -> None:
    """The server answers none of the requests before all of them are there."""
    pieces: list[list[str]] = [[] for _ in range(STREAMS)]
    asked = request()
    replies = await asyncio.gather(*(one.complete(asked, into.append) for into in pieces))
    for reply, fragments in zip(replies, pieces, strict=True):
        number = fragments[0].split(".")[0]
        assert fragments == [f"{number}.{piece} " for piece in range(5)]
        assert reply.text == "".join(fragments)
    assert len({fragments[0] for fragments in pieces}) == STREAMS
