"""Steps that rows take on their way to the solver: of `transform`, a scale, a map. Each is learned in one read."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from streammargin.compiled import gram as sums_of
from streammargin.compiled.columns import add_moments
from streammargin.driver.learn.ranges import bytes_of_spread, much_apart
from streammargin.driver.status.outcome import MeasuredColumns
from streammargin.driver.status.progress import MAPPING, SCALING, TRANSFORMING
from streammargin.errors import DataError, UsageError
from streammargin.maps import make_map
from streammargin.maps.base import Map, MapSums
from streammargin.maps.fitted import Fitted
from streammargin.options.table import Options
from streammargin.points.base import Point, Start
from streammargin.points.mapped import mapped
from streammargin.reading.labels import LabelReader
from streammargin.reading.plan import least_budget, make_plan
from streammargin.reading.prefetch import BlockReader
from streammargin.rows.blocks import Block, CSRBlock, alone, taken, values_of
from streammargin.sizes import parse_size
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import EVERY_COLUMN, Axis, Count, D, Stored, Sum, Total, f8, i4, i8, of, state
from streammargin.solvers.state import Visited
from streammargin.sources.base import Source
from streammargin.sources.views import MappedSource, ScaledSource, TransformedSource
from streammargin.transforms.base import TransformSums as SeenColumns
from streammargin.transforms.chain import STEPPED_VALUES, Chain, Link
from streammargin.transforms.clipped import Clipped
from streammargin.wording import note

# Largest |mean| of the targets, or of a column, in units of their spread. The saved constant includes the subtracted
# mean, so the scores lose that many digits.
FARTHEST = 4e6


class Step(ABC):
    """A step that rows go through. The read uses `memory` bytes, or the minimum if that is more.

    `source`        the rows before this step.
    `kind_of_sums`  the state that a read of them adds to.
    `leaves`        whether blocks may be split, else they come in order.
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
        few = max(1, STEPPED_VALUES // problem.features)
        for low in range(0, block.rows(), few):
            sums.counts += weights[low : low + few] @ (block.X[low : low + few] != 0.0)

    def finish(self, sums: Counts) -> None:
        self.reader.release()
        self.chain.learn(SeenColumns(sums.counts, sums.mass))

    def answer(self, point: Point) -> Point:
        return point

    def start(self, point: Start, column: float) -> Start:
        return point.scaled(None, None, column)


@state
class DrawnMoments(Visited):
    """moments: of compiled/gram.py, over the present rows; seen: rows so far.

    The drawn rows one after the other: their values, and of sparse rows the columns of these; sizes: values of each.
    """

    moments: Sum[f8] = of(sums_of.MOMENTS, largest=(sums_of.LARGEST_SQUARED_NORM,))
    values: Sum[Stored] = of(0, grows=True)
    columns: Sum[i4] = of(0, grows=True)
    sizes: Sum[i8] = of(0, grows=True)
    seen: Count = 0


class Mapping(Step):
    """The map of a training. present: the rows of the training, of which the sample is drawn, each one alike.

    fitted: the map, which has learned nothing before `finish`.
    """

    fitted: Fitted
    kind_of_sums = DrawnMoments
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
    def add(problem: Problem, sums: DrawnMoments, drawn: np.ndarray, block: Block, first: int) -> None:
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

    def finish(self, sums: DrawnMoments) -> None:
        self.reader.release()
        if sums.seen < self.source.rows:  # the training ended in this read
            return
        source = self.source
        if not np.isfinite(sums.moments).all():
            raise UsageError(f"{source.name}: squares of values overflow in the map; use `scale=std`")
        self.fitted.map = self._asked.resolved(source.features, sums_of.variance_of(sums.moments, source.features))
        self.fitted.learned = self.fitted.map.learn(MapSums(source.features, self._sample(sums), self._seed))

    def _sample(self, sums: DrawnMoments) -> Any:
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


FAR_IN_DEVIATIONS = 100.0  # |mean| of a column, in units of its standard deviation, that `auto` subtracts


def far_from_0(mean: np.ndarray, size: np.ndarray) -> bool:
    """Whether a column that may be centred is FAR_IN_DEVIATIONS from 0; size: the standard deviations (d,)."""
    there = (size > 0.0) & (np.abs(mean) <= FARTHEST * size)
    return bool(np.any(there & (np.abs(mean) > FAR_IN_DEVIATIONS * size)))


WITH_CONSTANT = Axis(lambda problem: problem.features + 1, name="d+1")


@state
class Moments(Visited):
    """Sums over the present rows: largest |x| (d,), mean and sum of squares around it (d,), and mass (d+1,).

    mass: of the rows with a stored value in each column, and of all rows.
    """

    largest: Sum[f8] = of(D, largest=EVERY_COLUMN)
    mean: Sum[f8] = of(D)
    spread: Sum[f8] = of(D)
    mass: Sum[f8] = of(WITH_CONSTANT)

    def align(self, other: Moments) -> None:
        """Change the other's so that they add up (Chan, Golub and LeVeque 1979)."""
        rows = np.array([self.mass[:-1], other.mass[:-1]])
        if not rows.any():  # dense: each row has a value in every column
            rows += [[self.mass[-1]], [other.mass[-1]]]
        share = np.divide(rows[1], rows.sum(axis=0), out=np.zeros(len(self.mean)), where=rows[1] > 0.0)
        apart = other.mean - self.mean
        other.spread += apart**2 * share * rows[0]
        other.mean[:] = apart * share


class Scaling(Step):
    """Scale each column to x / max|x|, or (x - mean) / standard deviation, over the present rows.

    `auto` is `std` if the largest |x| of the columns differ by more than MUCH, or if a dense column is
    FAR_IN_DEVIATIONS from 0. Otherwise it changes nothing.

    Sparse columns are divided, never centred. With `std`, a constant sparse column keeps its scale and a constant dense
    column becomes 0.
    Scaled values are clipped to -clip .. clip. center, factor (d,) float64 are 0 and 1 until `finish` sets them in
    place. Sources that hold them see the change.
    measured: means and standard deviations of the columns as stored; None before `finish`, or if one overflows.
    """

    kind_of_sums = Moments

    def __init__(
        self, source: Source, kind: str, labels: LabelReader, memory: int, clip: float = math.inf
    ) -> None:  # fmt: skip
        super().__init__(source, labels, memory)
        self.kind: str = kind
        self.clip: float = clip
        self.center: np.ndarray = np.zeros(source.features)
        self.factor: np.ndarray = np.ones(source.features)
        self.measured: MeasuredColumns | None = None

    @staticmethod
    def nbytes(features: int) -> int:
        """Bytes of its eight vectors; one of them has an entry for the row count too."""
        return 8 * (8 * features + 1)

    def taken(self, source: Source) -> ScaledSource:
        return ScaledSource(source, self.center, self.factor, self.clip)

    @property
    def link(self) -> Link | None:
        """The last step of rows, of a scale that clips: no weights for unscaled rows give the same scores."""
        if self.clip == math.inf:
            return None
        return Link(Clipped(self.clip), ScaledSource.dtype, {"center": self.center, "factor": self.factor})

    @staticmethod
    def add(problem: Problem, sums: Moments, block: Block, first: int) -> None:
        own = sums.labels.cut(first, first + block.rows())
        add_moments(block, own.codes_of(0), own.weights, sums.largest, sums.mean, sums.spread, sums.mass)

    def finish(self, sums: Moments) -> None:
        """Compute center and factor after the last block. DataError for a column that cannot be scaled."""
        self.reader.release()
        largest, name = sums.largest, self.source.name
        found = self._deviations(sums)
        if np.isfinite(found).all():
            self.measured = None if self.link else MeasuredColumns(self._means(sums), found, self.source.rows)
        if self.kind == "auto":
            apart = much_apart(largest)
            if not (apart or (not self.source.sparse and far_from_0(sums.mean, found))):
                note("`scale=auto` left the columns as they are: their ranges are alike, and none is far from 0")
                return
            why = "the ranges of columns differ over a thousandfold" if apart else "a column is far from 0"
            note(f"`scale=auto` took `scale=std`, as {why}")
        size = largest if self.kind == "maxabs" else self._to_divide_by(sums, found)
        for column in np.flatnonzero((size > 0.0) & (size < sys.float_info.min)):
            raise DataError(
                f"{name}: the values of column {column} are at most {largest[column]:.3g}, too small to scale; "
                "multiply them by a constant"
            )
        alike = 0.0 if self.kind != "maxabs" and not self.source.sparse else 1.0
        self.factor[:] = np.divide(1.0, size, out=np.full(size.size, alike), where=size > 0.0)

    def answer(self, point: Point) -> Point:
        return point if self.link else point.unscaled(self.center, self.factor, 0.0)

    def start(self, point: Start, column: float) -> Start:
        return point.scaled(None, None, column) if self.link else point.scaled(self.center, self.factor, column)

    def _deviations(self, sums: Moments) -> np.ndarray:
        """Standard deviations (d,), 0 if a column is constant up to rounding, not finite if its squares overflow."""
        mean, spread, mass = sums.mean, sums.spread, sums.mass
        rows = mass[-1]
        if self.source.sparse:  # rows without a stored value count as 0
            stored = mass[:-1]
            spread = spread + mean**2 * (stored * ((rows - stored) / rows))
        size = np.sqrt(spread / rows)
        size[size <= sys.float_info.epsilon * sums.largest] = 0.0
        return size

    def _means(self, sums: Moments) -> np.ndarray:
        """Means (d,); of sparse rows those without a stored value count as 0."""
        return sums.mean * (sums.mass[:-1] / sums.mass[-1]) if self.source.sparse else sums.mean.copy()

    def _to_divide_by(self, sums: Moments, size: np.ndarray) -> np.ndarray:
        """Standard deviations (d,), if a column may be divided by each; sets the centers."""
        name, mean = self.source.name, sums.mean
        for column in np.flatnonzero(~np.isfinite(size)):
            raise DataError(f"{name}: the squares of column {column} overflow; use `scale=maxabs`")
        if not self.source.sparse:
            for column in np.flatnonzero((size > 0.0) & (np.abs(mean) > FARTHEST * size)):
                raise DataError(
                    f"{name}: column {column} is {mean[column]:.7g} +- {size[column]:.2g}, too far from 0 to centre: "
                    "scores on its stored values would lose the spread to rounding; subtract its mean from it, or "
                    "use `scale=maxabs`"
                )
            self.center[:] = mean
        return size


def transformed(source: Source, options: Options, chain: Chain | None = None) -> Source:
    """A source whose rows take the steps of `transform`: those of this chain, or of a new one."""
    if not options.steps:
        return source
    return TransformedSource(source, Chain.of(options.steps, source.dtype) if chain is None else chain)


def after_steps(source: Source, options: Options) -> Source:
    """A source after its scale and map, for planning: nothing can be read from it."""
    stored = source.dtype
    if options.scale != "none":
        source = ScaledSource(source, np.empty(0), np.empty(0))
    if options.map is not None:
        source = MappedSource(source, Fitted(make_map(options.map), stored))
    return source


def bytes_of_steps(source: Source, options: Options) -> int:
    """Bytes of what the scale and the map learn. UsageError for a map that draws more rows than there are."""
    scale = Scaling.nbytes(source.features) if options.scale != "none" else 0
    if options.map is None:
        return scale
    map = make_map(options.map)
    check_sample(map, source, source.rows)  # before the bytes that so many rows would take are asked for
    return scale + Mapping.nbytes(map, source)


def bytes_beside(source: Source, options: Options) -> int:
    """Bytes of the moments of columns that the first pass measures; 0 if a scale does, or the model is not linear."""
    if options.scale != "none" or options.map is not None or options.kernel is not None:
        return 0
    return bytes_of_spread(source.features, parse_size(options.memory))


def make_steps(source: Source, options: Options, labels: LabelReader, memory: int, present: int) -> dict[str, Step]:
    """The steps by the phases in which they are learned; memory: bytes for each read of them."""
    steps: dict[str, Step] = {}
    stored = source.dtype
    if isinstance(source, TransformedSource) and source.chain.learns:
        steps[TRANSFORMING] = Transforming(source, labels, memory)
    if options.scale != "none":
        kind, clip = options.scaling
        steps[SCALING] = Scaling(source, kind, labels, memory, clip)
        source = steps[SCALING].taken(source)
    if options.map is not None:
        steps[MAPPING] = Mapping(source, make_map(options.map), stored, labels, memory, present, options.seed)
    return steps
