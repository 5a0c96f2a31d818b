"""Consecutive entries of one HDF5 dataset, read at the speed of the disk.

Contiguous and chunked datasets are read by preadv at their own offsets, straight into the buffer or to be unpacked
(hdf5_chunks.py), virtual ones from their sources (hdf5_virtual.py). HDF5 is left with what is stored as it is, in
contiguous pieces: types that are to be converted, and raw values in other files. It unpacks no chunk of a file.
"""

from __future__ import annotations

import os

import h5py
import numpy as np

from streammargin.errors import DataError, ReadWriteError
from streammargin.files import short_reason
from streammargin.sources.hdf5.chunks import Chunks
from streammargin.sources.hdf5.virtual import Parts

_DECLARED = 1 << 30  # bytes that a file may declare without storing any


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
    """Entries start..stop along axis 0 of a 1- or 2-dimensional dataset, converted to `dtype`.

    raw: entries as the bytes that the file holds, for texts; `dtype` is their void type. keep: as for Chunks.
    """

    def __init__(
        self, dataset: h5py.Dataset, dtype: np.dtype, path: str, raw: bool = False, keep: bool = False
    ) -> None:
        self.dataset, self.dtype, self.path = dataset, np.dtype(dtype), path
        self.name = dataset.name.lstrip("/")
        self.stored = self.dtype if raw else dataset.dtype
        self.length = int(dataset.shape[0])
        self.width = int(dataset.shape[1]) if dataset.ndim == 2 else 1
        self.item = self.width * self.stored.itemsize  # bytes of one entry of axis 0, as stored
        self._file: int | None = None  # where the bytes are read without HDF5
        self._offset: int | None = None
        self._chunks: Chunks | None = None
        self._parts: Parts | None = None
        check_stored(dataset, f"{path}: {self.name}")
        self._locate(raw, keep)

    @property
    def direct(self) -> bool:
        """Whether the bytes are read into place without HDF5."""
        return self.stored.isnative and (self._offset is not None or self._straight)

    @property
    def located(self) -> bool:
        """Whether it is known where the bytes lie in the file, and they can be unpacked."""
        return self._file is not None and (self._chunks is None or self._chunks.faithful)

    @property
    def _straight(self) -> bool:
        return self._chunks is not None and self._chunks.straight

    @property
    def chunk_rows(self) -> int:
        """Entries of axis 0 in a chunk; 1 where there are no chunks."""
        return int(self.dataset.chunks[0]) if self.dataset.chunks else 1

    @property
    def held_bytes(self) -> int:
        """Bytes that are held however many entries are read, or pass through memory then."""
        held = self._chunks or self._parts
        return 0 if held is None else held.held_bytes

    @property
    def least_entries(self) -> int:
        """Entries that should be read at a time at least: a compressed chunk is unpacked as a whole for each piece."""
        packed = self.dataset.chunks is not None and self.dataset.id.get_create_plist().get_nfilters() > 0
        return -(-min(self.chunk_rows, self.length) // 4) if packed else 1

    def _locate(self, raw: bool, keep: bool) -> None:
        dataset = self.dataset
        file = dataset.file
        # a type that NumPy lacks (a 3-byte integer, say) is widened by h5py
        plain = self.stored.kind in "biuf" and self.stored.itemsize <= 8
        kind = dataset.id.get_type()
        if self.stored.kind == "S":  # others than NumPy's are cut and padded by HDF5
            plain = kind.get_strpad() == h5py.h5t.STR_NULLPAD
        else:
            plain = plain and kind == h5py.h5t.py_create(self.stored, logical=True)
        name = f"{self.path}: {self.name}"
        if dataset.is_virtual:
            self._parts = None if raw else Parts(dataset, name, RowReader)
        elif dataset.chunks is not None:
            self._chunks = Chunks(dataset, self.stored, name, raw or plain, keep)
        elif (raw or (plain and self.stored.isnative)) and not dataset.id.get_create_plist().get_external_count():
            self._offset = dataset.id.get_offset()  # None: never written, or stored in the object header
        if self._offset is not None or self._chunks is not None:
            self._file = os.open(file.filename, os.O_RDONLY | os.O_CLOEXEC)  # an external link leads to another file

    def _pieces(self, start: int, stop: int) -> list[tuple[int, int]]:
        """(file offset, bytes) of the entries where they are stored as they are."""
        if self._chunks is not None:
            return self._chunks.pieces(start, stop)
        assert self._offset is not None
        return [(self._offset + start * self.item, (stop - start) * self.item)]

    def announce(self, start: int, stop: int) -> None:
        """Let the system begin to read these entries while others are copied; nothing waits for it."""
        if (self._offset is None and not self._straight) or not hasattr(os, "posix_fadvise"):  # macOS has none
            return
        assert self._file is not None
        for offset, size in self._pieces(start, stop) if stop > start else ():
            if offset >= 0:
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
            if self._parts is not None:
                self._parts.fill(start, stop, target)
            elif self._chunks is not None:
                if not self._chunks.faithful:
                    raise OSError("its chunks are packed by a filter that cannot be undone apart from it")
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
        """What to do about a dataset that cannot be read."""
        plist = self.dataset.id.get_create_plist()
        filters = [plist.get_filter(k) for k in range(plist.get_nfilters())]
        names = {f[0]: f[3].decode(errors="replace") or str(f[0]) for f in filters}
        lacking = [code for code in names if not h5py.h5z.filter_avail(code)]
        if lacking:
            return f"; its compression ({names[lacking[0]]}) needs pip install hdf5plugin"
        if self._chunks is not None and not self._chunks.faithful:
            return f"; pack it otherwise than by {', '.join(names.values())}: h5repack -f GZIP=4 IN OUT"
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
        for held in (self._chunks, self._parts):
            if held is not None:
                held.close()
