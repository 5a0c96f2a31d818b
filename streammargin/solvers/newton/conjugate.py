"""Newton steps by conjugate gradients on all rows in memory (truncated.py), for smooth losses under the ridge.

Each pass makes steps until a certificate is likely to prove the tolerance, and ends with a visit of all rows that
certifies the weights.
"""

from __future__ import annotations

import numpy as np

from streammargin.compiled import products as kernel
from streammargin.compiled.judged import judge_of
from streammargin.rows.blocks import Block, part
from streammargin.rows.labels import RowLabels, numbered_from
from streammargin.rows.products import in_float64
from streammargin.solvers.base import VISIT, PassReport, Share, matrix_work
from streammargin.solvers.newton.held import Held, HeldPart, ridge
from streammargin.solvers.newton.truncated import ASSUMED_PRODUCTS, ByProducts, Truncated, factored, supports
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.sums import LINES
from streammargin.solvers.roles import Axis, N, Rows, Scratch, f8, of, state
from streammargin.solvers.state import labels_of
from streammargin.solvers.visits import Visit

BALANCES, BALANCED = 40, 1e-14  # most tries to balance a constant, and what may be left of the duals' sum
BY_NUMPY = 0.1  # cost of a product by NumPy, beside a Hessian by compiled loops, in multiplications
PRODUCTS_TO_TOLERANCE = 60  # products of the one step of a quadratic objective, which goes to the tolerance
DEAR = 2  # times what a Hessian costs: the products of a step that are worth it no more
MOST_CONJUGATE_WORK = 1e11  # most multiplications between two certificates, some seconds


def suits(problem: Problem) -> bool:
    """Whether steps by products support this problem, and cost less than those with a Hessian."""
    products = PRODUCTS_TO_TOLERANCE if problem.quadratic and problem.count == 1 else ASSUMED_PRODUCTS
    work = products * product(problem) * (BY_NUMPY if problem.in_arrays else 1.0)
    return problem.resident and supports(problem) and hessian(problem) > work


def product(problem: Problem) -> float:
    """Multiplications of a product."""
    return float(VISIT * problem.lines * problem.values)


def hessian(problem: Problem) -> float:
    """Multiplications of a step with a Hessian."""
    lines = problem.lines
    return matrix_work(lines * (problem.features + 1), problem.rows, lines * problem.values / problem.rows)


def dear(problem: Problem, state: ConjugateState) -> bool:
    """Whether the products of the last step cost more than a Hessian."""
    return state.newton.products * product(problem) > DEAR * hessian(problem)


CURVATURES = Axis(lambda problem: 2 * problem.lines if problem.all_scores else 1, name="1 or 2 lines")


@state
class ConjugateState(ByProducts):
    """scores (n, lines), curvatures, along: of all rows, at the weights and along the step (compiled/products.py).

    due: before the certificate. wide: the rows in float64, if NumPy makes the steps.
    """

    scores: Rows[f8] = of(N, LINES)
    curvatures: Rows[f8] = of(N, CURVATURES)
    along: Rows[f8] = of(N, LINES)
    wide: Scratch[Block | None] = None


class Conjugate(Truncated[ConjugateState]):
    """Newton steps on all rows in memory, without a Hessian."""

    name = "newton's products"
    loose = 0.25

    def reserved_bytes(self, problem: Problem) -> int:
        width = problem.features + 1
        turned = 3 * width * width if factored(problem) else 0  # while eigenvectors are found
        wide = 8 * problem.values if problem.in_arrays else 0
        return wide + 8 * (problem.lines * (problem.rows + 6 * width) + turned)  # vectors of a product

    def start(self, problem: Problem, labels: RowLabels) -> ConjugateState:
        state = super().start(problem, labels)
        state.due[:] = True
        return state

    def visit(self, problem: Problem, state: ConjugateState, active: np.ndarray) -> Visit:
        return super().visit(problem, state, active)._replace(prepare=self.move)

    def move(self, problem: Problem, state: ConjugateState, active: np.ndarray, block: Block) -> Share:
        """One unit of the steps."""
        due = active[state.due[active]]
        if not due.size:
            return None
        if problem.in_arrays and state.wide is None:
            state.wide = in_float64(block)
        labels, rows = labels_of(problem, state), self._rows(problem, state, block, 0)
        parts = list(HeldPart(rows, labels, 0, block.rows()).pieces(problem))
        self.unit(problem, state, int(due[0]), Held(parts, labels, state.scores, state.curvatures, state.along))
        return 1.0 - due.size / active.size

    @staticmethod
    def _rows(problem: Problem, state: ConjugateState, block: Block, first: int) -> Block:
        """The rows of a block, of which the first has the number `first`, as they are visited."""
        if not problem.in_arrays:
            return block
        return in_float64(block) if state.wide is None else part(state.wide, first, first + block.rows())

    def rest(self, problem: Problem, state: ConjugateState, pull: np.ndarray) -> np.ndarray:
        return ridge(problem, problem.view(state.w, state.newton.group))

    def ends(self, problem: Problem, state: ConjugateState) -> bool:
        return state.work > MOST_CONJUGATE_WORK or dear(problem, state)

    def balance(self, problem: Problem, state: ConjugateState, held: Held) -> None:
        """Set constants that are not penalised to the best ones beside the other weights: their duals add up to 0.

        Newton's method, with line searches. Duals that do not add up to 0 would prove less.
        """
        newton, lines = state.newton, problem.lines
        if not problem.free or not problem.column:
            return
        labels, judge, k, left = held.labels, judge_of(problem.loss), newton.group * lines, np.inf
        for _ in range(BALANCES):
            pull, H = np.zeros(lines), np.zeros((lines, lines))
            size = kernel.add_constants(labels, judge, k, state.scores, pull, H)
            off = float(np.abs(pull).sum())
            if off <= BALANCED * size or not off < left:
                break
            step, left = np.linalg.lstsq(H, pull, rcond=None)[0], off
            if not step @ pull > 0.0:  # no row has a second derivative
                step = pull / size
            along = np.repeat(step[None], len(state.scores), axis=0)
            t = kernel.lowest_along(labels, judge, k, state.scores, along, 0.0, 0.0, -float(step @ pull))
            state.scores += t * step
            problem.view(state.w, newton.group)[:, -1] += t * step / problem.column

    def run_block(self, problem: Problem, state: ConjugateState, active: np.ndarray, block: Block, first: int) -> None:
        """Add the sums of these rows at the current weights."""
        rows = self._rows(problem, state, block, first)
        self.add_sums(problem, state, labels_of(problem, state), active, rows, numbered_from(first))

    def end_pass(self, problem: Problem, state: ConjugateState, active: np.ndarray) -> PassReport:
        if state.sums.rows == problem.rows:
            self.prove(problem, state, active)
        report = self.report(problem, state)
        if state.sums.rows == problem.rows:
            state.due[active] = report.estimate[active] > problem.tol
        return report
