"""The constant's weight while rows are visited one at a time: see solvers/coordinate/slow_constant.py."""

from __future__ import annotations

import math

from numba.extending import register_jitable

from streammargin.compiled.sleep import AHEAD


@register_jitable
def damped(image, centre, damping):
    """The weight that rows see of a constant column whose image A^T alpha is this."""
    return centre + damping * (image - centre)


@register_jitable
def enter(theta, centre, damping):
    """theta (d+1,) as rows take it whose constant is sqrt(damping) times what it was."""
    if damping < 1.0:
        theta[theta.size - 1] = damped(theta[theta.size - 1], centre, damping) / math.sqrt(damping)


@register_jitable
def leave(theta, centre, damping):
    """theta (d+1,) as it was before `enter`, with what the rows have added."""
    if damping < 1.0:
        last = theta.size - 1
        theta[last] = centre + (math.sqrt(damping) * theta[last] - centre) / damping


@register_jitable
def follow(image, centre, damping, rows):
    """The centre after so many rows, with A^T alpha of the constant column as it is then."""
    return centre + min(1.0, rows / AHEAD) * (damped(image, centre, damping) - centre) if damping < 1.0 else centre
