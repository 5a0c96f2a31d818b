"""A visit: one read of rows as a value, which says what is done with each block, whoever holds the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


def nothing(problem: Any, state: Any, *arguments: Any) -> None:
    """The default before the first block, and after the last one: nothing."""


class Visit(NamedTuple):
    """each(problem, state, *arguments, block, first) adds to sums of the state, and sets numbers of its rows.

    It changes nothing else. So blocks may come in any order, and in parts (leaves.py). Rows may lie in several places,
    with a state each; their sums are merged. `first` is the number of the block's first row in the state. `arguments`
    are the same for all blocks.

    `sums` names the fields that it adds to, all of them if none is named. The state's other sums are known.
    `leaves`: blocks may be split; `square`: the sums have second derivatives. `lines`: a value is multiplied twice for
    each of them, which is counted. `cost`: multiplications of a value, if its score and its sum are not all.
    `prepare` (problem, state, *arguments, block) works on all rows in memory before their visit, in units as below.
    `keeps` is called like `each`, once for every block after its visit.

    `begin` and `end` (problem, state, *arguments) are called once, before the first block and after the last. `end`
    returns the result; until then it works in units, as below. `at_once` (problem, state) makes `end` leave out the
    rest of its units. `order` (problem, state, blocks) says which blocks come, and when.

    A visit that is `alone` has a state and all rows to itself. It works in units: a call does one, and returns the
    share that is done; None: all of it. If it is `together`, `each` gets the blocks of a step at once, (first, block).
    """

    name: str
    each: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    sums: tuple[str, ...] = ()
    leaves: bool = True
    square: bool = False
    lines: int = 0
    cost: float = 0.0
    prepare: Callable[..., Any] | None = None
    keeps: Callable[..., None] | None = None
    begin: Callable[..., None] = nothing
    end: Callable[..., Any] = nothing
    at_once: Callable[..., None] = nothing
    order: Callable[..., np.ndarray] | None = None
    alone: bool = False
    together: bool = False
