"""What the lines of the weights stand for: their classes, and what an error in each costs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Outputs(NamedTuple):
    """The K lines of a problem, the rows of its weights.

    positive (K,) int64: the class with sign +1. caps (K, classes) float64: C times the class weight, inf for the hard
    margin. costs (K,): C, before the weights of classes and rows. mass (K, classes): the weights of the rows of each
    class, summed; (0, 0) where nothing asks for it. each (K,) int64: which of several labels or targets of a row the
    line is about; (0,) where a row has one.
    """

    positive: np.ndarray
    caps: np.ndarray
    costs: np.ndarray = np.ones(1)
    mass: np.ndarray = np.zeros((0, 0))
    each: np.ndarray = np.empty(0, np.int64)

    def at(self, factor: float) -> Outputs:
        """The same at `factor` times each C."""
        return self._replace(costs=self.costs * factor, caps=self.caps * factor)

    def only(self, line: int) -> Outputs:
        """The same with this line alone."""
        one = slice(line, line + 1)
        return Outputs(*(array[one] for array in self))

    def output(self, line: int) -> int:
        """Which of several labels or targets of a row the line is about; 0 where a row has one."""
        return int(self.each[line]) if self.each.size else 0

    def weight(self, line: int) -> float:
        """C sum_i s_i, with the weights of classes and rows."""
        return float(self.caps[line] @ self.mass[line])

    def largest_cap(self, line: int) -> float:
        """The largest of its caps, before the weights of rows."""
        return float(self.caps[line].max())
