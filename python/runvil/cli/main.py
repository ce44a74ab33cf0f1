"""The commands and their options. `main` gives the process's exit code.

Exit codes: 0 done, 1 a failed run or a prompt with problems, 2 bad usage, 130 cancelled.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from runvil import __version__
from runvil.cli.usage import UsageError
from runvil.errors import ConfigError, RepliesError

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.command(options))
    except (UsageError, ConfigError, RepliesError) as error:
        return _refuse(str(error))
    except BrokenPipeError:
        # Whoever read our output has gone. Nothing may be written to it any more, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return _refuse(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        return 130


def _refuse(message: str) -> int:
    sys.stderr.write(f"runvil: {message}\n")
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="runvil",
        description="Runs conversations with language models, written as prompt documents.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"runvil {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_run(commands)
    _add_log(commands)
    _add_check(commands)
    _add_models(commands)
    _add_init(commands)
    return parser


def _add_run(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    run = commands.add_parser(
        "run",
        help="run a prompt",
        description="Runs a prompt and prints its result.",
        epilog="Exit codes: 0 completed, 1 failed, 2 bad usage, 130 cancelled.",
        allow_abbrev=False,
    )
    run.add_argument("prompt", metavar="PROMPT", help="a prompt document (.md), or the name of a shipped prompt")
    run.add_argument("--args", metavar="TEXT", default="", help="the argument text the prompt reads")
    run.add_argument("--config", metavar="FILE", type=Path, help="the runvil.toml to use")
    run.add_argument(
        "--model",
        metavar="[ROLE=]MODEL",
        action="append",
        default=[],
        help="bind a role, or every role: a catalog name, PROVIDER/ID, or an id on the default provider; repeatable",
    )
    run.add_argument(
        "--max-rounds", metavar="N", type=_count, help="rounds of one loop, unless the prompt sets its own cap"
    )
    run.add_argument("--seed", metavar="N", type=_seed, help="what is random in the run follows from it")
    run.add_argument("--replies", metavar="FILE", type=Path, help="answer from this file instead of any model")
    run.add_argument("--requests", metavar="FILE", type=Path, help="write each model request to this file")
    run.add_argument("--record", metavar="FILE", type=Path, help="write the answers to this file, for --replies")
    run.add_argument("--log", metavar="FILE", type=Path, help="write the run log to this file")
    run.add_argument("--debug", action="store_true", help="log each request and response in full")
    run.add_argument(
        "--dry-run", action="store_true", help="print the first request that would be sent, and send nothing"
    )
    run.add_argument("--json", action="store_true", help="print the outcome as a JSON object")
    run.add_argument("--quiet", action="store_true", help="no progress and no live output")
    run.set_defaults(command=_run)


def _add_log(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    log = commands.add_parser(
        "log",
        help="show what happened in a run",
        description="Shows a run log, which `runvil run --log FILE` writes, as a timeline.",
        allow_abbrev=False,
    )
    log.add_argument("file", metavar="FILE", type=Path, help="the run log; it may be of a run that is still going on")
    log.add_argument("--full", action="store_true", help="show long texts in full")
    log.add_argument("--html", metavar="OUT", type=Path, help="write one self-contained page to this file instead")
    log.set_defaults(command=_log)


def _add_check(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    check = commands.add_parser(
        "check",
        help="report what is wrong with prompts",
        description="Parses and compiles prompts and reports every problem with file:line:column; exit code 1 if any.",
        allow_abbrev=False,
    )
    check.add_argument(
        "prompts", metavar="PROMPT", nargs="+", help="a prompt document (.md), or a shipped prompt's name"
    )
    check.add_argument("--json", action="store_true", help="print the problems as a JSON object")
    check.set_defaults(command=_check)


def _add_models(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    models = commands.add_parser(
        "models",
        help="show the configured models",
        description="Shows the catalog, what each role binds to, and whether each provider's key is present.",
        allow_abbrev=False,
    )
    models.add_argument("--config", metavar="FILE", type=Path, help="the runvil.toml to show")
    models.set_defaults(command=_models)


def _add_init(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    init = commands.add_parser(
        "init",
        help="write files to start from",
        description="Writes a prompt, a runvil.toml and a replies file to start from. Existing files are left alone.",
        allow_abbrev=False,
    )
    init.add_argument(
        "folder", metavar="FOLDER", nargs="?", type=Path, default=Path(), help="where; the working directory"
    )
    init.set_defaults(command=_init)


def _run(options: argparse.Namespace) -> int:
    from runvil.cli.run import run

    return run(options)


def _log(options: argparse.Namespace) -> int:
    from runvil.cli.log import show_log

    return show_log(options.file, full=options.full, html=options.html)


def _check(options: argparse.Namespace) -> int:
    from runvil.cli.check import check

    return check(options.prompts, as_json=options.json)


def _models(options: argparse.Namespace) -> int:
    from runvil.cli.models import show_models

    return show_models(options.config)


def _init(options: argparse.Namespace) -> int:
    from runvil.cli.init import write_starter

    return write_starter(options.folder)


def _count(text: str) -> int:
    return _number(text, 1, 2**32 - 1)


def _seed(text: str) -> int:
    return _number(text, 0, 2**64 - 1)


def _number(text: str, lowest: int, highest: int) -> int:
    if not text.isascii() or not text.isdigit() or not lowest <= int(text) <= highest:
        raise argparse.ArgumentTypeError(f"must be a whole number between {lowest} and {highest}, got {text!r}")
    return int(text)
