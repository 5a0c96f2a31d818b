"""The first-order methods of the Pdprox paper's experiments, in NumPy: its own, and those it compares with.

All minimise mean_i phi_i(a_i.w) + lam R(w), begin with zeros and yield without end. A w and A^T alpha are all they ask
of the rows; a problem counts these products. A matrix W is a vector for all but its penalty. A row of a task is 0
outside the weights of this task, and the row of a cell has a single 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from streammargin.penalties.base import Penalty

TINY = 1e-9  # a step so short that all but weights of 0 are beyond it
MOST = 1e12  # largest curvature that agd tries; at a kink no curvature suffices


@dataclass
class Problem:
    """phi_i(u) = max of alpha (t_i - u) over low <= alpha <= 1: the hinge with low = 0, the absolute error with -1.

    A (n, d): rows times their labels, an array or CSR; penalty: R; budget: what the alpha_i may sum up to (eq. (19)),
    an integer; the losses are then the largest `budget` ones. targets: t, (n,) or the same for all. rows: what the mean
    is of, n by default. A row whose loss has several terms is there once for each. shape: of w as R takes it.
    """

    A: Any
    lam: float
    penalty: Penalty
    low: float = 0.0
    budget: float = math.inf
    targets: Any = 1.0
    rows: int = 0
    shape: tuple[int, ...] = ()
    products: int = 0

    def __post_init__(self) -> None:
        self.n, self.d = self.A.shape
        self.rows, self.shape = self.rows or self.n, self.shape or (self.d,)
        self.transposed = self.A.T
        squares = self.A.multiply(self.A).sum(axis=1) if hasattr(self.A, "multiply") else np.square(self.A).sum(axis=1)
        # of Theorem 6: at least the square of the norm of A / rows
        self.c = float(squares.max()) / self.rows * (self.n / self.rows)

    @property
    def gamma(self) -> float:
        """The step of Theorem 6."""
        return math.sqrt(1.0 / (2.0 * self.c))

    def ascent(self, w: np.ndarray) -> np.ndarray:
        """G(w) (n,), the gradient along alpha."""
        self.products += 1
        return (self.targets - self.A @ w) / self.rows

    def pull(self, alpha: np.ndarray) -> np.ndarray:
        """A^T alpha / rows (d,), minus the gradient along w."""
        self.products += 1
        return self.transposed @ alpha / self.rows

    def spectral_square(self, products: int = 60) -> float:
        """||A / rows||^2, increased by 5%, from this many products, which are not counted."""
        v, size = np.random.default_rng(0).standard_normal(self.d), 0.0
        for _ in range(products // 2):
            v = self.transposed @ (self.A @ (v / np.linalg.norm(v)))
            size = float(np.linalg.norm(v)) / self.rows**2
        return 1.05 * size

    def prox(self, v: np.ndarray, step: float) -> np.ndarray:
        """argmin of lam R(w) + ||w - v||^2 / (2 step)."""
        return self.penalty.prox(v.reshape(self.shape), np.full(self.shape, step * self.lam)).ravel()

    def project(self, v: np.ndarray) -> np.ndarray:
        """The nearest feasible alpha (Lemma 13)."""
        return projected(v, self.low, self.budget)

    def best_alpha(self, ascent: np.ndarray) -> np.ndarray:
        """The alpha that makes the losses of w, from G(w); without a budget."""
        return np.where(ascent > 0.0, 1.0, self.low)

    def loss(self, ascent: np.ndarray) -> float:
        """The mean loss, from G(w)."""
        losses = np.maximum(ascent, self.low * ascent)
        if self.budget < self.n:
            kept = self.n - int(self.budget)
            losses = np.partition(losses, kept)[kept:]
        return float(losses.sum())

    def objective(self, w: np.ndarray) -> float:
        """The objective at w. Its product is not counted."""
        return self.loss((self.targets - self.A @ w) / self.rows) + self.lam * self.penalty.value(w.reshape(self.shape))

    def dual(self, alpha: np.ndarray) -> float:
        """A lower bound of it, -inf for alpha that R* does not allow. This product is not counted."""
        pull = self.transposed @ alpha / (self.rows * self.lam)
        gain = float((self.targets * alpha).sum()) / self.rows
        return gain - self.lam * self.penalty.conjugate(pull.reshape(self.shape))


@dataclass
class Lengths(Problem):
    """phi_i(W) = ||t_i - W x_i||_2 of several outputs.

    A (n, m) has the rows x_i, targets is (n, K), w is W (K, m), alpha (n, K) with rows no longer than 1. `budget` and
    `low` are not used.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        lines = self.targets.shape[1]
        self.shape, self.n, self.d = (lines, self.d), self.n * lines, self.d * lines

    def _apart(self, w: np.ndarray) -> np.ndarray:
        return ((self.targets - self.A @ w.reshape(self.shape).T) / self.rows).ravel()

    def ascent(self, w: np.ndarray) -> np.ndarray:
        self.products += 1
        return self._apart(w)

    def pull(self, alpha: np.ndarray) -> np.ndarray:
        self.products += 1
        return (self.transposed @ alpha.reshape(self.targets.shape) / self.rows).T.ravel()

    def project(self, v: np.ndarray) -> np.ndarray:
        lines = v.reshape(self.targets.shape)
        return (lines / np.maximum(np.linalg.norm(lines, axis=1, keepdims=True), 1.0)).ravel()

    def objective(self, w: np.ndarray) -> float:
        loss = np.linalg.norm(self._apart(w).reshape(self.targets.shape), axis=1).sum()
        return float(loss) + self.lam * self.penalty.value(w.reshape(self.shape))


def projected(v: np.ndarray, low: float, budget: float) -> np.ndarray:
    """The nearest point with low <= alpha <= 1 and, if low = 0, sum alpha <= budget, by bisection (Lemma 13)."""
    alpha = np.clip(v, low, 1.0)
    if alpha.sum() <= budget:
        return alpha
    low_shift, shift = 0.0, float(v.max())
    while True:
        middle = 0.5 * (low_shift + shift)
        if middle in (low_shift, shift):
            return np.clip(v - shift, 0.0, 1.0)
        if np.clip(v - middle, 0.0, 1.0).sum() > budget:
            low_shift = middle
        else:
            shift = middle


# those of the paper: pairs (w_t, alpha_t)


def algorithm_1(p: Problem, gamma: float) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pdprox-dual with two projections (Algorithm 1)."""
    w, beta = np.zeros(p.d), np.zeros(p.n)
    ascent = p.ascent(w)
    while True:
        alpha = p.project(beta + gamma * ascent)
        w = p.prox(w + gamma * p.pull(alpha), gamma)
        ascent = p.ascent(w)
        beta = p.project(beta + gamma * ascent)
        yield w, alpha


def dual_double_dual(
    p: Problem, tau: float, sigma: float, strong: float = 0.0
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Algorithm 3, with a step for either side: alpha and beta are kept beside w.

    strong: R is strongly convex by this much of lam, and the steps change with it (Chambolle and Pock 2011, Algorithm
    2; the extrapolation is then shorter).
    """
    w, beta = np.zeros(p.d), np.zeros(p.n)
    ascent = p.ascent(w)
    while True:
        alpha = p.project(beta + sigma * ascent)
        w = p.prox(w + tau * p.pull(alpha), tau)
        theta = 1.0 / math.sqrt(1.0 + 2.0 * strong * p.lam * tau)
        tau, sigma = tau * theta, sigma / theta
        before, ascent = ascent, p.ascent(w)
        beta = alpha + sigma * theta * (ascent - before)
        yield w, alpha


def dual_double_primal(p: Problem, tau: float, sigma: float) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The same iterates as Algorithm 3 from two w and one alpha (Chambolle and Pock 2011, Algorithm 1)."""
    w = before = np.zeros(p.d)
    alpha = np.zeros(p.n)
    while True:
        alpha = p.project(alpha + sigma * p.ascent(2.0 * w - before))
        before, w = w, p.prox(w + tau * p.pull(alpha), tau)
        yield w, alpha


def primal_double_primal(p: Problem, tau: float, sigma: float) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pdprox-primal (Algorithm 2): u is kept beside w."""
    u, alpha, pull = np.zeros(p.d), np.zeros(p.n), np.zeros(p.d)
    while True:
        w = p.prox(u + tau * pull, tau)
        alpha = p.project(alpha + sigma * p.ascent(w))
        before, pull = pull, p.pull(alpha)
        u = w + tau * (pull - before)
        yield w, alpha


def primal_double_dual(p: Problem, tau: float, sigma: float) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The same iterates as Algorithm 2 from two alpha and one w."""
    w = np.zeros(p.d)
    alpha = before = np.zeros(p.n)
    while True:
        w = p.prox(w + tau * p.pull(2.0 * alpha - before), tau)
        before, alpha = alpha, p.project(alpha + sigma * p.ascent(w))
        yield w, alpha


def averaged(pairs: Iterable[tuple[np.ndarray, np.ndarray]]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The means of all pairs so far, which Theorem 6 is of."""
    w_sum: Any = 0.0
    alpha_sum: Any = 0.0
    for t, (w, alpha) in enumerate(pairs, 1):
        w_sum, alpha_sum = w_sum + w, alpha_sum + alpha
        yield w_sum / t, alpha_sum / t


# those beside it: w_t alone; eta is D / G in theory, the distance of the optimum over the size of subgradients


def gd(p: Problem, eta: float) -> Iterator[np.ndarray]:
    """Subgradient descent with the step eta / sqrt(t)."""
    w, t = np.zeros(p.d), 0
    while True:
        t += 1
        # of R, that of its Moreau envelope: of a norm the same wherever w is not 0
        size = TINY / p.lam
        down = p.pull(p.best_alpha(p.ascent(w))) - (w - p.prox(w, size)) / size
        w = w + eta / math.sqrt(t) * down
        yield w


def fobos(p: Problem, eta: float) -> Iterator[np.ndarray]:
    """A subgradient step of the loss and then the prox of R (Duchi and Singer 2009)."""
    w, t = np.zeros(p.d), 0
    while True:
        t += 1
        step = eta / math.sqrt(t)
        w = p.prox(w + step * p.pull(p.best_alpha(p.ascent(w))), step)
        yield w


def rda(p: Problem, eta: float) -> Iterator[np.ndarray]:
    """The prox of R from the mean of all subgradients of the loss (Xiao 2009)."""
    w, total, t = np.zeros(p.d), np.zeros(p.d), 0
    while True:
        t += 1
        total += p.pull(p.best_alpha(p.ascent(w)))
        w = p.prox(eta / math.sqrt(t) * total, eta * math.sqrt(t))
        yield w


def agd(p: Problem, eta: float) -> Iterator[np.ndarray]:
    """Accelerated proximal gradients with a step that shrinks from eta on (Chen et al. 2009).

    It is made for smooth losses. Here subgradients replace gradients. If no step descends enough, w stays.
    """
    w = z = np.zeros(p.d)
    curvature, theta = 1.0 / eta, 1.0
    while True:
        ascent = p.ascent(z)
        value, down = p.loss(ascent), p.pull(p.best_alpha(ascent))
        while True:
            new = p.prox(z + down / curvature, 1.0 / curvature)
            change = new - z
            bound = value - down @ change + 0.5 * curvature * change @ change
            if p.loss(p.ascent(new)) <= bound + 1e-12 * value or curvature > MOST:
                break
            curvature *= 2.0
        after = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * theta * theta))
        z, w, theta = new + (theta - 1.0) / after * (new - w), new, after
        yield w


class Dualised:
    """A problem for `excessive_gap` whose R, a norm, is the maximum over u in the ball of its dual norm of w.u.

    As the paper has it (section 5.4): u (d,) stands behind alpha, and w is in a ball that holds the optimum. There
    lam R is at most the loss of w = 0. Of a group lasso ||u_g|| <= 1, and sqrt(d_g) is beside w_g.u_g.
    """

    def __init__(self, p: Problem) -> None:
        self.p, self.d, groups = p, p.d, getattr(p.penalty, "groups", None)
        roots = np.ones(p.d) if groups is None else groups.roots[groups.of]
        self.costs, self.shares = p.lam * roots, (1.0 / roots).reshape(p.shape)
        self.radius = p.objective(np.zeros(p.d)) * p.penalty.stretch(p.d) / self.costs.min()

    def ascent(self, w: np.ndarray) -> np.ndarray:
        """The gradient along alpha and u."""
        return np.append(self.p.ascent(w), self.costs * w)

    def pull(self, both: np.ndarray) -> np.ndarray:
        """Minus the gradient along w."""
        return self.p.pull(both[: self.p.n]) - self.costs * both[self.p.n :]

    def spectral_square(self) -> float:
        """A bound on the square of the norm of the saddle's matrix."""
        return self.p.spectral_square() + float(self.costs.max()) ** 2

    def prox(self, v: np.ndarray, _: float) -> np.ndarray:
        """The nearest w of the ball: R is in u."""
        return v * min(1.0, self.radius / max(float(np.linalg.norm(v)), TINY))

    def project(self, v: np.ndarray) -> np.ndarray:
        """The nearest feasible alpha and u."""
        u = v[self.p.n :].reshape(self.p.shape)
        return np.append(self.p.project(v[: self.p.n]), u - self.p.penalty.prox(u, self.shares))


def pdexg(p: Problem, ratio: float) -> Iterator[np.ndarray]:
    """The weights of `excessive_gap` with R in a dual form."""
    for w, _, _, _ in excessive_gap(Dualised(p), ratio):
        yield w


def excessive_gap(p: Problem | Dualised, ratio: float) -> Iterator[tuple[np.ndarray, np.ndarray, float, float]]:
    """The excessive gap technique (Nesterov 2005b): w, alpha, and mu_1 and mu_2, which smooth the dual and the primal.

    ratio: mu_1 / mu_2 at the start. P(w_t) - P* <= mu_1 ||w*||^2 / 2 + mu_2 ||alpha||^2 / 2, both falling as 1/t.
    """
    square = p.spectral_square()
    mu_1, mu_2 = math.sqrt(2.0 * square * ratio), math.sqrt(2.0 * square / ratio)

    def from_alpha(pull: np.ndarray) -> np.ndarray:
        return p.prox(pull / mu_1, 1.0 / mu_1)

    def from_w(ascent: np.ndarray) -> np.ndarray:
        return p.project(ascent / mu_2)

    def stepped(w: np.ndarray, pull: np.ndarray) -> np.ndarray:
        return p.prox(w + mu_2 / square * pull, mu_2 / square)

    w, alpha = np.zeros(p.d), from_w(p.ascent(np.zeros(p.d)))
    w = stepped(w, p.pull(alpha))
    k = 0
    while True:
        yield w, alpha, mu_1, mu_2
        tau = 2.0 / (k + 3.0)
        if k % 2 == 0:
            hat = (1.0 - tau) * w + tau * from_alpha(p.pull(alpha))
            best = from_w(p.ascent(hat))
            alpha = (1.0 - tau) * alpha + tau * best
            w, mu_1 = stepped(hat, p.pull(best)), (1.0 - tau) * mu_1
        else:
            hat = (1.0 - tau) * alpha + tau * from_w(p.ascent(w))
            best = from_alpha(p.pull(hat))
            w = (1.0 - tau) * w + tau * best
            alpha, mu_2 = p.project(hat + mu_1 / square * p.ascent(best)), (1.0 - tau) * mu_2
        k += 1


def best_exponent(value: Callable[[int], float], most: int = 10, start: int = 0) -> int:
    """The k from -most to most with the least value(k), by a walk downhill from `start`."""
    known: dict[int, float] = {}

    def of(k: int) -> float:
        if k not in known:
            known[k] = value(k) if abs(k) <= most else math.inf
        return known[k]

    k = start
    while True:
        best = min((k, k - 1, k + 1), key=of)
        if best == k:
            return k
        k = best
