"""Which prompt a PROMPT argument means."""

from __future__ import annotations

from pathlib import Path

from runvil.cli.usage import UsageError
from runvil.prompt import Prompt, shipped_prompts


def load_prompt(text: str) -> tuple[Prompt, Path | None]:
    """The prompt, and the folder it lies in when it is the user's own file.

    A text that ends in `.md` or `.lua`, or that names a file, is that file; another bare name is a shipped prompt.

    Raises:
        UsageError: It is neither.
        OSError: The file cannot be read.
        ParseError: It is not a valid prompt.
    """
    file = Path(text)
    if file.suffix in (".md", ".lua") or file.is_file():
        return Prompt.load(file), file.parent
    if text in shipped_prompts():
        return Prompt.shipped(text), None
    raise UsageError(
        f"{text}: there is no such file and no such shipped prompt; shipped: {', '.join(shipped_prompts())}"
    )
