"""The broker that answers from a file: no network, no model, the same answers every time."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runvil.broker import Broker
from runvil.errors import InputError, ModelError, RepliesError, ToolError
from runvil.packs import Pack, Tool
from runvil.replies import AnswerLine, PackLine, ToolLine, UserLine, parse_line
from runvil.texts import to_json

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping

    from runvil.broker import Request
    from runvil.replies import Line, When
    from runvil.reply import Reply


class ScriptedBroker(Broker):
    """Answers model requests from a script, and stands in for packs and the user if the script has lines for them.

    A script is JSON Lines; the docstring of `runvil.replies` tells what a line may hold. Model answers are used in
    order: each request takes the first unused line that fits it. A request that no line fits fails with a model error
    of kind `Unavailable`.

    Attributes:
        packs: The packs that the script declares, for the `packs` of a run.
    """

    def __init__(self, lines: Iterable[dict[str, Any]] = ()) -> None:
        """Builds a script from decoded lines."""
        text = "\n".join(json.dumps(line) for line in lines)
        self._set_up(_read(text, "line"))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ScriptedBroker:
        """Reads a script from a file.

        Raises:
            OSError: The file cannot be read.
            RepliesError: A line is not valid; the message names it.
        """
        file = Path(path)
        try:
            text = file.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise RepliesError(f"{file}: the file is not valid UTF-8 (byte {error.start})") from None
        return cls.parse(text, str(file))

    @classmethod
    def parse(cls, text: str, path: str = "<replies>") -> ScriptedBroker:
        """Reads a script from text; `path` is what error messages call it.

        Raises:
            RepliesError: A line is not valid; the message names it.
        """
        broker = cls()
        broker._set_up(_read(text, path))
        return broker

    def _set_up(self, script: _Script) -> None:
        self._answers = script.answers
        self._used = [False] * len(script.answers)
        self._first_unused = 0
        self._user = deque(script.user)
        self.packs = [
            Pack(
                name,
                [
                    _ScriptedTool(path := f"{name}/{tool}", fields, script.tools.get(path, ()))
                    for tool, fields in tools.items()
                ],
            )
            for name, tools in script.packs.items()
        ]

    async def complete(self, request: Request, on_fragment: Callable[[str], object] | None = None) -> Reply:
        """Answers with the first unused line that fits the request.

        Raises:
            ModelError: The line is a failure, or there is none.
            CancelledError: The line is a call that was dropped.
        """
        line = self._take(request)
        if line.error is None or line.fragments is not None:
            await self._send_fragments(line, on_fragment)
        elif line.delay:
            await asyncio.sleep(line.delay)
        if line.error is not None:
            raise line.error.to_exception()
        if line.reply is None:
            raise asyncio.CancelledError
        return line.reply

    def user_input(self) -> str | None:
        """The next scripted line of the user; None when it says that there is no input, and when there is none left.

        Raises:
            InputError: The line says that the user could not be asked.
            CancelledError: The line is a question that was dropped.
        """
        if not self._user:
            return None
        line = self._user.popleft()
        if line.dropped:
            raise asyncio.CancelledError
        if line.error is not None:
            raise InputError(line.error)
        return line.text

    async def _send_fragments(self, line: AnswerLine, on_fragment: Callable[[str], object] | None) -> None:
        """Sends the reply's text piece by piece, waiting the line's delay before each piece."""
        for fragment in line.pieces() or [""]:
            if line.delay:
                await asyncio.sleep(line.delay)
            if fragment and on_fragment is not None:
                on_fragment(fragment)

    def _take(self, request: Request) -> AnswerLine:
        for position in range(self._first_unused, len(self._answers)):
            line = self._answers[position]
            if not self._used[position] and (line.when is None or _fits(line.when, request)):
                self._used[position] = True
                while self._first_unused < len(self._used) and self._used[self._first_unused]:
                    self._first_unused += 1
                return line
        left = self._used.count(False)
        rest = "every line is used" if left == 0 else f"{left} unused line{'s' * (left > 1)} fit other requests"
        asked = f"request {request.round}" + (f" of role {request.role}" if request.role else "")
        raise ModelError("Unavailable", note=f"the scripted replies have no answer for {asked}: {rest}")

    def __repr__(self) -> str:
        return f"<ScriptedBroker with {self._used.count(False)} unused answers>"


@dataclass
class _Script:
    """A script's lines by what they answer."""

    answers: list[AnswerLine] = field(default_factory=list)
    packs: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    tools: dict[str, list[ToolLine]] = field(default_factory=dict)
    user: list[UserLine] = field(default_factory=list)


def _read(text: str, path: str) -> _Script:
    """Reads a whole script. Only a line feed ends a line: JSON text may hold the other line breaks of Unicode."""
    script = _Script()
    first_use: dict[str, str] = {}
    for number, raw in enumerate(text.split("\n"), start=1):
        if raw.strip():
            where = f"{path}:{number}"
            _add(parse_line(raw, where), script, where, first_use)
    for tool, where in first_use.items():
        pack, _, name = tool.partition("/")
        if name not in script.packs.get(pack, {}):
            raise RepliesError(f'{where}: tool "{tool}" is declared by no "pack" line of the script')
    return script


def _add(line: Line, script: _Script, where: str, first_use: dict[str, str]) -> None:
    match line:
        case AnswerLine():
            script.answers.append(line)
        case PackLine(name, tools):
            if name in script.packs:
                raise RepliesError(f'{where}: pack "{name}" is declared twice')
            script.packs[name] = tools
        case ToolLine():
            script.tools.setdefault(line.tool, []).append(line)
            first_use.setdefault(line.tool, where)
        case UserLine():
            script.user.append(line)


class _ScriptedTool(Tool):
    """A tool that answers its calls with its lines in order, whatever the arguments; the last line repeats."""

    def __init__(self, path: str, fields: dict[str, Any], lines: Iterable[ToolLine]) -> None:
        super().__init__(path.partition("/")[2], self._answer, **fields)
        self._path = path
        self._lines = deque(lines)

    async def call(self, arguments: Mapping[str, Any]) -> str:
        """Answers with the next line."""
        del arguments
        return await self._answer()

    async def _answer(self) -> str:
        if not self._lines:
            raise ToolError(f"{self._path} has no scripted result")
        line = self._lines.popleft() if len(self._lines) > 1 else self._lines[0]
        if line.delay:
            await asyncio.sleep(line.delay)
        if line.dropped:
            raise asyncio.CancelledError
        if line.error is not None:
            raise ToolError(line.error)
        return line.result if isinstance(line.result, str) else to_json(line.result)


def _fits(when: When, request: Request) -> bool:
    if when.role is not None and when.role != request.role:
        return False
    return when.contains is None or any(when.contains in text for text in _texts(request.messages))


def _texts(messages: list[dict[str, Any]]) -> Iterable[str]:
    for message in messages:
        content = message.get("content")
        if isinstance(content, str):
            yield content
        elif isinstance(content, list):
            yield from (part["text"] for part in content if isinstance(part.get("text"), str))
