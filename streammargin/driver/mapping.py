"""Learns a map in one read, for `map`: from a sample of the rows, and from what their values add up to."""

from __future__ import annotations

from typing import Any

import numpy as np

from streammargin.compiled import gram as sums_of
from streammargin.driver.labels import LabelReader
from streammargin.driver.steps import Step
from streammargin.errors import UsageError
from streammargin.maps.base import Map, Seen
from streammargin.maps.fitted import Fitted
from streammargin.points.base import Point, Start
from streammargin.points.mapped import mapped
from streammargin.rows.blocks import Block, CSRBlock, alone, taken, values_of
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import Count, Stored, Sum, f8, i4, i8, of, state
from streammargin.solvers.state import Visited
from streammargin.sources.base import Source
from streammargin.sources.mapped import MappedSource


@state
class Drawn(Visited):
    """moments: of compiled/gram.py, over the present rows; seen: rows so far.

    The drawn rows one after the other: their values, and of sparse rows the columns of these; sizes: values of each.
    """

    moments: Sum[f8] = of(sums_of.MOMENTS, largest=(sums_of.LONGEST,))
    values: Sum[Stored] = of(0, grows=True)
    columns: Sum[i4] = of(0, grows=True)
    sizes: Sum[i8] = of(0, grows=True)
    seen: Count = 0


class Mapping(Step):
    """The map of a training. present: the rows of the training, of which the sample is drawn, each one alike.

    fitted: the map, which has learned nothing before `finish`.
    """

    fitted: Fitted
    kind_of_sums = Drawn
    leaves = False

    def __init__(
        self, source: Source, map: Map, dtype: np.dtype, labels: LabelReader, memory: int, present: int, seed: int
    ) -> None:  # fmt: skip
        super().__init__(source, labels, memory)
        check_sample(map, source, present)
        self.fitted, self._asked, self._seed = Fitted(map, dtype), map, seed
        drawn = np.sort(np.random.default_rng(seed).choice(present, map.sample, replace=False, shuffle=False))
        self._drawn = drawn if present == source.rows else _present(labels, drawn)

    @property
    def arguments(self) -> tuple[Any, ...]:
        return (self._drawn,)

    @staticmethod
    def nbytes(map: Map, source: Source) -> int:
        """About the bytes of its arrays, and of the sample while it is drawn."""
        each = source.nnz / source.rows * (source.dtype.itemsize + (12 if source.sparse else 0))
        return map.nbytes(source.features, each) + int(2 * map.sample * (each + 16.0))

    def taken(self, source: Source) -> MappedSource:
        return MappedSource(source, self.fitted)

    @staticmethod
    def add(problem: Problem, sums: Drawn, drawn: np.ndarray, block: Block, first: int) -> None:
        block = alone(block)
        own = sums.labels.cut(first, first + block.rows())
        sums_of.add_moments(block._replace(bias=0.0), own.codes_of(0), own.weights, sums.moments)
        start = sums.origin + first
        low, high = np.searchsorted(drawn, [start, start + block.rows()])
        rows = taken(block, drawn[low:high] - start)
        sums.seen += block.rows()
        sums.values = np.append(sums.values, values_of(rows).reshape(-1))
        if isinstance(rows, CSRBlock):
            sums.columns = np.append(sums.columns, rows.indices.view(np.int32))
            sums.sizes = np.append(sums.sizes, np.diff(rows.indptr))

    def finish(self, sums: Drawn) -> None:
        self.reader.release()
        if sums.seen < self.source.rows:  # the training ended in this read
            return
        source = self.source
        if not np.isfinite(sums.moments).all():
            raise UsageError(f"{source.name}: squares of values overflow in the map; use `scale=std`")
        self.fitted.map = self._asked.resolved(source.features, sums_of.variance_of(sums.moments, source.features))
        self.fitted.learned = self.fitted.map.learn(Seen(source.features, self._sample(sums), self._seed))

    def _sample(self, sums: Drawn) -> Any:
        """The drawn rows as an array, or as a csr_array."""
        values = sums.values.astype(np.float64)
        if not self.source.sparse:
            return values.reshape(-1, self.source.features)
        import scipy.sparse as sp

        indptr = np.append(0, np.cumsum(sums.sizes))
        return sp.csr_array((values, sums.columns, indptr), (sums.sizes.size, self.source.features))

    def answer(self, point: Point) -> Point:
        return mapped(self.fitted, point, self.source.features)

    def start(self, point: Start, column: float) -> Start:
        raise AssertionError("weights of columns say nothing of mapped ones")


def check_sample(map: Map, source: Source, present: int) -> None:
    """UsageError for a map that draws more rows than there are."""
    if map.sample > present:
        fewer = map.replace(columns=present) if "columns" in map.get_params() else None
        mend = f"compare with {present} at most" if fewer is None else f"use `map={fewer}`"
        raise UsageError(
            f"the map {map.name} compares rows with {map.sample} of them, and {source.name} has {present} to train "
            f"on; {mend}"
        )


def _present(labels: LabelReader, places: np.ndarray) -> np.ndarray:
    """The numbers among all rows of those with these places, sorted, among the present ones."""
    found, before = [], 0
    for some in labels.pieces():
        present = some.first + np.flatnonzero(some.present(slice(some.first, some.first + len(some.codes))))
        low, high = np.searchsorted(places, [before, before + present.size])
        found.append(present[places[low:high] - before])
        before += present.size
    return np.concatenate(found)
