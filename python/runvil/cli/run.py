"""`runvil run`."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from runvil.broker import Broker
from runvil.cli.binding import Supplies, choose_models, live_supplies, scripted_supplies
from runvil.cli.output import (
    LiveHost,
    QuietHost,
    error_text,
    make_progress,
    parse_error_text,
    say,
    write_indented,
    write_json,
    write_result,
)
from runvil.cli.prompts import load_prompt
from runvil.config import Config, find_config
from runvil.errors import ParseError, RunCancelled, RunError
from runvil.requests_log import request_json
from runvil.runs import start
from runvil.scripted import ScriptedBroker

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from pathlib import Path

    from runvil.broker import Request
    from runvil.cli.output import LiveText
    from runvil.plan import RunOptions
    from runvil.prompt import Prompt
    from runvil.reply import Reply
    from runvil.runs import Result, RunHandle


def run(options: argparse.Namespace) -> int:
    """Runs a prompt and reports how it ended."""
    try:
        prompt, folder = load_prompt(options.prompt)
    except ParseError as error:
        return _report_parse_error(error, as_json=options.json)
    config = read_config(options.config, folder)
    supplies = _supplies(prompt, config, options)
    if not options.quiet:
        _warn_of_unbound_roles(prompt, supplies)
    progress = make_progress(quiet=options.quiet or options.dry_run)
    host = QuietHost(supplies.user_input) if progress is None else LiveHost(supplies.user_input, progress)
    keywords = _keywords(supplies, config, options) | {"host": host}
    if options.dry_run:
        return _dry_run(prompt, options, keywords, supplies)
    try:
        result = asyncio.run(_attended(prompt, options.args, keywords))
    except RunError as error:
        _finish(progress)
        code = _report_failure(error, as_json=options.json)
        if options.log is not None:
            say(f"to see what happened: runvil log {shlex.quote(str(options.log))}")
        return code
    except RunCancelled as cancelled:
        _finish(progress)
        return _report_cancelled(cancelled, as_json=options.json)
    _finish(progress)
    if options.json:
        write_json({"outcome": "completed", "result": result.text, "turns": result.turns, "usage": result.usage})
    else:
        write_result(result.text)
    return 0


def read_config(given: Path | None, prompt_folder: Path | None) -> Config:
    """The configuration: the file given, else the one found, else the environment's."""
    path = given or find_config(prompt_folder, os.environ)
    return Config.from_environment(os.environ) if path is None else Config.load(path)


def _supplies(prompt: Prompt, config: Config, options: argparse.Namespace) -> Supplies:
    """What answers the run's requests: the script, or the providers of the configuration and the user."""
    chosen = choose_models(prompt, config, options.model)
    if options.replies is not None:
        return scripted_supplies(prompt, chosen, ScriptedBroker.load(options.replies))
    return live_supplies(chosen, config, os.environ)


def _keywords(supplies: Supplies, config: Config, options: argparse.Namespace) -> RunOptions:
    return {
        "models": supplies.models,
        "broker": supplies.raw_broker,
        "packs": supplies.packs,
        "limits": config.limits if options.max_rounds is None else replace(config.limits, rounds=options.max_rounds),
        "seed": options.seed,
        "log": options.log,
        "requests": options.requests,
        "record": options.record,
        "debug": options.debug,
    }


def _warn_of_unbound_roles(prompt: Prompt, supplies: Supplies) -> None:
    unbound = [role.label for role in prompt.roles if role.label not in supplies.models]
    if unbound:
        say(f"note: nothing binds {', '.join(unbound)}: pass --model MODEL, or add it to [roles] in runvil.toml")


async def _attended(prompt: Prompt, args: str, keywords: RunOptions) -> Result:
    """Runs a prompt that Ctrl-C cancels; a second Ctrl-C ends the process at once."""
    handle = start(prompt, args, **keywords)
    restore = _cancel_on_interrupt(handle)
    try:
        return await handle.result()
    finally:
        restore()


def _cancel_on_interrupt(handle: RunHandle) -> Callable[[], object]:
    """Makes Ctrl-C cancel the run, and returns what undoes that."""

    def interrupt(_signal: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        handle.cancel()

    before = signal.signal(signal.SIGINT, interrupt)
    return lambda: signal.signal(signal.SIGINT, before)


class _FirstRequest(Broker):
    """Keeps the first request and answers none."""

    def __init__(self) -> None:
        self.request: Request | None = None

    async def complete(self, request: Request, on_fragment: Callable[[str], object] | None = None) -> Reply:
        """Keeps the request and waits for the run to be cancelled."""
        del on_fragment
        self.request = self.request or request
        self.handle.cancel()
        never: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        return await never

    handle: RunHandle


def _dry_run(prompt: Prompt, options: argparse.Namespace, keywords: RunOptions, supplies: Supplies) -> int:
    """Prints the first request that a run would send. Nothing is sent and no file is written."""
    broker = _FirstRequest()
    keywords["models"] = {label: replace(model, broker=broker) for label, model in supplies.models.items()}
    keywords["broker"] = None if supplies.raw_broker is None else broker
    keywords |= {"log": None, "requests": None, "record": None}

    async def until_first_request() -> None:
        broker.handle = start(prompt, options.args, **keywords)
        await broker.handle.result()

    try:
        asyncio.run(until_first_request())
    except RunError as error:
        return _report_failure(error, as_json=options.json)
    except RunCancelled:
        pass
    if broker.request is None:
        say("the run ends without a model request")
        return 0
    request = json.loads(request_json(broker.request))
    if options.json:
        write_json(request)
    else:
        write_indented(request)
    return 0


def _finish(progress: LiveText | None) -> None:
    if progress is not None:
        progress.finish()


def _report_parse_error(error: ParseError, *, as_json: bool) -> int:
    say(parse_error_text(error))
    if as_json:
        fields: dict[str, Any] = {"kind": "Parse", "message": error.message, "parse_kind": error.kind}
        if error.line is not None:
            fields["location"] = _location(error.path or "<prompt>", error.line, error.column)
        write_json({"outcome": "failed", "error": fields, "turns": 0, "usage": {}})
    return 1


def _report_failure(error: RunError, *, as_json: bool) -> int:
    say(error_text(error))
    if as_json:
        fields: dict[str, Any] = {"kind": error.kind, "message": error.message}
        for name in ("parse_kind", "reason", "finish_reason", "name"):
            value = getattr(error, name)
            if value is not None:
                fields[name] = value
        if error.location is not None:
            fields["location"] = _location(error.location.path, error.location.line, error.location.column)
        write_json({"outcome": "failed", "error": fields, "turns": error.turns, "usage": error.usage})
    return 1


def _report_cancelled(cancelled: RunCancelled, *, as_json: bool) -> int:
    say("cancelled")
    if as_json:
        write_json({"outcome": "cancelled", "turns": cancelled.turns, "usage": cancelled.usage})
    return 130


def _location(path: str, line: int, column: int | None) -> dict[str, Any]:
    return {"path": path, "line": line} | ({} if column is None else {"column": column})
