"""Rounds of block-wise sequential minimal optimisation on the rows of a block.

A round takes the worst violators, some whose columns are computed now, and rows of the last round. Without the latter,
rounds undo each other's steps. It makes steps on their coefficients until they violate a tenth of what all rows do.
Then the scores of all rows follow.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from streammargin.compiled import smo
from streammargin.solvers.expansion.columns import EMPTY_PLACE, MOST_ROUND_ROWS, Columns
from streammargin.solvers.expansion.form import Form

NEW = 128  # most rows of a round whose columns are computed
OWN_VIOLATION_SHARE = 0.1  # of the violation of all rows, to which a round brings that of its own
LARGEST_COEFFICIENT_SUM = 1e100  # of a hard margin; it grows without end if nothing separates the rows
MOST_STEPS_PER_ROW = 64  # of a round


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
    recent: np.ndarray, random: np.random.Generator,
) -> Now:  # fmt: skip
    """One round on f and b (n,), which it changes, unless the estimated gap is within the goal.

    now: its number; recent (MOST_ROUND_ROWS // 2,): rows of the last round of the line, which become those of this one.
    """
    constant, worst = constant_of(form, free, f, b)
    gap = estimate(form, loss, f, b, constant)
    grown = form.hard and float(np.abs(b).sum()) > LARGEST_COEFFICIENT_SUM
    if gap <= goal or worst <= 0.0 or grown:
        return Now(gap, worst, left=worst > 0.0 and not grown)
    rows, new = chosen(columns, _ways(form, free, f, b), recent, random)
    if new.size:
        columns.take_in(new, rows, now, now // 2)
        rows = np.concatenate([new, rows])
    recent[: rows.size], recent[rows.size :] = rows[: recent.size], EMPTY_PLACE
    slots, own = columns.of(rows, now), form.at(rows)
    before = b[rows]
    some, after = f[rows], before.copy()
    steps, curvature = smo.solve(
        columns.values, slots, rows, some, after, own.t, own.low, own.high, own.bend, own.over, own.under, free,
        OWN_VIOLATION_SHARE * worst, MOST_STEPS_PER_ROW * rows.size,
    )  # fmt: skip
    if steps == MOST_STEPS_PER_ROW * rows.size and columns.kernel.definite and not form.hard:
        from streammargin.solvers.expansion import interior  # which loads scipy.linalg

        after = interior.solved(columns.values[slots][:, rows].astype(np.float64), own, some, after, free)
    b[rows] = after
    moved = np.flatnonzero(after != before)
    smo.add_columns(columns.values, slots[moved], (after - before)[moved], f)
    work = 2.0 * steps * rows.size + 1.0 * moved.size * f.size + new.size * f.size * columns.block.features()
    return Now(gap, worst, float(curvature), work, moved.size > 0)


def _ways(form: Form, free: bool, f: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How much each row gains if its coefficient grows, and if it falls, beside the best row for the other way."""
    if not free:
        violation = form.violations(f, b, 0.0)
        return violation, -violation
    up, down = form.bounds(f, b)
    return form.violations(f, b, down), -form.violations(f, b, up)


def chosen(
    columns: Columns, ways: tuple[np.ndarray, np.ndarray], recent: np.ndarray, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(rows with a column that is held, rows whose columns are to be computed).

    The latter are those without a column among the worst of all. Half of the former were in the last round.
    """
    held, most = columns.slot_of >= 0, min(MOST_ROUND_ROWS, columns.values.shape[0])
    worst = _sides(ways, np.ones(held.size, bool), min(NEW, max(2, most // 2)), random)
    new = worst[~held[worst]]
    again = recent[recent != EMPTY_PLACE]
    again = again[held[again]][: min(most // 2, most - new.size)]
    held[again] = False
    return np.concatenate([_sides(ways, held, most - new.size - again.size, random), again]), new


def _sides(
    ways: tuple[np.ndarray, np.ndarray], allowed: np.ndarray, most: int, random: np.random.Generator
) -> np.ndarray:
    """At most so many of the rows allowed (n,) bool: half of them may rise, half may fall, the worst of each."""
    rise, fall = ways
    up = _largest(rise, allowed, most - min(most // 2, int(np.count_nonzero(allowed & (fall > 0.0)))), random)
    others = allowed.copy()
    others[up] = False
    return np.concatenate([up, _largest(fall, others, most - up.size, random)])


def _largest(values: np.ndarray, allowed: np.ndarray, most: int, random: np.random.Generator) -> np.ndarray:
    """The rows allowed with the largest values above 0, at most so many; equals at random."""
    rows = np.flatnonzero(allowed & (values > 0.0))
    if rows.size <= most:
        return rows
    own = values[rows]
    least = np.partition(own, rows.size - most)[rows.size - most] if most else math.inf
    sure = rows[own > least]
    return np.concatenate([sure, random.permutation(rows[own == least])[: most - sure.size]])
