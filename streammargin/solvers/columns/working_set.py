"""Many steps on the few columns that matter, between two reads of all: what sparse weights make cheap.

The augmented Lagrangian of the dual (Li, Sun and Toh 2018; of the hinge and l1: Yen et al. 2015): for centres alpha and
a step sigma of the duals, w is what minimises R(w) + sum_i max over a of dual_i(a) - a u_i - (a - alpha_i)^2 / (2
sigma), and alpha moves to the a where that is attained. The larger sigma, the fewer such moves, and the harder each of
them: it begins near where the first weights leave 0, grows after moves that were easy, and falls after those that did
not come to their end. Of a smooth loss it is infinite at first, and one move may do. Of the columns those are looked at
whose weight is not 0 or whose A^T alpha is near to where it would not be.

With a smooth loss and l1 the duals of the weights prove little while a single column pulls more than its root: all
would have to shrink. Near the end they are pulled in, column by column.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from streammargin.compiled import column_steps as kernel
from streammargin.compiled.column_steps import Answers, Centred, Columns, Terms
from streammargin.compiled.order import permutation
from streammargin.losses.base import has, largest_bend
from streammargin.rows.blocks import Block, values_of
from streammargin.rows.labels import RowLabels
from streammargin.solvers.base import matrix_work
from streammargin.solvers.cache import columns as cache
from streammargin.solvers.cache.columns import ColumnCache
from streammargin.solvers.columns import interior
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import Scratch, state
from streammargin.solvers.state import State, labels_of

NEAR = 0.9  # of the length at which a group may leave 0: it is looked at from there on, as one missed costs a pass
FAR = 0.3  # the same at w = 0 for a smooth loss of numbers, whose duals change sign: more groups leave 0
ENOUGH = 0.1  # of the first violation: what is left when the steps end, as the duals move next and change the rest
COARSE = 0.25  # the same at w = 0 of a loss with kinks, where another pass costs little: its duals have far to go yet
LAST = 5.0  # times the tolerance: violations at which the last round of a smooth loss begins, which leaves a tenth
ROUNDS = 15  # of coordinate descent in a pass at most: where they are not enough sigma was too large
NEWTON = 3  # steps after a round of a smooth loss at most, where it was slow: columns that become 0 end them
LIGHT = 0.2  # of the values stored, in the columns that move: a smooth loss goes on to the tolerance, as that is cheap
SWEEPS = 20  # of a smooth loss's model in a round at most: it is a model only
SWEPT = 0.5  # the part of its violations at which they end, for the same reason
FEW = 1000  # columns of a Newton step whose equations are factored, where memory is no matter: more take too long
GRADIENTS = 30  # conjugate gradients of a larger one at most: such a step is one of many
INEXACT = 0.05  # the residual at which they end, for the same reason
QUICK = 2  # rounds after the first that tell that sigma may grow fast
EASY = 5  # rounds after the first that tell that it may grow
FASTER = 3.0  # by how much it does after QUICK ones: the larger sigma, the fewer moves of the duals
FURTHER = 2.0  # by how much after EASY ones
NEARER = 0.5  # to what it falls where ROUNDS were not enough, as each move was too hard
SMALLEST, LARGEST = 1e-150, 1e150  # sigma, where passes go on beyond what rounding lets them find
BEGIN = 30.0  # times the sigma at which the first weights leave 0: the first one, as w would stay at 0 with that itself
# of the ridge, which keeps w where columns are much the same: of (||alpha|| / ||w||)^2 / sigma, and of how f may bend
# at most, as weights that have far to go would be held for ever
STAY = 0.01
ROUNDING = 1e-13  # of a value of f, relative
MOST = 0.9  # of the values stored: where the columns wanted have as many, all are gathered, once
CLOSE = 0.3  # the largest violation of a smooth loss from which on its duals are pulled in, as a part of its root
OVER = 1.5  # times the way to its bound that a column is pulled in: relaxed projections end sooner
LOOK = 2  # sweeps before it is seen what duals prove, as a look asks all rows
LOOKS = 12  # at most: duals that moved that far prove too little
SURE = 0.9  # of the tolerance: the rest is for columns that were not gathered, and rounding
ROW_VECTORS, COLUMN_VECTORS = 8, 16  # of length n and d+1, while columns move
BYTES = 3 * (8 + 4)  # of a value stored, and again where the rows bend, by columns and by rows


class Split(NamedTuple):
    """R(w) = sum_g roots_g ||w_g||_2 + square/2 ||w||_2^2; of (m,): the group of each column, from 0."""

    of: np.ndarray
    roots: np.ndarray
    square: float


class Position(NamedTuple):
    """Where a problem stands: w (d+1,), the centres alpha (n,), A^T alpha (d+1,), and the step of the duals."""

    w: np.ndarray
    alpha: np.ndarray
    image: np.ndarray
    sigma: float


class Task(NamedTuple):
    """Columns (m,) of problem k whose weights are to move.

    below (n,) or (0,) for 0: what margins lack of the products with these weights: targets, and what others add.
    """

    k: int
    columns: np.ndarray
    matrix: Columns
    below: np.ndarray
    alpha: np.ndarray
    sigma: float


@state
class Gathered:
    """Columns of the rows in memory that store these values."""

    stored: Scratch[np.ndarray | None] = None
    columns: Scratch[ColumnCache | None] = None


def split(problem: Problem) -> Split | None:
    """The penalty, with the constant as a group of its own where it is not penalised; None where it is of another kind,
    or the loss is.
    """
    if problem.penalty is None or not has(problem.loss, "slope"):
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


def all_fit(problem: Problem) -> bool:
    """Whether the rows are at hand, and their columns would fit beside them."""
    return problem.resident and room(problem) <= problem.budget // 2


def room(problem: Problem) -> int:
    """Bytes of the columns, if they were all looked at, and of the rows' vectors."""
    width = problem.features + 1
    stored = problem.values + problem.rows
    vectors = (ROW_VECTORS, COLUMN_VECTORS)
    if interior.linear(problem.loss) is not None:
        vectors = interior.ROW_VECTORS, COLUMN_VECTORS + interior.COLUMN_VECTORS
    return BYTES * stored + 8 * (vectors[0] * problem.rows + vectors[1] * width + min(FEW, width) ** 2)


def wanted(problem: Problem, penalty: Split, at: Position) -> np.ndarray:
    """Which groups matter."""
    count = penalty.roots.size
    pulled = np.sqrt(np.bincount(penalty.of, at.image**2, count))
    near = FAR if math.isinf(at.sigma) and problem.numeric and not at.w.any() else NEAR
    return (pulled >= near * penalty.roots) | (np.bincount(penalty.of, at.w != 0.0, count) > 0.0)


def in_order(penalty: Split, chosen: np.ndarray) -> np.ndarray:
    """The columns that are chosen (d+1,), those of a group side by side."""
    columns = np.flatnonzero(chosen)
    return columns[np.argsort(penalty.of[columns], kind="stable")]


def gather(
    problem: Problem, state: State, gathered: Gathered, block: Block, k: int, columns: np.ndarray
) -> Columns:  # fmt: skip
    """The values of these columns. Those that were gathered last stay: the next ones are mostly some of them."""
    stored, held = values_of(block), gathered.columns
    if held is None or gathered.stored is not stored or not cache.holds(held, k, columns):
        held = gathered.columns = None  # before others take its place
        sizes, chosen = kernel.sizes(block), np.zeros(problem.features + 1, bool)
        chosen[columns] = True
        chosen |= sizes[columns].sum() >= MOST * sizes.sum()
        held = cache.of_block(problem, labels_of(problem, state), block, k, chosen)
        gathered.columns, gathered.stored = held, stored
    return cache.matrix(held, k, columns)


def improve(
    problem: Problem, penalty: Split, state: State, gathered: Gathered, block: Block, k: int, at: Position,
    zeros: np.ndarray,
) -> tuple[np.ndarray, float, np.ndarray | None]:  # fmt: skip
    """Weights (d+1,) that come near to the minimum, and what the next sigma should be; the block has all rows.

    Beside them the duals (n,) that seem to prove them, if any do. zeros (d+1,): weights that are known to be 0.
    """
    columns = in_order(penalty, wanted(problem, penalty, at)[penalty.of] & ~zeros)
    matrix = gather(problem, state, gathered, block, k, columns)
    begun = at.w[penalty.roots[penalty.of] > 0.0].any()
    enough = ENOUGH if begun or math.isinf(at.sigma) else COARSE
    task = Task(k, columns, matrix, state.labels.targets, at.alpha, at.sigma)
    chosen, following, proof = minimise(
        problem, penalty, state, task, at.w[columns], few=FEW, enough=enough, prove=True
    )  # fmt: skip
    w = np.zeros(at.w.size)
    w[columns] = chosen
    return w, following, proof


def _caps(problem: Problem, labels: RowLabels, k: int) -> np.ndarray:
    """What the dual of each row may be at most (n,), in units of the loss; 0 for rows that problem k does not know."""
    caps = problem.caps[k, labels.codes] * (labels.codes >= 0)
    return np.where(labels.weights > 0.0, caps * labels.weights, 0.0) if labels.weights.size else caps


def approach(
    problem: Problem, penalty: Split, state: State, gathered: Gathered, block: Block, k: int, at: Position
) -> tuple[np.ndarray, np.ndarray] | None:  # fmt: skip
    """Weights (d+1,) and duals (n,) near to the optimum by interior points, from those of `improve`; None where there
    are none, or so many columns matter that these steps would take longer.
    """
    rows = interior.linear(problem.loss)
    if rows is None or penalty.square > 0.0 or penalty.of.size > penalty.roots.size:
        return None
    columns = in_order(penalty, wanted(problem, penalty, at)[penalty.of])
    starts, ends = gather(problem, state, gathered, block, k, columns)[:2]
    if columns.size > FEW or interior.dear(columns.size, int((ends - starts).sum()), problem.rows):
        return None
    columns = in_order(penalty, np.ones(penalty.of.size, bool))
    found = interior.approach(
        rows, _caps(problem, state.labels, k), state.labels.targets,
        gather(problem, state, gathered, block, k, columns), penalty.roots[penalty.of[columns]], at.w[columns],
        at.alpha, problem.tol, FEW, state,
    )  # fmt: skip
    if found is None:
        return None
    w = np.zeros(at.w.size)
    w[columns] = found[0]
    return w, found[1]


def minimise(
    problem: Problem, penalty: Split, run: State, task: Task, chosen: np.ndarray, *, few: int, enough: float = ENOUGH,
    prove: bool = False,
) -> tuple[np.ndarray, float, np.ndarray | None]:  # fmt: skip
    """The same of the weights `chosen` (m,) of these columns alone, group by group.

    run: the state of the training, whose multiplications grow; its pass decides the order in which groups are visited.
    few: columns of a Newton step whose equations are factored; more take conjugate gradients. enough: of the first
    violation, what is left when the steps end. prove: also where duals are found that seem to prove the weights.
    """
    sigma, matrix, sizes = task.sigma, task.matrix, task.matrix.ends - task.matrix.starts
    centred, terms, most = _model(problem, penalty, run.labels, task, chosen)
    softness, groups = centred.softness, terms.roots.size
    answers = Answers(np.empty(problem.rows), np.zeros(problem.rows), np.zeros(problem.rows))
    height = kernel.meet(problem.loss, centred, matrix, chosen, answers) + kernel.penalty(terms, chosen)
    run.multiplications += float(sizes[chosen != 0.0].sum())
    prove = prove and softness == 0.0 and penalty.square == 0.0 and groups == sizes.size
    prove = prove and has(problem.loss, "feasible")
    first, following = 0.0, max(NEARER * most, SMALLEST)
    for turn in range(ROUNDS):
        order = permutation(groups, problem.seed, run.number * ROUNDS + turn)
        violation, worst, height, slow, sweeps = _sweep_model(
            problem.loss, most, centred, matrix, terms, order, chosen, answers, height
        )
        first = first or violation
        moving = int(sizes[chosen != 0.0].sum())
        # of each column the slope and its move, and what the rows see of the step
        run.multiplications += 2.0 * int(sizes.sum()) + (2.0 * sweeps + 1.0) * moving
        if prove and worst <= CLOSE:
            run.multiplications += LOOK * float(sizes.sum())
            proof = _pulled_in(problem, centred, matrix, terms.roots, answers, height)
            if proof is not None:
                return chosen, sigma, proof
        exact = softness == 0.0 and worst <= LAST * problem.tol
        if exact or (violation <= enough * first and turn > 0):
            grown = FASTER if turn <= QUICK else FURTHER
            following = grown * sigma if turn <= EASY and sigma < LARGEST else sigma
            if exact or softness > 0.0 or moving > LIGHT * problem.values:
                break
        for _ in range(1 if softness > 0.0 else NEWTON * slow):
            moving, count = int(sizes[chosen != 0.0].sum()), int(np.count_nonzero(chosen))
            equations = matrix_work(count, problem.rows, moving / problem.rows)
            run.multiplications += 2.0 * moving + (equations if count <= few else 2.0 * GRADIENTS * moving)
            slope, fell, height = kernel.newton(
                problem.loss, centred, matrix, terms, chosen, answers, few, INEXACT, GRADIENTS
            )
            if not fell or slope < 0.5 * enough * first:
                break
    return chosen, following, None


def _model(
    problem: Problem, penalty: Split, labels: RowLabels, task: Task, chosen: np.ndarray
) -> tuple[Centred, Terms, float]:  # fmt: skip
    """What f is of the rows, and beside them, and what a slope may be at most."""
    k, columns, matrix, below, alpha, sigma = task
    groups, counts = np.unique(penalty.of[columns], return_counts=True)
    softness, caps = 1.0 / sigma, _caps(problem, labels, k)
    most = sigma if softness > 0.0 else largest_bend(problem.loss) * float(caps.max())
    penalised = penalty.roots[penalty.of[columns]] > 0.0  # the constant says nothing of how large weights are
    lengths = float(np.sum(chosen[penalised] ** 2)), float(np.sum(alpha**2))
    ridge = softness * lengths[1] / lengths[0] if lengths[0] > 0.0 else 0.0
    bend = max(most, float(problem.costs[k])) * kernel.mean_square(matrix)
    ridge = STAY * min(ridge, bend)
    squares = np.where(penalised, penalty.square, 0.0)
    terms = Terms(np.append(0, np.cumsum(counts)), penalty.roots[groups], squares, ridge, chosen.copy())
    return Centred(softness, below, caps, alpha), terms, most


def _pulled_in(
    problem: Problem, centred: Centred, matrix: Columns, roots: np.ndarray, answers: Answers, height: float
) -> np.ndarray | None:  # fmt: skip
    """Duals that prove weights to the tolerance, whose f is `height`, as far as these columns tell; None: not found.

    Those that the rows answer would have to shrink until the last column pulls no more than its root: that takes far
    more accuracy. These leave the few columns that are beyond, by projections, and the others where they are. The
    further they move, the less they prove: soon it is seen that they will not.
    """
    duals = answers.duals.copy()
    bends, least = np.full(roots.size, -1.0), (1.0 - SURE * problem.tol) * height
    for _ in range(LOOKS):
        largest = kernel.pull_in(problem.loss, centred.caps, matrix, roots, OVER, bends, duals, answers.slopes, LOOK)
        bound = kernel.dual_value(problem.loss, centred.targets, centred.caps, duals)
        if bound < least:
            return None
        if bound >= least * max(1.0, largest):
            return duals
    return None


def _sweep_model(
    loss: Any, most: float, centred: Centred, matrix: Columns, terms: Terms, order: np.ndarray, w: np.ndarray,
    answers: Answers, height: float,
) -> tuple[float, float, float, bool, int]:  # fmt: skip
    """Sweeps over the quadratic model of f, whose rows are dear to ask, and a step towards where they end.

    Groups that the first sweep leaves at 0 are not looked at again (Yuan, Ho and Lin 2012). height: f at w. Returns
    the violations that the first one met, as `sweep` does, f where they end, whether they could do little, and how
    many came after the first.
    """
    before, bends = w.copy(), np.full(order.size, -1.0)
    first, worst = kernel.sweep(most, bends, matrix, terms, order, w, answers)
    order = order[np.add.reduceat(w != 0.0, terms.first[:-1])[order] > 0]
    violation, begun, sweeps = math.inf, 0.0, 0
    for _ in range(1 if centred.softness > 0.0 else SWEEPS):  # rows with kinks soon answer otherwise
        sweeps += 1
        violation, _ = kernel.sweep(most, bends, matrix, terms, order, w, answers)
        begun = begun or violation
        if violation <= SWEPT * begun:
            break
    slow = violation > SWEPT * begun
    direction, share = w - before, 1.0
    for _ in range(kernel.TRIES):
        w[:] = before + share * direction
        new = kernel.meet(loss, centred, matrix, w, answers) + kernel.penalty(terms, w)
        if new <= height + ROUNDING * abs(height):
            return first, worst, new, slow, sweeps
        share *= kernel.BACK
    w[:] = before
    return first, worst, kernel.meet(loss, centred, matrix, w, answers) + kernel.penalty(terms, w), True, sweeps


def first_sigma(problem: Problem, k: int, wakes: float) -> float:
    """The step of the duals that a training begins with; wakes: C so many times as large, weights leave 0."""
    if math.isfinite(largest_bend(problem.loss)):
        return math.inf
    return float(problem.costs[k]) * min(1.0, BEGIN * wakes)
