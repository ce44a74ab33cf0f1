"""Running prompts from Python: brokers of one's own, hooks, handles, and how runs end."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import runvil
from conftest import CHAT, chat_prompt, document, json_lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BUSY = "while true do end"


class Answers(runvil.Broker):
    """Answers every request with a text, and keeps the requests."""

    def __init__(self, text: str = "pong") -> None:
        self.text = text
        self.requests: list[runvil.Request] = []

    async def complete(
        self, request: runvil.Request, on_fragment: Callable[[str], object] | None = None
    ) -> runvil.Reply:
        self.requests.append(request)
        return runvil.Reply(text=self.text, finish_reason="stop")


class Raises(runvil.Broker):
    """Fails every request."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def complete(self, request: Any, on_fragment: Any = None) -> runvil.Reply:
        raise self.error


class Hangs(runvil.Broker):
    """Answers nothing."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.stopped = False

    async def complete(self, request: Any, on_fragment: Any = None) -> runvil.Reply:
        self.asked.set()
        try:
            await asyncio.sleep(60)
        finally:
            self.stopped = True
        raise AssertionError


def model(broker: runvil.Broker, **fields: Any) -> runvil.Model:
    return runvil.Model("m", broker=broker, **fields)


def test_run_waits_for_the_result() -> None:
    result = runvil.run(chat_prompt(), models=model(Answers()))
    assert (result.text, result.turns, result.usage) == ("pong", 1, {})


def test_args_reach_the_prompt() -> None:
    assert runvil.run(runvil.Prompt.parse(document("return args", roles="")), "some text").text == "some text"


async def test_run_inside_an_event_loop_says_what_to_do() -> None:
    with pytest.raises(RuntimeError, match=r"await runvil\.run_async\(\) there"):
        runvil.run(chat_prompt())


def test_start_outside_an_event_loop_says_what_to_do() -> None:
    with pytest.raises(RuntimeError, match=r"runvil\.start\(\) needs a running event loop"):
        runvil.start(chat_prompt())


@pytest.mark.parametrize(
    ("keywords", "error", "words"),
    [
        ({"colour": 1}, TypeError, "unknown keyword 'colour'; keywords: models, broker, packs"),
        ({"seed": -1}, ValueError, "seed must be between 0 and 18446744073709551615, got -1"),
        ({"seed": "x"}, TypeError, "seed must be an integer, got str"),
        (
            {"models": {"editor": model(Answers())}},
            ValueError,
            "declares no model role 'editor'; declared roles: writer",
        ),
        ({"deadline": 0}, ValueError, "deadline must be a positive number of seconds, got 0"),
        ({"limits": {"rounds": 3}}, TypeError, r"limits must be a runvil\.Limits, got dict"),
        ({"packs": ["web"]}, TypeError, r"packs must hold runvil\.Pack objects, got str"),
        ({"packs": [runvil.Pack("web", [])] * 2}, ValueError, "two packs are named 'web'"),
    ],
)
def test_a_wrong_keyword_is_refused(
    keywords: dict[str, Any], error: type[Exception], words: str, tmp_path: Path
) -> None:
    log = tmp_path / "run.jsonl"
    with pytest.raises(error, match=words):
        runvil.run(chat_prompt(), log=log, **keywords)
    assert not log.exists()


async def test_a_broker_sees_the_request() -> None:
    broker = Answers()
    await runvil.run_async(chat_prompt(), models=model(broker, name="small", max_tokens=20))
    (request,) = broker.requests
    assert (request.model, request.model_id, request.role, request.handle) == ("small", "m", "writer", None)
    assert (request.round, request.origin, request.section) == (0, "chat", "Only")
    assert request.messages == [{"role": "user", "content": "hello"}]
    assert request.messages_json() == b'[{"role":"user","content":"hello"}]'
    assert (request.tools, request.options, request.window) == ([], {"max_tokens": 20}, 8192)
    import json

    assert json.loads(request.body(top_p=0.5)) == {
        "model": "m",
        "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": 20,
        "top_p": 0.5,
    }


async def test_a_plain_broker_runs_on_a_thread_of_its_own() -> None:
    class Plain(runvil.Broker):
        def complete(self, request: Any, on_fragment: Callable[[str], object] | None = None) -> runvil.Reply:
            self.thread = threading.current_thread()
            assert on_fragment is not None
            for piece in ("po", "ng"):
                on_fragment(piece)
            return runvil.Reply(text="pong")

    class App(runvil.Host):
        def __init__(self) -> None:
            self.seen: list[tuple[str, threading.Thread]] = []

        def on_fragment(self, fragment: runvil.Fragment) -> None:
            self.seen.append((fragment.text, threading.current_thread()))

    plain, app = Plain(), App()
    assert (await runvil.run_async(chat_prompt(), models=model(plain), host=app)).text == "pong"
    assert plain.thread is not threading.current_thread()
    assert app.seen == [("po", threading.current_thread()), ("ng", threading.current_thread())]


async def test_an_infer_has_no_live_output() -> None:
    asked: list[Any] = []

    class Watches(Answers):
        async def complete(self, request: Any, on_fragment: Any = None) -> runvil.Reply:
            asked.append((request.origin, on_fragment))
            return await super().complete(request)

    class App(runvil.Host):
        def on_fragment(self, fragment: runvil.Fragment) -> None: ...

    prompt = runvil.Prompt.parse(document("models.use('writer')\nreturn models.infer('hi')"))
    await runvil.run_async(prompt, models=model(Watches()), host=App())
    assert asked == [("infer", None)]


async def test_an_exception_of_a_broker_is_a_transport_failure_with_its_cause() -> None:
    boom = KeyError("private")
    with pytest.raises(runvil.RunError) as caught:
        await runvil.run_async(chat_prompt(), models=model(Raises(boom)))
    assert (caught.value.kind, caught.value.message) == ("Completion", "the connection to the model backend failed")
    assert caught.value.__cause__ is boom
    assert "private" not in str(caught.value)


async def test_a_model_error_of_a_broker_keeps_its_kind_its_status_and_its_words() -> None:
    error = runvil.ModelError("Rejected", status=422, detail="their words")
    with pytest.raises(runvil.RunError) as caught:
        await runvil.run_async(chat_prompt(), models=model(Raises(error)))
    assert caught.value.message == "the model backend rejected the request (status 422)"
    assert (caught.value.status, caught.value.detail) == (422, "their words")
    assert caught.value.__cause__ is error


async def test_a_broker_must_return_a_reply() -> None:
    class Wrong(Answers):
        async def complete(self, request: Any, on_fragment: Any = None) -> Any:
            return "pong"

    with pytest.raises(runvil.RunError) as caught:
        await runvil.run_async(chat_prompt(), models=model(Wrong()))
    assert isinstance(caught.value.__cause__, TypeError)
    assert "must return a runvil.Reply, got str" in str(caught.value.__cause__)


async def test_an_empty_reply_says_whether_it_was_read_or_built() -> None:
    # EMP
    with pytest.raises(runvil.RunError, match="empty model reply"):
        await runvil.run_async(chat_prompt(), models=model(Answers("")))


async def test_models_by_role_and_raw_ids() -> None:
    names = "{'writer', 'critic', 'some/raw:id'}"
    lua = (
        "local out = {}\n"
        f"for _, name in ipairs({names}) do out[#out + 1] = models.get(name):infer('hi') end\n"
        "return table.concat(out, ',')"
    )
    prompt = runvil.Prompt.parse(document(lua, roles="writer critic"))
    one, two, raw = Answers("one"), Answers("two"), Answers("raw")
    result = await runvil.run_async(prompt, models={"writer": model(one), "critic": model(two)}, broker=raw)
    assert result.text == "one,two,raw"
    assert (raw.requests[0].model, raw.requests[0].role) == ("some/raw:id", None)
    assert (await runvil.run_async(prompt, models={"writer": model(one), "*": model(two)})).text == "one,two,two"
    with pytest.raises(runvil.RunError, match="is not a bound model role"):
        await runvil.run_async(prompt, models={"writer": model(one), "critic": model(two)})


async def test_cancelling_cancels_the_run_and_stops_its_work(tmp_path: Path) -> None:
    broker, log = Hangs(), tmp_path / "run.jsonl"
    task = asyncio.create_task(runvil.run_async(chat_prompt(), models=model(broker), log=log))
    while not broker.asked.is_set():
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert broker.stopped
    assert [line["kind"] for line in json_lines(log)][-1] == "run_failed"


@pytest.mark.parametrize(
    "lua",
    [
        BUSY,
        "while true do pcall(function() while true do end end) end",
        "while true do (('x'):rep(1000)):find(('x*'):rep(20) .. 'y') end",
        "local deep = {} for _ = 1, 30 do deep = { deep, deep } end while true do pcall(json.encode, deep) end",
        "while true do local text = 'x' while #text < 1 << 22 do text = text .. text end end",
    ],
)
async def test_a_busy_run_is_cancelled_and_holds_up_nobody(lua: str) -> None:
    busy = asyncio.create_task(runvil.run_async(runvil.Prompt.parse(document(lua, roles=""))))
    began = time.monotonic()
    for _ in range(20):
        await asyncio.sleep(0)
    assert not busy.done()
    assert (await runvil.run_async(chat_prompt(), models=model(Answers()))).text == "pong"
    busy.cancel()
    with pytest.raises(asyncio.CancelledError):
        await busy
    assert time.monotonic() - began < 1


async def test_a_deadline_cancels_the_run() -> None:
    began = time.monotonic()
    with pytest.raises(runvil.RunCancelled, match=r"its deadline of 0\.1 seconds passed"):
        await runvil.run_async(runvil.Prompt.parse(document(BUSY, roles="")), deadline=0.1)
    assert time.monotonic() - began < 1


async def test_a_handle_gives_events_and_the_result() -> None:
    handle = runvil.start(chat_prompt(), models=model(Answers()), execution="mine")
    kinds = [event.kind async for event in handle.events()]
    assert kinds[0] == "parse_started"
    assert "run_started" in kinds
    assert kinds[-1] == "run_succeeded"
    assert "assistant_reply" in kinds
    assert handle.done()
    assert (await handle.result()).text == "pong"
    assert [event async for event in handle.events()] == []
    assert handle.execution == "mine"


async def test_a_handle_can_be_cancelled_from_another_thread() -> None:
    broker = Hangs()
    handle = runvil.start(chat_prompt(), models=model(broker))

    def cancel_when_asked() -> None:
        broker.asked.wait()
        handle.cancel()

    threading.Thread(target=cancel_when_asked).start()
    with pytest.raises(runvil.RunCancelled, match="the run was cancelled"):
        await handle.result()
    assert broker.stopped
    handle.cancel()


async def test_cancelling_the_wait_leaves_the_run_alone() -> None:
    handle = runvil.start(chat_prompt(), models=model(Answers()))
    wait = asyncio.ensure_future(handle.result())
    await asyncio.sleep(0)
    wait.cancel()
    with pytest.raises(asyncio.CancelledError):
        await wait
    assert (await handle.result()).text == "pong"


async def test_events_reach_the_host_in_order_with_their_fields() -> None:
    class App(runvil.Host):
        def __init__(self) -> None:
            self.events: list[dict[str, Any]] = []

        def on_event(self, event: runvil.Event) -> None:
            self.events.append(event.to_dict())

    app = App()
    await runvil.run_async(chat_prompt(), models=model(Answers()), host=app, execution="mine")
    kinds = [event["kind"] for event in app.events]
    # LOG-01
    assert kinds.count("model_turn_completed") == 1
    assert {event["execution"] for event in app.events} == {"mine"}
    reply = app.events[kinds.index("assistant_reply")]
    # LOG-07
    assert (reply["text"], reply["finish_reason"], reply["origin"], reply["round"]) == ("pong", "stop", "chat", 0)


async def test_an_exception_in_a_hook_comes_out_of_the_run() -> None:
    class App(runvil.Host):
        def on_event(self, event: runvil.Event) -> None:
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await runvil.run_async(chat_prompt(), models=model(Answers()), host=App())


@pytest.mark.parametrize("pause", [True, False])
async def test_an_exception_in_the_fragment_hook_comes_out_of_the_run_too(pause: bool) -> None:
    class Streams(runvil.Broker):
        async def complete(self, request: Any, on_fragment: Any = None) -> runvil.Reply:
            on_fragment("po")
            if pause:
                await asyncio.sleep(60)
            return runvil.Reply(text="pong")

    class App(runvil.Host):
        def on_fragment(self, fragment: runvil.Fragment) -> None:
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await runvil.run_async(chat_prompt(), models=model(Streams()), host=App())


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_user_input_comes_from_the_host(asynchronous: bool) -> None:
    class Plain(runvil.Host):
        def user_input(self) -> Any:
            return "typed"

    class Asynchronous(runvil.Host):
        async def user_input(self) -> Any:
            return "typed"

    prompt = runvil.Prompt.parse(document("local text, given = user_input()\nreturn text .. tostring(given)", roles=""))
    assert (await runvil.run_async(prompt, host=Asynchronous() if asynchronous else Plain())).text == "typedtrue"
    unavailable = "User input is unavailable in this host; continue without it.false"
    assert (await runvil.run_async(prompt)).text == unavailable


async def test_a_user_input_hook_that_fails_is_an_input_failure_with_its_cause() -> None:
    class App(runvil.Host):
        async def user_input(self) -> Any:
            raise EOFError("private")

    with pytest.raises(runvil.RunError) as caught:
        await runvil.run_async(runvil.Prompt.parse(document("return user_input()", roles="")), host=App())
    assert caught.value.kind == "Input"
    assert isinstance(caught.value.__cause__, EOFError)
    assert "private" not in caught.value.message


async def test_libraries_come_from_beside_the_prompt_or_from_the_host(tmp_path: Path) -> None:
    text = document("return require('greet').hello", roles="")
    (tmp_path / "greet.lua").write_text("return {hello = 'from the file'}", encoding="utf-8")
    prompt = runvil.Prompt.parse(text, tmp_path / "chat.md")
    assert (await runvil.run_async(prompt)).text == "from the file"

    class App(runvil.Host):
        def load_library(self, name: str) -> str | None:
            return f"return {{hello = 'from the host: {name}'}}" if name == "greet" else None

    assert (await runvil.run_async(prompt, host=App())).text == "from the host: greet"
    with pytest.raises(runvil.RunError, match="greet"):
        await runvil.run_async(runvil.Prompt.parse(text))


async def test_the_same_seed_and_start_give_the_same_run(tmp_path: Path) -> None:
    from datetime import UTC, datetime

    logs = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    for log in logs:
        await runvil.run_async(
            runvil.Prompt.parse(document("return untrusted('x')", roles="")),
            seed=1,
            started_at=datetime(2026, 1, 2, tzinfo=UTC),
            execution="mine",
            log=log,
        )
    assert logs[0].read_bytes() == logs[1].read_bytes()


def test_a_prompt_that_does_not_parse_lists_its_problems(tmp_path: Path) -> None:
    file = tmp_path / "bad.md"
    file.write_text(document("return ("), encoding="utf-8")
    with pytest.raises(runvil.ParseError) as caught:
        runvil.Prompt.load(file)
    error = caught.value
    assert (error.kind, error.path) == ("Lua", str(file))
    assert error.message == error.problems[0].message
    assert str(error).startswith(str(file))


def test_a_prompt_tells_what_it_declares() -> None:
    prompt = runvil.Prompt.shipped("first-chat")
    assert (prompt.name, prompt.version, prompt.dialect) == ("first-chat", 0, "runvil")
    assert [role.label for role in prompt.roles] == ["writer"]
    assert prompt.warnings == []
    assert repr(prompt) == "<Prompt 'first-chat'>"
    with pytest.raises(LookupError, match="no shipped prompt is named 'gone'; shipped prompts: first-chat"):
        runvil.Prompt.shipped("gone")


def test_limits_reach_the_run() -> None:
    lua = "for i = 1, 3 do log('x') end"
    with pytest.raises(runvil.RunError) as caught:
        runvil.run(runvil.Prompt.parse(document(lua, roles="")), limits=runvil.Limits(log_events=2))
    assert caught.value.kind == "Quota"
    hungry = "local t = {} for i = 1, 1e7 do t[i] = {i} end"
    with pytest.raises(runvil.RunError, match="memory"):
        runvil.run(runvil.Prompt.parse(document(hungry, roles="")), limits=runvil.Limits(memory_bytes=4 * 1024 * 1024))


def test_a_hanging_plain_broker_does_not_keep_the_run() -> None:
    release = threading.Event()

    class Stuck(runvil.Broker):
        def complete(self, request: Any, on_fragment: Any = None) -> runvil.Reply:
            release.wait(30)
            return runvil.Reply(text="late")

    began = time.monotonic()
    with pytest.raises(runvil.RunCancelled):
        runvil.run(chat_prompt(), models=model(Stuck()), deadline=0.1)
    assert time.monotonic() - began < 1
    release.set()


def test_the_public_names_are_there() -> None:
    assert sorted(runvil.__all__) == runvil.__all__
    for name in runvil.__all__:
        assert getattr(runvil, name).__doc__ or name == "__version__"
    assert CHAT
