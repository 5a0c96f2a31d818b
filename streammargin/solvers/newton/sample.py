"""Where second-order steps set out from, rows in memory: the end of the same steps on a sample of the rows."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from streammargin.compiled.columns import sparse_shares
from streammargin.losses.base import smooth
from streammargin.rows.blocks import Block, CSRBlock
from streammargin.rows.labels import Labels, RowLabels, numbered_from
from streammargin.solvers.cache import rows as store
from streammargin.solvers.newton.subproblem import Proximal, solve
from streammargin.solvers.problem import Problem

PART = 16  # one row of so many is in the sample: its steps cost that part of those of all
LEAST = 16  # rows of a sample, in multiples of the columns: fewer say too little of all
SMALL = 5_000  # values: of so few all rows are taken at once, as passes cost more than what is done in them
SOFTNESS = 2.0  # relative to the caps, at w = 0: all rows have a slope
GAP = 2e-2  # relative, of a sample: it is further from all rows than that
A_ROW = 72  # bytes of a row of the sample beside its values
LARGEST = 2  # what a sample takes at most, relative to as many rows of the mean length: memory was planned for it


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
    drawing = 8 * (4 * problem.rows + width) if problem.sparse else 0
    return int(LARGEST * problem.size / stride) + A_ROW * (problem.rows // stride) + 8 * width * (width + 8) + drawing


class Sample(NamedTuple):
    """Copies of some rows, and what they count for: together they weigh as much as all."""

    rows: Block
    labels: Labels


def draw(problem: Problem, known: RowLabels, block: Block) -> Sample:
    """Some rows of the block, which holds all.

    Of sparse rows those are likelier that have values where few others have: without them weights that few rows decide
    are far off, and take the steps of all rows longest.
    """
    stride, random = _stride(problem), np.random.default_rng(problem.seed)
    stretches = problem.rows // stride
    ids = stride * np.arange(stretches)
    stands = np.ones(stretches)  # for so many rows, but for a common factor
    if stride > 1:
        ids += random.integers(stride, size=stretches)
        if isinstance(block, CSRBlock):
            chances = _chances(problem, known, block, stretches)
            drawn = np.flatnonzero(np.diff(np.floor(np.cumsum(chances) + random.random()), prepend=0.0))
            if np.diff(block.indptr)[drawn].sum() <= LARGEST * block.data.size / stride:
                ids, stands = drawn, 1.0 / chances[drawn]
    stands *= problem.present / max(1.0, float(stands[known.present(ids)].sum()))
    weights = stands * known.weights[ids] if known.weights.size else stands
    labels = Labels(known.codes[ids], problem.positive, problem.caps, weights, np.empty(0))
    return Sample(store.take(block, ids), labels)


def _chances(problem: Problem, known: RowLabels, block: CSRBlock, size: int) -> np.ndarray:
    """How likely each row (n,) is drawn, of about `size`: half of them alike, half by their parts of their columns."""
    there = known.present(slice(None)).astype(float)
    parts = np.empty(problem.rows)
    weights = there * known.weights if known.weights.size else there
    sparse_shares(block.data, block.indices, block.indptr, weights, np.empty(problem.features), parts)
    parts[~np.isfinite(parts)] = 0.0
    return np.minimum(1.0, 0.5 * size * (there / max(1.0, there.sum()) + parts / max(1.0, parts.sum())))


def set_out(problem: Problem, drawn: Sample, proximal: Proximal, k: int, w: np.ndarray) -> bool:
    """A unit on the weights w (d+1,) of problem k from the sample; returns whether it is done."""
    labels = drawn.labels._replace(positive=problem.positive[k : k + 1], caps=problem.caps[k : k + 1])
    rows = drawn.rows.rows()
    if not proximal.is_under_way(rows):
        proximal.centres = np.zeros(rows)
        proximal.harder(0.0 if smooth(problem.loss) else SOFTNESS, -math.inf)
    part = 0.5 * problem.tol if rows == problem.rows else GAP
    return solve([(numbered_from(0), drawn.rows)], labels, problem.loss, proximal, w, np.zeros_like(w), 0.0, part)


def reach(problem: Problem, labels: Labels, k: int, duals: np.ndarray) -> float:
    """The largest of the duals (m,) of a sample, relative to its cap; 1 where none is above 0.

    Of nearly separable rows at a large C the duals stay far below the caps, and so should the centres and the steps.
    """
    caps = np.where(labels.codes >= 0, problem.caps[k, labels.codes] * labels.weights, 0.0)
    found = float(np.max(duals[caps > 0.0] / caps[caps > 0.0], initial=0.0))
    return min(found, 1.0) if found > 0.0 else 1.0
