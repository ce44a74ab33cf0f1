"""Models, limits, replies and errors: what their constructors accept; and how `--model` is read."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import runvil
from conftest import document
from runvil import _native
from runvil.cli.binding import choose_models, split_choice
from runvil.cli.usage import UsageError
from runvil.config import CatalogModel, Config
from runvil.errors import MODEL_ERROR_KINDS
from runvil.model import bind_roles

BROKER = runvil.ScriptedBroker()


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"id": ""}, ValueError, "a model's id must not be empty"),
        ({"context": 0}, ValueError, "context must be between 1 and 4294967295 tokens, got 0"),
        ({"context": "big"}, TypeError, "context must be an integer, got str"),
        ({"max_tokens": 2**32}, ValueError, "max_tokens must be between 1"),
        ({"thinking": "maybe"}, ValueError, "thinking must be never, always or switchable, got 'maybe'"),
        ({"broker": object()}, TypeError, "broker must have a complete method, got object"),
    ],
)
def test_a_model_refuses_what_it_cannot_be(fields: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make(**fields)


def make(**fields: Any) -> runvil.Model:
    given: dict[str, Any] = {"id": "m", "broker": BROKER} | fields
    return runvil.Model(**given)


def test_a_model_is_named_by_its_id() -> None:
    assert runvil.Model("m", broker=BROKER).name == "m"
    assert runvil.Model("m", name="small", broker=BROKER).to_dict() == {
        "model": "small",
        "id": "m",
        "context": 8192,
        "max_tokens": None,
        "thinking": "never",
        "description": "",
    }


def test_roles_are_bound_by_name_and_the_star_takes_the_rest() -> None:
    prompt = runvil.Prompt.parse(document("return 'x'", roles="writer critic"))
    one, two = runvil.Model("one", broker=BROKER), runvil.Model("two", broker=BROKER)
    assert bind_roles(prompt, one) == ({"writer": one, "critic": one}, one)
    assert bind_roles(prompt, {"writer": one, "*": two}) == ({"writer": one, "critic": two}, two)
    assert bind_roles(prompt, {"writer": one}) == ({"writer": one}, None)
    assert bind_roles(prompt, None) == ({}, None)
    with pytest.raises(ValueError, match=r"declares no model role 'editor'; declared roles: writer, critic"):
        bind_roles(prompt, {"editor": one})
    with pytest.raises(TypeError, match=r"the model of role 'writer' must be a runvil\.Model, got str"):
        bind_roles(prompt, {"writer": "one"})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="models must be a Model or a mapping"):
        bind_roles(prompt, "one")  # type: ignore[arg-type]


def test_the_strongest_binding_wins() -> None:
    prompt = runvil.Prompt.parse(document("return 'x'", roles="writer critic"))
    catalog = {name: CatalogModel(name, name) for name in ("small", "large", "a=b")}

    def bind(roles: dict[str, str], *choices: str) -> dict[str, str]:
        config = Config(models=catalog, roles=roles)
        return {label: model.name for label, model in choose_models(prompt, config, choices).items()}

    assert bind({}) == {}
    assert bind({"*": "small"}) == {"writer": "small", "critic": "small"}
    assert bind({"*": "small", "critic": "large"}) == {"writer": "small", "critic": "large"}
    assert bind({"critic": "large"}, "small") == {"writer": "small", "critic": "small"}
    assert bind({"*": "small"}, "critic=large") == {"writer": "small", "critic": "large"}
    assert bind({}, "critic=large", "small") == {"writer": "small", "critic": "large"}
    assert bind({}, "small", "large") == {"writer": "large", "critic": "large"}
    assert bind({}, "a=b") == {"writer": "a=b", "critic": "a=b"}
    assert bind({}, "some/model:8b") == {"writer": "some/model:8b", "critic": "some/model:8b"}
    with pytest.raises(UsageError, match="--model editor=small: prompt 'test' declares no model role 'editor'"):
        bind({}, "editor=small")
    lone = Config(models={"small": catalog["small"]})
    assert {model.name for model in choose_models(prompt, lone, []).values()} == {"small"}


def test_a_text_with_an_equals_sign_after_no_label_is_a_model() -> None:
    assert split_choice("ft:x=1", Config()) == ("*", "ft:x=1")
    assert split_choice("writer=a=b", Config()) == ("writer", "a=b")


@pytest.mark.parametrize(("name", "lowest"), [("rounds", 1), ("memory_bytes", 1), ("log_events", 0)])
def test_limits_refuse_what_they_cannot_be(name: str, lowest: int) -> None:
    for wrong in (lowest - 1, -7, 2**32):
        with pytest.raises(ValueError, match=f"{name} must be between {lowest} and 4294967295, got {wrong}"):
            runvil.Limits(**{name: wrong})
    for odd in ("8", 1.0, True):
        with pytest.raises(TypeError, match=f"{name} must be an integer, got {type(odd).__name__}"):
            runvil.Limits(**{name: odd})  # type: ignore[arg-type]


def test_a_reply_refuses_what_it_cannot_be() -> None:
    with pytest.raises(TypeError, match="text must be a string or None, got int"):
        runvil.Reply(text=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='tool call 1 has no "name"'):
        runvil.Reply(tool_calls=[{"id": "c"}])
    assert runvil.Reply(text="hi").to_answer()["host_built"] is True
    assert runvil.Reply(usage={"prompt_tokens": 1, "completion_tokens": None}).to_answer()["usage"] == {
        "prompt_tokens": 1
    }


@pytest.mark.parametrize("kind", MODEL_ERROR_KINDS)
def test_a_model_error_says_the_fixed_text_of_its_kind(kind: str) -> None:
    error = runvil.ModelError(kind, status=400, detail="their words", note="our words")
    assert str(error) == _native.failure_text(kind, 400, "our words")
    assert "their words" not in str(error) + repr(error)
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.kind, copy.status, copy.detail, copy.note) == (kind, 400, "their words", "our words")


def test_a_model_error_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown model error kind 'Boom'; known kinds: ContextOverflow, RateLimited"):
        runvil.ModelError("Boom")


def test_failures_are_classified_for_everyone_alike() -> None:
    assert runvil.classify(400, "This model's maximum context length is 4096 tokens.") == "ContextOverflow"
    assert runvil.classify(418, "teapot") == "Rejected"


def test_a_run_error_shows_its_kind_its_message_and_its_place() -> None:
    error = runvil.RunError.from_outcome(
        {"kind": "Lua", "message": "boom", "location": {"path": "chat.md", "line": 3, "column": 7}},
        2,
        {"prompt_tokens": 4},
    )
    assert str(error) == "Lua: boom (at chat.md:3:7)"
    assert (error.kind, error.message, error.turns, error.usage) == ("Lua", "boom", 2, {"prompt_tokens": 4})
    assert (error.reason, error.finish_reason, error.name, error.detail, error.status) == (None,) * 5
