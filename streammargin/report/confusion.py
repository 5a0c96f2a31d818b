"""The chart of a confusion matrix: a row for each label, a column for each prediction."""

from __future__ import annotations

from collections.abc import Sequence

from streammargin.report.axes import drawing
from streammargin.report.text import cut, escaped, number, percent

MOST = 20  # classes of a matrix that is drawn
SIDE, LEFT, TOP = 336.0, 92.0, 46.0


def drawn(labels: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    """The chart of counts (k, k); the colour of a cell is its share of the row."""
    size = min(84.0, SIDE / len(labels))
    parts = ['<text x="0" y="12">a row for each label, a column for each prediction</text>']
    fit = max(2, int(size / 7.0))
    for i, label in enumerate(labels):
        middle = (i + 0.5) * size
        above = f'x="{LEFT + middle:.1f}" y="{TOP - 8}" text-anchor="middle"'
        parts.append(f'<text class="t s" {above}>{cut(label, fit)}<title>{escaped(label)}</title></text>')
        beside = f'x="{LEFT - 8}" y="{TOP + middle:.1f}" dy="4" text-anchor="end"'
        parts.append(f'<text class="t s" {beside}>{cut(label, 13)}<title>{escaped(label)}</title></text>')
        parts += [_cell(labels, counts, i, j, size) for j in range(len(labels))]
    return drawing(LEFT + SIDE, TOP + size * len(labels) + 4, "Confusion matrix", parts)


def _cell(labels: Sequence[str], counts: Sequence[Sequence[int]], i: int, j: int, size: float) -> str:
    count, total = counts[i][j], sum(counts[i])
    share = count / total if total else 0.0
    x, y, side = LEFT + j * size, TOP + i * size, size - 2.0
    place = f'x="{x:.1f}" y="{y:.1f}" width="{side:.1f}" height="{side:.1f}" rx="3"'
    told = f"{labels[i]} taken for {labels[j]}: {number(count)} of {number(total)} rows ({percent(share)})"
    middle = f'x="{x + side / 2:.1f}" y="{y + side / 2:.1f}" dy="4" text-anchor="middle"'
    cell = f'<rect class="fl" opacity=".45" {place}/>'
    opacity = 0.0 if not count else max(0.12, 0.75 * share)
    colour = f'class="f{"a" if i == j else "b"}" opacity="{opacity:.3f}"'
    cell += f"<rect {colour} {place}><title>{escaped(told)}</title></rect>"
    if count and len(str(count)) * 6.2 < size:
        cell += f'<text class="t s" {middle}>{count}</text>'
    return cell
