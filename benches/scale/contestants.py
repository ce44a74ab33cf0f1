"""One contestant of the tool-round comparison, in a process of its own.

    python -m benches.scale.contestants NAME PORT MESSAGES RUNS

Prints the CPU seconds of each run of four tool rounds and the text after them; what is made once is not counted.
"""

# mypy: ignore-errors
# The peers are not installed where types are checked.

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", OPENAI_AGENTS_DISABLE_TRACING="1", OPENAI_API_KEY="x")

SCHEMA = {
    "type": "function",
    "function": {
        "name": "lookup",
        "description": "Looks something up.",
        "parameters": {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
    },
}


def history(messages: int) -> list[dict[str, Any]]:
    """A conversation of text messages of about 450 bytes that ends with a question."""
    text = "All work and no play makes this a long history of words, each as good as the other. " * 5
    roles = ("user", "assistant")
    made = [{"role": roles[at % 2], "content": f"{at}: {text}"} for at in range(messages - 1 + messages % 2)]
    return made if made[-1]["role"] == "user" else [*made, {"role": "user", "content": "next?"}]


def lookup(number: int) -> str:
    """Looks something up."""
    return f"result {number}"


def runvil_loop(url: str, messages: list[dict[str, Any]]) -> Callable[[], None]:
    """`Conversation.loop`."""
    import runvil

    whole = runvil.Conversation().extend(messages)
    model = runvil.Model("m", context=1 << 31, broker=runvil.HttpBroker(url, stream=False))
    tools = [runvil.tool(trusted=True)(lookup)]
    runner = asyncio.Runner()

    async def run() -> None:
        conversation = whole.copy()
        await conversation.loop(model, tools=tools)
        assert len(conversation) == len(messages) + 9

    return lambda: runner.run(run())


def openai_client(url: str, messages: list[dict[str, Any]]) -> Callable[[], None]:
    """The openai client with a loop by hand."""
    from openai import OpenAI

    client = OpenAI(base_url=url, api_key="x")

    def run() -> None:
        held = list(messages)
        while True:
            reply = client.chat.completions.create(model="m", messages=held, tools=[SCHEMA]).choices[0].message
            held.append(reply.model_dump(exclude_none=True))
            if not reply.tool_calls:
                break
            for call in reply.tool_calls:
                result = lookup(**json.loads(call.function.arguments))
                held.append({"role": "tool", "tool_call_id": call.id, "content": result})
        assert len(held) == len(messages) + 9

    return run


def litellm_client(url: str, messages: list[dict[str, Any]]) -> Callable[[], None]:
    """litellm with a loop by hand."""
    import litellm

    def run() -> None:
        held = list(messages)
        while True:
            answer = litellm.completion(model="openai/m", api_base=url, api_key="x", messages=held, tools=[SCHEMA])
            reply = answer.choices[0].message
            held.append(reply.model_dump(exclude_none=True))
            if not reply.tool_calls:
                break
            for call in reply.tool_calls:
                result = lookup(**json.loads(call.function.arguments))
                held.append({"role": "tool", "tool_call_id": call.id, "content": result})
        assert len(held) == len(messages) + 9

    return run


def openai_agents(url: str, messages: list[dict[str, Any]]) -> Callable[[], None]:
    """openai-agents."""
    from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
    from openai import AsyncOpenAI

    set_tracing_disabled(True)
    model = OpenAIChatCompletionsModel("m", AsyncOpenAI(base_url=url, api_key="x"))
    agent = Agent(name="a", model=model, tools=[function_tool(lookup)])
    runner = asyncio.Runner()

    async def run() -> None:
        result = await Runner.run(agent, list(messages), max_turns=10)
        assert result.final_output == "done"

    return lambda: runner.run(run())


def pydantic_ai(url: str, messages: list[dict[str, Any]]) -> Callable[[], None]:
    """pydantic-ai."""
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    agent = Agent(OpenAIChatModel("m", provider=OpenAIProvider(base_url=url, api_key="x")), tools=[lookup])
    *before, last = messages
    made = [
        ModelRequest(parts=[UserPromptPart(content=message["content"])])
        if message["role"] == "user"
        else ModelResponse(parts=[TextPart(content=message["content"])])
        for message in before
    ]
    runner = asyncio.Runner()

    async def run() -> None:
        result = await agent.run(last["content"], message_history=made)
        assert result.output == "done"

    return lambda: runner.run(run())


CONTESTANTS = {
    "runvil": runvil_loop,
    "openai client": openai_client,
    "openai-agents": openai_agents,
    "pydantic-ai": pydantic_ai,
    "litellm": litellm_client,
}


def main() -> None:
    """Measures one contestant."""
    name, port, messages, runs = sys.argv[1:]
    run = CONTESTANTS[name](f"http://127.0.0.1:{port}/v1", history(int(messages)))
    run()  # imports, connections and caches
    seconds = []
    for _ in range(int(runs)):
        started = time.process_time()
        run()
        seconds.append(time.process_time() - started)
    sys.stdout.write(json.dumps(seconds) + "\n")


if __name__ == "__main__":
    main()
