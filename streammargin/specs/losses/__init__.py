"""Losses of the margin u = y (x . w). A new loss is one new file here.

A loss file defines a named tuple of numbers with these methods, on the C scale of the dual
(0 <= alpha <= cap * U with cap = C s_i; see `hinges.py` for a model), and LOSSES, a table from the
name on the command line to a function of the width that makes the tuple:

    step(alpha, u, L, cap)   the new dual variable; L is the curvature along the row
    primal(u, cap)           cap * phi(u)
    dual(alpha, cap)         -cap * phi*(-alpha/cap), the row's share of the dual
    settled(alpha, cap)      True where alpha lies at a bound that a step may leave it at
    gap(alpha, u, cap)       primal - dual + alpha u >= 0, the row's share of the duality gap
    bound(cap)               the largest feasible alpha
    has_hard_margin()        whether C = inf makes sense
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from streammargin.errors import UsageError


def _load() -> dict[str, Any]:
    table: dict[str, Any] = {}
    for module in pkgutil.iter_modules(__path__):
        table.update(importlib.import_module(f"{__name__}.{module.name}").LOSSES)
    return table


LOSSES = _load()


def make_loss(name: str, width: float = 1.0) -> Any:
    """The loss of this name; width is that of the smoothed hinge. Raises UsageError if unknown."""
    if name not in LOSSES:
        raise UsageError(f"unknown loss {name!r}; the losses are {', '.join(sorted(LOSSES))}")
    return LOSSES[name](width)
