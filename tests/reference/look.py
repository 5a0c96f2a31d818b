"""One look at frozen weights, row by row in NumPy."""

from math import fsum

import numpy as np

from streammargin.compiled import look
from streammargin.losses.logistic import Logistic
from streammargin.rows.labels import Labels, numbered_from
from streammargin.sources.arrays import ArraySource


def margins(rows, w, k, signs, targets, multiplier=0.0):
    """u (n,) of problem k, as the losses see them; rows (n, d+1), signs (K, n), targets (n,)."""
    return signs[k] * (rows @ w) - targets + multiplier


def losses(loss, caps, u, off):
    """(sum of the losses, by how much it is larger at the worst margins within `off` of u)."""
    there = np.flatnonzero(caps > 0.0)
    values = [loss.primal(u[i], caps[i]) for i in there]
    worst = [max(loss.primal(u[i] - off[i], caps[i]), loss.primal(u[i] + off[i], caps[i])) for i in there]
    return fsum(values), fsum(worst) - fsum(values)


def steps(loss, caps, u, centres, curvature, softness, twice=False):
    """(alpha, a, slopes, gap, L), (n,) but for the gap: duals, what is pulled, how the losses bend, their gaps."""
    alpha, a, slopes, L = centres.copy(), np.zeros(u.size), np.zeros(u.size), np.zeros(u.size)
    gaps = []
    for i in np.flatnonzero(caps > 0.0):
        L[i] = curvature + softness / caps[i]
        if curvature < np.inf:
            alpha[i] = loss.step(centres[i], u[i], L[i], caps[i])
        a[i] = loss.step(alpha[i], u[i], L[i], caps[i]) if twice else alpha[i]
        slopes[i] = loss.slope(a[i], L[i], caps[i])
        gaps.append(loss.gap(a[i], u[i], caps[i]))
    return alpha, a, slopes, fsum(gaps), L


def softmax_sums(X, codes):
    """What a look at weights of 1, 2, ... and minus these adds up for a softmax of three classes: figures in a row."""
    w = np.arange(3.0 * (X.shape[1] + 1)).reshape(1, 3, -1) / np.array([9.0, -9.0])[:, None, None]
    labels = Labels(codes.astype(np.int16), np.arange(3), np.ones((3, 3)), np.empty(0), np.empty(0))
    found = look.Looked(
        np.zeros((2, 3, look.LOSS_SUMS)), np.zeros((3, 1, look.DUAL_SUMS)), np.zeros((3, 1, X.shape[1] + 1)),
        np.zeros((2, 1), np.int64),
    )  # fmt: skip
    none, alpha = np.zeros((2, 3)), np.zeros((3, len(X)))
    point, rule = look.Frozen(w, none, none), look.Prox(look.EMPTY_LINE, alpha, none[0], none[0])
    look.look(ArraySource(X).whole(), numbered_from(0), labels, Logistic().joint(), np.arange(3), point, rule, found)
    sums = found.losses[..., : look.LOSS_CARRY], found.duals[..., : look.CARRY], found.pull, alpha
    return np.concatenate([part.ravel() for part in sums]).tolist()
