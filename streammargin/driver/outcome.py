"""How a training ended, and its exact figures as an event shows them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from streammargin.points.base import Point
from streammargin.solvers.base import Solver
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.figures import Figures
from streammargin.solvers.roles import is_number
from streammargin.solvers.state import State


@dataclass(frozen=True)
class Limits:
    """When to stop: relative tolerance, passes over the rows, seconds of wall clock (None: no limit).

    sweeps: reads of all rows that may follow the last pass, and must fit into the seconds.
    """

    tol: float
    passes: int
    max_seconds: float | None
    sweeps: int = 1


@dataclass
class Outcome:
    """How a run ended: reason, which of the K problems reached the tolerance, and its last exact figures.

    figures is None when the run was interrupted: `point` is then one that nothing was proven of.
    midway (K,): the bias of eq. (15) of the homotopic paper for it, where it was asked for and no signal came.
    smallest_margin: tol times the mean row norm, of a hard margin.
    zeros (K, d): which weights are proven to be 0 in every solution.
    C, path: of a path over C, the value that did best, and what was proven at each.
    predicted (classes,): which are the answer to any row; None: that was not looked at.
    ranges: what there is to say of columns of very different sizes.
    """

    reason: str
    converged: np.ndarray
    passes: int
    point: Point
    figures: list[Figures] | None
    wrong: np.ndarray | None
    valid_errors: np.ndarray | None
    midway: np.ndarray | None = None
    smallest_margin: float | None = None
    zeros: np.ndarray | None = None
    C: float | None = None
    path: list[dict[str, Any]] | None = None
    predicted: np.ndarray | None = None
    ranges: str | None = None

    def best(self, problem: Problem) -> int:
        """The number of the value of C with the smallest held-out error, the smallest such C."""
        if self.figures is None or self.valid_errors is None or problem.trials == 1:
            return 0
        cost = problem.caps[:: problem.per_trial].max(axis=1)
        return int(np.lexsort((cost, self.valid_errors))[0])

    def chosen(self, problem: Problem) -> slice:
        """Its problems."""
        trial, size = self.best(problem), problem.per_trial
        return slice(trial * size, (trial + 1) * size)

    def best_point(self, problem: Problem) -> Point:
        """What it found for that value, with the bias midway where there is one."""
        chosen = self.chosen(problem)
        point = self.point.chosen(chosen)
        return point if self.midway is None else point.with_constants(self.midway[chosen])

    def mistakes(self, problem: Problem) -> int | None:
        """Its rows that are wrong, None for numbers or where nothing was proven."""
        if self.figures is None:
            return None
        event = certificate_event(problem, self.best(problem), self.figures, self.wrong, None)
        return None if event["mistakes"] is None else int(event["mistakes"])


def certificate_event(
    problem: Problem, trial: int, figures: list[Figures], wrong: np.ndarray | None, valid_error: float | None
) -> dict[str, Any]:
    """The exact figures of one value of C as plain values (the keys of the certificate event)."""
    chosen = range(trial * problem.per_trial, (trial + 1) * problem.per_trial)
    classes = [figures[k] for k in chosen]
    mistakes = classes[0].mistakes if wrong is None or len(classes) == 1 else int(wrong[trial])

    def worst(values: list[float | None]) -> float | None:
        return None if any(v is None for v in values) else max(v for v in values if v is not None)

    numeric = problem.numeric
    smallest = min(classes, key=lambda f: np.inf if f.margin_lower is None else f.margin_lower)
    return {
        "primal": float(sum(f.primal for f in classes)),
        "dual": float(sum(f.dual for f in classes)),
        "gap": worst([f.gap for f in classes]),
        "margin_lower": smallest.margin_lower,
        "margin_upper": smallest.margin_upper,
        "margin_gap": worst([f.margin_gap for f in classes]),
        "residual": worst([f.residual for f in classes]),
        "mistakes": None if numeric else mistakes,
        "train_error": None if numeric else mistakes / max(1, problem.present),
        "valid_error": valid_error,
        "per_class": [
            {
                "primal": f.primal, "dual": f.dual, "gap": f.gap, "margin_lower": f.margin_lower,
                "margin_upper": f.margin_upper, "margin_gap": f.margin_gap, "residual": f.residual,
                "mistakes": None if numeric else f.mistakes,
            }
            for f in classes
        ],
    }  # fmt: skip


def plain_figures(figures: list[Figures]) -> list[dict[str, Any]]:
    """As plain values, that `figures_of` makes them of again."""
    return [asdict(one) for one in figures]


def figures_of(plain: list[dict[str, Any]]) -> list[Figures]:
    """ValueError for what are no numbers."""
    if not all(value is None or is_number(value) for one in plain for value in one.values()):
        raise ValueError("its figures are no numbers")
    return [Figures(**one) for one in plain]


def hopeless(solver: Solver, problem: Problem, state: State, figures: Figures) -> bool:
    """Whether no weights are known that separate the rows, and none has a margin worth going on for."""
    upper, lower = figures.margin_upper, figures.margin_lower
    if upper is None or (lower is not None and lower > 0.0):
        return False
    # until weights were tried only a proof says anything
    tried = lower is not None and lower > -np.inf
    return no_margin(solver, problem, state, figures) or (tried and upper < solver.smallest_margin(problem, state))


def no_margin(solver: Solver, problem: Problem, state: State, figures: Figures) -> bool:
    """Whether the bound on the margin is 0 to rounding: nothing separates the rows."""
    upper = figures.margin_upper
    return upper is not None and upper <= solver.rounding(problem, state)
