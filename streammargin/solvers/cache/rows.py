"""Rows that stay in memory between two reads: copied out of blocks, in pieces."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from streammargin.compiled.copies import copy_spans
from streammargin.rows.blocks import Block, CSRBlock, DenseBlock, nbytes, values_of
from streammargin.solvers.base import UNIT, multiplications

SHARE = 0.75  # of what vectors leave of a budget, for rows kept; the rest is for buffers
LOOK = 2  # multiplications for each value of a row that is looked at
UNIT_ROWS, LEAST_ROWS = 512, 16  # rows of a unit: a multiple, as kernels add them up in chunks, or few
FILLED = 0.9  # at least, of the place where rows stood that others take the place of


class Kept(NamedTuple):
    """Rows beside the block: ids (m,) int64, their numbers in the source, and copies of them."""

    ids: np.ndarray
    rows: Block


class RowCache:
    """Copies of rows, in pieces by name, and their numbers in the source, which alone are saved.

    A state that has one says which rows these are: their score, the piece that they go to, when they go.
    """

    def __init__(self) -> None:
        self.pieces: dict[str, Kept] = {}

    def kept_rows(self) -> dict[str, np.ndarray]:
        """The numbers (m,) of the rows of each piece."""
        return {name: kept.ids for name, kept in self.pieces.items()}

    def restore(self, pieces: dict[str, Kept]) -> None:
        """Take rows that were read again."""
        self.pieces = pieces

    @property
    def count(self) -> int:
        """How many rows are kept."""
        return sum(kept.ids.size for kept in self.pieces.values())

    def ids(self) -> np.ndarray:
        """The numbers of all of them."""
        return np.concatenate([np.empty(0, np.int64), *(kept.ids for kept in self.pieces.values())])

    def ids_of(self, name: str) -> np.ndarray:
        """The numbers of those of this piece."""
        return self.pieces[name].ids if name in self.pieces else np.empty(0, np.int64)

    def append(self, name: str, other: RowCache) -> None:
        """The rows of this piece of another cache leave it, and follow those that are kept here."""
        self.pieces[name] = add(self.pieces.get(name), other.pieces.pop(name))

    def sizes(self, beside: int) -> dict[str, float]:
        """Bytes of a row of each piece; beside: what a row takes that is no value."""
        return {name: nbytes(kept.rows) / kept.ids.size + beside for name, kept in self.pieces.items()}

    def change(self, name: str, staying: np.ndarray | None, coming: Sequence[tuple[int, Block, np.ndarray]]) -> None:
        """Of this piece keep the rows at these positions, or all, and with them those of blocks: one copy of all of it.

        coming: number of the first row of a block, the block, and positions in it.
        """
        kept = self.pieces.get(name)
        if not coming and (kept is None or staying is None or staying.size == kept.ids.size):
            return
        ids = [first + positions for first, _, positions in coming]
        rows = [(block, positions) for _, block, positions in coming]
        if kept is not None and (staying is None or staying.size):
            staying = np.arange(kept.ids.size) if staying is None else staying
            ids, rows = [kept.ids[staying], *ids], [(kept.rows, staying), *rows]
        if rows:
            self.pieces[name] = Kept(np.concatenate(ids), gather(rows, None if kept is None else kept.rows))
        else:
            del self.pieces[name]

    def retain(self, wanted: Callable[[np.ndarray], np.ndarray]) -> None:
        """Of every piece keep the rows of which `wanted` says so by their numbers (m,), and no more memory than theirs.

        Of one piece at a time there are two copies: the old one goes as soon as the next one is there.
        """
        for name in list(self.pieces):
            ids = self.pieces[name].ids
            staying = np.flatnonzero(wanted(ids))
            if not staying.size:
                del self.pieces[name]
            elif staying.size < ids.size:
                self.pieces[name] = choose(self.pieces[name], staying)


def threshold(scores: np.ndarray, sizes: np.ndarray, room: float) -> float:
    """The score of the first row that there is no room for, inf if there is room for all; lower ones stay.

    scores, sizes (m,): of rows, and their bytes. Rows of one score may come in any order: the score found is the same.
    """
    order = np.argsort(scores)
    last = int(np.searchsorted(np.cumsum(sizes[order]), max(room, 0.0), side="right"))
    return float(scores[order[last]]) if last < order.size else math.inf


def room(left: int, buffers: int, everything: int) -> int:
    """Bytes for rows kept, of those that vectors leave: what buffers want at least is theirs."""
    return max(0, min(int(SHARE * left), left - buffers, everything))


def part(block: Block, start: int, stop: int) -> Block:
    """These rows of the block, in place."""
    if isinstance(block, DenseBlock):
        return block._replace(X=block.X[start:stop])
    return block._replace(indptr=block.indptr[start : stop + 1])


def next_rows(state: Any, block: Block, work: float, problems: int) -> tuple[int, int]:
    """The rows of a block, from `part` of the state on, that the next unit takes; `part` is 0 after the last.

    work: multiplications for each value of a row. Those of the visit by so many problems are counted unit by unit.
    """
    start, each = int(state.part), work * values_of(block).size / block.rows()
    rows = max(LEAST_ROWS, int(min(UNIT / max(1.0, each), block.rows())))
    stop = min(block.rows(), start + (rows // UNIT_ROWS * UNIT_ROWS or rows))
    state.part = stop % block.rows()
    if stop < block.rows():
        state.multiplications += multiplications([(0, part(block, start, stop))], problems)
    else:  # the driver counts the block when all of it is done
        state.multiplications -= multiplications([(0, part(block, 0, start))], problems)
    return start, stop


def keep(block: Block, first: int, ids: np.ndarray) -> Kept:
    """Copies of the rows of these numbers, of a block whose first row is number `first`."""
    return Kept(ids, take(block, ids - first))


def choose(kept: Kept, positions: np.ndarray) -> Kept:
    """Copies of some of the rows kept."""
    return Kept(kept.ids[positions], take(kept.rows, positions))


def add(old: Kept | None, new: Kept) -> Kept:
    """The rows of both, the old ones first."""
    return new if old is None else Kept(np.concatenate([old.ids, new.ids]), join(old.rows, new.rows))


def take(block: Block, positions: np.ndarray) -> Block:
    """A copy of these rows of the block."""
    return gather([(block, positions)])


def gather(parts: Sequence[tuple[Block, np.ndarray]], over: Block | None = None) -> Block:
    """A copy of the rows at these positions of each of the blocks, one block after the other.

    over: rows that nobody needs afterwards. They may be those of the first block, where its positions rise.
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
    """Where the entries of these rows begin and end."""
    if isinstance(block, DenseBlock):
        starts = positions * block.features()
        return starts, starts + block.features()
    return block.indptr[positions], block.indptr[positions + 1]


def _columns_of(block: Block) -> np.ndarray:
    assert isinstance(block, CSRBlock)
    return block.indices


def _space(size: int, dtype: np.dtype, old: np.ndarray | None) -> np.ndarray:
    """Room for so many numbers, where the old ones stand if they fit there and take most of it.

    Pages that the system hands out anew cost more than what is copied to them.
    """
    whole = np.empty(0, dtype) if old is None else (old if old.base is None else old.base).reshape(-1)
    return whole[:size] if FILLED * whole.size <= size <= whole.size else np.empty(size, dtype)


def join(old: Block, new: Block) -> Block:
    """The rows of both, the old ones first."""
    if isinstance(old, DenseBlock) and isinstance(new, DenseBlock):
        return new._replace(X=np.concatenate([old.X, new.X]))
    assert isinstance(old, CSRBlock) and isinstance(new, CSRBlock)
    return new._replace(
        data=np.concatenate([old.data, new.data]),
        indices=np.concatenate([old.indices, new.indices]),
        indptr=np.concatenate([old.indptr, new.indptr[1:] + old.indptr[-1]]),
    )


def entries(block: Block) -> int:
    """Numbers stored."""
    return values_of(block).size
