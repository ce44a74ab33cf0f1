"""What a run may spend."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

_HIGHEST = 2**32 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one run.

    Args:
        rounds: Tool rounds of one `models.loop` call. A prompt's `max_tool_iterations` wins over it.
        memory_bytes: Bytes of Lua memory of one section.
        log_events: Calls of `log` in one section, 0 for none; their texts together may hold 256 bytes a call.
    """

    rounds: int = 24
    memory_bytes: int = 64 * 1024 * 1024
    log_events: int = 1024

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{field.name} must be an integer, got {type(value).__name__}")
            lowest = 0 if field.name == "log_events" else 1
            if not lowest <= value <= _HIGHEST:
                raise ValueError(f"{field.name} must be between {lowest} and {_HIGHEST}, got {value}")

    def to_dict(self) -> dict[str, int]:
        """The limits by name."""
        return asdict(self)
