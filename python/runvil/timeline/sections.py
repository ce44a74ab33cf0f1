"""Which sections are open: they nest when one calls another."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING, Any

from runvil.timeline.entries import Conversation, SectionClosed, SectionOpened
from runvil.timeline.fields import text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from runvil.timeline.entries import Entry

MAIN_TASK = "0"
"""The task of the main walk."""


class OpenSection:
    """A section between its beginning and its end."""

    def __init__(self, name: str, task: str, depth: int) -> None:
        self.name = name
        self.task = task
        self.depth = depth
        self.contains = task == MAIN_TASK
        self.conversation = Conversation()
        self.torn_down = False

    @property
    def inner_depth(self) -> int:
        """How many sections are open around its entries."""
        return self.depth + 1


class Sections:
    """Follows the events that open and close sections.

    A section that fails has no event for its end. It shows by its VM's teardown, or by its caller going on.

    Args:
        leave: Called with a section that ends; gives what it leaves behind.
    """

    def __init__(self, leave: Callable[[OpenSection], Iterator[Entry]]) -> None:
        self._leave = leave
        self._open: dict[str, list[OpenSection]] = {}
        self._names: Counter[tuple[str, str]] = Counter()
        self._asking: dict[str, deque[OpenSection]] = defaultdict(deque)
        self._title = ""

    @property
    def depth(self) -> int:
        """How many sections of the main walk are open."""
        return len(self._open.get(MAIN_TASK, ()))

    def of(self, line: Mapping[str, Any]) -> OpenSection | None:
        """The open section that an event belongs to."""
        open_sections = self._open.get(text_of(line, "task") or MAIN_TASK)
        if not open_sections or open_sections[-1].name != text_of(line, "section"):
            return None
        return open_sections[-1]

    def sender(self, line: Mapping[str, Any]) -> OpenSection | None:
        """The open section that sends a request. The line does not name its task: those that made ready take turns."""
        asking = self._asking.get(text_of(line, "section"))
        return asking.popleft() if asking else self.of(line)

    def refused(self, section: OpenSection) -> None:
        """Notes that the request a section made ready for is not sent."""
        asking = self._asking[section.name]
        if section in asking:
            asking.remove(section)

    def follow(self, kind: str, line: Mapping[str, Any]) -> Iterator[Entry]:
        """Opens and closes what an event opens and closes."""
        name, task = text_of(line, "section"), text_of(line, "task") or MAIN_TASK
        open_sections = self._open.setdefault(task, [])
        if open_sections and open_sections[-1].torn_down and kind != "section_finished":
            yield from self._close(task, finished=open_sections[-1].name == self._title and task == MAIN_TASK)
        if kind != "section_started":
            yield from self._return_to(name, task)
        match kind:
            case "run_started":
                self._title = name
            case "section_started":
                yield self._opened(name, task)
            case "lua_chunk_started" if name == self._title and self.of(line) is None:
                yield self._opened(name, task)
            case "section_finished" if self.of(line):
                yield from self._close(task, finished=True)
            case "lua_teardown_succeeded" if section := self.of(line):
                section.torn_down = True
            case "tool_scope_validation_succeeded" if section := self.of(line):
                self._asking[name].append(section)
            case "run_succeeded" | "run_failed":
                yield from self.close_all()

    def close_all(self) -> Iterator[Entry]:
        """Closes what is still open, from the inside out."""
        for task, open_sections in self._open.items():
            while open_sections:
                yield from self._close(task, finished=False)

    def _return_to(self, name: str, task: str) -> Iterator[Entry]:
        """Closes the sections inside the one that an event belongs to."""
        open_sections = self._open[task]
        if self._names[task, name]:
            while open_sections[-1].name != name:
                yield from self._close(task, finished=False)

    def _opened(self, name: str, task: str) -> SectionOpened:
        open_sections = self._open[task]
        section = OpenSection(name, task, len(open_sections) + (0 if task == MAIN_TASK else self.depth))
        open_sections.append(section)
        self._names[task, name] += 1
        return SectionOpened(name, task, section.depth, section.contains)

    def _close(self, task: str, *, finished: bool) -> Iterator[Entry]:
        section = self._open[task][-1]
        self.refused(section)
        yield from self._leave(section)
        self._open[task].pop()
        self._names[task, section.name] -= 1
        yield SectionClosed(section.name, section.task, section.depth, section.contains, finished, section.conversation)
