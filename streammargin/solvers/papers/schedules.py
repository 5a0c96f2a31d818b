"""How the penalty lambda_t of a diagonal method falls with the iteration t (diagonal descent paper, section 6)."""

from __future__ import annotations

import math
from collections.abc import Callable

# what lambda_0 is divided by; past t = 1023 the power of two is inf, and the box has no walls left
DECAYS: dict[str, Callable[[int], float]] = {
    "log": math.log,
    "sqrt": math.sqrt,
    "linear": float,
    "square": lambda t: float(t) ** 2,
    "exponential": lambda t: math.ldexp(1.0, t) if t < 1024 else math.inf,
}
