"""The largest eigenvalue of A^T A by a power iteration of `PRODUCTS` reads before the first pass."""

from __future__ import annotations

import numpy as np

from streammargin.compiled.spectral import gram_product
from streammargin.penalties.mirror_maps import lp_norm
from streammargin.rows.blocks import Block
from streammargin.rows.labels import Labels, numbered_from

PRODUCTS = 8  # iterations of the power method, one read each
SAFETY = 1.1  # the power method underestimates


def multiply(
    direction: np.ndarray, product: np.ndarray, read: int, block: Block, first: int, labels: Labels, R: float, seed: int
) -> None:
    """One block of the reads 0 .. PRODUCTS - 1: product (d+1,), the sum over the rows, of A^T A and direction (d+1,).

    R: the largest norm of a row.
    """
    if first == 0:
        v = product if read else np.random.default_rng(seed).standard_normal(product.size)
        # of norm 1 / R, so that products with rows do not overflow
        direction[:] = v / (lp_norm(v, 2.0) or 1.0) / R
        product[:] = 0.0
    gram_product(block, numbered_from(first), labels, direction, product)


def square_norm(product: np.ndarray, R: float) -> float:
    """||A / R||^2 times SAFETY, after all reads."""
    return SAFETY * (lp_norm(product, 2.0) / R)
