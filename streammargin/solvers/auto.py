"""The choice of `auto`: which solvers for which problem."""

from __future__ import annotations

import math
from dataclasses import replace

from streammargin.losses.base import smooth
from streammargin.solvers.coordinate.plain import Plain
from streammargin.solvers.newton import conjugate, sampled
from streammargin.solvers.newton.near_margin import enough_rows_fit
from streammargin.solvers.problem import Problem

MOST_COLUMNS = 4000  # of a Hessian: factoring a larger one takes seconds
WORTH = 20_000  # assumed cost of coordinate ascent, in multiplications per stored value
ASSUMED_NEWTON_STEPS = 20
SUMMED = 100_000  # most multiplications per stored value for the Hessians of all classes
KEPT_ROWS_SHARE = 0.06  # that coordinate ascent must have room for; with 3% it takes more reads than `newton`
STEEP = 100.0  # largest C ||x||^2 with which it takes few reads then


def candidates(problem: Problem) -> list[str]:
    """Words of the solvers that `auto` tries, the best one first.

    The next one is used if an option or the loss is not supported, or the memory budget is too small. If C or the
    loss were left out, the problem has the usual defaults; the chosen solver may have others. problem.resident: its
    rows are arrays in memory.
    """
    if problem.kernel is not None:
        return ["dual-momentum"] if problem.joint and problem.hard else ["smo"]
    if problem.sides != (0, 0):
        return ["completion"]
    if problem.outputs.tasks:
        return ["newton"]
    if problem.holders > 1:
        return ["dual-momentum"] if problem.hard else ["newton", "ascent", "pdprox"]
    if problem.joint and problem.hard and not (problem.path or problem.top < math.inf):
        return ["dual-momentum", "adaptive"]
    steps = ["newton"] if _few_columns(problem) else []
    if problem.joint and not problem.hard:
        by_products = sampled.all_fit(problem) and conjugate.suits(replace(problem, resident=True))
        steps = ["newton"] if by_products or sampled.suits(problem) else steps
        by_rows = problem.ridge and not problem.free
        if by_rows and sampled.crowded(problem):
            return ["ascent", *steps]
        return [*steps, "ascent" if by_rows else "pdprox"]
    if problem.path or problem.top < math.inf:  # the others take neither
        return [*steps, "pdprox"]
    if _tall_numbers(problem):
        return [*steps, "pdprox", "sdca"]
    if problem.free or not problem.lp:
        return [*steps, "pdprox"] if problem.free or problem.penalty.norm is None else [*steps, "sdca", "pdprox"]
    if problem.hard and problem.p == 2.0 and not problem.numeric:
        return ["active-set", "asdca"]
    if problem.hard and problem.p < 2.0:
        return ["asdca"]
    if not (problem.hard or problem.numeric) and problem.p == 2.0 and _few_columns(problem):
        return ["ascent", "newton", "sdca"] if _moving_rows_fit(problem) else ["newton", "ascent", "sdca"]
    return ["sdca"] if problem.hard else ["ascent", "sdca"]


def reason(problem: Problem, name: str) -> str:
    """One line: why `auto` took this solver, a word with all fields."""
    rows = problem.rows_of(problem.trials - 1)  # without those that a share holds out
    size = f"{rows} rows of {problem.features} columns, {problem.entries / problem.rows:.3g} values a row"
    if problem.holders > 1:
        return f"{name} for {size}, which are in several places: its reads add up"
    if name == "pdprox" and _tall_numbers(problem):
        return f"{name} for {size}: regression with more rows than columns: steps on all duals at once take fewer reads"
    if name == "pdprox" and problem.top < math.inf:
        return f"{name} for {size}: which losses are the largest depends on all rows: steps on all duals at once"
    if name == "pdprox" and problem.path:
        return f"{name} for {size}: steps on all duals at once, each value of C from the one before"
    if problem.sides != (0, 0):
        return f"{name} for {problem.rows} entries of {problem.sides[0]} rows and {problem.sides[1]} columns"
    if name.startswith("ascent") and _few_columns(problem) and _moving_rows_fit(problem):
        return f"{name} for {size}: rows whose duals move fit into memory, and those near the margin do not"
    if name.startswith("ascent") and sampled.crowded(problem):
        return f"{name} for {size}: the duals of all rows fit into memory, and few rows with their scores"
    why = {
        "smo": "an expansion over rows, by steps on two coefficients at a time",
        "active-set": "a hard margin at p = 2: few rows decide it",
        "ascent:momentum=yes,order=permutation": "a hard margin: momentum takes fewer passes",
        "dual-momentum": "one margin of all classes",
        "pdprox": "this penalty needs steps on all duals at once",
        "newton": f"a finite C{' and few columns' * _few_columns(problem)}: second-order steps take few reads at any C",
    }
    return f"{name} for {size}: {why.get(name, 'one row at a time, as its steps cost least')}"


def _tall_numbers(problem: Problem) -> bool:
    """Whether this is a regression with more rows than columns, on which coordinate ascent is slow.

    With more columns than rows, as in text, `pdprox` would take ten times as many passes as ascent.
    """
    return problem.numeric and not problem.hard and problem.p == 2.0 and problem.rows > problem.features


def _few_columns(problem: Problem) -> bool:
    """Whether Newton steps with a d x d Hessian cost no more than the passes of coordinate ascent.

    Each class has its own Hessian, summed over all rows, while one read serves all classes. Nothing has been read yet:
    the passes are a guess by counts. Once it has made some, `newton` predicts them from the gap (`newton_is_cheaper`).
    """
    width = problem.lines * (problem.features + 1)
    values = max(problem.entries, problem.rows)
    sums = ASSUMED_NEWTON_STEPS * values * width / 4 * problem.per_trial
    return width <= MOST_COLUMNS and ASSUMED_NEWTON_STEPS * width**3 / 3 <= WORTH * values and sums <= SUMMED * values


def _moving_rows_fit(problem: Problem) -> bool:
    """Whether enough rows fit for coordinate ascent to take few reads, and too few of them for `newton`."""
    if smooth(problem.loss) or problem.outputs.caps.max() * problem.largest_square > STEEP or enough_rows_fit(problem):
        return False
    return Plain(precise=False).kept_bytes(replace(problem, resident=False)) >= KEPT_ROWS_SHARE * problem.size
