"""Files of JSON Lines, one write a line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from runvil.texts import to_json

if TYPE_CHECKING:
    import os


class LineFile:
    """A file that is written line by line, each line in one write, so that a reader never sees half of one.

    Opening it empties the file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = Path(path).open("wb", buffering=0)  # noqa: SIM115 - closed by `close`

    def write(self, value: Any) -> None:
        """Writes a value as one line."""
        self.write_json(to_json(value).encode())

    def write_json(self, line: bytes) -> None:
        """Writes a line that is JSON already."""
        self._file.write(line + b"\n")

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
