"""Axes of a chart in SVG: scales, ticks, lines, points and bars, in units of the data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from streammargin.report.text import escaped, number

WIDTH, HEIGHT = 440, 250
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 10, 42
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
Limits = tuple[float, float]


@dataclass(frozen=True)
class Scale:
    """The map from values within `limits` to places between two pixels; log: by logarithms; whole: ticks are whole."""

    limits: Limits
    pixels: Limits
    log: bool = False
    whole: bool = False

    def at(self, value: float) -> float:
        """The place of a value; what is beyond the limits is at their end."""
        low, high = map(self._measure, self.limits)
        share = (self._measure(min(max(value, self.limits[0]), self.limits[1])) - low) / ((high - low) or 1.0)
        return self.pixels[0] + share * (self.pixels[1] - self.pixels[0])

    def _measure(self, value: float) -> float:
        return math.log10(value) if self.log else value

    def ticks(self) -> list[float]:
        """Round values within the limits."""
        low, high = self.limits
        if self.log:
            first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
            return [10.0**k for k in range(first, last + 1, max(1, -(-(last - first) // 5)))]
        step = _step((high - low) / 4.0)
        step = float(max(1, math.ceil(step))) if self.whole else step
        return [k * step for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]

    def label(self, value: float) -> str:
        """A tick as text."""
        if self.log:
            power = round(math.log10(value))
            return f"{value:g}" if -4 < power < 4 else f"10{str(power).translate(_RAISED)}"
        return number(round(value, 12), 4)


def _step(least: float) -> float:
    """A round number, at least this."""
    power = 10.0 ** math.floor(math.log10(least)) if least > 0.0 else 1.0
    return next(factor * power for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if factor * power >= least * (1.0 - 1e-9))


def around(values: Sequence[float], log: bool = False, from_0: bool = False) -> Limits:
    """Limits of a scale that shows these values with some room; from_0: 0 is one of the limits, or between them."""
    low, high = min(values), max(values)
    if log:
        low, high = 10.0 ** math.floor(math.log10(low) + 1e-9), 10.0 ** math.ceil(math.log10(high) - 1e-9)
        return (low, high) if low < high else (low / 10.0, high * 10.0)
    low, high = (min(low, 0.0), max(high, 0.0)) if from_0 else (low, high)
    room = 0.06 * (high - low) or abs(high) or 1.0
    return (low if from_0 and low == 0.0 else low - room), (high if from_0 and high == 0.0 else high + room)


@dataclass
class Axes:
    """A chart with the axes x and y, and their names below and above it; whole: axes of counts."""

    x: Limits
    y: Limits
    x_name: str
    y_name: str
    x_log: bool = False
    y_log: bool = False
    percent: bool = False
    whole: tuple[bool, bool] = (False, False)
    parts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.across: Scale = Scale(self.x, (LEFT, WIDTH - RIGHT), self.x_log, self.whole[0])
        self.up: Scale = Scale(self.y, (HEIGHT - BOTTOM, TOP + 14), self.y_log, self.whole[1])
        self.parts += self._frame()

    def _frame(self) -> Iterator[str]:
        for value in self.up.ticks():
            y = f"{self.up.at(value):.1f}"
            text = f"{number(100 * value, 3)}%" if self.percent else self.up.label(value)
            yield f'<line class="l" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>'
            yield f'<text x="{LEFT - 7}" y="{y}" dy="4" text-anchor="end">{text}</text>'
        for value in self.across.ticks():
            x, label = f"{self.across.at(value):.1f}", self.across.label(value)
            yield f'<text x="{x}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle">{label}</text>'
        middle = (LEFT + WIDTH - RIGHT) / 2
        yield f'<text x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{escaped(self.x_name)}</text>'
        yield f'<text x="0" y="{TOP}">{escaped(self.y_name)}</text>'

    def line(self, xs: Sequence[float], ys: Sequence[float], colour: str, dashed: bool = False) -> None:
        """A line through these points."""
        path = "L".join(f"{self.across.at(x):.1f} {self.up.at(y):.1f}" for x, y in zip(xs, ys, strict=True))
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        how = f'fill="none" stroke-width="2" stroke-linejoin="round" stroke-linecap="round"{dash}'
        self.parts.append(f'<path class="l{colour}" d="M{path}" {how}/>')

    def points(self, xs: Sequence[float], ys: Sequence[float], colour: str, told: Sequence[str]) -> None:
        """A point for each pair, with the text that it shows under the pointer."""
        for x, y, text in zip(xs, ys, told, strict=True):
            place = f'cx="{self.across.at(x):.1f}" cy="{self.up.at(y):.1f}"'
            self.parts.append(f'<circle class="f{colour}" {place} r="3.5"><title>{escaped(text)}</title></circle>')

    def band(self, xs: Sequence[float], low: Sequence[float], high: Sequence[float], colour: str) -> None:
        """The area between two lines."""
        pairs = [*zip(xs, high, strict=True), *reversed([*zip(xs, low, strict=True)])]
        path = "L".join(f"{self.across.at(x):.1f} {self.up.at(y):.1f}" for x, y in pairs)
        self.parts.append(f'<path class="f{colour}" opacity=".16" d="M{path}Z"/>')

    def bar(self, low: float, high: float, value: float, colour: str, told: str) -> None:
        """A bar from 0 to `value` over the stretch from low to high."""
        left, right = sorted((self.across.at(low), self.across.at(high)))
        top, bottom = self.up.at(value), self.up.at(max(0.0, self.y[0]))
        size = f'width="{max(0.5, right - left - 1):.1f}" height="{max(0.0, bottom - top):.1f}"'
        place = f'x="{left + 0.5:.1f}" y="{top:.1f}" {size} rx="1.5"'
        self.parts.append(f'<rect class="f{colour}" {place}><title>{escaped(told)}</title></rect>')

    def across_at(self, value: float, colour: str, text: str) -> None:
        """A dashed line across the chart at a value of y, with its name."""
        y = self.up.at(value)
        self.parts.append(
            f'<line class="l{colour}" stroke-width="1.5" stroke-dasharray="3 4" x1="{LEFT}" x2="{WIDTH - RIGHT}" '
            f'y1="{y:.1f}" y2="{y:.1f}"/><text class="s" x="{LEFT + 4}" y="{y - 5:.1f}">'
            f"{escaped(text)}</text>"
        )

    def up_at(self, value: float, colour: str, text: str) -> None:
        """A dashed line up the chart at a value of x, with its name."""
        x = self.across.at(value)
        anchor = "end" if x > (LEFT + WIDTH) / 2 else "start"
        self.parts.append(
            f'<line class="l{colour}" stroke-width="1.5" stroke-dasharray="3 4" x1="{x:.1f}" x2="{x:.1f}" '
            f'y1="{TOP + 14}" y2="{HEIGHT - BOTTOM}"/><text class="t s" x="{x + (5 if anchor == "start" else -5):.1f}" '
            f'y="{TOP + 24}" text-anchor="{anchor}">{escaped(text)}</text>'
        )

    def svg(self, title: str) -> str:
        """The chart."""
        return drawing(WIDTH, HEIGHT, title, self.parts)


def drawing(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    """An SVG of these parts; title: for who does not see it."""
    head = f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escaped(title)}">'
    return f"{head}{''.join(parts)}</svg>"


def key(*entries: tuple[str, str]) -> str:
    """What the colours of a chart mean."""
    items = (f'<span><i class="{colour}"></i>{escaped(text)}</span>' for colour, text in entries)
    return f'<div class="key">{"".join(items)}</div>'
