"""Minimum-norm interpolation."""

from __future__ import annotations

import math
from dataclasses import dataclass

from streammargin.errors import out_of_range
from streammargin.solvers.proof.figures import Figures, relative_gap
from streammargin.solvers.proof.objectives.base import Candidate, Objective, Running, Size, Sums


@dataclass(frozen=True)
class Interpolation(Objective):
    """min 1/2 ||w||_p^2 subject to |x_i.w - y_i| <= epsilon, proven by the largest violation and the dual bound.

    largest: the largest |y_i|, the unit of violations.
    """

    largest: float

    def candidate(self, size: Size, sums: Sums) -> Candidate:
        found = self.weighed(size, 0.0, 0.0, sums.mistakes)
        if not math.isfinite(found.primal):
            raise out_of_range()
        return found._replace(lower=sums.slack)

    def better(self, new: Candidate, old: Candidate, dual: float) -> bool:
        return self._amiss(new, dual) <= self._amiss(old, dual)

    def _amiss(self, weights: Candidate, dual: float) -> float:
        """The relative violation plus the relative distance from the best bound; inf before the first weights."""
        primal = weights.primal
        if not math.isfinite(primal):
            return math.inf
        return max(-weights.lower, 0.0) / max(self.largest, 1e-300) + abs(primal - dual) / max(primal, dual, 1e-300)

    def figures(self, best: Candidate, dual: float, upper: float) -> Figures:
        residual = max(0.0, -best.lower)
        # the gap is defined for a feasible point only; as feasibility is computed with rounding, the dual may exceed
        # the primal slightly, and is clipped
        gap = relative_gap(best.primal, min(dual, best.primal), best.rounding) if residual == 0.0 else None
        return Figures(
            best.primal, dual, gap, margin_lower=None, margin_upper=None, margin_gap=None, mistakes=best.mistakes,
            residual=residual,
        )  # fmt: skip

    def reached(self, figures: Figures, tol: float) -> bool:
        """Whether violations are within tol of the largest target, and the objective within tol of its bound."""
        near = abs(figures.primal - figures.dual) <= tol * max(figures.primal, figures.dual) < math.inf
        return near and figures.residual is not None and figures.residual <= tol * self.largest

    def estimate(self, running: Running) -> float:
        primal = 0.5 * running.size * running.size
        apart = abs(primal - running.dual) / max(primal, abs(running.dual), 1e-300)
        return max(apart, -running.slack / max(self.largest, 1e-300))
