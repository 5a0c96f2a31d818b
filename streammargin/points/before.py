"""How rows as stored become those of the training, for answers that do not fold it into weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streammargin.rows.blocks import Block, CSRBlock, DenseBlock

NO_NUMBERS = np.empty(0)


class Before(NamedTuple):
    """Rows x of `features` columns become (x - center) * factor of the `trained` columns of the training.

    center, factor: (trained,), or (0,) for rows as they are. columns (trained,): which column of a row is each of
    these, -1 for one that it lacks; None: the same ones.
    """

    features: int
    center: np.ndarray = NO_NUMBERS
    factor: np.ndarray = NO_NUMBERS
    columns: np.ndarray | None = None

    def scaled(self, center: np.ndarray, factor: np.ndarray) -> Before:
        """The same with this scale of the columns."""
        return self._replace(center=center.copy(), factor=factor.copy())

    def rows(self, block: Block) -> Block:
        """The rows of the block as in the training, which has no other rows' values; copies if they change."""
        block, columns = block._replace(bias=0.0), self.columns
        if columns is not None and isinstance(block, DenseBlock):
            block = DenseBlock(np.where(columns >= 0, block.X[:, columns], block.X.dtype.type(0)), 0.0)
        elif columns is not None:
            assert isinstance(block, CSRBlock)
            own = np.zeros(block.width, np.uint32)
            own[columns[columns >= 0]] = np.flatnonzero(columns >= 0)
            block = block._replace(indices=own[block.indices], width=columns.size)
        if not self.factor.size:
            return block
        from streammargin.compiled.columns import scale_dense, scale_sparse

        if isinstance(block, DenseBlock):
            X = np.empty(block.X.shape)
            scale_dense(np.ascontiguousarray(block.X), self.center, self.factor, X)
            return DenseBlock(X, 0.0)
        data = np.empty(block.data.size)
        scale_sparse(block.data, block.indices, self.factor, data)
        return block._replace(data=data)
