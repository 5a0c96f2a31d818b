"""What a solver carries from block to block, and how it declares it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from streammargin.specs.blocks import Block


class Array(NamedTuple):
    """One array of a State, as it is before the first pass.

    grows: its last axis is empty at first and changes from pass to pass; a Room counts its bytes.
    """

    shape: tuple[int, ...]
    dtype: Any = np.float64
    fill: float = 0.0
    grows: bool = False

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    def allocate(self) -> np.ndarray:
        # zeros take no memory before they are written
        return np.full(self.shape, self.fill, self.dtype) if self.fill else np.zeros(self.shape, self.dtype)


class Room(NamedTuple):
    """Bytes of what is not there from the start: rows kept, arrays that grow, vectors that live for a moment."""

    bytes: int


Layout = dict[str, Array | Room]


def layout_bytes(layout: Layout) -> int:
    """What all of it takes."""
    return sum(entry.bytes for entry in layout.values())


class Kept(NamedTuple):
    """Rows that a solver keeps beside the block: ids (m,) int64, their numbers in the source, and copies of them."""

    ids: np.ndarray
    rows: Block


@dataclass
class State:
    """Named arrays and plain numbers: all that a solver carries from block to block.

    Rows in `kept` can be read again from the source, so that their numbers alone need saving.
    """

    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    numbers: dict[str, Any] = field(default_factory=dict)
    kept: dict[str, Kept] = field(default_factory=dict)


def new_state(layout: Layout) -> State:
    """A state with every array of the layout as it is declared."""
    return State({name: entry.allocate() for name, entry in layout.items() if isinstance(entry, Array)})
