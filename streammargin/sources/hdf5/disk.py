"""HDF5 files that are written through Python, as HDF5 does not survive a disk that is full, and in whole chunks."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from typing import Any, BinaryIO

import h5py
import numpy as np

CHUNK_BYTES = 4 << 20
TEXT_BYTES = 64  # of a text: the object, and what HDF5 makes of it


class Disk(io.RawIOBase):
    """What HDF5 takes for its file. A failed write is kept for `check`, and HDF5 goes on as if it had not failed.

    HDF5 tries a write that failed once more for each object that is closed, prints a traceback for each, and may end
    the process.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.error: OSError | None = None
        self._end = os.fstat(file.fileno()).st_size  # as HDF5 knows it

    def check(self) -> None:
        """Raise the OSError of the first write that failed."""
        if self.error is not None:
            raise self.error

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """The position; from the end it is the end that HDF5 knows."""
        self._at = self._end + offset if whence == os.SEEK_END else offset
        return self._at

    def tell(self) -> int:
        """The position."""
        return self._at

    def write(self, data: Any) -> int:
        """All of the bytes, unless a write failed."""
        view, start = memoryview(data).cast("B"), self._at
        self._at += len(view)
        self._end = max(self._end, self._at)
        try:
            while self.error is None and start < self._at:
                start += os.pwrite(self.file.fileno(), view[len(view) - (self._at - start) :], start)
        except OSError as error:
            self.error = error
        return len(view)

    def readinto(self, buffer: Any) -> int:
        """The bytes at the position; zeros in place of bytes that could not be written."""
        view = memoryview(buffer).cast("B")
        found = os.pread(self.file.fileno(), len(view), self._at)
        view[: len(found)] = found
        view[len(found) :] = bytes(len(view) - len(found))
        self._at += len(view)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        """Cut the file, or make it longer."""
        self._end = self._at if size is None else size
        try:
            if self.error is None:
                os.ftruncate(self.file.fileno(), self._end)
        except OSError as error:
            self.error = error
        return self._end

    def flush(self) -> None:
        """Nothing is held back."""


@contextlib.contextmanager
def writable(path: str, mode: str = "w", **options: Any) -> Iterator[tuple[h5py.File, Disk]]:
    """An HDF5 file to write, of mode "w" or "r+"; it is closed, and on disk, when the block ends.

    Raises the OSError of a write that failed, also in place of what came of it. `Disk.check` raises it earlier.
    """
    with open(path, "r+b" if mode == "r+" else "w+b", buffering=0) as raw:
        disk = Disk(raw)
        try:
            with h5py.File(disk, mode, **options) as file:
                yield file, disk
        except Exception as error:
            if disk.error is not None:
                raise disk.error from error
            raise
        disk.check()
        os.fsync(raw.fileno())


class Appender:
    """A dataset of unknown length: written in whole chunks, or contiguous if it stays shorter than one chunk."""

    def __init__(self, group: h5py.Group, name: str, dtype: Any, width: int | None = None) -> None:
        self.group: Any = group
        self.name: str = name
        self.dtype: np.dtype = np.dtype(dtype)
        self.tail: tuple[int, ...] = () if width is None else (width,)
        item = TEXT_BYTES if self.dtype.hasobject else self.dtype.itemsize
        row_bytes = max(1, item * (1 if width is None else width))
        self.chunk: int = max(1, CHUNK_BYTES // row_bytes)
        self.length: int = 0
        self._dataset: h5py.Dataset | None = None
        self._buffer: np.ndarray | None = None  # rows that are no whole chunk yet
        self._held = 0

    def append(self, values: np.ndarray) -> None:
        """Add values at the end; the caller may reuse the array."""
        values = np.asarray(values, self.dtype)
        self.length += len(values)
        while len(values):
            if not self._held and len(values) >= self.chunk:
                self._write(values[: self.chunk])
                values = values[self.chunk :]
                continue
            if self._buffer is None:
                self._buffer = np.empty((self.chunk, *self.tail), self.dtype)
            taken = values[: self.chunk - self._held]
            self._buffer[self._held : self._held + len(taken)] = taken
            self._held, values = self._held + len(taken), values[len(taken) :]
            if self._held == self.chunk:
                self._write(self._buffer)
                self._held = 0

    def _write(self, values: np.ndarray) -> None:
        if self._dataset is None:
            self._dataset = self._create((0, *self.tail), chunks=(self.chunk, *self.tail), maxshape=(None, *self.tail))
        start = self._dataset.shape[0]
        self._dataset.resize(start + len(values), axis=0)
        for part in _parts(values):
            self._dataset[start + part.start : start + part.stop] = values[part]

    def _create(self, shape: tuple[int, ...], **options: Any) -> h5py.Dataset:
        return self.group.create_dataset(self.name, shape, self.dtype, **options)

    def close(self) -> None:
        """Write the rest."""
        if self._dataset is None:
            rest = np.empty((0, *self.tail), self.dtype) if self._buffer is None else self._buffer[: self._held]
            dataset = self._create(rest.shape)
            for part in _parts(rest):
                dataset[part] = rest[part]
        elif self._buffer is not None and self._held:
            self._write(self._buffer[: self._held])
        self._buffer, self._held = None, 0


def _parts(values: np.ndarray) -> Iterator[slice]:
    """All values; texts a few at a time, as HDF5 copies each of them, and a long one may stand in many rows."""
    if not values.dtype.hasobject:
        yield slice(0, len(values))
        return
    start = size = 0
    for place, text in enumerate(values.tolist()):
        size += len(text)
        if size > CHUNK_BYTES:
            yield slice(start, place + 1)
            start, size = place + 1, 0
    if start < len(values):
        yield slice(start, len(values))
