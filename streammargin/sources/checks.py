"""Checks of a block that was read: no kernel, and no map, gets a value or an index that is wrong."""

from __future__ import annotations

import numpy as np

from streammargin.errors import DataError
from streammargin.rows.blocks import Block, CSRBlock, DenseBlock
from streammargin.sources.base import Source
from streammargin.workers import ALONE, Workers

CHECKED_VALUES = 1 << 20  # by one thread
STRETCH = 1 << 16  # values checked at once, while they are in the processor's cache


def check_block(source: Source, block: Block, start: int, borrowed: bool = False, workers: Workers = ALONE) -> Block:
    """The block, valid for a kernel: finite values, column indices sorted, unique and in range. Else DataError.

    Unsorted sparse rows are sorted in place, or in a copy if the arrays belong to the user (borrowed).
    """
    from streammargin.compiled import block_checks

    if isinstance(block, CSRBlock):
        code, row, index = block_checks.check_sparse(block.indices, block.indptr, block.width)
        if code == block_checks.UNSORTED:
            if borrowed:
                block = block._replace(data=block.data.copy(), indices=block.indices.copy())
            block_checks.sort_rows(block.data, block.indices, block.indptr)
            code, row, index = block_checks.check_sparse(block.indices, block.indptr, block.width)
        if code in (block_checks.OUT_OF_RANGE, block_checks.TWICE):
            where, row = source.place(start + int(row))
        if code == block_checks.OUT_OF_RANGE:
            raise DataError(
                f"{where}: row {row} has the column index {int(np.uint32(index).view(np.int32))}, "
                f"outside 0..{block.width - 1}; write the data again, with the right shape"
            )
        if code == block_checks.TWICE:
            raise DataError(f"{where}: row {row} has column {index} twice; sum the duplicates")
    values = block.X.reshape(-1) if isinstance(block, DenseBlock) else block.data
    pieces = [values[low : low + CHECKED_VALUES] for low in range(0, values.size, CHECKED_VALUES)]
    found = workers.each(first_not_finite, pieces)
    bad = next((number * CHECKED_VALUES + at for number, at in enumerate(found) if at >= 0), -1)
    if bad >= 0:
        if isinstance(block, DenseBlock):
            row, column = divmod(bad, block.features())
        else:
            row, column = int(np.searchsorted(block.indptr, bad, side="right")) - 1, int(block.indices[bad])
        what = "NaN" if np.isnan(values[bad]) else "an infinite value"
        where, row = source.place(start + row)
        raise DataError(f"{where}: row {row}, column {column} is {what}; drop the row or replace the value")
    return block


def first_not_finite(values: np.ndarray) -> int:
    """Position of the first NaN or infinity in a flat array, or -1."""
    for start in range(0, values.size, STRETCH):
        finite = np.isfinite(values[start : start + STRETCH])
        if not finite.all():
            return start + int(np.argmin(finite))
    return -1
