"""Sources that wrap another one: rows scaled, after steps or behind a map, watched, or dense as sparse.

The stored data are never rewritten.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from streammargin.errors import DataError, OtherRowsError
from streammargin.files import status_of
from streammargin.maps.base import MAPPED_ROWS
from streammargin.maps.fitted import Fitted
from streammargin.rows.blocks import Block, CSRBlock, DenseBlock, alone, nbytes, values_of
from streammargin.sources.arrays import ArraySource
from streammargin.sources.base import Buffer, Source
from streammargin.sources.checks import check_block
from streammargin.transforms.base import RowFault
from streammargin.transforms.chain import Chain


class _Forwarded:
    """A method that is that of the wrapped source."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, view: Any, owner: type) -> Any:
        return self if view is None else getattr(view.source, self.name)


class View(Source):
    """Forwards everything to the wrapped source; subclasses override parts."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.name: str = source.name
        self.rows: int = source.rows
        self.features: int = source.features
        self.nnz: int = source.nnz
        self.dtype: np.dtype = source.dtype
        self.sparse: bool = source.sparse

    (whole, bounds, some_rows, buffer_bytes, held_bytes, allocate, read, place, told, label_place, has_labels, labels,
     outputs, label_column, column_bytes, rereads_labels, labels_as, sample_weight, numbers, names_bytes,
     feature_names, schema, files, check_unchanged, fingerprint, layout, close, mask, named, of_others) = cast(
        Any, [_Forwarded() for _ in range(30)])  # fmt: skip


class Changed(View):
    """Rows with other values than those of the wrapped source, so none are in memory already."""

    whole = Source.whole


class ScaledSource(Changed):
    """Columns (x - center) * factor of another source, float64, clipped to -clip .. clip; sparse rows have center 0.

    center, factor: (d,) float64, used when rows are read, so they may be filled later. Blocks are always copies in a
    buffer, for arrays in memory too. Scaled values stay float64. The saved weights are for the rows as stored; with
    rounded values the proven gap would be that of other rows.
    """

    center: np.ndarray
    factor: np.ndarray
    clip: float
    dtype: np.dtype = np.dtype(np.float64)  # known before an instance exists

    def __init__(self, source: Source, center: np.ndarray, factor: np.ndarray, clip: float = math.inf) -> None:
        super().__init__(source)
        self.dtype, self.center, self.factor, self.clip = ScaledSource.dtype, center, factor, clip
        # bytes of a value and its column index: scaled, and as the source reads it
        index = 4 * source.sparse
        self._wide, self._narrow = 8 + index, source.dtype.itemsize + index

    def bounds(self, max_bytes: int) -> np.ndarray:
        return self.source.bounds(max_bytes * self._narrow // self._wide)

    def buffer_bytes(self, bounds: np.ndarray) -> int:
        return -(-self.source.buffer_bytes(bounds) * self._wide // self._narrow)

    def allocate(self, bounds: np.ndarray) -> Buffer:
        buffer = self.source.allocate(bounds)
        return buffer if self._wide == self._narrow else buffer._replace(data=np.empty(buffer.data.shape))

    def read(self, start: int, stop: int, buffer: Buffer) -> Block:
        from streammargin.compiled.columns import scale_dense, scale_sparse

        whole = buffer.data
        if self._wide > self._narrow:  # read float32 into the second half, then widen from the front
            halves = whole.reshape(-1).view(self.source.dtype)
            buffer = buffer._replace(data=halves[whole.size :].reshape(whole.shape))
        block = self.source.read(start, stop, buffer)
        if isinstance(block, DenseBlock):
            X = target(whole, block.X)
            scale_dense(block.X, self.center, self.factor, X)
            return block._replace(X=self._clipped(X))
        if block.indices.size and int(block.indices.max()) >= self.features:
            return block  # the reader refuses it
        data = target(whole, block.data)
        scale_sparse(block.data, block.indices, self.factor, data)
        return block._replace(data=self._clipped(data))

    def _clipped(self, values: np.ndarray) -> np.ndarray:
        return values if self.clip == math.inf else np.clip(values, -self.clip, self.clip, out=values)


def target(whole: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The array for the scaled values: in the buffer, or a new one for joined shards, which exceed the buffer."""
    return whole[: len(values)] if values.size <= whole.size else np.empty(values.shape)


class TransformedSource(Changed):
    """The rows of another source after the steps of a chain, in the same precision. What it learned may come later."""

    def __init__(self, source: Source, chain: Chain) -> None:
        super().__init__(source)
        self.chain: Chain = chain

    def held_bytes(self) -> int:
        return self.source.held_bytes() + self.chain.nbytes(self.features)

    def read(self, start: int, stop: int, buffer: Buffer) -> Block:
        block = alone(check_block(self.source, self.source.read(start, stop, buffer), start))
        try:
            return self.chain.fill(block, target(buffer.data, values_of(block)))
        except RowFault as fault:
            raise DataError(f"{self.told(start + fault.row)}{fault.told(self.feature_names())}") from None


class Pieced(Changed):
    """Dense rows with a type and a width of their own, made of pieces of another source.

    Blocks are whole pieces, if these are small enough.
    """

    def __init__(self, source: Source, features: int, dtype: np.dtype, pieces: int) -> None:
        """pieces: bytes of rows that are read at a time."""
        super().__init__(source)
        self.features, self.sparse, self.dtype, self.nnz = features, False, dtype, source.rows * features
        self._pieces = source.bounds(pieces)

    @property
    def _row_bytes(self) -> int:
        return self.dtype.itemsize * self.features

    def bounds(self, max_bytes: int) -> np.ndarray:
        most = max(1, max_bytes // self._row_bytes)
        if np.diff(self._pieces).max() > most:  # a piece is read more than once
            return np.append(np.arange(0, self.rows, most, dtype=np.int64), self.rows)
        found = [0]
        while found[-1] < self.rows:
            found.append(int(self._pieces[np.searchsorted(self._pieces, found[-1] + most, side="right") - 1]))
        return np.array(found, np.int64)

    def buffer_bytes(self, bounds: np.ndarray) -> int:
        return int(np.diff(bounds).max()) * self._row_bytes

    def held_bytes(self) -> int:
        return self.source.held_bytes() + self.source.buffer_bytes(self._pieces)

    def allocate(self, bounds: np.ndarray) -> Buffer:
        return Buffer(np.empty((int(np.diff(bounds).max()), self.features), self.dtype))

    def read(self, start: int, stop: int, buffer: Buffer) -> Block:
        out, piece = buffer.data[: stop - start], self.source.allocate(self._pieces)
        first = int(np.searchsorted(self._pieces, start, side="right")) - 1
        for low, high in zip(self._pieces[first:].tolist(), self._pieces[first + 1 :].tolist(), strict=False):
            low, high = max(low, start), min(high, stop)
            if low >= high:
                break
            block = check_block(self.source, self.source.read(low, high, piece), low)
            self.fill(block, out[low - start : high - start])
        return DenseBlock(out, 0.0)

    def fill(self, block: Block, out: np.ndarray) -> None:
        """The rows that are made of those of a block."""
        raise NotImplementedError


MAPPED = 4 << 20  # bytes of rows that are read at a time, before they are mapped


class MappedSource(Pieced):
    """The rows z(x) of another source, dense, in the precision of the map. A column has no name."""

    def __init__(self, source: Source, fitted: Fitted) -> None:
        super().__init__(source, fitted.map.width, fitted.dtype, MAPPED)
        self.fitted, self.largest_square = fitted, fitted.map.largest_square

    def held_bytes(self) -> int:
        tile = MAPPED_ROWS * (4 * 8 * self.features + 2 * self.source.features * (0 if self.source.sparse else 8))
        return super().held_bytes() + tile

    def fill(self, block: Block, out: np.ndarray) -> None:
        self.fitted.fill(block, out)

    def read(self, start: int, stop: int, buffer: Buffer) -> Block:
        block = super().read(start, stop, buffer)
        assert isinstance(block, DenseBlock)
        if not (finite := np.isfinite(block.X).all(axis=1)).all():
            wrong = f"has a value that is not finite behind the map {self.fitted.map}"
            raise DataError(f"{self.told(start + int(finite.argmin()))} {wrong}; use `scale=std`, or a smaller gamma")
        return block

    def names_bytes(self) -> int:
        return 0

    def feature_names(self) -> np.ndarray | None:
        return None


NONZERO_PIECE_ROWS = 4096  # rows whose nonzeros are taken at a time
MOST_NONZERO = 1 / 4  # largest share of nonzeros; at a third, dense and sparse rows take the same time
FEWEST_VALUES = 1 << 16  # fewer values are not worth it
NONZERO_SAMPLE_ROWS = 256  # before all nonzeros are counted


def thinned(source: Source, budget: int) -> Source:
    """A sparse copy of a dense array with few nonzeros, if it fits into `budget` bytes; otherwise the source itself.

    With a fifth of the values nonzero, a pass takes half as long, and A^T A less.
    """
    whole = source.whole()
    if not (isinstance(source, ArraySource) and isinstance(whole, DenseBlock)) or whole.X.size < FEWEST_VALUES:
        return source
    X = whole.X
    some = X[:: max(1, source.rows // NONZERO_SAMPLE_ROWS)]
    share, value = np.count_nonzero(some) / some.size, X.itemsize + 4
    if share > MOST_NONZERO or share * X.size * value > 2 * budget or X.shape[1] >= 2**31:
        return source
    indptr = np.append(0, np.cumsum(np.count_nonzero(X, axis=1)))
    nnz = int(indptr[-1])
    if nnz > MOST_NONZERO * X.size or nnz * value + indptr.nbytes > budget:
        return source
    data, indices = np.empty(nnz, X.dtype), np.empty(nnz, np.uint32)
    for low in range(0, source.rows, NONZERO_PIECE_ROWS):
        piece = X[low : low + NONZERO_PIECE_ROWS]
        there = piece != 0
        at = slice(indptr[low], indptr[low + len(piece)])
        data[at], indices[at] = piece[there], np.nonzero(there)[1]
    return Thinned(source, CSRBlock(data, indices, indptr, source.features, 0.0))


class Thinned(ArraySource):
    """The rows of another source of arrays as CSR, with its labels and weights."""

    def __init__(self, source: ArraySource, block: CSRBlock) -> None:
        vars(self).update(vars(source))
        self._block = block
        self.sparse: bool = True
        self.nnz: int = block.data.size

    def held_bytes(self) -> int:
        return nbytes(self._block)


HASHED = 32 << 20  # bytes hashed at a time, for arrays in memory


class WatchedSource(View):
    """Wraps a source, and keeps a sum of row hashes for each range of rows; each read is compared with it.

    ends (B + 1,) int64: bounds of the ranges, from 0; every block bound is among them; sums (B,) int64, mod 2^64: the
    sums of hashes; seen (B,) bool: which are known; files_then: device, inode, size and times in nanoseconds of each
    file when the source was opened, empty for arrays.
    """

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.files_then = [status_of(path) for path in source.files()]
        self._before: tuple[np.ndarray, ...] | None = None  # ends, sums and seen of another process
        self._set(np.array([0, self.rows], np.int64))

    def _set(self, ends: np.ndarray) -> None:
        self.ends = ends
        self.sums: np.ndarray = np.zeros(len(ends) - 1, np.int64)
        self.seen: np.ndarray = np.zeros(len(ends) - 1, bool)

    def cut(self, bounds: np.ndarray) -> None:
        """Split the ranges at these bounds too, and forget all sums."""
        self._set(np.union1d(self.ends, bounds))

    def read(self, start: int, stop: int, buffer: Buffer) -> Block:
        block = self.source.read(start, stop, buffer)
        self._compare(start, block)
        return block

    def look(self) -> None:
        """Hash arrays in memory, for which `read` is never called."""
        whole = self.whole()
        if whole is not None:
            self.cut(self.source.bounds(HASHED))
            self._compare(0, whole)

    def _compare(self, start: int, block: Block) -> None:
        from streammargin.compiled.row_hashes import row_hashes

        low = int(np.searchsorted(self.ends, start))
        high = int(np.searchsorted(self.ends, start + block.rows(), side="right")) - 1
        for piece in range(low, high):
            first, stop = self.ends[piece : piece + 2].tolist()
            found = row_hashes(block, first - start, stop - start, start)
            if self.seen[piece] and self.sums[piece] != found:
                raise self._altered(first, stop)
            self.sums[piece] = found
            self.seen[piece] = True  # set last: a checkpoint may be written by another thread

    def _altered(self, first: int, stop: int) -> OtherRowsError:
        name, row = self.place(first)
        return OtherRowsError(
            f"{name}: some of the rows {row} to {row + stop - first - 1} changed since this training read them; put "
            "the data back as they were, or start again with another `checkpoint`"
        )

    # for checkpoints

    def arrays(self) -> dict[str, np.ndarray]:
        """The sums, as copies, as another thread may be reading rows."""
        seen = self.seen.copy()
        return {"ends": self.ends, "seen": seen, "sums": np.where(seen, self.sums, 0)}

    def restore(self, files: list[Any], arrays: dict[str, np.ndarray]) -> bool:
        """Restore the sums of another process; True if all rows must be read, and `settle` called, before going on.

        It is not needed if the files' status and the ranges are the same. OtherRowsError if rows in memory have
        changed; ValueError for arrays that are not from `arrays`.
        """
        ends, seen, sums = arrays["ends"], arrays["seen"], arrays["sums"]
        kinds = [(ends, np.int64), (seen, np.bool_), (sums, np.int64)]
        if any(array.dtype != dtype or array.ndim != 1 for array, dtype in kinds) or ends.size < 2:
            raise ValueError("its hashes of the rows have another type")
        if not len(seen) == len(sums) == len(ends) - 1 or np.any(np.diff(ends) <= 0):
            raise ValueError("its hashes of the rows have different lengths")
        if ends[0] != 0 or ends[-1] != self.rows:
            raise ValueError("its hashes are for another number of rows")
        self._before = ends, seen, sums
        whole = self.whole()
        if not np.isin(ends, self.ends).all():
            self.cut(ends)
            if whole is not None:
                self._compare(0, whole)
        if whole is not None:
            self.settle()
            return False
        if not np.array_equal(self.ends, ends):  # a smaller tolerance may need smaller blocks
            return True
        self.sums, self.seen = sums.copy(), seen.copy()
        return not self.files_then or files != self.files_then

    def settle(self) -> None:
        """Called once all rows were read: OtherRowsError if they differ from those of the other process."""
        assert self._before is not None and self.seen.all()
        ends, seen, sums = self._before
        self._before = None
        now = np.add.reduceat(self.sums, np.searchsorted(self.ends, ends[:-1]))
        for piece in np.flatnonzero(seen & (now != sums)).tolist():
            raise self._altered(*ends[piece : piece + 2].tolist())
