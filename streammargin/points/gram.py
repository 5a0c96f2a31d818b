"""Values of a kernel between the rows of a block and a few rows, by products of matrices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from streammargin.compiled import gram
from streammargin.kernels.base import Kernel
from streammargin.rows.blocks import Block, CSRBlock, DenseBlock, part, plain

GRAM_TILE_ROWS = 512  # rows of a block at a time: their values for as many rows stay in a cache
# sparse rows with a larger share of nonzeros, and at most so many columns, are multiplied as dense ones
FULL_ROW_SHARE, WIDEST = 1 / 8, 1024


class RightRows:
    """The rows on the right of a product, ready for it: `values` fills a matrix of them.

    numbers (s,): of these rows in the training; a precomputed kernel needs no more. rows: a block of them, or None for
    such a kernel. dtype: of the products.
    """

    numbers: np.ndarray
    dtype: np.dtype

    def __init__(self, kernel: Kernel, numbers: np.ndarray, rows: Block | None, dtype: Any = np.float64) -> None:
        self.kernel, self.numbers, self.rows, self.dtype = kernel, numbers, rows, np.dtype(dtype)
        if rows is None or not kernel.by_products:
            return
        self._right = np.empty(rows.rows())
        gram.squares_of(rows._replace(bias=0.0), 0, rows.rows(), self._right)
        if isinstance(rows, DenseBlock):
            self._used = np.arange(rows.features())
            self._place = self._used.astype(np.int32)
            self._turned = np.ascontiguousarray(rows.X.T, self.dtype)
            return
        self._place = np.full(rows.width, -1, np.int32)
        self._place[rows.indices[rows.indptr[0] : rows.indptr[-1]]] = 0
        self._used = np.flatnonzero(self._place == 0)
        self._place[self._used] = np.arange(self._used.size)
        self._turned = np.ascontiguousarray(self._spread(rows).T)

    @property
    def count(self) -> int:
        """s, the number of these rows."""
        return self.numbers.size

    def values(self, block: Block, start: int, stop: int, out: np.ndarray) -> None:
        """out (m, s) = the values of the rows start .. stop of the block against these."""
        for low, values in self.tiles(block, start, stop):
            out[low - start : low - start + len(values)] = values

    def tiles(self, block: Block, start: int, stop: int) -> Iterator[tuple[int, np.ndarray]]:
        """Some rows of start .. stop at a time: the first of them, and their values (t, s)."""
        for low in range(start, stop, GRAM_TILE_ROWS):
            yield low, self._tile(block, low, min(low + GRAM_TILE_ROWS, stop))

    def _tile(self, block: Block, start: int, stop: int) -> np.ndarray:
        kernel = self.kernel
        if kernel.of_numbers:
            if isinstance(block, CSRBlock):  # of a prediction
                return plain(part(block, start, stop))[:, self.numbers].toarray() * kernel.weight
            found: np.ndarray = block.X[start:stop, self.numbers] * block.X.dtype.type(kernel.weight)
            return found
        if not kernel.by_products:
            assert self.rows is not None
            return kernel.gram(*alike(plain(part(block, start, stop)), plain(self.rows))) * kernel.weight
        left = np.empty(stop - start)
        gram.squares_of(block._replace(bias=0.0), start, stop, left)
        products, beside = self._products(block, start, stop), (left[:, None], self._right[None, :])
        doubtful = kernel.doubtful(products, *beside, block.features())
        found = kernel.of_products(products, *beside)
        if doubtful is not None:
            assert self.rows is not None
            squares = _differences(part(block, start, stop), self.rows, *doubtful)
            found[doubtful] = kernel.of_differences(squares)
        return found

    def _products(self, block: Block, start: int, stop: int) -> np.ndarray:
        """x.z (m, s) of these rows of the block."""
        size, width = stop - start, self._used.size
        if isinstance(block, DenseBlock):
            X = block.X[start:stop]
            left = X if width == X.shape[1] else X[:, self._used]
        elif width <= WIDEST and block.indptr[stop] - block.indptr[start] > FULL_ROW_SHARE * size * width:
            left = self._spread(part(block, start, stop))
        else:
            out = np.empty((size, self.count), self.dtype)
            gram.sparse_products(block, start, stop, self._place, self._turned, out)
            return out
        found: np.ndarray = left.astype(self.dtype, copy=False) @ self._turned
        return found

    def _spread(self, rows: Block) -> np.ndarray:
        """These sparse rows as an array of the columns in use."""
        found = np.zeros((rows.rows(), self._used.size + 1), self.dtype)  # the last one is of columns without a place
        gram.spread_rows(rows, self._place, found)
        return found[:, :-1]


def _differences(left: Block, right: Block, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """||x - z||^2 (p,) of these rows x of the left block and these rows z of the right one, by their differences."""
    X, Z = alike(plain(left), plain(right))
    found = np.empty(rows.size)
    for low in range(0, rows.size, GRAM_TILE_ROWS):
        some = slice(low, low + GRAM_TILE_ROWS)
        apart = X[rows[some]].astype(np.float64) - Z[columns[some]].astype(np.float64)
        found[some] = np.asarray((apart * apart).sum(axis=1)).ravel()
    return found


def alike(X: Any, Z: Any) -> tuple[Any, Any]:
    """Both as arrays, unless both are sparse: the training and a prediction may store rows in different forms."""
    if hasattr(X, "toarray") and hasattr(Z, "toarray"):
        return X, Z
    return tuple(one.toarray() if hasattr(one, "toarray") else one for one in (X, Z))


def diagonal(kernel: Kernel, block: Block, first: int) -> np.ndarray:
    """K(x, x) (m,) of all rows of the block, the first of which has the number `first`."""
    if kernel.of_numbers:
        assert isinstance(block, DenseBlock)
        own = np.arange(block.rows())
        return kernel.weight * block.X[own, first + own].astype(np.float64)
    if not kernel.by_products:
        return kernel.diagonal(plain(block))
    squares = np.empty(block.rows())
    gram.squares_of(block._replace(bias=0.0), 0, block.rows(), squares)
    return kernel.of_products(squares.copy(), squares, squares)
