"""The chart of the columns that matter: bars on both sides of 0, with the weight for the stored column beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from streammargin.report.axes import WIDTH, drawing
from streammargin.report.text import cut, escaped, number

STEP, NAMES, HEAD = 24, 150, 22  # height of a bar, width of the names, height of the head
NUMBER = 70  # width of a column of numbers
Bar = tuple[str, float, tuple[float, ...]]  # a name, a length, and the numbers beside


def name_of(one: Mapping[str, Any]) -> str:
    """A column by its name, or by its number."""
    return f"column {one['column']}" if one["name"] is None else str(one["name"])


def bars_of(features: Sequence[Mapping[str, Any]]) -> tuple[list[Bar], tuple[str, ...]]:
    """The bars of columns as `LinearModel.top_features` gives them, and the heads of their numbers."""
    if any(one["scaled_weight"] is None for one in features):
        return [(name_of(one), one["weight"], (one["weight"],)) for one in features], ("weight",)
    bars: list[Bar] = [(name_of(one), one["scaled_weight"], (one["scaled_weight"], one["weight"])) for one in features]
    return bars, ("× deviation", "weight")


def drawn(features: Sequence[Mapping[str, Any]], title: str) -> str:
    """The chart of columns as `LinearModel.top_features` gives them."""
    return _chart(*bars_of(features), title)


def drawn_overall(columns: Sequence[Mapping[str, Any]], title: str) -> str:
    """The chart of columns as `LinearModel.top_columns` gives them."""
    return _chart([(name_of(one), one["effect"], (one["effect"],)) for one in columns], ("effect",), title)


def _chart(bars: Sequence[Bar], heads: tuple[str, ...], title: str) -> str:
    right = WIDTH - NUMBER * len(heads)
    low, high = min([0.0, *(value for _, value, _ in bars)]), max([0.0, *(value for _, value, _ in bars)])
    unit = (right - NAMES) / ((high - low) or 1.0)
    zero, bottom = NAMES - low * unit, HEAD + STEP * len(bars)
    parts = [_beside(place, len(heads), 11, head) for place, head in enumerate(heads)]
    parts.append(f'<line class="l" x1="{zero:.1f}" x2="{zero:.1f}" y1="{HEAD - 4}" y2="{bottom}"/>')
    for place, (name, value, numbers) in enumerate(bars):
        y, length = HEAD + STEP * place, max(1.5, abs(value) * unit)
        box = f'x="{zero if value >= 0.0 else zero - length:.1f}" y="{y + 4}" width="{length:.1f}" height="15" rx="2.5"'
        told = f"<title>{escaped(name)}</title>"
        parts.append(f'<text class="t" x="0" y="{y + 15}">{cut(name, 20)}{told}</text>')
        parts.append(f'<rect class="f{"a" if value >= 0.0 else "b"}" {box}>{told}</rect>')
        parts += [_beside(k, len(heads), y + 15, number(one, 3)) for k, one in enumerate(numbers)]
    return drawing(WIDTH, bottom + 2, title, parts)


def _beside(place: int, of: int, y: float, text: str) -> str:
    """A number, or the head of its column, at the right of the bars."""
    x = WIDTH - NUMBER * (of - 1 - place)
    return f'<text class="s" x="{x}" y="{y}" text-anchor="end">{text}</text>'
