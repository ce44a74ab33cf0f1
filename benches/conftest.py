"""Figures that are no times: printed below the table of the benchmarks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benches import conversations

if TYPE_CHECKING:
    from collections.abc import Callable

_figures = pytest.StashKey[list[str]]()


@pytest.fixture
def report_figure(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Adds a line to the report."""
    return request.config.stash.setdefault(_figures, []).append


@pytest.fixture(scope="session", params=(1_000, 100_000), ids=("1k", "100k"))
def conversation(request: pytest.FixtureRequest) -> conversations.Conversation:
    """A seeded conversation."""
    made = conversations.conversation(request.param)
    assert len(made.records_json) > request.param
    return made


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Prints the figures."""
    lines = config.stash.get(_figures, [])
    if lines:
        terminalreporter.section("figures")
        for line in lines:
            terminalreporter.write_line(line)
