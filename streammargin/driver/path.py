"""A path over C: from a small one to larger ones; what was proven at each, and which did best."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from streammargin.driver.outcome import Outcome, certificate_event, figures_of, plain_figures
from streammargin.errors import UsageError
from streammargin.points.table import KINDS, kind_of
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import is_count, is_number

REACH = 1e3  # the largest C is so many times the first, where it is not given
FARTHEST = 1e100  # beyond it there is no C
SAVED = ("first", "number", "table", "best")  # plain values


class Path:
    """Values of C, `count` of them, evenly spread on a log scale.

    low, high: the first and the last one. The first is else the one where w leaves 0, the last one REACH times the
    first. problem: at C = unit. table: what was proven at each value before the one at work, as in the event run_end;
    best, kept: of these the one with the smallest held-out error, the smallest such C.
    """

    def __init__(
        self, problem: Problem, unit: float, count: int, low: float | None = None, high: float | None = None
    ) -> None:
        self.problem, self.unit, self.count = problem, unit, count
        self.given, self.last = low, high
        self.first = 0.0  # until it is known
        self.number = 0  # of the value at work
        self.table: list[dict[str, Any]] = []
        self.best = -1  # its place in the table
        self.kept: Outcome | None = None

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
                f"w leaves 0 {when}, so that a path cannot begin there; name its ends, as in "
                f"`C=path:{self.count},low=0.01,high=10`"
            )
        if self.last is not None and self.last <= first:
            raise UsageError(
                f"w is 0 up to C = {first:.4g}, where the path begins; let it end at a larger one, as in "
                f"`C=path:{self.count},high={100 * first:.1g}`"
            )
        self.first = first

    def at(self) -> Problem:
        """The problem with the value at work."""
        factor = self.C / self.unit
        return replace(self.problem, costs=self.problem.costs * factor, caps=self.problem.caps * factor)

    def goes_on(self, outcome: Outcome) -> bool:
        """Whether the next value follows where the one at work ended so."""
        return self.more and outcome.reason == "tolerance"

    def go_on(self, outcome: Outcome) -> None:
        """To the next value. What is kept is copied: the training goes on in its place."""
        self.table.append(self._row(outcome))
        if self._is_best(outcome):
            self.best, self.kept = self.number, replace(outcome, point=outcome.point.copy())
        self.number += 1

    def _row(self, outcome: Outcome) -> dict[str, Any]:
        assert outcome.figures is not None and outcome.valid_errors is not None
        error = float(outcome.valid_errors[0])
        event = certificate_event(self.problem, 0, outcome.figures, outcome.wrong, error)
        names = ("primal", "gap", "margin_gap", "train_error", "valid_error")
        figures = {name: event[name] for name in names}
        return {"C": self.C, "nonzeros": outcome.point.nonzeros(), "passes": outcome.passes, **figures}

    def _is_best(self, outcome: Outcome) -> bool:
        assert outcome.valid_errors is not None
        return self.best < 0 or float(outcome.valid_errors[0]) < self.table[self.best]["valid_error"]

    def chosen(self, outcome: Outcome) -> Outcome:
        """The outcome of the value that did best, where the one at work ended so; without any, of the value at work."""
        judged = outcome.figures is not None and outcome.valid_errors is not None
        table = [*self.table, self._row(outcome)] if judged else self.table
        best = outcome if self.kept is None or (judged and self._is_best(outcome)) else self.kept
        return replace(
            outcome, point=best.point, figures=best.figures, wrong=best.wrong, valid_errors=best.valid_errors,
            C=self.C if best is outcome else self.table[self.best]["C"], path=table or None,
            converged=outcome.converged & (not self.more),
        )  # fmt: skip

    def save(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """(what JSON can hold, arrays by name)."""
        plain: dict[str, Any] = {name: getattr(self, name) for name in SAVED}
        if (best := self.kept) is None:
            return plain, {}
        wrong = None if best.wrong is None else best.wrong.tolist()
        plain |= {"kind": kind_of(best.point), "figures": plain_figures(best.figures or []), "wrong": wrong}
        return plain, best.point.arrays()

    def restore(self, plain: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """ValueError where the saved one is at no value of this one."""
        table, number, best, first = (plain[name] for name in ("table", "number", "best", "first"))
        known = is_count(number) and number < self.count and len(table) == number and -1 <= best < number
        begun = is_number(first) and (0.0 < first < np.inf if number else 0.0 <= first < np.inf)
        if not known or not begun or (number > 0) != (best >= 0):
            raise ValueError("it is on another path")
        self.first, self.number, self.table, self.best = first, number, table, best
        self.kept = None if best < 0 else self._restored(plain, arrays)

    def _restored(self, plain: dict[str, Any], arrays: dict[str, np.ndarray]) -> Outcome:
        row, kind, problem = self.table[self.best], KINDS[plain["kind"]], self.problem
        point, figures = kind.restored([arrays[name] for name in kind.ARRAYS]), figures_of(plain["figures"])
        wrong = None if plain["wrong"] is None else np.array(plain["wrong"], np.int64)
        if (point.outputs, point.features, len(figures)) != (problem.count, problem.features, problem.count):
            raise ValueError("its path keeps another point")
        if not is_number(row["valid_error"]) or (wrong is not None and wrong.shape != (problem.trials,)):
            raise ValueError("its path keeps other errors")
        errors = np.array([row["valid_error"]], np.float64)
        return Outcome("tolerance", np.ones(problem.count, bool), row["passes"], point, figures, wrong, errors)
