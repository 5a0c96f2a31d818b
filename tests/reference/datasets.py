"""Small data sets."""

import numpy as np
import scipy.sparse as sp

# of the 60 rows of `noisy`
SAMPLE_WEIGHT = {"sample_weight": np.random.default_rng(7).choice([0.0, 0.5, 1.0, 2.0, 5.0], 60)}
CLASS_WEIGHT = {"class_weight": {1: 3.0, -1: 0.5}}
WEIGHTINGS = {"unweighted": {}, "weighted": SAMPLE_WEIGHT | CLASS_WEIGHT}


def noisy(rows=60, features=12, seed=0, flips=0.1):
    """Sparse-looking rows (n, d) in a dense array, labels -1 and 1, some of them wrong: no separator."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, features)) * (rng.random((rows, features)) < 0.5)
    X[rows // 3] = 0  # an empty row
    y = np.where(X @ rng.standard_normal(features) > 0, 1, -1)
    return X, np.where(rng.random(rows) < flips, -y, y)


def separable(rows=60, features=12, seed=1, margin=0.3):
    """Rows that a hyperplane through 0 separates."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, features))
    X[rng.random(X.shape) < 0.3] = 0
    direction = rng.standard_normal(features)
    direction /= np.linalg.norm(direction)
    y = np.where(X @ direction > 0, 1, -1)
    return X + margin * y[:, None] * direction, y


def as_form(X, form, dtype=np.float64):
    """The rows as "dense" or "csr"."""
    return sp.csr_matrix(X.astype(dtype)) if form == "csr" else np.ascontiguousarray(X, dtype)
