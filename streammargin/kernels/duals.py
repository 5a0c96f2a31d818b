"""Sums over the duals alone: no row is read."""

from __future__ import annotations

import numpy as np

from streammargin.kernels import methods  # noqa: F401
from streammargin.kernels.jit import kernel


@kernel
def dual_sums(loss, codes, caps, weights, targets, alpha, momentum, share):
    """(dual, sum of duals) of the sequence alpha + share momentum of one problem.

    codes, alpha, momentum (n,); weights, targets (n,) or (0,); caps (classes,). dual leaves out
    -1/2 ||A^T alpha||_q^2.
    """
    dual, total = 0.0, 0.0
    weighted = weights.size > 0
    numeric = targets.size > 0
    for row in range(codes.size):
        code = codes[row]
        if code < 0:
            continue
        cap = caps[code]
        if weighted:
            cap *= weights[row]
        if not cap > 0.0:
            continue
        a = np.float64(alpha[row]) + share * np.float64(momentum[row])
        if numeric:
            dual += a * targets[row]
        else:
            a = min(max(a, 0.0), loss.bound(cap))
        total += a
        dual += loss.dual(a, cap)
    return dual, total
