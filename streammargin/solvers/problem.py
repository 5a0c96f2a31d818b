"""The problem to be solved: K binary problems, or regressions, over the same rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from streammargin.penalties.base import Penalty
from streammargin.penalties.lp import Lp
from streammargin.penalties.mirror_maps import L2, Shrunk
from streammargin.solvers.proof.figures import Figures
from streammargin.solvers.proof.objectives.base import Objective
from streammargin.solvers.proof.objectives.hard_margin import HardMargin, JointMargin
from streammargin.solvers.proof.objectives.interpolation import Interpolation
from streammargin.solvers.proof.objectives.soft_margin import SoftMargin


@dataclass(frozen=True)
class Problem:
    """K binary problems over the same n rows of d features (one per class and value of C).

    Labels and weights of rows are not here: whoever has some rows has these of them (`RowLabels`).
    positive (K,) int64: the class with sign +1 in problem k. caps (K, classes) float64: C times the class weight, inf
    for the hard margin. trials: the number of values of C.
    present: rows that are not absent (class among those trained on, weight above 0).
    numeric: rows have numbers in place of classes; then K = trials, and all codes are 0.
    budget: bytes for the state and the blocks; a method that may choose how much it holds keeps to a share of them.
    entries: values stored for all rows, 0 where that is not known; sparse: they come with their column indices.
    path: C goes up during the training. top: of how many rows, at most, the largest losses count.
    from_weights: the training begins from given weights, not from 0.
    resident: all rows are in memory at once, as one block.
    costs (K,): C of each problem, before the weights of classes and rows.
    penalty: R(w), 1/2 ||w||_p^2 where it is None; free: the constant column is left out of it.
    joint: the K problems are the classes of one: they share one margin, (x.U_c - x.U_c') / ||U||.
    mass (classes,): the weights of the rows of each class, summed.
    absolute: the bound on the mean gap, if that was asked for; tol is then the relative gap that solvers aim at.
    least_tol: the smallest tolerance that the training had before it was resumed; its arithmetic stays fit for that.
    """

    rows: int
    features: int
    dtype: np.dtype
    loss: Any
    norm: Any
    p: float
    positive: np.ndarray
    caps: np.ndarray
    trials: int
    tol: float
    seed: int
    present: int
    joint: bool = False
    costs: np.ndarray = field(default_factory=lambda: np.ones(1))
    penalty: Penalty | None = None
    free: bool = False
    resident: bool = True
    path: bool = False
    from_weights: bool = False
    top: float = math.inf
    numeric: bool = False
    largest_target: float = 0.0
    budget: int = 1 << 30
    entries: int = 0
    sparse: bool = False
    mass: np.ndarray = field(default_factory=lambda: np.zeros(0))
    absolute: float | None = None
    least_tol: float = math.inf

    @property
    def asked(self) -> float:
        """The tolerance that was asked for, a relative or an absolute one."""
        return self.tol if self.absolute is None else self.absolute

    def at(self, factor: float) -> Problem:
        """The same at `factor` times each C."""
        return replace(self, costs=self.costs * factor, caps=self.caps * factor)

    def mean_gap(self, k: int, figures: Figures) -> float | None:
        """(primal - dual) / (C sum_i s_i) of problem k, rounded up as the gap is; None for a hard margin."""
        if self.hard or figures.gap is None:
            return None
        return figures.gap * max(abs(figures.primal), abs(figures.dual)) / float(self.caps[k] @ self.mass)

    def reached(self, k: int, figures: Figures) -> bool:
        """Whether exact figures of problem k prove the tolerance."""
        if self.absolute is None:
            return self.objective.reached(figures, self.tol)
        gap = self.mean_gap(k, figures)
        return gap is not None and gap <= self.absolute

    def aiming(self, figures: Sequence[Figures], active: np.ndarray) -> Problem:
        """The same with the relative tolerance that, at these figures, is the absolute one of all active problems."""
        if self.absolute is None:
            return self
        sizes = {k: max(abs(figures[k].primal), abs(figures[k].dual)) for k in active.tolist()}
        known = {k: size for k, size in sizes.items() if 0.0 < size < math.inf}
        parts = [self.absolute * float(self.caps[k] @ self.mass) / size for k, size in known.items()]
        return replace(self, tol=min([1.0, *parts])) if parts else self

    @property
    def values(self) -> int:
        """The number of stored values of all rows."""
        return self.entries or self.rows * self.features

    @property
    def size(self) -> int:
        """Bytes of the rows: values, and for sparse rows their indices."""
        return self.values * (self.dtype.itemsize + 4 * self.sparse) + 8 * self.rows * self.sparse

    @property
    def count(self) -> int:
        """K, the number of binary problems."""
        return len(self.positive)

    @cached_property
    def objective(self) -> Objective:
        """The objective, with its bounds."""
        shared, lp = self.per_trial > 1, Lp(self.p)
        if self.hard and self.numeric:
            return Interpolation(lp, shared, self.largest_target, signed=True)
        if self.hard:
            return JointMargin(lp, shared, self.count) if self.joint else HardMargin(lp, shared)
        return SoftMargin(self.penalty or lp, shared, free=self.free, signed=self.numeric)

    @property
    def counts(self) -> bool:
        """Whether rows can be counted as right or wrong; not in a regression with a finite C."""
        return self.hard or not self.numeric

    @property
    def per_trial(self) -> int:
        """Problems per value of C: 1, or one per class."""
        return self.count // self.trials

    @property
    def q(self) -> float:
        """The dual exponent p / (p - 1)."""
        return float(self.norm.q)

    @property
    def linear(self) -> bool:
        """Whether w = A^T alpha at the optimum, so that coordinate ascent needs one vector for both."""
        return isinstance(self.norm, L2)

    @property
    def keeps_powers(self) -> bool:
        """Whether coordinate ascent stores a second vector beside A^T alpha."""
        return not isinstance(self.norm, (L2, Shrunk))

    @cached_property
    def hard(self) -> bool:
        """True for the hard margin, C = inf."""
        return math.isinf(float(self.caps.max()))
