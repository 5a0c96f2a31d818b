"""The coefficients of the rows of a round by interior points, for rounds whose steps on pairs of rows do not end.

The number of steps on pairs grows with the condition of the Gram matrix. One column of large values takes millions:
along combinations of three rows the objective hardly bends. Newton's steps on all rows at once do not mind.

Source: predictor and corrector, Mehrotra 1992; a coefficient with a kink at 0 is the difference of two numbers >= 0.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dgetrf, dgetrs

from streammargin.solvers.expansion.form import Form

MOST_INTERIOR_STEPS = 60  # some 20 are usual
ENDING_INTERIOR_GAP = 1e-12  # relative to the terms of the objective
INTERIOR_PATIENCE = 15  # iterations without a smaller error: rounding hides the rest
SHORTEST_INTERIOR_STEP = 1e-10  # a step that ends it
SNAPPED = 1e-9  # of the stretch that a coefficient may have: nearer to its end it is there
BACK = 0.995  # of the way to the nearest end that an iteration goes


class Box(NamedTuple):
    """The numbers v (s, m) whose sum, with their signs (s, 1), is b: their ends and costs."""

    signs: np.ndarray
    low: np.ndarray
    high: np.ndarray
    costs: np.ndarray


def box_of(own: Form) -> Box:
    """The box of the coefficients: two numbers for each if it has a kink, one above 0 and one below."""
    if own.over + own.under == 0.0:
        costs = np.full((1, own.t.size), 0.5 * (own.under - own.over))
        return Box(np.ones((1, 1)), own.low[None], own.high[None], costs)
    high = np.stack([np.maximum(own.high, 0.0), np.maximum(-own.low, 0.0)])
    costs = np.stack([np.full(own.t.size, own.under), np.full(own.t.size, own.over)])
    return Box(np.array([[1.0], [-1.0]]), np.zeros_like(high), high, costs)


def solved(K: np.ndarray, own: Form, f: np.ndarray, b: np.ndarray, free: bool) -> np.ndarray:
    """Coefficients (m,) with a larger dual objective than b, those of other rows fixed; b itself if there are none.

    K (m, m): positive semidefinite, of the rows of the round; f (m,): scores by all coefficients.
    """
    movable = own.high > own.low
    if not movable.any() or not np.isfinite(K).all():
        return b
    some = np.flatnonzero(movable)
    H = K[np.ix_(some, some)] + np.diag(own.bend[some])
    g = own.t[some] - f[some] + K[np.ix_(some, some)] @ b[some]
    found = b.copy()
    with np.errstate(all="ignore"):  # a room of 0 ends it
        found[some] = _points(H, g, own.at(some), b[some], free)
    moved = found - b
    gained = math.fsum(own.gain(found) - own.gain(b)) - float(moved @ f) - 0.5 * float(moved @ K @ moved)
    return found if np.isfinite(found).all() and gained > 0.0 else b


def _points(H: np.ndarray, g: np.ndarray, own: Form, b: np.ndarray, free: bool) -> np.ndarray:
    """The minimum of b.H b / 2 - g.b + costs over the box, with the sum of b if the constant is free."""
    box, target = box_of(own), math.fsum(b)
    size = max(1.0, float(np.abs(b).max()), float(np.abs(g).max() / max(float(np.abs(H).max()), 1e-300)))
    wide = np.minimum(box.high - box.low, size)
    H = H + np.diag(np.full(g.size, 1e-15 * float(np.abs(H).max())))
    if not (np.isfinite(box.low).any() or np.isfinite(box.high).any()):
        return _Bordered(H, free).solve(g, target)[0]
    inner = _Inner(H, g, box, target if free else None, wide)
    for _ in range(MOST_INTERIOR_STEPS):
        if not inner.advance():
            break
    v = inner.best[2]
    v = np.where(v - box.low <= SNAPPED * wide, box.low, v)
    v = np.where(box.high - v <= SNAPPED * wide, box.high, v)
    at: np.ndarray = (box.signs * v).sum(axis=0)
    return _summed(at, own, target) if free else at


class _Inner:
    """A point inside of the box, v, and the multipliers of its ends, low (z) and high (y), and of the sum."""

    def __init__(self, H: np.ndarray, g: np.ndarray, box: Box, target: float | None, wide: np.ndarray) -> None:
        self.H, self.g, self.box, self.target = H, g, box, target
        self.below, self.above = np.isfinite(box.low), np.isfinite(box.high)
        low, high = np.where(self.below, box.low, 0.0), np.where(self.above, box.high, 0.0)
        inside = np.where(self.below, low + 0.5 * wide, -np.inf), np.where(self.above, high - 0.5 * wide, np.inf)
        self.v = np.clip(0.0, *inside)
        at = (box.signs * self.v).sum(axis=0)
        self.start = float(np.abs(H @ at).max() + np.abs(g).max()) or 1.0
        self.z, self.y = np.where(self.below, self.start, 0.0), np.where(self.above, self.start, 0.0)
        self.multiplier = 0.0
        self.now, self.best = 0, (math.inf, 0, self.v)  # number of an iteration; smallest error, its number and point

    def advance(self) -> bool:
        """A predictor and a corrector; whether to go on."""
        box, below, above, z, y = self.box, self.below, self.above, self.z, self.y
        s, r = np.where(below, self.v - box.low, 1.0), np.where(above, box.high - self.v, 1.0)
        ends = max(1, int(below.sum() + above.sum()))
        mu = float((s * z).sum() + (r * y).sum()) / ends
        at = (box.signs * self.v).sum(axis=0)
        dual = box.signs * (self.H @ at - self.g + self.multiplier) + box.costs - z + y
        size = abs(float(at @ self.H @ at)) + float(np.abs(self.g * at).sum())
        missing = 0.0 if self.target is None else self.target - float(at.sum())
        error = mu * ends + float(np.abs(dual * self.v).sum()) + abs(missing) * (self.start + abs(self.multiplier))
        self.best = min(self.best, (error, self.now, self.v), key=lambda one: one[:2])
        self.now += 1
        if not error > ENDING_INTERIOR_GAP * size or self.now - self.best[1] > INTERIOR_PATIENCE:
            return False
        D = np.maximum(z / s + y / r, 1e-300)
        diagonal = 1.0 / (1.0 / D).sum(axis=0)
        system = _Bordered(self.H + np.diag(diagonal), self.target is not None)

        def along(to_z: np.ndarray, to_y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float, float]:
            """(dv, dz, dy, step of the multiplier, how far to go) towards these products with the ends."""
            right = to_z / s - to_y / r - dual
            db, by = system.solve(diagonal * (box.signs * right / D).sum(axis=0), missing)
            dv = (right - box.signs * (self.H @ db + by)) / D
            dv += box.signs * (db - (box.signs * dv).sum(axis=0)) * diagonal / D  # H @ db is rounded
            dz, dy = (to_z - z * dv) / s, (to_y + y * dv) / r
            rooms = (s, dv, below), (r, -dv, above), (z, dz, below), (y, dy, above)
            return dv, dz, dy, by, min(_room(*one) for one in rooms)

        dv, dz, dy, by, length = along(-s * z, -r * y)
        after = ((s + length * dv) * (z + length * dz))[below].sum()
        after += ((r - length * dv) * (y + length * dy))[above].sum()
        centre = mu * (float(after) / ends / mu) ** 3
        dv, dz, dy, by, length = along(
            np.where(below, centre - s * z - dv * dz, 0.0), np.where(above, centre - r * y + dv * dy, 0.0)
        )
        if not np.isfinite(dv).all() or length < SHORTEST_INTERIOR_STEP:
            return False
        self.v, self.multiplier = self.v + length * dv, self.multiplier + length * by
        self.z, self.y = np.where(below, z + length * dz, 0.0), np.where(above, y + length * dy, 0.0)
        return True


def _room(values: np.ndarray, by: np.ndarray, there: np.ndarray) -> float:
    """How far values > 0 may go along `by`, at most 1."""
    falls = there & (by < 0.0)
    return min(1.0, BACK * float(np.min(-values[falls] / by[falls], initial=math.inf)))


def _summed(b: np.ndarray, own: Form, target: float) -> np.ndarray:
    """b with this sum: those with room take up what is missing."""
    missing = target - math.fsum(b)
    room = np.where((b > own.low) & (b < own.high), own.high - b if missing > 0.0 else b - own.low, 0.0)
    for k in np.argsort(-np.minimum(room, 1e300)).tolist():
        by = math.copysign(min(abs(missing), room[k]), missing)
        b[k] += by
        missing = target - math.fsum(b)
        if abs(missing) <= 1e-15 * max(1.0, float(np.abs(b).max())):
            break
    return np.clip(b, own.low, own.high)


class _Bordered:
    """Solves (A, 1; 1', 0) of a symmetric positive definite A (m, m), or A alone."""

    def __init__(self, A: np.ndarray, free: bool) -> None:
        self.scale = 1.0 / np.sqrt(A.diagonal())
        self.A = A * self.scale[:, None] * self.scale[None, :]
        self.lu, self.pivots, _ = dgetrf(self.A)  # a singular A gives solutions that are not finite
        self.ones = self._of(np.ones(len(A))) if free else None

    def _of(self, right: np.ndarray) -> np.ndarray:
        right = self.scale * right
        found = dgetrs(self.lu, self.pivots, right)[0]
        for _ in range(2):  # what rounding has left
            found += dgetrs(self.lu, self.pivots, right - self.A @ found)[0]
        scaled: np.ndarray = self.scale * found
        return scaled

    def solve(self, right: np.ndarray, total: float) -> tuple[np.ndarray, float]:
        found = self._of(right)
        if self.ones is None:
            return found, 0.0
        by = (float(found.sum()) - total) / float(self.ones.sum())
        return found - by * self.ones, by
