"""The chart of how far rows are from where a prediction changes, or from their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streammargin.report.axes import Axes, key
from streammargin.report.text import number

BARS = 40


def bars_of(distances: Mapping[str, Any]) -> list[tuple[float, float, int]]:
    """(low, high, rows) of at most about BARS bars of equal width, of which two meet at 0; empty ends are left out."""
    counts, reach = distances["counts"], distances["reach"]
    filled = [place for place, count in enumerate(counts) if count]
    if not filled or not reach:
        return []
    half, width = len(counts) // 2, 2.0 * reach / len(counts)
    group = max(1, -(-(filled[-1] + 1 - filled[0]) // BARS))
    first, last = (filled[0] - half) // group, (filled[-1] - half) // group
    return [
        (k * group * width, (k + 1) * group * width, sum(counts[max(0, half + k * group) : half + (k + 1) * group]))
        for k in range(first, last + 1)
    ]


def drawn(distances: Mapping[str, Any], numeric: bool) -> str:
    """The chart; "" if all rows are alike. numeric: distances are errors of predicted numbers."""
    bars = bars_of(distances)
    if len(bars) < 2:
        return ""
    name = "prediction minus target" if numeric else "score of the label above the others"
    most = max(count for _, _, count in bars)
    axes = Axes((bars[0][0], bars[-1][1]), (0.0, 1.05 * most), name, "rows", whole=(False, True))
    for low, high, count in bars:
        if count:
            wrong = low < 0.0 and not numeric
            axes.bar(low, high, count, "b" if wrong else "a", f"{number(low)} to {number(high)}: {number(count)} rows")
    entries = [] if numeric else [("a", "right"), ("b", "wrong")]
    return (key(*entries) if entries else "") + axes.svg("How far rows are from a change of the prediction")
