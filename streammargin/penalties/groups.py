"""Penalties on groups of columns: whole groups become 0, or each group keeps few columns.

Group lasso (Yuan and Lin 2006) and exclusive lasso (Pdprox paper, section 4.4).
"""

from __future__ import annotations

import hashlib
import math
from functools import cached_property
from typing import Any

import numpy as np

from streammargin.errors import UsageError
from streammargin.kinds import ColumnName
from streammargin.penalties.base import RATIO, ByEntry, Norm, PenalisedColumns, Penalty, PenaltyWord, Pieces, Square
from streammargin.penalties.mirror_maps import GroupedNorm as KernelGroups
from streammargin.penalties.mirror_maps import lp_norm
from streammargin.penalties.outputs import ExclusiveColumns
from streammargin.penalties.powers import POWER, powered
from streammargin.words import entry, needed

GROUPS = ColumnName("FILE", any_file=True)
GROUPS_HELP = (
    "an integer for each column: FILE (one a line, or .npy), NAME of a dataset, FILE:NAME; in Python an array too"
)


class Groups:
    """The groups of m columns; of (m,) int64: the group of each column, from 0 to count - 1."""

    of: np.ndarray

    def __init__(self, groups: Any) -> None:
        _, self.of = np.unique(groups, return_inverse=True)
        self.sizes: np.ndarray = np.bincount(self.of)
        self.roots: np.ndarray = np.sqrt(self.sizes)

    def __repr__(self) -> str:
        digest = hashlib.blake2b(self.of.astype(np.int64).tobytes(), digest_size=8)
        return f"Groups({self.count} of {self.of.size} columns, {digest.hexdigest()})"

    @property
    def count(self) -> int:
        """The number of groups."""
        return self.sizes.size

    @property
    def nbytes(self) -> int:
        """Bytes of its vectors, with the groups of the columns once more for kernels."""
        return 2 * self.of.nbytes + 3 * self.sizes.nbytes

    def sums(self, values: np.ndarray) -> np.ndarray:
        """The sum of `values` (m,) over each group, float64."""
        return np.bincount(self.of, values, self.count)

    def lengths(self, v: np.ndarray) -> np.ndarray:
        """||v_g||_2 of each group, without overflow of the squares."""
        top = float(np.abs(v).max(initial=0.0))
        return top * np.sqrt(self.sums((v / top) ** 2)) if 0.0 < top < math.inf else np.full(self.count, top)

    def shrunk(self, v: np.ndarray, by: float | np.ndarray) -> np.ndarray:
        """Each v_g shortened by by_g sqrt(d_g), or 0 if it is shorter than that."""
        lengths = self.lengths(v)
        factors = np.zeros(self.count)
        np.divide(by * self.roots, lengths, out=factors, where=lengths > 0.0)
        return v * np.maximum(1.0 - factors, 0.0)[self.of]

    def smallest(self, values: np.ndarray) -> np.ndarray:
        """The smallest of `values` (m,) in each group."""
        least = np.full(self.count, math.inf)
        np.minimum.at(least, self.of, values)
        return least

    @cached_property
    def starts(self) -> np.ndarray:
        """The bounds (count + 1,) of the groups among columns sorted by group."""
        return np.concatenate([[0], np.cumsum(self.sizes)])

    def pieces(self, threshold: float, ridge: float, cut: float = 0.0) -> tuple[np.ndarray, Pieces]:
        """`Penalty.pieces` with the thresholds threshold sqrt(d_g), this ridge and this cut."""
        each = (threshold * self.roots, np.full(self.count, ridge), np.full(self.count, cut))
        return np.argsort(self.of, kind="stable"), Pieces(self.starts, *each)


class Grouped(Penalty):
    """A penalty whose prox needs the same step for all columns of a group."""

    groups: Groups

    def even(self, steps: np.ndarray) -> np.ndarray:
        return self.groups.smallest(steps)[self.groups.of]


class GroupLasso(Grouped, Norm):
    """R(w) = sum over groups of sqrt(d_g) ||w_g||_2."""

    name = "group"
    groups: Groups

    def value(self, w: np.ndarray) -> float:
        return float(self.groups.roots @ self.groups.lengths(w))

    def gauge(self, theta: np.ndarray) -> float:
        return float((self.groups.lengths(theta) / self.groups.roots).max(initial=0.0))

    def prox(self, v: np.ndarray, steps: np.ndarray) -> np.ndarray:
        return self.groups.shrunk(v, self.groups.smallest(steps))

    def pieces(self, size: int) -> tuple[np.ndarray, Pieces] | None:
        return self.groups.pieces(1.0, 0.0)


class GroupNet(Grouped, Square):
    """R(w) = r sum over groups of sqrt(d_g) ||w_g||_2 + (1 - r)/2 ||w||_2^2, 0 <= r < 1."""

    name = "group"
    groups: Groups
    r: float

    def value(self, w: np.ndarray) -> float:
        lengths = self.groups.lengths(w)
        return self.r * float(self.groups.roots @ lengths) + 0.5 * (1.0 - self.r) * lp_norm(lengths, 2.0) ** 2

    def gauge(self, theta: np.ndarray) -> float:
        beyond = np.maximum(self.groups.lengths(theta) - self.r * self.groups.roots, 0.0)
        return lp_norm(beyond, 2.0) / math.sqrt(1.0 - self.r)

    def zero_factor(self, theta: np.ndarray) -> float:
        return self.r * GroupLasso(self.groups).zero_factor(theta)

    def stretch(self, size: int) -> float:
        return 1.0 / math.sqrt(1.0 - self.r)

    @cached_property
    def norm(self) -> Any:
        return KernelGroups(self.groups.of.astype(np.int32), self.groups.roots, self.r, 1.0 - self.r)

    def powers(self, theta: np.ndarray) -> np.ndarray:
        squares = np.zeros(theta.size)
        squares[: self.groups.count] = self.groups.lengths(theta) ** 2
        return squares

    def mirror(self, theta: np.ndarray) -> np.ndarray:
        return self.groups.shrunk(theta.astype(np.float64), self.r) / (1.0 - self.r)

    def prox(self, v: np.ndarray, steps: np.ndarray) -> np.ndarray:
        return self.groups.shrunk(v, self.groups.smallest(steps) * self.r) / (1.0 + steps * (1.0 - self.r))

    def pieces(self, size: int) -> tuple[np.ndarray, Pieces] | None:
        return self.groups.pieces(self.r, 1.0 - self.r)


class ExclusiveLasso(ByEntry, Grouped, Square):
    """R(w) = 1/2 sum over groups of ||w_g||_1^2, R*(theta) = 1/2 sum of ||theta_g||_inf^2."""

    name = "exclusive"
    groups: Groups

    def value(self, w: np.ndarray) -> float:
        return 0.5 * lp_norm(self.groups.sums(np.abs(w)), 2.0) ** 2

    def gauge(self, theta: np.ndarray) -> float:
        largest = np.zeros(self.groups.count)
        np.maximum.at(largest, self.groups.of, np.abs(theta))
        return lp_norm(largest, 2.0)

    def prox(self, v: np.ndarray, steps: np.ndarray) -> np.ndarray:
        # |w_j| = (|v_j| - steps_j s)_+ with s = ||w_g||_1. It is the largest s_k = sum |v_j| / (1 + sum steps_j),
        # summed over the k columns with the largest |v_j| / steps_j
        sizes, groups = np.abs(v), self.groups
        order = np.lexsort((-sizes / steps, groups.of))  # by group, the largest first
        of = groups.of[order]
        summed, stepped = (np.concatenate([[0.0], np.cumsum(part[order])]) for part in (sizes, steps))
        first = groups.starts[of]
        s = np.zeros(groups.count)
        np.maximum.at(s, of, (summed[1:] - summed[first]) / (1.0 + stepped[1:] - stepped[first]))
        return np.sign(v) * np.maximum(sizes - steps * s[groups.of], 0.0)


class Group(PenaltyWord):
    """r sum over groups of sqrt(d_g) ||w_g|| + (1 - r)/2 ||w||^2, r the l1_ratio: whole groups of columns become 0."""

    groups: Any = needed(GROUPS, GROUPS_HELP)
    l1_ratio: float = entry(1.0, RATIO, "r, the share of the norms; the rest is 1/2 ||w||^2, which ascent needs")
    power: float | None = POWER

    def of_columns(self, columns: PenalisedColumns) -> Penalty:
        groups = Groups(columns.groups(self.groups))
        if self.power is not None:
            return powered(GroupLasso(groups), self.power, self.l1_ratio)
        return GroupLasso(groups) if self.l1_ratio == 1.0 else GroupNet(groups, self.l1_ratio)


class Exclusive(PenaltyWord):
    """1/2 sum over groups of ||w_g||_1^2: each group keeps a few of its own columns.

    Without groups, the weights of each column are a group: each column serves a few of several outputs.
    """

    groups: Any = entry(None, GROUPS, GROUPS_HELP + "; default: one group a column, of the weights of all outputs")

    @property
    def of_lines(self) -> bool:
        return self.groups is None

    def of_columns(self, columns: PenalisedColumns) -> Penalty:
        if self.groups is not None:
            return ExclusiveLasso(Groups(columns.groups(self.groups)))
        if columns.lines == 1:
            raise UsageError(
                "exclusive without groups is about the outputs of each column, and here is one output; name the groups "
                "of the columns, as in `penalty=exclusive:FILE`"
            )
        return ExclusiveColumns()


PENALTIES = (Group, Exclusive)
