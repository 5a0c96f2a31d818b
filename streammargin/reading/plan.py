"""Split the rows into blocks that fit a memory budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from streammargin.errors import BudgetError, DataError, UsageError
from streammargin.sizes import format_size
from streammargin.sources.base import Source
from streammargin.sources.names import as_names

# larger blocks read no faster and overflow the L2 cache; smaller ones cost more calls
BLOCK_BYTES = 32 << 20
ALL_CLASSES = 1 << 28  # most bytes of a block times its problems, so that one visit stays short
LEAST_BLOCK_BYTES = 1 << 20  # smaller blocks make the disk slow
EVEN_BYTES = 8 << 20  # of a block of rows that several machines read, whatever the budget of each
AHEAD = 2  # buffers beside the one in the kernel: one filled, one being filled
# bytes of the allocator, the reader thread and temporary arrays, which are not counted one by one
SLACK_BYTES = 12 << 20
ADDRESSABLE_BYTES = 1 << 47  # bytes that a process can address: no advice names more

Scratch = Callable[[int, int], int]


@dataclass(frozen=True)
class Plan:
    """Block bounds (B+1,) int64, the number of buffers, and the bytes of all of it, solver state included.

    resident: all rows fit into the budget, so one buffer is filled once and kept.
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


def _nothing(rows: int, size: int) -> int:
    return 0


def _block_bytes(source: Source, bounds: np.ndarray, buffers: int, scratch: Scratch, row_bytes: int = 0) -> int:
    """Bytes of the buffers, of as many blocks' labels, and of the scratch arrays for the largest block."""
    size, rows = source.buffer_bytes(bounds), int(np.diff(bounds).max())
    return buffers * (size + row_bytes * rows) + scratch(rows, size)


def least_budget(source: Source, state_bytes: int = 0, scratch: Scratch = _nothing, row_bytes: int = 0) -> int:
    """Bytes of the smallest plan, rounded up to whole MiB."""
    state_bytes += source.held_bytes()
    everything = np.array([0, source.rows], np.int64)
    if source.whole() is not None:  # arrays are used in place, and counted only if they are a copy
        return -(-(state_bytes + _block_bytes(source, everything, 0, scratch)) // (1 << 20)) << 20
    streamed = _block_bytes(source, source.bounds(LEAST_BLOCK_BYTES), 2, scratch, row_bytes)
    whole = _block_bytes(source, everything, 1, scratch, row_bytes)
    return -(-(state_bytes + SLACK_BYTES + min(streamed, whole)) // (1 << 20)) << 20


def check_read(source: Source, budget: int, needed: int, what: str) -> None:
    """BudgetError, before anything is read, if reading `what` needs more bytes than the budget."""
    if needed > budget:
        # the number of classes, and so the whole requirement, is not known yet
        least = least_budget(source, needed) >> 20
        raise BudgetError(
            f"a memory budget of {format_size(budget)} is too small for {source.name}: reading {what} needs "
            f"{least}M; with `memory={least}M` or more the run says what it needs in all",
            least << 20,
        )


def check_least(name: str, budget: int, state_bytes: int, rows: int, row_bytes: int) -> None:
    """UsageError if no plan for rows of this size fits into the budget; they need not be written yet.

    state_bytes: of what every training keeps. row_bytes: the least of a row.
    """
    least = -(-(SLACK_BYTES + state_bytes + row_bytes * min(rows, 2)) // (1 << 20))
    if budget < least << 20:
        raise UsageError(
            f"a memory budget of {format_size(budget)} is too small for {name}: its columns alone need {least}M; with "
            f"`memory={least}M` or more the run says what it needs in all"
        )


def column_names(source: Source, budget: int, others: int = 0) -> np.ndarray | None:
    """Column names (d,), None if there are none; others: bytes already used by labels or a model.

    Raises UsageError if they exceed the budget, DataError if they are not d strings.
    """
    beside = ", beside what is in memory already," if others else " alone"
    what = "the names of its columns" if source.names_bytes() else "it"
    check_read(source, budget, source.names_bytes() + others, f"{what}{beside}")
    names = source.feature_names()
    if names is None:
        return None
    if np.shape(names) != (source.features,):
        raise DataError(f"{source.name} has {len(names)} names for {source.features} columns; they must agree")
    return names if isinstance(names, np.ndarray) and names.dtype == object else as_names(names, source.name)


def make_plan(
    source: Source,
    budget: int,
    state_bytes: int,
    scratch: Scratch = _nothing,
    blocks_per_step: int = 1,
    classes: int = 1,
    row_bytes: int = 0,
    even: bool = False,
) -> Plan:
    """Plan blocks for a budget in bytes, state_bytes of which are used by weights, duals and labels.

    `scratch`          (rows, bytes of a block) -> bytes of temporary arrays.
    `blocks_per_step`  blocks that the solver visits at once, if the budget allows. As many are read ahead.
    `classes`          problems that each block is visited for.
    `row_bytes`        bytes of a row's labels that are read with the block.
    `even`             the size of the blocks does not depend on the budget.

    Raises BudgetError naming the minimum if the smallest plan exceeds the budget.
    """
    held = source.held_bytes()
    if state_bytes + held > budget:  # before the source is asked for chunks
        raise _too_small(source, budget, state_bytes, scratch, row_bytes)
    everything = np.array([0, source.rows], np.int64)
    if source.whole() is not None:
        needed = state_bytes + held + _block_bytes(source, everything, 0, scratch)
        if needed > budget:
            raise _too_small(source, budget, state_bytes, scratch)
        return Plan(everything, 0, needed, True)
    fixed = state_bytes + held + SLACK_BYTES
    available = budget - fixed
    whole = _block_bytes(source, everything, 1, scratch, row_bytes)
    if whole <= available and not even:
        return Plan(everything, 1, fixed + whole, True)
    for buffers in range(blocks_per_step + max(AHEAD, blocks_per_step), 1, -1):
        size = max(LEAST_BLOCK_BYTES, min(BLOCK_BYTES, ALL_CLASSES // classes, available // buffers))
        size = EVEN_BYTES if even else size
        while True:
            bounds = source.bounds(size)
            needed = fixed + _block_bytes(source, bounds, buffers, scratch, row_bytes)
            if needed <= budget:
                return Plan(bounds, buffers, needed, False)
            if even or size == LEAST_BLOCK_BYTES or (scratch is _nothing and not row_bytes):
                break
            size = max(LEAST_BLOCK_BYTES, size * 3 // 4)  # leave bytes for what grows with the block
    raise _too_small(source, budget, state_bytes, scratch, row_bytes, needed if even else 0)


def _too_small(
    source: Source, budget: int, state_bytes: int, scratch: Scratch, row_bytes: int = 0, needed: int = 0
) -> BudgetError:
    """needed: the bytes of the smallest plan that was tried, if blocks cannot be smaller."""
    least = max(least_budget(source, state_bytes, scratch, row_bytes), -(-needed // (1 << 20)) << 20)
    minimum = least >> 20
    needs = (
        f"{minimum}M; use `memory={minimum}M` or more"
        if least < ADDRESSABLE_BYTES
        else "over 128T; use fewer columns or classes"
    )
    text = f"a memory budget of {format_size(budget)} is too small for {source.name}: the smallest plan needs {needs}"
    return BudgetError(text, least)
