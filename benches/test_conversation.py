"""What the operations of a conversation take, on a short one and on a long one."""

# mypy: disable-error-code="no-untyped-call"
# `pedantic` of pytest-benchmark has no types.

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import runvil
from benches import conversations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_benchmark.fixture import BenchmarkFixture

    from benches.conversations import Conversation

WINDOW = 100_000_000


@pytest.fixture
def loaded(conversation: Conversation) -> runvil.Conversation:
    """The conversation, checked and composed."""
    made = runvil.Conversation.from_json(conversation.records_json)
    made.compose()
    return made


@pytest.mark.benchmark(group="load")
def test_from_json(benchmark: BenchmarkFixture, conversation: Conversation) -> None:
    """Parses and checks each record by itself."""
    made = benchmark(runvil.Conversation.from_json, conversation.records_json)
    assert len(made) == len(conversation)


@pytest.mark.benchmark(group="load")
def test_from_openai_json(benchmark: BenchmarkFixture, conversation: Conversation) -> None:
    """The same from the form of OpenAI's chat API."""
    made = benchmark(runvil.Conversation.from_json, conversation.openai_json)
    assert len(made) == len(conversation)


@pytest.mark.benchmark(group="load")
def test_from_objects(benchmark: BenchmarkFixture, conversation: Conversation) -> None:
    """The same from dicts."""
    made = benchmark(runvil.Conversation.from_json, conversation.records)
    assert len(made) == len(conversation)


@pytest.mark.benchmark(group="whole turn")
def test_turn_from_json(benchmark: BenchmarkFixture, conversation: Conversation) -> None:
    """Parses, checks, merges, counts and serializes."""

    def turn() -> bytes:
        request = runvil.Conversation.from_json(conversation.records_json).compose()
        assert request.estimate
        return request.body(model="small")

    assert benchmark(turn).startswith(b"{")


@pytest.mark.benchmark(group="whole turn")
def test_turn_from_json_with_the_body_lent(benchmark: BenchmarkFixture, conversation: Conversation) -> None:
    """The same without a Python bytes object."""

    def turn() -> memoryview:
        return runvil.Conversation.from_json(conversation.records_json).compose().body_view(model="small")

    assert benchmark(turn).nbytes


@pytest.mark.benchmark(group="whole turn")
def test_turn_from_objects(benchmark: BenchmarkFixture, conversation: Conversation) -> None:
    """The same from dicts."""

    def turn() -> bytes:
        return runvil.Conversation.from_json(conversation.records).compose().body(model="small")

    assert benchmark(turn).startswith(b"{")


@pytest.mark.benchmark(group="one more round")
def test_one_more_round(benchmark: BenchmarkFixture, loaded: runvil.Conversation) -> None:
    """Adds two records, checks, composes, estimates, prechecks and lends the body."""
    # Enough for every round: the ids of calls are unique in a conversation.
    pairs = iter(conversations.rounds(600, seed=conversations.SEED + 1))

    def one_round() -> int:
        for record in next(pairs):
            loaded.append(record)
        request = loaded.compose()
        assert request.precheck(context=WINDOW).admitted
        return request.body_view(model="small").nbytes

    one_round()
    assert benchmark.pedantic(one_round, rounds=100, iterations=5, warmup_rounds=2)


@pytest.mark.benchmark(group="append")
def test_append(benchmark: BenchmarkFixture, loaded: runvil.Conversation) -> None:
    """Adds one checked record."""
    record = {"role": "user", "content": "What changed since the last time?", "meta": {"source": "form"}}
    assert benchmark(loaded.append, record) is loaded


@pytest.mark.benchmark(group="append")
def test_builder(benchmark: BenchmarkFixture, loaded: runvil.Conversation) -> None:
    """Adds one checked record with the builder of its role."""
    assert benchmark(loaded.user, "What changed since the last time?") is loaded


@pytest.mark.benchmark(group="read")
def test_read_views(benchmark: BenchmarkFixture, loaded: runvil.Conversation) -> None:
    """Reads the role and content of every record through a view."""

    def read() -> int:
        return sum(len(record.role) + len(record.content) for record in loaded)

    assert benchmark(read)


@pytest.mark.benchmark(group="read")
def test_read_columns(benchmark: BenchmarkFixture, loaded: runvil.Conversation) -> None:
    """Reads all roles and all texts at once."""

    def read() -> tuple[Sequence[str], Sequence[str]]:
        return loaded.roles(), loaded.texts()

    roles, texts = benchmark(read)
    assert len(roles) == len(texts) == len(loaded)


@pytest.mark.benchmark(group="snapshot")
def test_copy(benchmark: BenchmarkFixture, loaded: runvil.Conversation) -> None:
    """Takes a copy that later edits do not change."""
    assert len(benchmark(loaded.copy)) == len(loaded)


@pytest.mark.benchmark(group="snapshot")
def test_compaction_that_fails(benchmark: BenchmarkFixture, loaded: runvil.Conversation) -> None:
    """Removes all but the first and last records, and puts them back because the compactor raises."""
    length = len(loaded)

    def compactor(messages: runvil.Conversation, _reason: str) -> None:
        messages.replace(3, len(messages) - 1)
        raise LookupError

    def compact() -> None:
        with pytest.raises(LookupError):
            loaded.compact(compactor, "benchmark")

    benchmark(compact)
    assert len(loaded) == length


@pytest.mark.benchmark(group="merge")
@pytest.mark.parametrize("length", [1_000, 16_000])
def test_merge_a_run_of_one_role(benchmark: BenchmarkFixture, length: int) -> None:
    """Merges user records into one message and writes it."""
    loaded = runvil.Conversation.from_json(conversations.long_run(length).records_json)

    def merge() -> Any:
        # A fork, because a conversation composes each record once.
        request = loaded.copy().compose()
        return len(request), len(request.to_json())

    count, size = benchmark(merge)
    assert count == 1
    assert size > length
