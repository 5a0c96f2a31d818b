"""Newton steps by conjugate gradients, for smooth losses under the ridge with rows in memory.

No Hessian is summed up. Products of the Hessian and a vector find the step, and each reads the rows once (Lin, Weng and
Keerthi 2008; truncated.py). Each pass makes steps until a certificate is likely to prove the tolerance,
and ends with the look that certifies the weights.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from typing import TypeVar

import numpy as np

from streammargin.compiled import look as certificate
from streammargin.compiled import products as kernel
from streammargin.compiled.judged import judge_of
from streammargin.losses.base import has, smooth
from streammargin.rows.blocks import Block
from streammargin.rows.labels import Labels, RowLabels, RowNumbers, numbered_from
from streammargin.rows.products import in_float64
from streammargin.solvers import loops
from streammargin.solvers.base import PassReport, Share, matrix_work
from streammargin.solvers.newton import truncated
from streammargin.solvers.newton.held import VISIT, Held, Part, ridge
from streammargin.solvers.newton.truncated import ADVANCES, BEGINS, PRODUCTS, SCORES, Newton, factored
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.look import CertifiedByLook, LookedAt
from streammargin.solvers.proof.sums import LINES
from streammargin.solvers.roles import GROUPS, Axis, N, Rows, Scratch, Shared, b1, f8, of, state
from streammargin.solvers.state import labels_of
from streammargin.solvers.visits import Visit

LIKELY = 0.9  # of tol: the gap that steps aim at, so that the look proves tol
LOOSE = 0.25  # most of the gradient that a step leaves, as a share
AIM = 0.5  # of the gradient that the goal allows: the last step ends there
BALANCES, BALANCED = 40, 1e-14  # most tries to balance a constant, and what may be left of the duals' sum
MOST_STEPS = 60  # most steps between two looks; more would mean that rounding prevents convergence
BY_NUMPY = 0.1  # cost of a product by NumPy, beside a Hessian by compiled loops, in multiplications
DEAR = 2  # times what a Hessian costs: the products of a step that are worth it no more
WORK = 1e11  # most multiplications between two looks, some seconds


def suits(problem: Problem) -> bool:
    """Whether steps by products support this problem, and cost less than those with a Hessian."""
    work = PRODUCTS * product(problem) * (BY_NUMPY if problem.in_arrays else 1.0)
    return problem.resident and supports(problem) and hessian(problem) > work


def supports(problem: Problem) -> bool:
    """Whether the loss is smooth, under the ridge."""
    able = smooth(problem.loss) and (problem.all_scores if problem.joint else has(problem.loss, "slope"))
    return problem.lp and problem.p == 2.0 and able and not (problem.path or problem.outputs.tasks)


def product(problem: Problem) -> float:
    """Multiplications of a product."""
    return float(VISIT * problem.lines * problem.values)


def hessian(problem: Problem) -> float:
    """Multiplications of a step with a Hessian."""
    lines = problem.lines
    return matrix_work(lines * (problem.features + 1), problem.rows, lines * problem.values / problem.rows)


BENDS = Axis(lambda problem: 2 * problem.lines if problem.all_scores else 1, name="1 or 2 lines")


@state
class ByProducts(LookedAt):
    """newton: the step at hand; due (groups,): steps are left to make; steps: those under way."""

    newton: Newton
    due: Shared[b1] = of(GROUPS)
    steps: Scratch[Iterator[float] | None] = None


B = TypeVar("B", bound=ByProducts)


class Frozen(CertifiedByLook[B]):
    """Base class: the sums of a read are those that certify the weights, and no more."""

    @staticmethod
    def look(
        problem: Problem, state: B, labels: Labels, active: np.ndarray, block: Block, numbers: RowNumbers,
        margins: np.ndarray = certificate.NOWHERE,
    ) -> None:  # fmt: skip
        """Add the sums of these rows at the weights; margins (1, K, n) or (1, K, 0): set to theirs."""
        none = np.zeros((problem.count, 0))
        step = certificate.Prox(none, none, *np.zeros((2, problem.count)))
        state.look.rows += block.rows()
        rows = block, numbers, labels
        state.look.add(
            problem.loss, rows, problem.lines_of(active), state.w, step, by=loops.look(problem), margins=margins
        )


@state
class ConjugateState(ByProducts):
    """scores (n, lines), bends, along: of all rows at the weights of the step, and along it (compiled/products.py).

    due: before the look; work: multiplications since the last look. dear: the last step cost more than one with a
    Hessian. wide: the rows in float64, if NumPy makes the steps.
    """

    scores: Rows[f8] = of(N, LINES)
    bends: Rows[f8] = of(N, BENDS)
    along: Rows[f8] = of(N, LINES)
    work: float = 0.0
    dear: bool = False
    wide: Scratch[Block | None] = None


class Conjugate(Frozen[ConjugateState]):
    """Newton steps on all rows in memory, without a Hessian."""

    name = "newton's products"
    state_class = ConjugateState

    def reserved_bytes(self, problem: Problem) -> int:
        width = problem.features + 1
        turned = 3 * width * width if factored(problem) else 0  # while eigenvectors are found
        wide = 8 * problem.values if problem.in_arrays else 0
        return wide + 8 * (problem.lines * (problem.rows + 6 * width) + turned)  # vectors of a product

    def start(self, problem: Problem, labels: RowLabels) -> ConjugateState:
        state = super().start(problem, labels)
        state.due[:] = True
        return state

    def begin_pass(self, problem: Problem, state: ConjugateState, active: np.ndarray) -> None:
        super().begin_pass(problem, state, active)
        state.work, state.newton.made, state.dear = 0.0, 0, False

    def visit(self, problem: Problem, state: ConjugateState, active: np.ndarray) -> Visit:
        return super().visit(problem, state, active)._replace(prepare=self.move)

    def move(self, problem: Problem, state: ConjugateState, active: np.ndarray, block: Block) -> Share:
        """One unit of the steps."""
        due = active[state.due[active]]
        if not due.size:
            return None
        if state.steps is None:
            state.steps = self._steps(problem, state, int(due[0]), self._rows(problem, state, block))
        if truncated.over(state.steps):
            state.due[due[0]], state.newton.begun, state.steps = False, False, None
        return 1.0 - due.size / active.size

    @staticmethod
    def _rows(problem: Problem, state: ConjugateState, block: Block) -> Block:
        """All rows, as they are visited."""
        if not problem.in_arrays:
            return block
        if state.wide is None:
            state.wide = in_float64(block)
        return state.wide

    def _steps(self, problem: Problem, state: ConjugateState, k: int, block: Block) -> Iterator[float]:
        """The steps of group k, on all rows."""
        newton, labels = state.newton, labels_of(problem, state)
        parts = list(Part(block, labels, 0, block.rows()).pieces(problem))
        held = Held(parts, labels, state.scores, state.bends, state.along)
        if not newton.begun:
            newton.begun, newton.group, newton.turn, newton.made = True, k, SCORES, 0
        if newton.turn == SCORES:
            w, state.scores[:] = problem.view(state.w, k), 0.0
            if w.any():
                yield from held.score(problem, w, held.scores)
                self._count(problem, state, 1.0)
            self._balance(problem, state, block)
            newton.turn = BEGINS
        while newton.turn != BEGINS or (yield from self._begin_step(problem, state, held)):
            yield from truncated.advance(problem, newton, held)
            self._count(problem, state, VISIT)
            if newton.turn != ADVANCES:
                self._end_step(problem, state, held)
                self._balance(problem, state, block)

    @staticmethod
    def _count(problem: Problem, state: ConjugateState, visits: float) -> None:
        """Count so many multiplications of each value by each line."""
        work = visits * problem.values * problem.lines
        state.multiplications += work
        state.work += work

    def _begin_step(self, problem: Problem, state: ConjugateState, held: Held) -> Generator[float, None, bool]:
        """Find the gradient, and begin conjugate gradients; returns whether a step is needed."""
        newton = state.newton
        w = problem.view(state.w, newton.group)
        losses, image = yield from held.pull(problem, newton.group)
        self._count(problem, state, 1.0)
        newton.gradient[:] = ridge(problem, w) - image
        square = float(np.vdot(newton.gradient, newton.gradient))
        height = losses + 0.5 * float(np.vdot(w, ridge(problem, w)))
        goal = LIKELY * problem.tol * abs(height)
        if not 0.0 < square < math.inf or newton.made >= MOST_STEPS:
            return False
        if newton.made > 0 and (state.work > WORK or state.dear or 0.5 * square <= goal):
            return False
        loose = min(LOOSE, math.sqrt(0.5 * square / max(abs(height), 0.5 * square)))
        newton.enough, newton.reached = loose * math.sqrt(square), AIM * math.sqrt(2.0 * goal)
        self._count(problem, state, truncated.precondition(problem, newton, held))
        truncated.begin(newton, held)
        return True

    @staticmethod
    def _balance(problem: Problem, state: ConjugateState, block: Block) -> None:
        """Set constants that are not penalised to the best ones beside the other weights: their duals add up to 0.

        Newton's method, with line searches. Duals that do not add up to 0 would prove less.
        """
        newton, lines = state.newton, problem.lines
        if not problem.free or not block.bias:
            return
        labels, judge, k, left = labels_of(problem, state), judge_of(problem.loss), newton.group * lines, math.inf
        for _ in range(BALANCES):
            pull, bend = np.zeros(lines), np.zeros((lines, lines))
            size = kernel.add_constants(labels, judge, k, state.scores, pull, bend)
            off = float(np.abs(pull).sum())
            if off <= BALANCED * size or not off < left:
                break
            step, left = np.linalg.lstsq(bend, pull, rcond=None)[0], off
            if not step @ pull > 0.0:  # no row bends
                step = pull / size
            along = np.repeat(step[None], len(state.scores), axis=0)
            t = kernel.lowest_along(labels, judge, k, state.scores, along, 0.0, 0.0, -float(step @ pull))
            state.scores += t * step
            problem.view(state.w, newton.group)[:, -1] += t * step / block.bias

    @staticmethod
    def _end_step(problem: Problem, state: ConjugateState, held: Held) -> None:
        """Move the weights along the step, to the minimum there."""
        newton, w = state.newton, problem.view(state.w, state.newton.group)
        state.dear = newton.products * product(problem) > DEAR * hessian(problem)
        if not truncated.finish(problem, newton, held, w, float(np.vdot(ridge(problem, w), newton.step))) > 0.0:
            newton.made = MOST_STEPS  # the next gradient decides

    def run_block(self, problem: Problem, state: ConjugateState, active: np.ndarray, block: Block, first: int) -> None:
        """Add the sums of these rows at the current weights."""
        self.look(
            problem, state, labels_of(problem, state), active, self._rows(problem, state, block), numbered_from(first)
        )

    def end_pass(self, problem: Problem, state: ConjugateState, active: np.ndarray) -> PassReport:
        if state.look.rows == problem.rows:
            self.prove(problem, state, active)
        report = self.report(problem, state)
        if state.look.rows == problem.rows:
            state.due[active] = report.estimate[active] > problem.tol
        return report
