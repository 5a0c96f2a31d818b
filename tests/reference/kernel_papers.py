"""Methods of the papers on a Gram matrix, by the paper's lines: coefficients c (n,) of w = sum_i c_i phi(x_i)."""

import numpy as np


def lengths(K, c):
    return np.sqrt(c @ K @ c)


def dual_momentum(K, y, count):
    """Algorithm 1 of the dual acceleration paper for rows of length at most 1: (w_t, ||g_t|| / its mass), t = 1, ..."""
    R = np.sqrt(K.diagonal().max())
    w = g = np.zeros(len(y))
    for t in range(count):
        s = -y * (K @ w) / R**2
        q = np.exp(s - s.max())
        pull = y * q / q.sum()
        g = t / (t + 1) * (g + pull)
        w = w + g + pull
        yield w, 2 * lengths(K, g) / t if t else np.inf


def normalized_gd(K, y, count):
    """Steps of 1 / sqrt t along the normalised gradient: (w_t, the length of the gradient before it)."""
    R = np.sqrt(K.diagonal().max())
    w = np.zeros(len(y))
    for t in range(1, count + 1):
        s = -y * (K @ w) / R**2
        q = np.exp(s - s.max())
        pull = y * q / q.sum()
        w = w + pull / np.sqrt(t)
        yield w, lengths(K, pull)


def batch_perceptron(K, y, count):
    """Ascent on the least margin over the unit ball, and the mean of its w: (mean_t, length of the mean row)."""
    R = np.sqrt(K.diagonal().max())
    w, mean, rows = np.zeros(len(y)), np.zeros(len(y)), np.zeros(len(y))
    for t in range(1, count + 1):
        i = np.argmin(y * (K @ w))
        row = np.where(np.arange(len(y)) == i, y, 0.0)
        w, rows = w + row / np.sqrt(t) / R, rows + row
        w = w / max(1.0, lengths(K, w))
        mean = mean + (w - mean) / t
        yield mean, lengths(K, rows) / t


def descend(K, y, count, gamma, inertia=None):
    """Algorithms 1 and 2 of the diagonal descent paper for (4.17), lambda_t = R^2 / 2^t: (y times the next z, bound).

    beta = -u; the signed matrix y y^T K takes the place of X X^T. inertia: alpha of Algorithm 2.
    """
    M, R2 = y[:, None] * K * y, K.diagonal().max()
    beta = before = z = np.zeros(len(y))
    for t in range(1, count + 1):
        before, beta = beta, np.clip(z - gamma * M @ z + gamma, 0.0, 2.0**t / R2)
        share = 0.0 if inertia is None else (t + 1) / (t + 1 + inertia)
        z = beta + share * (beta - before)
        yield y * z, np.sqrt(beta @ M @ beta) / beta.sum()
