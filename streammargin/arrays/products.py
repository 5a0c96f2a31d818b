"""Sums over rows in memory for Newton's method without a Hessian (compiled/products.py), by NumPy.

`bends` of rows are (m, 2 lines): straight, and then crossed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streammargin.compiled.by_address import BoundLoss
from streammargin.compiled.newton import FLAT_SLOPE_SHARE, SEARCH_STEPS, narrowed
from streammargin.rows import products as rows
from streammargin.rows.blocks import DenseBlock
from streammargin.rows.labels import Labels


class Judged(NamedTuple):
    """What a loss says of m rows: losses (m,); what their duals pull, and second derivatives, (lines, m) each."""

    losses: np.ndarray
    pulls: np.ndarray
    straight: np.ndarray
    crossed: np.ndarray


def judged(labels: Labels, loss: Any, k: int, scores: np.ndarray) -> Judged:
    """What the loss says of these rows, the first of the labels, at scores (lines, m) of the lines from k on."""
    lines, m = scores.shape
    labels = labels.rows_of(0, m)
    caps = labels.caps_of(k)
    there = caps > 0.0
    caps = np.where(there, caps, 1.0)
    signs = np.array([labels.signs_of(k + g) for g in range(lines)])
    u, none, (a, straight, crossed) = signs * scores, np.zeros_like(scores), np.empty((3, lines, m))
    losses, _share, _slip = loss.coupled_step(u, signs, none, none, caps, 0.0, a)
    loss.coupled_slopes(u, signs, none, caps, 0.0, a, straight, crossed)
    for each in (losses, a, straight, crossed) if not there.all() else ():
        each *= there
    return Judged(losses, signs * a, straight, crossed)


def add_scores(block: DenseBlock, w: np.ndarray, scores: np.ndarray) -> None:
    scores[:] = rows.scores(block, w).T


def add_gradient(
    block: DenseBlock,
    labels: Labels,
    judge: BoundLoss,
    k: int,
    scores: np.ndarray,
    bends: np.ndarray,
    image: np.ndarray,
) -> float:
    found = judged(labels, judge.loss, k, scores.T)
    bends[:] = np.concatenate([found.straight, found.crossed]).T
    rows.add_pulls(block, found.pulls, image)
    return float(found.losses.sum())


def add_curved(block: DenseBlock, bends: np.ndarray, v: np.ndarray, scores: np.ndarray, image: np.ndarray) -> None:
    add_scores(block, v, scores)
    straight, crossed = np.hsplit(bends, 2)
    bent = straight * scores - crossed * np.einsum("ij,ij->i", crossed, scores)[:, None]
    rows.add_pulls(block, bent.T, image)


def _some(block: DenseBlock, bends: np.ndarray, stride: int) -> tuple[DenseBlock, np.ndarray, np.ndarray]:
    """One row of `stride`, with its second derivatives."""
    straight, crossed = np.hsplit(bends[::stride], 2)
    return block._replace(X=block.X[::stride]), straight, crossed


def add_diagonal(block: DenseBlock, bends: np.ndarray, stride: int, diagonal: np.ndarray) -> None:
    some, straight, crossed = _some(block, bends, stride)
    rows.add_squares(some, stride * np.maximum(straight - crossed**2, 0.0).T, diagonal)


def add_factors(
    block: DenseBlock, bends: np.ndarray, stride: int, of_lines: np.ndarray, of_columns: np.ndarray
) -> None:
    some, straight, crossed = _some(block, bends, stride)
    traces = np.maximum((straight - crossed**2).sum(axis=1), 0.0)
    if (total := float(traces.sum())) > 0.0:
        there = traces > 0.0
        products = crossed[there].T @ crossed[there]
        of_lines += np.triu(np.diag(straight[there].sum(axis=0)) - products) / total
    of_columns += np.triu(rows.gram(some, stride * traces))


def lowest_along(
    labels: Labels, judge: BoundLoss, k: int, scores: np.ndarray, along: np.ndarray, slope: float, square: float,
    down: float,
) -> float:  # fmt: skip
    low, high, t, z = 0.0, np.inf, 1.0, along.T
    for _ in range(SEARCH_STEPS):
        found = judged(labels, judge.loss, k, scores.T + t * z)
        first = slope + square * t - float(np.vdot(found.pulls, z))
        if abs(first) <= FLAT_SLOPE_SHARE * abs(down):
            break
        second = float(np.vdot(found.straight, z * z) - np.sum((found.crossed * z).sum(axis=0) ** 2))
        low, high, t = narrowed(low, high, t, first, second + square)
    return t
