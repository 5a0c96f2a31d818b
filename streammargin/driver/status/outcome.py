"""How a training ended, and its exact figures as the certificate event shows them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from streammargin.points.base import Point
from streammargin.solvers.base import Solver
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.figures import Figures
from streammargin.solvers.roles import is_number
from streammargin.solvers.state import State

HIDDEN = 1e-12  # a margin below this times the mean row norm is rounding, about
LIMITS = ("passes", "seconds")  # reasons that end a value of C before its tolerance is proven


class MeasuredColumns(NamedTuple):
    """Means and standard deviations (d,) of the columns, 0 for a constant one, over so many rows."""

    means: np.ndarray
    deviations: np.ndarray
    rows: int


@dataclass
class Outcome:
    """How a run ended: reason, which of the groups reached the tolerance, and its last exact figures.

    `figures`          None when the run was interrupted: nothing is then proven about `point`. Mistakes, here and in
                       `wrong`, are those of the weights with `midway`, if there is one. All else is without it.
    `midway`           (K,): the bias of eq. (15) of the homotopic paper, if it was asked for and no signal came.
    `smallest_margin`  for a hard margin, tol times the mean row norm.
    `hidden`           for the reason small_margin, whether rounding hides a smaller one.
    `zeros`            (K, d): the weights that are proven to be 0 in every solution.
    `C`, `path`        for a path over C, the best value, and what was proven at each.
    `unproven`         the values of C, if several, whose tolerance was not proven. Later values of a path are not among
                       them.
    `limit`            the limit at which another value than the kept one ended, "" if none did.
    `measured`         means and standard deviations of the columns, if the first pass has measured them.
    `counted`          scale and counts of held-out rows by their scores (`Counted`), if probabilities are learned of
                       them.
    `predicted`        (classes,): rows for which each class is predicted, for each row of it, at least. None: unknown.
    `ranges`           the warning about columns of very different ranges, if any.
    `kept`             (trials,): with early stopping, the pass whose weights `point` has, for each value of C.
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
    kept: np.ndarray | None = None
    hidden: bool = False
    unproven: list[float] = field(default_factory=list)
    limit: str = ""
    measured: MeasuredColumns | None = None
    counted: tuple[np.ndarray, np.ndarray] | None = None

    def of_kept(self) -> Outcome:
        """The outcome with the reason of what is kept, which is proven: a limit met at another value is its `limit`."""
        return replace(self, reason="tolerance", limit=self.reason) if self.reason in LIMITS else self

    def best(self, problem: Problem) -> int:
        """Index of the value of C with the smallest held-out error; of equal errors, the smallest C."""
        cost = problem.outputs.caps[:: problem.per_trial].max(axis=1)
        if problem.tried is not None:
            return problem.tried.chosen(
                self.valid_errors, problem.outputs.costs[:: problem.per_trial][: problem.tried.values]
            )
        if self.valid_errors is None or problem.trials == 1:
            return 0
        return int(np.lexsort((cost, self.valid_errors))[0])

    def chosen(self, problem: Problem) -> slice:
        """The lines of the best C."""
        trial, size = self.best(problem), problem.per_trial
        return slice(trial * size, (trial + 1) * size)

    def best_point(self, problem: Problem) -> Point:
        """The weights at the best C, with the midway bias if there is one."""
        return self.point_of(problem, self.best(problem))

    def point_of(self, problem: Problem, trial: int) -> Point:
        """The weights of a trial, with the midway bias if there is one."""
        chosen = slice(trial * problem.per_trial, (trial + 1) * problem.per_trial)
        point = self.point.chosen(chosen)
        return point if self.midway is None else point.with_constants(self.midway[chosen])

    def most_mistakes(self, problem: Problem) -> int | None:
        """At most so many training rows are misclassified at the best C; None for a regression or without figures.

        One against the rest, such a row is on the wrong side of a line at least.
        """
        if self.figures is None or problem.numeric:
            return None
        return sum(one.mistakes for one in self.figures[problem.groups_of(self.best(problem))])


def certificate_event(
    problem: Problem, trial: int, figures: list[Figures], wrong: np.ndarray | None, valid_error: float | None
) -> dict[str, Any]:
    """The exact figures at one value of C as plain values (keys of the certificate event)."""
    chosen = range(problem.groups)[problem.groups_of(trial)]
    classes = [figures[k] for k in chosen]
    several = problem.outputs.several  # labels of a row, each of which may be wrong
    mistakes = sum(f.mistakes for f in classes)
    if problem.compared and wrong is not None and len(classes) > 1:  # else they are those of the best weights
        mistakes = int(wrong[trial])
    labels = problem.rows_of(trial) * (problem.per_trial if several else 1)

    def worst(values: list[float | None]) -> float | None:
        return None if any(v is None for v in values) else max(v for v in values if v is not None)

    numeric, mean_gaps = problem.numeric, [problem.mean_gap(k, figures[k]) for k in chosen]
    smallest = min(classes, key=lambda f: np.inf if f.margin_lower is None else f.margin_lower)
    return {
        "primal": float(sum(f.primal for f in classes)),
        "dual": float(sum(f.dual for f in classes)),
        "gap": worst([f.gap for f in classes]),
        "mean_gap": worst(mean_gaps),
        "margin_lower": smallest.margin_lower,
        "margin_upper": smallest.margin_upper,
        "margin_gap": worst([f.margin_gap for f in classes]),
        "residual": worst([f.residual for f in classes]),
        "mistakes": None if numeric else mistakes,
        "train_error": None if numeric else mistakes / max(1, labels),
        "valid_error": valid_error,
        "per_class": [
            {"primal": f.primal, "dual": f.dual, "gap": f.gap, "mean_gap": mean_gap, "margin_lower": f.margin_lower,
             "margin_upper": f.margin_upper, "margin_gap": f.margin_gap, "residual": f.residual,
             "mistakes": None if numeric else f.mistakes}
            for f, mean_gap in zip(classes, mean_gaps, strict=True)
        ],
    }  # fmt: skip


def figures_of(plain: list[dict[str, Any]]) -> list[Figures]:
    """The figures of dicts, as `asdict` makes them. ValueError for values that are not numbers."""
    if not all(value is None or is_number(value) for one in plain for value in one.values()):
        raise ValueError("its figures are not numbers")
    return [Figures(**one) for one in plain]


def hopeless(solver: Solver, problem: Problem, state: State, figures: Figures) -> bool:
    """Whether no separator is known and the upper bound says that none has a margin worth searching for."""
    upper, lower = figures.margin_upper, figures.margin_lower
    if upper is None or (lower is not None and lower > 0.0):
        return False
    # before the first exact margin only a bound counts that no more steps make smaller
    tried = lower is not None and lower > -np.inf
    sizes = solver.margin_sizes(problem, state)
    return upper < math.inf and (upper <= sizes.rounding or (tried and upper < sizes.least))


def no_margin(figures: Figures) -> bool:
    """Whether nothing separates the rows: a bound on the margin is 0 if that is proven, else rounding is in it."""
    return figures.margin_upper == 0.0


def is_hidden(solver: Solver, problem: Problem, state: State, figures: Figures) -> bool:
    """Whether no smaller tolerance would find a margin below the upper bound, because of rounding."""
    if problem.kernel is not None:
        return True
    sizes = solver.margin_sizes(problem, state)
    return figures.margin_upper is not None and figures.margin_upper <= max(sizes.rounding, HIDDEN * sizes.mean)
