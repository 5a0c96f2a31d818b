"""What an objective must answer. A new one is one file here, and a line where a problem chooses its own."""

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
    """Sums over the rows of one problem, its weights frozen: the columns of compiled/certificate.py.

    losses: sum of cap_i phi(u_i); duals: of the rows' shares of the dual; alpha: of the duals themselves; slack: the
    smallest of the rows (a margin, or minus a violation); mistakes: rows missed. What rounding is judged by: summed,
    the size of what `duals` is made of; pulled: sum of |alpha_i| ||a_i||_2; surely: `slack` at the worst u_i that
    rounding leaves open; longest: the largest ||a_i||_2; rounding: how far `losses` may grow at the worst u_i; rows:
    their number.
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

    def part(self, factor: float) -> Sums:
        """At least what the sums are of `factor` times the duals, 0 <= factor <= 1."""
        duals, alpha, summed, pulled = (factor * x for x in (self.duals, self.alpha, self.summed, self.pulled))
        return self._replace(duals=duals, alpha=alpha, summed=summed, pulled=pulled)

    @property
    def blur(self) -> float:
        """How far rounding may have moved A^T alpha, in every norm ||.||_q, q >= 2."""
        return mean_rounding(self.rows, self.pulled) if self.pulled > 0.0 else 0.0


class Running(NamedTuple):
    """What a pass of a dual method summed up while its weights moved.

    size: ||A^T alpha||_q; dual: the dual objective; alpha: the sum of the duals; gap: of the losses' gaps; slack: the
    smallest that was met.
    """

    size: float
    dual: float
    alpha: float
    gap: float
    slack: float


class Candidate(NamedTuple):
    """What is known of weights that were certified: their objective, the better the larger `lower`, rows missed.

    rounding: how far the objective may lie above what was summed.
    """

    primal: float
    lower: float
    mistakes: int
    rounding: float = 0.0


@dataclass(frozen=True)
class Objective(ABC):
    """R(w) + sum_i cap_i phi(u_i) over the rows of one binary problem.

    penalty: R; together: several classes share one count of mistakes, so that all report the latest weights; free: the
    constant column, the last entry of w, is not penalised, so that the last entry of A^T alpha must be 0; signed: the
    losses are of residuals, and the duals have both signs.

    Several outputs W (d, k) with targets (n, k) have their place here: K lines of w that are one problem, as the
    classes of a joint margin are: `groups` says which lines are one vector, and what is one number for all of them is
    made in `lengths`, `margins` and `mistakes`.
    """

    penalty: Penalty
    together: bool
    free: bool = field(default=False, kw_only=True)
    signed: bool = field(default=False, kw_only=True)
    infeasible: ClassVar[bool] = False  # there may be no solution, and a small bound of the margin is what says so
    unit: ClassVar[float] = 1.0  # margins are those of the rows of A times this

    def penalised(self, w: np.ndarray) -> np.ndarray:
        """The entries of w or A^T alpha (d+1,) that R is of."""
        return w[:-1] if self.free else w

    def regulariser(self, w: np.ndarray) -> float:
        """R(w) of w (d+1,)."""
        return self.penalty.value(self.penalised(w))

    def conjugate(self, theta: np.ndarray) -> float:
        """R*(theta) of theta = A^T alpha (d+1,), inf where that is not feasible."""
        return math.inf if self.free and theta[-1] != 0.0 else self.penalty.conjugate(self.penalised(theta))

    def even(self, steps: np.ndarray) -> np.ndarray:
        """The largest steps (d+1,) that `prox` can take of all no larger than these."""
        found = self.penalty.even(self.penalised(steps))
        return np.append(found, steps[-1]) if self.free else found

    def prox(self, v: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """argmin over w of R(w) + sum_j (w_j - v_j)^2 / (2 steps_j) for v (d+1,), a new array."""
        moved = self.penalty.prox(self.penalised(v), self.penalised(steps))
        return np.append(moved, v[-1]) if self.free else moved

    def inside(self, w: np.ndarray) -> np.ndarray:
        """The nearest weights for which R is finite, of w (d+1,)."""
        moved = self.penalty.inside(self.penalised(w))
        return np.append(moved, w[-1]) if self.free else moved

    def pieces(self, width: int) -> tuple[np.ndarray, Pieces] | None:
        """R of w (width,) block by block, once it is in this order; a constant that is free is the last block."""
        found = self.penalty.pieces(width - self.free)
        if found is None or not self.free:
            return found
        order, pieces = found
        starts, *each = pieces
        return np.append(order, width - 1), Pieces(np.append(starts, width), *(np.append(part, 0.0) for part in each))

    def balanced(self, sides: np.ndarray, sums: Sequence[Sums]) -> tuple[np.ndarray, Sums]:
        """(A^T alpha (d+1,), its sums) of the largest part of alpha that fits a constant that is not penalised.

        sides (S, d+1), sums: of the duals that pull the constant up and, for S = 2, of those that pull it down. The
        heavier side is scaled down; `alpha` of the sums is that of |alpha_i|.
        """
        if len(sums) == 1:
            return sides[0], sums[0]
        least = min(side.alpha for side in sums)
        factors = [least / side.alpha if side.alpha > 0.0 else 0.0 for side in sums]
        theta = factors[0] * sides[0] + factors[1] * sides[1]
        theta[-1] = 0.0
        up, down = (side.part(factor) for factor, side in zip(factors, sums, strict=True))
        total = up._replace(
            duals=up.duals + down.duals, alpha=up.alpha + down.alpha, summed=up.summed + down.summed,
            pulled=up.pulled + down.pulled,
        )  # fmt: skip
        return theta, total

    def groups(self, active: np.ndarray) -> list[tuple[int, slice]]:
        """Lines of w (K, d+1) that are one vector: the number of each such group, and its lines; of problems active."""
        return [(k, slice(k, k + 1)) for k in active.tolist()]

    def terms(self, rows: float) -> float:
        """Rows of A, from those of the data."""
        return rows

    @property
    def spread(self) -> float:
        """||A||^2 at most, relative to that of the rows of the data."""
        return 1.0

    def lengths(self, sizes: np.ndarray) -> np.ndarray:
        """What the margins of the K problems are divided by, from the lengths (K,) of their weights."""
        return sizes

    def margins(self, smallest: np.ndarray) -> np.ndarray:
        """The smallest margins of the K problems, from those that each saw (K,)."""
        return smallest

    def mistakes(self, seen: np.ndarray) -> np.ndarray:
        """Rows missed by the K problems, from those that each saw (K,)."""
        return seen

    def margins_of_rows(self, scores: np.ndarray, own: np.ndarray) -> np.ndarray:
        """Margins (groups, m) of rows of A, the smallest of each row of the data; scores (m, K).

        own (m, K) bool: whether the row is of the class that problem k has on its positive side.
        """
        return np.where(own, scores, -scores).T

    def weighed(self, w: np.ndarray, losses: float, rounding: float, mistakes: float) -> Candidate:
        """Weights of the objective R(w) + losses, the sum of terms >= 0 that rounding may have moved so far."""
        penalty = self.regulariser(w)
        rounding += TERM * losses + norm_rounding(w.size) * penalty
        return Candidate(losses + penalty, -math.inf, int(mistakes), rounding)

    def dual_of(self, theta: np.ndarray, sums: Sums) -> float:
        """The dual objective of theta = A^T alpha, rounded down; of a part of alpha, where all is not feasible.

        -inf where no part of it is (see `balanced`).
        """
        if self.free and theta[-1] != 0.0:
            return -math.inf
        gain = sums.duals - TERM * sums.summed
        return self.penalty.bound(gain, self.penalised(theta), sums.blur, norm_rounding(theta.size))

    @abstractmethod
    def candidate(self, w: np.ndarray, sums: Sums) -> Candidate:
        """What the weights w (d+1,) are worth."""

    @abstractmethod
    def bounds(self, theta: np.ndarray, sums: Sums) -> tuple[float, float]:
        """A lower bound of the objective and an upper bound of the margin, from theta = A^T alpha (d+1,)."""

    def dual(self, upper: float) -> float:
        """The bound below the objective that one above the margin stands for; none where there is no margin."""
        return -math.inf

    @abstractmethod
    def better(self, new: Candidate, old: Candidate, dual: float) -> bool:
        """Whether the new weights are to be kept in place of the old; dual: the best bound below the objective."""

    @abstractmethod
    def figures(self, best: Candidate, dual: float, upper: float) -> Figures:
        """What is reported of the best weights beside the best bounds."""

    @abstractmethod
    def reached(self, figures: Figures, tol: float) -> bool:
        """Whether exact figures prove the relative accuracy tol."""

    @abstractmethod
    def estimate(self, running: Running) -> float:
        """The relative (margin) gap that the sums of a pass speak for, before anything is exact."""
