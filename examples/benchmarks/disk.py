"""Disk access of benchmarks: a file that is not in the page cache, bytes that were read, a plain read."""

from __future__ import annotations

import os
import time

PIECE = 8 << 20


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
