"""Values of the options C and tol: numbers, a path over C from small to large, and a bound on the mean gap."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from streammargin.errors import UsageError
from streammargin.kinds import Kind, Number, Whole, read_number
from streammargin.words import Family, Thing, entry, needed

CUT = Number("a positive finite number", lambda value: 0.0 < value < math.inf, metavar="C")


class Path(Thing):
    """Values of C, evenly spaced on a log scale, each starting from the solution of the one before.

    They go from the largest C with w = 0, or `low`, to 1000 times that, or `high`. The best on held-out rows is kept.
    """

    values: int = needed(Whole(2, "K"), "how many values of C")
    low: float | None = entry(None, CUT, "the first value; none: the largest C with w = 0", kw_only=True)
    high: float | None = entry(None, CUT, "the last value; none: 1000 times the first", kw_only=True)


FAMILY = Family("C", "options", Path, {"path": Path})


@dataclass(frozen=True)
class Costs(Kind):
    """One positive number or several, infinity alone, or a path; a text is read as in the shell."""

    metavar: str = "FLOAT|inf|a,b,c|path:K"

    def read(self, text: str) -> str | list[float]:
        return text if text[:4] == "path" else [read_number(part) for part in text.split(",")]

    def check(self, what: str, value: object) -> list[float] | Path:
        if isinstance(value, Path) or (isinstance(value, str) and value[:4] == "path"):
            path = FAMILY.of(value)
            if path.low is not None and path.high is not None and not path.low < path.high:
                raise UsageError(f"a path over {what} goes up: give a low end below the high one, not {path}")
            return path
        value = value.split(",") if isinstance(value, str) else value
        several = isinstance(value, Iterable) and (isinstance(value, Sequence) or getattr(value, "ndim", 0) > 0)
        values = value if several and isinstance(value, Iterable) and not isinstance(value, bytes) else [value]
        costs = [Number().number(what, _in_text(what, cost) if isinstance(cost, str) else cost) for cost in values]
        if not costs or not all(cost > 0.0 for cost in costs):
            listed = ", ".join(f"{cost:g}" for cost in costs) or "none"
            raise UsageError(f"{what} must be positive (or inf for the hard margin), not {listed}")
        if len(costs) > 1 and math.inf in costs:
            raise UsageError(f"{what} = inf cannot be mixed with finite values; train the hard margin alone")
        return costs


def _in_text(what: str, text: str) -> float:
    """A number as the shell has it."""
    try:
        return read_number(text)
    except UsageError as error:
        raise UsageError(f"{what} must be a number, inf, several or path:K, but {error}") from None


def finite(value: float) -> bool:
    """Whether a number is finite and not negative."""
    return 0.0 <= value < math.inf


class Absolute(Thing):
    """A bound on the mean gap, (primal - dual) / (C sum_i s_i), of each class and each C; C is finite."""

    gap: float = needed(Number("a number >= 0", finite, metavar="EPS"), "the largest mean gap")


TOLERANCES = Family("tol", "options", Absolute, {"absolute": Absolute})


@dataclass(frozen=True)
class Tolerance(Kind):
    """A number >= 0, or absolute:EPS."""

    metavar: str = "EPS|absolute:EPS"

    def read(self, text: str) -> str | float:
        return text if text[:8] == "absolute" else read_number(text)

    def check(self, what: str, value: object) -> float | Absolute:
        if isinstance(value, Absolute) or (isinstance(value, str) and value[:8] == "absolute"):
            return TOLERANCES.of(value)
        return Number("a number >= 0, or absolute:EPS", finite).number(what, value)
