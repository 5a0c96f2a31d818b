"""Values of the option tol: a relative gap, or a bound on the mean gap."""

from __future__ import annotations

import math
from dataclasses import dataclass

from streammargin.kinds import Kind, Number, read_number
from streammargin.words import Family, Thing, needed


def finite(value: float) -> bool:
    """Whether a number is finite and not negative."""
    return 0.0 <= value < math.inf


class Absolute(Thing):
    """A bound on the mean gap, (primal - dual) / (C sum_i s_i), of each class and each C; C is finite."""

    gap: float = needed(Number("a number >= 0", finite, metavar="EPS"), "the largest mean gap")


FAMILY = Family("tol", "options", Absolute, {"absolute": Absolute})


@dataclass(frozen=True)
class Tolerance(Kind):
    """A number >= 0, or absolute:EPS."""

    metavar: str = "EPS|absolute:EPS"

    def read(self, text: str) -> str | float:
        return text if text[:8] == "absolute" else read_number(text)

    def check(self, what: str, value: object) -> float | Absolute:
        if isinstance(value, Absolute) or (isinstance(value, str) and value[:8] == "absolute"):
            return FAMILY.of(value)
        return Number("a number >= 0, or absolute:EPS", finite).number(what, value)
