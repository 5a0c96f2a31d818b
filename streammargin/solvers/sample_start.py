"""Where second-order steps set out from, rows in memory: the end of the same steps on a sample of the rows."""

from __future__ import annotations

import math

import numpy as np

from streammargin.kernels.newton import middle_centres
from streammargin.solvers import row_store as store
from streammargin.solvers.base import Problem
from streammargin.solvers.descent import smooth, solve
from streammargin.specs.blocks import Block
from streammargin.specs.rows import Labels, numbered_from

PART, LEAST = 16, 16  # rows of a sample: this part of all, and so many times the columns at least
SMALL = 5_000  # values: of so few all rows are taken at once, as passes cost more than what is done in them
SOFTNESS = 2.0  # relative to the caps, at w = 0: all rows have a slope
GAP = 1e-2  # relative, of a sample: it is further from all rows than that


def takes_all(problem: Problem) -> bool:
    """Whether the sample is all rows."""
    return problem.rows * (problem.features + 1) <= SMALL


def samples(problem: Problem) -> bool:
    """Whether a sample says enough of all rows."""
    return _stride(problem) > 1 or takes_all(problem)


def _stride(problem: Problem) -> int:
    """One row of so many is in the sample."""
    return 1 if takes_all(problem) else max(1, min(PART, problem.rows // (LEAST * (problem.features + 1))))


def sample_bytes(problem: Problem) -> int:
    """Bytes that the sample takes while its problem is solved."""
    stride, width = _stride(problem), problem.features + 1
    return math.ceil(problem.size / stride) + 64 * (problem.rows // stride) + 8 * width * (width + 8)


def sample(problem: Problem, block: Block) -> tuple[Block, Labels]:
    """One row out of each stretch of the block, which holds all rows; together they weigh as much as all."""
    stride = _stride(problem)
    stretches = problem.rows // stride
    ids = stride * np.arange(stretches)
    if stride > 1:
        ids += np.random.default_rng(problem.seed).integers(stride, size=stretches)
    weights = problem.weights[ids] if problem.weights.size else np.ones(stretches)
    weights = weights * (problem.present / max(1, int(problem.there(ids).sum())))
    return store.take(block, ids), Labels(problem.codes[ids], problem.positive, problem.caps, weights, np.empty(0))


def set_out(problem: Problem, rows: Block, labels: Labels, k: int, w: np.ndarray, alpha: np.ndarray) -> float:
    """Weights w (d+1,) of problem k from a sample, and centres alpha (n,) of all rows; both are written.

    Returns what the softness is multiplied with. The centres are in the middle of what the duals may be: those of all
    rows are half as far from there as from an end. Of nearly separable rows at a large C the duals stay far below the
    caps, and so should the centres and the steps. Smooth losses have no centres.
    """
    labels = labels._replace(positive=problem.positive[k : k + 1], caps=problem.caps[k : k + 1])
    whole = rows.rows() == problem.rows
    duals = np.zeros(rows.rows())
    part = 0.5 * problem.tol if whole else GAP
    softness = 0.0 if smooth(problem.loss) else SOFTNESS
    solve([(numbered_from(0), rows)], labels, problem.loss, softness, duals, w, np.zeros_like(w), 0.0, part)
    if smooth(problem.loss):
        return 1.0
    caps = np.where(labels.codes >= 0, labels.caps[0, labels.codes] * labels.weights, 0.0)
    reach = float(np.max(duals[caps > 0.0] / caps[caps > 0.0], initial=0.0))
    reach = min(reach, 1.0) if reach > 0.0 else 1.0
    if whole:
        alpha[:] = duals
    else:
        middle_centres(problem.labels, problem.loss, k, reach, alpha)
    return 1.0 / reach
