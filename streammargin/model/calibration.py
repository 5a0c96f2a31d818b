"""Probabilities of scores, learned from counts of held-out rows (`streammargin/driver/learn/validate.py`).

Each class has those of its own score against the rest. A model keeps the counts and what was learned as arrays, and
`numpy_model.py` applies them.
"""

from __future__ import annotations

import numpy as np

# arrays of a model file
ARRAYS = SCALE, COUNTS, SIGMOID, CURVE_SCORES, CURVE_PROBABILITIES = (
    "calibration.scale", "calibration.counts", "calibration.sigmoid", "calibration.scores", "calibration.probabilities"
)  # fmt: skip
CALIBRATION_STEPS, HALVINGS, RIDGE = 200, 60, 1e-12  # of Newton's method at most; added to its matrix
ENOUGH_GRADIENT = 1e-13  # the norm of the gradient, for one row, at which it ends


def learned(method: str, scale: np.ndarray, counts: np.ndarray, middles: np.ndarray) -> dict[str, np.ndarray]:
    """The arrays of a model for counts (K, 2, BINS): of other rows, and of those of the class, by the bin of the score.

    middles (K, BINS): the scores in the middle of the bins.
    The method sigmoid learns slopes and constants (K, 2) of log odds.
    The method isotonic learns shares (K, q) at q scores, with straight lines between.
    """
    found, lines = {SCALE: scale, COUNTS: counts}, []
    for x, line in zip(middles, counts, strict=True):
        filled = line.any(axis=0)
        lines.append((x[filled], line[:, filled]))
    if method == "sigmoid":
        return {**found, SIGMOID: np.array([sigmoid(*line) for line in lines])}
    curves = [(x, isotonic(line)) for x, line in lines]
    scores = np.unique(np.concatenate([x[corners(shares)] for x, shares in curves]))
    return {
        **found,
        CURVE_SCORES: scores,
        CURVE_PROBABILITIES: np.array([np.interp(scores, *curve) for curve in curves]),
    }


def sigmoid(x: np.ndarray, counts: np.ndarray) -> tuple[float, float]:
    """The slope and the constant of the log odds of scores x (m,), for counts (2, m) of other rows and of the class.

    Platt 1999 (Advances in Large Margin Classifiers), with his targets beside 0 and 1: finite if scores part the rows.
    The steps are those of Lin, Lin and Weng 2007 (Machine Learning 68): Newton's, halved until the cost falls enough,
    and no logarithm of 0. The scores are divided by their mean size first.
    """
    without, own = counts.sum(axis=1)
    targets = np.array([[1.0 / (without + 2.0)], [(own + 1.0) / (own + 2.0)]])
    rows, hits = counts.sum(axis=0), (counts * targets).sum(axis=0)
    unit = float(rows @ np.abs(x)) / rows.sum() or 1.0
    design = np.stack([x / unit, np.ones(len(x))])

    def cost(at: np.ndarray) -> float:
        odds = at @ design
        return float(rows @ np.logaddexp(0.0, odds) - hits @ odds)

    now = np.array([0.0, np.log((own + 1.0) / (without + 1.0))])
    for _ in range(CALIBRATION_STEPS):
        odds = now @ design
        share = np.exp(-np.logaddexp(0.0, -odds))
        gradient = design @ (rows * share - hits)
        if np.abs(gradient).max() <= ENOUGH_GRADIENT * rows.sum():
            break
        weight = rows * share * np.exp(-np.logaddexp(0.0, odds))
        step = np.linalg.solve((design * weight) @ design.T + RIDGE * np.eye(2), gradient)
        size, before = 1.0, cost(now)
        while cost(now - size * step) > before - 1e-4 * size * float(gradient @ step) and size > 2.0**-HALVINGS:
            size *= 0.5
        if size <= 2.0**-HALVINGS:  # rounding
            now = now - step
            break
        now = now - size * step
    return float(now[0] / unit), float(now[1])


def isotonic(counts: np.ndarray) -> np.ndarray:
    """The shares (m,) of the class that never fall, nearest to those of counts (2, m) in the sum of squares.

    Adjacent violators are pooled: Ayer, Brunk, Ewing, Reid and Silverman 1955 (Annals of Mathematical Statistics 26).
    """
    pools: list[tuple[int, int, int]] = []  # rows of the class, all rows, and bins
    for without, own in counts.T.tolist():
        pool = (own, without + own, 1)
        while pools and pools[-1][0] * pool[1] >= pool[0] * pools[-1][1]:  # whole numbers: exact
            own, rows, bins = pools.pop()
            pool = (own + pool[0], rows + pool[1], bins + pool[2])
        pools.append(pool)
    return np.repeat([own / rows for own, rows, _ in pools], [bins for _, _, bins in pools])


def corners(share: np.ndarray) -> np.ndarray:
    """Which of these shares (m,), which never fall, begin or end a step (bool)."""
    rises = np.diff(share) > 0.0
    return np.append(True, rises) | np.append(rises, True)
