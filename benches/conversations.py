"""Seeded conversations: the same records on every machine, in the forms that the contestants take.

The shares are those of a long session of a coding or research agent: many tool results, long texts of very different
length, some of them in other scripts, some records in several parts, some with metadata.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SEED = 20_260_101

_ASCII_WORDS = """
the model answers with a short list of results and then asks for another tool because some data was missing in part so
it reads the file again and compares both versions line by line before it decides what to change next
"""
_OTHER_WORDS = (
    "größe naïve façade señal übung árbol żółć привет мир ответ データ 検索 結果 文書 模型 회의 ελληνικά 🦀 🎉"
)
_ASCII, _NON_ASCII = _ASCII_WORDS.split(), _OTHER_WORDS.split()
_TOOLS = ("web_search", "read_file", "run_tests", "list_folder", "query_database")
_POOL_WORDS = 40_000

Record = dict[str, Any]
Pair = tuple[Record, Record]


@dataclass(frozen=True)
class Conversation:
    """One conversation, as objects and as JSON bytes."""

    records: list[Record]
    """Record form: tool arguments are objects, `meta` is kept."""

    def __len__(self) -> int:
        return len(self.records)

    @cached_property
    def openai(self) -> list[Record]:
        """The form of OpenAI's chat API: tool arguments are JSON text, there is no `meta`."""
        return [to_openai(record) for record in self.records]

    @cached_property
    def records_json(self) -> bytes:
        """The record form as JSON."""
        return to_json(self.records).encode()

    @cached_property
    def openai_json(self) -> bytes:
        """The form of OpenAI's chat API as JSON."""
        return to_json(self.openai).encode()


@dataclass(frozen=True)
class Shape:
    """What a conversation is like."""

    content_bytes: float
    """Bytes of text a record has on average."""
    tool_results: float
    """Share of the records that are tool results."""
    in_parts: float
    """Share of the records whose content is an array of parts."""
    non_ascii: float
    """Share of the records with text outside of ASCII."""
    with_meta: float
    """Share of the records with metadata."""


def to_json(value: object) -> str:
    """Compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def to_openai(record: Record) -> Record:
    """One record in the form of OpenAI's chat API."""
    message = {name: value for name, value in record.items() if name not in ("meta", "tool_calls")}
    if "tool_calls" in record:
        message["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": to_json(call["arguments"])},
            }
            for call in record["tool_calls"]
        ]
    return message


def conversation(length: int, seed: int = SEED) -> Conversation:
    """A conversation of exactly this many records that breaks no rule."""
    writer = _Writer(seed)
    records = [writer.message("system", ""), writer.message("system", "")]
    records[0]["content"] = "You are a careful assistant. Answer in the language of the question."
    records[1]["content"] = "Use the tools. Never guess what a file holds."
    records = records[:length]
    for exchange in writer.exchanges():
        if len(records) + len(exchange) > length:
            break
        records += exchange
    while len(records) < length:
        records.append(writer.message("assistant" if records[-1]["role"] == "user" else "user"))
    return Conversation(records)


def long_run(length: int, seed: int = SEED) -> Conversation:
    """A conversation of user records alone: they all merge into one message."""
    writer = _Writer(seed)
    return Conversation([writer.message("user", in_parts=False) for _ in range(length)])


def rounds(count: int, seed: int = SEED) -> list[Pair]:
    """What each round of an agent's loop adds: the model's reply, and the tool result or question that follows it.

    The list may be sent after each of them. It begins with a question, which the first pair does not hold.
    """
    writer = _Writer(seed)
    return [writer.pair() for _ in range(count)]


def shape(records: Iterable[Record]) -> Shape:
    """Measures a conversation."""
    count = size = tools = parts = foreign = meta = 0
    for record in records:
        content = record["content"]
        text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
        count += 1
        size += len(text.encode())
        tools += record["role"] == "tool"
        parts += not isinstance(content, str)
        foreign += not text.isascii()
        meta += "meta" in record
    return Shape(size / count, tools / count, parts / count, foreign / count, meta / count)


class _Writer:
    """Writes records."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._seed = seed
        self._calls = 0
        self._pools = (self._pool(foreign=False), self._pool(foreign=True))

    def _pool(self, *, foreign: bool) -> str:
        chance = self._random.random
        words = []
        for _ in range(_POOL_WORDS):
            word = self._random.choice(_NON_ASCII if foreign and chance() < 0.4 else _ASCII)
            kind = chance()
            if kind < 0.03:
                word += ".\n"
            elif kind < 0.05:
                word = f'"{word}"'
            elif kind < 0.055:
                word = f"src\\{word}"
            words.append(word)
        return " ".join(words)

    def text(self, mean: float) -> str:
        """A text whose bytes are exponentially distributed."""
        foreign = self._random.random() < 0.245
        pool = self._pools[foreign]
        length = 1 + int(self._random.expovariate(1 / mean) / (1.22 if foreign else 1))
        start = self._random.randrange(len(pool) - 100)
        return pool[start : start + length]

    def message(self, role: str, text: str | None = None, *, in_parts: bool | None = None) -> Record:
        """A record without calls."""
        if text is None:
            text = self.text(625 if role == "tool" else 490)
        content: Any = text
        if role == "user" and (self._random.random() < 0.42 if in_parts is None else in_parts):
            content = [{"type": "text", "text": text}]
            if self._random.random() < 0.5:
                url = f"https://images.example/{self._random.randrange(10**9)}.png"
                content.append({"type": "image_url", "image_url": {"url": url}})
            else:
                content.append({"type": "text", "text": "See above."})
        record = {"role": role, "content": content}
        if self._random.random() < 0.2:
            source = self._random.choice(("form", "mail", "api"))
            record["meta"] = {"source": source, "id": self._random.randrange(10**6), "tags": ["a", "b"], "score": 0.5}
        return record

    def batch(self, calls: int) -> list[Record]:
        """An assistant record with tool calls, and their results."""
        asking = self.message("assistant", "" if self._random.random() < 0.6 else self.text(120))
        asking["tool_calls"] = []
        results = []
        for _ in range(calls):
            self._calls += 1
            name = f"call_{self._seed % 1000:03}{self._calls:06x}"  # no other seed makes the same
            arguments = {"query": self.text(40), "limit": self._random.randrange(1, 50), "exact": False}
            asking["tool_calls"].append({"id": name, "name": self._random.choice(_TOOLS), "arguments": arguments})
            result = self.message("tool")
            result["tool_call_id"] = name
            results.append(result)
        self._random.shuffle(results)
        return [asking, *results]

    def exchanges(self) -> Iterator[list[Record]]:
        """A question, what the model does about it, and its answer: without end."""
        chance = self._random.random
        while True:
            records = [self.message("user")]
            if chance() < 0.22:
                records.append(self.message("user"))
            for _ in range(self._random.choice((0, 0, 0, 1, 1, 1, 1, 2, 2, 2))):
                if chance() < 0.14:
                    records.append(self.message("assistant"))
                records += self.batch(self._random.choice((1, 1, 1, 2, 3)))
            records.append(self.message("assistant"))
            if chance() < 0.14:
                records.append(self.message("assistant"))
            yield records

    def pair(self) -> Pair:
        """What one round adds."""
        if self._random.random() < 0.6:
            asking, result = self.batch(1)
            return asking, result
        return self.message("assistant"), self.message("user")
