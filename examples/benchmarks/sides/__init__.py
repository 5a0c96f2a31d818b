"""Who is measured: ours and the peers, a file each. Adding a peer is one file here and a name in MODULES or
PENALISED.

Such a file has SIDES, a table from the name in the rows to a Side. Its package is imported in `prepare` only, so
that one that is not installed can be named.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

MODULES = ("liblinear", "scikit", "snap", "wabbit")
PENALISED = ("algorithm1", "highs", "sparse")  # whose `loss` is a loss beside a penalty, judge.Penalised
OURS = "streammargin"


class Side(NamedTuple):
    """One way to solve min 1/2 ||w||^2 + C sum phi(y x.w), without a constant column.

    losses : names of the losses it can be held to; of PENALISED: pairs of a loss and a penalty
    settings : from the loosest to the tightest
    prepare(X, y, threads) -> data : the conversion, which no clock counts; y is -1 and 1, or 0, 1, ... for more
        classes, each against the rest
    solve(data, loss, C, setting, limit) -> (W, facts) : W (1, d) or (classes, d); facts: figures worth keeping,
        of them `seconds` in place of the call's and `compile_seconds` to take off.
        limit: seconds after which to give up
    stops : whether it does so by itself; it is stopped from outside otherwise
    """

    losses: tuple[str, ...]
    settings: tuple[Any, ...]
    prepare: Callable[..., Any]
    solve: Callable[..., Any]
    stops: bool = False


def peers(modules: tuple[str, ...] = MODULES) -> dict[str, Side]:
    """All sides but ours."""
    table: dict[str, Side] = {}
    for module in modules:
        table.update(importlib.import_module(f"{__name__}.{module}").SIDES)
    return table


def find(name: str) -> Side:
    """The side of a name; `streammargin SOLVER` is ours with that solver."""
    if name.startswith(OURS):
        from examples.benchmarks.sides.ours import ours

        return ours(name.removeprefix(OURS).strip())
    return peers(MODULES + PENALISED)[name]
