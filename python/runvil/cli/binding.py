"""From the configuration and `--model` to the models of a run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runvil.cli.stdin import StandardInput
from runvil.cli.usage import UsageError
from runvil.model import Model, unknown_role

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from runvil.broker import Broker
    from runvil.config import CatalogModel, Config
    from runvil.packs import Pack
    from runvil.prompt import Prompt
    from runvil.scripted import ScriptedBroker

_LABEL = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_EVERY_ROLE = "*"


@dataclass(frozen=True)
class Supplies:
    """What answers a run's requests: its models, who serves raw model ids, its packs, and the user's lines."""

    models: dict[str, Model]
    raw_broker: Broker | None
    packs: list[Pack]
    user_input: Callable[[], str | None]


def choose_models(prompt: Prompt, config: Config, choices: Sequence[str]) -> dict[str, CatalogModel]:
    """The catalog model of each role that something binds, by label.

    The strongest binding wins: `--model ROLE=MODEL`, `--model MODEL`, the role's entry in `[roles]`, the `*` entry, and
    last a catalog of exactly one model.

    Raises:
        UsageError: A `--model` names no role of the prompt.
        ConfigError: A text names no model.
    """
    declared = [role.label for role in prompt.roles]
    chosen: dict[str, str] = {}
    for choice in choices:
        label, name = split_choice(choice, config)
        if label != _EVERY_ROLE and label not in declared:
            raise UsageError(f"--model {choice}: {unknown_role(prompt, label)}")
        chosen[label] = name
    configured: dict[str, str] = dict(config.roles)
    if _EVERY_ROLE not in configured and len(config.models) == 1:
        configured[_EVERY_ROLE] = next(iter(config.models))
    bound: dict[str, CatalogModel] = {}
    for label in declared:
        for bindings in (chosen, configured):
            binding = bindings.get(label) or bindings.get(_EVERY_ROLE)
            if binding is not None:
                bound[label] = config.resolve(binding)
                break
    return bound


def split_choice(choice: str, config: Config) -> tuple[str, str]:
    """A `--model` value as a role label (`*` for every role) and a model's name.

    A text that is a catalog entry's name as a whole is that model, even with a `=` in it.
    """
    label, equals, name = choice.partition("=")
    if choice in config.models or not equals or not (label == _EVERY_ROLE or _LABEL.fullmatch(label)):
        return _EVERY_ROLE, choice
    return label, name


def live_supplies(chosen: Mapping[str, CatalogModel], config: Config, environ: Mapping[str, str]) -> Supplies:
    """The models with their providers' brokers; the default provider serves raw ids, and the user answers questions.

    Raises:
        ConfigError: A model has no provider.
    """
    brokers: dict[str, Broker] = {}

    def broker_of(name: str) -> Broker:
        if name not in brokers:
            brokers[name] = config.providers[name].broker(environ)
        return brokers[name]

    models = {label: model.with_broker(broker_of(config.provider_of(model).name)) for label, model in chosen.items()}
    raw_broker = None if config.default_provider is None else broker_of(config.default_provider)
    return Supplies(models, raw_broker, [], StandardInput().read_line)


def scripted_supplies(prompt: Prompt, chosen: Mapping[str, CatalogModel], script: ScriptedBroker) -> Supplies:
    """Everything from the script. A role that nothing binds gets a stand-in named like it."""
    models = {label: model.with_broker(script) for label, model in chosen.items()}
    for role in prompt.roles:
        if role.label not in models:
            window = max(8192, role.min_context or 0)
            models[role.label] = Model(role.label, context=window, thinking="switchable", broker=script)
    return Supplies(models, script, script.packs, script.user_input)
