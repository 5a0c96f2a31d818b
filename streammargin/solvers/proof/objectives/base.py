"""The base class of objectives. A new one is one file here, and one line in `Problem.objective`."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from streammargin.penalties.base import Penalty, Pieces
from streammargin.solvers.proof.figures import Figures
from streammargin.solvers.proof.rounding import TERM, mean_rounding, norm_rounding


class Sums(NamedTuple):
    """Sums over the rows of one problem for frozen weights: the columns of compiled/look.py.

    losses: sum of cap_i phi(u_i); duals: of the rows' shares of the dual; alpha: of the duals themselves; slack: the
    smallest of the rows (a margin, or minus a violation); mistakes: rows missed. What rounding is judged by: summed,
    the size of what `duals` is made of; pulled: sum of |alpha_i| ||a_i||_2; surely: `slack` at the worst u_i that
    rounding leaves open; longest: the largest ||a_i||_2; rounding: how far `losses` may grow at the worst u_i; rows:
    their number. mass: of the duals, as a bound on their sum counts each.
    """

    losses: float
    duals: float
    alpha: float
    slack: float
    mistakes: float
    summed: float = 0.0
    pulled: float = 0.0
    surely: float = math.inf
    longest: float = 0.0
    rounding: float = 0.0
    rows: int = 0
    mass: float = 0.0

    def plus(self, other: Sums) -> Sums:
        """The sums of the duals of both, of different rows or lines."""
        names = ("duals", "alpha", "mass", "summed", "pulled")
        return self._replace(**{name: getattr(self, name) + getattr(other, name) for name in names})

    def part(self, factor: float) -> Sums:
        """At least what the sums are of `factor` times the duals, 0 <= factor <= 1."""
        names = ("duals", "alpha", "mass", "summed", "pulled")
        return self._replace(**{name: factor * getattr(self, name) for name in names})

    @property
    def blur(self) -> float:
        """Bound on the rounding error of A^T alpha, in every dual norm ||.||_q, q >= 2."""
        return mean_rounding(self.rows, self.pulled) if self.pulled > 0.0 else 0.0


class Running(NamedTuple):
    """Sums of a pass of a dual method while its weights changed.

    size: ||A^T alpha||_q; dual: dual objective; alpha: sum of the duals; gap: sum of the losses' gaps; slack: smallest
    margin found.
    """

    size: float
    dual: float
    alpha: float
    gap: float
    slack: float


class Size(NamedTuple):
    """How large weights are: R(w), or for a hard margin ||w||; rounding: bound on the relative error of R(w)."""

    value: float
    rounding: float


class Candidate(NamedTuple):
    """Figures of certified weights: objective, margin (lower), and misclassified rows.

    rounding: bound on the rounding error of the objective.
    """

    primal: float
    lower: float
    mistakes: int
    rounding: float = 0.0


@dataclass(frozen=True)
class Objective(ABC):
    """R(w) + sum_i cap_i phi(u_i) over the rows, of one group of lines.

    Weights w and A^T alpha are (d+1,) for a group of one line, and (lines, d+1) for one of several.

    penalty: R; shares_mistakes: several classes share one count of mistakes, so all report the latest weights; free:
    the constant, the last entry of w, is not penalised, so the last entry of A^T alpha must be 0; signed: a regression
    loss, whose duals have both signs.
    """

    penalty: Penalty
    shares_mistakes: bool
    free: bool = field(default=False, kw_only=True)
    signed: bool = field(default=False, kw_only=True)
    infeasible: ClassVar[bool] = False  # there may be no solution; a small upper bound on the margin shows that

    def penalised(self, w: np.ndarray) -> np.ndarray:
        """The penalised entries of w or A^T alpha."""
        return w[..., :-1] if self.free else w

    def regulariser(self, w: np.ndarray) -> float:
        """R(w) for w (d+1,)."""
        return self.penalty.value(self.penalised(w))

    def conjugate(self, theta: np.ndarray) -> float:
        """R*(theta) for theta = A^T alpha (d+1,); inf if it is not feasible."""
        return math.inf if self.unbalanced(theta) else self.penalty.conjugate(self.penalised(theta))

    def unbalanced(self, theta: np.ndarray) -> bool:
        """Whether no dual bound is known of theta = A^T alpha, as the duals pull a free constant."""
        return self.free and bool(theta[..., -1].any())

    def _whole(self, moved: np.ndarray, given: np.ndarray) -> np.ndarray:
        """The penalised entries with the free constants of `given`, if there are any."""
        return np.concatenate([moved, given[..., -1:]], axis=-1) if self.free else moved

    def even(self, steps: np.ndarray) -> np.ndarray:
        """The largest steps (d+1,) <= `steps` that `prox` supports."""
        return self._whole(self.penalty.even(self.penalised(steps)), steps)

    def prox(self, v: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """argmin over w of R(w) + sum_j (w_j - v_j)^2 / (2 steps_j) for v (d+1,), a new array."""
        return self._whole(self.penalty.prox(self.penalised(v), self.penalised(steps)), v)

    def inside(self, w: np.ndarray) -> np.ndarray:
        """The nearest weights for which R is finite, of w (d+1,)."""
        return self._whole(self.penalty.inside(self.penalised(w)), w)

    def pieces(self, shape: tuple[int, ...]) -> tuple[np.ndarray, Pieces] | None:
        """(order, Pieces): R(w) over blocks of the reordered entries of w.ravel(); free constants are the last.

        shape: of w.
        """
        entries = np.arange(math.prod(shape)).reshape(shape)
        inner = self.penalised(entries)
        found = self.penalty.pieces(inner.size if len(shape) == 1 else inner.shape)
        if found is None or not self.free:
            return found
        order, pieces = found
        starts, *each = pieces
        constants = np.atleast_1d(entries[..., -1])
        ends = starts[-1] + np.arange(1, constants.size + 1)
        return np.append(inner.ravel()[order], constants), Pieces(
            np.append(starts, ends), *(np.append(part, np.zeros(constants.size)) for part in each)
        )

    def balanced(self, sides: np.ndarray, sums: Sequence[Sums]) -> tuple[np.ndarray, Sums]:
        """(A^T alpha (d+1,), its sums), scaled to be feasible for a free constant.

        sides (S, d+1), sums: of the duals that pull the constant up and, for S = 2, of those that pull it down. If
        it is not penalised the heavier side is scaled down; `alpha` of the sums is that of |alpha_i|.
        """
        if len(sums) == 1:
            return sides[0], sums[0]
        factors = [1.0, 1.0]
        if self.free:
            least = min(side.alpha for side in sums)
            factors = [least / side.alpha if side.alpha > 0.0 else 0.0 for side in sums]
        theta = factors[0] * sides[0] + factors[1] * sides[1]
        theta[-1] *= not self.free
        up, down = (side.part(factor) for factor, side in zip(factors, sums, strict=True))
        return theta, up.plus(down)

    def size(self, w: np.ndarray) -> Size:
        """How large the weights w (d+1,) are, as `candidate` takes it."""
        return Size(self.regulariser(w), norm_rounding(w.size))

    def weighed(self, size: Size, losses: float, rounding: float, mistakes: float) -> Candidate:
        """The candidate of weights with objective R(w) + losses, if losses has this rounding error."""
        rounding += TERM * losses + size.rounding * size.value
        return Candidate(losses + size.value, -math.inf, int(mistakes), rounding)

    def dual_of(self, theta: np.ndarray, sums: Sums) -> float:
        """The dual objective of theta = A^T alpha, rounded down; scaled if alpha is not feasible.

        -inf if no scaling is feasible (see `balanced`).
        """
        if self.unbalanced(theta):
            return -math.inf
        gain = sums.duals - TERM * sums.summed
        return self.penalty.bound(gain, self.penalised(theta), sums.blur, norm_rounding(theta.size))

    @abstractmethod
    def candidate(self, size: Size, sums: Sums) -> Candidate:
        """The candidate of weights of this size."""

    def bounds(self, theta: np.ndarray, sums: Sums) -> tuple[float, float]:
        """(lower bound on the objective, upper bound on the margin) from theta = A^T alpha (d+1,)."""
        return self.dual_of(theta, sums), math.inf

    def dual(self, upper: float) -> float:
        """The lower bound on the objective that corresponds to an upper bound on the margin; -inf without margins."""
        return -math.inf

    @abstractmethod
    def better(self, new: Candidate, old: Candidate, dual: float) -> bool:
        """Whether to keep the new weights instead of the old; dual: the best lower bound on the objective."""

    @abstractmethod
    def figures(self, best: Candidate, dual: float, upper: float) -> Figures:
        """The figures of the best weights with the best bounds."""

    @abstractmethod
    def reached(self, figures: Figures, tol: float) -> bool:
        """Whether exact figures prove the relative accuracy tol."""

    @abstractmethod
    def estimate(self, running: Running) -> float:
        """The relative (margin) gap estimated from the sums of a pass."""
