"""Consecutive entries of one HDF5 dataset, read at the speed of the disk.

Contiguous and unfiltered chunked datasets are read by preadv at their own offsets, straight into the
buffer, deflated chunks too, to be unpacked here; everything else (other compression, foreign byte order, virtual, ...)
by h5py without its chunk cache.
"""

from __future__ import annotations

import os
from typing import Any

import h5py
import numpy as np

from streammargin.data.hdf5_packed import PackedChunks, packing
from streammargin.errors import DataError, ReadWriteError
from streammargin.files import short_reason

_DECLARED = 1 << 30  # bytes that a file may declare without storing any
_CHUNK_BYTES = 6 << 10  # what HDF5 itself holds of a chunk while it reads a piece of the dataset


def stored_dtype(dataset: h5py.Dataset, name: str) -> np.dtype:
    """The NumPy type of a dataset, or DataError where there is none."""
    try:
        return dataset.dtype
    except TypeError as error:
        raise DataError(f"{name} has a type that NumPy lacks ({error}); write it again as float32") from error


def check_stored(dataset: h5py.Dataset, name: str) -> None:
    """DataError where a dataset declares far more than it stores: no compression makes a million bytes of one.

    What was never written reads as fill values, of which a small file can declare any number.
    """
    declared = int(np.prod([float(size) for size in dataset.shape])) * dataset.dtype.itemsize
    if declared < _DECLARED or dataset.is_virtual or dataset.id.get_create_plist().get_external_count():
        return
    stored = dataset.id.get_storage_size()
    if stored < declared >> 20:
        raise DataError(f"{name} declares {declared} bytes and stores {stored}; write the file again")


class RowReader:
    """Entries start..stop along axis 0 of a 1- or 2-dimensional dataset, converted to `dtype`."""

    def __init__(self, dataset: h5py.Dataset, dtype: np.dtype, path: str) -> None:
        self.dataset, self.dtype, self.path = dataset, np.dtype(dtype), path
        self.name = dataset.name.lstrip("/")
        self.stored = dataset.dtype
        self.length = int(dataset.shape[0])
        self.width = int(dataset.shape[1]) if dataset.ndim == 2 else 1
        self.item = self.width * self.stored.itemsize  # bytes of one entry of axis 0, as stored
        self.filtered = dataset.chunks is not None and dataset.id.get_create_plist().get_nfilters() > 0
        self._file: int | None = None
        self._offset: int | None = None
        self._chunks: np.ndarray | None = None
        self._packed: PackedChunks | None = None
        self._archive: int | None = None  # the file of the packed chunks
        check_stored(dataset, f"{path}: {self.name}")
        self._locate()

    @property
    def direct(self) -> bool:
        """Whether the bytes are read without HDF5."""
        return self._file is not None

    @property
    def chunk_rows(self) -> int:
        """Entries of axis 0 in a chunk; 1 where there are no chunks."""
        return int(self.dataset.chunks[0]) if self.dataset.chunks else 1

    def scratch_bytes(self, entries: int) -> int:
        """Bytes beside the output that reading this many entries takes."""
        scratch = 0 if self.stored == self.dtype else entries * self.item
        if self.dataset.chunks and not self.direct:
            copies = 2 if self._packed is None else 3  # packed, unpacked and in order
            scratch += copies * int(np.prod(self.dataset.chunks)) * self.stored.itemsize
            scratch += entries * self.entry_overhead
        return scratch

    @property
    def entry_overhead(self) -> int:
        """Bytes that HDF5 takes for the chunks of one entry of axis 0, beside their values."""
        if self.direct or not self.dataset.chunks:
            return 0
        across = -(-self.width // int(self.dataset.chunks[1])) if self.dataset.ndim == 2 else 1
        return -(-_CHUNK_BYTES * across // self.chunk_rows)

    @property
    def least_entries(self) -> int:
        """Entries that should be read at a time at least: a compressed chunk is unpacked as a whole for each piece."""
        return -(-min(self.chunk_rows, self.length) // 4) if self.filtered else 1

    def _locate(self) -> None:
        dataset = self.dataset
        plist = dataset.id.get_create_plist()
        file = dataset.file
        # a type that NumPy lacks (a 3-byte integer, say) is widened by h5py
        plain = self.stored.kind in "biuf" and self.stored.itemsize <= 8
        plain = plain and dataset.id.get_type() == h5py.h5t.py_create(self.stored, logical=True)
        plain = plain and not (file.userblock_size or plist.get_external_count() or dataset.is_virtual)
        filters = packing(dataset) if plain and self.filtered and file.driver in ("sec2", "stdio") else None
        if filters is not None:
            self._open_packed(filters)
            return
        if not plain or self.filtered or not self.stored.isnative:
            if self.dataset.chunks is not None and not dataset.is_virtual:
                dataset.id.chunk_iter(self._check_place)
            return
        if file.driver not in ("sec2", "stdio"):
            return
        if dataset.chunks is None:
            self._offset = dataset.id.get_offset()
            if self._offset is None:  # never written, or stored in the object header
                return
        else:
            if dataset.ndim == 2 and dataset.chunks[1] != self.width:  # wider ones pad every row
                return
            count = -(-self.length // self.chunk_rows)
            if dataset.id.get_num_chunks() != count:  # what was never written reads as fill values
                return
            table = np.full(count, -1, np.int64)

            def note(info: Any) -> None:
                self._check_place(info)
                table[info.chunk_offset[0] // self.chunk_rows] = info.byte_offset

            dataset.id.chunk_iter(note)
            if np.any(table < 0):
                return
            self._chunks = table
        self._file = os.open(file.filename, os.O_RDONLY | os.O_CLOEXEC)  # an external link leads to another file

    def _open_packed(self, filters: list[int]) -> None:
        packed = PackedChunks(self.dataset, filters)

        def note(info: Any) -> None:
            self._check_place(info)
            packed.note(info)

        self.dataset.id.chunk_iter(note)
        if packed.complete():
            self._packed, self._archive = packed, os.open(self.dataset.file.filename, os.O_RDONLY | os.O_CLOEXEC)

    def _check_place(self, info: Any) -> None:
        """Refuse a chunk that lies where none can be: HDF5 would give its values to other rows."""
        sizes = zip(info.chunk_offset, self.dataset.chunks, self.dataset.shape, strict=True)
        wrong = any(offset % size or offset >= length for offset, size, length in sizes)
        whole = int(np.prod(self.dataset.chunks)) * self.dataset.id.get_type().get_size()
        if wrong or (not self.filtered and info.size != whole):
            raise DataError(
                f"{self.path}: a chunk of {self.name} lies where none can be; copy or convert the file again"
            )

    def _pieces(self, start: int, stop: int) -> list[tuple[int, int]]:
        """(file offset, bytes) of the entries, pieces that are neighbours in the file joined."""
        if self._chunks is None:
            assert self._offset is not None
            return [(self._offset + start * self.item, (stop - start) * self.item)]
        pieces: list[tuple[int, int]] = []
        rows = self.chunk_rows
        for chunk in range(start // rows, -(-stop // rows)):
            low, high = max(start, chunk * rows), min(stop, (chunk + 1) * rows)
            offset = int(self._chunks[chunk]) + (low - chunk * rows) * self.item
            size = (high - low) * self.item
            if pieces and sum(pieces[-1]) == offset:
                pieces[-1] = (pieces[-1][0], pieces[-1][1] + size)
            else:
                pieces.append((offset, size))
        return pieces

    def announce(self, start: int, stop: int) -> None:
        """Let the system begin to read these entries while others are copied; nothing waits for it."""
        if self._file is not None and stop > start and hasattr(os, "posix_fadvise"):  # macOS has none
            for offset, size in self._pieces(start, stop):
                os.posix_fadvise(self._file, offset, size, os.POSIX_FADV_WILLNEED)

    def read(self, start: int, stop: int, out: np.ndarray, scratch: np.ndarray | None = None) -> None:
        """Fill out[:stop - start]; scratch (uint8) is needed where the stored type differs.

        Raises DataError for a truncated or damaged file, ReadWriteError when the disk fails.
        """
        if stop <= start:
            return
        target = out[: stop - start]
        if self.stored != self.dtype:
            size = (stop - start) * self.item
            assert scratch is not None
            raw = scratch[:size].view(self.stored).reshape(target.shape)
            self._fill(start, stop, raw)
            np.copyto(target, raw, casting="unsafe")
        else:
            self._fill(start, stop, target)

    def _fill(self, start: int, stop: int, target: np.ndarray) -> None:
        try:
            if self._packed is not None:
                self._packed.fill(start, stop, target, self._pread)
                return
            if self._file is None:
                self.dataset.read_direct(target, np.s_[start:stop])
                return
            view = memoryview(target).cast("B")  # type: ignore[arg-type]
            done = 0
            for offset, size in self._pieces(start, stop):
                self._pread(view[done : done + size], offset)
                done += size
        except (OSError, RuntimeError) as error:
            if isinstance(error, (DataError, ReadWriteError)):
                raise
            lacking = self._lacking_filter()
            hint = (
                f"; its compression ({lacking}) needs pip install hdf5plugin"
                if lacking
                else "; the file may be damaged"
            )
            of_the_disk = self._file is not None or (self._packed is not None and getattr(error, "errno", None))
            kind = ReadWriteError if of_the_disk else DataError
            raise kind(
                f"{self.path}: cannot read rows {start}..{stop} of {self.name} ({short_reason(error)}){hint}"
            ) from error

    def _lacking_filter(self) -> str | None:
        """Name of a filter of the dataset that is not installed."""
        plist = self.dataset.id.get_create_plist()
        filters = [plist.get_filter(k) for k in range(plist.get_nfilters())]
        return next((f[3].decode() or str(f[0]) for f in filters if not h5py.h5z.filter_avail(f[0])), None)

    def _pread(self, view: memoryview, offset: int) -> None:
        file = self._file if self._packed is None else self._archive
        assert file is not None
        done = 0
        while done < len(view):
            got = os.preadv(file, [view[done:]], offset + done)
            if got == 0:
                raise DataError(f"{self.path} is truncated: {self.name} ends early; copy or convert the file again")
            done += got

    def close(self) -> None:
        for file in (self._file, self._archive):
            if file is not None:
                os.close(file)
        self._file = self._archive = None
