"""What every solver carries from block to block."""

from __future__ import annotations

import numpy as np

from streammargin.rows.labels import Labels, RowLabels
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.best import Best
from streammargin.solvers.roles import Given, Total, state


@state
class State:
    """A solver's own state derives from it, with the fields that it declares (see `roles.py`).

    labels: of the rows that this holder has. best: the weights and bounds of the certificates so far. number: of the
    pass at work. multiplications: of all that was done so far (docs/events.md); the driver adds those of the rows that
    it hands over, a solver those of what it does beside.
    """

    labels: Given[RowLabels]
    best: Best
    number: int = 0
    multiplications: Total = 0.0


def labels_of(problem: Problem, state: State) -> Labels:
    """What each of the rows counts for, as kernels take it."""
    rows = state.labels
    return Labels(rows.codes, problem.positive, problem.caps, rows.weights, rows.targets)


def labels_of_one(problem: Problem, state: State, k: int) -> Labels:
    """The same of problem k alone."""
    labels = labels_of(problem, state)
    return labels._replace(positive=problem.positive[k : k + 1], caps=problem.caps[k : k + 1])


def present_rows(state: State, piece: int = 1 << 16) -> int:
    """How many of the rows are present, counted without a copy of their length."""
    rows = len(state.labels.codes)
    return sum(
        int(np.count_nonzero(state.labels.present(slice(start, start + piece)))) for start in range(0, rows, piece)
    )
