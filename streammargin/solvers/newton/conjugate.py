"""Newton steps by conjugate gradients, for smooth losses under the ridge with rows in memory.

No Hessian is summed up: the step is found by products of the Hessian and a vector, each of which reads the rows once
(truncated Newton, Dembo and Steihaug 1983; Lin, Weng and Keerthi 2008). A mean of the identity and the Hessian's
diagonal preconditions them (Hsia, Chiang and Lin 2018). For one loss of all lines it is a Kronecker product, of a mean
of the rows' second derivatives by the scores, and of X^T X with their traces as weights. Each pass makes steps until a
certificate is likely to prove the tolerance, and ends with the look that certifies the weights.
"""

from __future__ import annotations

import math

import numpy as np

from streammargin.compiled import look as certificate
from streammargin.compiled import products as kernel
from streammargin.losses.base import has, smooth
from streammargin.penalties.lp import LpSquare
from streammargin.rows.blocks import Block
from streammargin.rows.labels import RowLabels, numbered_from
from streammargin.solvers.base import UNIT, PassReport, Share, matrix_work
from streammargin.solvers.linear import LinearSolver, keep_weights
from streammargin.solvers.newton.conjugate_state import PRODUCTS, VISIT, ConjugateState, Newton, factored
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.best import best_figures, keep_bounds
from streammargin.solvers.proof.bounds import bounds_of_group
from streammargin.solvers.proof.objectives.base import Candidate
from streammargin.solvers.proof.rounding import blur
from streammargin.solvers.roles import clear
from streammargin.solvers.state import labels_of
from streammargin.solvers.visits import Visit

LIKELY = 0.9  # of tol: the gap that steps aim at, so that the look proves tol
LOOSE = 0.25  # most of the gradient that a step leaves, as a share
AIM = 0.5  # of the gradient that the goal allows: the last step ends there
SLOW = 0.5  # a step goes on while a product lowers its model by more than this share of the mean so far
SHARE = 0.01  # of the diagonal in the preconditioner; the rest is the identity
STRIDE = 8  # one row of so many counts for the diagonal, where there are enough of them
BALANCES, BALANCED = 40, 1e-14  # most tries to balance a constant, and what may be left of the duals' sum
MOST_PRODUCTS = 500  # most products of a step
MOST_STEPS = 60  # most steps between two looks; more would mean that rounding prevents convergence
DEAR = 2  # times what a Hessian costs: the products of a step that are worth it no more
WORK = 1e11  # most multiplications between two looks, some seconds


def suits(problem: Problem) -> bool:
    """Whether steps by products serve this problem, and cost less than those with a Hessian."""
    ridge = problem.penalty is None or isinstance(problem.penalty, LpSquare)
    able = smooth(problem.loss) and (problem.all_scores if problem.joint else has(problem.loss, "slope"))
    if not (problem.resident and ridge and problem.p == 2.0 and able) or problem.path:
        return False
    return hessian(problem) > PRODUCTS * product(problem)


def product(problem: Problem) -> float:
    """Multiplications of a product."""
    return float(VISIT * problem.lines * problem.values)


def hessian(problem: Problem) -> float:
    """Multiplications of a step with a Hessian."""
    lines = problem.lines
    return matrix_work(lines * (problem.features + 1), problem.rows, lines * problem.values / problem.rows)


class Conjugate(LinearSolver[ConjugateState]):
    """Newton steps on all rows in memory, without a Hessian."""

    name = "newton's products"
    numeric = True
    requires = ("slope", "curvature_bound")
    couples = ("coupled_step", "coupled_slopes", "curvature_bound")
    state_class = ConjugateState
    mapped = True

    def reserved_bytes(self, problem: Problem) -> int:
        width = problem.features + 1
        turned = 3 * width * width if factored(problem) else 0  # while eigenvectors are found
        return 8 * (problem.lines * (problem.rows + 6 * width) + turned)  # vectors of a product

    def start(self, problem: Problem, labels: RowLabels) -> ConjugateState:
        state = super().start(problem, labels)
        state.due[:] = True
        return state

    def begin_at(self, problem: Problem, state: ConjugateState, w: np.ndarray) -> None:
        state.w[:] = w

    def begin_pass(self, problem: Problem, state: ConjugateState, active: np.ndarray) -> None:
        clear(state.look)
        state.work, state.newton.made, state.dear = 0.0, 0, False
        done = problem.lines_of(np.setdiff1d(np.arange(problem.groups), active))
        state.w[done] = state.best_w[done]  # groups that are done show certified weights

    def visit(self, problem: Problem, state: ConjugateState, active: np.ndarray) -> Visit:
        return Visit(
            "pass", self.run_block, (active,), ("look",), lines=problem.lines * active.size, prepare=self.move,
            begin=self.begin_pass, end=self.end_pass,
        )  # fmt: skip

    def move(self, problem: Problem, state: ConjugateState, active: np.ndarray, block: Block) -> Share:
        """One unit of the steps."""
        due = active[state.due[active]]
        if not due.size:
            return None
        if self._steps(problem, state, int(due[0]), block):
            state.due[due[0]], state.newton.begun = False, False
        return 1.0 - due.size / active.size

    def _steps(self, problem: Problem, state: ConjugateState, k: int, block: Block) -> bool:
        """One unit of the steps of group k; returns whether they are done."""
        newton, before = state.newton, state.multiplications
        if not newton.begun:
            newton.begun, newton.group, newton.products, newton.made = True, k, 0, 0
            w, newton.scores[:] = problem.view(state.w, k), 0.0
            if w.any():
                kernel.add_scores(block, laid(problem, w), newton.scores)
                self._count(problem, state, 1.0)
            self._balance(problem, state, block)
        while state.multiplications - before < UNIT:
            if newton.products == 0 and not self._begin_step(problem, state, block):
                return True
            if self._product(problem, state, block):
                self._end_step(problem, state)
                self._balance(problem, state, block)
        return False

    @staticmethod
    def _count(problem: Problem, state: ConjugateState, visits: float) -> None:
        """Count so many multiplications of each value by each line."""
        work = visits * problem.values * problem.lines
        state.multiplications += work
        state.work += work

    def _begin_step(self, problem: Problem, state: ConjugateState, block: Block) -> bool:
        """Find the gradient, and begin conjugate gradients; returns whether a step is needed."""
        newton, k = state.newton, state.newton.group
        w, image = problem.view(state.w, k), laid(problem, np.zeros_like(newton.gradient))
        losses = kernel.add_gradient(
            block, labels_of(problem, state), *kernel.apart(problem.loss), k * problem.lines, newton.scores,
            newton.bends, image,
        )  # fmt: skip
        self._count(problem, state, 1.0)
        newton.gradient[:] = ridge(problem, w) - laid(problem, image)
        square = float(np.vdot(newton.gradient, newton.gradient))
        height = losses + 0.5 * float(np.vdot(w, ridge(problem, w)))
        goal = LIKELY * problem.tol * abs(height)
        if not 0.0 < square < math.inf or newton.made >= MOST_STEPS:
            return False
        if newton.made > 0 and (state.work > WORK or state.dear or 0.5 * square <= goal):
            return False
        loose = min(LOOSE, math.sqrt(0.5 * square / max(abs(height), 0.5 * square)))
        newton.enough, newton.reached = loose * math.sqrt(square), AIM * math.sqrt(2.0 * goal)
        self._precondition(problem, state, block)
        newton.step[:], newton.along[:] = 0.0, 0.0
        newton.residual[:] = -newton.gradient
        newton.direction[:] = conditioned(newton, newton.residual)
        newton.square, newton.fall = float(np.vdot(newton.residual, newton.direction)), 0.0
        return True

    @staticmethod
    def _balance(problem: Problem, state: ConjugateState, block: Block) -> None:
        """Set constants that are not penalised to the best ones beside the other weights: their duals add up to 0.

        Newton's method, with line searches. Duals that do not add up to 0 would prove less.
        """
        newton, lines = state.newton, problem.lines
        if not problem.free or not block.bias:
            return
        labels, loss, k, left = labels_of(problem, state), kernel.apart(problem.loss), newton.group * lines, math.inf
        for _ in range(BALANCES):
            pull, bend = np.zeros(lines), np.zeros((lines, lines))
            size = kernel.add_constants(labels, *loss, k, newton.scores, pull, bend)
            off = float(np.abs(pull).sum())
            if off <= BALANCED * size or not off < left:
                break
            step, left = np.linalg.lstsq(bend, pull, rcond=None)[0], off
            if not step @ pull > 0.0:  # no row bends
                step = pull / size
            along = np.repeat(step[None], len(newton.scores), axis=0)
            t = kernel.lowest_along(labels, *loss, k, newton.scores, along, 0.0, 0.0, -float(step @ pull))
            newton.scores += t * step
            problem.view(state.w, newton.group)[:, -1] += t * step / block.bias

    def _precondition(self, problem: Problem, state: ConjugateState, block: Block) -> None:
        """Find the preconditioner, from some of the rows."""
        newton = state.newton
        stride = STRIDE if problem.rows >= STRIDE * (problem.features + 1) else 1
        if factored(problem):
            newton.diagonal[:] = 1.0 + turn(newton, block, stride)
            share = (problem.features + 1) / (2 * VISIT * problem.lines * stride)  # of a product
            self._count(problem, state, share * VISIT)
            return
        found = np.zeros_like(newton.diagonal)
        kernel.add_diagonal(block, newton.bends, stride, found)
        self._count(problem, state, 1.0 / stride)
        newton.diagonal[:] = SHARE * found + (1.0 - SHARE * (1.0 - ridge(problem, np.ones_like(found))))

    def _product(self, problem: Problem, state: ConjugateState, block: Block) -> bool:
        """One step of conjugate gradients; returns whether they end.

        They end where the residual is small, and the model of the objective falls slowly: directions along which it
        bends much would hide the others from the residual alone (Nash and Sofer 1990).
        """
        newton, direction = state.newton, state.newton.direction
        scores, bent = np.empty_like(newton.along), laid(problem, ridge(problem, direction))
        kernel.add_curved(block, newton.bends, laid(problem, direction), scores, bent)
        bent = laid(problem, bent)
        self._count(problem, state, VISIT)
        newton.products += 1
        t = newton.square / float(np.vdot(direction, bent))
        newton.step += t * direction
        newton.residual -= t * bent
        scores *= t
        newton.along += scores
        lower = 0.5 * t * newton.square
        newton.fall += lower
        left = math.sqrt(float(np.vdot(newton.residual, newton.residual)))
        slow = newton.products * lower <= SLOW * newton.fall and left <= newton.enough
        if slow or left <= newton.reached or not lower > 0.0 or newton.products >= MOST_PRODUCTS:
            return True
        towards = conditioned(newton, newton.residual)
        square = float(np.vdot(newton.residual, towards))
        newton.direction[:] = towards + square / newton.square * direction
        newton.square = square
        return False

    @staticmethod
    def _end_step(problem: Problem, state: ConjugateState) -> None:
        """Move the weights along the step, to the minimum there."""
        newton = state.newton
        w, step = problem.view(state.w, newton.group), newton.step
        state.dear = newton.products * product(problem) > DEAR * hessian(problem)
        newton.products = 0
        newton.made += 1
        down = float(np.vdot(newton.gradient, step))
        if not down < 0.0:  # rounding, or nan: the next gradient decides
            newton.made = MOST_STEPS
            return
        t = kernel.lowest_along(
            labels_of(problem, state), *kernel.apart(problem.loss), newton.group * problem.lines, newton.scores,
            newton.along, float(np.vdot(ridge(problem, w), step)), float(np.vdot(ridge(problem, step), step)), down,
        )  # fmt: skip
        w += t * step
        newton.along *= t
        newton.scores += newton.along

    def run_block(self, problem: Problem, state: ConjugateState, active: np.ndarray, block: Block, first: int) -> None:
        """Add the sums of these rows at the current weights."""
        found, none = state.look, np.zeros((1, problem.count))
        found.rows += block.rows()
        certificate.look(
            block, numbered_from(first), labels_of(problem, state), problem.loss, problem.lines_of(active),
            certificate.Point(state.w[None], none, blur(state.w)[None]),
            certificate.Prox(np.zeros((problem.count, 0)), np.zeros((problem.count, 0)), none[0], none[0]),
            certificate.Found(
                found.weights[None], found.duals, found.pull, found.wrong[None], class_sums=found.own, parts=found.parts
            ),
        )  # fmt: skip

    def end_pass(self, problem: Problem, state: ConjugateState, active: np.ndarray) -> PassReport:
        look = state.look
        if look.rows == problem.rows:
            self._prove(problem, state, active)
        figures = best_figures(problem, state.best)
        estimate = np.array([math.inf if f.gap is None else f.gap for f in figures])
        if look.rows < problem.rows:
            return PassReport(estimate, 0, figures)
        state.due[active] = estimate[active] > problem.tol
        wrong = look.wrong if problem.compared and problem.joint else look.weights[:, certificate.MISTAKES]
        mistakes = int(wrong.sum())
        return PassReport(estimate, mistakes, figures, look.wrong.copy() if problem.compared else None)

    @staticmethod
    def _prove(problem: Problem, state: ConjugateState, active: np.ndarray) -> None:
        look = state.look
        found: list[Candidate | None] = [None] * problem.groups
        dual = np.full(problem.groups, -math.inf)
        for k in active.tolist():
            proof = bounds_of_group(problem, k, state.w, look)
            found[k], dual[k] = proof.weights, proof.dual
        keep_bounds(state.best, dual, np.full(problem.groups, math.inf))
        keep_weights(problem, state, state.w.copy(), found)

    def weights(self, problem: Problem, state: ConjugateState) -> np.ndarray:
        return state.w.copy()


def ridge(problem: Problem, v: np.ndarray) -> np.ndarray:
    """v (..., d+1) with 0 for a constant that is not penalised, a new array: the gradient of 1/2 ||w||^2."""
    found = v.copy()
    if problem.free:
        found[..., -1] = 0.0
    return found


def turn(newton: Newton, block: Block, stride: int) -> np.ndarray:
    """Set the axes in which a Kronecker product near the Hessian is diagonal; returns its diagonal (lines, d+1)."""
    newton.of_lines[:], newton.of_columns[:] = 0.0, 0.0
    kernel.add_factors(block, newton.bends, stride, newton.of_lines, newton.of_columns)
    (a, newton.of_lines[:]), (b, newton.of_columns[:]) = (
        np.linalg.eigh(factor, UPLO="U") for factor in (newton.of_lines, newton.of_columns)
    )
    return np.outer(np.maximum(a, 0.0), np.maximum(b, 0.0))


def conditioned(newton: Newton, residual: np.ndarray) -> np.ndarray:
    """The residual (lines, d+1), divided by the preconditioner."""
    if not newton.of_lines.size:
        return residual / newton.diagonal
    return newton.of_lines @ (newton.of_lines.T @ residual @ newton.of_columns / newton.diagonal) @ newton.of_columns.T


def laid(problem: Problem, v: np.ndarray) -> np.ndarray:
    """An array (lines, d+1) as rows read it, or the other way round."""
    return np.ascontiguousarray(v.T) if problem.sparse else v
