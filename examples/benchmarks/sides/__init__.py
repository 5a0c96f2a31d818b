"""The programs that are measured: streammargin and its peers, one file each.

To add a peer, add a file here and its name to MODULES or PENALISED. The file defines SIDES, a dict from the name in the
rows to a Side. It imports its package in `prepare` only, so that missing packages can be named.
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

    `losses`: names of the losses it supports; in PENALISED, pairs of a loss and a penalty.

    `settings`: from the loosest to the tightest.

    `prepare(X, y, threads) -> data`: the conversion, which is not timed. For two classes y is -1 and 1. For more it is
    0, 1, ..., each against the rest.

    `solve(data, loss, C, setting, limit) -> (W, facts)`: W is (1, d) or (classes, d); limit: seconds after which to
    stop. The facts are figures to record. Their `seconds` replace those of the call; their `compile_seconds` are
    subtracted.

    `stops`: whether `solve` stops itself after `limit`; otherwise it is stopped from outside.
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
