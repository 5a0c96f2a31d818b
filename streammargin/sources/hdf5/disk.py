"""HDF5 files that are written through Python, as HDF5 does not survive a disk that is full."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from typing import Any, BinaryIO

import h5py


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
