"""Check the indices of sparse rows once; kernels do not check them again."""

from __future__ import annotations

import numpy as np
from numba.extending import register_jitable

from streammargin.compiled.jit import kernel
from streammargin.compiled.samples import SampleBlock
from streammargin.rows.blocks import CSRBlock

FINE, OUT_OF_RANGE, TWICE, UNSORTED = range(4)


@register_jitable
def _in_order(indices, indptr, width):
    """Whether the indices of every row are increasing and below width: one loop over all, without early exit."""
    first, last = indptr[0], indptr[indptr.size - 1]
    within = indices[first:last]
    falls, largest = 0, np.uint32(0)
    for k in range(within.size - 1):
        falls += within[k + 1] <= within[k]
        largest = max(largest, within[k])
    if within.size > 0:
        largest = max(largest, within[within.size - 1])
        if largest >= width:
            return False
    # do not count decreases from one row to the next
    before = first
    for i in range(1, indptr.size - 1):
        start = indptr[i]
        if before < start < last:
            falls -= indices[start] <= indices[start - 1]
        before = start
    return falls == 0


@kernel
def check_sparse(indices, indptr, width):
    """(code, row, index) of the first row whose indices are out of range, repeated or unsorted."""
    if _in_order(indices, indptr, width):
        return FINE, 0, 0
    unsorted_row = -1
    for i in range(indptr.size - 1):
        previous = np.int64(-1)
        for k in range(indptr[i], indptr[i + 1]):
            j = np.int64(indices[k])
            if j >= width:
                return OUT_OF_RANGE, i, j
            if j <= previous:
                if j == previous:
                    return TWICE, i, j
                if unsorted_row < 0:
                    unsorted_row = i
            previous = j
    if unsorted_row >= 0:
        return UNSORTED, unsorted_row, 0
    return FINE, 0, 0


@kernel
def sort_rows(data, indices, indptr):
    """Sort each row by index, in place (Shell's method: NumPy's sort costs seconds to compile)."""
    for i in range(indptr.size - 1):
        start, stop = indptr[i], indptr[i + 1]
        step = 1
        while step < (stop - start) // 3:
            step = 3 * step + 1
        while step > 0:
            for k in range(start + step, stop):
                index, value = indices[k], data[k]
                m = k
                while m >= start + step and indices[m - step] > index:
                    indices[m] = indices[m - step]
                    data[m] = data[m - step]
                    m -= step
                indices[m] = index
                data[m] = value
            step //= 3


def warm(sample: SampleBlock) -> None:
    if isinstance(sample.block, CSRBlock):
        data, indices, indptr = sample.block[:3]
        check_sparse(indices, indptr, 2)
        sort_rows(data.copy(), indices.copy(), indptr)
