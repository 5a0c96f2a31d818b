"""Schedules of the penalty lambda_t over the iterations t (diagonal descent paper, section 6)."""

from __future__ import annotations

import math
from collections.abc import Callable

# divisors of lambda_0; beyond t = 1023 the power of two is inf, and duals are unbounded
DECAYS: dict[str, Callable[[int], float]] = {
    "log": math.log,
    "sqrt": math.sqrt,
    "linear": float,
    "square": lambda t: float(t) ** 2,
    "exponential": lambda t: math.ldexp(1.0, t) if t < 1024 else math.inf,
}
