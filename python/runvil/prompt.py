"""Prompt documents."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from runvil import _native
from runvil.errors import ParseError

if TYPE_CHECKING:
    import os
    from importlib.resources.abc import Traversable


class Prompt:
    """A prompt document: parsed, with its Lua compiled, ready to run any number of times.

    Make one with `Prompt.load`, `Prompt.parse` or `Prompt.shipped`.
    """

    __slots__ = ("_native", "_path")

    def __init__(self, native: _native.Prompt, path: Path | None) -> None:
        self._native = native
        self._path = path

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Prompt:
        """Reads a prompt document from a file.

        Raises:
            OSError: The file cannot be read.
            ParseError: It is not a valid prompt document; the error lists every problem.
        """
        file = Path(path)
        return cls._parse(file.read_bytes(), file)

    @classmethod
    def parse(cls, text: str | bytes, path: str | os.PathLike[str] | None = None) -> Prompt:
        """Reads a prompt document from text (bytes are UTF-8).

        `path` names the file it stands for: error messages show it, and libraries are looked for beside it.

        Raises:
            ParseError: It is not a valid prompt document; the error lists every problem.
        """
        # Half of a surrogate pair is then found like other bytes that are no UTF-8, with its place.
        source = text.encode(errors="surrogatepass") if isinstance(text, str) else bytes(text)
        return cls._parse(source, None if path is None else Path(path))

    @classmethod
    def shipped(cls, name: str) -> Prompt:
        """The shipped prompt of that name.

        Raises:
            LookupError: No prompt of that name is shipped; the message lists those that are.
        """
        file = _shipped_folder() / f"{name}.md"
        if name not in shipped_prompts():
            raise LookupError(f"no shipped prompt is named {name!r}; shipped prompts: {', '.join(shipped_prompts())}")
        return cls._parse(file.read_bytes(), Path(str(file)))

    @classmethod
    def _parse(cls, source: bytes, path: Path | None) -> Prompt:
        shown = None if path is None else str(path)
        native, problems = _native.Prompt.parse(source)
        if native is None:
            raise ParseError(problems, shown)
        return cls(native, path)

    @property
    def name(self) -> str:
        """The `name` of the frontmatter."""
        return self._native.name

    @property
    def description(self) -> str:
        """The `description` of the frontmatter."""
        return self._native.description

    @property
    def dialect(self) -> str | None:
        """The frontmatter key that names the language, such as `runvil`; None when there is none."""
        return self._native.dialect

    @property
    def version(self) -> int | None:
        """The language version the document asks for."""
        return self._native.version

    @property
    def source(self) -> str:
        """The whole text of the document."""
        return self._native.source

    @property
    def path(self) -> Path | None:
        """The file, when the prompt came from one."""
        return self._path

    @property
    def warnings(self) -> list[_native.Problem]:
        """What looks wrong but does not keep the prompt from running."""
        return self._native.warnings

    @property
    def max_tool_iterations(self) -> int | None:
        """The round cap the document sets."""
        return self._native.max_tool_iterations

    @property
    def roles(self) -> list[_native.Role]:
        """The model roles the document declares: `label`, `keywords`, `min_context`, `description`."""
        return self._native.roles

    @property
    def uses(self) -> list[tuple[str, bool, object]]:
        """The packs the document uses: name, whether it is optional, and its config."""
        return self._native.uses

    def __repr__(self) -> str:
        return f"<Prompt {self.name!r}>"


def shipped_prompts() -> list[str]:
    """The names of the prompts that come with Runvil, sorted."""
    names = (entry.name for entry in _shipped_folder().iterdir())
    return sorted(name.removesuffix(".md") for name in names if name.endswith(".md"))


def _shipped_folder() -> Traversable:
    return resources.files("runvil") / "prompts"
