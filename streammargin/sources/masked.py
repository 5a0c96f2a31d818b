"""The rows that have a value in a column beside them, such as the cells of one tissue: `mask`, COLUMN=VALUE.

Rows of a source are read in place. If rows are read front to back, the others are left out on the way.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streammargin.errors import DataError
from streammargin.rows.blocks import Block, CSRBlock, DenseBlock
from streammargin.sources.arrays import bounds_by_nnz
from streammargin.sources.base import Buffer, Slices
from streammargin.sources.batch import Batch, Ordered
from streammargin.sources.views import View

MASK = ("values", "mask")  # (noun, option)
MASKED_BYTES = 1 << 20  # bytes of rows as stored that are read at a time, or one row
SOME = 1 << 16  # entries of a column that are read at a time


def none_has(paths: Sequence[str], mask: str) -> DataError:
    """The error for files of which no row has the value."""
    return DataError(f"no row of {', '.join(paths)} has {mask}; name a value that occurs with `mask`")


def having(mask: str, column: Callable[[str], tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Which rows (n,) have the value; column: (values, which are missing) (n,) by its name."""
    name, _, value = mask.partition("=")
    values, missing = column(name)
    from streammargin.stored import equal  # imports h5py, which messages on paths do without

    return equal(values, value) & ~missing


def kept(found: Ordered, keep: np.ndarray) -> Ordered:
    """Rows that are read front to back, without those that are left out; keep: (n,) bool."""

    def batches() -> Iterator[Batch]:
        stop = 0
        for batch in found.batches:
            start, stop = stop, stop + batch.rows
            if (own := np.flatnonzero(keep[start:stop])).size:
                yield batch.take(own)

    ids = None if found.ids is None else itertools.compress(found.ids, keep)
    return replace(found, batches=batches(), ids=ids, count=int(keep.sum()))


@dataclass(frozen=True)
class KeptEntries:
    """Those entries of a column that are kept. keep: their numbers (m,), ascending."""

    column: Slices
    keep: np.ndarray

    def __len__(self) -> int:
        return len(self.keep)

    def __getitem__(self, rows: slice) -> np.ndarray:
        wanted = self.keep[rows]
        parts = [self.column[start : start + SOME][own - start] for start, own in _apart(wanted, SOME)]
        return np.concatenate(parts) if parts else self.column[0:0]


def _apart(rows: np.ndarray, size: int) -> Iterator[tuple[int, np.ndarray]]:
    """(the first row of a piece of `size` rows, those of `rows` in it), of pieces with any."""
    at = 0
    while at < len(rows):
        start = int(rows[at]) // size * size
        end = int(np.searchsorted(rows, start + size))
        yield start, rows[at:end]
        at = end


class Masked(View):
    """The rows of another source that are kept, in order. keep: their numbers (rows,) int64, ascending."""

    def __init__(self, source: Any, keep: np.ndarray, mask: str) -> None:
        super().__init__(source)
        self.keep, self.mask, self.rows = keep, mask, len(keep)
        self._ends = np.zeros(len(keep) + 1, np.int64)  # of the values, as indptr
        np.cumsum(source.lengths(keep), out=self._ends[1:])
        self.nnz = int(self._ends[-1])
        self._pieces = source.bounds(MASKED_BYTES)

    def held_bytes(self) -> int:
        own = self.source.rows + self.keep.nbytes + self._ends.nbytes + self._pieces.nbytes
        return self.source.held_bytes() + own + 2 * self.source.buffer_bytes(self._pieces)

    def _sizes(self) -> tuple[int, int]:
        """Bytes of a value and of a row."""
        return self.dtype.itemsize + (4 if self.sparse else 0), 16 if self.sparse else 0

    def bounds(self, max_bytes: int) -> np.ndarray:
        return bounds_by_nnz(self._ends, *self._sizes(), max_bytes)

    def buffer_bytes(self, bounds: np.ndarray) -> int:
        value, row = self._sizes()
        return int(np.diff(self._ends[bounds]).max()) * value + (int(np.diff(bounds).max()) + 1) * row

    def allocate(self, bounds: np.ndarray) -> Buffer:
        if not self.sparse:
            return Buffer(np.empty((int(np.diff(bounds).max()), self.features), self.dtype))
        nnz = int(np.diff(self._ends[bounds]).max())
        return Buffer(np.empty(nnz, self.dtype), np.empty(nnz, np.uint32))

    def read(self, start: int, stop: int, buffer: Buffer) -> Block:
        rows, piece, done = self.keep[start:stop], self.source.allocate(self._pieces), 0
        indptr = self._ends[start : stop + 1] - self._ends[start]
        cuts = np.searchsorted(rows, self._pieces)
        for low, high in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
            if low == high:
                continue
            own = rows[low:high] - rows[low]
            block = self.source.read(int(rows[low]), int(rows[high - 1]) + 1, piece)
            if isinstance(block, DenseBlock):
                np.take(block.X, own, axis=0, out=buffer.data[low:high])
                continue
            lengths = block.indptr[own + 1] - block.indptr[own]
            end = done + int(lengths.sum())
            at = np.repeat(block.indptr[own] - indptr[low:high] + done, lengths) + np.arange(end - done)
            assert buffer.indices is not None
            buffer.data[done:end], buffer.indices[done:end] = block.data[at], block.indices[at]
            done = end
        if self.sparse:
            assert buffer.indices is not None
            return CSRBlock(buffer.data[:done], buffer.indices[:done], indptr, self.features, 0.0)
        return DenseBlock(buffer.data[: stop - start], 0.0)

    def place(self, row: int) -> tuple[str, int]:
        return self.source.place(int(self.keep[row]))

    def told(self, row: int) -> str:
        return self.source.told(int(self.keep[row]))

    def label_place(self, row: int) -> tuple[str, int]:
        return self.source.label_place(int(self.keep[row]))

    def labels(self, chunk: int = 1 << 16) -> Iterator[np.ndarray]:
        start = 0
        for part in self.source.labels(chunk):
            low, high = np.searchsorted(self.keep, (start, start + len(part)))
            if low < high:
                yield part[self.keep[low:high] - start]
            start += len(part)

    def rereads_labels(self) -> str:
        return ""  # other rows may have labels that no class has

    def sample_weight(self) -> Slices | None:
        weights = self.source.sample_weight()
        return None if weights is None else KeptEntries(weights, self.keep)

    def numbers(self, name: str, what: tuple[str, str]) -> Slices:
        return KeptEntries(self.source.numbers(name, what), self.keep)

    def fingerprint(self) -> str:
        return hashlib.sha256(f"{self.source.fingerprint()} {self.mask}".encode()).hexdigest()[:16]
