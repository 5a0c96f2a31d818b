"""Computes the scale of every column in one read, for `scale`."""

from __future__ import annotations

import math
import sys

import numpy as np

from streammargin.driver.centre import FARTHEST
from streammargin.driver.labels import LabelReader
from streammargin.driver.ranges import much_apart
from streammargin.driver.spread import Measured
from streammargin.driver.steps import Step
from streammargin.errors import DataError
from streammargin.points.base import Point, Start
from streammargin.rows.blocks import Block
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import ALL, Axis, D, Sum, f8, of, state
from streammargin.solvers.state import Visited
from streammargin.sources.base import Source
from streammargin.sources.scaled import ScaledSource
from streammargin.transforms.chain import Link
from streammargin.transforms.clipped import Clipped
from streammargin.wording import note

FAR = 100.0  # |mean| of a column, in units of its standard deviation, that `auto` subtracts
WITH_CONSTANT = Axis(lambda problem: problem.features + 1, name="d+1")


@state
class Moments(Visited):
    """Sums over the present rows: largest |x| (d,), mean and sum of squares around it (d,), and mass (d+1,).

    mass: of the rows with a stored value in each column, and of all rows.
    """

    largest: Sum[f8] = of(D, largest=ALL)
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

    `auto` is `std` if the largest |x| of the columns differ by more than MUCH, or a dense column is FAR from 0, else it
    changes nothing.

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
        self.measured: Measured | None = None

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
        from streammargin.compiled.columns import add_moments

        own = sums.labels.cut(first, first + block.rows())
        add_moments(block, own.codes_of(0), own.weights, sums.largest, sums.mean, sums.spread, sums.mass)

    def finish(self, sums: Moments) -> None:
        """Compute center and factor after the last block. DataError for a column that cannot be scaled."""
        self.reader.release()
        largest, name = sums.largest, self.source.name
        found = self._deviations(sums)
        if np.isfinite(found).all():
            self.measured = None if self.link else Measured(self._means(sums), found, self.source.rows)
        if self.kind == "auto":
            apart = much_apart(largest)
            if not (apart or self._far(sums, found)):
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

    def _far(self, sums: Moments, size: np.ndarray) -> bool:
        """Whether a column that may be centred is FAR from 0; size: the standard deviations (d,)."""
        there = (size > 0.0) & (np.abs(sums.mean) <= FARTHEST * size)
        return not self.source.sparse and bool(np.any(there & (np.abs(sums.mean) > FAR * size)))

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
