"""`runvil init`."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from runvil.cli.output import say
from runvil.cli.usage import UsageError

if TYPE_CHECKING:
    from pathlib import Path

_FILES = {
    "first-chat.md": "prompts/first-chat.md",
    "first-chat.replies.jsonl": "starter/first-chat.replies.jsonl",
    "runvil.toml": "starter/runvil.toml",
}


def write_starter(folder: Path) -> int:
    """Writes the starter files; refuses when one of them is there already, before writing any."""
    taken = [name for name in _FILES if (folder / name).exists()]
    if taken:
        raise UsageError(f"{folder / taken[0]} is there already; nothing was written")
    folder.mkdir(parents=True, exist_ok=True)
    package = resources.files("runvil")
    for name, source in _FILES.items():
        (folder / name).write_bytes((package / source).read_bytes())
        say(f"wrote {folder / name}")
    prompt = folder / "first-chat.md"
    say(f"try it: runvil run {prompt} --replies {folder / 'first-chat.replies.jsonl'}")
    say(f"then edit {folder / 'runvil.toml'} and: runvil run {prompt}")
    return 0
