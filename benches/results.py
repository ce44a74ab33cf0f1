"""What a run of the comparison found."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benches.contestant import Contestant
    from benches.conversations import Shape
    from benches.measure import Timing
    from benches.memory import Memory


@dataclass(kw_only=True)
class Results:
    """Times in seconds, by kind of work and length, then by contestant."""

    contestants: Sequence[Contestant]
    sizes: list[int]
    times: dict[tuple[str, int], dict[str, Timing]] = field(default_factory=dict)
    memory: dict[str, Memory] = field(default_factory=dict)
    shapes: dict[int, Shape] = field(default_factory=dict)
    json_bytes: dict[int, int] = field(default_factory=dict)
    content_bytes: int = 0
    agreed: dict[int, list[str]] = field(default_factory=dict)
    """What was compared, by size; 0 for what has no size."""
    seconds: float = 0.0

    def seconds_of(self, work: str, length: int, name: str) -> float | None:
        """What one contestant took; None when it was not measured."""
        timing = self.times.get((work, length), {}).get(name)
        return None if timing is None else timing.seconds

    def ratio(self, work: str, length: int, name: str, to: str) -> float | None:
        """How many times as long one contestant took as another."""
        one, other = self.seconds_of(work, length, name), self.seconds_of(work, length, to)
        return one / other if one is not None and other else None

    def lengths(self, work: str, name: str) -> list[int]:
        """The lengths at which a contestant was measured."""
        return sorted(length for (key, length), by_name in self.times.items() if key == work and name in by_name)

    def exponent(self, work: str, name: str, first: int, last: int) -> float | None:
        """How the time grows with the length: 1 is linear, 2 quadratic."""
        one, other = self.seconds_of(work, first, name), self.seconds_of(work, last, name)
        return math.log(other / one) / math.log(last / first) if one and other else None
