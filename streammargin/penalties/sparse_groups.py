"""Penalty of few groups of columns, and few columns within them (sparse group lasso: Simon et al. 2013)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streammargin.penalties.base import RATIO, Norm, PenalisedColumns, Penalty, PenaltyWord, Pieces, shrink
from streammargin.penalties.groups import GROUPS, GROUPS_HELP, Grouped, GroupLasso, Groups
from streammargin.penalties.norms import L1
from streammargin.words import entry, needed


class SparseGroupLasso(Grouped, Norm):
    """R(w) = r ||w||_1 + (1 - r) sum over groups of sqrt(d_g) ||w_g||_2, 0 < r < 1."""

    name = "sparse_group"
    groups: Groups
    r: float

    def value(self, w: np.ndarray) -> float:
        lengths = self.groups.roots @ self.groups.lengths(w)
        return self.r * float(np.abs(w).sum()) + (1.0 - self.r) * float(lengths)

    def gauge(self, theta: np.ndarray) -> float:
        # The least s with ||(|theta_g| - s r)_+|| <= s (1 - r) sqrt(d_g) for each group (Ndiaye et al. 2017). What is
        # left of a group falls in s and is convex, so Newton's steps from below never go beyond it. The product of the
        # rest and its slope falls to a quarter at each step, so they end after 40 or so.
        sizes, groups = np.abs(theta), self.groups
        own, s = (1.0 - self.r) * groups.roots, GroupLasso(groups).gauge(theta)
        while 0.0 < s < math.inf:
            beyond = np.maximum(sizes - self.r * s, 0.0)
            lengths = groups.lengths(beyond)
            rest = lengths - own * s
            slopes = own + self.r * np.divide(
                groups.sums(beyond), lengths, out=np.zeros(groups.count), where=lengths > 0.0
            )
            following = s + float((rest / slopes).max())
            if not following > s:
                break
            s = following
        return s

    def prox(self, v: np.ndarray, steps: np.ndarray) -> np.ndarray:
        # the columns first, and what is left of each group then (Friedman, Hastie and Tibshirani 2010)
        return self.groups.shrunk(shrink(v, steps * self.r), self.groups.smallest(steps) * (1.0 - self.r))

    def pieces(self, size: int) -> tuple[np.ndarray, Pieces] | None:
        return self.groups.pieces(1.0 - self.r, 0.0, self.r)


class SparseGroup(PenaltyWord):
    """r ||w||_1 + (1 - r) sum over groups of sqrt(d_g) ||w_g||, r the l1_ratio: few groups, and few columns of each."""

    groups: Any = needed(GROUPS, GROUPS_HELP)
    l1_ratio: float = entry(0.5, RATIO, "r, the share of the l1 norm; 0 is the penalty group, 1 is l1")

    def of_columns(self, columns: PenalisedColumns) -> Penalty:
        groups = Groups(columns.groups(self.groups))
        if self.l1_ratio == 1.0:
            return L1()
        return SparseGroupLasso(groups, self.l1_ratio) if self.l1_ratio > 0.0 else GroupLasso(groups)


PENALTIES = (SparseGroup,)
