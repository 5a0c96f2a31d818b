"""Sums over the duals, without reading rows."""

from __future__ import annotations

import numpy as np

from streammargin.compiled import overloads  # noqa: F401
from streammargin.compiled.jit import kernel
from streammargin.compiled.samples import SampleBlock
from streammargin.losses.base import lifted


@kernel
def dual_sums(labels, common, k, alpha, momentum, share):
    """(dual objective without -1/2 ||A^T alpha||_q^2, sum of duals) of alpha + share momentum (n,) in problem k.

    common: the loss, before a row's own epsilon widens it.
    """
    dual, total = 0.0, 0.0
    for row in range(alpha.size):
        cap = labels.cap(k, row)
        if not cap > 0.0:
            continue
        loss = lifted(common, labels.epsilon(row))
        a = loss.feasible(np.float64(alpha[row]) + share * np.float64(momentum[row]), cap)
        total += a
        dual += loss.dual(a, cap) + a * labels.target(k, row)
    return dual, total


def warm(sample: SampleBlock) -> None:
    for loss, _, dtype in sample.dual_steps():
        alpha, momentum = np.zeros((2, 2), dtype)
        dual_sums(sample.labels, loss, 0, alpha, momentum, 0.0)
