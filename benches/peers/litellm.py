"""litellm: what it does with messages before it calls a model."""

# mypy: disable-error-code="import-not-found, no-any-return"
# The peers are installed for the comparison alone, so that the type checker of the project does not see them.

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import litellm
import orjson
from litellm.litellm_core_utils.prompt_templates.factory import anthropic_messages_pt
from litellm.utils import validate_and_fix_openai_messages

from benches.contestant import Contestant

if TYPE_CHECKING:
    from collections.abc import Callable

    from benches.contestant import Turn
    from benches.conversations import Record

litellm.suppress_debug_info = True


class _Cheap:
    """A tokenizer of four characters a token, which costs nearly nothing."""

    def encode_batch_fast(self, texts: list[str]) -> list[range]:
        return [range(len(text) // 4) for text in texts]


_CHEAP: dict[str, Any] = {"type": "huggingface_tokenizer", "tokenizer": _Cheap()}


def _estimate(messages: list[Record]) -> int:
    return int(litellm.token_counter(custom_tokenizer=_CHEAP, messages=messages, use_default_image_token_count=True))


def _merge(messages: list[Record]) -> list[Any]:
    system = next((index for index, message in enumerate(messages) if message["role"] != "system"), len(messages))
    return [*messages[:system], *anthropic_messages_pt(messages[system:], "claude-sonnet-4-5", "anthropic")]


def _merges_like(record: Record) -> str | None:
    return None if record["role"] == "system" else str(record["role"] == "assistant")


def _turn(messages: list[Record]) -> Turn:
    checked = validate_and_fix_openai_messages(messages)
    merged = _merge(checked)
    return orjson.dumps(merged), _estimate(checked)


def _looper(objects: list[Record]) -> Callable[[list[Record]], Turn]:
    held = list(objects)

    def step(added: list[Record]) -> Turn:
        held.extend(added)
        return _turn(held)

    return step


LITELLM = Contestant(
    name="litellm",
    packages=("litellm",),
    validate=validate_and_fix_openai_messages,
    parse=lambda data: validate_and_fix_openai_messages(orjson.loads(data)),
    merge=_merge,
    merges_like=_merges_like,
    estimate=_estimate,
    serialize=orjson.dumps,
    turn_objects=_turn,
    turn_json=lambda data: _turn(orjson.loads(data)),
    looper=_looper,
    wire_form=orjson.loads,
    remarks={
        "validate": "few rules",
        "merge": "into Anthropic's form, where tool results are user messages",
        "estimate": "with a tokenizer of four characters a token",
        "loop": "no precheck",
    },
)
