"""What a solver carries from block to block, and how it declares it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from streammargin.rows.blocks import Block


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


class Number(NamedTuple):
    """A plain number of a State, as it is before the first pass, or a word that tells this layout from others."""

    value: bool | int | float | str

    @property
    def bytes(self) -> int:
        return 0

    def holds(self, value: Any) -> bool:
        """Whether it may come to this value: a word stays what it is, a count is none below 0."""
        if isinstance(self.value, str):
            return bool(value == self.value)
        if type(self.value) is int:
            return is_count(value)
        return is_number(value) if isinstance(self.value, float) else isinstance(value, bool)


Layout = dict[str, Array | Room | Number]


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

    Rows in `kept` can be read again from the source, so that their numbers alone need saving; what is in `scratch` can
    be made again of the block at hand, and is not saved. multiplications: of all that was done so far (docs/events.md);
    the driver adds those of the rows that it hands over, a solver those of what it does beside.
    """

    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    numbers: dict[str, Any] = field(default_factory=dict)
    kept: dict[str, Kept] = field(default_factory=dict)
    scratch: dict[str, Any] = field(default_factory=dict)
    multiplications: float = 0.0


def new_state(layout: Layout) -> State:
    """A state with every array and number of the layout as it is declared."""
    arrays = {name: entry.allocate() for name, entry in layout.items() if isinstance(entry, Array)}
    return State(arrays, {name: entry.value for name, entry in numbers_of(layout).items()})


def numbers_of(layout: Layout) -> dict[str, Number]:
    """Those that are declared, and the pass at work, which every state has."""
    return {"pass": Number(0)} | {name: entry for name, entry in layout.items() if isinstance(entry, Number)}


def is_count(value: Any) -> bool:
    """Whether it is an integer that a counter may come to; True and False are."""
    return isinstance(value, int) and 0 <= value < 1 << 53


def is_number(value: Any) -> bool:
    """Whether it is a plain number; nan and inf are."""
    return isinstance(value, (int, float))
