"""Newton's descent on one problem whose rows are in memory: a direction, an exact search along it, step after step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from streammargin.kernels import newton as kernel
from streammargin.specs.blocks import Block
from streammargin.specs.rows import Labels, RowNumbers

PIVOT = 1e-13  # a pivot this small, relative to its diagonal entry, is rounding
STEPS = 80  # of a problem that is solved to the end
SMOOTH = 2.0  # a loss whose second derivative is no larger is taken as it is


def smooth(loss: Any) -> bool:
    """Whether plain Newton steps serve a loss: softness 0."""
    return bool(loss.curvature_bound() <= SMOOTH)


def direction(H: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """-(I + H)^-1 gradient, (d+1,); of H (d+1, d+1) the upper triangle counts, and is overwritten.

    The gradient itself, downhill, where rounding left no way down.
    """
    found, _ = kernel.newton_direction(H, gradient, PIVOT)
    return found if -math.inf < found @ gradient < 0.0 else -gradient  # nor where that is no number


def descend(
    parts: Sequence[tuple[RowNumbers, Block]], labels: Labels, k: int, loss: Any, softness: float, alpha: np.ndarray,
    margins: np.ndarray, products: np.ndarray, w: np.ndarray, gradient: np.ndarray, image: np.ndarray, H: np.ndarray,
) -> float:  # fmt: skip
    """One Newton step of problem k, as long as takes it to the lowest point on its way; w (d+1,) is moved.

    alpha, margins (n,) and A^T a `image` (d+1,) are those of w; products (n,) is written. Returns by how much the
    quadratic model fell: half the squared Newton decrement.
    """
    p = direction(H, gradient)
    for numbers, block in parts:
        kernel.signed_products(block, numbers, labels, k, p, products)
    along = float((gradient + image) @ p)  # the derivative of 1/2 ||w||^2 and of what is linear, at w
    slope = float(gradient @ p)
    w += p * kernel.lowest(labels, loss, k, softness, alpha, margins, products, along, float(p @ p), slope, math.inf)
    return -0.5 * slope


def solve(
    parts: Sequence[tuple[RowNumbers, Block]], labels: Labels, loss: Any, softness: float, alpha: np.ndarray,
    w: np.ndarray, offset: np.ndarray, enough: float, part: float,
) -> int:  # fmt: skip
    """Minimise 1/2 ||w||^2 - offset.w + the losses of rows in memory, by semismooth Newton steps; returns their number.

    labels: of these m rows and one problem. alpha (m,), the duals to start from, and w (d+1,) are changed in place.
    Ends where the gap is below `enough`, or below this part of the primal objective. Without softness it ends with the
    step before which the quadratic model was so near to its minimum.
    """
    size = w.size
    margins, products = np.zeros((1, alpha.size)), np.zeros(alpha.size)
    image, H, totals = np.zeros((1, size)), np.zeros((1, size, size)), np.zeros((1, kernel.SUMS))
    first, none, keys, wrong = np.array([0]), margins[:, :0], np.empty(0, np.float32), np.zeros(1, np.int64)
    no_blur, norms = np.zeros(1), np.ones(alpha.size)  # nothing is certified here
    soft, all_w, all_alpha = np.array([softness]), w[None], alpha[None]
    for step in range(STEPS):
        for sums in (image, H, totals):
            sums[:] = 0.0
        for numbers, block in parts:
            kernel.newton_sums(
                block, numbers, labels, loss, first, 1, soft, all_w, no_blur, norms, all_alpha, False, margins, none,
                keys, image, H, totals, wrong,
            )  # fmt: skip
        gradient = w - offset - image[0]
        away, gap = 0.5 * float(gradient @ gradient), totals[0, kernel.GAP]
        primal = totals[0, kernel.PRIMAL] + 0.5 * float(w @ w) - float(offset @ w)
        goal = max(enough, part * abs(primal))
        done = gap + away <= goal
        if done or away < 0.5 * gap:
            kernel.move_centres(labels, loss, 0, soft[0], alpha, margins[0])
            soft /= 4.0
        if done:
            return step
        if away >= 0.5 * gap:
            fall = descend(parts, labels, 0, loss, soft[0], alpha, margins[0], products, w, gradient, image[0], H[0])
            if soft[0] == 0.0 and fall <= goal:
                return step + 1
    return STEPS


def raise_bound(image: np.ndarray, gain: float, new_image: np.ndarray, new_gain: float) -> float:
    """The best dual bound on the segment between two; `image` becomes its A^T a, its gain is returned.

    A bound is gain - 1/2 ||A^T a||^2, and the gain of a mean of duals is at least the mean of theirs.
    """
    towards = new_image - image
    length = float(towards @ towards)
    along = new_gain - gain - float(image @ towards)
    t = min(max(along / length, 0.0), 1.0) if length > 0.0 else float(along > 0.0)
    image += t * towards
    return gain + t * (new_gain - gain)
