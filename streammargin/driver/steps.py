"""Steps that rows take on their way to the solver: of `transform`, a scale, a map. Each is learned in one read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, ClassVar

from streammargin.driver.labels import LabelReader
from streammargin.driver.plan import least_budget, make_plan
from streammargin.driver.prefetch import BlockReader
from streammargin.points.base import Point, Start
from streammargin.solvers.problem import Problem
from streammargin.sources.base import Source


class Step(ABC):
    """A step that rows go through. The read uses `memory` bytes, or the minimum if that is more.

    source: the rows before this step. kind_of_sums: the state that a read of them adds to. leaves: whether blocks may
    be split, else they come in order.
    """

    kind_of_sums: ClassVar[type]
    leaves: ClassVar[bool] = True

    def __init__(self, source: Source, labels: LabelReader, memory: int) -> None:
        self.source: Source = source
        least = least_budget(source, row_bytes=labels.row_bytes)
        plan = make_plan(source, max(memory, least), 0, row_bytes=labels.row_bytes)
        self.reader: BlockReader = BlockReader(source, plan.bounds, plan.buffers, plan.resident, labels)

    def of(self, problem: Problem) -> Problem:
        """The problem with the columns of the rows before this step."""
        return replace(problem, features=self.source.features, dtype=self.source.dtype)

    @abstractmethod
    def taken(self, source: Source) -> Source:
        """Another source, training or held-out, after this step. It may be made before anything was learned."""

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The arguments of `add` before the block."""
        return ()

    @staticmethod
    @abstractmethod
    def add(problem: Problem, sums: Any, *given: Any) -> None:
        """Add one block, whose first row has this number: (*arguments, block, first)."""

    @abstractmethod
    def finish(self, sums: Any) -> None:
        """Learn what the rows say, after the last block; sources that were made before see it. DataError."""

    @abstractmethod
    def answer(self, point: Point) -> Point:
        """The point for rows before this step, given one for rows after it."""

    @abstractmethod
    def start(self, point: Start, column: float) -> Start:
        """The inverse: a point for rows after this step; column: the value of the constant column."""
