"""A source whose columns are scaled as they are read; the data themselves are never rewritten."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from streammargin.data.base import Buffer, Source
from streammargin.specs.blocks import Block, DenseBlock


class ScaledSource(Source):
    """Columns (x - center) * factor of another source; center must be 0 for sparse rows.

    center, factor: (d,) float64. Blocks are always copies in a buffer, also for arrays in memory.
    """

    def __init__(self, source: Source, center: np.ndarray, factor: np.ndarray) -> None:
        self.source, self.center, self.factor = source, center, factor
        self.name, self.rows, self.features, self.nnz = source.name, source.rows, source.features, source.nnz
        self.dtype, self.sparse = source.dtype, source.sparse

    def bounds(self, max_bytes: int) -> np.ndarray:
        return self.source.bounds(max_bytes)

    def buffer_bytes(self, bounds: np.ndarray) -> int:
        return self.source.buffer_bytes(bounds)

    def held_bytes(self) -> int:
        return self.source.held_bytes()

    def allocate(self, bounds: np.ndarray) -> Buffer:
        return self.source.allocate(bounds)

    def announce(self, start: int, stop: int) -> None:
        self.source.announce(start, stop)

    def read(self, start: int, stop: int, buffer: Buffer) -> Block:
        from streammargin.kernels.columns import scale_dense, scale_sparse

        block = self.source.read(start, stop, buffer)
        if isinstance(block, DenseBlock):
            scale_dense(block.X, self.center, self.factor)
        elif not block.indices.size or int(block.indices.max()) < self.features:  # else the reader refuses the block
            scale_sparse(block.data, block.indices, self.factor)
        return block

    def place(self, row: int) -> tuple[str, int]:
        return self.source.place(row)

    def label_place(self, row: int) -> tuple[str, int]:
        return self.source.label_place(row)

    def has_labels(self) -> bool:
        return self.source.has_labels()

    def labels(self, chunk: int = 1 << 16) -> Iterator[np.ndarray]:
        return self.source.labels(chunk)

    def column_bytes(self) -> int:
        return self.source.column_bytes()

    def weight_bytes(self) -> int:
        return self.source.weight_bytes()

    def sample_weight(self) -> np.ndarray | None:
        return self.source.sample_weight()

    def files(self) -> list[str]:
        return self.source.files()

    def check_unchanged(self) -> None:
        self.source.check_unchanged()

    def fingerprint(self) -> str:
        return self.source.fingerprint()

    def content(self) -> str:
        return self.source.content()

    def layout(self) -> dict[str, Any]:
        return self.source.layout()

    def close(self) -> None:
        self.source.close()
