"""A source whose columns are scaled as they are read; the data themselves are never rewritten."""

from __future__ import annotations

import numpy as np

from streammargin.data.base import Buffer, Source
from streammargin.data.view import View
from streammargin.specs.blocks import Block, DenseBlock


class ScaledSource(View):
    """Columns (x - center) * factor of another source; center must be 0 for sparse rows.

    center, factor: (d,) float64. Blocks are always copies in a buffer, also for arrays in memory.
    """

    def __init__(self, source: Source, center: np.ndarray, factor: np.ndarray) -> None:
        super().__init__(source)
        self.center, self.factor = center, factor

    def whole(self) -> Block | None:
        return None

    def read(self, start: int, stop: int, buffer: Buffer) -> Block:
        from streammargin.kernels.columns import scale_dense, scale_sparse

        block = self.source.read(start, stop, buffer)
        if isinstance(block, DenseBlock):
            scale_dense(block.X, self.center, self.factor)
        elif not block.indices.size or int(block.indices.max()) < self.features:  # else the reader refuses the block
            scale_sparse(block.data, block.indices, self.factor)
        return block
