"""Disk access of benchmarks: a file that is not in the page cache, bytes that were read, a plain read, blocks."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from streammargin.reading.prefetch import read_blocks
from streammargin.rows.blocks import CSRBlock
from streammargin.sources.base import Source

PIECE, BLOCK = 8 << 20, 128 << 20


def drop(path: str) -> None:
    """Forget the file's pages."""
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(handle)


def raw_read(path: str) -> float:
    """Seconds to read the file once from its beginning to its end, with nothing done to it."""
    buffer = memoryview(bytearray(PIECE))
    handle = os.open(path, os.O_RDONLY)
    started, place = time.perf_counter(), 0
    while got := os.preadv(handle, [buffer], place):
        place += got
    seconds = time.perf_counter() - started
    os.close(handle)
    return seconds


def bytes_read() -> int:
    """Bytes that this process has read from any file, cached or not, as the system counts them (Linux)."""
    with open("/proc/self/io", encoding="ascii") as file:
        return int(file.readline().split()[1])


def row_bytes(source: Source) -> int:
    """Bytes of the rows: values, and of sparse rows column numbers and ends."""
    return source.nnz * (source.dtype.itemsize + 4 * source.sparse) + 8 * source.rows * source.sparse


def matrices(source: Source) -> Iterator[tuple[int, int, Any]]:
    """(first row, end, array or CSR matrix) of every block."""
    for start, stop, block in read_blocks(source, BLOCK):
        if isinstance(block, CSRBlock):
            shape = (stop - start, source.features)
            yield start, stop, csr_matrix((block.data, block.indices.view(np.int32), block.indptr), shape)
        else:
            yield start, stop, block.X
