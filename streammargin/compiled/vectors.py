"""Operations on vectors of length d + 1 between passes, each in one loop if NumPy needs three or four.

For sparse rows with many features they take a large part of the time of a pass.
"""

from __future__ import annotations

import numpy as np

from streammargin.compiled.jit import kernel
from streammargin.compiled.samples import SampleBlock


@kernel(wide_sums=True, scans=True)
def square(x):
    """||x||^2 of x (m,), summed in float64."""
    total = 0.0
    for j in range(x.size):
        total += np.float64(x[j]) * np.float64(x[j])
    return total


@kernel(wide_sums=True)
def mix(a, x, b, y):
    """x = a x + b y, in place; x and y (m,) float64, different arrays. Returns the new ||x||^2."""
    total = 0.0
    for j in range(x.size):
        x[j] = a * x[j] + b * y[j]
        total += x[j] * x[j]
    return total


@kernel(wide_sums=True)
def towards(x, b, y):
    """(x.s, ||s||^2) for the step s = b y - x; x and y (m,) float64."""
    along = 0.0
    total = 0.0
    for j in range(x.size):
        step = b * y[j] - x[j]
        along += x[j] * step
        total += step * step
    return along, total


def warm(sample: SampleBlock) -> None:
    for dtype in (np.float32, np.float64):
        square(np.ones(2, dtype))
    mix(1.0, np.ones(2), 1.0, np.ones(2))
    towards(np.ones(2), 1.0, np.ones(2))
