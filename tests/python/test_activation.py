"""Packs that do something before a run that uses them begins, and packs that cannot be had together."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

import runvil
from conftest import document
from runvil import Model, Pack, Prompt, ScriptedBroker, threads

USES = "uses:\n  - web\n  - {pack: extra, optional: true, config: {level: 3}}\n"
OFFERS = (
    "models.use('writer')\npacks.offer('web')\npacks.offer('extra')\nmessages:user('x')\nmodels.loop()\n"
    "return pcall(tools.call, 'extra/look') and tools.call('extra/look') or 'none'"
)


def look() -> str:
    """Looks."""
    return "looked"


def prompt(lua: str = OFFERS, uses: str = USES) -> Prompt:
    return Prompt.parse(document(lua).replace("models:", f"{uses}models:"))


def model() -> Model:
    return Model("m", broker=ScriptedBroker([{"text": "hi"}]))


class Extra(Pack):
    """Notes its configuration; fails when asked to."""

    def __init__(self, name: str = "extra", error: Exception | None = None) -> None:
        super().__init__(name, [runvil.tool(trusted=True)(look)])
        self.error = error
        self.configs: list[Any] = []

    async def activate(self, config: Any) -> None:
        self.configs.append(config)
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error


async def test_a_pack_is_activated_with_its_configuration() -> None:
    extra, unused = Extra(), Extra("unused")
    result = await runvil.run_async(prompt(), models=model(), packs=[Pack("web", [look]), extra, unused])
    assert (result.text, extra.configs, unused.configs) == ("looked", [{"level": 3}], [])


async def test_a_pack_that_is_named_twice_is_activated_once() -> None:
    extra = Extra()
    uses = USES + "  - {pack: extra, config: {level: 4}}\n"
    result = await runvil.run_async(prompt(uses=uses), models=model(), packs=[Pack("web", [look]), extra])
    assert (result.text, extra.configs) == ("looked", [{"level": 3}])


async def test_an_optional_pack_that_fails_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "runvil")
    extra = Extra(error=RuntimeError("secret"))
    result = await runvil.run_async(prompt(), models=model(), packs=[Pack("web", [look]), extra])
    assert result.text == "none"
    assert caplog.messages == ["pack extra failed to activate (RuntimeError); the run goes on without it"]


async def test_a_required_pack_that_fails_is_missing() -> None:
    web = Extra("web", RuntimeError("secret"))
    with pytest.raises(runvil.RunError) as caught:
        await runvil.run_async(prompt(), models=model(), packs=[web])
    assert caught.value.kind == "RequirementsUnmet"
    assert caught.value.message == "the environment cannot satisfy this prompt:\n- missing required Pack: web"


async def test_a_pack_that_cancels_itself_is_missing() -> None:
    class Given(Extra):
        async def activate(self, config: Any) -> None:
            given_up = asyncio.create_task(asyncio.sleep(60))
            given_up.cancel()
            await given_up

    with pytest.raises(runvil.RunError, match="missing required Pack: web"):
        await runvil.run_async(prompt(), models=model(), packs=[Given("web")])


async def test_a_pack_that_takes_its_time_to_give_up_is_awaited_and_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(threads, "PATIENCE", 0.02)
    begun, release = asyncio.Event(), asyncio.Event()

    class Slow(Pack):
        async def activate(self, config: Any) -> None:
            begun.set()
            try:
                await asyncio.sleep(60)
            finally:
                await release.wait()

    run = asyncio.create_task(runvil.run_async(prompt(), models=model(), packs=[Slow("web", [look])]))
    await begun.wait()
    for _ in range(2):
        run.cancel()
        await asyncio.sleep(0.05)
        assert not run.done()
    assert "waiting for what was cancelled and has not ended: the activation of a pack" in caplog.messages
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_cancelling_while_a_pack_activates() -> None:
    class Slow(Extra):
        stopped = False

        async def activate(self, config: Any) -> None:
            try:
                await asyncio.sleep(60)
            finally:
                self.stopped = True

    slow = Slow("web")
    handle = runvil.start(prompt(), models=model(), packs=[slow])
    await asyncio.sleep(0.01)
    handle.cancel()
    with pytest.raises(runvil.RunCancelled):
        await handle.result()
    assert slow.stopped


async def test_a_plain_activate_runs_on_a_thread() -> None:
    class Plain(Pack):
        def activate(self, config: Any) -> None:
            with pytest.raises(RuntimeError, match="no running event loop"):
                asyncio.get_running_loop()

    result = await runvil.run_async(prompt("return 'ok'", "uses: [web]\n"), packs=[Plain("web", [look])])
    assert result.text == "ok"


@pytest.mark.parametrize(
    ("rendered", "cause"),
    [
        (RuntimeError("mine"), "mine"),
        (None, "a rendered tool must be a dict"),
        ({"description": "x"}, "a rendered tool lacks its parameters"),
        ({"description": 3, "parameters": {}}, "description of a rendered tool cannot be a int"),
        (
            {"description": "\ud800", "parameters": {}},
            "description of a rendered tool holds text with a lone surrogate",
        ),
        ({"parameters": {"a": {1}}}, "the parameters of a tool holds a set, which JSON cannot"),
        ({"parameters": {"a": float("nan")}}, "the parameters of a tool holds NaN, which JSON cannot"),
        ({"parameters": []}, None),
    ],
)
async def test_a_schema_that_cannot_be_rendered(rendered: Any, cause: str | None) -> None:
    class Broken(Pack):
        def render(self, name: str) -> dict[str, Any]:
            if isinstance(rendered, Exception):
                raise rendered
            return rendered  # type: ignore[no-any-return]

    lua = "models.use('writer')\npacks.offer('web')\nmessages:user('x')\nmodels.loop()"
    with pytest.raises(runvil.RunError) as caught:
        await runvil.run_async(prompt(lua, "uses: [web]\n"), models=model(), packs=[Broken("web", [look])])
    assert caught.value.kind == "Binding"
    assert 'model-facing schema build failure for tool "web/look"' in caught.value.message
    assert (caught.value.__cause__ and str(caught.value.__cause__)) == cause
