"""An interior point method for piecewise linear losses and penalties, if steps on columns converge slowly.

Mehrotra's method (1992) for the linear program

    min over w of sum_j roots_j |w_j| + sum_i max over 0 <= x <= span_i of (low_i + x) (height_i - (A w)_i),

with the duals low + x of the rows. Each step solves a linear system in a working set of columns, chosen by |A_j.alpha|;
the other weights are 0. The system is factored, so the working set must be small. Some twenty steps suffice, if an
augmented Lagrangian takes hundreds. It starts from approximate weights and duals, as at w = 0 the working set would be
all columns.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from streammargin.compiled import interior as kernel
from streammargin.compiled.column_steps import Columns
from streammargin.losses.base import has
from streammargin.solvers.base import matrix_work
from streammargin.solvers.state import State

NEAR = 0.9  # a column is in the working set if |A_j.alpha| exceeds this times its root
AWAY = 10.0  # or if its weight exceeds this times mu
OFTEN = 2  # a column that entered more often stays, so that none enters and leaves for ever
CENTRED = 0.01  # the first mu, relative to the mean complementarity product at the objective
INSIDE = 1e-4  # least relative distance of the first duals from their bounds
APART = 0.1  # least first slack of a column, relative to its root
BOUNDARY = 0.95  # share of the largest feasible step that is made
STEPS = 50  # most steps; twenty usually suffice
OUTER = 20.0  # operations of a factorisation that take as long as one of the sum over the rows
REACHED = 0.1  # of tol: the gap at which it stops, as setting small weights to 0 increases it
KEPT = 0.9  # of tol: the largest gap after small weights are set to 0
SETTLED = 100.0  # times mu: smaller weights are set to 0
ROW_VECTORS, COLUMN_VECTORS = 30, 24  # temporary vectors of length n and d+1


class Point(NamedTuple):
    """Primal variables and their duals; on the central path each product of a pair is mu.

    Weights are up - down (m,), with duals left, right; margins are height + over - under (n,), with duals x, y.
    """

    up: np.ndarray
    down: np.ndarray
    over: np.ndarray
    under: np.ndarray
    left: np.ndarray
    right: np.ndarray
    x: np.ndarray
    y: np.ndarray

    def products(self) -> list[np.ndarray]:
        return [one * dual for one, dual in zip(self[:4], self[4:], strict=True)]

    def moved(self, direction: Point, lengths: tuple[float, float]) -> Point:
        """The point after a step; lengths: step lengths of the primal variables and of the duals."""
        return Point(*(one + lengths[i > 3] * by for i, (one, by) in enumerate(zip(self, direction, strict=True))))

    def step_lengths(self, direction: Point, share: float) -> tuple[float, float]:
        """This share of the largest step lengths that keep all variables >= 0, at most 1."""
        fall = [float(np.max(-by / one, initial=0.0)) for one, by in zip(self, direction, strict=True)]
        return share / max(share, *fall[:4]), share / max(share, *fall[4:])


def dear(columns: int, entries: int, rows: int) -> bool:
    """Whether forming the system of this many columns and entries takes longer than factoring it."""
    return OUTER * entries**2 / rows > columns**3 / 3.0


def _dot(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.sum(a * b))  # not BLAS, whose number of threads would change the last bits


def _mean(products: list[np.ndarray]) -> float:
    return sum(float(np.sum(one)) for one in products) / sum(one.size for one in products)


def _objective(roots: np.ndarray, w: np.ndarray, low: np.ndarray, span: np.ndarray, off: np.ndarray) -> float:
    return _dot(roots, np.abs(w)) + _dot(low, off) + _dot(span, np.maximum(off, 0.0))


def _step(
    matrix: Columns, at: Point, off: np.ndarray, slack: tuple[np.ndarray, np.ndarray, np.ndarray]
) -> tuple[np.ndarray, Point]:
    """(change of the free weight, (0,) without one; the next point).

    off: height - A w; slack: target values of left and right for the penalised columns, and A_j.alpha of the free one.
    """
    m, n = at.up.size, at.x.size
    lacks, left, right = off + at.over - at.under, slack[0] - at.left, slack[1] - at.right
    bend = 1.0 / (at.over / at.x + at.under / at.y)
    ease = 1.0 / (at.up / at.left + at.down / at.right)
    U, roots = kernel.factored(*matrix, np.sqrt(bend), np.append(ease, np.zeros(slack[2].size)))

    def direction(up: np.ndarray, down: np.ndarray, over: np.ndarray, under: np.ndarray) -> tuple[np.ndarray, Point]:
        """(change of the free weight, changes of all variables) such that the products change by these amounts."""
        eased = ease * ((up - at.up * left) / at.left - (down - at.down * right) / at.right)
        lack = lacks + over / at.x - under / at.y
        w = kernel.solved(U, roots, kernel.pulls(*matrix, bend * lack) + np.append(eased, slack[2]))
        x = bend * (lack - kernel.margins(*matrix, w, n))
        pull = ease * w[:m] - eased  # equals A^T x up to rounding, and is consistent with up - down
        return w[m:], Point(
            (up - at.up * (left - pull)) / at.left, (down - at.down * (right + pull)) / at.right,
            (over - at.over * x) / at.x, (under + at.under * x) / at.y, left - pull, right + pull, x, -x,
        )  # fmt: skip

    products = at.products()
    _, ahead = direction(*(-one for one in products))
    mu = _mean(products)
    aim = mu * (_mean(at.moved(ahead, at.step_lengths(ahead, 1.0)).products()) / mu) ** 3
    shift, ahead = direction(*(aim - one - a * b for one, a, b in zip(products, ahead[:4], ahead[4:], strict=True)))
    lengths = at.step_lengths(ahead, BOUNDARY)
    return lengths[0] * shift, at.moved(ahead, lengths)


def linear(loss: Any) -> tuple[float, float, float] | None:
    """(low, high, height) of a row of weight 1: bounds of its dual, and the slope of its dual objective.

    None if that is not linear.
    """
    if not has(loss, "feasible"):
        return None
    low, high = loss.feasible(-math.inf, 1.0), loss.feasible(math.inf, 1.0)
    if not 0.0 < high - low < math.inf:
        return None
    ends, middle = (loss.dual(low, 1.0), loss.dual(high, 1.0)), loss.dual(0.5 * (low + high), 1.0)
    if abs(middle - 0.5 * sum(ends)) > 1e-12 * (abs(middle) + high - low):  # it is concave
        return None
    return low, high, (ends[1] - ends[0]) / (high - low)


@np.errstate(all="ignore")
def approach(
    rows: tuple[float, float, float], caps: np.ndarray, targets: np.ndarray, matrix: Columns, roots: np.ndarray,
    w: np.ndarray, alpha: np.ndarray, tol: float, few: int, state: State,
) -> tuple[np.ndarray, np.ndarray] | None:  # fmt: skip
    """Improve weights (m,) and duals (n,) to a relative gap of about tol.

    None if more than `few` columns are in the working set, forming the system is too slow, or it does not converge.
    rows: of `linear`; caps (n,), 0 for absent rows; targets (n,) or (0,); matrix: all columns; roots (m,), the last one
    0 for a free constant.
    """
    n, m, present = caps.size, int(np.count_nonzero(roots)), caps > 0.0
    low, high = rows[0] * caps, rows[1] * caps
    span = np.where(present, high - low, 1.0)  # an absent row is independent of all others
    height = np.where(present, rows[2] + (targets if targets.size else 0.0), 0.0)
    x = np.clip(alpha - low, INSIDE * span, (1.0 - INSIDE) * span)
    off = height - kernel.margins(*matrix, w, n)
    mu = CENTRED * _objective(roots, w, low, span, off) / (2 * (m + n))
    y, over, under = span - x, mu / x + np.maximum(-off, 0.0), mu / (span - x) + np.maximum(off, 0.0)
    near, came = np.zeros(m, bool), np.zeros(m, np.int64)
    up, down = np.maximum(w[:m], 0.0), np.maximum(-w[:m], 0.0)
    w, left, right = w.copy(), roots[:m].copy(), roots[:m].copy()
    gap, found, entries = math.inf, None, int((matrix[1] - matrix[0]).sum())
    for _ in range(STEPS):
        alpha = np.clip(low + x, low, high)  # both bounds are 0 for an absent row
        pulled = kernel.pulls(*matrix, alpha)
        size = np.abs(pulled[:m])
        last, near = near, (size > NEAR * roots[:m]) | (np.abs(up - down) > AWAY * mu) | (came > OFTEN)
        new = near & ~last
        came += new
        left[new] = np.maximum(roots[:m] - pulled[:m], APART * roots[:m])[new]
        right[new] = np.maximum(roots[:m] + pulled[:m], APART * roots[:m])[new]
        up[new] += mu / left[new]
        down[new] += mu / right[new]
        up[~near] = down[~near] = 0.0
        w[:m] = np.where(near, up - down, 0.0)
        off = height - kernel.margins(*matrix, w, n)
        value = _objective(roots, w, low, span, off)
        bound = min(1.0, float(np.min(roots[:m] / np.maximum(size, 1e-300), initial=1.0))) * _dot(alpha, height)
        before, gap = gap, (value - bound) / value if value > 0.0 else 0.0
        if gap <= REACHED * tol:
            settled = np.where((np.abs(w) > SETTLED * mu) | (roots == 0.0), w, 0.0)
            value = _objective(roots, settled, low, span, height - kernel.margins(*matrix, settled, n))
            return settled if value - bound <= KEPT * tol * value else w, alpha
        if not math.isfinite(gap) or (found is not None and gap >= before):  # no more progress
            return found
        if gap <= KEPT * tol:
            found = w.copy(), alpha
        chosen = np.append(np.flatnonzero(near), np.arange(m, roots.size))
        part = Columns(matrix.starts[chosen], matrix.ends[chosen], *matrix[2:])
        if chosen.size > few or dear(few, int((part[1] - part[0]).sum()), n):
            return found
        own = int((part[1] - part[0]).sum())
        state.multiplications += 2.0 * entries + 4.0 * own + matrix_work(chosen.size, n, own / n)
        point = Point(up[near], down[near], over, under, left[near], right[near], x, y)
        pulls = roots[:m][near] - pulled[:m][near], roots[:m][near] + pulled[:m][near], pulled[m:]
        shift, point = _step(part, point, off, pulls)
        up[near], down[near], over, under, left[near], right[near], x, y = point
        w[m:] += shift
        mu = _mean(point.products())
    return found
