"""In memory, Newton steps start from the solution on a sample of the rows."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from streammargin.losses.base import smooth
from streammargin.rows.blocks import Block
from streammargin.rows.labels import Labels, RowLabels
from streammargin.solvers import leaves
from streammargin.solvers.cache import rows as store
from streammargin.solvers.newton.subproblem import Goal, Proximal, solve
from streammargin.solvers.problem import Problem
from streammargin.solvers.softness import SAMPLE_SOFTNESS
from streammargin.solvers.state import labels_for, line_of

SAMPLE_STRIDE = 16  # one row of 16 is in the sample
LEAST_SAMPLE_ROWS = 16  # in multiples of the columns
WHOLE_SAMPLE_VALUES = 5_000  # with no more the sample is all rows
SAMPLE_GAP = 2e-2  # relative, to which it is solved; it differs more from all rows
SAMPLED_ROW_BYTES = 72  # besides its values
SAMPLE_BYTES_RATIO = 2  # assumed bytes of a sample, relative to as many rows of mean length


def takes_all(problem: Problem) -> bool:
    """Whether the sample is all rows."""
    return problem.rows * (problem.features + 1) <= WHOLE_SAMPLE_VALUES


def samples(problem: Problem) -> bool:
    """Whether a sample is used."""
    return _stride(problem) > 1 or takes_all(problem)


def _stride(problem: Problem) -> int:
    """One row of `stride` is in the sample."""
    return (
        1
        if takes_all(problem)
        else max(1, min(SAMPLE_STRIDE, problem.rows // (LEAST_SAMPLE_ROWS * (problem.features + 1))))
    )


def sample_bytes(problem: Problem) -> int:
    """Bytes of the sample and of its problem."""
    stride, width = _stride(problem), problem.features + 1
    return (
        int(SAMPLE_BYTES_RATIO * problem.size / stride)
        + SAMPLED_ROW_BYTES * (problem.rows // stride)
        + 8 * width * (width + 8)
    )


class Sample(NamedTuple):
    """Copies of some rows, with weights that sum to that of all rows."""

    rows: Block
    labels: Labels


def draw(problem: Problem, known: RowLabels, block: Block) -> Sample:
    """Draw a sample from the block, which has all rows: one of each stretch."""
    stride = _stride(problem)
    stretches = problem.rows // stride
    ids = stride * np.arange(stretches)
    if stride > 1:
        ids += np.random.default_rng(problem.seed).integers(stride, size=stretches)
    # number of rows that one represents
    weights = np.full(stretches, problem.present / max(1, int(np.count_nonzero(known.present(ids)))))
    weights *= known.weights[ids] if known.weights.size else 1.0
    labels = labels_for(RowLabels(known.codes[ids], weights, np.empty(0)), problem.outputs)
    return Sample(store.take(block, ids), labels)


def start_from(problem: Problem, drawn: Sample, proximal: Proximal, k: int, w: np.ndarray) -> bool:
    """One unit of work on the sample's problem for w (d+1,) of problem k; returns whether it is done."""
    labels = line_of(drawn.labels, k)
    rows = drawn.rows.rows()
    if not proximal.is_under_way(rows):
        proximal.centres = np.zeros(rows)
        proximal.harder(0.0 if smooth(problem.loss) else SAMPLE_SOFTNESS, -math.inf)
    goal = Goal(share=0.5 * problem.tol if rows == problem.rows else SAMPLE_GAP)
    return solve(problem, leaves.parts(problem, drawn.rows), labels, proximal, w, np.zeros_like(w), goal)


def largest_share(labels: Labels, k: int, duals: np.ndarray) -> float:
    """The largest dual (m,) of the sample relative to its cap; 1 if all are 0.

    For nearly separable rows at a large C, duals stay far below the caps, so centres and steps should be small too.
    """
    caps = labels.caps_of(k)
    found = float(np.max(duals[caps > 0.0] / caps[caps > 0.0], initial=0.0))
    return min(found, 1.0) if found > 0.0 else 1.0
