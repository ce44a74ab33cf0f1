"""Reading the user's lines."""

from __future__ import annotations

import os
import sys


class StandardInput:
    """Lines of standard input, read from the descriptor itself.

    A thread that waits in `sys.stdin` keeps its lock, and the interpreter cannot end while it does.
    """

    def __init__(self) -> None:
        self._held = b""

    def read_line(self) -> str | None:
        """The next line without its end; None at the end of the input. Asks on a terminal."""
        if sys.stdin is None:
            return None
        if sys.stdin.isatty():
            sys.stderr.write("> ")
            sys.stderr.flush()
        while b"\n" not in self._held:
            read = os.read(sys.stdin.fileno(), 65536)
            if not read:
                line, self._held = self._held, b""
                return line.decode(errors="replace") if line else None
            self._held += read
        line, _, self._held = self._held.partition(b"\n")
        return line.removesuffix(b"\r").decode(errors="replace")
