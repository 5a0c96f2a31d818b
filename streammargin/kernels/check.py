"""Is a block fit for a kernel? Indices are not checked again inside the loops."""

from __future__ import annotations

import numpy as np

from streammargin.kernels.jit import kernel

FINE, NOT_FINITE, OUT_OF_RANGE, TWICE, UNSORTED = 0, 1, 2, 3, 4


@kernel
def first_not_finite(values):
    """Position of the first NaN or infinity in a flat array, or -1."""
    total = values.dtype.type(0)
    # x - x is 0 for finite x only; one sum per stretch is vectorised, the search runs when it fails
    for start in range(0, values.size, 4096):
        stop = min(start + 4096, values.size)
        for k in range(start, stop):
            total += values[k] - values[k]
        if total != 0:
            for k in range(start, stop):
                if not np.isfinite(values[k]):
                    return k
    return -1


@kernel
def check_sparse(indices, indptr, width):
    """(code, row, index) of the first row whose indices are out of range, repeated or unsorted."""
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
