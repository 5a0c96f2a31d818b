"""Diagonal descent on signed rows A (n, d), line by line as the paper prints it, with beta = -u."""

import numpy as np


def descend(A, gamma, inverse, passes, alpha=None):
    """Yields beta_1, beta_2, ...; inverse(t) = 1/lambda_t, alpha = None: Algorithm 1, else Algorithm 2."""
    beta = before = np.zeros(len(A))
    for t in range(1, passes + 1):
        z = beta if alpha is None else beta + t / (t + alpha) * (beta - before)
        before, beta = beta, np.clip(z - gamma * (A @ (A.T @ z)) + gamma, 0, inverse(t))
        yield beta


def toy(n, seed=0):
    """Signed rows with the support vectors (1/2, 3/2), (3/2, 1/2), each twice: w* = (1/2, 1/2), margin sqrt 2."""
    rng = np.random.default_rng(seed)
    across = 2.2 + rng.exponential(1.0, n - 4)
    along = rng.uniform(-1, 1, n - 4)
    others = np.column_stack([across + along, across - along]) / 2
    return np.concatenate([[[0.5, 1.5], [1.5, 0.5]] * 2, others])


def unsigned(A):
    """Rows and labels whose signed rows are A: every second label is -1."""
    y = np.where(np.arange(len(A)) % 2, -1, 1)
    return A * y[:, None], y
