"""A source that scales the columns while reading; the stored data are never rewritten."""

from __future__ import annotations

import math

import numpy as np

from streammargin.rows.blocks import Block, DenseBlock
from streammargin.sources.base import Buffer, Source
from streammargin.sources.view import View


class ScaledSource(View):
    """Columns (x - center) * factor of another source, float64, clipped to -clip .. clip; sparse rows have center 0.

    center, factor: (d,) float64, used when rows are read, so they may be filled later. Blocks are always copies in a
    buffer, for arrays in memory too. Scaled values stay float64: the saved weights are for the rows as stored, and
    rounding the scaled values would make the proven gap that of other rows.
    """

    center: np.ndarray
    factor: np.ndarray
    clip: float
    dtype: np.dtype = np.dtype(np.float64)  # known before an instance exists

    def __init__(self, source: Source, center: np.ndarray, factor: np.ndarray, clip: float = math.inf) -> None:
        super().__init__(source)
        self.dtype, self.center, self.factor, self.clip = ScaledSource.dtype, center, factor, clip
        # bytes of a value and its column index: scaled, and as the source reads it
        index = 4 * source.sparse
        self._wide, self._narrow = 8 + index, source.dtype.itemsize + index

    def whole(self) -> Block | None:
        return None

    def bounds(self, max_bytes: int) -> np.ndarray:
        return self.source.bounds(max_bytes * self._narrow // self._wide)

    def buffer_bytes(self, bounds: np.ndarray) -> int:
        return -(-self.source.buffer_bytes(bounds) * self._wide // self._narrow)

    def allocate(self, bounds: np.ndarray) -> Buffer:
        buffer = self.source.allocate(bounds)
        return buffer if self._wide == self._narrow else buffer._replace(data=np.empty(buffer.data.shape))

    def read(self, start: int, stop: int, buffer: Buffer) -> Block:
        from streammargin.compiled.columns import scale_dense, scale_sparse

        whole = buffer.data
        if self._wide > self._narrow:  # read float32 into the second half, then widen from the front
            halves = whole.reshape(-1).view(self.source.dtype)
            buffer = buffer._replace(data=halves[whole.size :].reshape(whole.shape))
        block = self.source.read(start, stop, buffer)
        if isinstance(block, DenseBlock):
            X = target(whole, block.X)
            scale_dense(block.X, self.center, self.factor, X)
            return block._replace(X=self._clipped(X))
        if block.indices.size and int(block.indices.max()) >= self.features:
            return block  # the reader refuses it
        data = target(whole, block.data)
        scale_sparse(block.data, block.indices, self.factor, data)
        return block._replace(data=self._clipped(data))

    def _clipped(self, values: np.ndarray) -> np.ndarray:
        return values if self.clip == math.inf else np.clip(values, -self.clip, self.clip, out=values)


def target(whole: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The array for the scaled values: in the buffer, or a new one for joined shards, which exceed the buffer."""
    return whole[: len(values)] if values.size <= whole.size else np.empty(values.shape)
