"""All contestants, in the order of the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benches.peers.handwritten import INCREMENTAL, NAIVE, ONE_BUFFER, ORJSON
from benches.peers.langchain import LANGCHAIN
from benches.peers.litellm import LITELLM
from benches.peers.openai_agents import OPENAI_AGENTS
from benches.peers.package import LENT, RUNVIL
from benches.peers.pydantic_ai import PYDANTIC_AI
from benches.peers.typed import MSGSPEC, OPENAI, PYDANTIC

if TYPE_CHECKING:
    from benches.contestant import Contestant

CONTESTANTS = (
    RUNVIL,
    LENT,
    NAIVE,
    INCREMENTAL,
    ONE_BUFFER,
    ORJSON,
    MSGSPEC,
    PYDANTIC,
    OPENAI,
    LANGCHAIN,
    LITELLM,
    PYDANTIC_AI,
    OPENAI_AGENTS,
)


def by_name(name: str) -> Contestant:
    """The contestant of this name."""
    return next(contestant for contestant in CONTESTANTS if contestant.name == name)
