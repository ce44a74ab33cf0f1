"""The whole way: a prompt, the engine, the HTTP client, and a server in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

import runvil
from conftest import CHAT, Server, chat_prompt, clean_environment, document

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Command = Callable[..., subprocess.CompletedProcess[str]]

KEY = "right-key"


def model(server: Server, name: str = "stream", key: str = KEY, **options: Any) -> runvil.Model:
    return runvil.Model(name, context=4096, broker=runvil.HttpBroker(server.base_url, api_key=key, **options))


async def test_a_streamed_reply_arrives_whole(server: Server) -> None:
    result = await runvil.run_async(chat_prompt(), models=model(server))
    assert result == ("one two three", 1, {"prompt_tokens": 12, "completion_tokens": 3})


async def test_a_whole_reply_arrives_too(server: Server) -> None:
    result = await runvil.run_async(chat_prompt(), models=model(server, stream=False))
    assert (result.text, result.usage) == ("whole answer", {})


async def test_the_request_on_the_wire(server: Server) -> None:
    options: dict[str, Any] = {
        "headers": {"X-Team": "a"},
        "extra_body": {"top_p": 0.5},
        "max_tokens_field": "max_completion_tokens",
    }
    lua = CHAT.replace("models.use('writer')", "models.use('writer', {temperature = 0.5, max_tokens = 20})")
    await runvil.run_async(runvil.Prompt.parse(document(lua)), models=model(server, **options))
    (received,) = server.requests()
    assert received["path"] == "/v1/chat/completions"
    assert received["headers"]["authorization"] == f"Bearer {KEY}"
    assert received["headers"]["content-type"] == "application/json"
    assert received["headers"]["x-team"] == "a"
    assert json.loads(received["body"]) == {
        "model": "stream",
        "messages": [{"role": "user", "content": "hello"}],
        "temperature": 0.5,
        "max_completion_tokens": 20,
        "stream": True,
        "stream_options": {"include_usage": True},
        "top_p": 0.5,
    }


async def test_thinking_goes_where_the_provider_takes_it(server: Server) -> None:
    broker = runvil.HttpBroker(
        server.base_url,
        api_key=KEY,
        thinking_field="chat_template_kwargs.enable_thinking",
        extra_body={"chat_template_kwargs": {"kept": 1}},
    )
    switchable = runvil.Model("stream", thinking="switchable", broker=broker)
    lua = CHAT.replace("models.use('writer')", "models.use('writer', {thinking = true})")
    await runvil.run_async(runvil.Prompt.parse(document(lua)), models=switchable)
    await runvil.run_async(chat_prompt(), models=switchable)
    first, second = (json.loads(received["body"]) for received in server.requests())
    assert first["chat_template_kwargs"] == {"kept": 1, "enable_thinking": True}
    assert second["chat_template_kwargs"] == {"kept": 1}


async def test_fragments_arrive_in_order_while_the_reply_goes_on(server: Server) -> None:
    class App(runvil.Host):
        def __init__(self) -> None:
            self.seen: list[tuple[str, float]] = []

        def on_fragment(self, fragment: runvil.Fragment) -> None:
            assert (fragment.section, fragment.round) == ("Only", 0)
            self.seen.append((fragment.text, time.monotonic()))

    app = App()
    await runvil.run_async(chat_prompt(), models=model(server), host=app)
    assert [text for text, _ in app.seen] == ["one ", "two ", "three"]
    assert app.seen[-1][1] - app.seen[0][1] > 0.2


async def test_a_wrong_key_is_refused_and_never_shown(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(runvil.RunError) as caught:
        await runvil.run_async(chat_prompt(), models=model(server, key="sk-wrong"))
    error = caught.value
    assert (error.kind, error.status) == ("Completion", 401)
    assert error.message == "the model backend did not accept the credentials (status 401)"
    assert error.detail is not None
    assert "Incorrect API key" in error.detail
    assert isinstance(error.__cause__, runvil.ModelError)
    assert error.__cause__.kind == "Unavailable"
    assert "sk-wrong" not in f"{error!r} {error} {error.__cause__!r} {caplog.text}"


async def test_a_server_that_is_gone_is_a_transport_failure(server: Server) -> None:
    server.process.kill()
    server.process.wait()
    with pytest.raises(runvil.RunError) as caught:
        await runvil.run_async(chat_prompt(), models=model(server, retries=0))
    assert caught.value.message == "the connection to the model backend failed"


async def test_a_stream_that_breaks_off_is_not_tried_again(server: Server) -> None:
    with pytest.raises(runvil.RunError, match="the connection to the model backend failed"):
        await runvil.run_async(chat_prompt(), models=model(server, "break-off"))
    assert len(server.requests()) == 1


async def test_an_overloaded_server_is_tried_again(server: Server) -> None:
    result = await runvil.run_async(chat_prompt(), models=model(server, "busy-once"))
    assert (result.text, result.turns, len(server.requests())) == ("one two three", 1, 2)


async def test_a_provider_overflow_exhausts_the_context(server: Server) -> None:
    with pytest.raises(runvil.RunError) as caught:
        await runvil.run_async(chat_prompt(), models=model(server, "overflow"))
    assert (caught.value.kind, caught.value.reason) == ("ContextExhausted", "provider")
    assert len(server.requests()) == 1


async def test_runs_wait_for_their_models_side_by_side(server: Server) -> None:
    one = model(server)
    began = time.monotonic()
    results = await asyncio.gather(*(runvil.run_async(chat_prompt(), models=one) for _ in range(8)))
    assert {result.text for result in results} == {"one two three"}
    assert time.monotonic() - began < 8 * 0.45


async def test_cancelling_hangs_up(server: Server) -> None:
    task = asyncio.create_task(runvil.run_async(chat_prompt(), models=model(server, "hang")))
    while not server.requests():
        await asyncio.sleep(0.01)
    task.cancel()
    began = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - began < 1


def test_the_same_example_against_a_server(runvil_command: Command, server: Server, tmp_path: Path) -> None:
    (tmp_path / "runvil.toml").write_text(
        f'[providers.local]\nbase_url = "{server.base_url}"\napi_key_env = "LOCAL_KEY"\n'
        '[models.small]\nid = "stream"\n',
        encoding="utf-8",
    )
    log = tmp_path / "run.jsonl"
    ended = runvil_command("run", "first-chat", "--log", log, "--debug", LOCAL_KEY=KEY)
    assert (ended.returncode, ended.stdout) == (0, "one two three\n")
    assert "one two three" in ended.stderr
    assert KEY not in ended.stderr + log.read_text(encoding="utf-8")
    wrong = runvil_command("run", "first-chat", "--json", LOCAL_KEY="sk-wrong")
    assert wrong.returncode == 1
    assert "the model backend did not accept the credentials (status 401)" in wrong.stderr
    assert "sk-wrong" not in wrong.stderr + wrong.stdout


def test_the_environment_alone_names_a_server(runvil_command: Command, server: Server) -> None:
    ended = runvil_command(
        "run", "first-chat", "--model", "stream", OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY=KEY
    )
    assert (ended.returncode, ended.stdout) == (0, "one two three\n")


BUSY = "while true do end"
STUBBORN = "while true do pcall(function() while true do end end) end"


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
@pytest.mark.parametrize(
    ("lua", "identifier"),
    [(BUSY, "stream"), (STUBBORN, "stream"), (CHAT, "hang"), (CHAT, "hang-midway")],
    ids=["busy Lua", "busy Lua that catches errors", "a server that never answers", "a server that stops midway"],
)
def test_ctrl_c_ends_the_run_as_cancelled_within_a_second(
    server: Server, tmp_path: Path, lua: str, identifier: str
) -> None:
    prompt, log = tmp_path / "chat.md", tmp_path / "run.jsonl"
    prompt.write_text(document(lua), encoding="utf-8")
    command = [sys.executable, "-m", "runvil", "run", str(prompt), "--model", identifier, "--json", "--log", str(log)]
    environment = clean_environment(OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY=KEY)
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    ) as process:
        while not (server.requests() if lua == CHAT else log.exists()):
            time.sleep(0.01)
        time.sleep(0.3)
        assert process.poll() is None
        os.kill(process.pid, signal.SIGINT)
        began = time.monotonic()
        out, err = process.communicate(timeout=10)
        assert time.monotonic() - began < 1
    assert process.returncode == 130
    assert json.loads(out) == {"outcome": "cancelled", "turns": 0, "usage": {}}
    assert err.splitlines()[-1] == "cancelled"
    assert json.loads(log.read_text(encoding="utf-8").splitlines()[-1])["kind"] == "run_failed"


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_a_second_ctrl_c_ends_the_process_at_once(tmp_path: Path) -> None:
    script = tmp_path / "stuck.py"
    script.write_text(
        "import sys, time\n"
        "from runvil import _native, plan\n"
        "from runvil.cli.main import main\n"
        # A step that nothing can interrupt stands for a fault in the engine.
        "class Stuck:\n"
        "    def __init__(self, *_): self.decided = False\n"
        "    def step_within(self, work): return None\n"
        "    def step(self):\n"
        "        print('ready', flush=True)\n"
        "        time.sleep(60)\n"
        "    def cancel(self): print('cancelled', flush=True)\n"
        "plan._native = type('Native', (), {'Run': Stuck, '__version__': ''})\n"
        "sys.exit(main(['run', 'first-chat', '--replies', '/dev/null', '--quiet']))\n",
        encoding="utf-8",
    )
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGINT)
        assert process.stdout.readline() == "cancelled\n"
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(2) == -signal.SIGINT


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_ctrl_c_in_plain_python_code_is_a_keyboard_interrupt(tmp_path: Path) -> None:
    script = tmp_path / "busy.py"
    script.write_text(
        "import runvil, sys\n"
        f"prompt = runvil.Prompt.parse({document(BUSY)!r})\n"
        "print('ready', flush=True)\n"
        "try:\n    runvil.run(prompt)\nexcept KeyboardInterrupt:\n    sys.exit(42)\n",
        encoding="utf-8",
    )
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        os.kill(process.pid, signal.SIGINT)
        began = time.monotonic()
        assert process.wait(10) == 42
        assert time.monotonic() - began < 1


@pytest.mark.parametrize("name", ["stream", "whole", "overflow", "break-off", "busy-once", "wrong-key"])
async def test_a_recorded_run_replays_with_the_same_events(server: Server, tmp_path: Path, name: str) -> None:
    record = tmp_path / "record.jsonl"
    live = model(server, name, stream=name != "whole", **({"key": "wrong"} if name == "wrong-key" else {}))

    async def outcome(chosen: runvil.Model) -> tuple[list[str], tuple[Any, ...]]:
        events: list[str] = []

        class Watch(runvil.Host):
            def on_event(self, event: runvil.Event) -> None:
                events.append(event.to_json())

        prompt = chat_prompt()
        try:
            ended: tuple[Any, ...] = tuple(
                await runvil.run_async(prompt, models=chosen, host=Watch(), record=record, execution="x", debug=True)
            )
        except runvil.RunError as error:
            ended = (error.kind, error.message, error.reason, error.status, error.detail, error.turns)
        return events, ended

    first = await outcome(live)
    again = await outcome(runvil.Model(name, context=4096, broker=runvil.ScriptedBroker.load(record)))
    assert first == again
    assert "model_turn" in "".join(first[0])
