"""Runvil: an engine for conversations with language models.

import runvil

prompt = runvil.Prompt.load("chat.md")
model = runvil.Model("qwen3-8b", context=32768, broker=runvil.HttpBroker("http://127.0.0.1:8080/v1"))
print(runvil.run(prompt, models=model).text)
"""

from runvil import compactors, estimators
from runvil._native import Change, ComposedRequest, Event, OverflowRule, Precheck, Record, __version__, classify
from runvil.broker import Broker, Request, Retry
from runvil.conversation import Conversation
from runvil.errors import (
    ConfigError,
    ConversationError,
    Location,
    LoopError,
    ModelError,
    ParseError,
    RepliesError,
    RunCancelled,
    RunError,
    ToolError,
)
from runvil.host import Fragment, Host
from runvil.http import HttpBroker
from runvil.limits import Limits
from runvil.model import Model
from runvil.packs import Pack, Tool, tool
from runvil.plan import RunOptions
from runvil.prompt import Prompt
from runvil.reply import Reply
from runvil.runs import Result, RunHandle, run, run_async, start
from runvil.scripted import ScriptedBroker

__all__ = [
    "Broker",
    "Change",
    "ComposedRequest",
    "ConfigError",
    "Conversation",
    "ConversationError",
    "Event",
    "Fragment",
    "Host",
    "HttpBroker",
    "Limits",
    "Location",
    "LoopError",
    "Model",
    "ModelError",
    "OverflowRule",
    "Pack",
    "ParseError",
    "Precheck",
    "Prompt",
    "Record",
    "RepliesError",
    "Reply",
    "Request",
    "Result",
    "Retry",
    "RunCancelled",
    "RunError",
    "RunHandle",
    "RunOptions",
    "ScriptedBroker",
    "Tool",
    "ToolError",
    "__version__",
    "classify",
    "compactors",
    "estimators",
    "run",
    "run_async",
    "start",
    "tool",
]
