"""How far a calibration is from the best for the counts that its model keeps, by NumPy alone; `verify` asks for it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

EACH, LEAST_BIN_POWER = 64, -16  # bins of each doubling of the distance from the centre (docs/model_file.md)


def off_best(arrays: Mapping[str, np.ndarray]) -> list[float]:
    """For each score of a model with these arrays, by how much the conditions of its optimum fail, for one row.

    sigmoid: the gradient of the cost. isotonic: shares that fall, and rows that would make them nearer to the counts.
    """
    found, counts = [], arrays.get("calibration.counts", np.empty((0, 2, 0)))
    for k, (without, own) in enumerate(counts.astype(np.float64)):
        rows, (centre, unit) = without + own, arrays["calibration.scale"][k]
        place = np.arange(len(rows) // 2)
        size = unit * 2.0 ** (place // EACH + LEAST_BIN_POWER) * (1.0 + (place % EACH + 0.5) / EACH)
        x = centre + np.concatenate([-size[::-1], size])
        x, rows, without, own = (each[rows > 0.0] for each in (x, rows, without, own))
        if "calibration.scores" in arrays:
            share = np.interp(x, arrays["calibration.scores"], arrays["calibration.probabilities"][k])
            rises, more = np.append(np.diff(share), 1.0), np.cumsum(own - rows * share)
            # the rows of the class up to a bin are never fewer than its shares say, and as many where these rise
            wrong = [np.abs(more[rises > 0.0]).max(), -more.min(), -rises.min()]
        else:
            slope, constant = arrays["calibration.sigmoid"][k]
            hits = own * (own.sum() + 1.0) / (own.sum() + 2.0) + without / (without.sum() + 2.0)
            more = rows / (1.0 + np.exp(-slope * x - constant)) - hits
            wrong = [abs(more.sum()), abs(more @ x) / max(np.abs(x).mean(), 1e-300)]
        found.append(float(max(wrong)) / max(1.0, float(rows.sum())))
    return found
