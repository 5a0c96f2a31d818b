"""Entries of a matrix in the order of its longer side: in memory if they fit, else in an HDF5 file.

Entries on disk are dealt to files by their place on the longer side. Each is sorted in memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np

from streammargin.errors import DataError, UsageError
from streammargin.files import cannot_write, make_folder, temporary_folder
from streammargin.sizes import format_size
from streammargin.sources.arrays import ArraySource
from streammargin.sources.base import Source
from streammargin.sources.batch import Batch
from streammargin.sources.hdf5.file import open_file
from streammargin.sources.hdf5.write import writing
from streammargin.sources.views import View
from streammargin.tables.formats import files_of
from streammargin.tables.ratings.entries import Entries, Names
from streammargin.wording import short, shown

RAW = np.dtype([("i", "<i4"), ("j", "<i4"), ("value", "<f8")])
SORTING = 72  # bytes for each entry that is sorted in memory
IN_MEMORY = 34  # bytes of an entry that stays in memory, with those of its labels
ENTRIES_BUDGET_SHARE = 0.5  # of the budget, for entries that stay in memory
FLOAT32 = 1 << 24  # places below are exact in float32
MOST_LEVELS = 1000  # different ratings that are counted


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


class Ratings:
    """Entries as they come, in memory if they fit, else in a file; what is known of them, and their order.

    `names`     those of rows and of columns.
    `levels`    the different ratings, ascending, (0,) if there are very many.
    `source`    pairs (n, 2) of places in order, with ratings as labels.
    `held_out`  other pairs, or none.
    """

    source: Source
    held_out: Source | None = None

    def __init__(self, entries: Entries, path: str, budget: int) -> None:
        self.entries, self.path, self.budget = entries, path, budget
        self.names = Names("row"), Names("column")
        self.count, self.levels, self.spilt = 0, np.empty(0), False
        self.kept: list[np.ndarray] = []
        self.ranks: list[np.ndarray] = []  # the places of the names that were numbered
        self.order = "i", "j"  # the longer side first

    @property
    def sides(self) -> tuple[int, int]:
        """Rows and columns of the matrix."""
        return len(self.names[0]), len(self.names[1])

    def read(self) -> None:
        """Read them all, and order their names. Raises DataError, ReadWriteError, UsageError."""
        most = int(ENTRIES_BUDGET_SHARE * self.budget / (SORTING + IN_MEMORY))
        for pairs, values in self.entries.places(self.names):
            part = np.empty(values.size, RAW)
            part["i"], part["j"], part["value"] = *pairs.T, values
            self.kept.append(part)
            self.count += part.size
            if self.spilt or self.count > most:
                self._spill()
            if self.levels.size <= MOST_LEVELS:
                self.levels = np.union1d(self.levels, values)
            if sum(names.nbytes for names in self.names) > self.budget:
                least = format_size(self.budget)
                raise UsageError(f"the names of {self.entries.name} take more than the memory, {least}; raise `memory`")
        if not self.count:
            raise DataError(f"{self.entries.name}: there is no rating; check the input")
        for names, size in zip(self.names, self.entries.shape or (), strict=False):
            if len(names) < size:
                lacking = next(number for number in range(size) if str(number) not in names.numbers)
                raise DataError(
                    f"{self.entries.name}: {names.noun} {lacking} has no rating, so nothing is known of it; leave out "
                    "rows and columns without a rating"
                )
        self.ranks = [names.sort() for names in self.names]
        if self.sides[0] <= self.sides[1]:
            self.order = "j", "i"
        if self.levels.size > MOST_LEVELS:
            self.levels = np.empty(0)

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
        for part in self._stored(size) if self.spilt else self.kept:
            part["i"], part["j"] = self.ranks[0][part["i"]], self.ranks[1][part["j"]]
            yield part

    def _stored(self, size: int) -> Iterator[np.ndarray]:
        with open(self.path, "rb") as file:
            while (part := np.fromfile(file, RAW, size)).size:
                yield part

    @property
    def dtype(self) -> np.dtype:
        """The type of places."""
        return np.dtype(np.float32 if max(self.sides) < FLOAT32 else np.float64)

    def ordered(self, part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The pairs (m, 2) of these entries in order, and their values. DataError for a rating that is there twice."""
        first, second = self.order
        part = part[np.lexsort((part[second], part[first]))]
        twice = np.flatnonzero((np.diff(part["i"]) == 0) & (np.diff(part["j"]) == 0))
        if twice.size:
            (i, j, value), (*_, other) = part[twice[0] : twice[0] + 2].tolist()
            row, column = (short(names.listed[place]) for names, place in zip(self.names, (i, j), strict=True))
            raise DataError(
                f"{self.entries.name}: the rating of row {row}, column {column} is there twice, as {shown(value)} and "
                f"{shown(other)}; keep one"
            )
        return np.stack([part["i"], part["j"]], axis=1).astype(self.dtype), part["value"].copy()

    def write(self, path: str) -> None:
        """Write the entries in order to an HDF5 file of pairs, with ratings as labels."""
        field = self.order[0]
        counts = np.zeros(max(self.sides), np.int64)
        for part in self.parts():
            counts += np.bincount(part[field], minlength=counts.size)
        most = max(1 << 16, int(ENTRIES_BUDGET_SHARE * self.budget / SORTING))
        file_of = (np.cumsum(counts) - counts) // most  # by the entries of the lines before
        piles = [f"{path}.{k}" for k in range(int(file_of[-1]) + 1)]
        with ExitStack() as opened:
            files = [opened.enter_context(open(name, "wb")) for name in piles]
            for part in self.parts():
                where = file_of[part[field]]
                for k in np.unique(where).tolist():
                    part[where == k].tofile(files[k])
        os.unlink(self.path)
        with writing(path, False, self.dtype, sparse=False, features=2) as writer:
            for name in piles:
                pairs, values = self.ordered(np.fromfile(name, RAW))
                os.unlink(name)
                for low in range(0, values.size, 1 << 18):
                    here = slice(low, low + (1 << 18))
                    writer.append(Batch(pairs[here], None, None, None, values[here], None))


def rated(stack: ExitStack, entries: Entries, budget: int, near: str | None = None) -> Ratings:
    """The entries of a training. DataError for a rating that is there twice, or a row or column without one.

    near: the folder of files; None: that of temporary files. The stack removes them.
    """
    if near:
        make_folder(near)
    folder = stack.enter_context(temporary_folder(os.path.join(near or "", "")))
    found = Ratings(entries, os.path.join(folder, "entries"), budget)
    found.read()
    if found.spilt:
        path = os.path.join(folder, "sorted.h5")
        found.write(path)
        found.source = PairFile(open_file(path, None, None, None), entries)
        stack.callback(found.source.close)
    else:
        found.source = PairSource(*found.ordered(np.concatenate(list(found.parts()))), name=entries.name)
        found.kept = []
    return found


def held_out(entries: Entries, ratings: Ratings) -> Source:
    """Held-out entries, in memory. DataError for a row or column without a rating in the training."""
    found = [(pairs.astype(ratings.dtype), values) for pairs, values in entries.places(ratings.names)]
    if not found:
        raise DataError(f"{entries.name}: there is no rating; check the input")
    pairs, values = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return PairSource(pairs, values, name=entries.name)
