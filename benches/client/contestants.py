"""What is compared: each asks the server with a history that it holds in its own form, and reads the streamed reply."""

# mypy: disable-error-code="import-not-found, no-any-return"
# The peers are installed for the comparison alone, so that the type checker of the project does not see them.

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Protocol

import runvil

if TYPE_CHECKING:
    from collections.abc import Callable

    Record = dict[str, Any]

# What litellm reads when it is imported: no download, and as many connections as there are streams.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("AIOHTTP_CONNECTOR_LIMIT", "2000")
os.environ.setdefault("AIOHTTP_CONNECTOR_LIMIT_PER_HOST", "2000")


class Contestant(Protocol):
    """One way to ask a model."""

    name: str

    def __init__(self, base_url: str) -> None: ...

    def history(self, records: list[Record]) -> Any:
        """The history in the form that is kept between requests."""
        ...

    async def ask(self, history: Any, model: str, on_fragment: Callable[[str], object]) -> str:
        """Sends the history; returns the reply's text."""
        ...


class Runvil:
    """A conversation's loop: it checks, composes, measures, sends, judges the reply and appends it."""

    name = "runvil"

    def __init__(self, base_url: str) -> None:
        self._broker = runvil.HttpBroker(base_url)
        self._models: dict[str, runvil.Model] = {}

    def history(self, records: list[Record]) -> runvil.Conversation:
        return runvil.Conversation.from_json(json.dumps(records).encode())

    async def ask(self, history: runvil.Conversation, model: str, on_fragment: Callable[[str], object]) -> str:
        bound = self._models.get(model)
        if bound is None:
            bound = self._models[model] = runvil.Model(model, context=2**31, broker=self._broker)
        record = await history.copy().loop(bound, on_fragment=lambda fragment: on_fragment(fragment.text))
        assert isinstance(record.content, str)
        return record.content


def _wire(records: list[Record]) -> list[Record]:
    return runvil.Conversation.from_json(json.dumps(records).encode()).compose().messages


class OpenAI:
    """The openai package's asynchronous client."""

    name = "openai"

    def __init__(self, base_url: str) -> None:
        import openai

        self._client = openai.AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0)

    def history(self, records: list[Record]) -> list[Record]:
        return _wire(records)

    async def ask(self, history: list[Record], model: str, on_fragment: Callable[[str], object]) -> str:
        stream = await self._client.chat.completions.create(
            model=model, messages=history, stream=True, stream_options={"include_usage": True}
        )
        text = []
        async for chunk in stream:
            if chunk.choices and (piece := chunk.choices[0].delta.content):
                on_fragment(piece)
                text.append(piece)
        return "".join(text)


class Httpx:
    """Hand-written on httpx: JSON out, lines in. It checks and reads nothing but the text."""

    name = "httpx, hand-written"

    def __init__(self, base_url: str) -> None:
        import httpx

        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        self._client = httpx.AsyncClient(timeout=120, limits=limits)
        self._url = f"{base_url}/chat/completions"

    def history(self, records: list[Record]) -> list[Record]:
        return _wire(records)

    async def ask(self, history: list[Record], model: str, on_fragment: Callable[[str], object]) -> str:
        body = {"model": model, "messages": history, "stream": True, "stream_options": {"include_usage": True}}
        text = []
        async with self._client.stream("POST", self._url, json=body) as response:
            response.raise_for_status()
            async for line in response.aiter_lines():
                if not line.startswith("data: ") or line == "data: [DONE]":
                    continue
                choices = json.loads(line[6:])["choices"]
                if choices and (piece := choices[0]["delta"].get("content")):
                    on_fragment(piece)
                    text.append(piece)
        return "".join(text)


class LiteLLM:
    """litellm's asynchronous completion."""

    name = "litellm"

    def __init__(self, base_url: str) -> None:
        import litellm

        litellm.telemetry = False
        litellm.suppress_debug_info = True
        self._complete = litellm.acompletion
        self._base_url = base_url

    def history(self, records: list[Record]) -> list[Record]:
        return _wire(records)

    async def ask(self, history: list[Record], model: str, on_fragment: Callable[[str], object]) -> str:
        stream = await self._complete(
            model=f"openai/{model}",
            messages=history,
            api_base=self._base_url,
            api_key="none",
            num_retries=0,
            stream=True,
            stream_options={"include_usage": True},
        )
        text = []
        async for chunk in stream:
            if chunk.choices and (piece := chunk.choices[0].delta.content):
                on_fragment(piece)
                text.append(piece)
        return "".join(text)


ALL: tuple[type[Contestant], ...] = (Runvil, OpenAI, Httpx, LiteLLM)
