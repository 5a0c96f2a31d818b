"""The best weights that were certified, and the best bounds: what every method keeps of its certificates."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from streammargin.solvers.base import State
from streammargin.solvers.old_state import Array, Layout
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.figures import Figures
from streammargin.solvers.proof.objectives.base import Candidate


def best_layout(problem: Problem, dtype: type | np.dtype = np.float64) -> Layout:
    """The arrays of the best of K problems; their weights are of this dtype."""
    K = problem.count
    return {
        "best": Array((K, problem.features + 1), dtype),
        "best_primal": Array((K,), fill=math.inf),
        "best_mistakes": Array((K,), np.int64),
        "best_rounding": Array((K,)),
        "best_dual": Array((K,), fill=-math.inf),
        "best_lower": Array((K,), fill=-math.inf),
        "best_upper": Array((K,), fill=math.inf),
    }


def keep_bounds(state: State, dual: np.ndarray, upper: np.ndarray) -> None:
    """Bounds (K,) below the objective and above the margin; the better ones stay."""
    a = state.arrays
    a["best_dual"] = np.maximum(a["best_dual"], dual)
    a["best_upper"] = np.minimum(a["best_upper"], upper)


def keep_weights(problem: Problem, state: State, w: np.ndarray, found: Sequence[Candidate | None]) -> None:
    """Weights (K, d+1), an array that nobody else writes again, and what they are worth; the better ones stay.

    found: None for a problem that was not looked at.

    Figures show rows of `best`, so that it is replaced and not written; of long vectors each copy counts.
    """
    a = state.arrays
    better = [new is not None and problem.objective.better(new, *_best(state, k)) for k, new in enumerate(found)]
    if not any(better):
        return
    for k, new in enumerate(found):
        if new is not None and better[k]:
            a["best_primal"][k], a["best_lower"][k], a["best_mistakes"][k], a["best_rounding"][k] = new
        else:
            w[k] = a["best"][k]
    a["best"] = w


def best_figures(problem: Problem, state: State) -> list[Figures]:
    """Exact figures of the best weights of all K problems."""
    best, upper = state.arrays["best"], state.arrays["best_upper"].tolist()
    return [
        problem.objective.figures(best[k].astype(np.float64, copy=False), *_best(state, k), upper[k])
        for k in range(problem.count)
    ]


def _best(state: State, k: int) -> tuple[Candidate, float]:
    a = state.arrays
    known = Candidate(
        float(a["best_primal"][k]), float(a["best_lower"][k]), int(a["best_mistakes"][k]), float(a["best_rounding"][k])
    )
    return known, float(a["best_dual"][k])
