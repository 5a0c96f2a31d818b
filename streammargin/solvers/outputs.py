"""The lines of the weights: their classes, and the cost of an error in each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Outputs(NamedTuple):
    """The K lines of a problem, the rows of its weights.

    positive (K,) int64: the class with sign +1. caps (K, classes) float64: C times the class weight, inf for the hard
    margin. costs (K,): C, before the weights of classes and rows. mass (K, classes): the weights of the rows of each
    class, summed; (0, 0) if nothing asks for it. several: each line has a label or target of the rows of its own.
    tasks: of how many tasks the rows are, 0 if they are of none. A line of a value of C is one task: it has rows of
    its own, as the classes of all others have a cap of 0. The classes of a task follow those of the one before.
    """

    positive: np.ndarray
    caps: np.ndarray
    costs: np.ndarray = np.ones(1)
    mass: np.ndarray = np.zeros((0, 0))
    several: bool = False
    tasks: int = 0

    def at(self, factor: float) -> Outputs:
        """The same at `factor` times each C."""
        return self._replace(costs=self.costs * factor, caps=self.caps * factor)

    def tasks_of(self, codes: np.ndarray) -> np.ndarray:
        """The tasks (m,) of rows of these classes; -1 for absent rows."""
        return codes // (self.caps.shape[1] // self.tasks)

    def weight(self, line: int) -> float:
        """C sum_i s_i, with the weights of classes and rows."""
        return float(self.caps[line] @ self.mass[line])

    def largest_cap(self, line: int) -> float:
        """The largest of its caps, before the weights of rows."""
        return float(self.caps[line].max())
