"""Adaptive sampling the slow way: explicit signed rows, all scores computed anew at every step."""

import numpy as np


def pseudo_rows(X, labels):
    """x_i (e_c - e_c')^T / sqrt 2, flattened, for every row and wrong class c'; labels 0 .. k - 1."""
    k = labels.max() + 1
    rows = []
    for x, c in zip(X, labels, strict=True):
        for other in range(k):
            if other != c:
                U = np.zeros((k, X.shape[1]))
                U[c], U[other] = x, -x
                rows.append(U.ravel() / np.sqrt(2))
    return np.array(rows)


def run(A, uniforms, rate=1.0, momentum=True):
    """(w, g, mass of w, mass of g, rows drawn) of the algorithm on the rows A (n, d)."""
    w, g = np.zeros(A.shape[1]), np.zeros(A.shape[1])
    mass_w = mass_g = 0.0
    drawn = []
    for t, u in enumerate(uniforms):
        scores = A @ w
        chances = np.exp(scores.min() - scores)
        i = int(np.searchsorted(np.cumsum(chances), u * chances.sum(), side="right"))
        beta = t / (t + 1) if momentum else 0.0
        g = beta * (g + A[i])
        w = w + rate * (g + A[i])
        mass_g = beta * (mass_g + 1)
        mass_w += rate * (mass_g + 1)
        drawn.append(i)
    return w, g, mass_w, mass_g, drawn
