"""The base class of all solvers' states."""

from __future__ import annotations

from streammargin.rows.labels import Labels, RowLabels
from streammargin.solvers.outputs import Outputs
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.best import Best
from streammargin.solvers.roles import Given, Total, state


@state
class State:
    """A solver's state is a subclass that declares further fields (see `roles.py`).

    labels: of this holder's rows, or of those at hand alone (`Method.all_labels`); best: the best certified figures and
    bounds; number: of the current pass; multiplications: so far (docs/events.md); the driver counts those of visited
    blocks, the solver all others.
    """

    labels: Given[RowLabels]
    best: Best
    number: int = 0
    multiplications: Total = 0.0


def labels_of(problem: Problem, state: State) -> Labels:
    """The labels for kernels."""
    return labels_for(state.labels, problem.outputs)


def labels_for(rows: RowLabels, outputs: Outputs) -> Labels:
    """The labels of these rows for kernels, in these lines."""
    labelled, aimed = (1 if array.ndim == 1 else array.shape[1] for array in (rows.codes, rows.targets))
    return Labels(
        rows.codes.reshape(-1), outputs.positive, outputs.caps, rows.weights, rows.targets.reshape(-1), rows.epsilons,
        rows.first, labelled, aimed, outputs.each,
    )  # fmt: skip


def labels_of_one(problem: Problem, state: State, k: int) -> Labels:
    """The labels for line k only."""
    return labels_for(state.labels, problem.outputs.only(k))
