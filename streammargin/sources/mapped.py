"""A source whose rows go through a map while they are read; mapped rows are never written."""

from __future__ import annotations

import numpy as np

from streammargin.errors import DataError
from streammargin.maps.base import TILE
from streammargin.maps.fitted import Fitted
from streammargin.rows.blocks import Block, DenseBlock
from streammargin.sources.base import Buffer, Source
from streammargin.sources.checks import check_block
from streammargin.sources.view import View

PIECE = 4 << 20  # bytes of rows that are read at a time, before they are mapped


class MappedSource(View):
    """The rows z(x) of another source, dense, in the precision of the map.

    Blocks are whole pieces of the other source, if these are small enough. A column has no name.
    """

    def __init__(self, source: Source, fitted: Fitted) -> None:
        super().__init__(source)
        self.fitted, self.features, self.sparse = fitted, fitted.map.width, False
        self.dtype, self.nnz = fitted.dtype, source.rows * fitted.map.width
        self.largest_square = fitted.map.largest_square
        self._pieces = source.bounds(PIECE)
        self._inner: Buffer | None = None  # allocated at the first read

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_inner": None}

    def whole(self) -> Block | None:
        return None

    @property
    def _row_bytes(self) -> int:
        return self.dtype.itemsize * self.features

    def bounds(self, max_bytes: int) -> np.ndarray:
        most = max(1, max_bytes // self._row_bytes)
        if np.diff(self._pieces).max() > most:  # a piece is read more than once
            return np.append(np.arange(0, self.rows, most, dtype=np.int64), self.rows)
        found = [0]
        while found[-1] < self.rows:
            found.append(int(self._pieces[np.searchsorted(self._pieces, found[-1] + most, side="right") - 1]))
        return np.array(found, np.int64)

    def buffer_bytes(self, bounds: np.ndarray) -> int:
        return int(np.diff(bounds).max()) * self._row_bytes

    def held_bytes(self) -> int:
        tile = TILE * (4 * 8 * self.features + 2 * self.source.features * (0 if self.source.sparse else 8))
        return self.source.held_bytes() + self.source.buffer_bytes(self._pieces) + tile

    def allocate(self, bounds: np.ndarray) -> Buffer:
        return Buffer(np.empty((int(np.diff(bounds).max()), self.features), self.dtype))

    def read(self, start: int, stop: int, buffer: Buffer) -> Block:
        if self._inner is None:
            self._inner = self.source.allocate(self._pieces)
        out = buffer.data[: stop - start]
        first = int(np.searchsorted(self._pieces, start, side="right")) - 1
        for low, high in zip(self._pieces[first:].tolist(), self._pieces[first + 1 :].tolist(), strict=False):
            low, high = max(low, start), min(high, stop)
            if low >= high:
                break
            block = check_block(self.source, self.source.read(low, high, self._inner), low)
            self.fitted.fill(block, out[low - start : high - start])
        if not (finite := np.isfinite(out).all(axis=1)).all():
            where, row = self.source.place(start + int(finite.argmin()))
            wrong = f"has a value that is not finite behind the map {self.fitted.map}"
            raise DataError(f"{where}: row {row} {wrong}; use `scale=std`, or a smaller gamma")
        return DenseBlock(out, 0.0)

    def names_bytes(self) -> int:
        return 0

    def feature_names(self) -> np.ndarray | None:
        return None

    def ranges(self) -> str | None:
        return ""
