"""One binary problem, the slow way: signed rows A (n, d), caps C s_i (n,), duals on the C scale."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest
from reference.norms import conjugate, curvature, exponent, length, mirror
from reference.words import sized

NO_SEPARATOR = ("not_separable", "small_margin")  # a proof, or a bound that falls short of the tolerance


@dataclass
class Binary:
    """min 1/2 ||w||_p^2 + sum_i caps_i phi(a_i.w); caps of inf are the hard margin A w >= 1.

    The loss is the package's, whose methods take arrays too; tests/losses hold it to its definition.

    signs (n,) of the rows, or the 1 of all: what tells a mistake from a score of 0, which is the first class, -1.
    """

    A: np.ndarray
    caps: np.ndarray
    loss: object
    p: float
    signs: np.ndarray | float = 1.0

    @cached_property
    def q(self):
        return conjugate(self.p)

    @property
    def hard(self):
        return bool(np.isinf(self.caps).all())

    @cached_property
    def top(self):
        """The largest feasible duals."""
        return self.loss.feasible(np.inf, self.caps)

    def theta(self, alpha):
        return self.A.T @ alpha

    def primal(self, w):
        """The objective; for the hard margin that of w scaled to the smallest margin 1."""
        u = self.A @ w
        if self.hard:
            return 0.5 * (length(w, self.p) / u.min()) ** 2 if u.min() > 0 else np.inf
        return 0.5 * length(w, self.p) ** 2 + np.sum(self.loss.primal(u, self.caps))

    def dual(self, alpha):
        assert np.all(alpha >= 0) and np.all(alpha <= self.top * (1 + 1e-15))
        gain = np.sum(alpha) if self.hard else np.sum(self.loss.dual(alpha, self.caps))
        return gain - 0.5 * length(self.theta(alpha), self.q) ** 2

    def gap(self, w, alpha):
        """Relative duality gap."""
        primal, dual = self.primal(w), self.dual(alpha)
        return (primal - dual) / max(abs(primal), abs(dual))

    def margin(self, w):
        return np.min(self.A @ w) / length(w, self.p)

    def margin_bound(self, alpha):
        """||A^T q||_q for a point q of the simplex: no w has a larger margin."""
        return length(self.theta(alpha), self.q) / np.sum(alpha)

    def mistakes(self, w):
        margins = self.A @ w
        return int(np.sum((margins < 0) | ((margins == 0) & (self.signs > 0))))

    def step(self, i, alpha):
        """The new alpha_i after a visit of row i, and the margin u it saw; theta is summed afresh."""
        u = self.A[i] @ mirror(self.theta(alpha), self.q)
        L = curvature(self.A[i], self.q)
        if np.isinf(self.caps[i]):
            return max(0.0, alpha[i] + (1 - u) / L), u
        return self.loss.step(alpha[i], u, L, self.caps[i]), u

    def visit(self, order, alpha):
        """Dual coordinate ascent over these rows; alpha is changed in place. Figures as the kernel keeps them."""
        gap, smallest, mistakes, updates, unsure = 0.0, np.inf, 0, 0, 0
        for i in order:
            new, u = self.step(i, alpha)
            if np.isfinite(self.caps[i]):
                gap += self.loss.primal(u, self.caps[i]) - self.loss.dual(alpha[i], self.caps[i]) + alpha[i] * u
            smallest = min(smallest, u)
            mistakes += u <= 0
            updates += new != alpha[i]
            unsure += new > 0.0 and abs(new - alpha[i]) <= 1e-13 * new  # rounding decides whether it is an update
            alpha[i] = new
        return {"gap": gap, "min_margin": smallest, "mistakes": mistakes, "updates": updates, "unsure": unsure}


def binary(X, y, *, loss="hinge", width=1.0, C=1.0, norm=2, bias=None, sample_weight=None, class_weight=None):
    """The problem that these options of `train` stand for; y holds the labels, the larger one is positive."""
    X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    X = X.astype(np.float64)
    p = exponent(norm, X.shape[1])
    if bias:
        X = np.column_stack([X, np.full(len(X), bias)])
    s = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, float)
    y = np.asarray(y)
    if class_weight is not None:
        s = s * np.array([class_weight.get(label, 1.0) for label in y.tolist()])
    sign = np.where(y == y.max(), 1.0, -1.0)
    there = s > 0
    return Binary(
        (sign[:, None] * X)[there],
        (C * s[there]),
        sized(loss, 2.0 if loss == "generalized_hinge" else width),
        p,
        sign[there],
    )


def check_certificate(result, problem, exact, w, tol):
    """The figures belong to the saved weights, enclose the optimum, and are as tight as they claim to be."""
    certificate = result.certificate
    assert result.converged and result.reason == "tolerance" and certificate["converged"]
    assert certificate["primal"] == pytest.approx(problem.primal(w), rel=1e-10)
    assert certificate["mistakes"] == problem.mistakes(w)
    assert certificate["train_error"] == problem.mistakes(w) / len(problem.A)
    assert certificate["gap"] <= tol
    assert certificate["gap"] == pytest.approx(
        (certificate["primal"] - certificate["dual"]) / max(abs(certificate["primal"]), abs(certificate["dual"]))
    )
    assert certificate["dual"] <= exact.primal * (1 + 1e-12)
    assert problem.primal(w) >= exact.dual * (1 - 1e-12)
    assert problem.primal(w) - exact.dual <= tol * exact.primal
