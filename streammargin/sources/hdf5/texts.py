"""Read columns of strings of variable length without HDF5."""

from __future__ import annotations

import h5py
import numpy as np

from streammargin.errors import DataError
from streammargin.sources.hdf5.heap import Heap
from streammargin.sources.hdf5.reader import RowReader

_REFERENCE = np.dtype([("length", "<u4"), ("address", "<u8"), ("number", "<u4")])
_PIECE = 1 << 16
_FEW = 1 << 12  # references as objects take 160 bytes each


def not_utf8(name: str, row: int, error: UnicodeDecodeError) -> DataError:
    """The error for a text in another encoding."""
    return DataError(
        f"{name}: the text of row {row} is not valid UTF-8 ({error.reason}); write the column again as UTF-8: if it is "
        "Latin-1, convert its text file after: iconv -f LATIN1 -t UTF-8 IN > OUT"
    )


def utf8(values: np.ndarray, name: str, start: int) -> np.ndarray:
    """Bytes (m,) as str; start: the row of the first. Raises DataError if one is not UTF-8."""
    try:
        return np.char.decode(values, "utf-8")
    except UnicodeDecodeError:
        for k, value in enumerate(values.tolist()):
            try:
                value.decode("utf-8")
            except UnicodeDecodeError as error:
                raise not_utf8(name, start + k, error) from None
        raise


class TextReader:
    """Entries start..stop of a 1-dimensional dataset of strings. Raises DataError if one is damaged."""

    def __init__(self, dataset: h5py.Dataset, path: str, name: str) -> None:
        self.name: str = name
        self._heap = Heap(dataset.file)
        self._reader = RowReader(dataset, np.dtype((np.void, _REFERENCE.itemsize)), path, raw=True, keep=True)
        if not self._reader.located:
            self._reader.close()
            raise DataError(
                f"{name} has strings of variable length that cannot be checked (virtual, never written, or compressed "
                "by an unknown filter); write the column again"
            )

    @property
    def held_bytes(self) -> int:
        """Bytes that reading needs besides the result."""
        return self._reader.held_bytes

    def text_bytes(self) -> int:
        """Bytes of all strings, from their references, without reading them."""
        total = 0
        for start in range(0, self._reader.length, _PIECE):
            raw = np.empty(min(_PIECE, self._reader.length - start), self._reader.dtype)
            self._reader.read(start, start + len(raw), raw)
            total += int(raw.view(_REFERENCE)["length"].sum(dtype=np.int64))
        return total

    def read(self, start: int, stop: int) -> np.ndarray:
        """The strings (stop - start,), as objects."""
        found = np.empty(stop - start, object)
        same: dict[str, str] = {}  # labels are few words many times
        for low in range(start, stop, _FEW):
            raw = np.empty(min(_FEW, stop - low), self._reader.dtype)
            self._reader.read(low, low + len(raw), raw)
            for k, reference in enumerate(raw.view(_REFERENCE).tolist(), low):
                try:
                    text = self._heap.text(reference)
                except ValueError as error:  # UnicodeDecodeError is a ValueError
                    if isinstance(error, UnicodeDecodeError):
                        raise not_utf8(self.name, k, error) from None
                    raise DataError(
                        f"{self.name}: the text of row {k} cannot be read ({error}); the file may be damaged"
                    ) from error
                found[k - start] = same.setdefault(text, text)
        return found

    def close(self) -> None:
        self._reader.close()
