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
READ, OWN_STEPS, DONE = range(3)

VECTOR_CHUNK_ROWS = 1 << 16  # rows of a vector of length n at a time, to avoid copies of length n
_NONE = np.empty(0)


def labels_of(problem: Problem, state: State) -> Labels:
    """The labels for kernels."""
    return labels_for(state.labels, problem.outputs)


def labels_for(rows: RowLabels, outputs: Outputs) -> Labels:
    """The labels of these rows for kernels, in these lines."""
    codes, targets = _flat(rows.codes), _flat(rows.targets)
    low, shift, without = outputs.parts
    return Labels(
        codes[0], outputs.positive, outputs.caps, rows.weights, targets[0], rows.epsilons, rows.first, codes[1],
        codes[2], targets[1], targets[2], low, shift, without,
    )  # fmt: skip


def _flat(array: np.ndarray) -> tuple[np.ndarray, int, int]:
    """(entries one after the other, how far to go for the next row, for the next line) of (n,) or (n, K)."""
    return (array, 1, 0) if array.ndim == 1 else (array.reshape(-1), array.shape[1], 1)


def line_of(labels: Labels, k: int) -> Labels:
    """The same for line k only, which becomes line 0."""
    one = slice(k, k + 1)
    return labels._replace(
        codes=labels.codes[k * labels.codes_a_line :], targets=labels.targets[k * labels.targets_a_line :],
        positive=labels.positive[one], caps=labels.caps[one], without=labels.without[one],
    )  # fmt: skip


def rows_of_lines(rows: RowLabels, outputs: Outputs) -> np.ndarray:
    """The number (K,) of rows that each line is trained on."""
    size = outputs.caps.shape[1] if outputs.parts.low < 0 else np.iinfo(np.int16).max
    counts = np.zeros((1 if rows.codes.ndim == 1 else rows.codes.shape[1], size))
    for start in range(0, len(rows.codes), VECTOR_CHUNK_ROWS):
        here = rows.of(slice(start, start + VECTOR_CHUNK_ROWS))
        there = here.present(slice(None))
        for line, count in enumerate(counts):
            count += np.bincount(here.codes_of(line)[there], minlength=size)
    codes = np.flatnonzero(counts.any(axis=0))
    kinds = labels_for(RowLabels(codes.astype(np.int16), _NONE, _NONE), outputs)
    return np.array([counts[min(k, len(counts) - 1), codes] @ (kinds.caps_of(k) > 0.0) for k in range(len(kinds.caps))])
