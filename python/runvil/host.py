"""What an application may hook into."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping
    from pathlib import Path

    from runvil._native import Event
    from runvil.broker import Retry

_LIBRARY_NAME = re.compile(r"[A-Za-z0-9_-]+(?:[/.][A-Za-z0-9_-]+)*")


@dataclass(frozen=True, slots=True)
class Fragment:
    """A piece of a reply's text, as it arrives.

    Attributes:
        section: The heading of the section that asked.
        round: The number of the request in its run, from 0.
        text: The piece.
    """

    section: str
    round: int
    text: str


class Host:
    """The hooks of an application. Subclass it and override what you need.

    `on_event`, `on_fragment` and `on_retry` are called on the event loop's thread and must return quickly. An exception
    raised in them cancels the run and comes out of it unchanged.
    """

    def on_event(self, event: Event) -> None:
        """Called with everything the run reports, in order: `event.kind`, `event.to_dict()`, `event.to_json()`."""

    def on_fragment(self, fragment: Fragment) -> None:
        """Called with each piece of a chat reply's text. When nobody overrides it, brokers are not asked for pieces."""

    def on_retry(self, retry: Retry) -> None:
        """Called when a broker sends a failed model request again, before it waits to do so."""

    def ui(self) -> Mapping[str, Any] | None:
        """The state of the application that the prompt's `ui()` reads, as JSON data; asked once, when a run starts.

        With None the prompt has no `ui` global.
        """
        return None

    def user_input(self) -> str | Awaitable[str | None] | None:
        """Answers the prompt's `user_input()`. None says that no input is to be had.

        When it raises, `user_input()` fails; the prompt can read the text of a `runvil.errors.InputError`.
        May be an `async def`; a plain `def` runs on a thread of its own.
        """
        return None

    def load_library(self, name: str) -> str | bytes | Awaitable[str | bytes | None] | None:
        """Gives the source of a library that the prompt requires; None leaves it to the file beside the prompt.

        May be an `async def`; a plain `def` runs on a thread of its own. When it raises, `require` fails.
        """
        del name
        return None


def read_library(name: str, prompt_path: Path | None) -> tuple[bytes, str]:
    """The source and the path of the file `{name}.lua` beside a prompt file.

    Raises:
        LookupError: There is none to be had; the message says why. Links are not followed, and nothing outside the
            prompt's folder is read.
    """
    if prompt_path is None:
        raise LookupError("the prompt was not loaded from a file, and the Host has no load_library hook for it")
    if not _LIBRARY_NAME.fullmatch(name):
        raise LookupError("a library name is segments of letters, digits, - and _, joined by / or .")
    folder = prompt_path.parent.resolve()
    file = folder / f"{name}.lua"
    if file.resolve() != file:
        raise LookupError(f"{name}.lua is a link, which is not followed")
    try:
        return file.read_bytes(), f"{name}.lua"
    except FileNotFoundError:
        raise LookupError(f"there is no file {name}.lua beside the prompt") from None
    except OSError as error:
        raise LookupError(f"{name}.lua cannot be read: {error.strerror}") from error
