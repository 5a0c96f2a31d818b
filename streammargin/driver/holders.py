"""Rows in several places: each holder has some that follow each other, and visits add up over all of them."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from streammargin.driver.prefetch import BlockReader, ReadCounts
from streammargin.solvers import leaves, roles
from streammargin.solvers.base import multiplications
from streammargin.solvers.problem import Problem
from streammargin.solvers.visits import Visit

Visits = Sequence[tuple[Visit, Any]]


class Holders:
    """Holders in this process: a reader each, of rows that follow those of the one before.

    A class with these two members takes its place where the rows are elsewhere. bounds: where the holders' rows end.
    counts: of all that they read.
    """

    bounds: np.ndarray

    def __init__(self, readers: Sequence[BlockReader], counts: ReadCounts) -> None:
        self.readers = readers
        self.bounds = np.array([0, *(reader.bounds[-1] for reader in readers)])
        for reader in readers:
            reader.counts = counts

    def visit(self, problem: Problem, visits: Visits, order: np.ndarray) -> Generator[tuple[int, list[Any]]]:
        """The rows of each holder of `order`, and what its rows add to the state of each visit, in this order."""
        for number in order.tolist():
            reader, (first, stop) = self.readers[number], self.bounds[number : number + 2].tolist()
            parts = [roles.cut(state, first, stop, visit.sums) for visit, state in visits]
            blocks = reader.groups(np.arange(len(reader.bounds) - 1), 1)
            for [(start, end, block, labels)] in blocks:
                rows = [(start - first, block._replace(bias=problem.column))]
                own = replace(labels.window(start, end), first=start - first)
                for (visit, _), part in zip(visits, parts, strict=True):
                    part.labels = own
                    leaves.carry_out(problem, part, visit, rows)
                    if visit.lines:
                        part.multiplications += multiplications(rows, visit.lines)
            yield stop - first, parts
