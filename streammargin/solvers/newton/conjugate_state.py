"""The state of Newton steps by conjugate gradients, in memory."""

from __future__ import annotations

from streammargin.compiled import look as kernel
from streammargin.solvers.columns.constant import SIDES
from streammargin.solvers.linear import LinearState
from streammargin.solvers.roles import GROUPS, TRIALS, Axis, Count, K, N, Rows, Shared, Sum, W, b1, f8, i8, of, state

LINES = Axis(lambda problem: problem.lines, name="lines")


@state
class Sums:
    """The sums of a look at w (compiled/look.py), and the number of rows in them."""

    pull: Sum[f8] = of(K, SIDES, W)
    weights: Sum[f8] = of(K, kernel.LOSS_SUMS, carried=kernel.LOSS_CARRIED)
    duals: Sum[f8] = of(K, SIDES, kernel.DUAL_SUMS, carried=kernel.DUAL_CARRIED)
    wrong: Sum[i8] = of(TRIALS)
    rows: Count = 0


@state
class Newton:
    """The Newton step at hand, that of `group`; begun: there is one.

    scores, bends (lines, n): of the rows at its weights (compiled/products.py). gradient: there; diagonal: the
    preconditioner. made: steps since the last look.

    The step, and the scores `along` of it, are what conjugate gradients have found so far. residual: minus what is left
    of the gradient; direction: their next one; square: residual . preconditioned residual; fall: of the model of the
    objective; enough: a length of the residual that may end them; reached: one that does; products so far, 0: the step
    has not begun.
    """

    begun: bool = False
    group: int = 0
    scores: Rows[f8] = of(LINES, N)
    bends: Rows[f8] = of(LINES, N)
    along: Rows[f8] = of(LINES, N)
    gradient: Shared[f8] = of(LINES, W)
    diagonal: Shared[f8] = of(LINES, W)
    step: Shared[f8] = of(LINES, W)
    residual: Shared[f8] = of(LINES, W)
    direction: Shared[f8] = of(LINES, W)
    square: float = 0.0
    fall: float = 0.0
    enough: float = 0.0
    reached: float = 0.0
    products: int = 0
    made: int = 0


@state
class ConjugateState(LinearState):
    """w (K, d+1), and the sums of its `look`; due (groups,): steps are left to make before it; work:
    multiplications since the last look.
    """

    w: Shared[f8]
    look: Sums
    newton: Newton
    due: Shared[b1] = of(GROUPS)
    work: float = 0.0
