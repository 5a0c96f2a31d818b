"""Newton's step on the proximal form of one binary problem, written out: every sum afresh, every row by itself."""

import numpy as np
from scipy.optimize import minimize_scalar


def attained(problem, i, u, centre, L):
    """(a, value) that maximise dual_i(a) - a u - L (a - centre)^2 / 2 over the feasible a, by a search of the line."""
    cap = problem.caps[i]

    def value(a):
        return problem.loss.dual(a, cap) - a * u - 0.5 * L * (a - centre) ** 2

    top = min(problem.top[i], max(1.0, 4 * cap * (1 + abs(u)) + centre))
    found = minimize_scalar(lambda a: -value(a), bounds=(0.0, top), method="bounded", options={"xatol": 1e-12 * top})
    # the search never tries the ends themselves
    a = max((found.x, 0.0, top if np.isfinite(problem.top[i]) else found.x), key=value)
    return a, value(a)


def merit(problem, w, centres, softness):
    """phi(w) = 1/2 ||w||^2 + sum_i M_i(w), and all a_i."""
    u = problem.A @ w
    pairs = [attained(problem, i, u[i], centres[i], softness / problem.caps[i]) for i in range(len(u))]
    return 0.5 * w @ w + sum(value for _, value in pairs), np.array([a for a, _ in pairs])


def gradient(problem, w, centres, softness):
    """w - A^T a."""
    return w - problem.A.T @ merit(problem, w, centres, softness)[1]


def hessian(problem, w, centres, softness, step=1e-5):
    """I + A^T diag(-da/du) A, by central differences of a_i, the coordinate step of the loss, in its margin."""
    slopes = []
    for margin, cap, centre in zip(problem.A @ w, problem.caps, centres, strict=True):
        high, low = (problem.loss.step(centre, margin + side * step, softness / cap, cap) for side in (1, -1))
        slopes.append((low - high) / (2 * step))
    return np.eye(len(w)) + problem.A.T @ (np.array(slopes)[:, None] * problem.A)
