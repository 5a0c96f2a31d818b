"""The whole-pass methods the slow way: signed rows A (n, d) in one array, every sum over all of them at once."""

import numpy as np
from reference.drive import begin_pass, of_codes, prologue
from scipy.special import logsumexp

from streammargin.losses import terms
from streammargin.solvers.problem import Outputs, Problem


def make_problem(X, codes, *, loss="exponential", classes=2, joint=False, tol=1e-3):
    """The problem that `train` would make of rows X (n, d) with codes (n,), -1 for absent rows."""
    positive = np.array([1]) if classes == 2 else np.arange(classes)
    return Problem(
        rows=X.shape[0], features=X.shape[1], dtype=X.dtype, loss=terms(loss),
        outputs=Outputs(positive, np.full((len(positive), classes), np.inf)), trials=1, tol=tol, seed=0,
        present=int(np.sum(np.asarray(codes) >= 0)), lines=len(positive) if joint else 1,
    )  # fmt: skip


def passes(solver, problem, codes, blocks, count):
    """Runs a solver on (first row, block) pairs: yields (t, state, weights, report) of each pass."""
    state, active = solver.start(problem, of_codes(codes)), np.arange(problem.groups)
    prologue(solver, problem, state, blocks)
    for t in range(1, count + 1):
        begin_pass(solver, problem, state, t)
        w = solver.weights(problem, state)
        for first, block in blocks:
            solver.run_block(problem, state, active, block, first)
        yield t, state, w, solver.end_pass(problem, state, active)


def signed(X, codes, k=1):
    """The rows of the class k as they are, the others turned round."""
    return np.where(codes == k, 1.0, -1.0)[:, None] * X


def pseudo_rows(X, codes, classes):
    """x (e_own - e_k) / sqrt 2 for every row and every other class k, each as a long vector (classes d,)."""
    rows = []
    for x, own in zip(X, codes, strict=True):
        for k in range(classes):
            if k != own:
                row = np.zeros((classes, len(x)))
                row[own], row[k] = x, -x
                rows.append(row.ravel() / np.sqrt(2))
    return np.array(rows)


def log_risk(name, scores):
    """log sum_i phi(-s_i)."""
    if name == "exponential":
        return logsumexp(scores)
    return logsumexp(np.where(scores < -33, scores, np.log(np.logaddexp(0, np.maximum(scores, -33)))))


def shares(name, scores):
    """The gradient of psi(s) = phi^-1(sum_i phi): the softmax, or, logistic, sigmoid(s_i) / (1 - exp(-S))."""
    if name == "exponential":
        return np.exp(scores - logsumexp(scores))
    log_s = log_risk(name, scores)
    log_divisor = np.log(-np.expm1(-np.exp(log_s))) if log_s > -33 else log_s
    return np.exp(-np.logaddexp(0, -scores) - log_divisor)


def spread(A, rounds=8, seed=0, factor=1.0):
    """factor ||A||^2 / n by a power iteration, with a safety of 1.1, no more than 1; rows of norm at most 1."""
    v = np.random.default_rng(seed).standard_normal(A.shape[1] + 1)[:-1]
    for _ in range(rounds):
        v = A.T @ (A @ (v / np.linalg.norm(v)))
    return min(1, 1.1 * factor * np.linalg.norm(v) / len(A))


def softmax_iterates(A, count, *, name="exponential", method="dual-momentum", L=None):
    """w_1, w_2, ... of dual momentum, normalised gradient descent or gradient descent, for rows of norm at most 1."""
    A = A / np.max(np.linalg.norm(A, axis=1))
    n, L = len(A), spread(A) if L is None else L
    w = g = np.zeros(A.shape[1])
    for t in range(count):
        scores = -A @ w
        pull = A.T @ shares(name, scores)
        rho = 1 if name == "exponential" else n
        if method == "dual-momentum":
            g = t / (t + 1) * (g + pull)
            w = w + (g + pull) / rho
        elif method == "normalized-gd":
            w = w + pull / rho
        elif method == "normalized-gd:step=sqrt":
            w = w + pull / rho / np.sqrt(t + 1)
        else:
            slopes = np.exp(scores) if name == "exponential" else 1 / (1 + np.exp(-scores))
            w = w + A.T @ slopes / n / (1 if name == "exponential" else 0.25 * L)
        yield w


def perceptron_iterates(A, count):
    """w_1, w_2, ...: steps 1/sqrt(t) along the first row of the smallest margin, projected onto the unit ball."""
    A = A / np.max(np.linalg.norm(A, axis=1))
    w = np.zeros(A.shape[1])
    for t in range(1, count + 1):
        w = w + A[np.argmin(A @ w)] / np.sqrt(t)
        w = w / max(1, np.linalg.norm(w))
        yield w
