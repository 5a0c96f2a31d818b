"""Interior points for rows of several tasks in memory: piecewise linear losses, under the largest weight of a column.

Mehrotra's method (1992) for

    min over W, t of r sum_j t_j + (1 - r)/2 ||W||^2
                     + sum over rows and pieces of max over 0 <= x <= span of (low + x) (height - z),  |w_kj| <= t_j,

with z = a_i.w_k for a row of task k. The variables of a row are eliminated, and leave a matrix (d+1, d+1) for each
task. So are the weights, and leave one matrix for t. An iteration sums up these matrices once, and has two products
with all rows beside. Many rows of large values pull a column, and the pulls of all tasks together must be 1 at most.
Here they are, up to rounding; steps that smooth the loss leave the bound far away.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
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
from streammargin.solvers.columns.interior import linear
from streammargin.solvers.columns.prox_newton import A_ROW, ONE
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.look import CertifiedByLook, LookedAt
from streammargin.solvers.proof.rounding import blur
from streammargin.solvers.roles import GROUPS, Axis, K, N, Rows, Shared, W, clear, f8, i8, of, state
from streammargin.solvers.state import labels_of, line_of
from streammargin.solvers.visits import Visit

MOST = 500  # most columns: a matrix of each task is factored in every iteration
STARTS = 0.3  # the first complementarity product, relative to the mean loss
INSIDE = 0.05  # least relative distance of the first duals from their bounds
BOUNDARY = 0.95  # share of the largest feasible step that is made
SHORT = 0.01  # steps below this share of their length lead nowhere,
STUCK = 5  # if so many follow each other
LEAST = (1e-15, 1e-13, 1e-11, 1e-9)  # added to the diagonal of a matrix with a diagonal of 1, until it has a factor
REFINED = 2  # corrections of a solution by what it misses


class Piece(NamedTuple):
    """A part of the dual of a loss that is linear, of a row of weight 1: its bounds, and its slope."""

    low: float
    high: float
    slope: float


def pieces_of(loss: Any) -> list[Piece] | None:
    """The dual of a loss as a sum of one or two linear pieces, on both sides of 0; None if it is none."""
    whole = linear(loss)
    if whole is not None:
        return [Piece(*whole)]
    if not (has(loss, "feasible") and has(loss, "dual")):
        return None
    low, high = loss.feasible(-math.inf, 1.0), loss.feasible(math.inf, 1.0)
    if not -math.inf < low < 0.0 < high < math.inf:
        return None
    sides = [Piece(low, 0.0, loss.dual(low, 1.0) / low), Piece(0.0, high, loss.dual(high, 1.0) / high)]
    exact = all(abs(loss.dual(0.5 * end, 1.0) - 0.5 * loss.dual(end, 1.0)) <= 1e-12 for end in (low, high))
    return sides if exact and loss.dual(0.0, 1.0) == 0.0 else None


def ratio(problem: Problem) -> float:
    """The share of the norm in the penalty; 0 if that is not the largest weight of a column."""
    penalty = problem.penalty
    if isinstance(penalty, ColumnSizes):
        return 1.0
    return penalty.r if isinstance(penalty, Net) and isinstance(penalty.base, ColumnSizes) else 0.0


def suits(problem: Problem) -> bool:
    """Whether interior points support this problem."""
    if not (problem.outputs.tasks and problem.resident and problem.joint) or problem.path or problem.hard:
        return False
    return problem.features <= MOST and ratio(problem) > 0.0 and pieces_of(problem.loss) is not None


PIECES = Axis(lambda problem: problem.trials * len(pieces_of(problem.loss) or ()), name="pieces")


@state
class InteriorPoints(LookedAt):
    """w: weights, of which t (groups, d+1) are above all sizes, with duals up, down (K, d+1).

    Of the rows: alpha, scores (one for each value of C), and for each piece low_gap, high_gap, the distances of its
    duals from their bounds, with over_kink, under_kink, those of the scores from the kink. stuck: short steps in a row.
    """

    t: Shared[f8] = of(GROUPS, W)
    up: Shared[f8] = of(K, W)
    down: Shared[f8] = of(K, W)
    alpha: Rows[f8] = of(A_ROW, N)
    scores: Rows[f8] = of(A_ROW, N)
    low_gap: Rows[f8] = of(PIECES, N)
    high_gap: Rows[f8] = of(PIECES, N)
    over_kink: Rows[f8] = of(PIECES, N)
    under_kink: Rows[f8] = of(PIECES, N)
    stuck: Shared[i8] = of(GROUPS)
    begun: bool = False


class Group(NamedTuple):
    """The rows of a value of C, and what products with them need.

    at (m,): the numbers of those present; low, span, height (pieces, m); lines: of the weights.
    """

    problem: Problem
    block: Block
    labels: Labels
    tasks: np.ndarray
    lines: slice
    at: np.ndarray
    low: np.ndarray
    span: np.ndarray
    height: np.ndarray

    def parts(self) -> Iterator[tuple[int, Labels, Block, RowNumbers]]:
        """(task, its labels as those of line 0, some of its rows, their numbers)."""
        for task, rows, at in by_task(self.block, self.tasks):
            numbers = numbered_from(at.start) if isinstance(at, slice) else RowNumbers(0, at)
            yield task, line_of(self.labels, self.lines.start + task), rows, numbers

    def spread(self, values: np.ndarray) -> np.ndarray:
        """(n,) of numbers (m,) of the rows present; 0 for the others."""
        found = np.zeros(self.tasks.size)
        found[self.at] = values
        return found

    def pulled(self, duals: np.ndarray) -> np.ndarray:
        """A^T duals (tasks, d+1) of duals (m,)."""
        found, duals = np.zeros((self.problem.outputs.tasks, self.problem.features + 1)), self.spread(duals)
        for task, labels, rows, numbers in self.parts():
            kernel.add_image(rows, numbers, labels, 0, duals, found[task])
        return found

    def products(self, w: np.ndarray) -> np.ndarray:
        """A w (m,) of weights (tasks, d+1)."""
        found = np.zeros(self.tasks.size)
        for task, labels, rows, numbers in self.parts():
            kernel.signed_products(rows, numbers, labels, 0, w[task], found)
        return found[self.at]

    def matrices(self, slopes: np.ndarray) -> np.ndarray:
        """A^T diag(slopes) A (tasks, d+1, d+1) of slopes (m,)."""
        width = self.problem.features + 1
        found, slopes = np.zeros((self.problem.outputs.tasks, width, width)), self.spread(slopes)
        for task, _, rows, numbers in self.parts():
            kernel.add_matrix(rows, numbers, slopes, found[task])
        return found + np.triu(found, 1).swapaxes(1, 2)


class System:
    """The equations of a step, once x and the variables of the weights are eliminated:

    (H_k + diag(D_k)) dw_k - E_k dt = b_k for each task, and sum_k D_k dt - sum_k E_k dw_k = c.
    """

    def __init__(self, H: np.ndarray, D: np.ndarray, E: np.ndarray, ridge: np.ndarray) -> None:
        on = np.arange(H.shape[1])
        H[:, on, on] += D + ridge
        H[:, on, on] += H[:, on, on] == 0.0  # a column without values
        self.H, self.D, self.E = H, D, E
        self.scale = 1.0 / np.sqrt(H[:, on, on])
        self.L = factored(self.scale[:, :, None] * H * self.scale[:, None, :])
        self.V = np.linalg.solve(self.L, (self.scale * E)[:, :, None] * np.eye(on.size))
        S = np.diag(D.sum(axis=0)) - np.einsum("kij,kil->jl", self.V, self.V)
        S[on, on] += S[on, on] <= 0.0  # a constant that is not penalised has no t
        self.root = 1.0 / np.sqrt(np.diagonal(S))
        self.S = self.root[:, None] * S * self.root

    def solved(self, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(dw, dt), improved by what they miss."""
        dw, dt = self._once(b, c)
        for _ in range(REFINED):
            left = b - (np.einsum("kij,kj->ki", self.H, dw) - self.E * dt)
            more = self._once(left, c - (self.D.sum(axis=0) * dt - (self.E * dw).sum(axis=0)))
            dw, dt = dw + more[0], dt + more[1]
        return dw, dt

    def _once(self, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        u = np.linalg.solve(self.L, (self.scale * b)[:, :, None])
        c = c + np.einsum("kij,kil->j", self.V, u)
        dt = self.root * np.linalg.solve(self.S, self.root * c)
        u = np.linalg.solve(self.L, (self.scale * (b + self.E * dt))[:, :, None])
        return self.scale * np.linalg.solve(self.L.swapaxes(1, 2), u)[:, :, 0], dt


def factored(scaled: np.ndarray) -> np.ndarray:
    """Cholesky factors of matrices (tasks, d+1, d+1) with a diagonal of 1, to which as little as possible is added."""
    on = np.arange(scaled.shape[1])
    for least in LEAST:
        with suppress(np.linalg.LinAlgError):
            scaled[:, on, on] += least
            return np.linalg.cholesky(scaled)
    return np.full(scaled.shape, math.nan)


def longest(values: Sequence[np.ndarray], steps: Sequence[np.ndarray], share: float) -> float:
    """This share of the largest step that keeps all values above 0, at most 1."""
    falls = [float(np.max(-step / value, initial=0.0)) for value, step in zip(values, steps, strict=True)]
    return share / max(share, *falls)


class Interior(CertifiedByLook[InteriorPoints]):
    """Interior points for the tasks of a value of C together, an iteration a pass, certified after each."""

    name = "interior points of newton"
    numeric = True
    of_tasks = True
    requires = ("step", "primal", "dual", "feasible")
    state_class = InteriorPoints

    def supports(self, penalty: Any, free: bool) -> bool:
        return True  # `suits` has looked

    def reserved_bytes(self, problem: Problem) -> int:
        width = problem.features + 1  # four matrices of each task, and vectors of rows
        pieces = len(pieces_of(problem.loss) or ())
        return 8 * problem.lines * width * (5 * width + 20) + 8 * 30 * pieces * problem.rows

    def visit(self, problem: Problem, state: InteriorPoints, active: np.ndarray) -> Visit:
        return super().visit(problem, state, active)._replace(lines=0)

    def run_block(self, problem: Problem, state: InteriorPoints, active: np.ndarray, block: Block, first: int) -> None:
        """Step, and add up what certifies the new weights and duals."""
        clear(state.look)
        state.look.rows += block.rows()
        state.multiplications += 5.0 * active.size * problem.values
        for trial in active.tolist():
            group = self._group(problem, state, trial, block)
            own = slice(trial * len(group.low), (trial + 1) * len(group.low))
            if not state.begun:
                self._begin(problem, state, trial, group, own)
            else:
                with np.errstate(all="ignore"):  # what is no number is seen by the length of the step
                    self._step(problem, state, trial, group, own)
            self._look(problem, state, trial, group)
        state.begun = True

    def _group(self, problem: Problem, state: InteriorPoints, trial: int, block: Block) -> Group:
        labels, outputs, count = state.labels, problem.outputs, problem.outputs.tasks
        codes = labels.codes
        caps = outputs.caps[trial * count + outputs.tasks_of(codes), codes] * (codes >= 0)
        caps = caps * labels.weights if labels.weights.size else caps
        at = np.flatnonzero(caps > 0.0)
        low, high, slope = (np.array(column)[:, None] for column in zip(*self._pieces(problem), strict=True))
        height = slope + (labels.targets[at] if labels.targets.size else np.zeros(at.size))
        tasks = np.where(caps > 0.0, outputs.tasks_of(codes), -1)
        lines = slice(trial * count, (trial + 1) * count)
        return Group(
            problem, block, labels_of(problem, state), tasks, lines, at, low * caps[at], (high - low) * caps[at], height
        )

    @staticmethod
    def _pieces(problem: Problem) -> list[Piece]:
        found = pieces_of(problem.loss)
        assert found is not None
        return found

    @staticmethod
    def _begin(problem: Problem, state: InteriorPoints, trial: int, group: Group, own: slice) -> None:
        """The first point: weights of 0, and duals near 0."""
        low, span, height, r = group.low, group.span, group.height, ratio(problem)
        mu = STARTS * float(np.mean(np.abs(height) * span)) + 1e-300
        x = np.clip(-low / span, INSIDE, 1.0 - INSIDE) * span
        over, under = mu / x, mu / (span - x)
        apart = -height - (over - under)
        at = group.at
        state.low_gap[own, at], state.high_gap[own, at] = x, span - x
        state.over_kink[own, at], state.under_kink[own, at] = (
            over + np.maximum(apart, 0.0),
            under + np.maximum(-apart, 0.0),
        )
        state.alpha[trial, at] = (low + x).sum(axis=0)
        state.t[trial] = 2.0 * problem.lines * mu / r
        state.up[group.lines] = state.down[group.lines] = r / (2.0 * problem.lines)

    @staticmethod
    def _step(problem: Problem, state: InteriorPoints, trial: int, group: Group, own: slice) -> None:
        """One iteration: a step towards the solution says how far to aim, and what its products miss."""
        at, lines, r = group.at, group.lines, ratio(problem)
        x, y, over, under = (
            each[own, at] for each in (state.low_gap, state.high_gap, state.over_kink, state.under_kink)
        )
        w, t, up, down, z = state.w[lines], state.t[trial], state.up[lines], state.down[lines], state.scores[trial, at]
        bound = np.ones(w.shape[1])
        bound[-1] = 0.0 if problem.objective.free else 1.0
        up, down = up * bound, down * bound
        left, right = t - w, t + w
        bend = 1.0 / (over / x + under / y)
        ease, tilt = bound * (up / left + down / right), bound * (up / left - down / right)
        ridge = (1.0 - r) * bound
        system = System(group.matrices(bend.sum(axis=0)), ease, tilt, ridge)
        state.multiplications += matrix_work(0, at.size, problem.values / problem.rows)
        state.multiplications += problem.lines * 3.0 * w.shape[1] ** 3
        off = group.pulled((group.low + x).sum(axis=0)) - (up - down) - ridge * w
        lacks = group.height - z + over - under
        lacking = bound * r - (up + down).sum(axis=0)

        def direction(wanted: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
            """(dw, dz, changes of left, right, over, under and of their duals) that change the products so much."""
            first, second, third, fourth = wanted
            lack = lacks + third / x - fourth / y
            pulls = bound * (first / left - second / right)
            b = group.pulled((bend * lack).sum(axis=0)) + off - pulls
            c = (bound * (first / left + second / right)).sum(axis=0) - lacking
            dw, dt = system.solved(b, c)
            dz = group.products(dw)
            dx = bend * (lack - dz)
            return dw, dz, [
                dt - dw, dt + dw, (third - over * dx) / x, (fourth + under * dx) / y,
                bound * (first - up * (dt - dw)) / left, bound * (second - down * (dt + dw)) / right, dx, -dx,
            ]  # fmt: skip

        some = bound > 0.0
        values = [left[:, some], right[:, some], over, under, up[:, some], down[:, some], x, y]

        def told(changes: Sequence[np.ndarray]) -> list[np.ndarray]:
            """The bounds."""
            return [each[:, some] if k in (0, 1, 4, 5) else each for k, each in enumerate(changes)]

        def lengths(changes: Sequence[np.ndarray], share: float) -> tuple[float, float]:
            return longest(values[:4], changes[:4], share), longest(values[4:], changes[4:], share)

        products = [left * up, right * down, over * x, under * y]
        count = sum(each.size for each in values[:4])
        mu = sum(float(np.sum(a * b)) for a, b in zip(values[:4], values[4:], strict=True)) / count
        _, _, ahead = direction([-each for each in products])
        far = lengths(told(ahead), 1.0)
        moved = [value + far[k > 3] * by for k, (value, by) in enumerate(zip(values, told(ahead), strict=True))]
        aim = mu * (sum(float(np.sum(a * b)) for a, b in zip(moved[:4], moved[4:], strict=True)) / count / mu) ** 3
        dw, dz, changes = direction(
            [aim - each - a * b for each, a, b in zip(products, ahead[:4], ahead[4:], strict=True)]
        )
        one, other = lengths(told(changes), BOUNDARY)
        finite = all(np.isfinite(each).all() for each in (dw, *changes))
        state.stuck[trial] = state.stuck[trial] + 1 if not finite or max(one, other) < SHORT else 0
        if not finite:
            state.stuck[trial] = STUCK
            return
        dt = 0.5 * (changes[0] + changes[1])[0]
        state.w[lines], state.t[trial], state.scores[trial, at] = w + one * dw, t + one * dt, z + one * dz
        state.up[lines], state.down[lines] = up + other * changes[4], down + other * changes[5]
        state.over_kink[own, at], state.under_kink[own, at] = over + one * changes[2], under + one * changes[3]
        state.low_gap[own, at], state.high_gap[own, at] = x + other * changes[6], y + other * changes[7]
        state.alpha[trial, at] = (group.low + state.low_gap[own, at]).sum(axis=0)

    @staticmethod
    def _look(problem: Problem, state: InteriorPoints, trial: int, group: Group) -> None:
        """Add the exact sums of the weights and duals as they are."""
        read, none = state.look, np.zeros(1)
        ends = (group.low.sum(axis=0), (group.low + group.span).sum(axis=0))
        state.alpha[trial, group.at] = np.clip(state.alpha[trial, group.at], *ends)
        own = slice(trial, trial + 1)
        for task, labels, rows, numbers in group.parts():
            line = slice(group.lines.start + task, group.lines.start + task + 1)
            w = state.w[line]
            certificate.look(
                rows, numbers, labels, problem.loss, ONE, certificate.Point(w[None], none[None], blur(w)[None]),
                certificate.Prox(state.alpha[own], state.alpha[own], np.full(1, math.inf), none),
                certificate.Found(
                    read.weights[None, line], read.duals[line], read.pull[line], read.wrong[None], class_sums=read.own,
                    parts=read.parts,
                ),
            )  # fmt: skip

    def end_pass(self, problem: Problem, state: InteriorPoints, active: np.ndarray) -> PassReport:
        self.prove(problem, state, active)
        return self.report(problem, state)
