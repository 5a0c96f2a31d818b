"""A path over C: train at increasing values of C, keep what was proven at each, and choose the best."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from streammargin.driver.status.outcome import Outcome, certificate_event, figures_of
from streammargin.errors import UsageError
from streammargin.points.table import KINDS, kind_of
from streammargin.saved.header import check_answer
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import is_count, is_number

DEFAULT_RATIO = 1e3  # of the largest C to the smallest, if the largest is not given
FARTHEST = 1e100  # largest C that a path may begin at
SAVED = ("first", "number", "table", "best", "early")  # plain values


@dataclass
class RunPath:
    """`count` values of C, evenly spaced on a log scale.

    `problem`       the problem at C = unit.
    `low`, `high`   the first and the last value. By default the first is the largest C at which w = 0 is optimal, and
                    the last is DEFAULT_RATIO times the first.
    `first`         0 while it is not known.
    `number`        index of the current value.
    `table`         what was proven at each earlier value, as in the event run_end.
    `best`, `kept`  index and outcome of the value with the smallest held-out error; with the smallest C of equal
                    errors.
    `early`         whether early stopping ended the training at one of them.
    """

    problem: Problem
    unit: float
    count: int
    low: float | None = None
    high: float | None = None
    first: float = 0.0
    number: int = 0
    table: list[dict[str, Any]] = field(default_factory=list)
    best: int = -1
    kept: Outcome | None = None
    early: bool = False

    @property
    def C(self) -> float:
        """The current value."""
        return self._value(self.number)

    def _value(self, number: int) -> float:
        if not self.first:
            return self.unit
        if number == self.count - 1 and self.high is not None:
            return self.high
        ratio = DEFAULT_RATIO if self.high is None else self.high / self.first
        return float(self.first * ratio ** (number / (self.count - 1)))

    @property
    def step(self) -> float:
        """The ratio of the current value to the one before it."""
        return self.C / self._value(self.number - 1)

    @property
    def more(self) -> bool:
        """Whether larger values follow."""
        return self.number + 1 < self.count

    def begin(self, factor: float) -> None:
        """Fix the first value, given that w = 0 is known to be optimal up to C = factor * unit.

        UsageError if no such C exists, or if it is not below the last value.
        """
        first = factor * self.unit if self.low is None else self.low
        if not 0.0 < first < FARTHEST:
            when = "every C (no column separates rows)" if first > 0.0 else "no C > 0 here"
            raise UsageError(
                f"w = 0 is optimal at {when}, so the path has no default first C; name its ends, as in "
                f"`C=path:{self.count},low=0.01,high=10`"
            )
        if self.high is not None and self.high <= first:
            raise UsageError(
                f"w = 0 is optimal up to C = {first:.4g}, and the path begins there; end it at a larger C, as in "
                f"`C=path:{self.count},high={100 * first:.1g}`"
            )
        self.first = first

    def at(self, C: float | None = None) -> Problem:
        """The problem at the current value, or at this one."""
        return self.problem.at((self.C if C is None else C) / self.unit)

    def goes_on(self, outcome: Outcome) -> bool:
        """Whether to go on to the next value after this outcome."""
        return self.more and outcome.reason in ("tolerance", "early_stop")

    def go_on(self, outcome: Outcome) -> None:
        """Go on to the next value. The best outcome is copied, as the training reuses its arrays."""
        self.table.append(self._row(outcome))
        self.early = self.early or outcome.reason == "early_stop"
        if self._is_best(outcome):
            point = outcome.point.copy()
            zeros = None if outcome.zeros is None else point.zeros
            self.best, self.kept = self.number, replace(outcome, point=point, zeros=zeros)
        self.number += 1

    def _row(self, outcome: Outcome) -> dict[str, Any]:
        assert outcome.figures is not None
        error = None if outcome.valid_errors is None else float(outcome.valid_errors[0])
        event = certificate_event(self.at(), 0, outcome.figures, outcome.wrong, error)
        names = ("primal", "gap", "mean_gap", "margin_gap", "train_error", "valid_error")
        figures = {name: event[name] for name in names}
        kept = None if outcome.kept is None else int(outcome.kept[0])
        return {"C": self.C, "nonzeros": outcome.point.nonzeros(), "passes": outcome.passes, "pass": kept, **figures}

    def _is_best(self, outcome: Outcome) -> bool:
        assert outcome.valid_errors is not None
        return self.best < 0 or float(outcome.valid_errors[0]) < self.table[self.best]["valid_error"]

    def chosen(self, outcome: Outcome) -> Outcome:
        """The outcome at the best value so far, `outcome` included; `outcome` itself if no value was judged.

        The table has a row for each value that was judged, and for the best one, if figures of it are known.
        """
        judged = outcome.figures is not None and outcome.valid_errors is not None
        best = outcome if self.kept is None or (judged and self._is_best(outcome)) else self.kept
        known = judged or (best is outcome and outcome.figures is not None)
        table = [*self.table, self._row(outcome)] if known else self.table
        C = self.C if best is outcome else self.table[self.best]["C"]
        unproven = [one for one, of in ((C, best), (self.C, outcome)) if not of.converged.all()]
        ended = not self.more and outcome.reason != "signal"
        chosen = replace(
            outcome, point=best.point, figures=best.figures, wrong=best.wrong, valid_errors=best.valid_errors,
            C=C, path=table or None, converged=best.converged & ended, kept=best.kept, zeros=best.zeros,
            reason="early_stop" if self.early and outcome.reason == "tolerance" else outcome.reason,
            unproven=sorted(set(unproven)),
        )  # fmt: skip
        return chosen.of_kept() if chosen.converged.all() else chosen

    def save(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """(plain values for JSON, arrays by name)."""
        plain: dict[str, Any] = {name: getattr(self, name) for name in SAVED}
        if (best := self.kept) is None:
            return plain, {}
        wrong = None if best.wrong is None else best.wrong.tolist()
        arrays = best.point.arrays() | ({} if best.zeros is None else {"zeros": best.zeros})
        words = {name: str(arrays.pop(name)) for name in list(arrays) if arrays[name].dtype.kind == "U"}
        figures = list(map(asdict, best.figures or []))
        return plain | {"kind": kind_of(best.point), "figures": figures, "wrong": wrong, "words": words}, arrays

    def restore(self, plain: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """The inverse of `save`. ValueError if the saved path does not fit this one."""
        table, number, best, first = (plain[name] for name in ("table", "number", "best", "first"))
        known = is_count(number) and number < self.count and len(table) == number and -1 <= best < number
        begun = is_number(first) and (0.0 < first < np.inf if number else 0.0 <= first < np.inf)
        if not known or not begun or (number > 0) != (best >= 0):
            raise ValueError("its path over C is a different one")
        if not isinstance(plain["early"], bool):
            raise ValueError(f"its path says {plain['early']!r} of early stopping")
        self.first, self.number, self.table, self.best, self.early = first, number, table, best, plain["early"]
        self.kept = None if best < 0 else self._restored(plain, arrays)

    def _restored(self, plain: dict[str, Any], arrays: dict[str, np.ndarray]) -> Outcome:
        row, problem = self.table[self.best], self.problem
        own = {**arrays, **{name: np.array(word) for name, word in plain["words"].items()}}
        check_answer(plain["kind"], own)
        point, figures = KINDS[plain["kind"]].restored(own), figures_of(plain["figures"])
        wrong = None if plain["wrong"] is None else np.array(plain["wrong"], np.int64)
        if (point.outputs, point.features, len(figures)) != (problem.count, problem.features, problem.groups):
            raise ValueError("the best weights of its path have another shape")
        zeros = arrays.get("zeros")
        if zeros is not None and (zeros.shape, zeros.dtype) != ((problem.count, problem.features), bool):
            raise ValueError("the zeros of its path have another shape")
        if not is_number(row["valid_error"]) or (wrong is not None and wrong.shape != (problem.trials,)):
            raise ValueError("the errors of its path have another shape")
        errors = np.array([row["valid_error"]], np.float64)
        converged = np.array([self.at(row["C"]).reached(k, one) for k, one in enumerate(figures)])
        kept = None if row["pass"] is None else np.array([row["pass"]], np.int64)
        return Outcome("tolerance", converged, row["passes"], point, figures, wrong, errors, kept=kept, zeros=zeros)
