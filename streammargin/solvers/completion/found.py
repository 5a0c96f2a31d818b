"""The state of a completion of a matrix."""

from __future__ import annotations

import numpy as np

from streammargin.compiled.ratings import SUMS
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import Axis, Count, N, Rows, Shared, f8, i8, of, state
from streammargin.solvers.state import State

SIDES = Axis(lambda problem: sum(problem.sides), name="rows + columns")
LEFT = Axis(lambda problem: problem.sides[0], name="rows")
RIGHT = Axis(lambda problem: problem.sides[1], name="columns")
HARD = 1e-300  # a softness with which duals are derivatives of the losses
SHORT = Axis(lambda problem: min(problem.sides), name="the fewer of both")
LONG = Axis(lambda problem: max(problem.sides), name="the more of both")
TILE = 256  # rows of a dense matrix at a time


def terms(problem: Problem) -> int:
    """How many numbers are kept of an entry: one for each term of a loss with kinks, none of a smooth one."""
    return 0 if getattr(problem.loss, "bend", 1.0) > 0.0 else int(problem.loss.terms)


TERMS = Axis(terms, name="terms or 0")


@state
class MatrixState(State):
    """factors: (rows + columns, r), those of the rows of the matrix first; best: those of the best figures.

    centres: of the duals of entries. sums: of the current pass (compiled/ratings.py). task: what it is for. line,
    places, values: the entries of a line of the matrix that the next block may go on with. gap: the relative gap that
    was proven; seen: entries of this pass. softness: of the losses; shown: that of the last
    look; before: that of the last duals, if the centres are to move to them, else -1.
    gram: the lower triangle of T T^T, for the matrix T of C times the duals, with its shorter side first.
    kinks, duals: entries whose duals do not follow from the best factors, once the run has ended; settled:
    whether these are known, lost: whether they took too much memory.
    """

    factors: Shared[f8] = of(SIDES, 0, grows=True)
    best_factors: Shared[f8] = of(SIDES, 0, grows=True)
    centres: Rows[f8] = of(TERMS, N)
    sums: Shared[f8] = of(SUMS)
    places: Shared[i8] = of(0, grows=True)
    values: Shared[f8] = of(0, grows=True)
    gram: Shared[f8] = of(SHORT, SHORT)
    kinks: Shared[i8] = of(0, grows=True)
    duals: Shared[f8] = of(0, grows=True)
    task: str = "look"
    line: float = -1.0
    seen: Count = 0
    gap: float = np.inf
    softness: float = HARD
    shown: float = HARD
    before: float = -1.0
    settled: bool = False
    lost: bool = False


@state
class FactorsState(MatrixState):
    """gradient: at the factors, which are `start` plus `length` times `direction`; slopes, goal: gradient and objective
    at `start`, slope: that along the direction.

    moves, changes: steps and changes of the gradient, one after the other, of which the last `pairs` count. vectors,
    weights: directions in which the factors are to grow, and how much. made: steps since the last look; wanted: the
    fall of the objective that a step is worth, less if strict is below 1; tried: whether `factors` are a try; grown:
    whether they have grown.
    """

    gradient: Shared[f8] = of(SIDES, 0, grows=True)
    start: Shared[f8] = of(SIDES, 0, grows=True)
    slopes: Shared[f8] = of(SIDES, 0, grows=True)
    direction: Shared[f8] = of(SIDES, 0, grows=True)
    moves: Shared[f8] = of(0, grows=True)
    changes: Shared[f8] = of(0, grows=True)
    vectors: Shared[f8] = of(SIDES, 0, grows=True)
    weights: Shared[f8] = of(0, grows=True)
    pairs: int = 0
    made: int = 0
    tried: bool = False
    grown: bool = False
    length: float = 0.0
    slope: float = 0.0
    goal: float = np.inf
    wanted: float = 0.0
    strict: float = 1.0


@state
class SplittingState(MatrixState):
    """matrix, other: M and V of Douglas-Rachford, dense; weight: of its squares.

    made: steps; next_look: the step that a look follows.
    """

    workspace = of(4, SHORT, SHORT), of(2, SHORT, SIDES), of(TILE, LONG)  # of an eigendecomposition, and of a step
    matrix: Shared[f8] = of(LEFT, RIGHT)
    other: Shared[f8] = of(LEFT, RIGHT)
    weight: float = 0.0
    made: int = 0
    next_look: int = 4
