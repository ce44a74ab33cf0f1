"""`runvil check`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runvil.cli.output import say, write_json, write_result
from runvil.cli.prompts import load_prompt
from runvil.errors import ParseError, problem_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runvil._native import Problem


def check(prompts: Sequence[str], *, as_json: bool) -> int:
    """Reports every problem of the prompts. The exit code is 1 if there is any; warnings do not count."""
    found: list[dict[str, Any]] = []
    for text in prompts:
        problems: Sequence[Problem] = ()
        try:
            prompt, _ = load_prompt(text)
            warnings = prompt.warnings
        except ParseError as error:
            problems, warnings = error.problems, []
        for problem in warnings:
            say(f"warning: {problem_text(problem, text)}")
        for problem in problems:
            found.append(_as_dict(problem, text))
            if not as_json:
                write_result(problem_text(problem, text))
    if as_json:
        write_json({"checked": len(prompts), "problems": found})
    return 1 if found else 0


def _as_dict(problem: Problem, path: str) -> dict[str, Any]:
    fields = {"path": path, "line": problem.line, "column": problem.column}
    fields |= {"kind": problem.kind, "message": problem.message}
    return {name: value for name, value in fields.items() if value is not None}
