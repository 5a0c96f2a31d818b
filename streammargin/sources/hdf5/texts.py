"""Columns of texts of variable length, read without HDF5."""

from __future__ import annotations

import h5py
import numpy as np

from streammargin.errors import DataError
from streammargin.sources.hdf5.heap import Heap
from streammargin.sources.hdf5.reader import RowReader

_REFERENCE = np.dtype([("length", "<u4"), ("address", "<u8"), ("number", "<u4")])
_PIECE = 1 << 16


class TextReader:
    """Entries start..stop of a 1-dimensional dataset of texts. Raises DataError for one that is damaged."""

    def __init__(self, dataset: h5py.Dataset, path: str, name: str) -> None:
        self.name, self._heap = name, Heap(dataset.file)
        self._reader = RowReader(dataset, np.dtype((np.void, _REFERENCE.itemsize)), path, raw=True, keep=True)
        if not self._reader.located:
            self._reader.close()
            raise DataError(
                f"{name} holds texts of variable length in a way that cannot be checked (virtual, never written, or "
                "packed by an unknown filter); write the column again"
            )

    @property
    def held_bytes(self) -> int:
        """Bytes that reading holds."""
        return self._reader.held_bytes

    def text_bytes(self) -> int:
        """Bytes of all texts, of which none is read."""
        total = 0
        for start in range(0, self._reader.length, _PIECE):
            raw = np.empty(min(_PIECE, self._reader.length - start), self._reader.dtype)
            self._reader.read(start, start + len(raw), raw)
            total += int(raw.view(_REFERENCE)["length"].sum(dtype=np.int64))
        return total

    def read(self, start: int, stop: int) -> np.ndarray:
        """The texts (stop - start,), as objects."""
        raw = np.empty(stop - start, self._reader.dtype)
        self._reader.read(start, stop, raw)
        found = np.empty(stop - start, object)
        for k, reference in enumerate(raw.view(_REFERENCE).tolist()):
            try:
                found[k] = self._heap.text(reference)
            except ValueError as error:  # of which text that is no UTF-8 is one
                what = "is no text in UTF-8" if isinstance(error, UnicodeDecodeError) else "cannot be read"
                raise DataError(
                    f"{self.name}: the text of row {start + k} {what} ({error}); the file may be damaged"
                ) from error
        return found

    def close(self) -> None:
        self._reader.close()
