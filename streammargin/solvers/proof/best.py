"""The figures of the best weights, or of another point, and the best bounds so far."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.figures import Figures
from streammargin.solvers.proof.objectives.base import Candidate
from streammargin.solvers.roles import GROUPS, Shared, f8, i8, of, state


@state
class Best:
    """For each group the figures of its best weights, which the solver has, and the best bounds."""

    primal: Shared[f8] = of(GROUPS, fill=math.inf)
    mistakes: Shared[i8] = of(GROUPS)
    rounding: Shared[f8] = of(GROUPS)
    dual: Shared[f8] = of(GROUPS, fill=-math.inf)
    lower: Shared[f8] = of(GROUPS, fill=-math.inf)
    upper: Shared[f8] = of(GROUPS, fill=math.inf)

    @property
    def known(self) -> bool:
        """Whether the figures are those of any weights; without a margin these have mistakes."""
        return bool((np.isfinite(self.primal) | np.isfinite(self.lower) | (self.mistakes > 0)).any())


def keep_bounds(best: Best, dual: np.ndarray, upper: np.ndarray) -> None:
    """Keep the better of the old and new bounds (groups,): dual, below the objective, and upper, above the margin."""
    best.dual, best.upper = np.maximum(best.dual, dual), np.minimum(best.upper, upper)


def keep_better(problem: Problem, best: Best, found: Sequence[Candidate | None]) -> np.ndarray:
    """Keep the better of the old and new figures; found: candidates of the groups, None for one not evaluated.

    Returns of which groups the new ones are better, (groups,) bool: the solver keeps what they belong to.
    """
    better = np.zeros(problem.groups, bool)
    for k, new in enumerate(found):
        if new is not None and problem.objective.better(new, *_known(best, k)):
            best.primal[k], best.lower[k], best.mistakes[k], best.rounding[k] = new
            better[k] = True
    return better


def best_figures(problem: Problem, best: Best) -> list[Figures]:
    """Exact figures of the best weights of all groups."""
    upper = best.upper.tolist()
    return [problem.objective.figures(*_known(best, k), upper[k]) for k in range(problem.groups)]


def bounded(problem: Problem, found: Sequence[Candidate], best: Best) -> list[Figures]:
    """Exact figures of these weights of all groups, with the best bounds."""
    bounds = zip(found, best.dual.tolist(), best.upper.tolist(), strict=True)
    return [problem.objective.figures(*each) for each in bounds]


def gaps_of(figures: Sequence[Figures]) -> np.ndarray:
    """The gaps (groups,), of a hard margin those of the margin; inf if there is none yet."""
    gaps = (f.margin_gap if f.gap is None else f.gap for f in figures)
    return np.array([math.inf if gap is None else gap for gap in gaps])


def _known(best: Best, k: int) -> tuple[Candidate, float]:
    known = Candidate(float(best.primal[k]), float(best.lower[k]), int(best.mistakes[k]), float(best.rounding[k]))
    return known, float(best.dual[k])
