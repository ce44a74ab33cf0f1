"""A log-log line plot as SVG, without a library."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH, HEIGHT = 860, 520
LEFT, RIGHT, TOP, BOTTOM = 76, 226, 54, 58
# Told apart by people who see fewer colours as well; with the markers also in black and white.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#555555", "#b8860b", "#56b4e9", "#7b3294", "#a50f15", "#1b7837")
MARKERS = ("circle", "square", "triangle", "diamond")
LABEL_GAP = 17


@dataclass(frozen=True)
class Line:
    """One line: its points, and which of them stand for something measured less directly, drawn hollow."""

    name: str
    points: Sequence[tuple[float, float]]
    hollow: frozenset[float] = frozenset()
    strong: bool = False


@dataclass(frozen=True)
class _Scale:
    """From values to places: logarithmic."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (math.log10(value) - math.log10(self.low)) / (math.log10(self.high) - math.log10(self.low))
        return self.start + share * (self.end - self.start)

    def decades(self) -> list[float]:
        first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
        return [10.0**power for power in range(first, last + 1)]


def log_log(title: str, x_title: str, y_title: str, lines: Sequence[Line], note: str = "") -> str:
    """The plot as the text of an SVG file. `y` is seconds."""
    xs = [x for line in lines for x, _ in line.points]
    ys = [y for line in lines for _, y in line.points]
    x = _Scale(min(xs), max(xs), LEFT, WIDTH - RIGHT)
    y = _Scale(10 ** math.floor(math.log10(min(ys))), 10 ** math.ceil(math.log10(max(ys))), HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"',
        'font-family="Helvetica, Arial, sans-serif" font-size="13" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="26" font-size="16" font-weight="bold" fill="#222222">{escape(title)}</text>',
        f'<text x="{LEFT}" y="43" font-size="11" fill="#666666">{escape(note)}</text>',
        *_axes(x, y, sorted(set(xs)), x_title, y_title),
    ]
    places = _spread([y(line.points[-1][1]) for line in lines])
    for index, line in enumerate(lines):
        parts += _line(line, index, x, y, places[index])
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _axes(x: _Scale, y: _Scale, xs: Sequence[float], x_title: str, y_title: str) -> list[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = []
    for value in y.decades():
        at = f"{y(value):.1f}"
        parts.append(f'<line x1="{LEFT}" x2="{right}" y1="{at}" y2="{at}" stroke="#dddddd"/>')
        parts.append(
            f'<text x="{LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end" fill="#444444">{_time(value)}</text>'
        )
    for value in xs:
        at = f"{x(value):.1f}"
        parts.append(f'<line x1="{at}" x2="{at}" y1="{TOP}" y2="{bottom}" stroke="#eeeeee"/>')
        parts.append(f'<text x="{at}" y="{bottom + 18}" text-anchor="middle" fill="#444444">{value:,.0f}</text>')
    center, middle = (LEFT + right) / 2, (TOP + bottom) / 2
    parts += [
        f'<path d="M{LEFT} {TOP}V{bottom}H{right}" fill="none" stroke="#444444"/>',
        f'<text x="{center}" y="{bottom + 42}" text-anchor="middle" fill="#222222">{escape(x_title)}</text>',
        f'<text transform="translate(18 {middle}) rotate(-90)" text-anchor="middle" fill="#222222">',
        f"{escape(y_title)}</text>",
    ]
    return parts


def _line(line: Line, index: int, x: _Scale, y: _Scale, label_at: float) -> list[str]:
    color = COLORS[index % len(COLORS)]
    places = [(x(a), y(b), a in line.hollow) for a, b in line.points]
    path = " ".join(f"{'L' if count else 'M'}{a:.1f} {b:.1f}" for count, (a, b, _) in enumerate(places))
    end_x, end_y, _ = places[-1]
    label_x = WIDTH - RIGHT + 26
    weight = ' font-weight="bold"' if line.strong else ""
    return [
        f'<path d="{path}" fill="none" stroke="{color}" stroke-width="{3 if line.strong else 1.7}"/>',
        *(_marker(index, a, b, color, hollow=hollow) for a, b, hollow in places),
        f'<path d="M{end_x + 6:.1f} {end_y:.1f}L{label_x - 4} {label_at:.1f}" stroke="{color}" stroke-width="0.8"/>',
        f'<text x="{label_x}" y="{label_at + 4:.1f}" fill="{color}"{weight}>{escape(line.name)}</text>',
    ]


def _marker(index: int, x: float, y: float, color: str, *, hollow: bool) -> str:
    paint = f'fill="{"#ffffff" if hollow else color}" stroke="{color}" stroke-width="1.5"'
    shape = MARKERS[index % len(MARKERS)]
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" {paint}/>'
    if shape == "square":
        return f'<rect x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7" {paint}/>'
    if shape == "triangle":
        return f'<path d="M{x:.1f} {y - 4.5:.1f}l4.5 8h-9z" {paint}/>'
    return f'<path d="M{x:.1f} {y - 5:.1f}l4.5 5l-4.5 5l-4.5 -5z" {paint}/>'


def _spread(places: list[float]) -> list[float]:
    """Moves labels apart that would lie on each other, keeping their order."""
    order = sorted(range(len(places)), key=lambda index: places[index])
    moved = dict.fromkeys(order, 0.0)
    before = -math.inf
    for index in order:
        before = moved[index] = max(places[index], before + LABEL_GAP)
    # Those that were pushed past the plot go back up.
    limit = HEIGHT - BOTTOM + 4.0
    for index in reversed(order):
        limit = moved[index] = min(moved[index], limit)
        limit -= LABEL_GAP
    return [moved[index] for index in range(len(places))]


def _time(seconds: float) -> str:
    for unit, name in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= unit * 0.999:
            return f"{seconds / unit:,.0f} {name}"
    return f"{seconds * 1e9:,.0f} ns"
