"""The hard margin, C = inf: maximise the smallest margin divided by the norm of w."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from streammargin.errors import DataError
from streammargin.penalties.lp import LpSquare
from streammargin.penalties.mirror_maps import lp_norm
from streammargin.solvers.proof.figures import Figures, relative_margin_gap
from streammargin.solvers.proof.objectives.base import Candidate, Objective, Running, Size, Sums
from streammargin.solvers.proof.rounding import norm_rounding

TINY = sys.float_info.min  # 0 would be a proof


@dataclass(frozen=True)
class HardMargin(Objective):
    """max over w of min_i a_i.w / ||w||_p, proven by the margin gap.

    If the maximum is m, the minimum of 1/2 ||w||_p^2 subject to a_i.w >= 1 is 1 / (2 m^2). The dual norm of every point
    of the rows' convex hull, ||A^T alpha||_q / sum alpha, is an upper bound on m.
    """

    penalty: LpSquare
    infeasible: ClassVar[bool] = True

    def terms(self, rows: float) -> float:
        """The number of rows of A, from that of the data."""
        return rows

    @property
    def spread(self) -> float:
        """Upper bound on ||A||^2, relative to that of the data matrix."""
        return 1.0

    def reported(self, margins: np.ndarray) -> np.ndarray:
        """Margins, or lengths of rows, as they are reported, from those of A's rows."""
        return margins

    def margins_of_rows(self, scores: np.ndarray, own: np.ndarray) -> np.ndarray:
        """Margins (groups, m), for each row of the data the smallest over its rows of A; scores (m, K).

        own (m, K) bool: whether y = +1 for the row in line k.
        """
        return np.where(own, scores, -scores).T

    def size(self, w: np.ndarray) -> Size:
        return Size(lp_norm(w, self.penalty.p), norm_rounding(w.size))

    def candidate(self, size: Size, sums: Sums) -> Candidate:
        slack = min(sums.slack, sums.surely)
        slack -= size.rounding * abs(slack)
        return Candidate(math.inf, slack / size.value if size.value > 0.0 else -math.inf, int(sums.mistakes))

    def bounds(self, theta: np.ndarray, sums: Sums) -> tuple[float, float]:
        length = self.penalty.gauge(theta) * (1.0 + norm_rounding(theta.size)) + sums.blur
        return self.dual_of(theta, sums), max(length / sums.alpha, TINY) if sums.alpha > 0.0 else math.inf

    def dual(self, upper: float) -> float:
        # two divisions, as upper**2 may under- or overflow
        return 0.5 / upper / upper if upper > 0.0 else math.inf

    def better(self, new: Candidate, old: Candidate, dual: float) -> bool:
        return self.shares_mistakes or new.lower > old.lower or not math.isfinite(old.lower)

    def figures(self, best: Candidate, dual: float, upper: float) -> Figures:
        lower = best.lower
        return Figures(
            0.5 / lower / lower if lower > 0.0 else math.inf, dual, None, lower, upper,
            relative_margin_gap(lower, upper), best.mistakes,
        )  # fmt: skip

    def reached(self, figures: Figures, tol: float) -> bool:
        return figures.margin_gap is not None and figures.margin_gap <= tol

    def estimate(self, running: Running) -> float:
        size, total = running.size, running.alpha
        if not math.isfinite(total + size):
            raise DataError(
                "the dual variables of the hard margin overflow: the rows are too small, and perhaps not separable; "
                "multiply the data by a constant, or use `scale=maxabs` or a finite `C`"
            )
        lower = running.slack / size if size > 0.0 else -math.inf
        return 1.0 - lower * total / size if size > 0.0 else math.inf


@dataclass(frozen=True)
class JointMargin(HardMargin):
    """The joint margin of all classes, min over i and k of x_i.(w_own - w_k) / ||W||: the lines of W are one vector.

    A has the pseudo-rows x_i (e_own - e_k) / sqrt 2, k != own.
    """

    classes: int

    def terms(self, rows: float) -> float:
        return rows * (self.classes - 1)

    @property
    def spread(self) -> float:
        return self.classes / 2.0  # the largest eigenvalue of sum_k (e_own - e_k) (e_own - e_k)^T / 2

    def reported(self, margins: np.ndarray) -> np.ndarray:
        return margins * math.sqrt(2.0)

    def margins_of_rows(self, scores: np.ndarray, own: np.ndarray) -> np.ndarray:
        rest = np.where(own, -math.inf, scores).max(axis=1)
        return math.sqrt(0.5) * (np.where(own, scores, -math.inf).max(axis=1) - rest)[None]
