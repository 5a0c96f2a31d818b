"""The state of Newton steps by conjugate gradients, in memory."""

from __future__ import annotations

from collections.abc import Iterator

from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.look import LookedAt
from streammargin.solvers.proof.sums import LINES
from streammargin.solvers.roles import GROUPS, Axis, Float, N, Rows, Scratch, Shared, W, b1, f8, of, state

EIGEN = 4  # multiplications, times d^3, that find all eigenvectors of a matrix
PRODUCTS = 25  # products that a step takes: if a Hessian costs less, it is summed up instead
VISIT = 2  # multiplications of a value in a product
SCORES, BEGINS, ADVANCES, ENDS = range(4)  # what comes next of a step: scores, its gradient, a product, the line search


def factored(problem: Problem) -> bool:
    """Whether a Kronecker product preconditions: a loss of all lines, and eigenvectors cost less than products."""
    products = PRODUCTS * VISIT * problem.lines * problem.values
    return problem.all_scores and EIGEN * (problem.features + 1) ** 3 <= products


BENDS = Axis(lambda problem: 2 * problem.lines if problem.all_scores else 1, name="1 or 2 lines")


@state
class Newton:
    """The Newton step at hand, that of `group`; begun: there is one; turn: what comes next.

    gradient: at its weights. made: steps since the last look. diagonal: the preconditioner, of lines and columns turned
    by of_lines (lines, lines) and of_columns (d+1, d+1) if these are not empty.

    The step is what conjugate gradients have found so far. residual: minus what is left of the gradient; direction:
    their next one; square: residual . preconditioned residual; fall: of the model of the objective; enough: a length of
    the residual that may end them; reached: one that does; products so far.
    """

    begun: bool = False
    group: int = 0
    turn: int = SCORES
    gradient: Shared[f8] = of(LINES, W)
    diagonal: Shared[f8] = of(LINES, W)
    of_lines: Shared[f8] = of(*2 * [LINES.where(factored)])
    of_columns: Shared[Float] = of(*2 * [W.where(factored)])
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
class ByProducts(LookedAt):
    """newton: the step at hand; due (groups,): steps are left to make; steps: those under way."""

    newton: Newton
    due: Shared[b1] = of(GROUPS)
    steps: Scratch[Iterator[float] | None] = None


@state
class ConjugateState(ByProducts):
    """scores (n, lines), bends, along: of all rows at the weights of the step, and along it (compiled/products.py).

    due: before the look; work: multiplications since the last look. dear: the last step cost more than one with a
    Hessian.
    """

    scores: Rows[f8] = of(N, LINES)
    bends: Rows[f8] = of(N, BENDS)
    along: Rows[f8] = of(N, LINES)
    work: float = 0.0
    dear: bool = False
