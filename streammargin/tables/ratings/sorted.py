"""Entries of a matrix in the order of its longer side: in memory if they fit, else in an HDF5 file.

Entries on disk are dealt to files by their place on the longer side. Each is sorted in memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from streammargin.errors import DataError, UsageError
from streammargin.files import cannot_write, temporary_folder
from streammargin.sizes import format_size
from streammargin.sources.arrays import ArraySource
from streammargin.sources.base import Source
from streammargin.sources.batch import Batch
from streammargin.sources.hdf5.file import open_file
from streammargin.sources.hdf5.write import writing
from streammargin.sources.view import View
from streammargin.tables.formats import files_of
from streammargin.tables.ratings.entries import Entries
from streammargin.tables.ratings.names import Names
from streammargin.tables.spool import scratch
from streammargin.wording import short, shown

RAW = np.dtype([("i", "<i4"), ("j", "<i4"), ("value", "<f8")])
SORTING = 72  # bytes for each entry that is sorted in memory
IN_MEMORY = 34  # bytes of an entry that stays in memory, with those of its labels
SHARE = 0.5  # of the budget, for entries that stay in memory
FLOAT32 = 1 << 24  # places below are exact in float32
MOST_LEVELS = 1000  # different ratings that are counted


@dataclass(frozen=True)
class Ratings:
    """source: pairs (n, 2) of places, with ratings as labels; rows, columns: names; levels: the different ratings,
    ascending, (0,) if there are very many. paths: of their files; names: of the columns that were read.
    """

    source: Source
    rows: list[str]
    columns: list[str]
    levels: np.ndarray
    paths: list[str]
    names: Sequence[str] = ()
    held_out: Source | None = None

    @property
    def sides(self) -> tuple[int, int]:
        """Rows and columns of the matrix."""
        return len(self.rows), len(self.columns)


class PairSource(ArraySource):
    """Entries in memory, counted."""

    def held_bytes(self) -> int:
        assert self._y is not None
        return self.rows * (2 * self.dtype.itemsize + 8)


class PairFile(View):
    """Entries in a file of their own, under the name of what they were read from."""

    def __init__(self, source: Source, entries: Entries) -> None:
        super().__init__(source)
        self.name, self._given = entries.name, files_of(entries.paths)

    def files(self) -> list[str]:
        return [*self._given, *self.source.files()]


class Raw:
    """Entries as they come: in memory up to `most` of them, else in a file; and what is known of them."""

    def __init__(self, path: str, most: int) -> None:
        self.path, self.most, self.count, self.levels = path, most, 0, np.empty(0)
        self.kept: list[np.ndarray] = []
        self.many = self.spilt = False
        self.ranks: tuple[np.ndarray, np.ndarray] | None = None  # the places of the names that were numbered

    def add(self, i: np.ndarray, j: np.ndarray, values: np.ndarray) -> None:
        """Append entries. Raises ReadWriteError."""
        part = np.empty(values.size, RAW)
        part["i"], part["j"], part["value"] = i, j, values
        self.kept.append(part)
        self.count += part.size
        if self.spilt or self.count > self.most:
            self._spill()
        if not self.many:
            self.levels = np.union1d(self.levels, values)
            self.many = self.levels.size > MOST_LEVELS

    def _spill(self) -> None:
        try:
            with open(self.path, "ab") as file:
                for part in self.kept:
                    part.tofile(file)
        except OSError as error:
            raise cannot_write(self.path, error) from error
        self.kept, self.spilt = [], True

    def parts(self, size: int = 1 << 20) -> Iterator[np.ndarray]:
        """The entries, some at a time, with the places of their names."""
        assert self.ranks is not None
        for part in self._read(size) if self.spilt else self.kept:
            part["i"], part["j"] = self.ranks[0][part["i"]], self.ranks[1][part["j"]]
            yield part

    def _read(self, size: int) -> Iterator[np.ndarray]:
        with open(self.path, "rb") as file:
            while (part := np.fromfile(file, RAW, size)).size:
                yield part


def rated(stack: ExitStack, entries: Entries, budget: int, near: str | None = None) -> Ratings:
    """The entries of a training. DataError for a rating that is there twice, or a row or column without one.

    near: the folder of files; None: that of temporary files. The stack removes them.
    """
    rows, columns = Names("row"), Names("column")
    folder = stack.enter_context(temporary_folder(os.path.join(near or scratch(), "")))
    raw = Raw(os.path.join(folder, "entries"), int(SHARE * budget / (SORTING + IN_MEMORY)))
    for part in entries.parts(stack):
        assert part.values is not None
        raw.add(rows.codes(part.rows, entries.name), columns.codes(part.columns, entries.name), part.values)
        if rows.nbytes + columns.nbytes > budget:
            raise UsageError(
                f"the names of {entries.name} take more than the memory, {format_size(budget)}; raise `memory`"
            )
    if not raw.count:
        raise DataError(f"{entries.name}: there is no rating; check the input")
    if entries.shape is not None:
        _check_whole(entries, rows, columns)
    raw.ranks = rows.sort(), columns.sort()
    sides = len(rows), len(columns)
    long = 1 if sides[0] <= sides[1] else 0
    dtype = np.dtype(np.float32 if max(sides) < FLOAT32 else np.float64)
    names = (rows.listed, columns.listed)
    levels = np.empty(0) if raw.many else raw.levels
    if raw.spilt:
        path = os.path.join(folder, "sorted.h5")
        _write(path, raw, long, sides[long], dtype, entries, names, budget)
        source: Source = PairFile(open_file(path, None, None, None), entries)
        stack.callback(source.close)
    else:
        found = _ordered(np.concatenate(list(raw.parts())), long, entries, names)
        source = PairSource(_pairs(found, dtype), found["value"].copy(), name=entries.name)
    return Ratings(source, *names, levels, entries.paths, entries.names)


def _pairs(part: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return np.stack([part["i"], part["j"]], axis=1).astype(dtype)


def _check_whole(entries: Entries, rows: Names, columns: Names) -> None:
    """DataError if a row or column of a matrix has no entry."""
    assert entries.shape is not None
    for names, size in zip((rows, columns), entries.shape, strict=True):
        if len(names) < size:
            lacking = next(number for number in range(size) if str(number) not in names.numbers)
            raise DataError(
                f"{entries.name}: {names.noun} {lacking} has no rating, so nothing is known of it; leave out rows and "
                "columns without a rating"
            )


def _ordered(part: np.ndarray, long: int, entries: Entries, names: tuple[list[str], list[str]]) -> np.ndarray:
    """These entries in order. DataError for a rating that is there twice."""
    first, second = ("i", "j") if long == 0 else ("j", "i")
    part = part[np.lexsort((part[second], part[first]))]
    twice = np.flatnonzero((np.diff(part["i"]) == 0) & (np.diff(part["j"]) == 0))
    if twice.size:
        i, j, value = part[int(twice[0])].tolist()
        other = float(part["value"][int(twice[0]) + 1])
        raise DataError(
            f"{entries.name}: the rating of row {short(names[0][i])}, column {short(names[1][j])} is there "
            f"twice, as {shown(value)} and {shown(other)}; keep one"
        )
    return part


def _write(
    path: str, raw: Raw, long: int, size: int, dtype: np.dtype, entries: Entries, names: tuple[list[str], list[str]],
    budget: int,
) -> None:  # fmt: skip
    """Write the entries in order to an HDF5 file of pairs, with ratings as labels."""
    field = "i" if long == 0 else "j"
    counts = np.zeros(size, np.int64)
    for part in raw.parts():
        counts += np.bincount(part[field], minlength=size)
    most = max(1 << 16, int(SHARE * budget / SORTING))
    file_of = (np.cumsum(counts) - counts) // most  # by the entries of the lines before
    piles = [f"{path}.{k}" for k in range(int(file_of[-1]) + 1)]
    with ExitStack() as opened:
        files = [opened.enter_context(open(name, "wb")) for name in piles]
        for part in raw.parts():
            where = file_of[part[field]]
            for k in np.unique(where).tolist():
                part[where == k].tofile(files[k])
    os.unlink(raw.path)
    with writing(path, False, dtype, sparse=False, features=2) as writer:
        for name in piles:
            part = _ordered(np.fromfile(name, RAW), long, entries, names)
            os.unlink(name)
            for low in range(0, part.size, 1 << 18):
                here = part[low : low + (1 << 18)]
                pairs = _pairs(here, dtype)
                writer.append(Batch(pairs, None, None, None, here["value"].copy(), None))


def held_out(entries: Entries, ratings: Ratings) -> Source:
    """Held-out entries, in memory. DataError for a row or column without a rating in the training."""
    names = Names("row", ratings.rows), Names("column", ratings.columns)
    found = [(pairs.astype(ratings.source.dtype), values) for pairs, values in entries.places(names)]
    if not found:
        raise DataError(f"{entries.name}: there is no rating; check the input")
    pairs, values = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return PairSource(pairs, values, name=entries.name)
