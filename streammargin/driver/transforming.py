"""Lets the steps of rows learn in one read, for `transform`."""

from __future__ import annotations

import numpy as np

from streammargin.driver.labels import LabelReader
from streammargin.driver.steps import Step
from streammargin.points.base import Point, Start
from streammargin.rows.blocks import Block, CSRBlock, alone
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import D, Sum, Total, f8, of, state
from streammargin.solvers.state import Visited
from streammargin.sources.base import Source
from streammargin.sources.transformed import TransformedSource
from streammargin.transforms.base import Seen
from streammargin.transforms.chain import PIECE


@state
class Counts(Visited):
    """counts (d,): the weight of the present rows with a value other than 0 in each column; mass: of all of them."""

    counts: Sum[f8] = of(D)
    mass: Total = 0.0


class Transforming(Step):
    """The read of the rows before their steps; rows after them are those of `source`, which sees what was learned."""

    kind_of_sums = Counts

    def __init__(self, source: TransformedSource, labels: LabelReader, memory: int) -> None:
        super().__init__(source.source, labels, memory)
        self.chain = source.chain

    def taken(self, source: Source) -> Source:
        return source if isinstance(source, TransformedSource) else TransformedSource(source, self.chain)

    @staticmethod
    def add(problem: Problem, sums: Counts, block: Block, first: int) -> None:
        own = sums.labels.cut(first, first + block.rows())
        weights = own.weights if own.weights.size else np.ones(block.rows())
        weights = np.where(own.present(slice(0, block.rows())), weights, 0.0)
        sums.mass += float(weights.sum())
        block = alone(block)
        if isinstance(block, CSRBlock):
            there = np.where(block.data != 0.0, np.repeat(weights, np.diff(block.indptr)), 0.0)
            sums.counts += np.bincount(block.indices, there, problem.features)
            return
        few = max(1, PIECE // problem.features)
        for low in range(0, block.rows(), few):
            sums.counts += weights[low : low + few] @ (block.X[low : low + few] != 0.0)

    def finish(self, sums: Counts) -> None:
        self.reader.release()
        self.chain.learn(Seen(sums.counts, sums.mass))

    def answer(self, point: Point) -> Point:
        return point

    def start(self, point: Start, column: float) -> Start:
        return point.scaled(None, None, column)
