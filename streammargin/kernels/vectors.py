"""Operations on vectors of length d + 1 between two passes, each in one read where NumPy takes three or four.

For sparse rows with many features these take as long as a good part of the pass.
"""

from __future__ import annotations

from numba.extending import register_jitable

from streammargin.kernels.jit import kernel


# wide sums, as for dense rows
@register_jitable(fastmath={"reassoc", "contract"})
def _mix(a, x, b, y):
    square = 0.0
    for j in range(x.size):
        x[j] = a * x[j] + b * y[j]
        square += x[j] * x[j]
    return square


@register_jitable(fastmath={"reassoc", "contract"})
def _towards(x, b, y):
    along = 0.0
    square = 0.0
    for j in range(x.size):
        step = b * y[j] - x[j]
        along += x[j] * step
        square += step * step
    return along, square


@register_jitable(fastmath={"reassoc", "contract"})
def _square(x):
    square = 0.0
    for j in range(x.size):
        square += x[j] * x[j]
    return square


@kernel
def square(x):
    """||x||^2 of x (m,) float64."""
    return _square(x)


@kernel
def mix(a, x, b, y):
    """x = a x + b y, in place; x and y (m,) float64, not the same array. Returns ||x||^2 as it is then."""
    return _mix(a, x, b, y)


@kernel
def towards(x, b, y):
    """x.s and ||s||^2 of the step s = b y - x; x and y (m,) float64."""
    return _towards(x, b, y)
