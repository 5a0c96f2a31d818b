"""A Newton step by conjugate gradients on rows in memory (truncated Newton, Dembo and Steihaug 1983).

A mean of the identity and the Hessian's diagonal preconditions them (Hsia, Chiang and Lin 2018). For one loss of all
lines it is a Kronecker product. Its factors are a mean of the rows' second derivatives by the scores, and X^T X with
their traces as weights.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator

import numpy as np

from streammargin.compiled.judged import judge_of
from streammargin.solvers import loops
from streammargin.solvers.base import UNIT
from streammargin.solvers.newton.held import STRIDE, VISIT, Held, ridge
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.sums import LINES
from streammargin.solvers.roles import Float, Shared, W, f8, of, state

SLOW = 0.5  # a step goes on while a product lowers its model by more than this share of the mean so far
SHARE = 0.01  # of the diagonal in the preconditioner; the rest is the identity
MOST_PRODUCTS = 500  # most products of a step
EIGEN = 4  # multiplications, times d^3, that find all eigenvectors of a matrix
LITTLE = 1 << 20  # multiplications that take no time: a weight of 2 is to mean what two rows mean, to the last step
PRODUCTS = 25  # products that a step takes: if a Hessian costs less, it is summed up instead
SCORES, BEGINS, ADVANCES, ENDS = range(4)  # what comes next of a step: scores, its gradient, a product, the line search


def factored(problem: Problem) -> bool:
    """Whether a Kronecker product preconditions: a loss of all lines, and eigenvectors cost less than products."""
    products = PRODUCTS * VISIT * problem.lines * problem.values
    return problem.all_scores and EIGEN * (problem.features + 1) ** 3 <= max(products, LITTLE)


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


def precondition(problem: Problem, newton: Newton, held: Held) -> float:
    """Find the preconditioner, from some of the rows; returns its cost, in visits of all rows."""
    width, rows = problem.features + 1, len(held.scores)
    stride = STRIDE if rows >= STRIDE * width else 1
    if factored(problem):
        newton.diagonal[:] = 1.0 + _turn(problem, newton, held, stride)
        return width / (2 * problem.lines * stride)
    found = np.zeros_like(newton.diagonal)
    for part in held.parts:
        loops.products(problem).add_diagonal(part.rows, held.bends[part.start : part.stop], stride, found)
    newton.diagonal[:] = SHARE * found + (1.0 - SHARE * (1.0 - ridge(problem, np.ones_like(found))))
    return 1.0 / stride


def _turn(problem: Problem, newton: Newton, held: Held, stride: int) -> np.ndarray:
    """Set the axes in which a Kronecker product near the Hessian is diagonal; returns its diagonal (lines, d+1)."""
    newton.of_lines[:], newton.of_columns[:] = 0.0, 0.0
    held.add_factors(problem, stride, newton.of_lines, newton.of_columns)
    a, b = _turned(newton.of_lines), _turned(newton.of_columns)
    return np.outer(np.maximum(a, 0.0), np.maximum(b, 0.0))


def _turned(factor: np.ndarray) -> np.ndarray:
    """Replace a symmetric matrix, an upper triangle, by its eigenvectors; returns its eigenvalues."""
    if factor.dtype == np.float64:
        values, factor[:] = np.linalg.eigh(factor, UPLO="U")
        return values
    if not np.isfinite(factor).all():  # float32 does not hold it
        factor[:] = np.eye(len(factor))
        return np.zeros(len(factor))
    from scipy.linalg import eigh  # with half the memory; other steps do without this module

    values, factor[:] = eigh(factor.T, lower=True, overwrite_a=True, check_finite=False, driver="evr")
    return values


def conditioned(newton: Newton, residual: np.ndarray) -> np.ndarray:
    """The residual (lines, d+1), divided by the preconditioner."""
    if not newton.of_lines.size:
        return residual / newton.diagonal
    kind = newton.of_columns.dtype
    turned = (newton.of_lines.T @ residual).astype(kind, copy=False) @ newton.of_columns / newton.diagonal
    return (newton.of_lines @ turned).astype(kind, copy=False) @ newton.of_columns.T


def over(steps: Iterator[float]) -> bool:
    """Go on with steps until a unit of work is done; returns whether they have ended.

    What they yield between two parts of the rows changes nothing that is saved, so that they may begin there again.
    """
    done = 0.0
    for work in steps:
        done += work
        if done >= UNIT:
            return False
    return True


def begin(newton: Newton, held: Held) -> None:
    """Begin conjugate gradients for the step from a gradient."""
    newton.step[:], held.along[:] = 0.0, 0.0
    newton.residual[:] = -newton.gradient
    newton.direction[:] = conditioned(newton, newton.residual)
    newton.square, newton.fall = float(np.vdot(newton.residual, newton.direction)), 0.0
    newton.products, newton.turn = 0, ADVANCES


def advance(problem: Problem, newton: Newton, held: Held) -> Generator[float, None, None]:
    """One step of conjugate gradients; finds whether they end.

    They end if the residual is small and the model of the objective falls slowly. In the residual alone, directions
    along which it bends much would hide the others (Nash and Sofer 1990).
    """
    direction, scores = newton.direction, np.empty_like(held.along)
    bent = yield from held.bend(problem, direction, scores)
    newton.products += 1
    t = newton.square / float(np.vdot(direction, bent))
    newton.step += t * direction
    newton.residual -= t * bent
    scores *= t
    held.along[:] += scores
    lower = 0.5 * t * newton.square
    newton.fall += lower
    left = math.sqrt(float(np.vdot(newton.residual, newton.residual)))
    slow = newton.products * lower <= SLOW * newton.fall and left <= newton.enough
    if slow or left <= newton.reached or not lower > 0.0 or newton.products >= MOST_PRODUCTS:
        newton.turn = ENDS
        return
    towards = conditioned(newton, newton.residual)
    square = float(np.vdot(newton.residual, towards))
    newton.direction[:] = towards + square / newton.square * direction
    newton.square = square


def finish(problem: Problem, newton: Newton, held: Held, w: np.ndarray, slope: float) -> float:
    """Move w (lines, d+1) along the step, to the minimum there; returns which share of the step that is, 0: none.

    slope: the derivative along the step of all but the losses of these rows.
    """
    newton.turn = BEGINS
    newton.made += 1
    step, down = newton.step, float(np.vdot(newton.gradient, newton.step))
    if not down < 0.0:  # rounding, or nan
        return 0.0
    t = loops.products(problem).lowest_along(
        held.labels, judge_of(problem.loss), newton.group * problem.lines, held.scores, held.along, slope,
        float(np.vdot(ridge(problem, step), step)), down,
    )  # fmt: skip
    w += t * step
    held.along[:] *= t
    held.scores[:] += held.along
    return t
