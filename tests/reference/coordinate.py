"""Coordinate ascent the slow way: rows drawn with replacement, and with momentum, as the papers have it."""

import numpy as np
from reference.joint_losses import TWINS, Row
from reference.norms import curvature, mirror

from streammargin.compiled.order import permutation, uniforms


def drawn_rows(L, present, bounds, seed, number, importance):
    """The rows that a pass over blocks with these bounds draws, one after the other; L, present (n,)."""
    rows = []
    for block in permutation(len(bounds) - 1, seed, number):
        there = [i for i in range(bounds[block], bounds[block + 1]) if present[i]]
        numbers = uniforms(len(there), seed, number, bounds[block])
        if not importance:
            rows += [there[int(len(there) * x)] for x in numbers]
            continue
        total = sum(L[i] for i in there)
        rows += [i for i in there if L[i] == 0.0]
        for x in numbers if total > 0.0 else ():
            place, sum_so_far = 0, L[there[0]]
            while sum_so_far <= x * total:
                place += 1
                sum_so_far += L[there[place]]
            rows.append(there[place])
    return rows


class ThreeSequences:
    """APCG as Algorithm 2 has it: alpha, v and z of length n; a step sums A^T z afresh."""

    def __init__(self, A, q, step, n):
        self.A, self.q, self.step, self.n = A, q, step, n
        self.alpha, self.v, self.z = (np.zeros(len(A)) for _ in range(3))
        self.gamma = 1 / n

    def visit(self, i):
        u = self.A[i] @ mirror(self.A.T @ self.z, self.q)
        before = self.alpha.copy()
        L = self.n * self.gamma * curvature(self.A[i], self.q)
        self.alpha[i] = self.step(i, before[i], u, L)
        self.move(before)
        return u

    def rest(self):
        """A step that moves no dual."""
        self.move(self.alpha)

    def move(self, before):
        self.v = self.z + self.n * self.gamma * (self.alpha - before)
        self.gamma = (np.sqrt(self.gamma**4 + 4 * self.gamma**2) - self.gamma**2) / 2
        self.z = (1 - self.gamma) * self.v + self.gamma * self.alpha


def loss_step(problem):
    """The step of the loss, or the clipped one of the hard margin."""

    def step(i, alpha, u, L):
        cap = problem.caps[i]
        if np.isinf(cap):
            return max(0.0, alpha + (1 - u) / L)
        return problem.loss.step(alpha, u, L, cap)

    return step


def strongly_accelerated(A, C, modulus, draws):
    """For a dual that is strongly concave: momentum of one strength, and no restarts.

    Yields the duals (n,) after each step of APCG (Lin, Lu and Xiao 2014, Algorithm 3), p = 2, C scale.

    modulus: how strongly each loss's dual bends at least, over C. It is width / C of the smoothed hinge, whose dual is
    sum_i alpha_i - modulus alpha_i^2 / 2 on [0, C].
    """
    n = len(A)
    L = np.sum(A**2, axis=1) + modulus
    share = np.sqrt(modulus / L.max()) / n
    x = z = np.zeros(n)
    for i in draws:
        y = (x + share * z) / (1 + share)
        slope = A[i] @ (A.T @ y) + modulus * y[i] - 1
        before, z = z, (1 - share) * z + share * y
        z[i] = np.clip(z[i] - slope / (n * share * L[i]), 0, C)
        x = y + n * share * (z - before) + n * share**2 * (before - y)
        yield x


def coupled_passes(name, X, y, cap, *, passes, seed):
    """(W (K, d+1), alpha (n, K)) after passes of exact steps on all duals of a row; the rows are one block."""
    twin, n, K = TWINS[name], len(y), int(y.max()) + 1
    A, W, alpha = np.column_stack([X, np.ones(n)]), np.zeros((K, X.shape[1] + 1)), np.zeros((n, K))
    for number in range(1, passes + 1):
        for i in permutation(n, seed, number, 0, 0):
            row = Row(W @ A[i], y[i], cap)
            new = twin.step(row, alpha[i], A[i] @ A[i])
            W += np.outer(row.signs * (new - alpha[i]), A[i])
            alpha[i] = new
    return W, alpha
