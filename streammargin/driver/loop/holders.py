"""Rows in several places: each holder has some that follow each other, and visits add up over all of them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from streammargin.reading.prefetch import BlockReader
from streammargin.solvers import leaves, roles
from streammargin.solvers.problem import Problem
from streammargin.solvers.visits import Visit

Visits = Sequence[tuple[Visit, Any]]
Parts: TypeAlias = list[Any]  # of each visit, a state with what some rows add to its sums


class Holders:
    """Holders in this process, of blocks of one reader that follow those of the one before.

    A class with these two members takes its place if the rows are elsewhere.

    `bounds`  where the holders' rows end.
    `ends`    the number of blocks of the reader that end with those of each holder, from 0.
    """

    def __init__(self, reader: BlockReader, ends: np.ndarray) -> None:
        self.reader, self.ends = reader, ends
        self.bounds: np.ndarray = reader.bounds[ends]

    def parts(self, visits: Visits, number: int) -> Parts:
        """The states of a holder, before its rows are visited."""
        first, stop = self.bounds[number : number + 2].tolist()
        return [roles.cut(state, first, stop, visit.sums) for visit, state in visits]

    def visit(self, problem: Problem, visits: Visits, order: np.ndarray) -> Generator[tuple[int, Parts] | None]:
        """The rows of each holder of `order`, and what its rows add to the state of each visit, in this order.

        None: the next one is not there yet.
        """
        own = [np.arange(*self.ends[number : number + 2]) for number in order.tolist()]
        with closing(self.reader.groups(np.concatenate([*own, np.empty(0, np.int64)]), 1)) as blocks:
            for number, mine in zip(order.tolist(), own, strict=True):
                first, stop = self.bounds[number : number + 2].tolist()
                parts = self.parts(visits, number)
                for _ in mine:
                    [(start, end, block, labels)] = next(blocks)
                    rows = [(start - first, block._replace(bias=problem.column))]
                    near = replace(labels.window(start, end), first=start - first)
                    for (visit, _), part in zip(visits, parts, strict=True):
                        part.labels, part.origin = near, first
                        leaves.carry_out(problem, part, visit, rows)
                yield stop - first, parts


Elsewhere = Callable[[BlockReader], Holders]  # of the rows of a reader, which it does not read itself
