"""Compiles and caches every kernel for every kind of rows it may meet."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from streammargin.kernels import certificate, check, columns, predict, sdca
from streammargin.specs.blocks import Block, CSRBlock, DenseBlock
from streammargin.specs.losses import LOSSES
from streammargin.specs.norms import make_norm


def _blocks() -> Iterator[tuple[str, Block]]:
    for dtype in (np.float32, np.float64):
        yield f"dense {np.dtype(dtype)}", DenseBlock(np.ones((2, 2), dtype), 0.0)
        indices, indptr = np.array([0, 1], np.uint32), np.array([0, 1, 2], np.int64)
        yield f"sparse {np.dtype(dtype)}", CSRBlock(np.ones(2, dtype), indices, indptr, 2, 0.0)


def warmup(report: Callable[[str], None] = lambda what: None) -> None:
    """Run every kernel once on two rows; report is told what comes next."""
    codes, positive = np.array([0, 1], np.int16), np.array([1])
    caps, none, empty = np.ones((1, 2)), np.empty(0), np.zeros(2)
    for kind, block in _blocks():
        report(f"{kind}: checks, columns, scores")
        dtype = block.X.dtype if isinstance(block, DenseBlock) else block.data.dtype
        if isinstance(block, DenseBlock):
            check.first_not_finite(block.X.reshape(-1))
            columns.dense_columns(block.X.copy(), codes, none, empty, np.zeros(2), np.zeros(2), np.zeros(2))
            columns.scale_dense(block.X.copy(), empty, np.ones(2))
        else:
            check.first_not_finite(block.data)
            check.check_sparse(block.indices, block.indptr, 2)
            check.sort_rows(block.data.copy(), block.indices.copy(), block.indptr)
            columns.sparse_columns(
                block.data, block.indices, block.indptr, codes, none, np.zeros(2), np.zeros(2), np.zeros(2)
            )
            columns.scale_sparse(block.data.copy(), block.indices, np.ones(2))
        predict.decide_block(block, np.zeros((1, 3)), 0, np.zeros((2, 1)))
        # one loss of each family: the others differ in numbers only
        families = {type(make(1.0)): (name, make(1.0)) for name, make in sorted(LOSSES.items())}
        for name, loss in families.values():
            predict.total_loss(loss, np.zeros((2, 1)))
            for p, loop in [(2.0, np.float64), (1.5, np.float64)] + [(2.0, np.float32)] * (dtype == np.float32):
                report(f"{kind}: {name}, p = {p}, weights {np.dtype(loop)}")
                theta = np.zeros((1, 3), loop)
                alpha, sleep = np.zeros((1, 2), loop), np.zeros((1, 2), np.uint8)
                sdca.sdca_block(
                    block, loss, make_norm(p), 0, np.array([0]), 2, np.array([0]), codes, positive, caps, none, alpha,
                    sleep, np.zeros(2), theta, theta.copy(), np.zeros(1), np.zeros((1, sdca.FIGURES)),
                )  # fmt: skip
                certificate.certify_block(
                    block, loss, 0, codes, positive, caps, none, 1, theta, alpha, sleep, np.zeros((1, 3)),
                    np.zeros((1, certificate.SUMS)), np.zeros(1, np.int64),
                )  # fmt: skip
