"""The dual acceleration paper's methods with one Gram column an iteration, several classes, in NumPy.

A pair (row i, wrong class j) stands for z = phi(x_i) (e_c - e_j)^T / sqrt(2). Here c is the class of the row (section
5.2). None is written. An expansion is known by its scores of all rows for each class. Products in the space of the
kernel follow from these. K(x, x) <= 1. Columns come from the caller.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

ROOT2 = math.sqrt(2.0)


class Pair(NamedTuple):
    """A row, its class, and a wrong class."""

    row: int
    own: int
    wrong: int


class Run(ABC):
    """A method on rows of these classes y (n,), of which the first `train` are trained on.

    w (classes, n): the scores of w_t, in units of sqrt(2); ww: ||w_t||^2; diagonal (n,): K(x, x).
    """

    def __init__(self, y: np.ndarray, train: int, diagonal: np.ndarray, dtype: type = np.float64) -> None:
        self.y, self.train, self.diagonal, self.t = y, train, diagonal, 0
        self.classes = int(y.max()) + 1
        self.w = np.zeros((self.classes, len(y)), dtype)
        self.ww = 0.0
        self.each = np.arange(train)

    def lead(self, scores: np.ndarray) -> np.ndarray:
        """(classes, train): minus the margins of all pairs; -inf of a row's own class."""
        found = (scores[:, : self.train] - scores[self.y[: self.train], self.each]) / scores.dtype.type(ROOT2)
        found[self.y[: self.train], self.each] = -np.inf
        return np.asarray(found)

    def least(self) -> Pair:
        """The pair of the smallest margin."""
        wrong, row = divmod(int(np.argmax(self.lead(self.w))), self.train)
        return Pair(row, int(self.y[row]), wrong)

    def sampled(self, random: np.random.Generator) -> Pair:
        """A pair by chances proportional to exp(-margin)."""
        lead = self.lead(self.w)
        lead -= lead.max()
        np.exp(lead, out=lead)
        masses = lead.sum(axis=1, dtype=np.float64)
        wrong = int(np.searchsorted(np.cumsum(masses), random.random() * masses.sum(), "right"))
        sums = np.cumsum(lead[wrong], dtype=np.float64)
        row = int(np.searchsorted(sums, random.random() * sums[-1], "right"))
        return Pair(row, int(self.y[row]), wrong)

    def add(self, scores: np.ndarray, pair: Pair, column: np.ndarray, size: float) -> None:
        """The scores of an expansion grow by `size` times z; column (n,): K(x, x_i) of its row."""
        change = (column * (size / ROOT2)).astype(scores.dtype)
        scores[pair.own] += change
        scores[pair.wrong] -= change

    def product(self, scores: np.ndarray, pair: Pair) -> float:
        """<the expansion of these scores, z>."""
        return float(scores[pair.own, pair.row] - scores[pair.wrong, pair.row]) / ROOT2

    @abstractmethod
    def choose(self, random: np.random.Generator) -> Pair:
        """The pair of the next step."""

    @abstractmethod
    def step(self, pair: Pair, column: np.ndarray) -> None:
        """A step along it."""

    @abstractmethod
    def upper(self) -> float:
        """A bound on every margin: the length of a mean of pairs."""

    def shown(self) -> tuple[np.ndarray, float]:
        """The scores (classes, n) and the length of the iterate that is reported."""
        return self.w, math.sqrt(self.ww)

    def margin(self) -> float:
        """The smallest margin of all pairs over the length; -inf for w = 0."""
        scores, length = self.shown()
        return -float(self.lead(scores).max()) / length if length > 0.0 else -math.inf

    def error(self) -> float:
        """The share of the rows that are not trained on whose largest score is of a wrong class."""
        scores, _ = self.shown()
        return float(np.mean(np.argmax(scores[:, self.train :], axis=0) != self.y[self.train :]))


class Momentum(Run):
    """Algorithm 2 with beta_t = t / (t + 1) and theta = 1; h = (t + 1) g_t is a sum of t times its pair."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.h = np.zeros_like(self.w)
        self.hh = self.wh = 0.0

    def choose(self, random: np.random.Generator) -> Pair:
        return self.sampled(random)

    def step(self, pair: Pair, column: np.ndarray) -> None:
        t, square = self.t, float(self.diagonal[pair.row])
        by_w, by_h = self.product(self.w, pair), self.product(self.h, pair)
        self.add(self.h, pair, column, t)
        self.hh += 2.0 * t * by_h + t * t * square
        self.wh += t * by_w
        by_h += t * square  # <h_t, z>
        share = 1.0 / (t + 1.0)
        self.w += self.h * self.w.dtype.type(share)
        self.add(self.w, pair, column, 1.0)
        self.ww += share**2 * self.hh + square + 2.0 * (share * self.wh + by_w + share * by_h)
        self.wh += share * self.hh + by_h
        self.t += 1

    def upper(self) -> float:
        weights = self.t * (self.t - 1) / 2.0
        return math.sqrt(max(self.hh, 0.0)) / weights if weights else math.inf


class Proven(Run):
    """Algorithm 2 without momentum, with the step sqrt(ln n / T) of Theorem 4.1; n pairs, T iterations in all."""

    theta = 1.0  # until `planned`

    def planned(self, iterations: int) -> Proven:
        """The step for this many iterations."""
        self.theta = math.sqrt(math.log(self.train * (self.classes - 1)) / iterations)
        return self

    def choose(self, random: np.random.Generator) -> Pair:
        return self.sampled(random)

    def step(self, pair: Pair, column: np.ndarray) -> None:
        self.ww += self.theta * (2.0 * self.product(self.w, pair) + self.theta * float(self.diagonal[pair.row]))
        self.add(self.w, pair, column, self.theta)
        self.t += 1

    def upper(self) -> float:
        return math.sqrt(max(self.ww, 0.0)) / (self.theta * self.t) if self.t else math.inf


class BatchPerceptron(Run):
    """Cotter et al. 2012: steps 1 / sqrt(t) along the smallest margin, in the unit ball, averaged."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.total = np.zeros_like(self.w)  # of all w_t
        self.tt = self.tw = 0.0

    def choose(self, random: np.random.Generator) -> Pair:
        return self.least()

    def step(self, pair: Pair, column: np.ndarray) -> None:
        self.t += 1
        size = 1.0 / math.sqrt(self.t)
        by_w, by_total = self.product(self.w, pair), self.product(self.total, pair)
        self.add(self.w, pair, column, size)
        self.ww += size * (2.0 * by_w + size * float(self.diagonal[pair.row]))
        self.tw += size * by_total
        length = math.sqrt(max(self.ww, 0.0))
        if length > 1.0:
            self.w /= self.w.dtype.type(length)
            self.ww, self.tw = 1.0, self.tw / length
        self.total += self.w
        self.tt += 2.0 * self.tw + self.ww
        self.tw += self.ww

    def shown(self) -> tuple[np.ndarray, float]:
        return self.total, math.sqrt(max(self.tt, 0.0))

    def upper(self) -> float:
        return math.inf  # those of the others are used
