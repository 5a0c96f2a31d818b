"""Margins of the rows of a block at weights that stay as they are, and what they add up to.

Rows are taken some at a time, so that arrays with a number for each row and line stay small.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from streammargin.compiled.newton import add_image
from streammargin.compiled.predict import decide_block
from streammargin.rows.blocks import Block, part
from streammargin.rows.labels import Labels, RowLabels, numbered_from
from streammargin.solvers.problem import Outputs, Problem
from streammargin.solvers.state import labels_for

# first columns of the figures of a pass, a row for each line: min a_i.w (from inf), misclassified rows
SMALLEST_MARGIN, MISTAKEN_ROWS = range(2)
ROOT = math.sqrt(0.5)
MARGIN_ROWS = 1 << 12  # at a time


class SeenRows(NamedTuple):
    """Rows of a block, of which the first has this number; their labels, as those of rows 0, 1, ..."""

    first: int
    rows: Block
    labels: Labels

    def scores(self, w: np.ndarray) -> np.ndarray:
        """x_i.w_k (K, m) for w (K, d+1)."""
        found = np.empty((self.rows.rows(), len(w)))
        decide_block(self.rows, w, 0, found)
        return found.T

    def add(self, k: int, alpha: np.ndarray, pull: np.ndarray) -> None:
        """pull (d+1,) += sum_i alpha_i a_i in line k; alpha (m,)."""
        add_image(self.rows, numbered_from(0), self.labels, k, alpha, pull)


def pieces(labels: RowLabels, outputs: Outputs, block: Block, first: int) -> Iterator[SeenRows]:
    """The rows of a block, some at a time."""
    for low in range(0, block.rows(), MARGIN_ROWS):
        high = min(low + MARGIN_ROWS, block.rows())
        own = labels_for(labels.cut(first + low, first + high), outputs)
        yield SeenRows(first + low, part(block, low, high), own)


def margins_of(labels: Labels, scores: np.ndarray) -> np.ndarray:
    """a_i.w_k (K, m) of rows with these scores (K, m); inf for rows that are absent in line k."""
    return np.array(
        [np.where(labels.caps_of(k) > 0.0, labels.signs_of(k) * own, math.inf) for k, own in enumerate(scores)]
    )


def margins_of_pairs(labels: Labels, scores: np.ndarray) -> np.ndarray:
    """The margins (K, m) of the pseudo-rows x (e_own - e_k) / sqrt 2; inf for k = own, and absent rows."""
    own = np.where(labels.own_of_lines().T, scores, 0.0).sum(axis=0)
    found = [(own - other) * ROOT for other in scores]
    there = [(labels.caps_of(k) > 0.0) & ~labels.own_of(k) for k in range(len(scores))]
    return np.where(there, found, math.inf)


def mistakes_of(labels: Labels, margins: np.ndarray) -> np.ndarray:
    """How many rows (K,) with these margins (K, m) are misclassified; a score of 0 predicts the sign -1."""
    zeros = [np.count_nonzero((u == 0.0) & labels.own_of(k)) for k, u in enumerate(margins)]
    return np.count_nonzero(margins < 0.0, axis=1) + zeros


def note(figures: np.ndarray, labels: Labels, margins: np.ndarray) -> None:
    """Update SMALLEST_MARGIN and MISTAKEN_ROWS of the figures of a pass."""
    np.minimum(figures[:, SMALLEST_MARGIN], margins.min(axis=1, initial=math.inf), out=figures[:, SMALLEST_MARGIN])
    figures[:, MISTAKEN_ROWS] += mistakes_of(labels, margins)


def sum_margins(
    problem: Problem, labels: Labels, scores: np.ndarray, smallest: np.ndarray, mistakes: np.ndarray, wrong: np.ndarray
) -> np.ndarray:
    """Add rows with these scores (K, m) to the figures of K problems with a hard margin; returns their margins (K, m).

    smallest (K,) min_i a_i.w, from inf; mistakes (K,) misclassified rows; wrong (1,) rows whose largest score is not
    that of their class. If the problems are the classes of one margin, a row has only the margin of its class: its
    score minus the largest other one.
    """
    margins = margins_of(labels, scores)
    if problem.joint:
        for k, u in enumerate(margins):
            others = np.delete(scores, k, axis=0).max(axis=0)
            u[:] = np.where(labels.own_of(k) & (u < math.inf), scores[k] - others, math.inf)
    np.minimum(smallest, margins.min(axis=1, initial=math.inf), out=smallest)
    mistakes += mistakes_of(labels, margins)
    if len(scores) > 1:
        wrong[0] += labels.confused_of(0, scores)
    return margins
