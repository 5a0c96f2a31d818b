"""Dense arrays that are mostly zeros, one-hot columns say: used as the sparse rows that they could have been."""

from __future__ import annotations

import numpy as np

from streammargin.rows.blocks import CSRBlock, DenseBlock
from streammargin.sources.arrays import ArraySource
from streammargin.sources.base import Source

SHARE = 1 / 4  # of the values not 0, at most: with a third of them both kinds of rows take as long
LEAST = 1 << 16  # values: of fewer nothing is gained that could be felt
SOME = 256  # rows that tell whether counting, a read of all, is worth its time


def thinned(source: Source, room: int) -> Source:
    """The rows of a dense array without their zeros, where these are most of it and the copy fits in `room` bytes.

    Otherwise the source itself. In memory a pass over a fifth of the values takes half as long, and A^T A less.
    """
    whole = source.whole()
    if not (isinstance(source, ArraySource) and isinstance(whole, DenseBlock)) or whole.X.size < LEAST:
        return source
    X = whole.X
    some = X[:: max(1, source.rows // SOME)]
    share, value = np.count_nonzero(some) / some.size, X.itemsize + 4
    if share > SHARE or share * X.size * value > 2 * room or X.shape[1] >= 2**31:
        return source
    from streammargin.compiled.nonzeros import count_nonzeros, take_nonzeros

    indptr = np.zeros(source.rows + 1, np.int64)
    count_nonzeros(X, indptr[1:])
    np.cumsum(indptr, out=indptr)
    nnz = int(indptr[-1])
    if nnz > SHARE * X.size or nnz * value + indptr.nbytes > room:
        return source
    data, indices = np.empty(nnz, X.dtype), np.empty(nnz, np.uint32)
    take_nonzeros(X, indptr, data, indices)
    return Thinned(source, CSRBlock(data, indices, indptr, source.features, 0.0))


class Thinned(ArraySource):
    """The rows, labels and weights of another source of arrays, without the zeros."""

    def __init__(self, source: ArraySource, block: CSRBlock) -> None:
        vars(self).update(vars(source))
        self._block, self.sparse, self.nnz = block, True, block.data.size

    def held_bytes(self) -> int:
        assert isinstance(self._block, CSRBlock)
        data, indices, indptr = self._block[:3]
        return data.nbytes + indices.nbytes + indptr.nbytes
