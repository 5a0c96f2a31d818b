"""What the steps on all rows carry, and maps over the rows that a holder has, without their values.

What a map finds leaves through sums, so that rows may have several holders.
"""

from __future__ import annotations

import numpy as np

from streammargin.compiled import newton as kernel
from streammargin.losses.base import smooth
from streammargin.solvers.newton.bound import Bound, Look
from streammargin.solvers.newton.sample import Sample
from streammargin.solvers.newton.subproblem import Proximal
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import K, N, Rows, Scratch, Shared, Sum, W, b1, f8, i8, of, state
from streammargin.solvers.state import State, labels_of

SOFTNESS = 0.5  # 1 / sigma at first, relative to the caps: with 1/8 steps diverged, and 2 takes more of them
OUT_OF_CORE = K.where(lambda problem: not problem.resident)


@state
class StepsState(State):
    """Weights w (K, d+1), and what a look finds at them: `look`, H, `margins` (K, n), and `products`, by how much these
    changed. alpha (K, n): the proximal centres, duals that a proximal step stays near. softness, height, steps, made
    (K,): of the proximal step on all rows, as in `Proximal`; `proximal` itself is that of the sample.

    last_step (K, d+1): out of core, and descent (K,): how steep it was at its start; moved: the centres moved since.
    along (K, 2): sums of a line search. largest (K, 1): the largest centre. due: steps in memory are left to make;
    started: no longer waits for a sample, which is drawn while `sampling`. part: the next row of a look.
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


def turn_back(problem: Problem, state: StepsState, k: int) -> None:
    """Products with the way back; the next read writes them anew."""
    np.negative(state.products[k], out=state.products[k])


def add_slopes(problem: Problem, state: StepsState, k: int, t: float) -> None:
    """First and second derivative of the losses where the margins are moved by t products; added to `along`."""
    kernel.add_slopes(
        labels_of(problem, state), problem.loss, k, state.softness[k], state.alpha[k], state.margins[k],
        state.products[k], t, state.along[k],
    )  # fmt: skip


def move_centres(problem: Problem, state: StepsState, k: int) -> None:
    """Centres move to the duals that the margins attain."""
    kernel.move_centres(
        labels_of(problem, state), problem.loss, k, state.softness[k], state.alpha[k], state.margins[k]
    )  # fmt: skip


def middle_centres(problem: Problem, state: StepsState, k: int, part: float) -> None:
    """Centres in the middle of what duals may be, times `part`: half as far from those of all rows as an end is."""
    kernel.middle_centres(labels_of(problem, state), problem.loss, k, part, state.alpha[k])


def find_largest(problem: Problem, state: StepsState, k: int) -> None:
    """The largest centre."""
    state.largest[k] = state.alpha[k].max(initial=0.0)
