"""A path over C: from a small one to larger ones, each from the duals and weights of the one before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from streammargin.driver.outcome import Outcome, certificate_event
from streammargin.errors import UsageError
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.figures import Figures

UNKNOWN = -1.0
REACH = 1e3  # the largest C is so many times the first, where it is not given
FARTHEST = 1e100  # beyond it there is no C


class Path:
    """Values of C, `count` of them, evenly spread on a log scale.

    ends: the first and the last one, or the last one, or none. The first is else the one where w leaves 0, and the last
    one REACH times the first. problem: at C = unit. table: what was proven at each value so far, as in the event
    run_end. What is kept is of the value with the smallest held-out error, the smallest such C.
    """

    def __init__(self, problem: Problem, unit: float, count: int, ends: Sequence[float] = ()) -> None:
        self.problem, self.unit, self.count = problem, unit, count
        self.given, self.last = ends[0] if len(ends) > 1 else None, ends[-1] if ends else None
        self.first = 0.0  # until it is known
        self.number = 0  # of the value at work
        self.table: list[dict[str, Any]] = []
        self.best = -1  # its place in the table
        self.kept: list[Figures] = []
        self.errors = np.full((2, problem.trials), UNKNOWN)  # rows missed, and the held-out error, of what is kept

    @property
    def C(self) -> float:
        """The value at work."""
        return self._value(self.number)

    def _value(self, number: int) -> float:
        if not self.first:
            return self.unit
        if number == self.count - 1 and self.last is not None:
            return self.last
        reach = REACH if self.last is None else self.last / self.first
        return float(self.first * reach ** (number / (self.count - 1)))

    @property
    def step(self) -> float:
        """How many times the value before the one at work is."""
        return self.C / self._value(self.number - 1)

    @property
    def more(self) -> bool:
        """Whether there are values to come."""
        return self.number + 1 < self.count

    def begin(self, factor: float) -> None:
        """C = unit times this factor is the largest one where w = 0 is known to be optimal.

        UsageError where the path begins there and there is none, or none below the last.
        """
        first = factor * self.unit if self.given is None else self.given
        if not 0.0 < first < FARTHEST:
            when = "at no C: no column tells rows apart" if first > 0.0 else "at any C above 0 with this penalty"
            raise UsageError(
                f"w leaves 0 {when}, so that a path cannot begin there; name both of its ends with `C`, smaller first"
            )
        if self.last is not None and self.last <= first:
            raise UsageError(f"w is 0 up to C = {first:.4g}, where the path begins; let it end at a larger `C`")
        self.first = first

    def at(self) -> Problem:
        """The problem with the value at work."""
        factor = self.C / self.unit
        return replace(self.problem, costs=self.problem.costs * factor, caps=self.problem.caps * factor)

    def keep(self, figures: list[Figures], wrong: np.ndarray | None, errors: np.ndarray | None, passes: int) -> None:
        """What was certified last at the value at work, after so many passes in all."""
        error = None if errors is None else float(errors[0])
        event = certificate_event(self.problem, 0, figures, wrong, error)
        names = ("primal", "gap", "margin_gap", "train_error", "valid_error")
        nonzeros = int(np.count_nonzero([figure.w[:-1] for figure in figures]))
        del self.table[self.number :]
        self.table.append(
            {"C": self.C, "nonzeros": nonzeros, "passes": passes, **{name: event[name] for name in names}}
        )
        best = self.table[self.best]["valid_error"] if 0 <= self.best < self.number else None
        if best is None or error is None or error < best:
            self.best, self.kept = self.number, [replace(figure, w=figure.w.copy()) for figure in figures]
            self.errors[:] = UNKNOWN
            for place, known in enumerate((wrong, errors)):
                if known is not None:
                    self.errors[place] = known

    def chosen(self, outcome: Outcome) -> Outcome:
        """The outcome with the weights that are kept and their proof; without any, of the value at work."""
        whole = outcome.converged & (not self.more)
        if not self.kept:
            return replace(outcome, converged=whole, C=self.C)
        known = [None if (one == UNKNOWN).any() else one for one in self.errors]
        wrong = None if known[0] is None else known[0].astype(np.int64)
        w = np.stack([figure.w for figure in self.kept])
        return replace(
            outcome, w=w, figures=self.kept, wrong=wrong, valid_errors=known[1], converged=whole,
            C=self.table[self.best]["C"], path=self.table,
        )  # fmt: skip
