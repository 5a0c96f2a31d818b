"""What an objective must answer. A new one is one file here, and a line where a problem chooses its own."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from streammargin.solvers.figures import Figures
from streammargin.solvers.rounding import TERM, mean_rounding, norm_rounding
from streammargin.specs.norms import lp_norm


class Sums(NamedTuple):
    """Sums over the rows of one problem, its weights frozen: the columns of kernels/certificate.py.

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
    """R(w) + sum_i cap_i phi(u_i) over the rows of one binary problem, with R(w) = 1/2 ||w||_p^2.

    p: of the norm; together: several classes share one count of mistakes, so that all report the latest weights.

    Where others have their place:
    another R: `regulariser` and `conjugate`, which answers inf where A^T alpha is not feasible; one that only a part
        of the dual point is feasible for scales that point in `bounds`, with the sums that it needs beside it;
    a constant column that is not penalised: both leave the last entry of w and of A^T alpha out, and `bounds` has
        the constraint that the last entry of A^T alpha be 0;
    several outputs W (d, k) with targets (n, k): K lines of w that are one problem, as the classes of a joint margin
        are: `groups` says which lines are one vector, and what is one number for all of them is made in `lengths`,
        `margins` and `mistakes`;
    regression with a finite C: a soft margin whose loss is a function of the residual (Labels.margin) and whose duals
        are signed: the sums are the same.
    """

    p: float
    together: bool
    signed: ClassVar[bool] = False  # the duals have both signs
    infeasible: ClassVar[bool] = False  # there may be no solution, and a small bound of the margin is what says so
    unit: ClassVar[float] = 1.0  # margins are those of the rows of A times this

    @property
    def q(self) -> float:
        """The dual exponent."""
        return self.p / (self.p - 1.0)

    def regulariser(self, w: np.ndarray) -> float:
        """R(w) of w (d+1,)."""
        size = lp_norm(w, self.p)
        return 0.5 * size * size

    def conjugate(self, theta: np.ndarray) -> float:
        """R*(theta) of theta = A^T alpha (d+1,)."""
        return 0.5 * lp_norm(theta, self.q) ** 2

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
        """The dual objective of theta = A^T alpha, rounded down."""
        length = math.sqrt(2.0 * self.conjugate(theta)) + sums.blur
        return sums.duals - TERM * sums.summed - 0.5 * length * length * (1.0 + norm_rounding(theta.size))

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
    def figures(self, w: np.ndarray, best: Candidate, dual: float, upper: float) -> Figures:
        """What is reported of the best weights w (d+1,) beside the best bounds."""

    @abstractmethod
    def reached(self, figures: Figures, tol: float) -> bool:
        """Whether exact figures prove the relative accuracy tol."""

    @abstractmethod
    def estimate(self, running: Running) -> float:
        """The relative (margin) gap that the sums of a pass speak for, before anything is exact."""
