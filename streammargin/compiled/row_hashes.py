"""Sums of row hashes, independent of the order and the blocks in which rows are read.

Words are mixed one-to-one, so a change of a single value is always detected.
"""

from __future__ import annotations

import numpy as np

from streammargin.compiled.jit import kernel
from streammargin.compiled.order import ONE, STATE_STEP, mixed
from streammargin.compiled.samples import SampleBlock
from streammargin.rows.blocks import Block, CSRBlock


@kernel
def _dense_sum(words, low, high, first):
    found = np.uint64(0)
    for i in range(low, high):
        row = words[i]
        total, place = np.uint64(0), np.uint64(0)
        for j in range(row.size):
            place += STATE_STEP
            total += mixed(np.uint64(row[j]) + place)
        found += mixed(total + np.uint64(first + i) * STATE_STEP)
    return np.int64(found)


@kernel
def _sparse_sum(words, indices, indptr, low, high, first):
    found = np.uint64(0)
    for i in range(low, high):
        # slices: indices from 0 are known not to be negative, so LLVM vectorises the loop
        values, places = words[indptr[i] : indptr[i + 1]], indices[indptr[i] : indptr[i + 1]]
        total = np.uint64(0)
        for k in range(values.size):
            total += mixed(np.uint64(values[k]) + (np.uint64(places[k]) + ONE) * STATE_STEP)
        found += mixed(total + np.uint64(first + i) * STATE_STEP)
    return np.int64(found)


def row_hashes(block: Block, low: int, high: int, first: int) -> int:
    """The sum of hashes mod 2^64, as int64, over rows low..high of a block whose row 0 has the number `first`.

    Not a cryptographic hash: it detects damage and mistakes, not forgery. It depends on the bits of the values, not on
    the order of the values in a sparse row.
    """
    with np.errstate(over="ignore"):  # NumPy would warn without the JIT
        if isinstance(block, CSRBlock):
            words = block.data.view(f"u{block.data.itemsize}")
            return int(_sparse_sum(words, block.indices, block.indptr, low, high, first))
        return int(_dense_sum(block.X.view(f"u{block.X.itemsize}"), low, high, first))


def warm(sample: SampleBlock) -> None:
    row_hashes(sample.block, 0, 2, 0)
