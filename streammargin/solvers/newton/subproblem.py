"""Newton's method on one problem with rows in memory: Newton directions with exact line searches.

If a matrix costs much more than a product with the rows, conjugate gradients find the direction, while that pays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from streammargin.compiled import newton as kernel
from streammargin.compiled.look import Prox
from streammargin.compiled.products import add_diagonal
from streammargin.losses.base import middle_share
from streammargin.rows.blocks import Block, stored
from streammargin.rows.labels import Labels, RowNumbers
from streammargin.solvers import leaves
from streammargin.solvers.base import UNIT, matrix_work
from streammargin.solvers.columns.gradients import conjugate_gradients, direction
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import Shared, Total, f8, of, state
from streammargin.solvers.softness import may_soften, next_softness

MOST_STEPS = 80  # most steps; more would mean that rounding prevents convergence
DEAR = 20  # products with the rows that a matrix costs at least, if they are to find a direction
MOST_GRADIENT_PRODUCTS = 24  # then a matrix takes over, unless they left less of the gradient than LEFT
LOOSE, LEFT = 0.1, 0.3  # shares of the gradient
SLOWER = 2.0  # times as long as one of a matrix takes a multiplication of a product
LINE_SEARCH = 10  # rough multiplications per row of a line search
Parts = Sequence[tuple[RowNumbers, Block]]  # row numbers within the problem, and the rows


@state
class Proximal:
    """A proximal step on one problem.

    centres (m,), and softness relative to the caps. dual: the dual objective at the centres. steps: Newton steps made
    in it.

    made: Newton steps of all proximal steps so far, 0 if no problem is unfinished; multiplications: of its units.
    spared: multiplications that products with the rows have spared it so far.
    """

    centres: Shared[f8] = of(0, grows=True)
    softness: float = 0.0
    dual: float = -math.inf
    steps: int = 0
    made: int = 0
    spared: float = 0.0
    multiplications: Total = 0.0

    def harder(self, softness: float, dual: float) -> None:
        self.softness, self.dual, self.steps = softness, dual, 0

    def is_under_way(self, rows: int) -> bool:
        """Whether a problem of this many rows is unfinished."""
        return self.made > 0 and self.centres.size == rows


def step_work(values: int, width: int) -> float:
    """Multiplications of a Newton step of one problem with this many values: the Hessian and its factorisation."""
    return width**3 / 3 + values * (20 + width / 4)


def soft_step(problem: Problem, softness: np.ndarray, centres: np.ndarray | None = None, **given: Any) -> Prox:
    """A proximal step with this softness (K,) from the centres, or else the midpoints of the feasible intervals."""
    none = np.zeros((problem.count, 0))
    given = {"midway": middle_share(problem.loss), "gaps": True, "alpha": none, **given}
    return Prox(none if centres is None else centres, curvatures=np.zeros(softness.size), softness=softness, **given)


class Rows:
    """m rows in memory in one problem: margins, duals a, curvatures, and their sums."""

    def __init__(self, problem: Problem, parts: Parts, labels: Labels, proximal: Proximal, w: np.ndarray) -> None:
        self.problem, self.parts, self.labels, self.proximal = problem, parts, labels, proximal
        width = w.size
        self.count, self.values = labels.rows(), sum(stored(block) for _, block in parts)
        self.margins, self.products, self.caps, self.a, self.curvatures = (np.zeros(self.count) for _ in range(5))
        self.pull, self.H, self.totals = np.zeros(width), np.zeros((width, width)), np.zeros(kernel.SUMS)
        self._multiply(w, self.margins)
        kernel.row_caps(self.labels, self.margins, self.caps)
        proximal.multiplications += self.values

    def _over(self, visit: Callable[[Block, RowNumbers, np.ndarray], None], total: np.ndarray) -> None:
        """visit(rows, numbers, sums) of all parts."""
        leaves.summed(self.problem, self.parts, lambda part, own: visit(part[1], part[0], own), total)

    def _multiply(self, direction: np.ndarray, products: np.ndarray) -> None:
        """Set products (m,) to a_i.direction."""

        def visit(block: Block, numbers: RowNumbers, none: np.ndarray) -> None:
            kernel.signed_products(block, numbers, self.labels, 0, direction, products)

        self._over(visit, np.empty(0))

    def attain(self) -> None:
        """Compute the duals and A^T a at these margins."""

        def of_rows(block: Block, numbers: RowNumbers, own: np.ndarray) -> None:
            at = slice(numbers.first, numbers.first + block.rows())
            a, change, centres = self.a[at], self.products[at], self.proximal.centres[at]
            np.negative(a, out=change)
            sums = np.zeros(kernel.SUMS)
            softness, loss = self.proximal.softness, self.problem.loss
            kernel.attain(
                kernel.proximal_steps.of(loss),
                softness,
                self.caps[at],
                centres,
                self.margins[at],
                a,
                self.curvatures[at],
                sums,
            )
            change += a
            own += np.concatenate([sums, [np.count_nonzero(change), np.count_nonzero(a)]])

        found = np.zeros(kernel.SUMS + 2)
        self._over(of_rows, found)
        self.totals[:], counts = found[:-2], found[-2:]  # duals that changed, and that are not 0
        change = self.products
        if counts[0] >= counts[1]:
            # a new sum costs no more, and avoids rounding from earlier, larger duals
            self.pull[:], change = 0.0, self.a
        self._over(lambda block, numbers, own: kernel.add_image(block, numbers, self.labels, 0, change, own), self.pull)
        self.proximal.multiplications += self.values * (counts[1] if change is self.a else counts[0]) / self.count

    def _matrix_work(self) -> float:
        """Multiplications of the Hessian and of its factor."""
        return matrix_work(self.pull.size, self.totals[kernel.ACTIVE], self.values / self.count)

    def _by_matrix(self, gradient: np.ndarray) -> np.ndarray:
        """The Newton direction, by the Hessian."""
        self.H[:] = 0.0
        self._over(lambda block, numbers, own: kernel.add_matrix(block, numbers, self.curvatures, own), self.H)
        self.proximal.multiplications += self._matrix_work()
        return direction(self.H, gradient)

    def _by_products(self, gradient: np.ndarray) -> np.ndarray | None:
        """The Newton direction by conjugate gradients; None if it takes many products.

        The diagonal of the Hessian preconditions them.
        """
        diagonal, curvatures = np.ones((1, gradient.size)), self.curvatures[:, None]
        for numbers, block in self.parts:
            at = slice(numbers.first, numbers.first + block.rows())
            add_diagonal(block, curvatures[at], 1, diagonal)

        def product(v: np.ndarray) -> np.ndarray:
            self._multiply(v, self.products)
            self.proximal.multiplications += 2.0 * self.values
            self.products *= self.curvatures
            bent = v.copy()
            self._over(
                lambda block, numbers, own: kernel.add_image(block, numbers, self.labels, 0, self.products, own), bent
            )
            return bent

        found, left = conjugate_gradients(product, -gradient, 1.0 / diagonal[0], LOOSE, MOST_GRADIENT_PRODUCTS)
        return found if left <= LEFT and found @ gradient < 0.0 else None

    def step(self, w: np.ndarray, offset: np.ndarray, gradient: np.ndarray) -> float:
        """One Newton step with an exact line search; updates w (d+1,) and margins. Returns the predicted decrease."""
        proximal, products, loss = self.proximal, self.products, self.problem.loss
        p, work = None, self._matrix_work()
        if work > DEAR * 2.0 * self.values and proximal.spared >= 0.0:
            before = proximal.multiplications
            p = self._by_products(gradient)
            proximal.spared += (0.0 if p is None else work) - SLOWER * (proximal.multiplications - before)
        if p is None:
            p = self._by_matrix(gradient)
        self._multiply(p, products)
        slope = float(gradient @ p)
        t = kernel.lowest(
            kernel.slope_along.of(loss), proximal.softness, self.caps, proximal.centres, self.margins, products,
            float((w - offset) @ p), float(p @ p), slope,
        )  # fmt: skip
        proximal.multiplications += self.values + LINE_SEARCH * self.count
        w += t * p
        self.margins += t * products
        proximal.made += 1
        proximal.steps += 1
        return -0.5 * slope


class Standing(NamedTuple):
    """Where weights stand: gradient (d+1,), dual objective, and the gap in two parts.

    inner: of the losses, from their softness; outer: of w and A^T a, from the distance to the minimum. goal: of both.
    """

    gradient: np.ndarray
    dual: float
    inner: float
    outer: float
    goal: float


class Goal(NamedTuple):
    """When a problem is solved: once the gap is below max(gap, share * |primal|), or after `most` steps.

    Without `to_prove` it is so too once a step without softness is predicted to gain less, and the centres become its
    duals. With it only the gap counts, and the centres stay.
    """

    gap: float = 0.0
    share: float = 0.0
    most: int = MOST_STEPS
    to_prove: bool = False


def standing(rows: Rows, w: np.ndarray, offset: np.ndarray, goal: Goal) -> Standing:
    """Where w stands, with the duals of these rows."""
    totals, theta = rows.totals, offset + rows.pull
    gradient = w - theta
    primal = totals[kernel.PRIMAL] + 0.5 * float(w @ w) - float(offset @ w)
    return Standing(
        gradient, float(totals[kernel.DUAL]) - 0.5 * float(theta @ theta), float(totals[kernel.ATTAINED_GAPS]),
        0.5 * float(gradient @ gradient), max(goal.gap, goal.share * abs(primal)),
    )  # fmt: skip


def solve(
    problem: Problem, parts: Parts, labels: Labels, proximal: Proximal, w: np.ndarray, offset: np.ndarray, goal: Goal
) -> bool:
    """Minimise 1/2 ||w||^2 - offset.w + the losses of rows in memory by semismooth Newton steps; one unit of them.

    Returns whether it is done, after one step at least. If not, the next call continues. `labels`: of these m rows and
    one problem. `w` (d+1,) and the proximal step with its centres (m,) are updated in place.
    """
    rows = Rows(problem, parts, labels, proximal, w)
    last = proximal.made + max(1, int(UNIT / step_work(rows.values, w.size)))  # step of this unit
    while True:
        rows.attain()
        now = standing(rows, w, offset, goal)
        done = proximal.made > 0 and now.inner + now.outer <= now.goal
        if proximal.made >= goal.most or (done and goal.to_prove):
            return True
        soft = proximal.softness > 0.0 and proximal.steps > 0
        if done or (soft and may_soften(now.outer, now.inner) and now.dual >= proximal.dual):
            # the proximal step is done: w is near A^T a, and the dual objective no lower than at the centres
            proximal.centres[:] = rows.a[: proximal.centres.size]
            proximal.harder(next_softness(proximal.softness, proximal.steps), now.dual)
            if done:
                return True
        elif proximal.made == last:
            return False
        else:
            gain = rows.step(w, offset, now.gradient)
            if not goal.to_prove and proximal.softness == 0.0 and gain <= now.goal:
                return True
