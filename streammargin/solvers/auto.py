"""Which solvers for which problem."""

from __future__ import annotations

from streammargin.penalties.lp import LpSquare
from streammargin.solvers.problem import Problem

MOST_COLUMNS = 4000  # of a matrix of second derivatives: a factor of more takes seconds
WORTH = 20_000  # multiplications for each value stored that coordinate ascent is given
STEPS = 20  # matrices that second-order steps factor, about: they are taken where that costs less
SUMMED = 100_000  # multiplications for each value stored that the sums of the matrices of all classes may take


def candidates(problem: Problem) -> list[str]:
    """Words of the solvers that `auto` stands for, the best one first; the next is for what that one cannot do.

    That is an option or a loss that it does not serve, or a memory budget too small for it. The problem is as it was
    asked for: where C or the loss were left out, it has those of most solvers, and the one taken may have others.
    """
    if problem.joint:
        return ["dual-momentum"]
    steps = ["newton"] if _few_columns(problem) else []
    if _tall_numbers(problem):
        return [*steps, "pdprox", "sdca"]
    if problem.penalty is not None and (problem.free or not isinstance(problem.penalty, LpSquare)):
        return [*steps, "pdprox"] if problem.free or problem.penalty.norm is None else [*steps, "sdca", "pdprox"]
    if problem.hard and problem.p == 2.0 and not problem.numeric:
        return ["active-set", "asdca"]
    if problem.hard and problem.p < 2.0:
        return ["asdca"]
    if not (problem.hard or problem.numeric) and problem.p == 2.0 and _few_columns(problem):
        return ["newton", "ascent", "sdca"]
    return ["sdca"] if problem.hard else ["ascent", "sdca"]


def reason(problem: Problem, name: str) -> str:
    """One line: why `auto` took this solver, a word with all fields."""
    size = f"{problem.rows} rows of {problem.features} columns, {problem.entries / problem.rows:.3g} values a row"
    if name == "pdprox" and _tall_numbers(problem):
        return f"{name} for {size}: numbers, and more rows than columns: steps on all duals at once take fewer reads"
    why = {
        "active-set": "a hard margin at p = 2: few rows carry it",
        "ascent:momentum=yes": "a hard margin: momentum takes fewer passes",
        "dual-momentum": "one margin of all classes",
        "pdprox": "no row moves the weights by itself under this penalty: steps on all duals at once",
        "newton": "a finite C and few columns: second-order steps take few reads at any C",
    }
    return f"{name} for {size}: {why.get(name, 'one row at a time, as its steps cost least')}"


def _tall_numbers(problem: Problem) -> bool:
    """Whether coordinate ascent is slow, because the duals of numbers pull against each other all the way.

    So they do where rows are more than columns; of text, whose columns are more, `pdprox` takes ten times the passes.
    """
    return problem.numeric and not problem.hard and problem.p == 2.0 and problem.rows > problem.features


def _few_columns(problem: Problem) -> bool:
    """Whether a d x d matrix costs no more than the passes that coordinate ascent would take without it.

    Each class has one of its own, which is summed over all rows, while a read serves all classes.
    """
    width = problem.features + 1
    values = max(problem.entries, problem.rows)
    sums = STEPS * values * width / 4 * problem.per_trial
    return width <= MOST_COLUMNS and STEPS * width**3 / 3 <= WORTH * values and sums <= SUMMED * values
