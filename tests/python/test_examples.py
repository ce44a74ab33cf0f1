"""The examples run as the README says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conftest import HERE

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

EXAMPLES = HERE.parent.parent / "examples"


def test_search_chat(runvil_command: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    prompt, replies = EXAMPLES / "search-chat.md", EXAMPLES / "search-chat.replies.jsonl"
    ended = runvil_command("run", prompt, "--replies", replies, "--log", "run.jsonl", "--quiet")
    assert (ended.returncode, ended.stdout) == (
        0,
        "The tallest structure in Paris is the Eiffel Tower. (note: 330 m)\n",
    )
    ended = runvil_command("log", "run.jsonl")
    assert "tool archive/search succeeded · call_1" in ended.stdout
