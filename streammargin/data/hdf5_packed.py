"""Chunks that deflate packed, shuffled before or not: read by preadv and unpacked here.

HDF5 takes what a chunk unpacks to for the whole chunk, whatever its length, and hands out the memory beside it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np


def packing(dataset: h5py.Dataset) -> list[int] | None:
    """The filters of a dataset, in the order in which they packed it; None where this module knows one of them not."""
    plist = dataset.id.get_create_plist()
    found = [int(plist.get_filter(k)[0]) for k in range(plist.get_nfilters())]
    return found if found in ([h5py.h5z.FILTER_DEFLATE], [h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_DEFLATE]) else None


class PackedChunks:
    """The chunks of a 1- or 2-dimensional dataset.

    pread(view, offset) fills a view from the file. Raises OSError for chunks that are damaged.
    """

    def __init__(self, dataset: h5py.Dataset, filters: list[int]) -> None:
        self.filters = filters
        self.stored = dataset.dtype
        self.shape = (*dataset.shape, 1)[:2]
        self.chunk = (*dataset.chunks, 1)[:2]
        self.across = -(-self.shape[1] // self.chunk[1])
        count = -(-self.shape[0] // self.chunk[0]) * self.across
        self.places = np.full((count, 3), -1, np.int64)  # offset in the file, bytes, filters left out

    def note(self, info: Any) -> None:
        """Where a chunk lies, as HDF5 tells it."""
        row, column = (*info.chunk_offset, 0)[:2]
        number = row // self.chunk[0] * self.across + column // self.chunk[1]
        self.places[number] = info.byte_offset, info.size, info.filter_mask

    def complete(self) -> bool:
        """Whether all chunks are there: what was never written reads as fill values."""
        return not np.any(self.places[:, 0] < 0)

    def fill(self, start: int, stop: int, target: np.ndarray, pread: Callable[[memoryview, int], None]) -> None:
        """target (stop - start,) or (stop - start, d), of the stored type, from these entries."""
        rows, columns = self.chunk
        out = target.reshape(stop - start, self.shape[1])
        for line in range(start // rows, -(-stop // rows)):
            low, high = max(start, line * rows), min(stop, (line + 1) * rows)
            for place in range(self.across):
                values = self._values(line * self.across + place, pread)
                part = out[low - start : high - start, place * columns : (place + 1) * columns]
                part[...] = values[low - line * rows : high - line * rows, : part.shape[1]]

    def _values(self, number: int, pread: Callable[[memoryview, int], None]) -> np.ndarray:
        offset, size, left_out = self.places[number].tolist()
        raw: Any = bytearray(size)
        pread(memoryview(raw), offset)
        item = self.stored.itemsize
        whole = self.chunk[0] * self.chunk[1] * item
        for position in reversed(range(len(self.filters))):
            if left_out >> position & 1:
                continue
            if self.filters[position] == h5py.h5z.FILTER_DEFLATE:
                raw = self._inflated(raw, whole)
            elif len(raw) == whole:
                raw = np.frombuffer(raw, np.uint8).reshape(item, -1).T.tobytes()
        if len(raw) != whole:
            raise _damaged(f"{len(raw)} bytes")
        return np.frombuffer(raw, self.stored).reshape(self.chunk)

    def _inflated(self, raw: bytearray, whole: int) -> bytes:
        unpacker = zlib.decompressobj()
        try:
            found = unpacker.decompress(raw, whole + 1)
        except zlib.error as error:
            raise _damaged(f"nothing ({error})") from error
        if not unpacker.eof:
            raise _damaged("another length")
        return found


def _damaged(what: str) -> OSError:
    """The error of a chunk that unpacks to this; without the number that one of the disk has."""
    return OSError(f"a compressed chunk unpacks to {what}")
