"""The homotopic subgradient method on signed rows A (n, d), line by line."""

import numpy as np


def constants(s0, r=2, p=0.5):
    """epsilon_0, alpha and C of the paper's Algorithm 1."""
    eps = (np.log(s0) - np.log(s0 - 1)) / np.log(s0)
    alpha = min((r - 2 * p) / (2 * (1 + eps)), 1 - p)
    return eps, alpha, max(4, 0.5 * s0**p * (s0 - 1) ** alpha)


def objective(A, lam, w):
    return lam / 2 * (w @ w) + np.mean(np.maximum(1 - A @ w, 0))


def outer_iterations(A, s0=10, average=True):
    """Yields (lambda_s, the iterates w_0 .. w_t, their coefficients c with w = A^T c, the start of the next)."""
    n = len(A)
    _, alpha, C = constants(s0)
    w, c, s = np.zeros(A.shape[1]), np.zeros(n), 0
    while True:
        lam, t = (s0 + s) ** -0.5, (s0 + s) ** 2
        eta = C * (s0 + s - 1) ** -alpha / np.sqrt(t)
        ws, cs = [w], [c]
        for _ in range(t):
            inside = A @ ws[-1] <= 1
            cs.append((1 - lam * eta) * cs[-1] + eta / n * inside)
            ws.append((1 - lam * eta) * ws[-1] + eta / n * (inside @ A))
        if average:
            w, c = np.mean(ws[1:], axis=0), np.mean(cs[1:], axis=0)
        else:
            best = 1 + np.argmin([objective(A, lam, w) for w in ws[1:]])
            w, c = ws[best], cs[best]
        yield lam, ws, cs, w
        s += 1
