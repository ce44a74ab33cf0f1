"""Models and how they bind to a prompt's roles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from runvil.estimators import Estimator

if TYPE_CHECKING:
    from runvil.broker import Broker
    from runvil.prompt import Prompt

Thinking = Literal["never", "always", "switchable"]


@dataclass(frozen=True, slots=True)
class Model:
    """A model of the catalog.

    Args:
        id: The provider's name for the model.
        name: The catalog's name for it; the id when left out.
        context: The context window in tokens.
        max_tokens: The most tokens a reply may have; None leaves it to the provider.
        thinking: Whether the model thinks: `never`, `always`, or `switchable` by the prompt.
        description: What the prompt's Lua reads as the handle's description.
        broker: What answers the model's requests.
        estimator: How its requests are counted before they are sent; None is the specified estimate. See
            `runvil.estimators`.
    """

    id: str
    _: KW_ONLY
    broker: Broker
    name: str = ""
    context: int = 8192
    max_tokens: int | None = None
    thinking: Thinking = "never"
    description: str = ""
    estimator: Estimator | None = None

    def __post_init__(self) -> None:
        if not self.id:
            raise ValueError("a model's id must not be empty")
        if not self.name:
            object.__setattr__(self, "name", self.id)
        for field in ("context", "max_tokens"):
            count = getattr(self, field)
            if field == "max_tokens" and count is None:
                continue
            if isinstance(count, bool) or not isinstance(count, int):
                raise TypeError(f"{field} must be an integer, got {type(count).__name__}")
            if not 1 <= count <= 2**32 - 1:
                raise ValueError(f"{field} must be between 1 and {2**32 - 1} tokens, got {count}")
        if self.thinking not in get_args(Thinking):
            raise ValueError(f"thinking must be never, always or switchable, got {self.thinking!r}")
        if self.estimator is not None and not isinstance(self.estimator, Estimator):
            raise TypeError(f"estimator must be one of runvil.estimators, got {type(self.estimator).__name__}")
        if not callable(getattr(self.broker, "complete", None)):
            raise TypeError(f"broker must have a complete method, got {type(self.broker).__name__}")

    def to_dict(self) -> dict[str, Any]:
        """The model without its broker, in the engine's form."""
        fields = {
            "model": self.name,
            "id": self.id,
            "context": self.context,
            "max_tokens": self.max_tokens,
            "thinking": self.thinking,
            "description": self.description,
        }
        return fields if self.estimator is None else fields | {"estimator": self.estimator.to_dict()}


Models: TypeAlias = Model | Mapping[str, Model] | None
"""A model for every role, or models by role label, where `*` stands for every role not named."""


def bind_roles(prompt: Prompt, models: Models) -> tuple[dict[str, Model], Model | None]:
    """The model of each declared role that has one, and the model for every other role.

    Raises:
        ValueError: A label names no role of the prompt.
        TypeError: A value is not a `Model`.
    """
    by_label: dict[str, Model]
    if models is None:
        by_label = {}
    elif isinstance(models, Model):
        by_label = {"*": models}
    elif isinstance(models, Mapping):
        by_label = dict(models)
    else:
        raise TypeError(f"models must be a Model or a mapping of role labels to models, got {type(models).__name__}")
    declared = [role.label for role in prompt.roles]
    for label, model in by_label.items():
        if not isinstance(model, Model):
            raise TypeError(f"the model of role {label!r} must be a runvil.Model, got {type(model).__name__}")
        if label != "*" and label not in declared:
            raise ValueError(unknown_role(prompt, label))
    other = by_label.get("*")
    bound = {label: by_label.get(label, other) for label in declared}
    return {label: model for label, model in bound.items() if model is not None}, other


def unknown_role(prompt: Prompt, label: str) -> str:
    """The message for a label that is no role of the prompt."""
    declared = ", ".join(role.label for role in prompt.roles)
    return f"prompt {prompt.name!r} declares no model role {label!r}; declared roles: {declared or 'none'}"
