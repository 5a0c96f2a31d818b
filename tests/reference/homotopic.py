"""The homotopic subgradient method on signed rows A (n, d), line by line."""

import numpy as np


def constants(s0, r=2, p=0.5, penalty=None):
    """epsilon_0, alpha and C of the paper's Algorithm 1; with another lambda_s the C of Lemma 4.3."""
    eps = (np.log(s0) - np.log(s0 - 1)) / np.log(s0)
    alpha = min((r - 2 * p) / (2 * (1 + eps)), 1 - p)
    first = s0**-p if penalty is None else penalty(s0)
    return eps, alpha, max(4, (s0 - 1) ** alpha / (2 * first))


def objective(A, lam, w):
    return lam / 2 * (w @ w) + np.mean(np.maximum(1 - A @ w, 0))


def outer_iterations(A, s0=10, average=True, r=2, p=0.5, penalty=None):
    """Yields (lambda_s, the iterates w_0 .. w_t, their coefficients c with w = A^T c, the start of the next)."""
    n = len(A)
    _, alpha, C = constants(s0, r, p, penalty)
    w, c, s = np.zeros(A.shape[1]), np.zeros(n), 0
    while True:
        lam, t = (s0 + s) ** -p if penalty is None else penalty(s0 + s), int(np.ceil((s0 + s) ** r))
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


def one_row_steps(A, s0, average):
    """A coroutine: for each number of a row it is sent, the iterate and the sum of its coefficients, r = 2, p = 1/2."""
    _, alpha, C = constants(s0)
    w, mass, s, answer = np.zeros(A.shape[1]), 0.0, s0, None
    while True:
        lam, seen, eta = s**-0.5, [], C * (s - 1) ** -alpha / s
        for _ in range(s**2):
            a = A[(yield answer)]
            if seen:  # F_lambda of an iterate is estimated on the row of the step that follows it
                seen[-1] = (objective(a[None], lam, w), *seen[-1][1:])
            inside = a @ w <= 1
            w = (1 - lam * eta) * w + eta * inside * a
            mass = (1 - lam * eta) * mass + eta * inside
            seen.append((np.inf, w, mass))
            answer = w, mass
        if average:
            w, mass = np.mean([each[1] for each in seen], axis=0), np.mean([each[2] for each in seen])
        else:
            w, mass = min(seen, key=lambda each: each[0])[1:]
        answer = w, mass
        s += 1
