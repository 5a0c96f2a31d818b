"""Consecutive entries of one HDF5 dataset, read at the speed of the disk.

Contiguous and chunked datasets are read by preadv, into the buffer or to be decompressed (chunks.py). HDF5 itself reads
only contiguous datasets that need a conversion. It never decompresses a chunk of a file. Values of another type, such
as float16, are converted piece by piece, so they need no more memory than those of the buffer's type.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np

from streammargin.errors import DataError, ReadWriteError
from streammargin.files import short_reason
from streammargin.sources.hdf5.chunks import Chunks
from streammargin.stored import check_written

Read = Callable[[int, int], np.ndarray]  # start, stop -> these entries
_DECLARED = 1 << 30  # bytes that a file may declare without storing any
CONVERTED_BYTES = 1 << 18  # bytes as stored that are converted at a time, while they are in the processor's cache


def stored_dtype(dataset: h5py.Dataset, name: str) -> np.dtype:
    """The NumPy dtype of a dataset, or DataError if NumPy has none."""
    try:
        return dataset.dtype
    except TypeError as error:
        raise DataError(f"{name} has a type that NumPy does not have ({error}); write it again as float32") from error


def check_stored(dataset: h5py.Dataset, name: str) -> None:
    """DataError if a dataset declares over 2^20 times the bytes that it stores: no compression does that.

    Values that were never written read as fill values, so a small file can declare any number of them.
    """
    declared = int(np.prod([float(size) for size in dataset.shape])) * dataset.dtype.itemsize
    if declared < _DECLARED:
        return
    stored = dataset.id.get_storage_size()
    if stored < declared >> 20:
        raise DataError(f"{name} declares {declared} bytes and stores {stored}; write the file again")


class RowReader:
    """Entries start..stop along axis 0 of a 1- or 2-dimensional dataset, converted to `dtype`.

    raw: entries as stored bytes, for strings; `dtype` is then a void type. keep: as for Chunks. place: names an entry
    in messages. Raises DataError if values were never written.
    """

    def __init__(
        self, dataset: h5py.Dataset, dtype: np.dtype, path: str, raw: bool = False, keep: bool = False,
        place: Callable[[int], str] = "row {}".format,
    ) -> None:  # fmt: skip
        self.dataset: Any = dataset
        self.dtype: np.dtype = np.dtype(dtype)
        self.path: str = path
        self.name: str = dataset.name.lstrip("/")
        self.stored: np.dtype = self.dtype if raw else dataset.dtype
        self.length: int = int(dataset.shape[0])
        self.width: int = int(dataset.shape[1]) if dataset.ndim == 2 else 1
        self.item: int = self.width * self.stored.itemsize  # bytes of one entry of axis 0, as stored
        self._file: int | None = None  # file descriptor, if bytes are read without HDF5
        self._offset: int | None = None
        self._chunks: Chunks | None = None
        check_stored(dataset, f"{path}: {self.name}")
        check_written(dataset, f"{path}: {self.name}", place)
        self._locate(raw, keep)

    @property
    def direct(self) -> bool:
        """Whether bytes are read into the buffer without HDF5 and without a copy."""
        return self.stored.isnative and (self._offset is not None or self._straight)

    @property
    def located(self) -> bool:
        """Whether the file offsets of the bytes are known, and they can be decompressed."""
        return self._file is not None and (self._chunks is None or self._chunks.faithful)

    @property
    def _straight(self) -> bool:
        return self._chunks is not None and self._chunks.straight

    @property
    def chunk_rows(self) -> int:
        """Entries of axis 0 in a chunk; 1 if there are no chunks."""
        return int(self.dataset.chunks[0]) if self.dataset.chunks else 1

    @property
    def held_bytes(self) -> int:
        """Bytes in memory besides the buffer and CONVERTED_BYTES, independent of the number of entries read."""
        long = max(0, self.item - CONVERTED_BYTES) if self._pieced else 0
        return long + (0 if self._chunks is None else self._chunks.held_bytes)

    @property
    def _pieced(self) -> bool:
        """Whether values are converted piece by piece; those of decompressed chunks are as they are copied."""
        return self.stored != self.dtype and (self._chunks is None or self._straight)

    @property
    def least_entries(self) -> int:
        """The least number of entries to read at a time: each read decompresses whole chunks."""
        packed = self.dataset.chunks is not None and self.dataset.id.get_create_plist().get_nfilters() > 0
        return -(-min(self.chunk_rows, self.length) // 4) if packed else 1

    def _locate(self, raw: bool, keep: bool) -> None:
        dataset = self.dataset
        file = dataset.file
        # h5py widens types that NumPy does not have (a 3-byte integer, say)
        plain = self.stored.kind in "biuf" and self.stored.itemsize <= 8
        kind = dataset.id.get_type()
        if self.stored.kind == "S":  # HDF5 converts other paddings
            plain = kind.get_strpad() == h5py.h5t.STR_NULLPAD
        else:
            plain = plain and kind == h5py.h5t.py_create(self.stored, logical=True)
        name = f"{self.path}: {self.name}"
        if dataset.chunks is not None:
            self._chunks = Chunks(dataset, self.stored, name, raw or plain, keep)
        elif raw or (plain and self.stored.isnative):
            self._offset = dataset.id.get_offset()  # None: never written, or stored in the object header
        if self._offset is not None or self._chunks is not None:
            self._file = os.open(file.filename, os.O_RDONLY | os.O_CLOEXEC)

    def read(self, start: int, stop: int, out: np.ndarray) -> None:
        """Fill out[:stop - start].

        Raises DataError for a truncated or damaged file, ReadWriteError when the disk fails.
        """
        if not self._pieced:
            self._fill(start, stop, out[: stop - start])
            return
        count = max(1, CONVERTED_BYTES // self.item)
        piece = np.empty((min(count, stop - start), *out.shape[1:]), self.stored)
        for low in range(start, stop, count):
            high = min(low + count, stop)
            self._fill(low, high, piece[: high - low])
            np.copyto(out[low - start : high - start], piece[: high - low], casting="unsafe")

    def _fill(self, start: int, stop: int, target: np.ndarray) -> None:
        if stop <= start:
            return
        try:
            if self._chunks is not None:
                if not self._chunks.faithful:
                    raise OSError("its chunks are compressed by a filter that cannot be reversed safely")
                self._chunks.fill(start, stop, target, self._pread)
            elif self._offset is not None:
                view = memoryview(target).cast("B")  # type: ignore[arg-type]
                self._pread(view, self._offset + start * self.item)
            else:
                self.dataset.read_direct(target, np.s_[start:stop])
        except (OSError, RuntimeError) as error:
            if isinstance(error, (DataError, ReadWriteError)):
                raise
            hint = self._hint()
            of_the_disk = self._file is not None and getattr(error, "errno", None)
            kind = ReadWriteError if of_the_disk else DataError
            raise kind(
                f"{self.path}: cannot read rows {start}..{stop} of {self.name} ({short_reason(error)}){hint}"
            ) from error

    def _hint(self) -> str:
        """The remedy for a dataset that cannot be read."""
        plist = self.dataset.id.get_create_plist()
        filters = [plist.get_filter(k) for k in range(plist.get_nfilters())]
        names = {f[0]: f[3].decode(errors="replace") or str(f[0]) for f in filters}
        lacking = [code for code in names if not h5py.h5z.filter_avail(code)]
        if lacking:
            return f"; its compression ({names[lacking[0]]}) needs pip install hdf5plugin"
        if self._chunks is not None and not self._chunks.faithful:
            return f"; replace its compression, {', '.join(names.values())}, with: h5repack -f GZIP=4 IN OUT"
        return "; the file may be damaged"

    def _pread(self, view: memoryview, offset: int) -> None:
        assert self._file is not None
        done = 0
        while done < len(view):
            got = os.preadv(self._file, [view[done:]], offset + done)
            if got == 0:
                raise DataError(f"{self.path} is truncated: {self.name} ends early; copy or convert the file again")
            done += got

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
        if self._chunks is not None:
            self._chunks.close()
