"""Newton steps by conjugate gradients on rows in memory (truncated Newton, Dembo and Steihaug 1983).

No Hessian is summed up. Products of the Hessian and a vector find the step, and each reads the rows once (Lin, Weng and
Keerthi 2008). The rows are all rows (conjugate.py), or a sample whose gradient is corrected (sampled.py).

A mean of the identity and the Hessian's diagonal preconditions them (Hsia, Chiang and Lin 2018). For one loss of all
lines it is a Kronecker product. Its factors are a mean of the rows' second derivatives by the scores, and X^T X with
their traces as weights.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Generator, Iterator
from typing import ClassVar, TypeVar

import numpy as np

from streammargin.compiled import look as certificate
from streammargin.compiled.judged import judge_of
from streammargin.losses.base import has, smooth
from streammargin.rows.blocks import Block
from streammargin.rows.labels import Labels, RowNumbers
from streammargin.solvers import loops
from streammargin.solvers.base import UNIT, VISIT
from streammargin.solvers.columns.gradients import ConjugateGradients
from streammargin.solvers.newton.held import STRIDE, Held, ridge
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.certified_read import LIKELY, CertifiedByRead, CertifiedState
from streammargin.solvers.proof.sums import LINES
from streammargin.solvers.roles import GROUPS, Float, Scratch, Shared, W, b1, f8, of, state

AIM = 0.5  # of the gradient that the goal allows: the last step ends there
MOST_STEPS = 60  # most steps between two certificates; more would mean that rounding prevents convergence

SLOW = 0.5  # a step goes on while a product lowers its model by more than this share of the mean so far
DIAGONAL_SHARE = 0.01  # of the diagonal in the preconditioner; the rest is the identity
MOST_PRODUCTS = 500  # most products of a step
EIGEN = 4  # multiplications, times d^3, that find all eigenvectors of a matrix
LITTLE = 1 << 20  # multiplications that take no time: a weight of 2 is to mean what two rows mean, to the last step
ASSUMED_PRODUCTS = 25  # products that a step takes: if a Hessian costs less, it is summed up instead
NEEDS_SCORES, BEGINS, ADVANCES, ENDS = range(4)  # next of a step: scores, its gradient, a product, the line search


def supports(problem: Problem) -> bool:
    """Whether the loss is smooth, under the ridge."""
    able = smooth(problem.loss) and (problem.all_scores if problem.joint else has(problem.loss, "slope"))
    return problem.ridge and able and not (problem.path or problem.outputs.tasks)


def factored(problem: Problem) -> bool:
    """Whether a Kronecker product preconditions: a loss of all lines, and eigenvectors cost less than products."""
    products = ASSUMED_PRODUCTS * VISIT * problem.lines * problem.values
    return problem.all_scores and EIGEN * (problem.features + 1) ** 3 <= max(products, LITTLE)


@state
class Newton(ConjugateGradients):
    """The Newton step at hand, that of `group`.

    `begun`     there is one.
    `turn`      what comes next.
    `gradient`  at its weights.
    `rest`      the part that is not of these rows.
    `made`      steps since the last certificate.
    `diagonal`  the preconditioner. of_lines (lines, lines) and of_columns (d+1, d+1) turn lines and columns for it, if
                they are not empty.

    Conjugate gradients find the step.

    `fall`      that of the model of the objective.
    `enough`    a length of the residual that may end them.
    `reached`   one that does.
    `products`  how many so far.
    """

    begun: bool = False
    group: int = 0
    turn: int = NEEDS_SCORES
    gradient: Shared[f8] = of(LINES, W)
    rest: Shared[f8] = of(LINES, W)
    diagonal: Shared[f8] = of(LINES, W)
    of_lines: Shared[f8] = of(*2 * [LINES.where(factored)])
    of_columns: Shared[Float] = of(*2 * [W.where(factored)])
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
        loops.products(problem).add_diagonal(part.rows, held.curvatures[part.start : part.stop], stride, found)
    newton.diagonal[:] = DIAGONAL_SHARE * found + (1.0 - DIAGONAL_SHARE * (1.0 - ridge(problem, np.ones_like(found))))
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
    along which its curvature is large would hide the others (Nash and Sofer 1990).
    """
    scores = np.empty_like(held.along)
    curved = yield from held.product(problem, newton.direction, scores)
    newton.products += 1
    square, length = newton.square, newton.move(curved)
    scores *= length
    held.along[:] += scores
    lower = 0.5 * length * square
    newton.fall += lower
    left = math.sqrt(float(np.vdot(newton.residual, newton.residual)))
    slow = newton.products * lower <= SLOW * newton.fall and left <= newton.enough
    if slow or left <= newton.reached or not lower > 0.0 or newton.products >= MOST_PRODUCTS:
        newton.turn = ENDS
    else:
        newton.redirect(conditioned(newton, newton.residual))


def finish(problem: Problem, newton: Newton, held: Held, w: np.ndarray) -> None:
    """Move w (lines, d+1) along the step, to the minimum there; if there is none, no step follows."""
    newton.turn = BEGINS
    newton.made += 1
    step, down, t = newton.step, float(np.vdot(newton.gradient, newton.step)), 0.0
    if down < 0.0:  # else rounding, or nan
        t = loops.products(problem).lowest_along(
            held.labels, judge_of(problem.loss), newton.group * problem.lines, held.scores, held.along,
            float(np.vdot(newton.rest, step)), float(np.vdot(ridge(problem, step), step)), down,
        )  # fmt: skip
    if not t > 0.0:
        newton.made = MOST_STEPS
        return
    w += t * step
    held.along[:] *= t
    held.scores[:] += held.along


@state
class ByProducts(CertifiedState):
    """newton: the step at hand; due (groups,): steps are left to make; steps: those under way.

    work: multiplications of steps in this pass.
    """

    newton: Newton
    due: Shared[b1] = of(GROUPS)
    steps: Scratch[Iterator[float] | None] = None
    work: float = 0.0


B = TypeVar("B", bound=ByProducts)


class Truncated(CertifiedByRead[B]):
    """Base class: steps on rows in memory, and reads whose sums are those that certify the weights, and no more.

    loose: most of the gradient that a step leaves, as a share.
    """

    loose: ClassVar[float]

    @abstractmethod
    def rest(self, problem: Problem, state: B, pull: np.ndarray) -> np.ndarray:
        """The gradient (lines, d+1) at the weights without the losses of the rows held, whose duals pull so much."""

    def balance(self, problem: Problem, state: B, held: Held) -> None:
        """Improve weights and scores at the beginning, and after each step; default: they stay."""

    @abstractmethod
    def ends(self, problem: Problem, state: B) -> bool:
        """Whether no step follows those that were made, at least one, wherever they led."""

    def begin_pass(self, problem: Problem, state: B, active: np.ndarray) -> None:
        super().begin_pass(problem, state, active)
        state.work, state.newton.made = 0.0, 0

    @staticmethod
    def add_sums(
        problem: Problem, state: B, labels: Labels, active: np.ndarray, block: Block, numbers: RowNumbers,
        margins: np.ndarray = certificate.NOWHERE,
    ) -> None:  # fmt: skip
        """Add the sums of these rows at the weights; margins (1, K, n) or (1, K, 0): set to theirs."""
        none = np.zeros((problem.count, 0))
        step = certificate.Prox(none, none, *np.zeros((2, problem.count)))
        state.sums.rows += block.rows()
        rows = block, numbers, labels
        state.sums.add(
            problem.loss, rows, problem.lines_of(active), state.w, step, by=loops.look(problem), margins=margins
        )

    def unit(self, problem: Problem, state: B, k: int, held: Held) -> bool:
        """One unit of the steps of group k; returns whether they have ended."""
        newton = state.newton
        if not newton.begun:
            newton.begun, newton.group, newton.turn, newton.made = True, k, NEEDS_SCORES, 0
        if state.steps is None:
            state.steps = self._steps(problem, state, held)
        if not over(state.steps):
            return False
        state.due[k], newton.begun, state.steps = False, False, None
        return True

    def _steps(self, problem: Problem, state: B, held: Held) -> Iterator[float]:
        """The steps of a group; the turn says where a checkpoint has left them."""
        newton, w = state.newton, problem.view(state.w, state.newton.group)
        if newton.turn == NEEDS_SCORES:
            held.scores[:] = 0.0
            if w.any():
                yield from held.score(problem, w, held.scores)
                self._count(problem, state, held, 1.0)
            self.balance(problem, state, held)
            newton.turn = BEGINS
        while newton.turn != BEGINS or (yield from self._begin(problem, state, held, w)):
            yield from advance(problem, newton, held)
            self._count(problem, state, held, VISIT)
            if newton.turn == ENDS:
                finish(problem, newton, held, w)
                self.balance(problem, state, held)

    @staticmethod
    def _count(problem: Problem, state: B, held: Held, visits: float) -> None:
        """Count so many multiplications of each value by each line."""
        work = visits * held.values * problem.lines
        state.multiplications += work
        state.work += work

    def _begin(self, problem: Problem, state: B, held: Held, w: np.ndarray) -> Generator[float, None, bool]:
        """Find the gradient, and begin conjugate gradients; returns whether a step is needed."""
        newton = state.newton
        if newton.made >= MOST_STEPS or (newton.made > 0 and self.ends(problem, state)):
            return False
        losses, pull = yield from held.pull(problem, newton.group)
        self._count(problem, state, held, 1.0)
        newton.rest[:] = self.rest(problem, state, pull)
        newton.gradient[:] = newton.rest - pull
        square = float(np.vdot(newton.gradient, newton.gradient))
        objective = losses + 0.5 * float(np.vdot(w, ridge(problem, w)))
        goal = LIKELY * problem.tol * abs(objective)
        if not 0.0 < square < math.inf or (newton.made > 0 and 0.5 * square <= goal):
            return False
        loose = min(self.loose, math.sqrt(0.5 * square / max(abs(objective), 0.5 * square)))
        newton.enough, newton.reached = loose * math.sqrt(square), AIM * math.sqrt(2.0 * goal)
        self._count(problem, state, held, precondition(problem, newton, held))
        begin(newton, held)
        return True
