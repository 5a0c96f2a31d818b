"""Rows that a solver keeps beside the block: copied out of blocks, and joined."""

from __future__ import annotations

import numpy as np

from streammargin.solvers.state import Kept
from streammargin.specs.blocks import Block, CSRBlock, DenseBlock, values_of

SHARE = 0.75  # of what vectors leave of a budget, for rows kept; the rest is for buffers


def room(left: int, buffers: int, everything: int) -> int:
    """Bytes for rows kept, of those that vectors leave: what buffers want at least is theirs."""
    return max(0, min(int(SHARE * left), left - buffers, everything))


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
    if isinstance(block, DenseBlock):
        return block._replace(X=block.X[positions])
    starts, sizes = block.indptr[positions], np.diff(block.indptr)[positions]
    indptr = np.zeros(len(positions) + 1, np.int64)
    np.cumsum(sizes, out=indptr[1:])
    chosen = np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], sizes)
    return block._replace(data=block.data[chosen], indices=block.indices[chosen], indptr=indptr)


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
