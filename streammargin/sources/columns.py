"""Columns by name: rows of several files, or of one, with the columns that are wanted, in one order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from streammargin.errors import DataError, MisnamedError, UsageError
from streammargin.rows.blocks import Block, CSRBlock, DenseBlock
from streammargin.sources.base import Buffer, Source
from streammargin.sources.batch import Batch, Ordered, sorted_rows
from streammargin.sources.checks import check_block
from streammargin.sources.names import ALL_COLUMNS, Columns, as_names, check_same, chosen, equal, listed
from streammargin.sources.views import Changed, Pieced
from streammargin.wording import meant, short

IN_ORDER = 1 << 16  # bytes of indices, and a quarter of those of dense rows, that are put in order at a time
NOWHERE = 2**32 - 1  # the place of a column that is left out
R = TypeVar("R", Source, Ordered)


def alike(found: Sequence[R], columns: Columns) -> list[R]:
    """The rows with the same columns in the same order: those of `columns`, COMMON, ALL_COLUMNS or names.

    None: they have the same ones, in any order; without names, as many. Raises DataError.
    """
    known = _chosen(found, columns) if chosen(columns) else _joined(found, columns)
    return [rows if known is None else _with_columns(rows, known) for rows in found]


def _with_columns(rows: R, known: np.ndarray) -> R:
    names = _names(rows)
    if equal(known, names):
        return rows
    assert names is not None
    return reordered(rows, by_name(known, names, rows.name)[0], known)


def _names(rows: Source | Ordered) -> np.ndarray | None:
    return rows.names if isinstance(rows, Ordered) else rows.feature_names()


def _joined(found: Sequence[Source] | Sequence[Ordered], columns: Columns) -> np.ndarray | None:
    """The names (d,) of the columns of all these rows; None if they have none."""
    first, known = found[0], _names(found[0])
    for other in found[1:]:
        names = _names(other)
        if known is None or names is None:
            check_same(known, names, first.name, other.name)
            if other.features != first.features:
                here, there = (each.features or "an unknown number of" for each in (other, first))
                raise DataError(
                    f"{other.name} has {here} columns but {first.name} has {there}; "
                    "give all the same columns; for files use streammargin-data convert with the same --features"
                )
        elif not equal(known, names):
            order, more = by_name(known, names, other.name, first.name)
            shared = known[order >= 0]
            if columns is None and (more or len(shared) < len(known)):
                raise DataError(
                    f"{other.name} has {len(names)} columns and {first.name} has {len(known)}, and {len(shared)} are "
                    "in common; train on these with `columns=common`, or on all with `columns=all`, where a missing "
                    "one is 0; score one file at a time"
                )
            known = np.append(known, np.array(more, object)) if columns == ALL_COLUMNS else shared
    if known is not None and not len(known):
        raise DataError(f"{first.name} and the other files have no column in common; give each the same names")
    return known


def _chosen(found: Sequence[Source] | Sequence[Ordered], columns: Sequence[str]) -> np.ndarray:
    """These names (d,), which all these rows have."""
    known = as_names(columns, "`columns`")
    for rows in found:
        if (names := _names(rows)) is None:
            raise UsageError(f"{rows.name} has no column names, and `columns` chooses by name; leave it out")
        order, _ = by_name(known, names, rows.name, "`columns`")
        if (order < 0).any():
            lacking = known[order < 0]
            hint = meant(lacking[0], names) or "correct the name"
            raise MisnamedError(f"{rows.name} has no column {listed(lacking)} for `columns`; {hint.strip()}")
    return known


def by_name(known: np.ndarray, given: np.ndarray, name: str, whose: str = "the model") -> tuple[np.ndarray, list[str]]:
    """(order (d,): column j of `known` is column order[j] of the given ones, -1: missing; the names of the others).

    name, whose: of what has the given and the known ones. Raises DataError if a name occurs twice.
    """
    for names, of in ((given, name), (known, whose)):
        if len(set(names)) < len(names):
            twice, times = Counter(names).most_common(1)[0]
            raise DataError(
                f"{of} has {times} columns named {short(twice)}, so those of {name} cannot be matched by name; give "
                "every column a name of its own"
            )
    place = {name: column for column, name in enumerate(given.tolist())}
    return np.array([place.pop(name, -1) for name in known.tolist()], np.int64), list(place)


def reordered(rows: R, order: np.ndarray, names: np.ndarray | None) -> R:
    """The same rows: column j is their column order[j], or 0 if that is -1; others are left out. names: of these."""
    if isinstance(rows, Ordered):
        width = rows.features
        batches = _batches(rows, order, _places(order, width))
        return replace(rows, batches=batches, features=len(order), names=names)
    return (_Sparse if rows.sparse else _Dense)(rows, order, names)


def _places(order: np.ndarray, features: int) -> np.ndarray:
    """The place of each stored column, uint32."""
    found = np.full(features, NOWHERE, np.uint32)
    present = np.flatnonzero(order >= 0)
    found[order[present]] = present
    return found


def _take(order: np.ndarray, X: np.ndarray, out: np.ndarray) -> np.ndarray:
    """The columns of dense rows."""
    np.take(X, order, axis=1, out=out, mode="wrap")
    out[:, order < 0] = 0
    return out


def _move(place: np.ndarray, data: np.ndarray, indices: np.ndarray, indptr: np.ndarray) -> int:
    """Give entries of sparse rows their places, and close the gaps, all in the arrays; returns how many are left.

    Indices may be unsorted then.
    """
    done, step = 0, IN_ORDER // place.itemsize
    for low in range(0, indices.size, step):
        high = min(indices.size, low + step)
        found = place[indices[low:high]]
        ends = np.append(0, np.cumsum(keep := found != NOWHERE))
        here = slice(*np.searchsorted(indptr, (low, high), side="right"))
        indptr[here] = done + ends[indptr[here] - low]
        stop = done + int(ends[-1])
        data[done:stop], indices[done:stop] = data[low:high][keep], found[keep]
        done = stop
    return done


def _batches(found: Ordered, order: np.ndarray, place: np.ndarray) -> Iterator[Batch]:
    first = 0
    for batch in found.batches:
        if batch.X is not None:
            yield batch._replace(X=_take(order, batch.X, np.empty((batch.rows, len(order)), batch.X.dtype)))
        else:
            assert batch.data is not None and batch.indices is not None and batch.indptr is not None
            data, indices, indptr = batch.data.copy(), batch.indices.astype(np.uint32), batch.indptr.copy()
            left = _move(place, data, indices, indptr)
            made = sorted_rows(data[:left], indices[:left], indptr, len(order), found.name, first)
            yield batch._replace(data=made.data, indices=made.indices, indptr=indptr)
        first += batch.rows


class _Named(Changed):
    """Columns of another source, in another order. Values are checked here, as errors name the columns as stored."""

    names: np.ndarray | None

    def task_column(self) -> Source | None:
        return self.source.task_column()

    def schema(self) -> dict[str, Any] | None:
        return None  # of the columns as stored

    def feature_names(self) -> np.ndarray | None:
        return self.names

    def names_bytes(self) -> int:
        return -(-self.source.names_bytes() * self.features // self.source.features)


class _Sparse(_Named):
    """Sparse rows; nnz counts what is stored."""

    def __init__(self, source: Source, order: np.ndarray, names: np.ndarray | None) -> None:
        super().__init__(source)
        self.features, self.names = len(order), names
        self._place = _places(order, source.features)

    def held_bytes(self) -> int:
        return self.source.held_bytes() + self._place.nbytes + 7 * IN_ORDER  # of `_move`

    def read(self, start: int, stop: int, buffer: Buffer) -> Block:
        block = check_block(self.source, self.source.read(start, stop, buffer), start)
        assert isinstance(block, CSRBlock)
        left = _move(self._place, block.data, block.indices, block.indptr)  # the reader sorts them
        return block._replace(data=block.data[:left], indices=block.indices[:left], width=self.features)


class _Dense(_Named, Pieced):
    """Dense rows."""

    def __init__(self, source: Source, order: np.ndarray, names: np.ndarray | None) -> None:
        Pieced.__init__(self, source, len(order), source.dtype, 4 * IN_ORDER)
        self.order, self.names = order, names

    def held_bytes(self) -> int:
        return super().held_bytes() + self.order.nbytes

    def fill(self, block: Block, out: np.ndarray) -> None:
        assert isinstance(block, DenseBlock)
        _take(self.order, block.X, out)
