"""Early stopping: keeps the pass with the smallest held-out error, and counts the passes since."""

from __future__ import annotations

import numpy as np

from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.kept import Kept


class EarlyStop:
    """All classes of one value of C have one error. Each value of C has its own best pass, its own count and end.

    patience: the passes in a row without a smaller error that end the training.
    """

    def __init__(self, problem: Problem, patience: int, kept: Kept) -> None:
        self.patience: int = patience
        self.kept: Kept = kept
        self._each = problem.groups // problem.trials

    @property
    def keeps(self) -> bool:
        """Whether a pass has an error yet, so that there is a best one."""
        return bool(self.kept.passes.all())

    @property
    def stopped(self) -> np.ndarray:
        """The values of C whose error has not fallen for `patience` passes, (trials,) bool."""
        return self.kept.in_vain >= self.patience

    def over(self, k: int) -> bool:
        """Whether group k belongs to such a value of C."""
        return bool(self.stopped[k // self._each])

    def count_for(self, active: np.ndarray) -> None:
        """Count the current pass for the values of C of the groups in `active`: it changed no others."""
        self.kept.counted[:] = False
        self.kept.counted[active // self._each] = True

    def score(self, number: int, errors: np.ndarray) -> list[int]:
        """Take the errors (trials,) of pass `number`; an error of nan counts as inf.

        Returns the values of C of which this pass is the best so far: its weights are to be kept.
        """
        kept, errors, best = self.kept, np.where(np.isnan(errors), np.inf, errors), []
        for trial in np.flatnonzero(kept.counted).tolist():
            if errors[trial] < kept.errors[trial] or not kept.passes[trial]:
                best.append(trial)
                kept.errors[trial], kept.passes[trial], kept.in_vain[trial] = errors[trial], number, 0
            else:
                kept.in_vain[trial] += 1
        return best

    def check(self, number: int) -> None:
        """ValueError if the counts do not belong to a training of `number` passes."""
        kept = self.kept
        counts = np.concatenate([kept.passes, kept.in_vain])
        if np.any((counts < 0) | (counts > number)) or np.any((kept.passes > 0) != kept.passes.all()):
            raise ValueError("its best pass is one that was never made")
