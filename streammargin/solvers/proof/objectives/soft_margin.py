"""A finite C: every w has a finite objective, and every feasible alpha gives a lower bound."""

from __future__ import annotations

from dataclasses import dataclass, field

from streammargin.solvers.proof.figures import Figures, relative_gap
from streammargin.solvers.proof.objectives.base import Candidate, Objective, Running, Size, Sums


@dataclass(frozen=True)
class SoftMargin(Objective):
    """1/2 ||w||_p^2 + sum_i cap_i phi(u_i), proven by the duality gap.

    blurred: rounding of the primal may be much of the gap, as of kernel machines; it is taken off the dual.
    """

    blurred: bool = field(default=False, kw_only=True)

    def candidate(self, size: Size, sums: Sums) -> Candidate:
        return self.weighed(size, sums.losses, sums.rounding, sums.mistakes)

    def better(self, new: Candidate, old: Candidate, dual: float) -> bool:
        return self.shares_mistakes or new.primal < old.primal

    def figures(self, best: Candidate, dual: float, upper: float) -> Figures:
        gap = relative_gap(best.primal, dual, best.rounding)
        if self.blurred:
            dual = min(dual - best.rounding, best.primal)
            gap = relative_gap(best.primal, dual)
        return Figures(
            best.primal, dual, gap, margin_lower=None, margin_upper=None,
            margin_gap=None, mistakes=best.mistakes,
        )  # fmt: skip

    def reached(self, figures: Figures, tol: float) -> bool:
        return figures.gap is not None and figures.gap <= tol

    def estimate(self, running: Running) -> float:
        return running.gap / max(abs(running.dual + running.gap), abs(running.dual), 1e-300)
