"""Many steps on a working set of columns between two reads, which sparse weights make cheap.

The method is the augmented Lagrangian of the dual (Li, Sun and Toh 2018; for the hinge and l1: Yen et al. 2015).
Let alpha be centres and sigma a step size. A step finds the w that minimises

    R(w) + sum_i max over a of dual_i(a) - a u_i - (a - alpha_i)^2 / (2 sigma).

Then alpha moves to the maximising a. The larger sigma, the fewer steps are needed, and the harder each is. Sigma begins
near the value at which the first weights become nonzero. It grows after easy steps, and falls after unfinished ones.
For a smooth loss it is infinite at first, and one step may suffice. The working set has the columns whose weight is
nonzero or whose |A_j.alpha| is near its threshold.

With a smooth loss and l1, duals prove little while one column exceeds its threshold, as all duals would have to shrink.
Near the end they are projected column by column (`Inner.proof`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from streammargin.compiled import column_steps as kernel
from streammargin.compiled.column_steps import Answers, Centred, SignedColumns, Terms
from streammargin.compiled.order import permutation
from streammargin.losses.base import has, largest_bend
from streammargin.rows.blocks import Block, values_of
from streammargin.solvers.cache import columns as cache
from streammargin.solvers.cache.columns import ColumnCache
from streammargin.solvers.columns.gradients import conjugate_gradients
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.rounding import EPS, OF_OBJECTIVE
from streammargin.solvers.roles import Scratch, state
from streammargin.solvers.state import State, labels_of

WORKING_SET_PULL = 0.9  # times its root: a group whose ||A_g^T alpha|| exceeds it is in; a missed one costs a pass
FIRST_WORKING_SET_PULL = 0.3  # at w = 0 for a smooth regression loss, whose duals change sign
ENDING_VIOLATION = 0.1  # steps end at this share of the first violation, as the next duals change the problem
COARSE = 0.25  # the same at w = 0 for a nonsmooth loss, whose duals are far from their optimum
LAST = 5.0  # times tol: violation at which the last round of a smooth loss begins
ROUNDS = 15  # most rounds of coordinate descent per pass; if they do not suffice, sigma was too large
NEWTON = 3  # most Newton steps after a slow round, for a smooth loss
LIGHT = 0.2  # of all values: if nonzero columns have fewer, a smooth loss is solved to the tolerance, which is cheap
SWEEPS = 20  # most sweeps per round over the quadratic model of a smooth loss
SWEPT = 0.5  # they end at this share of the first violation, as it is a model only
GRADIENTS = 100  # most conjugate gradient iterations of such a step; columns that depend on each other need over 60
INEXACT = 1e-3  # their relative residual; with .01 steps near the optimum of a hinge take more passes
QUICK = 2  # after at most this many rounds sigma grows by FASTER
EASY = 5  # after at most this many rounds sigma grows by FURTHER
FASTER = 3.0
FURTHER = 2.0
NEARER = 0.5  # factor of sigma if ROUNDS did not suffice
SMALLEST_SIGMA, LARGEST_SIGMA = 1e-150, 1e150  # bounds on sigma, for passes beyond the reachable accuracy
BEGIN = 30.0  # the first sigma, relative to that at which the first weights become nonzero
# the ridge, relative to (||alpha|| / ||w||)^2 / sigma. It keeps w stable if columns are nearly equal; a larger one
# would slow the weights down
STAY = 0.01
SETTLING = 20  # most steps of the duals between two reads, while the gap of the columns at hand is too large
MOST_SETTLING_WORK = 1e10  # multiplications after which there are no more of them, some ten seconds
OVER = 1.5  # relaxation factor of the projections of the duals of a smooth loss
SWEEPS_BETWEEN_LOOKS = 2  # sweeps of projections between two evaluations of the dual objective
LOOKS = 12  # most such evaluations
SURE = 0.9  # of tol: the rest is for columns that were not gathered, and rounding
ROW_VECTORS, COLUMN_VECTORS = 8, 16  # temporary vectors of length n and d+1
BYTES = 3 * (8 + 4)  # per value: the columns, and the curved rows by columns and by rows


class Split(NamedTuple):
    """R(w) = sum_g roots_g ||w_g||_2 + square/2 ||w||_2^2; of (m,): the group of each column, from 0."""

    of: np.ndarray
    roots: np.ndarray
    square: float


class Position(NamedTuple):
    """The current w (d+1,), centres alpha (n,), image = A^T alpha (d+1,), and step size of the duals, of a problem."""

    w: np.ndarray
    alpha: np.ndarray
    image: np.ndarray
    sigma: float


class ColumnTask(NamedTuple):
    """The columns (m,) of problem k to be optimised.

    below (n,), or (0,) for 0: the margins are A w - below, for targets and the margins from other weights.
    """

    k: int
    columns: np.ndarray
    matrix: SignedColumns
    below: np.ndarray
    alpha: np.ndarray
    sigma: float


@state
class GatheredColumns:
    """The cached columns of the rows in memory; stored: the values that they were gathered from."""

    stored: Scratch[np.ndarray | None] = None
    columns: Scratch[ColumnCache | None] = None


def split(problem: Problem) -> Split | None:
    """The penalty as a Split, with a free constant as its own group; None for several lines, or others than these."""
    if problem.joint or not has(problem.loss, "slope"):
        return None
    found = problem.penalty.pieces(problem.features + (not problem.free))
    if found is None or not found[1].thresholds.all() or found[1].cuts.any():
        return None
    order, pieces = found
    of = np.empty(order.size, np.int64)
    of[order] = np.repeat(np.arange(pieces.thresholds.size), np.diff(pieces.starts))
    roots, square = pieces.thresholds, float(pieces.ridges[0])
    if problem.free:
        of, roots = np.append(of, roots.size), np.append(roots, 0.0)
    return Split(of, roots, square)


def reserved_bytes(problem: Problem) -> int:
    """Bytes of all columns, and of the temporary vectors."""
    width = problem.features + 1
    stored = problem.values + problem.rows
    rows = ROW_VECTORS + problem.outputs.several  # the targets of one output
    return BYTES * stored + 8 * (rows * problem.rows + COLUMN_VECTORS * width)


def wanted(problem: Problem, penalty: Split, at: Position) -> np.ndarray:
    """Which groups are in the working set."""
    count = penalty.roots.size
    pulled = np.sqrt(np.bincount(penalty.of, at.image**2, count))
    near = FIRST_WORKING_SET_PULL if math.isinf(at.sigma) and problem.numeric and not at.w.any() else WORKING_SET_PULL
    return (pulled >= near * penalty.roots) | (np.bincount(penalty.of, at.w != 0.0, count) > 0.0)


def in_order(penalty: Split, chosen: np.ndarray) -> np.ndarray:
    """The indices of the chosen columns (d+1,), sorted by group."""
    columns = np.flatnonzero(chosen)
    return columns[np.argsort(penalty.of[columns], kind="stable")]


def gather(
    problem: Problem, state: State, gathered: GatheredColumns, block: Block, k: int, columns: np.ndarray
) -> SignedColumns:
    """These columns. The last gathered ones stay in the cache, as the next ones are usually a subset."""
    stored, held = values_of(block), gathered.columns
    if held is None or gathered.stored is not stored or not cache.holds(held, k, columns):
        held = gathered.columns = None  # free its memory first
        chosen = np.zeros(problem.features + 1, bool)
        chosen[columns] = True
        held = cache.of_block(problem, labels_of(problem, state), block, k, chosen)
        gathered.columns, gathered.stored = held, stored
    return cache.matrix(held, k, columns)


def improve(
    problem: Problem, penalty: Split, state: State, gathered: GatheredColumns, block: Block, k: int, at: Position
) -> tuple[np.ndarray, float, np.ndarray | None]:
    """(weights (d+1,) near the minimum, proposed next sigma, duals (n,) that seem to prove them or None).

    The block has all rows.
    """
    columns = in_order(penalty, wanted(problem, penalty, at)[penalty.of])
    matrix = gather(problem, state, gathered, block, k, columns)
    begun = at.w[penalty.roots[penalty.of] > 0.0].any()
    enough = ENDING_VIOLATION if begun or math.isinf(at.sigma) else COARSE
    task = ColumnTask(k, columns, matrix, state.labels.targets_of(k), at.alpha, at.sigma)
    chosen, following, proof = minimise(problem, penalty, state, task, at.w[columns], enough=enough, prove=True)
    w = np.zeros(at.w.size)
    w[columns] = chosen
    return w, following, proof


class Inner:
    """The minimum of f over the columns of a task (compiled/column_steps.py), and where the steps to it are.

    w (m,): the weights, updated in place; answers: of the rows at w; objective: f(w); most: the largest possible slope.
    """

    def __init__(self, problem: Problem, penalty: Split, run: State, task: ColumnTask, w: np.ndarray) -> None:
        k, columns, matrix, below, alpha, sigma = task
        self.problem, self.run, self.matrix, self.w, self.objective = problem, run, matrix, w, math.inf
        self.sizes, softness = matrix.ends - matrix.starts, 1.0 / sigma
        groups, counts = np.unique(penalty.of[columns], return_counts=True)
        caps = labels_of(problem, run).caps_of(k)
        self.most = sigma if softness > 0.0 else largest_bend(problem.loss) * float(caps.max())
        penalised = penalty.roots[penalty.of[columns]] > 0.0  # a free constant does not count in ||w||
        lengths = float(np.sum(w[penalised] ** 2)), float(np.sum(alpha**2))
        ridge = min(STAY * softness * lengths[1] / lengths[0], LARGEST_SIGMA) if lengths[0] > 0.0 else 0.0  # finite
        squares = np.where(penalised, penalty.square, 0.0)
        self.terms = Terms(np.append(0, np.cumsum(counts)), penalty.roots[groups], squares, ridge, w.copy())
        self.centred = Centred(softness, below, caps, alpha)
        self.answers = Answers(np.empty(problem.rows), np.zeros(problem.rows), np.zeros(problem.rows))

    @property
    def moving(self) -> int:
        """The number of values in the columns of nonzero weights."""
        return int(self.sizes[self.w != 0.0].sum())

    def attain(self) -> float:
        """Update the answers to w; returns f(w)."""
        losses = kernel.meet(self.problem.loss, self.centred, self.matrix, self.w, self.answers)
        return losses + kernel.penalty(self.terms, self.w)

    def sweep(self, turn: int) -> tuple[float, float, bool]:
        """Coordinate descent sweeps on the quadratic model of f, and a line search to their result.

        Groups that the first sweep leaves at 0 are skipped afterwards (Yuan, Ho and Lin 2012). Returns (violation sum
        and largest violation of the first sweep, whether progress was slow); turn: number of the round.
        """
        w, before, groups = self.w, self.w.copy(), self.terms.roots.size
        order, bends = permutation(groups, self.problem.seed, self.run.number * ROUNDS + turn), np.full(groups, -1.0)
        model = self.most, bends, self.matrix, self.terms
        first, worst = kernel.sweep(*model, order, w, self.answers)
        order = order[np.add.reduceat(w != 0.0, self.terms.first[:-1])[order] > 0]
        violation, begun, sweeps = math.inf, 0.0, 0
        for _ in range(1 if self.centred.softness > 0.0 else SWEEPS):  # for nonsmooth losses the model is soon wrong
            sweeps += 1
            violation, _ = kernel.sweep(*model, order, w, self.answers)
            begun = begun or violation
            if violation <= SWEPT * begun:
                break
        slow, direction, share = violation > SWEPT * begun, w - before, 1.0
        for _ in range(kernel.TRIES):
            w[:] = before + share * direction
            objective = self.attain()
            if objective <= self.objective + OF_OBJECTIVE * abs(self.objective):
                break
            share *= kernel.BACK
        else:
            w[:] = before
            objective, slow = self.attain(), True
        self.objective = objective
        # per column its gradient and update, and the new margins
        self.run.multiplications += 2.0 * int(self.sizes.sum()) + (2.0 * sweeps + 1.0) * self.moving
        return first, worst, slow

    def newton(self) -> tuple[float, bool]:
        """A Newton step on the nonzero weights, by conjugate gradients; weights that would change sign become 0.

        Returns (norm of the gradient, whether f fell).
        """
        self.run.multiplications += 2.0 * self.moving
        w, old, first = self.w, self.w.copy(), self.terms.first
        face, down, product, scale = self._model()
        slope = float(np.linalg.norm(down))
        if not slope > 0.0:
            return 0.0, False
        p, _ = conjugate_gradients(product, down, scale, INEXACT, GRADIENTS)
        alone = np.repeat((np.diff(first) == 1) & (self.terms.roots > 0.0), np.diff(first))[face]
        share = 1.0
        for _ in range(kernel.TRIES):
            moved = old[face] + share * p
            w[face] = np.where(alone & (moved * old[face] < 0.0), 0.0, moved)
            objective = self.attain()
            if objective < self.objective:
                self.objective = objective
                return slope, True
            share *= kernel.BACK
        w[:] = old
        self.attain()
        return slope, False

    def _model(self) -> tuple[np.ndarray, np.ndarray, Callable[[np.ndarray], np.ndarray], np.ndarray]:
        """The columns (m,) with weights or without a root; there minus the gradient, the products of the Hessian and a
        vector, and one over its diagonal.
        """
        terms, slopes = self.terms, self.answers.slopes
        counts, sizes = np.diff(terms.first), kernel.sizes_of(terms, self.w)
        of = np.repeat(np.arange(sizes.size), counts)
        face = np.flatnonzero(((sizes > 0.0) | (terms.roots == 0.0))[of])
        group, w = of[face], self.w[face]
        pressed = np.divide(terms.roots, sizes, out=np.zeros(sizes.size), where=sizes > 0.0)[group]
        wide = (counts[group] > 1) & (pressed > 0.0)  # the norm of a group has curvature too
        leaning = np.where(wide, np.sqrt(pressed) * w / np.where(wide, sizes[group], 1.0), 0.0)
        added = terms.squares[face] + terms.ridge + pressed * wide
        down = -(terms.squares[face] + pressed) * w - terms.ridge * (w - terms.centre[face])
        pulled = np.empty(face.size)
        starts, ends, rows, values = self.matrix
        kernel.pulls(SignedColumns(starts[face], ends[face], rows, values), self.answers.duals, pulled)
        from_, *entries = kernel.bent_columns(face, self.matrix, slopes)
        bent = SignedColumns(from_[:-1], from_[1:], *entries)
        squares = np.concatenate([[0.0], np.cumsum(bent.values[: from_[-1]] ** 2)])[from_]
        added += 1e-300

        def product(v: np.ndarray) -> np.ndarray:
            self.run.multiplications += 2.0 * float(from_[-1])
            image, found = np.zeros(slopes.size), np.empty(face.size)
            kernel.add_images(bent, v, image)
            kernel.pulls(bent, image, found)
            return found + added * v - leaning * np.bincount(group, leaning * v, sizes.size)[group]

        return face, down + pulled, product, 1.0 / np.maximum(np.diff(squares) + added - leaning**2, EPS * added)

    def proof(self) -> np.ndarray | None:
        """Duals that prove the weights to the tolerance, as far as these columns tell, or None.

        Scaling all duals until every column is feasible would need far more accuracy. Instead they are projected on the
        constraints of the few violated columns. Projections lower the dual objective; once it is too low, they stop.
        """
        self.run.multiplications += SWEEPS_BETWEEN_LOOKS * float(self.sizes.sum())
        loss, caps, duals = self.problem.loss, self.centred.caps, self.answers.duals.copy()
        ends = (loss.feasible(end, 1.0) for end in (-math.inf, math.inf))
        columns = self.matrix, self.terms.roots, OVER, np.full(self.sizes.size, -1.0)
        bounds = [np.multiply(end, caps, out=np.zeros(caps.size), where=caps > 0.0) for end in ends]
        least = (1.0 - SURE * self.problem.tol) * self.objective
        for _ in range(LOOKS):
            largest = kernel.pull_in(*bounds, *columns, duals, self.answers.slopes, SWEEPS_BETWEEN_LOOKS)
            bound = kernel.dual_value(loss, self.centred.targets, caps, duals)
            if bound < least:
                return None
            if bound >= least * max(1.0, largest):
                return duals
        return None


def minimise(
    problem: Problem, penalty: Split, run: State, task: ColumnTask, chosen: np.ndarray, *,
    enough: float = ENDING_VIOLATION, prove: bool = False,
) -> tuple[np.ndarray, float, np.ndarray | None]:  # fmt: skip
    """Like `improve`, for the weights `chosen` (m,) of the task's columns only.

    run: the training's state, which counts multiplications and seeds the order of the groups; enough: share of the
    first violation at which steps end; prove: also stop if duals are found that seem to prove the weights.
    """
    f, sigma = Inner(problem, penalty, run, task, chosen), task.sigma
    f.objective = f.attain()
    run.multiplications += float(f.moving)
    soft = f.centred.softness > 0.0
    alone = f.terms.roots.size == f.sizes.size  # each column is a group
    prove = prove and not soft and penalty.square == 0.0 and alone and has(problem.loss, "feasible")
    first, following = 0.0, max(NEARER * f.most, SMALLEST_SIGMA)
    for turn in range(ROUNDS):
        violation, worst, slow = f.sweep(turn)
        first = first or violation
        if prove and (proof := f.proof()) is not None:
            return chosen, sigma, proof
        exact = not soft and worst <= LAST * problem.tol
        if exact or (violation <= enough * first and turn > 0):
            grown = FASTER if turn <= QUICK else FURTHER
            following = grown * sigma if turn <= EASY and sigma < LARGEST_SIGMA else sigma
            if exact or soft or f.moving > LIGHT * problem.values:
                break
        for _ in range(1 if soft else NEWTON * slow):
            slope, fell = f.newton()
            if not fell or slope < 0.5 * enough * first:
                break
    return chosen, following, None


def settle(
    problem: Problem, penalty: Split, run: State, task: ColumnTask, chosen: np.ndarray, goal: float
) -> tuple[np.ndarray, ColumnTask]:  # fmt: skip
    """Steps of the weights and of the duals by turns, until the gap of these columns alone is at most `goal`.

    Returns the weights, and the task with the duals and the sigma that they were found with: the next read makes their
    step. For a smooth loss sigma is infinite, and there is one turn.
    """
    most = run.multiplications + MOST_SETTLING_WORK
    for _ in range(SETTLING):
        chosen, following, _ = minimise(problem, penalty, run, task, chosen)
        if math.isinf(task.sigma):
            return chosen, task._replace(sigma=following)
        duals, gap = _attained(problem, penalty, run, task, chosen)
        if gap <= goal or run.multiplications > most:
            break
        task = task._replace(alpha=duals, sigma=following)
    return chosen, task


def _attained(
    problem: Problem, penalty: Split, run: State, task: ColumnTask, chosen: np.ndarray
) -> tuple[np.ndarray, float]:
    """(the duals (n,) after a step from those of the task, the gap of weights and duals as these columns have it)."""
    f = Inner(problem, penalty, run, task, chosen)
    step, f.terms, f.centred = f.centred, f.terms._replace(ridge=0.0), f.centred._replace(softness=SMALLEST_SIGMA)
    primal, f.centred = f.attain(), step
    f.attain()
    bound = kernel.dual_value(problem.loss, task.below, f.centred.caps, f.answers.duals)
    return f.answers.duals, primal - bound


def first_sigma(problem: Problem, k: int, zero_factor: float) -> float:
    """The first step size of the duals; zero_factor: factor of C up to which w = 0 is optimal."""
    if math.isfinite(largest_bend(problem.loss)):
        return math.inf
    return float(problem.outputs.costs[k]) * min(1.0, BEGIN * zero_factor)
