"""Solvers that find a linear point, weights w (K, d+1): the certified weights are kept beside the current ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from streammargin.losses.base import has
from streammargin.points.base import Point
from streammargin.points.linear import LinearPoint
from streammargin.solvers.base import Solver
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.best import keep_better
from streammargin.solvers.proof.kept import BestKept
from streammargin.solvers.proof.objectives.base import Candidate
from streammargin.solvers.roles import Float, Shared, state
from streammargin.solvers.state import State


@state
class LinearState(State):
    """best_w: the weights that the figures of `best` belong to."""

    best_w: Shared[Float]


def keep_weights(problem: Problem, state: LinearState, w: np.ndarray, found: Sequence[Candidate | None]) -> None:
    """Keep the better of the old and new weights (K, d+1); found: candidates of the groups, None: not evaluated.

    The array w must not be modified later. `best_w` is replaced, never written to, as points refer to its rows; this
    saves copies of long vectors.
    """
    better = keep_better(problem, state.best, found)
    if better.any():
        worse = ~problem.by_line(better)
        w[worse] = state.best_w[worse]
        state.best_w = w


def centred(problem: Problem, w: np.ndarray) -> np.ndarray:
    """The weights (K, d+1) with a mean of 0 of free constants that only their differences matter of; else w itself.

    Under a loss of the differences of the scores, rounding or a start would decide what they have in common.
    """
    if not (problem.free and problem.joint and has(problem.loss, "of_share")):
        return w
    w = w.copy()
    constants = w[:, -1].reshape(problem.groups, problem.lines)
    constants -= constants.mean(axis=1, keepdims=True)
    w[:, -1] = constants.ravel()
    return w


def first_weights(problem: Problem, point: Point) -> np.ndarray:
    """The weights (K, d+1) to begin at, of which R is finite, from this point: for each value of C."""
    assert isinstance(point, LinearPoint)
    w = np.tile(point.w, (problem.trials, 1))
    for k in range(problem.groups):
        lines = problem.of_group(w, k)
        lines[...] = problem.objective.inside(lines)
    return w


S = TypeVar("S", bound=LinearState)


class LinearSolver(Solver[S]):
    """A solver whose point is linear."""

    def certified(self, state: S) -> np.ndarray:
        """The weights (K, d+1) float64 that the last exact figures belong to."""
        return state.best_w.astype(np.float64, copy=False)

    def keep_pass(self, problem: Problem, state: S, kept: BestKept, trials: list[int]) -> None:
        w = self.weights(problem, state).reshape(problem.trials, problem.per_trial, -1)
        kept.w.reshape(w.shape)[trials] = w[trials]

    def point(
        self, problem: Problem, state: S, column: float, proven: bool, kept: BestKept | None = None
    ) -> LinearPoint:
        found = self.certified(state) if proven else self.weights(problem, state)
        w = found if kept is None else kept.w
        return LinearPoint(centred(problem, w), column, self.zeros(problem, state))

    def zeros(self, problem: Problem, state: S) -> np.ndarray | None:
        """Which weights (K, d) are proven to be 0 in every solution; default: none."""
        return None

    def weights(self, problem: Problem, state: S) -> np.ndarray:
        """The current weights (K, d+1) float64; the last column belongs to the constant column. Default: `w`."""
        w: np.ndarray = getattr(state, "w")  # noqa: B009  # of states that have it
        return w.copy()
