"""The base class of all solvers' states."""

from __future__ import annotations

import numpy as np

from streammargin.rows.labels import Labels, RowLabels
from streammargin.solvers.problem import Outputs, Problem
from streammargin.solvers.proof.best import Best
from streammargin.solvers.roles import Given, Total, state


@state
class Visited:
    """A subclass has the sums of a read of rows; labels: of this holder's rows, or of those at hand alone.

    origin: the number of the holder's first row among all rows.
    """

    labels: Given[RowLabels]
    origin: Given[int] = 0


@state
class State(Visited):
    """A solver's state is a subclass that declares further fields (see `roles.py`).

    labels: those at hand if `Method.all_labels` says so; best: the best certified figures and bounds; number: of the
    current pass; multiplications: so far (docs/events.md); the driver counts those of visited blocks, the solver all
    others.
    """

    best: Best
    number: int = 0
    multiplications: Total = 0.0


# what comes next for a problem: rows, steps of its own between two reads, or nothing before the next read
READ, STEPS, DONE = range(3)


def labels_of(problem: Problem, state: State) -> Labels:
    """The labels for kernels."""
    return labels_for(state.labels, problem.outputs)


def labels_for(rows: RowLabels, outputs: Outputs) -> Labels:
    """The labels of these rows for kernels, in these lines."""
    (codes, *of_codes), (targets, *of_targets) = map(_flat, (rows.codes, rows.targets))
    return Labels(
        codes, outputs.positive, outputs.caps, rows.weights, targets, rows.epsilons, rows.first, *of_codes, *of_targets
    )


def _flat(array: np.ndarray) -> tuple[np.ndarray, int, int]:
    """(entries one after the other, how far to go for the next row, for the next line) of (n,) or (n, K)."""
    return (array, 1, 0) if array.ndim == 1 else (array.reshape(-1), array.shape[1], 1)


def line_of(labels: Labels, k: int) -> Labels:
    """The same for line k only, which becomes line 0."""
    one = slice(k, k + 1)
    return labels._replace(
        codes=labels.codes[k * labels.codes_a_line :], targets=labels.targets[k * labels.targets_a_line :],
        positive=labels.positive[one], caps=labels.caps[one],
    )  # fmt: skip
