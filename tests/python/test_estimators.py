"""Estimators that know more than the specified one: off by default, named where requests are written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import runvil
from runvil import Conversation, LoopError, Model, Prompt, ScriptedBroker
from runvil.estimators import Counter, Detailed, Tokenizer

if TYPE_CHECKING:
    from pathlib import Path

PROMPT = Prompt.parse(
    """---
name: count
description: Runs a list.
runvil: 0
models:
  writer: {}
---

# Count

## Only

```lua
models.use('writer')
messages:user(args)
models.loop()
return models.infer('side')
```
"""
)


def scripted(*lines: dict[str, Any], **options: Any) -> Model:
    return Model("m", broker=ScriptedBroker.parse("\n".join(map(json.dumps, lines))), **options)


def words(text: str) -> int:
    return len(text.split())


async def test_images_and_dense_text_count(tmp_path: Path) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:,x"}}
    conv = Conversation().user([{"type": "text", "text": "A" * 400}, image])
    for estimator, admitted in ((None, True), (Detailed(image_tokens=100), True), (Detailed(image_tokens=7000), False)):
        fork = conv.copy()
        try:
            await fork.loop(scripted({"text": "x"}, estimator=estimator))
        except LoopError as error:
            assert (error.kind, error.reason, admitted) == ("context_exhausted", "precheck", False)
        else:
            assert admitted
    requests = tmp_path / "requests.jsonl"
    model = scripted({"text": "x"}, {"text": "y"}, estimator=Detailed())
    await runvil.run_async(PROMPT, "A" * 1000, models=model, requests=requests)
    lines = [json.loads(line) for line in requests.read_text().splitlines()]
    assert [(line["estimator"], line["estimate"], line["count"]) for line in lines] == [
        ("detailed", 254, 1004),
        ("detailed", 5, 5),
    ]
    await runvil.run_async(PROMPT, "x", models=scripted({"text": "x"}, {"text": "y"}), requests=requests)
    assert "estimator" not in requests.read_text()


async def test_a_tokenizer_counts_rounds_and_infers(tmp_path: Path) -> None:
    requests, log = tmp_path / "requests.jsonl", tmp_path / "log.jsonl"
    model = scripted({"text": "x"}, {"text": "y"}, estimator=Tokenizer(words, name="words", per_message=1))
    await runvil.run_async(PROMPT, "three short words", models=model, requests=requests, log=log)
    lines = [json.loads(line) for line in requests.read_text().splitlines()]
    assert [(line["estimator"], line["count"]) for line in lines] == [("words", 4), ("words", 2)]
    assert '"name":"words"' in log.read_text()
    full = scripted({"text": "x"}, estimator=Tokenizer(lambda text: 8000, name="full"))
    with pytest.raises(runvil.RunError) as caught:
        await runvil.run_async(PROMPT, "x", models=full)
    assert (caught.value.kind, caught.value.reason) == ("ContextExhausted", "precheck")


async def test_a_tokenizer_that_fails() -> None:
    def broken(text: str) -> int:
        raise ValueError(text)

    model = scripted({"text": "x"}, estimator=Tokenizer(broken, name="broken"))
    with pytest.raises(runvil.RunError) as failed:
        await runvil.run_async(PROMPT, "private", models=model)
    message = "the request could not be counted: the estimator broken raised ValueError"
    assert (failed.value.kind, failed.value.message) == ("Completion", message)
    assert isinstance(failed.value.__cause__, ValueError)
    conv = Conversation().user("private")
    with pytest.raises(LoopError) as caught:
        await conv.loop(model)
    assert (caught.value.kind, caught.value.message) == ("internal", message)
    assert len(conv) == 1


async def test_a_compaction_is_judged_by_the_estimator() -> None:
    # The specified estimate does not shrink when an image goes; the detailed count does.
    image = {"type": "image_url", "image_url": {"url": "u"}}
    conv = Conversation().user([image]).assistant("a").user("b")
    model = scripted({"text": "fits"}, estimator=Detailed(image_tokens=9000))

    def without_images(conversation: Conversation, reason: str) -> None:
        conversation.replace(1, 1, {"role": "user", "content": "[an image was here]"})

    await conv.loop(model, compactor=without_images)
    assert conv.texts() == ["[an image was here]", "a", "b", "fits"]


def test_a_message_is_counted_once() -> None:
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return 1

    counter = Counter(Tokenizer(count, name="n"))
    messages = [{"role": "user", "content": "a"}]
    assert counter.count("list", messages, []) == 5
    messages += [{"role": "assistant", "content": "b"}]
    assert counter.count("list", messages, [{"type": "function"}]) == 11
    assert counter.count("list", messages[1:], []) == 5
    assert counted == ["a", "b", '[{"type":"function"}]', "b"]
    assert Tokenizer(count, name="n").count_message({"role": "user", "content": [{"image_url": {}}]}) == 1004


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Detailed(image_tokens=-1), "image_tokens must not be negative, got -1"),
        (lambda: Detailed(image_tokens=True), "image_tokens must be an integer, got bool"),
        (lambda: Tokenizer(5, name="x"), "count must be a function, got int"),  # type: ignore[arg-type]
        (lambda: Tokenizer(words, name=" "), "an estimator's name must be a text that is not blank"),
        (lambda: scripted(estimator=5), "estimator must be one of runvil.estimators, got int"),
    ],
)
def test_settings_that_cannot_be_used(make: Any, error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        make()
