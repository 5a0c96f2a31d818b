"""Process a block in chunks of rows that fit into the cache: first all scores, then margins, then sums of rows.

In this order the scores of different rows are independent, so the processor overlaps them. Adding each row before the
next score takes a sixth longer for sparse rows.
"""

from __future__ import annotations

import math

import numpy as np
from numba.extending import register_jitable

from streammargin.compiled import overloads  # noqa: F401
from streammargin.rows.blocks import Block
from streammargin.rows.labels import Labels, RowNumbers

# first columns of the figures of a pass, one row per problem: min a_i.w (from inf), misclassified rows
SMALLEST, MISTAKES = 0, 1
ROOT = math.sqrt(0.5)


@register_jitable
def chunk_scores(
    block: Block, numbers: RowNumbers, labels: Labels, start: int, size: int, w: np.ndarray, scores: np.ndarray
) -> None:
    """Fill scores (K, >= size) with x_i.w_k for the rows from `start` that have a class."""
    for k in range(w.shape[0]):
        w_k = w[k]
        for r in range(size):
            if labels.code(numbers.row(start + r)) >= 0:
                if k == 0:
                    block.prefetch_row(start + r + 2)
                scores[k, r] = block.dot(start + r, w_k)


@register_jitable
def chunk_margins(
    numbers: RowNumbers, labels: Labels, start: int, size: int, joint: bool, scores: np.ndarray, margins: np.ndarray,
    figures: np.ndarray,
) -> None:  # fmt: skip
    """Fill margins (K, >= size) from scores, inf for absent rows; update SMALLEST and MISTAKES of the figures.

    joint: the margins of the pseudo-rows x (e_own - e_k)/sqrt2; inf for k = own.
    """
    for k in range(margins.shape[0]):
        smallest = np.inf
        mistakes = 0
        for r in range(size):
            row = numbers.row(start + r)
            u = np.inf
            if labels.cap(k, row) > 0.0:
                if not joint:
                    u = labels.margin(k, row, scores[k, r])
                elif labels.code(row) != k:
                    u = (scores[labels.code(row), r] - scores[k, r]) * ROOT
            margins[k, r] = u
            smallest = min(smallest, u)
            mistakes += labels.wrong(k, row, u)
        figures[k, SMALLEST] = min(figures[k, SMALLEST], smallest)
        figures[k, MISTAKES] += mistakes


@register_jitable
def chunk_wrong(
    numbers: RowNumbers, labels: Labels, start: int, size: int, scale: np.ndarray, scores: np.ndarray
) -> int:
    """The number of rows whose largest scale_k x.w_k is not that of their own class."""
    wrong = 0
    for r in range(size):
        row = numbers.row(start + r)
        if labels.weight(row) > 0.0:
            best = 0
            for k in range(1, labels.positive.size):
                if scores[k, r] * scale[k] > scores[best, r] * scale[best]:
                    best = k
            wrong += not labels.own(best, row)
    return wrong


@register_jitable
def chunk_look(
    block: Block, numbers: RowNumbers, labels: Labels, start: int, size: int, joint: bool, w: np.ndarray,
    scale: np.ndarray, scores: np.ndarray, margins: np.ndarray, figures: np.ndarray, wrong: np.ndarray,
) -> None:  # fmt: skip
    """Scores, margins and figures of `size` rows from `start`; for several problems count the rows that are wrong.

    wrong (1,), added to, or (0,).
    """
    chunk_scores(block, numbers, labels, start, size, w, scores)
    chunk_margins(numbers, labels, start, size, joint, scores, margins, figures)
    if w.shape[0] > 1 and wrong.size > 0:
        wrong[0] += chunk_wrong(numbers, labels, start, size, scale, scores)


@register_jitable
def chunk_add(
    block: Block, start: int, size: int, active: np.ndarray, coefficients: np.ndarray, pull: np.ndarray
) -> None:
    """pull_k += sum_r coefficients[k, r] x_r over the rows from `start`, for the problems k in `active`."""
    for k in active:
        pull_k = pull[k]
        for r in range(size):
            if coefficients[k, r] != 0.0:
                block.add(start + r, coefficients[k, r], pull_k)
