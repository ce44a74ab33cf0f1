"""This package: the body as Python bytes, or lent as a view of the buffer that the next round continues."""

# mypy: disable-error-code="import-not-found, no-any-return"
# The peers are installed for the comparison alone, so that the type checker of the project does not see them.

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

import runvil
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


def _load(data: bytes | list[Record]) -> runvil.Conversation:
    conversation = runvil.Conversation.from_json(data)
    conversation.check()
    return conversation


def _loaded_and_composed(data: bytes) -> runvil.Conversation:
    conversation = runvil.Conversation.from_json(data)
    conversation.compose()
    return conversation


def _merge(conversation: runvil.Conversation) -> tuple[Any, bytes]:
    # A fork, because a conversation composes each record once.
    request = conversation.copy().compose()
    return request, request.to_json()


def _merged_count(merged: tuple[Any, bytes]) -> int:
    return len(merged[0])


def _serialize(conversation: runvil.Conversation) -> bytes:
    # Without the merged runs: each record as the model would receive it alone.
    return conversation.to_json(form="openai")


def _turn(data: bytes | list[Record]) -> Turn:
    request = runvil.Conversation.from_json(data).compose()
    return request.body(model=baselines.MODEL), request.estimate


def _lent_turn(data: bytes | list[Record]) -> Turn:
    request = runvil.Conversation.from_json(data).compose()
    return request.body_view(model=baselines.MODEL), request.estimate


def _appender(conversation: runvil.Conversation) -> Callable[[Record], object]:
    return conversation.copy().append


def _looper(records: list[Record], *, lent: bool) -> Callable[[list[Record]], Turn]:
    conversation = runvil.Conversation.from_json(records)

    def step(added: list[Record]) -> Turn:
        for record in added:
            conversation.append(record)
        request = conversation.compose()
        body = request.body_view(model=baselines.MODEL) if lent else request.body(model=baselines.MODEL)
        if not request.precheck(context=WINDOW).admitted:
            raise ValueError("context exhausted")
        return body, request.estimate

    return step


def _read(conversation: runvil.Conversation) -> tuple[int, int]:
    roles = strings = 0
    for record in conversation:
        roles += len(record.role)
        strings += isinstance(record.content, str)
    return roles, strings


def _columns(conversation: runvil.Conversation) -> tuple[Sequence[str], Sequence[str]]:
    return conversation.roles(), conversation.texts()


def _trim(conversation: runvil.Conversation, tokens: int) -> list[Any]:
    fork = conversation.copy()

    def keep_newest(messages: runvil.Conversation, _reason: str) -> None:
        start = 0
        while start < len(messages) and messages[start].role == "system":
            start += 1
        room = tokens - sum(_tokens(messages[index]) for index in range(start))
        kept = len(messages)
        for index in range(len(messages) - 1, start - 1, -1):
            record = messages[index]
            room -= _tokens(record)
            if room < 0:
                break
            if record.role == "user":
                kept = index
        messages.replace(start + 1, kept)

    fork.compact(keep_newest, "trim")
    return fork[:]


def _tokens(record: Any) -> int:
    size = rules.text_bytes(record.content)
    for call in record.tool_calls or ():
        size += len(orjson.dumps(rules.wire_call(call)))
    return rules.estimate_tokens(size, 1)


RUNVIL = Contestant(
    name="runvil",
    packages=("runvil",),
    objects=_records,
    json=_records_json,
    validate=_load,
    parse=_load,
    hold=_loaded_and_composed,
    merge=_merge,
    merged_count=_merged_count,
    composed=lambda conversation: conversation.compose(),
    estimate=lambda request: int(request.estimate),
    serialize=_serialize,
    turn_objects=_turn,
    turn_json=_turn,
    appender=_appender,
    looper=partial(_looper, lent=False),
    incremental=True,
    read=_read,
    columns=_columns,
    snapshot=runvil.Conversation.copy,
    trim=_trim,
    merges_by_rules=True,
    refuses_by_rules=True,
    wire_form=orjson.loads,
    remarks={"merge": "with the merged messages written as JSON", "loop": "joins the body into bytes each round"},
)

LENT = Contestant(
    name="runvil, body lent",
    packages=("runvil",),
    objects=_records,
    json=_records_json,
    turn_objects=_lent_turn,
    turn_json=_lent_turn,
    looper=partial(_looper, lent=True),
    incremental=True,
    merges_by_rules=True,
    refuses_by_rules=True,
    remarks={"loop": "the body is a view that is released before the next round"},
)
