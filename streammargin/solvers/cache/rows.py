"""A cache of rows in memory between reads, copied from blocks, in pieces."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from streammargin.compiled.copies import copy_spans
from streammargin.rows.blocks import Block, CSRBlock, DenseBlock, nbytes, values_of
from streammargin.solvers.base import UNIT

BUFFERS = 3 << 20  # least bytes of the buffers of blocks
EVEN_BUFFERS = 32 << 20  # bytes of these if rows lie in several places: then blocks have a fixed size
CACHE_BUDGET_SHARE = 0.75  # after vectors, for cached rows; the rest is for buffers
UNIT_ROWS, LEAST_UNIT_ROWS = 512, 16  # a multiple of the kernels' chunks, or at least a few
JOINED_PIECE_BYTES = 1 << 20  # bytes: smaller pieces that are dropped may stay with the process (see `RowCache.pool`)
FILLED = 0.9  # least share of an old array that new rows must fill to reuse it


class Kept(NamedTuple):
    """Cached rows: ids (m,) int64, their numbers in the source, and copies of them; beside: arrays (m, ...) of them."""

    ids: np.ndarray
    rows: Block
    beside: tuple[np.ndarray, ...] = ()


class Coming(NamedTuple):
    """Rows to cache: those at these positions of a block, whose first row has the number `first`."""

    first: int
    block: Block
    positions: np.ndarray
    beside: tuple[np.ndarray, ...] = ()


class RowCache:
    """Copies of rows, in named pieces, and their numbers in the source, with what the solver keeps of them beside.

    Checkpoints save all but the copies. The solver chooses the rows, their piece, and when to drop them.
    """

    def __init__(self) -> None:
        self.pieces: dict[str, Kept] = {}
        self.saved: dict[str, tuple[np.ndarray, ...]] = {}  # what is beside the pieces of a checkpoint

    def __add__(self, other: RowCache) -> RowCache:
        """The rows of both, as holders add them up: of each piece those of this cache first."""
        for name in list(other.pieces):
            self.append(name, other)
        return self

    def kept_rows(self) -> dict[str, np.ndarray]:
        """The row numbers (m,) of each piece."""
        return {name: kept.ids for name, kept in self.pieces.items()}

    def kept_beside(self) -> dict[str, np.ndarray]:
        """The arrays beside each piece, as `piece.number`."""
        return {f"{name}.{at}": one for name, kept in self.pieces.items() for at, one in enumerate(kept.beside)}

    def load_beside(self, ids: dict[str, np.ndarray], arrays: dict[str, np.ndarray]) -> None:
        """Take what was beside the pieces with these ids in a checkpoint. ValueError if lengths differ."""
        for name, rows in ids.items():
            found: list[np.ndarray] = []
            while f"{name}.{len(found)}" in arrays:
                found.append(arrays[f"{name}.{len(found)}"])
            if any(one.shape[:1] != rows.shape for one in found):
                raise ValueError("the numbers beside its cached rows are not as many as the rows")
            self.saved[name] = tuple(found)

    def keep(self, block: Block, first: int, ids: np.ndarray) -> Kept:
        """Copies of the rows with these numbers from a block whose first row has the number `first`."""
        return Kept(ids, take(block, ids - first))

    def restore(self, pieces: dict[str, Kept]) -> None:
        """Take the rows of a checkpoint, after they were read again."""
        self.pieces = {name: kept._replace(beside=self.saved.get(name, ())) for name, kept in pieces.items()}
        self.saved = {}

    @property
    def count(self) -> int:
        """The number of cached rows."""
        return sum(kept.ids.size for kept in self.pieces.values())

    def ids(self) -> np.ndarray:
        """The numbers of all cached rows."""
        return np.concatenate([np.empty(0, np.int64), *(kept.ids for kept in self.pieces.values())])

    def ids_of(self, name: str) -> np.ndarray:
        """The row numbers of this piece."""
        return self.pieces[name].ids if name in self.pieces else np.empty(0, np.int64)

    def append(self, name: str, other: RowCache) -> None:
        """Move the rows of this piece from another cache to the end of this one's."""
        self.pieces[name] = add(self.pieces.get(name), other.pieces.pop(name))

    def beside(self, at: int) -> np.ndarray:
        """The arrays with this number beside all pieces, one after the other."""
        return np.concatenate([kept.beside[at] for kept in self.pieces.values()])

    def sizes(self, beside: int) -> dict[str, float]:
        """Mean bytes per row of each piece; beside: bytes per row besides its values."""
        return {name: nbytes(kept.rows) / kept.ids.size + beside for name, kept in self.pieces.items()}

    def change(self, name: str, staying: np.ndarray | None, coming: Sequence[Coming]) -> None:
        """Keep the rows of this piece at the positions `staying` (None: all), and add rows of blocks, with one copy."""
        kept = self.pieces.get(name)
        if not coming and (kept is None or staying is None or staying.size == kept.ids.size):
            return
        ids = [one.first + one.positions for one in coming]
        rows = [(one.block, one.positions) for one in coming]
        beside = [one.beside for one in coming]
        if kept is not None and (staying is None or staying.size):
            staying = np.arange(kept.ids.size) if staying is None else staying
            ids, rows = [kept.ids[staying], *ids], [(kept.rows, staying), *rows]
            beside = [tuple(one[staying] for one in kept.beside), *beside]
        if rows:
            values = gather(rows, None if kept is None else kept.rows)
            together = tuple(np.concatenate(each) for each in zip(*beside, strict=True))
            self.pieces[name] = Kept(np.concatenate(ids), values, together)
        else:
            del self.pieces[name]

    def pool(self) -> None:
        """Join small pieces that follow each other once they have JOINED_PIECE_BYTES, under the name of the first.

        The memory of small arrays is not returned when they are dropped: with two thousand blocks, pieces of each kept
        four times the cache.
        """
        small: list[str] = []
        size = 0
        for name, kept in list(self.pieces.items()):
            if nbytes(kept.rows) >= JOINED_PIECE_BYTES:
                small, size = [], 0
                continue
            small.append(name)
            size += nbytes(kept.rows)
            if size >= JOINED_PIECE_BYTES:
                parts = [self.pieces[one] for one in small]
                for one in small[1:]:
                    del self.pieces[one]
                self.pieces[small[0]] = together(parts)
                small, size = [], 0

    def retain(self, wanted: Callable[[Kept], np.ndarray]) -> None:
        """Keep the rows for which `wanted` (rows of a piece -> bool (m,)) is true, and free the others' memory.

        One piece is copied at a time, so at most one piece is in memory twice.
        """
        for name in list(self.pieces):
            staying = np.flatnonzero(wanted(self.pieces[name]))
            if not staying.size:
                del self.pieces[name]
            elif staying.size < self.pieces[name].ids.size:
                self.pieces[name] = choose(self.pieces[name], staying)
        self.pool()


def threshold(scores: np.ndarray, sizes: np.ndarray, budget: float) -> float:
    """The largest t such that all rows with scores below t fit into the budget; inf if all rows fit.

    scores, sizes (m,): of rows, and their bytes. Rows of one score may come in any order: the score found is the same.
    """
    order = np.argsort(scores)
    last = int(np.searchsorted(np.cumsum(sizes[order]), max(budget, 0.0), side="right"))
    return float(scores[order[last]]) if last < order.size else math.inf


def cache_budget(left: int, everything: int) -> int:
    """Bytes for the cache out of `left`, after the least size of the buffers; at most `everything`."""
    return max(0, min(int(CACHE_BUDGET_SHARE * left), left - BUFFERS, everything))


def unit_rows(each: float) -> int:
    """How many rows a unit has, of so many multiplications each."""
    rows = max(LEAST_UNIT_ROWS, int(UNIT / max(1.0, each)))
    return rows // UNIT_ROWS * UNIT_ROWS or rows


def choose(kept: Kept, positions: np.ndarray) -> Kept:
    """Copies of some cached rows."""
    return Kept(kept.ids[positions], take(kept.rows, positions), tuple(one[positions] for one in kept.beside))


def add(old: Kept | None, new: Kept) -> Kept:
    """The rows of both, the old ones first."""
    return new if old is None else together([old, new])


def together(parts: Sequence[Kept]) -> Kept:
    """The rows of all, one after the other, with one copy."""
    rows = gather([(kept.rows, np.arange(kept.ids.size)) for kept in parts])
    beside = tuple(np.concatenate(each) for each in zip(*(kept.beside for kept in parts), strict=True))
    return Kept(np.concatenate([kept.ids for kept in parts]), rows, beside)


def sizes_of(block: Block) -> np.ndarray:
    """Bytes (m,) of each row."""
    if isinstance(block, CSRBlock):
        return np.diff(block.indptr) * (block.data.itemsize + block.indices.itemsize) + block.indptr.itemsize
    return np.full(block.rows(), block.X.itemsize * block.features())


def take(block: Block, positions: np.ndarray) -> Block:
    """A copy of these rows of the block."""
    return gather([(block, positions)])


def gather(parts: Sequence[tuple[Block, np.ndarray]], over: Block | None = None) -> Block:
    """A copy of the rows at these positions of each block, one block after the other.

    over: rows whose memory may be reused. They may be those of the first block if its positions are increasing.
    """
    spans = [_spans(*part) for part in parts]
    ends = np.cumsum(np.concatenate([[0], *(stops - starts for starts, stops in spans)]))

    def copies(numbers: Callable[[Block], np.ndarray]) -> np.ndarray:
        old = None if over is None else numbers(over)
        into, place = _space(int(ends[-1]), numbers(parts[0][0]).dtype, old), 0
        for (block, _), (starts, stops) in zip(parts, spans, strict=True):
            place += copy_spans(numbers(block), starts, stops, into[place:])
        return into

    [block, _] = parts[0]
    if isinstance(block, DenseBlock):
        return block._replace(X=copies(lambda one: values_of(one).reshape(-1)).reshape(-1, block.features()))
    return block._replace(data=copies(values_of), indices=copies(_columns_of), indptr=ends)


def _spans(block: Block, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(starts, ends) of the entries of these rows."""
    if isinstance(block, DenseBlock):
        starts = positions * block.features()
        return starts, starts + block.features()
    return block.indptr[positions], block.indptr[positions + 1]


def _columns_of(block: Block) -> np.ndarray:
    assert isinstance(block, CSRBlock)
    return block.indices


def _space(size: int, dtype: np.dtype, old: np.ndarray | None) -> np.ndarray:
    """An array of this many numbers, in the memory of the old one if it fits and fills most of it.

    New memory pages cost more than the copy.
    """
    whole = np.empty(0, dtype) if old is None else (old if old.base is None else old.base).reshape(-1)
    return whole[:size] if FILLED * whole.size <= size <= whole.size else np.empty(size, dtype)
