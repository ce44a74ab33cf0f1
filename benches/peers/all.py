"""All contestants, in the order of the tables. Each is imported when it is asked for: some take seconds."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benches.contestant import Contestant

# By name: the module here, and what it calls the contestant.
_WHERE = {
    "runvil": ("package", "RUNVIL"),
    "runvil, body lent": ("package", "LENT"),
    "hand-written + orjson": ("handwritten", "NAIVE"),
    "hand-written, incremental": ("handwritten", "INCREMENTAL"),
    "hand-written, one lent buffer": ("handwritten", "ONE_BUFFER"),
    "orjson alone": ("handwritten", "ORJSON"),
    "msgspec": ("typed", "MSGSPEC"),
    "pydantic models": ("typed", "PYDANTIC"),
    "openai types (pydantic)": ("typed", "OPENAI"),
    "langchain-core": ("langchain", "LANGCHAIN"),
    "litellm": ("litellm", "LITELLM"),
    "pydantic-ai": ("pydantic_ai", "PYDANTIC_AI"),
    "openai-agents": ("openai_agents", "OPENAI_AGENTS"),
}

NAMES = tuple(_WHERE)


def by_name(name: str) -> Contestant:
    """The contestant of this name."""
    module, attribute = _WHERE[name]
    contestant: Contestant = getattr(import_module(f"benches.peers.{module}"), attribute)
    return contestant
