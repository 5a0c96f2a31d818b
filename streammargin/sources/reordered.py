"""A source whose columns are read in another order; the stored data are never rewritten."""

from __future__ import annotations

import numpy as np

from streammargin.rows.blocks import Block, DenseBlock
from streammargin.sources.base import Buffer, Source
from streammargin.sources.checks import check_block
from streammargin.sources.view import View

PIECE = 1 << 20  # bytes that are put in order at a time


class Reordered(View):
    """The rows of another source: column j is its column order[j].

    order: (d,) int64, a permutation. Values and indices are checked here, as errors name the columns as stored.
    """

    def __init__(self, source: Source, order: np.ndarray) -> None:
        super().__init__(source)
        self.order: np.ndarray = order
        self._place: np.ndarray = np.argsort(order).astype(np.uint32)  # of each stored column

    def whole(self) -> Block | None:
        return None

    def held_bytes(self) -> int:
        line = 0 if self.sparse else self.features * self.dtype.itemsize
        return self.source.held_bytes() + self.order.nbytes + self._place.nbytes + max(PIECE, line)

    def read(self, start: int, stop: int, buffer: Buffer) -> Block:
        block = check_block(self.source, self.source.read(start, stop, buffer), start)
        if isinstance(block, DenseBlock):
            step = max(1, PIECE // max(1, self.features * self.dtype.itemsize))
            for low in range(0, stop - start, step):
                block.X[low : low + step] = block.X[low : low + step][:, self.order]
            return block
        step = PIECE // self._place.itemsize
        for low in range(0, block.indices.size, step):  # the reader sorts them
            block.indices[low : low + step] = self._place[block.indices[low : low + step]]
        return block

    def feature_names(self) -> np.ndarray | None:
        names = self.source.feature_names()
        return None if names is None else np.asarray(names, object)[self.order]
