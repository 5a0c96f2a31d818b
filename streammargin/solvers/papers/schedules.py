"""Schedules of the penalty lambda_t over the iterations t (diagonal descent paper, section 6)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import NamedTuple

from streammargin.errors import UsageError

# divisors of lambda_0; beyond t = 1023 the power of two is inf, and duals are unbounded
DECAYS: dict[str, Callable[[int], float]] = {
    "log t": math.log,
    "sqrt t": math.sqrt,
    "t": float,
    "t^2": lambda t: float(t) ** 2,
    "2^t": lambda t: math.ldexp(1.0, t) if t < 1024 else math.inf,
}


class Schedule(NamedTuple):
    """lambda_t = start / decay(t)."""

    start: float
    decay: str

    def inverse(self, t: int) -> float:
        """1 / lambda_t for t = 1, 2, ...; 0 at log 1, inf where it overflows."""
        return DECAYS[self.decay](t) / self.start


def parse_schedule(text: str) -> Schedule:
    """The schedule L0/log t, L0/sqrt t, L0/t, L0/t^2 or L0/2^t; spaces and parentheses do not matter.

    Raises UsageError for anything else.
    """
    plain = re.sub(r"[\s()]", "", str(text)).lower().replace("**", "^")
    start, _, divisor = plain.partition("/")
    names = {name.replace(" ", ""): name for name in DECAYS}
    try:
        number = float(start)
    except ValueError:
        number = math.nan
    if divisor not in names or not (0.0 < number < math.inf):
        forms = ", ".join(f"L0/{name}" for name in DECAYS)
        raise UsageError(f"`schedule` must be one of {forms} with a positive number L0, not {text!r}")
    return Schedule(number, names[divisor])
