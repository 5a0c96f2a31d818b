"""Rounds of block-wise sequential minimal optimisation on the rows of a block.

A round takes the worst violators, with columns that are held and some whose columns are computed now, and makes steps
on their coefficients until they violate a tenth of what all rows do. Then the scores of all rows follow.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from streammargin.compiled import smo
from streammargin.solvers.expansion.columns import Columns
from streammargin.solvers.expansion.form import Form

ROWS, NEW = 1024, 128  # most rows of a round, and those among them whose columns are computed
SHARE = 0.1  # of the violation of all rows, to which a round brings that of its own
NEAR = 0.3  # of the worst violation: rows without a column that violate less wait
STEPS = 64  # most steps of a round, for each of its rows


class Now(NamedTuple):
    """Where a line stands: its relative gap at a constant in the middle, estimated, and its worst violation.

    curvature: the smallest that a step of the round has met. multiplications: of the round. left: whether steps may
    still help.
    """

    gap: float
    violation: float
    curvature: float = math.inf
    multiplications: float = 0.0
    left: bool = True


def middle(up: float, down: float) -> float:
    """A constant between the two bounds; 0 if there is none."""
    if math.isinf(up) or math.isinf(down):
        return up if math.isfinite(up) else down if math.isfinite(down) else 0.0
    return 0.5 * (up + down)


def constant_of(form: Form, free: bool, f: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """(the constant, the worst violation) of a line; the constant is 0 if it is not free."""
    up, down = form.bounds(f, b)
    if free:
        return middle(up, down), max(0.0, up - down) if math.isfinite(up - down) else 0.0
    return 0.0, max(0.0, up, -down)


def estimate(form: Form, loss: object, f: np.ndarray, b: np.ndarray, constant: float) -> float:
    """The relative gap at these scores f = K b and this constant; of a hard margin that of the margin."""
    square = float(b @ f)
    if form.hard:
        slack = float(np.min(form.sign * (f + constant), where=form.caps > 0.0, initial=math.inf))
        return 1.0 - slack * float(np.abs(b).sum()) / square if square > 0.0 else math.inf
    dual = float(form.gain(b).sum()) - 0.5 * square
    losses = smo.losses_at(loss, f, 1.0, constant, form.sign, form.target, form.caps, 0.0)[0]
    primal = losses + 0.5 * square
    size = max(abs(primal), abs(dual))
    return (primal - dual) / size if size > 0.0 else 0.0


def make_round(
    form: Form, loss: object, free: bool, columns: Columns, f: np.ndarray, b: np.ndarray, goal: float, now: int,
    random: np.random.Generator,
) -> Now:  # fmt: skip
    """One round on f and b (n,), which it changes, unless the estimated gap is within the goal; now: its number."""
    constant, worst = constant_of(form, free, f, b)
    gap = estimate(form, loss, f, b, constant)
    if gap <= goal or worst <= 0.0:
        return Now(gap, worst, left=worst > 0.0)
    violation = form.violations(f, b, constant)
    rows, new = chosen(violation, columns, form, b, random)
    if new.size:
        columns.take_in(new, rows, now)
        rows = np.concatenate([rows, new])
    slots, own = columns.of(rows, now), form.at(rows)
    before = b[rows]
    some, after = f[rows], before.copy()
    steps, curvature = smo.solve(
        columns.values, slots, rows, some, after, own.t, own.low, own.high, own.bend, own.over, own.under, free,
        SHARE * worst, STEPS * rows.size,
    )  # fmt: skip
    b[rows] = after
    moved = np.flatnonzero(after != before)
    smo.add_columns(columns.values, slots[moved], (after - before)[moved], f)
    work = 2.0 * steps * rows.size + 1.0 * moved.size * f.size + new.size * f.size * columns.block.features()
    return Now(gap, worst, float(curvature), work, moved.size > 0)


def chosen(
    violation: np.ndarray, columns: Columns, form: Form, b: np.ndarray, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(rows with a column that is held, rows whose columns are to be computed), the worst violators of either side."""
    held = columns.slot_of >= 0
    size = np.abs(violation)
    worst, most = float(size.max()), min(ROWS, columns.values.shape[0])
    out = np.flatnonzero(~held & (size >= NEAR * worst) & (size > 0.0))
    new = _sides(out, violation, min(NEW, max(1, most // 2)), random)
    inside = np.flatnonzero(held & ((size > 0.0) | ((b > form.low) & (b < form.high))))
    order = np.argsort(-size[inside], kind="stable")[: most - new.size]
    return inside[order], new


def _sides(rows: np.ndarray, violation: np.ndarray, most: int, random: np.random.Generator) -> np.ndarray:
    """At most so many of these rows: half of them may rise, half may fall, the worst of each; equals at random."""
    if rows.size <= most:
        return rows
    rows = random.permutation(rows)
    up, down = rows[violation[rows] > 0.0], rows[violation[rows] < 0.0]
    fewer = min(most // 2, up.size, down.size)
    sizes = (most - fewer, fewer) if up.size >= down.size else (fewer, most - fewer)
    parts = [
        side[np.argsort(-np.abs(violation[side]), kind="stable")[:size]]
        for side, size in zip((up, down), sizes, strict=True)
    ]
    return np.concatenate(parts)
