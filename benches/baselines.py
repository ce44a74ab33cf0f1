"""Hand-written conversations: what a careful user writes with orjson and no other library.

`turn` does everything again for each request. `Incremental` keeps running state, so that a round costs what changed
plus joining the body; `OneBuffer` also keeps the body in one buffer and lends it.
"""

# mypy: disable-error-code="import-not-found, no-any-return"
# The peers are installed for the comparison alone, so that the type checker of the project does not see them.

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from benches import rules

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from benches.rules import Record

MODEL = "small"


def check(records: list[Record]) -> list[Record]:
    """Checks every record and how they follow each other."""
    sequence = rules.Sequence()
    take = sequence.take
    for position, record in enumerate(records, 1):
        rules.check_record(record, position)
        take(record["role"], record["content"], record.get("tool_calls"), record.get("tool_call_id"))
    sequence.finish()
    return records


def merge(messages: list[Record]) -> list[Record]:
    """Merges the runs of one role. Messages that stay as they are are not copied."""
    merged: list[Record] = []
    run: list[Record] = []
    role: str | None = None
    for message in messages:
        if message["role"] == role:
            run.append(message)
        else:
            if run:
                merged.append(_joined(run))
            run = [message]
            role = message["role"]
        if role == "tool" or message.get("tool_calls"):
            merged.append(_joined(run))
            run = []
            role = None
    if run:
        merged.append(_joined(run))
    return merged


def _joined(run: list[Record]) -> Record:
    if len(run) == 1:
        return run[0]
    return {**run[-1], "content": rules.joined_content(run[0]["role"], [message["content"] for message in run])}


def to_wire(records: list[Record]) -> list[Record]:
    """What the model receives of each record, before merging."""
    return [rules.to_wire(record) for record in records]


def estimate(messages: list[Record]) -> int:
    """The estimated tokens of merged messages in wire form."""
    size = 0
    for message in messages:
        content = message["content"]
        if isinstance(content, str) and content.isascii():
            size += len(content)
        else:
            size += rules.text_bytes(content)
        calls = message.get("tool_calls")
        if calls:
            for call in calls:
                size += len(orjson.dumps(call))
    return rules.estimate_tokens(size, len(messages))


def body(messages: list[Record]) -> bytes:
    """The body of a request."""
    return orjson.dumps({"model": MODEL, "messages": messages})


def turn(records: list[Record]) -> tuple[bytes, int]:
    """Everything from records to the body, and its estimate."""
    messages = merge(to_wire(check(records)))
    return body(messages), estimate(messages)


class Incremental:
    """A conversation that checks, merges, counts and encodes each record once.

    The last message, which may still grow, is encoded when a body is made.
    """

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._count = 0
        self._sequence = rules.Sequence()
        self._role: str | None = None
        self._run: list[Any] = []
        self._growing_bytes = 0
        self._sealed_bytes = 0
        self._sealed_count = 0
        for record in records:
            self.append(record)

    def append(self, record: Record) -> None:
        """Adds one checked record."""
        position = self._count + 1
        rules.check_record(record, position)
        role = record["role"]
        calls = record.get("tool_calls")
        self._sequence.take(role, record["content"], calls, record.get("tool_call_id"))
        self._count = position
        if role != self._role:
            self._seal_run()
            self._role = role
        self._run.append(record["content"])
        if role == "tool" or calls:
            message = rules.to_wire(record)
            message["content"] = self._content()
            self._seal(message)

    def estimate(self) -> int:
        """The estimated tokens of the request."""
        size, count = self._sealed_bytes, self._sealed_count
        if self._run:
            size += rules.text_bytes(self._content())
            count += 1
        return rules.estimate_tokens(size, count)

    def admitted(self, context: int) -> bool:
        """Whether the request fits the window."""
        return self.estimate() + rules.reserve(context) <= context

    def compose(self) -> None:
        """Checks that the list may be sent."""
        self._sequence.finish()

    def _content(self) -> Any:
        run = self._run
        content = run[0] if len(run) == 1 else rules.joined_content(self._role or "", run)
        return rules.wire_content(content)

    def _tail(self) -> bytes | None:
        return orjson.dumps({"role": self._role, "content": self._content()}) if self._run else None

    def _seal_run(self) -> None:
        if self._run:
            self._seal({"role": self._role, "content": self._content()})

    def _seal(self, message: Record) -> None:
        self._sealed_count += 1
        self._sealed_bytes += rules.text_bytes(message["content"])
        for call in message.get("tool_calls", ()):
            self._sealed_bytes += len(orjson.dumps(call))
        self._role = None
        self._run = []
        self._keep(orjson.dumps(message))

    def _keep(self, encoded: bytes) -> None:
        """Keeps a message that will not change any more."""
        raise NotImplementedError


class Chunked(Incremental):
    """Keeps each encoded message, and joins them for a body."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._chunks: list[bytes] = []
        super().__init__(records)

    def _keep(self, encoded: bytes) -> None:
        # A copy, because orjson encodes into a much larger block whose rest nothing else can use.
        self._chunks.append(bytes(memoryview(encoded)))

    def body(self) -> bytes:
        """The body of a request."""
        self.compose()
        tail = self._tail()
        chunks = self._chunks if tail is None else [*self._chunks, tail]
        return b'{"model":"%b","messages":[%b]}' % (MODEL.encode(), b",".join(chunks))


class OneBuffer(Incremental):
    """Keeps the body in one buffer, and lends it until the next record comes."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._buffer = bytearray(b'{"model":"%b","messages":[' % MODEL.encode())
        self._kept = self._head = len(self._buffer)
        super().__init__(records)

    def _keep(self, encoded: bytes) -> None:
        del self._buffer[self._kept :]
        if self._kept > self._head:
            self._buffer += b","
        self._buffer += encoded
        self._kept = len(self._buffer)

    def body(self) -> memoryview:
        """The body of a request. It must be released before the next record is added."""
        self.compose()
        tail = self._tail()
        del self._buffer[self._kept :]
        if tail is not None:
            if self._kept > self._head:
                self._buffer += b","
            self._buffer += tail
        self._buffer += b"]}"
        return memoryview(self._buffer)
