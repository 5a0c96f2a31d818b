"""Rows that a solver keeps: copies of rows of blocks, stored in its State as arrays and plain numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from streammargin.solvers.base import State
from streammargin.specs.blocks import Block, CSRBlock, DenseBlock, values_of

_KINDS: dict[str, type[DenseBlock] | type[CSRBlock]] = {kind.__name__: kind for kind in (DenseBlock, CSRBlock)}


def put(state: State, name: str, rows: Block) -> None:
    """Store the rows under this name, in place of what was there."""
    state.numbers[name] = type(rows).__name__
    for field, value in rows._asdict().items():
        if isinstance(value, np.ndarray):
            state.arrays[f"{name}.{field}"] = value
        else:
            state.numbers[f"{name}.{field}"] = value


def get(state: State, name: str) -> Block | None:
    """The rows of this name; None if there are none."""
    if name not in state.numbers:
        return None
    kind = _KINDS[state.numbers[name]]
    fields: dict[str, Any] = {
        f: state.arrays.get(f"{name}.{f}", state.numbers.get(f"{name}.{f}")) for f in kind._fields
    }
    return kind(**fields)


def drop(state: State, name: str) -> None:
    """Forget the rows of this name."""
    rows = get(state, name)
    if rows is not None:
        for field in ("", *(f".{f}" for f in rows._fields)):
            state.numbers.pop(name + field, None)
            state.arrays.pop(name + field, None)


def take(block: Block, positions: np.ndarray) -> Block:
    """A copy of these rows of the block."""
    if isinstance(block, DenseBlock):
        return block._replace(X=block.X[positions])
    starts, sizes = block.indptr[positions], np.diff(block.indptr)[positions]
    indptr = np.zeros(len(positions) + 1, np.int64)
    np.cumsum(sizes, out=indptr[1:])
    chosen = np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], sizes)
    return block._replace(data=block.data[chosen], indices=block.indices[chosen], indptr=indptr)


def join(old: Block | None, new: Block) -> Block:
    """The rows of both, the old ones first."""
    if old is None:
        return new
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
