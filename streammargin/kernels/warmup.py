"""Compiles and caches every kernel for every kind of rows it may meet."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from streammargin.kernels import (
    active_set,
    adaptive,
    asdca,
    certificate,
    check,
    columns,
    diagonal,
    duals,
    homotopic,
    margins,
    predict,
    primal,
    row_norms,
    sdca,
    vectors,
    whole_pass,
)
from streammargin.specs.blocks import Block, CSRBlock, DenseBlock
from streammargin.specs.losses import LOSSES
from streammargin.specs.norms import make_norm
from streammargin.specs.rows import Labels, RowNumbers, numbered_from
from streammargin.specs.steps import MirrorDescent, Pegasos, Perceptron


def _blocks() -> Iterator[tuple[str, Block]]:
    for dtype in (np.float32, np.float64):
        yield f"dense {np.dtype(dtype)}", DenseBlock(np.ones((2, 2), dtype), 0.0)
        indices, indptr = np.array([0, 1], np.uint32), np.array([0, 1, 2], np.int64)
        yield f"sparse {np.dtype(dtype)}", CSRBlock(np.ones(2, dtype), indices, indptr, 2, 0.0)


def _descend(block: Block, numbers: RowNumbers, labels: Labels) -> None:
    active, wrong, w = np.array([0]), np.zeros(1, np.int64), np.zeros((1, 3))
    rows = block, numbers, labels
    diagonal.diagonal_block(
        *rows, 2, active, w, np.zeros(1), np.ones(1), 1.0, 1.0, np.zeros((1, 2)), np.zeros((1, 0)), w.copy(),
        np.zeros((1, diagonal.FIGURES)), wrong,
    )  # fmt: skip
    homotopic.subgradient_block(*rows, 2, active, w, 1.0, w.copy(), np.zeros((1, homotopic.FIGURES)), wrong)
    homotopic.stochastic_block(
        *rows, np.array([0]), 2, active, 10.0, True, 1.0, w, w.copy(), np.zeros((1, 4)),
        np.zeros((1, homotopic.CARRIED)),
    )  # fmt: skip


def _few_rows(block: Block, numbers: RowNumbers, labels: Labels) -> None:
    gram, one = np.eye(2), np.ones(2)
    active_set.gram_matrix(block, one, 1.0, gram)
    active_set.combine(block, one, 1.0, np.zeros(3))
    active_set.nearest_point(np.eye(2), np.zeros(2), 1e-6, 3)
    margins.margins_block(
        block, numbers, labels, False, np.zeros((1, 3)), np.ones(1), np.zeros(1, np.int64), np.zeros(1, np.int64),
        np.zeros((2, 1)), np.zeros((2, 1), np.int64), np.zeros(2, np.int64),
    )  # fmt: skip
    data = block.X[0] if isinstance(block, DenseBlock) else block.data
    inverted = CSRBlock(np.ones(2, data.dtype), np.zeros(2, np.uint32), np.array([0, 1, 2]), 2, 0.0)
    if isinstance(block, CSRBlock):
        adaptive.transpose(
            block.data, block.indices, block.indptr, 2, np.zeros(3, np.int64), block.indices.copy(), data.copy()
        )
    figures, w = np.zeros(adaptive.FIGURES), np.zeros((1, 3))
    rows, steps = (block, numbers, labels, inverted), (1.0, 1.0, True, np.ones(1), 0.0)
    adaptive.adaptive_block(*rows, 0, *steps, w[0], w[0].copy(), figures)
    adaptive.adaptive_joint_block(*rows, *steps, w, w.copy(), figures)


def warmup(report: Callable[[str], None] = lambda what: None) -> None:
    """Run every kernel once on two rows; report is told what comes next."""
    vectors.square(np.ones(2))
    vectors.mix(1.0, np.ones(2), 1.0, np.ones(2))
    vectors.towards(np.ones(2), 1.0, np.ones(2))
    codes, none, empty = np.array([0, 1], np.int16), np.empty(0), np.zeros(2)
    numbers, labels = numbered_from(0), Labels(codes, np.array([1]), np.ones((1, 2)), none, none)
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
        row_norms.row_norms(block, numbers, labels, 2.0, np.zeros(row_norms.ROW_FIGURES))
        _descend(block, numbers, labels)
        _few_rows(block, numbers, labels)
        for p in (2.0, 1.5):
            report(f"{kind}: primal steps, p = {p}")
            for rule in (Perceptron(1.0), MirrorDescent(1.0), Pegasos(1.0)):
                theta = np.zeros((1, 3))
                primal.primal_block(
                    block, numbers, labels, make_norm(p), rule, 1.0, np.array([0]), 2, np.array([0]), theta,
                    theta.copy(), np.zeros(1), np.ones(1), np.zeros((1, 0)), np.zeros((1, primal.CARRIED)),
                    np.zeros((1, primal.FIGURES)),
                )  # fmt: skip
        # one loss of each family: the others differ in numbers only
        families = {type(make(1.0)): (name, make(1.0)) for name, make in sorted(LOSSES.items())}
        for name, loss in families.values():
            predict.total_loss(loss, np.zeros((2, 1)))
            if hasattr(loss, "share"):
                report(f"{kind}: {name}, whole passes")
                w, figures = np.zeros((1, 3)), whole_pass.new_figures(1)
                whole_pass.softmax_block(
                    block, numbers, labels, loss, 2, False, np.array([0]), w, np.ones(1), 40.0, np.zeros((1, 3)),
                    figures, np.zeros(1, np.int64),
                )  # fmt: skip
                whole_pass.perceptron_block(
                    block, numbers, labels, 2, np.array([0]), w, np.zeros((1, 3)), np.ones(1), np.zeros((1, 3)),
                    figures, figures.copy(), np.zeros(1, np.int64),
                )  # fmt: skip
            if not hasattr(loss, "step"):
                continue
            for p, loop in [(2.0, np.float64), (1.5, np.float64)] + [(2.0, np.float32)] * (dtype == np.float32):
                report(f"{kind}: {name}, p = {p}, weights {np.dtype(loop)}")
                theta = np.zeros((1, 3), loop)
                alpha, sleep = np.zeros((1, 2), loop), np.zeros((1, 2), np.uint8)
                sdca.sdca_block(
                    block, numbers, labels, loss, make_norm(p), np.array([0]), 2, np.array([0]), alpha, sleep,
                    np.zeros(2), theta, theta.copy(), np.zeros(1), np.zeros((1, sdca.FIGURES)),
                )  # fmt: skip
                asdca.asdca_block(
                    block, numbers, labels, loss, make_norm(p), np.array([0]), 2, np.array([0]), np.ones(1), 0.0,
                    alpha, alpha.copy(), np.zeros(2), theta, theta.copy(), np.ones((1, asdca.PACE)),
                    np.zeros((1, asdca.FIGURES)),
                )  # fmt: skip
                duals.dual_sums(labels, loss, 0, alpha[0], alpha[0], 0.0)
                certificate.certify_block(
                    block, numbers, labels, loss, 1, theta, alpha, sleep, np.zeros((1, 3)),
                    np.zeros((1, certificate.SUMS)), np.zeros(1, np.int64),
                )  # fmt: skip
