"""Rows that are read once, front to back, in batches, and checks of their values, in NumPy without Numba."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from streammargin.errors import DataError
from streammargin.rows.blocks import entries_of
from streammargin.sources.labels import LabelColumn
from streammargin.wording import warn


class Batch(NamedTuple):
    """Rows, dense or sparse, with labels, weights and tasks (None if there are none), and names.

    Sparse: X (n, d) is None; data (nnz,), indices (nnz,) and indptr (n+1,) int64 from 0.
    """

    X: np.ndarray | None
    data: np.ndarray | None
    indices: np.ndarray | None
    indptr: np.ndarray | None
    labels: np.ndarray | None
    weights: np.ndarray | None
    tasks: np.ndarray | None = None
    ids: Any = ()

    @property
    def rows(self) -> int:
        """The number of rows."""
        if self.X is not None:
            return len(self.X)
        assert self.indptr is not None
        return len(self.indptr) - 1

    @property
    def columns(self) -> tuple[np.ndarray | None, ...]:
        """What is beside the rows, names apart."""
        return self.labels, self.weights, self.tasks

    def take(self, chosen: np.ndarray) -> Batch:
        """These rows (int64 numbers), in this order, copied; without names."""
        beside = [None if each is None else each[chosen] for each in self.columns]
        if self.X is not None:
            return Batch(self.X[chosen], None, None, None, *beside)
        assert self.data is not None and self.indices is not None and self.indptr is not None
        where, indptr = entries_of(self.indptr, chosen)
        return Batch(None, self.data[where], self.indices[where], indptr, *beside)


@dataclass
class Ordered:
    """Rows that are read once, in order, and what is known before reading.

    `name`: for messages. `features`: None if only known at the end. `names` (d,): of the columns, if there are any.
    `dtype`: in which they are kept, from `stored_as`. `label`: where the labels are from. `ids`: names of the rows, in
    order; None if there are none. `count`: of the rows, if a header says it; of the first one of several files. `key`:
    a text that changes with the files that are read. `matched`: the columns are those of the model that scores them.
    `empty`: there may be no rows. `beside`: names of columns that may be labels. `x`: the name of the rows in the file
    that is written. `obs`: the group of HDF5 with the table of cells, which is copied, or None. `line`: where a row of
    the latest batch is in its table, if they are of one.
    """

    batches: Iterator[Batch]
    sparse: bool
    features: Any
    dtype: Any
    names: np.ndarray | None = None
    label: LabelColumn | None = None
    ids: Iterator[str] | None = None
    count: int | None = None
    name: str = ""
    key: Callable[[], str] = str
    matched: bool = False
    empty: bool = False
    beside: Sequence[str] = ()
    x: str = "X"
    obs: Any = None
    line: Callable[[int], str] | None = None
    before: str = field(init=False)

    def __post_init__(self) -> None:
        self.before = self.key()

    def read(self) -> Iterator[Batch]:
        """The batches that have rows. Raises DataError if there are none, or if the files change meanwhile."""
        found = self.empty
        for batch in self.batches:
            if batch.rows:
                found = True
                yield batch
        check_same(self.key(), self.before, self.name)
        if not found:
            raise DataError(f"{self.name} has no rows; check the input")

    def place(self, row: int) -> tuple[str, int]:
        """(name of the file, row of the latest batch), as of a source; in a text the line is part of the name."""
        return self.name if self.line is None else f"{self.name}, {self.line(row)}", row

    label_place = place

    def told(self, row: int) -> str:
        """Where such a row is, as of a source."""
        where, row = self.place(row)
        return f"{where}: row {row}" if self.line is None else where


def check_same(after: str, before: str, name: str) -> None:
    """Raises DataError if the key of what was read is another one now."""
    if after != before:
        raise DataError(f"{name} was changed while it was read; start again, and do not write to it meanwhile")


def sorted_rows(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, columns: int, path: str, first: int
) -> Batch:
    """A CSR batch with sorted column indices. DataError, naming the row, for an index out of range or repeated."""
    row = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    bad = np.flatnonzero((indices < 0) | (indices >= columns))
    if bad.size:
        raise DataError(
            f"{path}: row {first + row[bad[0]]} has the column index {indices[bad[0]]}, outside 0..{columns - 1}"
        )
    step = np.diff(indices.astype(np.int64))
    inside = np.diff(row) == 0
    if np.any((step <= 0) & inside):
        order = np.lexsort((indices, row))
        data, indices = data[order], indices[order]
        twice = np.flatnonzero((np.diff(indices.astype(np.int64)) == 0) & inside)
        if twice.size:
            raise DataError(
                f"{path}: row {first + row[twice[0]]} has column {indices[twice[0]]} twice; sum the duplicates first"
            )
    if not np.isfinite(data).all():
        where = int(np.flatnonzero(~np.isfinite(data))[0])
        raise DataError(f"{path}: row {first + row[where]}, column {indices[where]} is {data[where]}; replace it first")
    return Batch(None, data, indices, indptr, None, None)


def finite_rows(X: np.ndarray, path: str, first: int) -> Batch:
    """A dense batch. Raises DataError naming the row for a value that is not finite."""
    if not np.isfinite(X).all():
        row, column = np.argwhere(~np.isfinite(X))[0].tolist()
        raise DataError(f"{path}: row {first + row}, column {column} is {X[row, column]}; replace it first")
    return Batch(X, None, None, None, None, None)


WIDER = "use `dtype=float64`"


@dataclass
class Narrowing:
    """Checks a conversion to the stored dtype: overflow is an error; loss of whole numbers or underflow warns once.

    hint: for messages, what keeps the values.
    """

    dtype: np.dtype
    path: str
    hint: str = WIDER
    said: bool = False

    def check(self, batch: Batch) -> None:
        """Raises DataError for a value of these rows that would become infinite."""
        values = batch.X if batch.X is not None else batch.data
        assert values is not None
        self.check_values(values)

    def check_values(self, values: np.ndarray) -> None:
        """The same of an array of any shape."""
        if values.dtype.kind != "f" or values.dtype.itemsize <= self.dtype.itemsize or not values.size:
            return
        largest = max(float(values.max()), -float(values.min()))
        if largest > float(np.finfo(self.dtype).max):
            raise DataError(f"{self.path}: the value {largest:g} is too large for {self.dtype}; {self.hint}")
        if self.said:
            return
        kept = values.astype(self.dtype)
        spoilt = (kept == 0.0) & (values != 0.0)
        if largest >= 2.0 ** np.finfo(self.dtype).nmant:  # smaller whole numbers are exact
            spoilt |= (kept != values) & (values == np.rint(values))
        if spoilt.any():
            one = values[spoilt][0]
            self.said = True
            warn(
                f"{self.path}: some values are lost in {self.dtype}, where {one:.17g} is stored as "
                f"{kept[spoilt][0]:.17g}; {self.hint}"
            )
