"""The minimum over a few columns of all rows, in memory, under a smooth loss of all scores and a sum over columns.

Proximal Newton steps (Lee, Sun and Saunders 2014, SIAM J. Optim. 24). No Hessian is summed up. Its products with
vectors minimise the model of a step, by proximal gradients with momentum. Sources: Beck and Teboulle 2009, SIAM J.
Imaging Sci. 2; for restarts O'Donoghue and Candes 2015, Found. Comput. Math. 15.

A row and line keep their second derivatives alone, in float32, on which only the model depends. Scores are found again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import NamedTuple

import numpy as np

from streammargin.arrays import products
from streammargin.compiled import products as by_loops
from streammargin.compiled.judged import judge_of
from streammargin.losses.base import has, smooth
from streammargin.rows.blocks import Block, CSRBlock, part, stored, values_of
from streammargin.rows.labels import Labels
from streammargin.solvers import leaves
from streammargin.solvers.base import UNIT
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.rounding import OF_OBJECTIVE
from streammargin.solvers.proof.sums import LINES
from streammargin.solvers.roles import Kept, f8, of, state

PRODUCT_ROWS = 256
SPARSE = 2  # times as many sparse rows: they have fewer values
NUMBERS_PER_LINE = 5  # of a row and line while a piece is visited
VISITED = 50  # multiplications that take as long as a visit of a row and line beside its values
VECTORS = 16  # arrays of the weights during a step
BENDS = 2  # second derivatives of a row and line: straight and crossed
AIM = 0.3  # of tol: the gap of these columns alone at which steps end
MOST_STEP_PRODUCTS = 200  # and no step follows so many
INEXACT = 0.1  # what a step leaves of its first violation, or of the goal, if that is more
LONGER, SHORTER = 2.0, 0.7  # `bound` grows by this factor if it was too small, and falls at each step
MOST_HALVINGS = 20  # of a step
LEAST_SECOND_DERIVATIVE = 1e-10  # of a weight, relative to the largest
TRIAL_STEP_SIZE = 1e-6  # relative size of a step whose length shows a violation


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
    """Bytes of the second derivatives of all rows and of the numbers of the pieces of a product, or of other weights.

    Steps need the former; before them the scores by other columns need two copies of the weights, and a piece.
    """
    pieces = 8 * NUMBERS_PER_LINE * problem.lines * _piece(problem) * _at_once(problem)
    weights = 2 * 8 * problem.lines * (problem.features + 1)
    return max(4 * BENDS * problem.lines * problem.rows, weights) + pieces


def bytes_beside_column(problem: Problem) -> int:
    """Bytes for a column beside its values: its weights, sums of each piece, and its dense values there in float64."""
    piece = 2 * problem.lines if problem.sparse else problem.lines + PRODUCT_ROWS
    return 8 * (VECTORS * problem.lines + piece * _at_once(problem))


def _piece(problem: Problem) -> int:
    return PRODUCT_ROWS * (SPARSE if problem.sparse else 1)


def _at_once(problem: Problem) -> int:
    """The most pieces of rows that threads visit at once, however many threads there are."""
    return max(1, min(problem.copies, -(-problem.rows // _piece(problem))))


def wanted(problem: Problem, image: np.ndarray, w: np.ndarray, near: float) -> np.ndarray:
    """Which columns (d,) have weights w (lines, d+1), or leave 0 if image, A^T alpha, is divided by `near`."""
    moved = problem.objective.prox(image / near, np.ones(image.shape))
    used: np.ndarray = ((moved != 0.0) | (w != 0.0)).any(axis=0)
    return used[:-1]


def violations(problem: Problem, image: np.ndarray, w: np.ndarray) -> np.ndarray:
    """How far each column (d,) is from optimality, given image, A^T alpha, and weights w (lines, d+1)."""
    largest = float(np.abs(w).max())
    step = TRIAL_STEP_SIZE * largest / float(np.abs(image).max(initial=1e-300)) if largest > 0.0 else 1.0
    moved = problem.objective.prox(w + step * image, np.full(w.shape, step)) - w
    found: np.ndarray = np.sqrt((moved[:, :-1] ** 2).sum(axis=0)) / step
    return found


def has_others(w: np.ndarray, chosen: np.ndarray) -> bool:
    """Whether weights w (lines, d+1) are of other columns than the chosen ones (d,)."""
    return bool((np.any(w[:, :-1], axis=0) & ~chosen).any())


def set_other_scores(block: Block, w: np.ndarray, chosen: np.ndarray, scores: np.ndarray) -> None:
    """Set scores (m, lines) of all rows to those by the weights w of all columns but the chosen ones."""
    if not has_others(w, chosen):
        return
    left = np.where(np.append(chosen, True), 0.0, w)
    left = np.ascontiguousarray(left.T) if isinstance(block, CSRBlock) else left
    for low in range(0, block.rows(), PRODUCT_ROWS):
        rows = part(block, low, min(low + PRODUCT_ROWS, block.rows()))
        found = np.empty((rows.rows(), len(w)))
        by_loops.add_scores(rows, left, found)
        scores[low : low + PRODUCT_ROWS] = found


@state
class StepUnderWay:
    """The step under way: a checkpoint may come between any two products of it.

    `step`                (lines, m+1): so far, empty between two steps.
    `ahead`               the same with momentum.
    `bent`, `bent_ahead`  their products with the Hessian.
    `enough`              the violation of the model at which it ends; 0: not known.
    `bound`               how far the Hessian exceeds its diagonal.
    `made`, `before`      products of this step, and of earlier ones on these columns.
    `work`                multiplications of all of them.
    `modelled`            whether the model is at its minimum.
    """

    step: Kept[f8] = of(LINES, 0, grows=True)
    bent: Kept[f8] = of(LINES, 0, grows=True)
    ahead: Kept[f8] = of(LINES, 0, grows=True)
    bent_ahead: Kept[f8] = of(LINES, 0, grows=True)
    momentum: float = 1.0
    enough: float = 0.0
    bound: float = 1.0
    made: int = 0
    before: int = 0
    work: float = 0.0
    modelled: bool = False

    def end(self, work: float) -> None:
        """The step has ended, after so many multiplications."""
        self.step, self.bent, self.ahead, self.bent_ahead = np.zeros((4, len(self.step), 0))
        self.momentum, self.enough, self.bound = 1.0, 0.0, max(1.0, SHORTER * self.bound)
        self.made, self.before, self.work, self.modelled = 0, self.before + self.made, work, False


class RowsOfPiece(NamedTuple):
    """Some rows, what the labels tell of them, and the number of the first."""

    rows: Block
    told: Labels
    first: int

    @property
    def at(self) -> slice:
        """Where they are among all rows."""
        return slice(self.first, self.first + self.rows.rows())


class Few:
    """The problem of group k over all columns of a block of all rows; weights are (lines, m + 1).

    others (n, lines), or (n, 0) for 0: what other weights add to the scores. sweep: multiplications of a visit. What
    visits all rows is a generator: between two parts of them it yields multiplications, and it returns what it found.

    Under free constants columns count as their distances from their means; the constants alone change. Else columns
    that are alike in all rows would bend the model far more along their sum.
    """

    def __init__(self, problem: Problem, labels: Labels, k: int, rows: Block, others: np.ndarray) -> None:
        self.problem, self.first, self.others, self.judge = problem, k * problem.lines, others, judge_of(problem.loss)
        self.sparse, n = isinstance(rows, CSRBlock), rows.rows()
        self.by = by_loops if self.sparse else products
        self.sweep = float(problem.lines * (stored(rows) + VISITED * n))
        self.shape = (problem.lines, rows.features() + 1)
        self.bends, size = np.empty((n, BENDS * problem.lines), np.float32), _piece(problem)
        self.pieces = [
            RowsOfPiece(part(rows, low, min(low + size, n)), labels._replace(first=labels.first - low), low)
            for low in range(0, n, size)
        ]
        self.centred = bool(problem.free and problem.column > 0.0)
        self.means = self._sums() / (n * problem.column) if self.centred else np.zeros(self.shape[1] - 1)

    def _sums(self) -> np.ndarray:
        """The sums of the columns (m,)."""
        total = np.zeros(self.shape[1] - 1)
        for rows, _, _ in self.pieces:
            if isinstance(rows, CSRBlock):
                here = slice(rows.indptr[0], rows.indptr[-1])
                total += np.bincount(rows.indices[here], rows.data[here], total.size)
            else:
                total += rows.X.sum(axis=0, dtype=np.float64)
        return total

    def _laid(self, v: np.ndarray) -> np.ndarray:
        """An array (lines, m+1) as rows read it, or the other way round."""
        return np.ascontiguousarray(v.T) if self.sparse else v

    def _over(
        self, visits: int, visit: Callable[[RowsOfPiece, np.ndarray], float | None]
    ) -> Generator[float, None, tuple[float, np.ndarray]]:
        """Call visit(piece, sums) for all rows; returns the sum of the results and the sums (lines, m+1)."""
        total, sums, each = 0.0, self._laid(np.zeros(self.shape)), visits * self.sweep / len(self.pieces)
        most = max(1, int(UNIT / max(1.0, each)))
        for low in range(0, len(self.pieces), most):
            if low:
                yield each * most
            total += leaves.summed(self.problem, self.pieces[low : low + most], visit, sums)
        return total, self._laid(sums)

    def plain(self, w: np.ndarray) -> np.ndarray:
        """The weights of columns as they are, from those of their distances."""
        return np.append(w[:, :-1], w[:, -1:] - (w[:, :-1] @ self.means)[:, None], axis=1)

    def distances(self, w: np.ndarray) -> np.ndarray:
        """The other way round."""
        return np.append(w[:, :-1], w[:, -1:] + (w[:, :-1] @ self.means)[:, None], axis=1)

    def _from_means(self, image: np.ndarray) -> np.ndarray:
        """Sums over the rows of their distances, from sums (lines, m + 1) over the rows; changes them."""
        image[:, :-1] -= image[:, -1:] * self.means
        return image

    def gradient(self, w: np.ndarray) -> Generator[float, None, tuple[float, np.ndarray]]:
        """(The sum of the losses at w, what their duals pull); sets the second derivatives."""
        laid, lines = self._laid(w), self.problem.lines

        def visit(piece: RowsOfPiece, sums: np.ndarray) -> float:
            m = piece.rows.rows()
            scores, bends = np.empty((m, lines)), np.empty((m, BENDS * lines))
            self.by.add_scores(piece.rows, laid, scores)
            if self.others.size:
                scores += self.others[piece.at]
            losses = self.by.add_gradient(piece.rows, piece.told, self.judge, self.first, scores, bends, sums)
            self.bends[piece.at] = bends
            return float(losses)

        losses, image = yield from self._over(2, visit)
        return losses, self._from_means(image)

    def bent(self, v: np.ndarray) -> Generator[float, None, np.ndarray]:
        """The product of the Hessian and v, weights of distances."""
        _, image = yield from self._over(2, self._bending(self.plain(v), BENDS))
        return self._from_means(image)

    def _bending(self, v: np.ndarray, kinds: int) -> Callable[[RowsOfPiece, np.ndarray], None]:
        """Adds the product of the Hessian and v; kinds=1: of the diagonal of each row's second derivatives alone."""
        laid, lines = self._laid(v), self.problem.lines

        def visit(piece: RowsOfPiece, sums: np.ndarray) -> None:
            bends = self.bends[piece.at].astype(np.float64)
            if kinds == 1:
                bends[:, :lines] -= bends[:, lines:] ** 2
                bends[:, lines:] = 0.0
            self.by.add_curved(piece.rows, bends, laid, np.empty((len(bends), lines)), sums)

        return visit

    def diagonal(self) -> Generator[float, None, np.ndarray]:
        """The Hessian's, (lines, m+1)."""
        if not self.sparse:
            _, found = yield from self._over(1, self._add_squares)
            return found

        def visit(piece: RowsOfPiece, sums: np.ndarray) -> None:
            found = np.zeros(self.shape)
            by_loops.add_diagonal(piece.rows, self.bends[piece.at].astype(np.float64), 1, found)
            sums += found.T

        _, found = yield from self._over(1, visit)
        if self.centred:  # sum c (x - mean)^2, from the sums of c x^2, c x and c
            one = np.zeros(self.shape)
            one[:, -1] = 1.0 / self.problem.column
            _, first = yield from self._over(2, self._bending(one, 1))
            means = self.means * self.problem.column
            found[:, :-1] += means * (first[:, -1:] / self.problem.column * means - 2.0 * first[:, :-1])
        return np.maximum(found, 0.0)

    def _add_squares(self, piece: RowsOfPiece, sums: np.ndarray) -> None:
        """Add the squares of the distances of dense rows, times the second derivatives."""
        straight, crossed = np.hsplit(self.bends[piece.at].astype(np.float64), 2)
        column = self.problem.column
        away = np.subtract(values_of(piece.rows), self.means * column, dtype=np.float64)
        bends = np.maximum(straight - crossed**2, 0.0).T
        sums[:, :-1] += bends @ np.square(away, out=away)
        sums[:, -1] += column**2 * bends.sum(axis=1)


def minimise(few: Few, w: np.ndarray, columns: np.ndarray, at: StepUnderWay) -> Iterator[float]:
    """Steps of w (lines, d+1), of these columns (d+1,) alone, to near their minimum; yields multiplications.

    Each step that has ended is in w, and the one under way in `at`.
    """
    objective, tol = few.problem.objective, few.problem.tol
    losses, image = yield from few.gradient(w[:, columns])
    while at.before < MOST_STEP_PRODUCTS:
        height, start = losses + objective.regulariser(w[:, columns]), few.distances(w[:, columns])
        if not at.modelled:
            yield from _model(few, start, image, at)
        share, step, work = 1.0, at.step, at.work
        for _ in range(MOST_HALVINGS):
            found, work = few.plain(start + share * step), work + 2.0 * few.sweep
            losses, image = yield from few.gradient(found)
            reached = losses + objective.regulariser(found)
            if reached <= height + OF_OBJECTIVE * abs(height):
                break
            share *= 0.5
        else:
            return
        w[:, columns] = found
        at.end(work)
        gain = losses + float(np.vdot(few.distances(found), image))  # of the duals, which are the best for the scores
        least = objective.penalty.bound(gain, objective.penalised(image), 0.0, 0.0)
        if reached - least <= AIM * tol * abs(reached):
            return
        yield 2.0 * few.sweep


def _model(few: Few, w: np.ndarray, image: np.ndarray, at: StepUnderWay) -> Iterator[float]:
    """Bring the step from w near the minimum of the quadratic model plus R; image: what the duals pull."""
    objective, diagonal = few.problem.objective, (yield from few.diagonal())
    longest = objective.even(1.0 / np.maximum(diagonal, LEAST_SECOND_DERIVATIVE * float(diagonal.max()) + 1e-300))
    goal = INEXACT * AIM * few.problem.tol * float(_lengths(objective.penalised(image)).max(initial=0.0))
    if not at.step.size:
        at.step, at.bent, at.ahead, at.bent_ahead = np.zeros((4, *few.shape))
    while at.made < MOST_STEP_PRODUCTS and not at.modelled:
        steps = longest / at.bound
        new_step = objective.prox(w + at.ahead + steps * (image - at.bent_ahead), steps) - w
        bent = yield from few.bent(new_step)
        at.made, at.work, moved = at.made + 1, at.work + 2.0 * few.sweep, new_step - at.ahead
        if float(np.vdot(moved, bent - at.bent_ahead)) > float(np.sum(moved**2 / steps)):
            at.bound *= LONGER
            continue
        left = float(_lengths(moved / steps).max())
        at.enough = at.enough or max(goal, INEXACT * left)
        back = float(np.vdot(moved, new_step - at.step)) < 0.0
        before, at.momentum = (1.0, 1.0) if back else (at.momentum, 0.5 + (0.25 + at.momentum**2) ** 0.5)
        share = (before - 1.0) / at.momentum
        at.ahead, at.bent_ahead = new_step + share * (new_step - at.step), bent + share * (bent - at.bent)
        at.step, at.bent, at.modelled = new_step, bent, left <= at.enough
        yield 2.0 * few.sweep


def _lengths(v: np.ndarray) -> np.ndarray:
    """The lengths of the columns."""
    found: np.ndarray = np.sqrt((v**2).sum(axis=0))
    return found
