"""What fitting a conversation to a window costs: precheck, anchor, snapshot and restore, trimming.

Peers are langchain-core's `trim_messages` and litellm's, with a counter that costs next to nothing.
"""

# mypy: ignore-errors
# The peers are not installed where types are checked.

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Any

import runvil
from benches.scale.contestants import history
from runvil import compactors

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = (1_000, 10_000, 100_000, 1_000_000)
LITELLM_LONGEST = 1_000
LANGCHAIN_LONGEST = 100_000
KEPT = 100


def best(work: Callable[[], Any], prepare: Callable[[], Any] | None = None, runs: int = 7) -> float:
    """The least CPU seconds of several runs."""
    least = float("inf")
    for _ in range(runs):
        given = prepare() if prepare is not None else None
        gc.collect()
        started = time.process_time()
        kept = work(given) if prepare is not None else work()
        least = min(least, time.process_time() - started)
        del kept, given
    return least


def measure(size: int) -> dict[str, float]:
    """Seconds by the name of the work."""
    messages = history(size)
    # Else each collection before a measurement walks the history and leaves the caches without what is measured.
    gc.collect()
    gc.freeze()
    conversation = runvil.Conversation().extend(messages)
    request = conversation.compose()
    conversation.record_reply(
        runvil.Reply(text="ok", usage={"prompt_tokens": 1000, "completion_tokens": 10}), model="m", request=request
    )

    def grown() -> Any:
        fork = conversation.copy()
        fork.user("more")
        return fork

    def precheck(fork: Any) -> Any:
        return fork.compose().precheck(context=1 << 31, model="m")

    def restore(fork: Any) -> None:
        def give_up(inner: Any, reason: str) -> None:
            inner.replace(1, len(inner) - KEPT)
            raise KeyError(reason)

        try:
            fork.compact(give_up, "why")
        except KeyError:
            return

    trim = compactors.trim(keep_turns=KEPT // 2)
    found = {
        "compose and precheck one more record, anchored": best(precheck, grown),
        "cut the oldest records, fail, and restore": best(restore, conversation.copy),
        "trim": best(lambda fork: fork.compact(trim, "why"), conversation.copy),
    }
    if size <= LANGCHAIN_LONGEST:
        found["trim, langchain-core"] = langchain_trim(messages)
    if size <= LITELLM_LONGEST:
        found["trim, litellm"] = litellm_trim(messages)
    return found


def langchain_trim(messages: list[dict[str, Any]]) -> float:
    """`trim_messages` to the last records, counting each as one token."""
    from langchain_core.messages import convert_to_messages, trim_messages

    made = convert_to_messages(messages)
    return best(lambda: trim_messages(made, max_tokens=KEPT, token_counter=len, start_on="human"), runs=3)


def litellm_trim(messages: list[dict[str, Any]]) -> float:
    """litellm's `trim_messages` to about as many."""
    from litellm.utils import trim_messages

    return best(lambda: trim_messages(list(messages), max_tokens=KEPT * 120, trim_ratio=1.0), runs=1)
