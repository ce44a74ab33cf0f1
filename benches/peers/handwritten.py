"""Hand-written Python with orjson: everything again each time, or with running state."""

# mypy: disable-error-code="import-not-found, no-any-return"
# The peers are installed for the comparison alone, so that the type checker of the project does not see them.

from __future__ import annotations

import copy
from functools import partial
from typing import TYPE_CHECKING

import orjson

from benches import baselines, rules
from benches.contestant import WINDOW, Contestant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benches.contestant import Turn
    from benches.conversations import Conversation, Record


def _records(conversation: Conversation) -> list[Record]:
    return conversation.records


def _records_json(conversation: Conversation) -> bytes:
    return conversation.records_json


def _parse(data: bytes) -> list[Record]:
    return baselines.check(orjson.loads(data))


def _serialize(records: list[Record]) -> bytes:
    return baselines.body(baselines.to_wire(records))


def _composed(records: list[Record]) -> list[Record]:
    return baselines.merge(baselines.to_wire(records))


def _turn_json(data: bytes) -> Turn:
    return baselines.turn(orjson.loads(data))


def _appender(records: list[Record]) -> Callable[[Record], object]:
    records = records.copy()
    leading = [True]

    def append(record: Record) -> None:
        rules.check_record(record, len(records) + 1)
        if record["role"] != "system":
            leading[0] = False
        elif not leading[0]:
            raise ValueError("a system message after a non-system message")
        records.append(record)

    return append


def _looper(records: list[Record]) -> Callable[[list[Record]], Turn]:
    held = records.copy()

    def step(added: list[Record]) -> Turn:
        held.extend(added)
        body, estimate = baselines.turn(held)
        if estimate + rules.reserve(WINDOW) > WINDOW:
            raise ValueError("context exhausted")
        return body, estimate

    return step


def _incremental_looper(
    kind: type[baselines.Chunked | baselines.OneBuffer], records: list[Record]
) -> Callable[[list[Record]], Turn]:
    conversation = kind(records)

    def step(added: list[Record]) -> Turn:
        for record in added:
            conversation.append(record)
        body = conversation.body()
        estimate = conversation.estimate()
        if not conversation.admitted(WINDOW):
            raise ValueError("context exhausted")
        return body, estimate

    return step


def _incremental_turn(records: list[Record]) -> Turn:
    conversation = baselines.Chunked(records)
    return conversation.body(), conversation.estimate()


def _incremental_turn_json(data: bytes) -> Turn:
    return _incremental_turn(orjson.loads(data))


def _parse_incremental(data: bytes) -> baselines.Chunked:
    return baselines.Chunked(orjson.loads(data))


def _incremental_appender(conversation: baselines.Chunked) -> Callable[[Record], object]:
    return copy.deepcopy(conversation).append


def _read(records: list[Record]) -> tuple[int, int]:
    roles = strings = 0
    for record in records:
        roles += len(record["role"])
        strings += isinstance(record["content"], str)
    return roles, strings


def _columns(records: list[Record]) -> tuple[Sequence[str], Sequence[str]]:
    texts = []
    for record in records:
        content = record["content"]
        if not isinstance(content, str):
            content = "".join(part["text"] for part in content if part["type"] == "text")
        texts.append(content)
    return [record["role"] for record in records], texts


def _trim(records: list[Record], tokens: int) -> list[Record]:
    start = 0
    while start < len(records) and records[start]["role"] == "system":
        start += 1
    room = tokens - baselines.estimate(baselines.to_wire(records[:start]))
    kept = len(records)
    for index in range(len(records) - 1, start - 1, -1):
        room -= baselines.estimate([rules.to_wire(records[index])])
        if room < 0:
            break
        if records[index]["role"] == "user":
            kept = index
    return records[:start] + records[kept:]


def _messages(body: bytes | memoryview) -> list[Record]:
    messages: list[Record] = orjson.loads(body)["messages"]
    return messages


NAIVE = Contestant(
    name="hand-written + orjson",
    packages=("orjson",),
    objects=_records,
    json=_records_json,
    validate=baselines.check,
    parse=_parse,
    merge=baselines.merge,
    composed=_composed,
    estimate=baselines.estimate,
    serialize=_serialize,
    turn_objects=baselines.turn,
    turn_json=_turn_json,
    appender=_appender,
    looper=_looper,
    read=_read,
    columns=_columns,
    snapshot=list.copy,
    trim=_trim,
    merges_by_rules=True,
    refuses_by_rules=True,
    wire_form=_messages,
    remarks={"append": "the record's own rules and the leading system block only"},
)

INCREMENTAL = Contestant(
    name="hand-written, incremental",
    objects=_records,
    json=_records_json,
    validate=baselines.Chunked,
    parse=_parse_incremental,
    turn_objects=_incremental_turn,
    turn_json=_incremental_turn_json,
    appender=_incremental_appender,
    looper=partial(_incremental_looper, baselines.Chunked),
    incremental=True,
    merges_by_rules=True,
    refuses_by_rules=True,
    remarks={
        "validate": "also merges, counts and encodes",
        "parse": "also merges, counts and encodes",
        "append": "checks, merges, counts and encodes",
        "loop": "joins the encoded messages for each body",
    },
)

ONE_BUFFER = Contestant(
    name="hand-written, one lent buffer",
    objects=_records,
    json=_records_json,
    looper=partial(_incremental_looper, baselines.OneBuffer),
    incremental=True,
    merges_by_rules=True,
    refuses_by_rules=True,
    remarks={"loop": "the body is a view that must be released before the next record is added"},
)

ORJSON = Contestant(
    name="orjson alone",
    packages=("orjson",),
    objects=lambda conversation: orjson.loads(conversation.openai_json),
    json=_records_json,
    parse=orjson.loads,
    serialize=orjson.dumps,
    wire_form=orjson.loads,
    remarks={"parse": "checks nothing", "serialize": "of dicts that are in wire form already"},
)
