"""From a memory budget to block bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from streammargin.errors import DataError, UsageError
from streammargin.sizes import format_size
from streammargin.sources.base import Source
from streammargin.sources.names import as_names

# larger blocks read no faster and leave the second-level caches; smaller ones cost calls
BLOCK_BYTES = 32 << 20
ALL_CLASSES = 1 << 28  # bytes of a block times the problems that it is visited for: a visit takes but a moment
LEAST_BLOCK_BYTES = 1 << 20  # below that the disk is read in crumbs
AHEAD = 2  # buffers beside one in the kernel: one filled, one being filled
# what the allocator, the thread and short-lived arrays take beside the counted ones
SLACK_BYTES = 12 << 20

Scratch = Callable[[int, int], int]


@dataclass(frozen=True)
class Plan:
    """Block bounds (B+1,) int64, the number of buffers, and the bytes all of it takes.

    resident: the rows fit in the budget, so that one buffer is filled once and kept.
    """

    bounds: np.ndarray
    buffers: int
    memory_bytes: int
    resident: bool

    @property
    def blocks(self) -> int:
        return len(self.bounds) - 1

    @property
    def block_rows(self) -> int:
        """Rows of the largest block."""
        return int(np.diff(self.bounds).max())


def spendable(budget: int) -> int:
    """Bytes of a budget that counted arrays may take."""
    return max(0, budget - SLACK_BYTES)


def _nothing(rows: int, size: int) -> int:
    return 0


def _block_bytes(source: Source, bounds: np.ndarray, buffers: int, scratch: Scratch) -> int:
    """Bytes of the buffers, and of what is worked with on the largest block."""
    size = source.buffer_bytes(bounds)
    return buffers * size + scratch(int(np.diff(bounds).max()), size)


def least_budget(source: Source, state_bytes: int = 0, scratch: Scratch = _nothing) -> int:
    """Bytes of the smallest plan, in whole MiB."""
    state_bytes += source.held_bytes()
    everything = np.array([0, source.rows], np.int64)
    if source.whole() is not None:  # used in place, and counted only where they are a copy
        return -(-(state_bytes + _block_bytes(source, everything, 0, scratch)) // (1 << 20)) << 20
    streamed = _block_bytes(source, source.bounds(LEAST_BLOCK_BYTES), 2, scratch)
    whole = _block_bytes(source, everything, 1, scratch)
    return -(-(state_bytes + SLACK_BYTES + min(streamed, whole)) // (1 << 20)) << 20


def check_read(source: Source, budget: int, needed: int, what: str) -> None:
    """UsageError, before anything is read, where to read `what` takes more than the budget."""
    if needed > budget:
        # how many classes there are, and what all of it takes, is not known yet
        least = least_budget(source, needed) >> 20
        raise UsageError(
            f"a memory budget of {format_size(budget)} is too small for {source.name}: to read {what} needs "
            f"{least}M; with `memory={least}M` or more it is told what is needed in all"
        )


def column_names(source: Source, budget: int, others: int = 0) -> np.ndarray | None:
    """Names of the columns (d,), None where there are none; others: bytes that are spoken for, of labels or a model.

    Raises UsageError where they do not fit, DataError where they are not d texts.
    """
    beside = ", beside what is held already," if others else " alone"
    what = "the names of its columns" if source.names_bytes() else "it"
    check_read(source, budget, source.names_bytes() + others, f"{what}{beside}")
    names = source.feature_names()
    if names is None:
        return None
    if np.shape(names) != (source.features,):
        raise DataError(f"{source.name} has {len(names)} names for {source.features} columns; they must agree")
    return names if isinstance(names, np.ndarray) and names.dtype == object else as_names(names, source.name)


def make_plan(
    source: Source, budget: int, state_bytes: int, scratch: Scratch = _nothing, together: int = 1, classes: int = 1
) -> Plan:
    """Blocks for a budget of bytes of which state_bytes (weights, duals, labels) are spoken for.

    scratch: bytes that are worked with on a block, from its rows and its bytes. together: blocks that are worked with
    at once, where there is room; as many are read meanwhile. classes: problems that each block is visited for.
    Raises UsageError naming the minimum when the smallest plan needs more.
    """
    held = source.held_bytes()
    if state_bytes + held > budget:  # before anything is looked up
        raise _too_small(source, budget, state_bytes, scratch)
    everything = np.array([0, source.rows], np.int64)
    if source.whole() is not None:
        needed = state_bytes + held + _block_bytes(source, everything, 0, scratch)
        if needed > budget:
            raise _too_small(source, budget, state_bytes, scratch)
        return Plan(everything, 0, needed, True)
    fixed = state_bytes + held + SLACK_BYTES
    available = budget - fixed
    whole = _block_bytes(source, everything, 1, scratch)
    if whole <= available:
        return Plan(everything, 1, fixed + whole, True)
    for buffers in range(together + max(AHEAD, together), 1, -1):
        size = max(LEAST_BLOCK_BYTES, min(BLOCK_BYTES, ALL_CLASSES // classes, available // buffers))
        while True:
            bounds = source.bounds(size)
            needed = fixed + _block_bytes(source, bounds, buffers, scratch)
            if needed <= budget:
                return Plan(bounds, buffers, needed, False)
            if size == LEAST_BLOCK_BYTES or scratch is _nothing:
                break
            size = max(LEAST_BLOCK_BYTES, size * 3 // 4)  # leave room for what grows with the block
    raise _too_small(source, budget, state_bytes, scratch)


def _too_small(source: Source, budget: int, state_bytes: int, scratch: Scratch) -> UsageError:
    minimum = least_budget(source, state_bytes, scratch) >> 20
    return UsageError(
        f"a memory budget of {format_size(budget)} is too small for {source.name}: "
        f"the smallest plan needs {minimum}M; use `memory={minimum}M` or more"
    )
