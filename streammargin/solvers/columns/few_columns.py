"""The minimum over a few columns of all rows, in memory, under a smooth loss of all scores and a sum over columns.

Proximal Newton steps (Lee, Sun and Saunders 2014, SIAM J. Optim. 24). No Hessian is summed up: products of it and a
vector minimise the model of a step, by proximal gradients with momentum (Beck and Teboulle 2009, SIAM J. Imaging Sci.
2; restarts: O'Donoghue and Candes 2015, Found. Comput. Math. 15).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from streammargin.arrays import products
from streammargin.arrays.threads import one_thread
from streammargin.compiled import products as by_loops
from streammargin.compiled.judged import judge_of
from streammargin.losses.base import has, smooth
from streammargin.rows.blocks import Block, CSRBlock, DenseBlock
from streammargin.rows.labels import Labels
from streammargin.rows.products import add_pulls
from streammargin.solvers import leaves
from streammargin.solvers.base import UNIT
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.rounding import OF_OBJECTIVE

PIECE = 256  # rows of a product
VALUES = 1 << 14  # of sparse rows that are copied at once
COPIED = 48  # bytes of such a value: whether it is of the columns, and places, row, column and value of those that are
VECTORS = 5  # numbers of a row and line: scores, those along a step, new ones, second derivatives
AIM = 0.3  # of tol: the gap of these columns alone at which steps end
STEPS = 12  # most steps
WORK = 1e11  # multiplications after one read, beyond which no call follows
VISITS = 32  # of all rows by a call that ends early, if they are more work than a unit: some ten products
PRODUCTS = 200  # most products of a step
INEXACT, REACHED = 0.1, 0.2  # what a step leaves of its first violation; or this part of the goal, if that is more
LONGER, SHORTER = 2.0, 0.7  # `bound` grows by this factor if it was too small, and falls at each step
SHARES = 20  # most halvings of a step
LEAST = 1e-10  # least second derivative of a weight, relative to the largest
SMALL = 1e-6  # relative size of a step whose length shows a violation


def supports(problem: Problem) -> bool:
    """Whether the loss is smooth and takes arrays, and the penalty is a sum over columns that leaves some out."""
    if not problem.all_scores or problem.hard or problem.outputs.tasks or problem.numeric:
        return False
    if not (smooth(problem.loss) and has(problem.loss, "takes_arrays")) or problem.penalty.nbytes:
        return False
    width = 3  # without vectors the penalty of any columns is alike
    found = problem.objective.pieces((problem.lines, width))
    if found is None:
        return False
    order, pieces = found
    columns, starts, sizes = order % width, pieces.starts[:-1], np.diff(pieces.starts)
    first, limits = columns[starts], pieces.thresholds + pieces.cuts
    penalised = first < width - problem.free
    return bool((columns == np.repeat(first, sizes)).all() and (limits[penalised] > 0.0).all())


def bytes_beside(problem: Problem) -> int:
    """Bytes of the numbers of rows during a step, and of a copy of sparse values, beside the columns."""
    pieces = 16 * problem.lines * PIECE * _at_once(problem)
    return 8 * ((VECTORS * problem.lines + problem.count) * problem.rows + pieces) + COPIED * VALUES


def bytes_of_column(problem: Problem) -> int:
    """Bytes of the values of a column, and in float64 of its values in the pieces of a product, and of their sums."""
    return problem.rows * problem.dtype.itemsize + 8 * (PIECE + problem.lines) * _at_once(problem)


def _at_once(problem: Problem) -> int:
    """The most pieces of rows that threads visit at once, however many threads there are."""
    return max(1, min(problem.copies, -(-problem.rows // PIECE)))


def most_work(problem: Problem, X: np.ndarray) -> float:
    """Multiplications for these columns (n, m) after one read, after which no other call follows."""
    return max(WORK, 2.0 * PRODUCTS * problem.lines * X.size)


def wanted(problem: Problem, image: np.ndarray, w: np.ndarray, near: float) -> np.ndarray:
    """Which columns (d,) have weights w (lines, d+1), or leave 0 if image, A^T alpha, is divided by `near`."""
    moved = problem.objective.prox(image / near, np.ones(image.shape))
    used: np.ndarray = ((moved != 0.0) | (w != 0.0)).any(axis=0)
    return used[:-1]


def violations(problem: Problem, image: np.ndarray, w: np.ndarray) -> np.ndarray:
    """How far each column (d,) is from optimality, given image, A^T alpha, and weights w (lines, d+1)."""
    largest = float(np.abs(w).max())
    step = SMALL * largest / float(np.abs(image).max(initial=1e-300)) if largest > 0.0 else 1.0
    moved = problem.objective.prox(w + step * image, np.full(w.shape, step)) - w
    found: np.ndarray = np.sqrt((moved[:, :-1] ** 2).sum(axis=0)) / step
    return found


def other_scores(block: Block, w: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """The scores (m, lines) of all rows of the block by the weights of all columns but the chosen ones."""
    found, left = np.zeros((block.rows(), len(w))), np.where(np.append(chosen, True), 0.0, w)
    if left.any():
        by_loops.add_scores(block, np.ascontiguousarray(left.T) if isinstance(block, CSRBlock) else left, found)
    return found


def copy_columns(block: Block, chosen: np.ndarray, out: np.ndarray) -> None:
    """Set out (m, columns), of zeros, to these columns (d,) bool of all rows of the block, a piece at a time."""
    if isinstance(block, DenseBlock):
        for low in range(0, block.rows(), PIECE):
            out[low : low + PIECE] = block.X[low : low + PIECE, chosen]
        return
    assert isinstance(block, CSRBlock)
    place, indptr = np.cumsum(chosen) - 1, block.indptr
    for low in range(int(indptr[0]), int(indptr[-1]), VALUES):
        here = slice(low, min(low + VALUES, int(indptr[-1])))
        at = low + np.flatnonzero(chosen[block.indices[here]])
        out[np.searchsorted(indptr, at, side="right") - 1, place[block.indices[at]]] = block.data[at]


class Part(NamedTuple):
    """Some rows, what the labels tell of them, and their numbers."""

    rows: DenseBlock
    told: Labels
    at: slice


class Few:
    """The columns X (n, m) of group k; weights are (lines, m + 1).

    curved: second derivatives at the last gradient; bound: how far the Hessian exceeds its diagonal; work: so far.

    Under free constants columns count as their distances from their means; the constants alone change. Else columns
    that are alike in all rows would bend the model far more along their sum.
    """

    def __init__(self, problem: Problem, labels: Labels, k: int, X: np.ndarray) -> None:
        self.problem, self.first, self.work, self.bound = problem, k * problem.lines, 0.0, 1.0
        self.judge, self.visit = judge_of(problem.loss), float(problem.lines * X.size)
        self.shape = problem.lines, X.shape[1] + 1
        self.curved = np.empty((len(X), 2 * problem.lines))
        centred = problem.free and problem.column > 0.0
        self.means = X.mean(axis=0, dtype=np.float64) / problem.column if centred else np.zeros(X.shape[1])
        self.parts = [
            Part(
                DenseBlock(X[low : low + PIECE], problem.column), labels._replace(first=labels.first - low),
                slice(low, min(low + PIECE, len(X))),
            )
            for low in range(0, len(X), PIECE)
        ]  # fmt: skip

    def _over(self, visits: int, visit: Callable[[Part, np.ndarray], float | None]) -> tuple[float, np.ndarray]:
        """Call visit(part, sums) for all rows; returns the sum of the results and the sums (lines, m + 1)."""
        self.work += visits * self.visit
        sums = np.zeros(self.shape)
        return leaves.summed(self.problem, self.parts, visit, sums), sums

    def spent(self) -> bool:
        """Whether the call has made the work of a unit."""
        return self.work >= max(UNIT, VISITS * self.visit)

    def plain(self, w: np.ndarray) -> np.ndarray:
        """The weights of columns as they are, from those of their distances."""
        return np.append(w[:, :-1], w[:, -1:] - (w[:, :-1] @ self.means)[:, None], axis=1)

    def distances(self, w: np.ndarray) -> np.ndarray:
        """The other way round."""
        return np.append(w[:, :-1], w[:, -1:] + (w[:, :-1] @ self.means)[:, None], axis=1)

    def _centred(self, image: np.ndarray) -> np.ndarray:
        """Sums over the rows of their distances, from sums (lines, m + 1) over the rows; changes them."""
        image[:, :-1] -= image[:, -1:] * self.means
        return image

    def scores(self, w: np.ndarray) -> np.ndarray:
        """Those of all rows, (n, lines)."""
        found, w = np.empty((len(self.curved), self.shape[0])), self.plain(w)
        self._over(1, lambda part, _: products.add_scores(part.rows, w, found[part.at]))
        return found

    def gradient(self, scores: np.ndarray) -> tuple[float, np.ndarray]:
        """(The sum of the losses, what their duals pull); sets the second derivatives."""
        losses, image = self._over(
            1,
            lambda part, sums: products.add_gradient(
                part.rows, part.told, self.judge, self.first, scores[part.at], self.curved[part.at], sums
            ),
        )
        return losses, self._centred(image)

    def bent(self, v: np.ndarray) -> np.ndarray:
        """The product of the Hessian and v."""
        v = self.plain(v)

        def visit(part: Part, sums: np.ndarray) -> None:
            scores = np.empty((part.rows.rows(), self.shape[0]))
            products.add_curved(part.rows, self.curved[part.at], v, scores, sums)

        return self._centred(self._over(2, visit)[1])

    def diagonal(self) -> np.ndarray:
        """The Hessian's."""
        means = self.means * self.problem.column

        def visit(part: Part, sums: np.ndarray) -> None:
            squares, (straight, crossed) = part.rows.X - means, np.hsplit(self.curved[part.at], 2)
            rows = part.rows._replace(X=np.square(squares, out=squares), bias=part.rows.bias**2)
            add_pulls(rows, np.maximum(straight - crossed**2, 0.0).T, sums)

        return self._over(1, visit)[1]

    def model(self, w: np.ndarray, image: np.ndarray, part: float) -> np.ndarray:
        """The step from w to the minimum of the quadratic model plus R, nearly.

        image: what the duals pull; part: what may be left of a column of it, relative to the largest.
        """
        objective, diagonal = self.problem.objective, self.diagonal()
        longest = objective.even(1.0 / np.maximum(diagonal, LEAST * float(diagonal.max()) + 1e-300))
        step, bent = np.zeros(self.shape), np.zeros(self.shape)
        ahead, bent_ahead, momentum, enough = step, bent, 1.0, 0.0
        goal = part * float(np.sqrt((objective.penalised(image) ** 2).sum(axis=0)).max(initial=0.0))
        self.bound = max(1.0, SHORTER * self.bound)
        for _ in range(PRODUCTS):
            if self.spent():
                break
            steps = longest / self.bound
            new = objective.prox(w + ahead + steps * (image - bent_ahead), steps) - w
            moved, bent_new = new - ahead, self.bent(new)
            if float(np.vdot(moved, bent_new - bent_ahead)) > float(np.sum(moved**2 / steps)):
                self.bound *= LONGER
                continue
            left = float(np.sqrt(((moved / steps) ** 2).sum(axis=0)).max())
            enough = enough or max(goal, INEXACT * left)
            back = float(np.vdot(moved, new - step)) < 0.0
            before, momentum = (1.0, 1.0) if back else (momentum, 0.5 + (0.25 + momentum**2) ** 0.5)
            share = (before - 1.0) / momentum
            ahead, bent_ahead = new + share * (new - step), bent_new + share * (bent_new - bent)
            step, bent = new, bent_new
            if left <= enough:
                break
        return step


class Better(NamedTuple):
    """Weights (lines, m + 1), multiplications that they took, the last `Few.bound`; ended: they need no more work."""

    w: np.ndarray
    work: float
    bound: float
    ended: bool


def minimise(
    problem: Problem, labels: Labels, k: int, X: np.ndarray, w: np.ndarray, others: np.ndarray, bound: float
) -> Better:
    """Weights of group k near the minimum over these columns; those so far after the work of a unit.

    X (n, m), the columns of all rows; w: where steps begin; others (n, lines), or (n, 0) for 0: what other weights add
    to the scores; bound: that of the last call, or 1.
    """
    few, objective, ended = Few(problem, labels, k, X), problem.objective, True
    few.bound = bound
    with one_thread(True):
        w = few.distances(w)
        scores = few.scores(w)
        if others.size:
            scores += others
        losses, image = few.gradient(scores)
        for _ in range(STEPS):
            before = losses + objective.regulariser(w)
            p = few.model(w, image, REACHED * AIM * problem.tol)
            along, share = few.scores(p), 1.0
            for _ in range(SHARES):
                losses, image = few.gradient(scores + share * along)
                reached = losses + objective.regulariser(w + share * p)
                if reached <= before + OF_OBJECTIVE * abs(before):
                    break
                share *= 0.5
            else:
                ended = True
                break
            w, scores = w + share * p, scores + share * along
            gain = losses + float(np.vdot(w, image))  # of the duals, which are the best for the scores
            least = objective.penalty.bound(gain, objective.penalised(image), 0.0, 0.0)
            ended = reached - least <= AIM * problem.tol * abs(reached)
            if ended or few.spent():
                break
        else:
            ended = True
        return Better(few.plain(w), few.work, few.bound, ended)
