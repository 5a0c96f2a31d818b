"""The state of Newton steps on all rows, and operations on its per-row arrays that need no row values.

Their results are sums, so that the rows could be split over several processes.
"""

from __future__ import annotations

import numpy as np

from streammargin.compiled import newton as kernel
from streammargin.losses.base import smooth
from streammargin.solvers.linear import LinearState
from streammargin.solvers.newton.bound import Bound, Look
from streammargin.solvers.newton.sample import Sample
from streammargin.solvers.newton.subproblem import Proximal
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import K, N, Rows, Scratch, Shared, Sum, W, b1, f8, i8, of, state
from streammargin.solvers.state import labels_of

SOFTNESS = 0.5  # the first 1 / sigma, relative to the caps: with 1/8 steps diverged, with 2 there are more steps
OUT_OF_CORE = K.where(lambda problem: not problem.resident)


@state
class StepsState(LinearState):
    """Weights w (K, d+1), and at w the sums `look` and H, `margins` (K, n), and their changes `products` (K, n).

    alpha (K, n): proximal centres; softness, height, steps, made (K,): of the proximal step on all rows, as in
    `Proximal`; proximal: that of the sample.

    Out of core: last_step (K, d+1), descent (K,): its initial slope; moved: the centres moved since.
    along (K, 2): sums of a line search; largest (K, 1): the largest centre; due: steps in memory are left to make;
    started: the problem has started from the sample, which is used while `sampling`; part: the next row of a look.
    """

    bound: Bound
    look: Look
    w: Shared[f8]
    alpha: Rows[f8] = of(K, N.where(lambda problem: not smooth(problem.loss)))
    margins: Rows[f8]
    products: Rows[f8] = of(OUT_OF_CORE, N)
    norms: Rows[f8] = of(N.where(lambda problem: problem.resident))
    H: Sum[f8] = of(OUT_OF_CORE, W, W)
    softness: Shared[f8] = of(K, fill=SOFTNESS)
    height: Shared[f8] = of(K)
    steps: Shared[i8] = of(K)
    made: Shared[i8] = of(K)
    last_step: Shared[f8]
    descent: Shared[f8] = of(K)
    moved: Shared[b1] = of(K)
    along: Sum[f8] = of(K, 2)
    largest: Sum[f8] = of(K, 1, largest=(0,))
    due: Shared[b1] = of(K)
    started: Shared[b1] = of(K)
    sampling: bool = False
    proximal: Proximal
    sample: Scratch[Sample | None] = None
    part: int = 0


def reverse_products(problem: Problem, state: StepsState, k: int) -> None:
    """Negate the products, for a search backwards along the last step; the next read overwrites them."""
    np.negative(state.products[k], out=state.products[k])


def add_slopes(problem: Problem, state: StepsState, k: int, t: float) -> None:
    """Add the first and second derivative of the losses at margins + t products to `along`."""
    kernel.add_slopes(
        labels_of(problem, state), problem.loss, k, state.softness[k], state.alpha[k], state.margins[k],
        state.products[k], t, state.along[k],
    )  # fmt: skip


def move_centres(problem: Problem, state: StepsState, k: int) -> None:
    """Set the centres to the duals at the current margins."""
    kernel.move_centres(
        labels_of(problem, state), problem.loss, k, state.softness[k], state.alpha[k], state.margins[k]
    )  # fmt: skip


def middle_centres(problem: Problem, state: StepsState, k: int, part: float) -> None:
    """Set the centres to the midpoints of the feasible intervals, times `part`."""
    kernel.middle_centres(labels_of(problem, state), problem.loss, k, part, state.alpha[k])


def find_largest(problem: Problem, state: StepsState, k: int) -> None:
    """Find the largest centre."""
    state.largest[k] = state.alpha[k].max(initial=0.0)
