"""Optima with several outputs by an interior-point method for cones: one W, losses of all scores or of each."""

import clarabel
import numpy as np
from reference.conic import CONES, Program

CONES.setdefault("psd", lambda size: clarabel.PSDTriangleConeT(round((float(np.sqrt(8 * size + 1)) - 1) / 2)))


def _row(program, variables, coefficients):
    """One row (1, len(variables)) of coefficients."""
    return variables, np.asarray(coefficients, float)[None]


class Outputs:
    """min R(W) + sum_i cap_i loss(z_i), z_i = W x_i + b, for W (K, d); caps (n,) or (n, K), 0: no loss there."""

    def __init__(self, X, K, constant, free):
        self.program = Program()
        n = len(X)
        self.X = X if free else np.column_stack([X, np.full(n, constant)])
        self.K, self.n, self.d = K, n, self.X.shape[1]
        self.W = self.program.variables(K * self.d).reshape(K, self.d)
        self.b = self.program.variables(K) if free and constant else None
        self.constant = constant

    def score(self, i, k, factor=1.0):
        """Terms of factor z_ik."""
        terms = [_row(self.program, self.W[k], factor * self.X[i])]
        if self.b is not None:
            terms.append(_row(self.program, self.b[k : k + 1], [factor * self.constant]))
        return terms

    def slack(self, cost, square=0.0):
        return self.program.variables(1, cost, square)

    def at_least(self, slack, constant, terms):
        """slack >= constant + terms."""
        negative = [(numbers, -matrix) for numbers, matrix in terms]
        self.program.inside("nonnegative", [-constant], [(slack, np.eye(1)), *negative])

    # losses

    def hinge(self, signs, caps):
        for i, k in np.argwhere(caps):
            slack = self.slack(caps[i, k])
            self.at_least(slack, 0.0, [])
            self.at_least(slack, 1.0, self.score(i, k, -signs[i, k]))

    def logistic(self, signs, caps):
        for i, k in np.argwhere(caps):
            self._log_sum_exp(caps[i, k], [[], self.score(i, k, -signs[i, k])])

    def softmax(self, codes, caps):
        for i in range(self.n):
            own = self.score(i, codes[i], -1.0)
            self._log_sum_exp(caps[i], [self.score(i, k) + own if k != codes[i] else [] for k in range(self.K)])

    def _log_sum_exp(self, cap, exponents):
        """cap t with sum exp(exponent - t) <= 1."""
        t, parts = self.slack(cap), self.program.variables(len(exponents))
        self.program.inside("nonnegative", [1.0], [(parts, -np.ones((1, len(parts))))])
        x, z = np.eye(3)[:, :1], np.eye(3)[:, 2:]
        for part, terms in zip(parts, exponents, strict=True):
            inner = [(numbers, x @ matrix) for numbers, matrix in terms]
            self.program.inside("exponential", [0.0, 1.0, 0.0], [*inner, (t, -x), (np.array([part]), z)])

    def crammer_singer(self, codes, caps):
        for i in range(self.n):
            slack, own = self.slack(caps[i]), self.score(i, codes[i], -1.0)
            self.at_least(slack, 0.0, [])
            for k in range(self.K):
                if k != codes[i]:
                    self.at_least(slack, 1.0, self.score(i, k) + own)

    def squared(self, Y, caps):
        for i, k in np.argwhere(caps):
            rest = self.slack(0.0, caps[i, k])
            self.program.inside("zero", [-Y[i, k]], [*self.score(i, k), (rest, -np.eye(1))])

    def absolute(self, Y, caps, epsilon=0.0):
        for i, k in np.argwhere(caps):
            slack = self.slack(caps[i, k])
            self.at_least(slack, 0.0, [])
            for sign in (1.0, -1.0):
                self.at_least(slack, -sign * Y[i, k] - epsilon, self.score(i, k, sign))

    def lengths(self, Y, caps):
        for i in range(self.n):
            t = self.slack(caps[i])
            terms = [(t, np.eye(self.K + 1)[:, :1])]
            for k in range(self.K):
                at = np.eye(self.K + 1)[:, k + 1 : k + 2]
                terms += [(numbers, at @ matrix) for numbers, matrix in self.score(i, k)]
            self.program.inside("second order", [0.0, *-Y[i]], terms)

    # penalties

    def penalise(self, name, r):
        """r R(W) + (1 - r)/2 ||W||^2; the constant is in W unless it is free."""
        program, flat = self.program, self.W.ravel()
        for j in flat if name not in ("exclusive",) else ():
            program.square[j] += 1.0 - r
        if r == 0.0:
            return
        if name == "l1":
            for j in flat:
                self._sizes(np.array([j]), r)
        elif name == "l21":
            for column in self.W.T:
                t, size = self.slack(r), len(column) + 1
                program.inside(
                    "second order", np.zeros(size), [(t, np.eye(size)[:, :1]), (column, np.eye(size)[:, 1:])]
                )
        elif name == "l1inf":
            for column in self.W.T:
                self._sizes(column, r)
        elif name == "exclusive":
            for column in self.W.T:
                total, parts = self.slack(0.0, 1.0), [self._sizes(np.array([j]), 0.0) for j in column]
                program.inside("zero", [0.0], [(total, -np.eye(1)), *((part, np.eye(1)) for part in parts)])
        elif name == "trace":
            self._nuclear(r)

    def _sizes(self, numbers, cost):
        """t >= each |variable|."""
        t = self.slack(cost)
        for sign in (1.0, -1.0):
            for j in numbers:
                self.at_least(t, 0.0, [(np.array([j]), np.array([[sign]]))])
        return t

    def _nuclear(self, r):
        """r/2 (trace A + trace B) of [[A, W], [W', B]], positive semidefinite."""
        K, d = self.W.shape
        size = K + d
        corner, terms = {}, []
        count = size * (size + 1) // 2
        for j in range(size):  # the upper triangle, column by column, off the diagonal times sqrt(2)
            for i in range(j + 1):
                corner[i, j] = len(corner)
        for (i, j), at in corner.items():
            unit = np.zeros((count, 1))
            unit[at] = 1.0 if i == j else np.sqrt(2.0)
            number = self.W[i, j - K] if i < K <= j else self.slack(0.5 * r if i == j else 0.0)[0]
            terms.append((np.array([number]), unit))
        self.program.inside("psd", np.zeros(count), terms)

    def solve(self):
        """(optimum, W (K, d), b (K,))."""
        value, x = self.program.solve()
        W = x[self.W]
        if self.b is not None:
            return value, W, self.constant * x[self.b]
        return (value, W, np.zeros(self.K)) if not self.constant else (value, W[:, :-1], self.constant * W[:, -1])
