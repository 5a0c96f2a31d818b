"""Rows that a solver keeps beside the block: copied out of blocks, and joined."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from streammargin.compiled.copies import copy_spans
from streammargin.rows.blocks import Block, CSRBlock, DenseBlock, values_of
from streammargin.solvers.base import UNIT, multiplications
from streammargin.solvers.old_state import Kept, State

SHARE = 0.75  # of what vectors leave of a budget, for rows kept; the rest is for buffers
LOOK = 2  # multiplications for each value of a row that is looked at
UNIT_ROWS, LEAST_ROWS = 512, 16  # rows of a unit: a multiple, as kernels add them up in chunks, or few
FILLED = 0.9  # at least, of the place where rows stood that others take the place of


def room(left: int, buffers: int, everything: int) -> int:
    """Bytes for rows kept, of those that vectors leave: what buffers want at least is theirs."""
    return max(0, min(int(SHARE * left), left - buffers, everything))


def part(block: Block, start: int, stop: int) -> Block:
    """These rows of the block, in place."""
    if isinstance(block, DenseBlock):
        return block._replace(X=block.X[start:stop])
    return block._replace(indptr=block.indptr[start : stop + 1])


def next_rows(state: State, block: Block, work: float, problems: int) -> tuple[int, int]:
    """The rows of a block, from `part` of the state on, that the next unit takes; `part` is 0 after the last.

    work: multiplications for each value of a row. Those of the visit by so many problems are counted unit by unit.
    """
    start, each = int(state.numbers["part"]), work * values_of(block).size / block.rows()
    rows = max(LEAST_ROWS, int(min(UNIT / max(1.0, each), block.rows())))
    stop = min(block.rows(), start + (rows // UNIT_ROWS * UNIT_ROWS or rows))
    state.numbers["part"] = stop % block.rows()
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
    whole = np.empty(0, dtype) if old is None else old if old.base is None else old.base
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
