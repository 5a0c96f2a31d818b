"""Interior points for rows of several tasks: piecewise linear losses, under the largest weight of a column.

A primal-dual method for

    min over w, t of r sum_j t_j + (1 - r)/2 ||W||^2
                     + sum over rows and pieces of max over 0 <= x <= span of (low + x) (height - z),  |w_kj| <= t_j,

with z = a_i.w_k for a row of task k. The variables of a row are eliminated, and leave a matrix (d+1, d+1) for each
task. So are the weights, and leave one matrix for t. Each read moves the variables of its rows, by a length of their
own, and sums up the matrices for the next step. Many rows of large values pull a column, and the pulls of all tasks
together must be 1 at most. Here they are, up to rounding; steps that smooth the loss leave the bound far away.

Source: Wright 1997, chapter 5 (long steps); lengths of each row are our own.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from streammargin.compiled import look as certificate
from streammargin.compiled import newton as kernel
from streammargin.losses.base import has
from streammargin.penalties.outputs import ColumnSizes, Net
from streammargin.points.tasks import by_task
from streammargin.rows.blocks import Block
from streammargin.rows.labels import Labels, RowNumbers, numbered_from
from streammargin.solvers.base import PassReport, matrix_work
from streammargin.solvers.newton.prox_newton import ONLY_LINE
from streammargin.solvers.newton.task_system import System, at_once
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.certified_read import CertifiedByRead, CertifiedState
from streammargin.solvers.proof.sums import LookSums
from streammargin.solvers.roles import GROUPS, TRIALS, Axis, K, N, Rows, Shared, Sum, W, f8, i8, of, state
from streammargin.solvers.state import labels_for, line_of
from streammargin.solvers.visits import Visit

MOST_TASK_COLUMNS = 500  # a matrix of each task is factored in every iteration
STARTS = 0.3  # the first product of a variable with its dual, relative to the mean loss
INSIDE = 0.05  # least relative distance of the first duals from their bounds
CENTRED = 0.1  # the mean product that a step aims at, relative to that of now
BOUNDARY = 0.95  # share of the largest feasible step that is made
FALLS, STUCK = 0.99, 8  # the mean product stays above this share of the least one so often: steps lead nowhere
VECTORS = 24  # temporary vectors of the rows of a block, for each piece of the loss


class DualPiece(NamedTuple):
    """A part of the dual of a loss that is linear, of a row of weight 1: its bounds, and its slope."""

    low: float
    high: float
    slope: float


def pieces_of(loss: Any) -> list[DualPiece] | None:
    """The dual of a loss as a sum of one or two linear pieces, on both sides of 0; None if it is none."""
    if not (has(loss, "feasible") and has(loss, "dual")):
        return None
    low, high = loss.feasible(-math.inf, 1.0), loss.feasible(math.inf, 1.0)
    if not 0.0 < high - low < math.inf:
        return None
    ends, middle = (loss.dual(low, 1.0), loss.dual(high, 1.0)), loss.dual(0.5 * (low + high), 1.0)
    if abs(middle - 0.5 * sum(ends)) <= 1e-12 * (abs(middle) + high - low):
        return [DualPiece(low, high, (ends[1] - ends[0]) / (high - low))]
    if not low < 0.0 < high:
        return None
    sides = [DualPiece(low, 0.0, loss.dual(low, 1.0) / low), DualPiece(0.0, high, loss.dual(high, 1.0) / high)]
    exact = all(abs(loss.dual(0.5 * end, 1.0) - 0.5 * loss.dual(end, 1.0)) <= 1e-12 for end in (low, high))
    return sides if exact and loss.dual(0.0, 1.0) == 0.0 else None


def ratio(problem: Problem) -> float:
    """The share of the norm in the penalty; 0 if that is not the largest weight of a column."""
    penalty = problem.penalty
    if isinstance(penalty, ColumnSizes):
        return 1.0
    return penalty.r if isinstance(penalty, Net) and isinstance(penalty.base, ColumnSizes) else 0.0


def supports(problem: Problem) -> bool:
    """Whether interior points support this problem."""
    if not (problem.outputs.tasks and problem.joint) or problem.path or problem.hard or problem.holders > 1:
        return False
    return problem.features <= MOST_TASK_COLUMNS and ratio(problem) > 0.0 and pieces_of(problem.loss) is not None


def pieces(problem: Problem) -> list[DualPiece]:
    """Those of a problem that is supported."""
    return pieces_of(problem.loss) or []


PIECES = Axis(lambda problem: problem.trials * len(pieces(problem)), name="pieces")


@state
class StepSums(LookSums):
    """Of rows, for the next step: H = A^T diag(bend) A, upper triangles; lacks, pushes: A^T bend of what the rows lack,
    and of what a product of 1 adds to it; products: of variables with their duals, and how many there are.
    """

    H: Sum[f8] = of(K, W, W)
    lacks: Sum[f8] = of(K, W)
    pushes: Sum[f8] = of(K, W)
    products: Sum[f8] = of(GROUPS, 2)


@state
class InteriorPoints(CertifiedState):
    """w: weights, of which t (groups, d+1) are above all sizes, with duals up, down (K, d+1).

    low_gap, high_gap: of each piece of a row the distances of its dual from its bounds; over_kink, under_kink: those of
    its score from the kink; margins: of the last read, one for each value of C. dw: the last step of weights. The
    next read moves them accordingly, towards products `aim` (groups,), by at most the shares `lengths` (groups, 2).
    least: mean product so far; stuck: reads since it fell.
    """

    sums: StepSums
    t: Shared[f8] = of(GROUPS, W)
    up: Shared[f8] = of(K, W)
    down: Shared[f8] = of(K, W)
    dw: Shared[f8] = of(K, W)
    aim: Shared[f8] = of(GROUPS)
    lengths: Shared[f8] = of(GROUPS, 2)
    least: Shared[f8] = of(GROUPS, fill=math.inf)
    stuck: Shared[i8] = of(GROUPS)
    low_gap: Rows[f8] = of(PIECES, N)
    high_gap: Rows[f8] = of(PIECES, N)
    over_kink: Rows[f8] = of(PIECES, N)
    under_kink: Rows[f8] = of(PIECES, N)
    margins: Rows[f8] = of(TRIALS, N)
    reads: int = 0


class TaskRows(NamedTuple):
    """Some rows of a task, with their numbers in the block and their labels as those of line 0."""

    line: int
    rows: Block
    numbers: RowNumbers
    labels: Labels


class TaskGroup(NamedTuple):
    """The rows of a block for a value of C.

    at (m,): which of the block's rows are present; low, span (pieces, m); slope (pieces, 1).
    """

    size: int
    parts: list[TaskRows]
    at: np.ndarray
    low: np.ndarray
    span: np.ndarray
    slope: np.ndarray

    @classmethod
    def of(cls, problem: Problem, state: InteriorPoints, trial: int, block: Block, first: int) -> TaskGroup:
        """These rows; the first has the number `first`."""
        rows, outputs = state.labels.of(slice(first, first + block.rows())), problem.outputs
        labels, start = labels_for(rows, outputs), trial * outputs.tasks
        classes = labels.classes_of(0)
        tasks = outputs.tasks_of(classes)
        caps = outputs.caps[start + tasks, classes] * (classes >= 0)
        caps = caps * rows.weights if rows.weights.size else caps
        at = np.flatnonzero(caps > 0.0)
        parts = [
            TaskRows(start + task, some, numbered_from(own.start) if isinstance(own, slice) else RowNumbers(0, own),
                 line_of(labels, start + task))
            for task, some, own in by_task(block, np.where(caps > 0.0, tasks, -1))
        ]  # fmt: skip
        low, high, slope = (np.array(column)[:, None] for column in zip(*pieces(problem), strict=True))
        return cls(block.rows(), parts, at, low * caps[at], (high - low) * caps[at], slope)

    def products(self, w: np.ndarray) -> np.ndarray:
        """A w (m,) of weights (K, d+1)."""
        found = np.zeros(self.size)
        for line, rows, numbers, labels in self.parts:
            kernel.signed_products(rows, numbers, labels, 0, w[line], found)
        return found[self.at]

    def spread(self, values: np.ndarray) -> np.ndarray:
        """(count,) of numbers (m,); 0 for absent rows."""
        found = np.zeros(self.size)
        found[self.at] = values
        return found


class Moved(NamedTuple):
    """The variables of rows (pieces, m): x, y of their duals, over, under of their scores."""

    x: np.ndarray
    y: np.ndarray
    over: np.ndarray
    under: np.ndarray

    @classmethod
    def first(cls, group: TaskGroup, u: np.ndarray, aim: float) -> Moved:
        """Near the middle, with these products but for rows whose margin u (m,) is elsewhere."""
        x = np.clip(-group.low / group.span, INSIDE, 1.0 - INSIDE) * group.span
        y = group.span - x
        over, under = aim / x, aim / y
        apart = u - group.slope - (over - under)
        return cls(x, y, over + np.maximum(apart, 0.0), under + np.maximum(-apart, 0.0))

    def bend(self) -> np.ndarray:
        """How much the duals change with the scores."""
        return 1.0 / (self.over / self.x + self.under / self.y)

    def push(self) -> np.ndarray:
        """How much farther from the kink a product of 1 puts the scores."""
        return 1.0 / self.x - 1.0 / self.y

    def after(self, group: TaskGroup, u: np.ndarray, aim: float, lengths: np.ndarray) -> Moved:
        """Those after a step: each row as far as it can, and at most by these lengths; u (m,): margins if all could."""
        dx = self.bend() * (group.slope - u + aim * self.push())
        over, under = (aim - self.over * dx) / self.x - self.over, (aim + self.under * dx) / self.y - self.under
        primal = np.minimum(lengths[0], share_within(self.over, over, self.under, under))
        dual = np.minimum(lengths[1], share_within(self.x, dx, self.y, -dx))
        return Moved(self.x + dual * dx, self.y - dual * dx, self.over + primal * over, self.under + primal * under)


def share_within(one: np.ndarray, step: np.ndarray, other: np.ndarray, other_step: np.ndarray) -> np.ndarray:
    """This share of a step, elementwise, keeps numbers above 0; at most 1."""
    return BOUNDARY / np.maximum(BOUNDARY, np.maximum(-step / one, -other_step / other))


class Sizes(NamedTuple):
    """The variables of the weights of a group (lines, d+1): how far t is above them and their negatives, and the duals.

    bound (d+1,): 1, or 0 for a free constant, which has no t.
    """

    left: np.ndarray
    right: np.ndarray
    up: np.ndarray
    down: np.ndarray
    bound: np.ndarray

    @classmethod
    def of(cls, problem: Problem, state: InteriorPoints, trial: int) -> Sizes:
        """Those of a value of C."""
        bound, t = np.ones(problem.features + 1), state.t[trial]
        bound[-1] = not problem.objective.free
        w, up, down = (problem.view(each, trial) for each in (state.w, state.up, state.down))
        left, right, up, down = (np.where(bound > 0.0, each, 1.0) for each in (t - w, t + w, up, down))
        return cls(left, right, up, down, bound)

    def products(self) -> np.ndarray:
        """The sum of the products of variables with their duals, and how many there are."""
        every = self.bound * (self.left * self.up + self.right * self.down)
        return np.array([every.sum(), 2.0 * self.bound.sum() * len(self.up)])

    def bend(self, sign: float) -> np.ndarray:
        """How much the pulls change with t, and with the weights if the sign is -1."""
        return self.bound * (self.up / self.left + sign * self.down / self.right)

    def steps(self, dw: np.ndarray, dt: np.ndarray, near: np.ndarray, far: np.ndarray) -> Sizes:
        """The changes; near, far: the products aimed at over left and right."""
        left, right = self.bound * (dt - dw), self.bound * (dt + dw)
        up = near - self.bound * self.up * (1.0 + left / self.left)
        down = far - self.bound * self.down * (1.0 + right / self.right)
        return Sizes(left, right, up, down, self.bound)


class Interior(CertifiedByRead[InteriorPoints]):
    """Interior points for the tasks of a value of C together: a read is an iteration, and certifies where it is."""

    name = "interior points of newton"

    def reserved_bytes(self, problem: Problem) -> int:
        width = problem.features + 1
        return 8 * (problem.lines * width * (width + 20) + 6 * at_once(width) * width**2)

    def scratch(self, problem: Problem, rows: int, size: int, sparse: bool) -> int:
        return size + 8 * VECTORS * len(pieces(problem)) * rows  # rows in the order of their tasks

    def visit(self, problem: Problem, state: InteriorPoints, active: np.ndarray) -> Visit:
        each = problem.trials * (5.0 + (problem.features + 1) / 2)
        return super().visit(problem, state, active)._replace(square=True, lines=0, cost=each)

    def run_block(self, problem: Problem, state: InteriorPoints, active: np.ndarray, block: Block, first: int) -> None:
        """Move the variables of these rows, and add up what certifies the weights and makes the next step."""
        state.sums.rows += block.rows()
        work = 5.0 * problem.values / problem.rows * block.rows()
        work += matrix_work(0, block.rows(), problem.values / problem.rows)
        state.multiplications += active.size * work
        for trial in active.tolist():
            group = TaskGroup.of(problem, state, trial, block, first)
            with np.errstate(all="ignore"):  # the next step finds values that are no number
                self._visit_rows(problem, state, trial, group, first)

    def _visit_rows(self, problem: Problem, state: InteriorPoints, trial: int, group: TaskGroup, first: int) -> None:
        ends = group.low.sum(axis=0), (group.low + group.span).sum(axis=0)
        if not state.reads:  # the first products are made of the losses
            state.margins[trial, first + group.at] = self._look(problem, state, group, np.clip(0.0, *ends))
            return
        own, at = slice(trial * len(group.low), (trial + 1) * len(group.low)), first + group.at
        kept, u = (state.low_gap, state.high_gap, state.over_kink, state.under_kink), state.margins[trial, at]
        if state.reads == 1:
            moved = Moved.first(group, u, float(state.aim[trial]))
        else:
            before, u = Moved(*(each[own, at] for each in kept)), u + group.products(state.dw)
            moved = before.after(group, u, float(state.aim[trial]), state.lengths[trial])
        for each, values in zip(kept, moved, strict=True):
            each[own, at] = values
        duals = np.clip((group.low + moved.x).sum(axis=0), *ends)
        u = state.margins[trial, at] = self._look(problem, state, group, duals)
        self._add(state.sums, trial, group, moved, u)

    @staticmethod
    def _look(problem: Problem, state: InteriorPoints, group: TaskGroup, duals: np.ndarray) -> np.ndarray:
        """Add the exact sums of the weights and of duals (m,); returns the margins (m,)."""
        read, none, margins = state.sums, np.zeros(1), np.zeros((1, 1, group.size))
        alpha = group.spread(duals)[None]
        for line, rows, numbers, labels in group.parts:
            at = slice(line, line + 1)
            step = certificate.Prox(alpha, alpha, np.full(1, math.inf), none)
            read.add(problem.loss, (rows, numbers, labels), ONLY_LINE, state.w[at], step, at=at, margins=margins)
        return margins[0, 0, group.at]

    @staticmethod
    def _add(read: StepSums, trial: int, group: TaskGroup, moved: Moved, u: np.ndarray) -> None:
        bend = moved.bend()
        slopes = group.spread(bend.sum(axis=0))
        lacks, pushes = (group.spread((bend * each).sum(axis=0)) for each in (group.slope - u, moved.push()))
        read.products[trial] += (moved.x * moved.over + moved.y * moved.under).sum(), 2.0 * bend.size
        for line, rows, numbers, labels in group.parts:
            kernel.add_matrix(rows, numbers, slopes, read.H[line])
            kernel.add_image(rows, numbers, labels, 0, lacks, read.lacks[line])
            kernel.add_image(rows, numbers, labels, 0, pushes, read.pushes[line])

    def end_pass(self, problem: Problem, state: InteriorPoints, active: np.ndarray) -> PassReport:
        if state.sums.rows == problem.rows:  # else it was interrupted
            self.prove(problem, state, active)
            with np.errstate(all="ignore"):
                for trial in active.tolist():
                    (self._step if state.reads else self._begin)(problem, state, trial)
            state.reads += 1
        return self.report(problem, state)

    @staticmethod
    def _begin(problem: Problem, state: InteriorPoints, trial: int) -> None:
        """The first products, by the losses."""
        lines, r = problem.lines_of(trial), ratio(problem)
        losses = float(state.sums.weights[lines, certificate.SUM_OF_LOSSES].sum())
        aim = state.aim[trial] = STARTS * losses / (problem.present * len(pieces(problem))) + 1e-300
        state.t[trial] = np.abs(state.w[lines]).max(axis=0) + 2.0 * problem.lines * aim / r
        state.up[lines] = state.down[lines] = r / (2.0 * problem.lines)

    @staticmethod
    def _step(problem: Problem, state: InteriorPoints, trial: int) -> None:
        """Move the weights, and choose how rows follow at the next read."""
        at, r, read = Sizes.of(problem, state, trial), ratio(problem), state.sums
        w, ridge = problem.view(state.w, trial), (1.0 - r) * at.bound
        off = problem.view(read.pull.sum(axis=1), trial) - at.bound * (at.up - at.down) - ridge * w
        total, count = read.products[trial] + at.products()
        mean, wrong = total / count, (np.abs(off) * np.maximum(np.abs(w), at.bound * state.t[trial])).sum() / count
        enough = problem.tol * abs(state.best.primal[trial]) / count
        aim = max(CENTRED * mean, CENTRED * enough, min(CENTRED * wrong, mean))
        near, far = at.bound * aim / at.left, at.bound * aim / at.right
        system = System(problem.view(read.H, trial), at.bend(1.0), at.bend(-1.0), ridge)
        state.multiplications += 3.0 * len(w) * at.bound.size**3
        lacks = problem.view(read.lacks + aim * read.pushes, trial) + at.bound * (at.up - at.down)
        dw, dt = system.solved(lacks + off - (near - far), (near + far).sum(axis=0) - r * at.bound)
        by = at.steps(dw, dt, near, far)
        state.stuck[trial] = state.stuck[trial] + 1 if mean >= FALLS * state.least[trial] else 0
        state.least[trial] = min(mean, state.least[trial])
        if not all(np.isfinite(each).all() for each in (dw, *by)):
            state.stuck[trial] = STUCK
            return
        state.dw[problem.lines_of(trial)], state.aim[trial] = dw, aim
        primal = float(share_within(at.left, by.left, at.right, by.right).min())
        dual = float(share_within(at.up, by.up, at.down, by.down).min())
        state.lengths[trial] = primal, dual
        w += primal * dw
        state.t[trial] += primal * dt
        problem.view(state.up, trial)[:] += dual * by.up
        problem.view(state.down, trial)[:] += dual * by.down
