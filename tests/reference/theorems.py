"""What tests of theorems share: small separable rows, their exact answers, and kernels with rows drawn uniformly."""

from functools import cache

import numpy as np
from reference.datasets import separable
from reference.optimum import solve
from reference.training import binary

from streammargin.compiled import sdca
from streammargin.losses import terms
from streammargin.penalties.mirror_maps import make_norm
from streammargin.rows.blocks import DenseBlock
from streammargin.rows.labels import Labels, numbered_from
from streammargin.rows.visits import all_at_once

SEEDS = range(30)
HINGE = terms("hinge")
EXACT = 1e-7  # of the optimum's objective: what the interior-point method may be away from it


@cache
def rows(seed, count=16, features=4, margin=0.3):
    """Signed rows A (count, features) that a hyperplane through 0 separates."""
    X, y = separable(count, features, seed=seed, margin=margin)
    return y[:, None] * X


@cache
def problem(seed, C=np.inf, norm=2, loss="hinge", width=1.0):
    """The problem of these rows, and its optimum."""
    A = rows(seed)
    found = binary(A, np.ones(len(A)), C=C, norm=norm, loss=loss, width=width)
    return found, solve(found, loss, width)


def drawn(seed, count, steps):
    """Numbers of rows, uniform and with replacement."""
    return np.random.default_rng(1000 + seed).integers(0, count, steps)


def _visits(A, draws, loss, C, p):
    """What both kernels take first, for each part of the draws."""
    ones, none = np.ones(len(A), np.int16), np.empty(0)
    labels = Labels(ones, np.array([1]), np.full((1, 2), C), none, none)
    block = DenseBlock(np.ascontiguousarray(A), 0.0)
    for part in draws:
        yield all_at_once(block, numbered_from(0), part, 1), labels, loss, make_norm(p), np.array([0])


def plain(A, draws, C, p=2.0, loss=HINGE):
    """Yields the duals (n,) of coordinate ascent after each part of the draws."""
    n, width = A.shape[0], A.shape[1] + 1
    alpha, theta, power_sum = np.zeros((1, n)), np.zeros((1, width)), np.zeros(1)
    sleep, curvature, figures = np.zeros((1, n), np.uint8), np.zeros(n), np.zeros((1, sdca.ASCENT_FIGURES))
    powers = theta if p == 2.0 else np.zeros((1, width))
    for told in _visits(A, draws, loss, C, p):
        sleep[:] = 0  # every row that is drawn takes its step
        sdca.sdca_turns(*told, alpha, sleep, 0, curvature, theta, powers, power_sum, None, np.zeros(1), 1.0, figures)
        yield alpha[0].copy()


def accelerated(A, draws, C, p=2.0, loss=HINGE):
    """Yields the averaged duals v (n,) of ascent with momentum, never restarted, after each part of the draws."""
    n, width = A.shape[0], A.shape[1] + 1
    alpha, momentum, theta, drift = np.zeros((1, n)), np.zeros((1, n)), np.zeros((1, width)), np.zeros((1, width))
    sleep, curvature = np.zeros((1, n), np.uint8), np.zeros(n)
    pace, figures = np.zeros((1, sdca.PACE)), np.zeros((1, sdca.ASCENT_FIGURES))
    pace[0, sdca.GAMMA] = 1 / n
    for told in _visits(A, draws, loss, C, p):
        sleep[:] = 0
        ahead = sdca.Ahead(momentum, drift, np.array([float(n)]), pace, 0.0)
        sdca.sdca_turns(*told, alpha, sleep, 0, curvature, theta, theta, np.zeros(1), ahead, np.zeros(1), 1.0, figures)
        yield np.maximum(alpha[0] + pace[0, sdca.LAST] ** 2 * momentum[0], 0.0)
