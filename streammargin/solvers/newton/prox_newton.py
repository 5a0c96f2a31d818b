"""A Newton step a read, under any penalty with a prox (Lee, Sun and Saunders 2014, SIAM J. Optim. 24).

Each read certifies its weights, and sums up the gradient and the Hessian for the step that follows it. No number of a
row is kept. A loss with a kink is smoothed around fixed centres, the midpoints of the feasible intervals (Nesterov
2005). So the duals are a function of the weights, and feasible, and the proof is exact. Its gap falls with the square
of the softness. The softness falls no further than a step changes the margins. Near the minimum a step also follows the
path of minima.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from streammargin.compiled import look as kernel
from streammargin.errors import DataError
from streammargin.losses.base import coupled, largest_bend, middle_share, smooth
from streammargin.penalties.base import Penalty
from streammargin.penalties.lp import LpSquare
from streammargin.points.tasks import by_task
from streammargin.rows.blocks import Block
from streammargin.rows.labels import Labels, RowLabels, RowNumbers, numbered_from
from streammargin.solvers.base import FOLDS, NUMBERS, PATH, SEVERAL, TASKS, VISIT, PassReport, matrix_work
from streammargin.solvers.columns.constant import constants_alone
from streammargin.solvers.columns.screening import TOO_FAR, proven_zeros
from streammargin.solvers.newton import curved_columns
from streammargin.solvers.newton.model import Curved, QuadraticModel, by_blocks, plain
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.bounds import Bounds, bounds_of_group
from streammargin.solvers.proof.certified_read import CertifiedByRead, CertifiedState
from streammargin.solvers.proof.objectives.base import Objective
from streammargin.solvers.proof.rounding import OF_OBJECTIVE
from streammargin.solvers.roles import GROUPS, K, Kept, Shared, W, b1, clear, f8, i8, of, state
from streammargin.solvers.softness import AIM, AT_WEIGHTS, AT_ZERO, LEAST_FALL, may_soften, next_fall, share_of_softness
from streammargin.solvers.state import labels_for, labels_of, line_of
from streammargin.solvers.visits import Visit

WIDER = 8.0  # times the softness after a step that was too long, as no row was active
OVERSHOT = 0.3  # a step is shortened if the slope at its end exceeds this times the initial descent
SHORTEST_STEP_LEFT, LONGEST_STEP_LEFT = 0.1, 0.9  # shares of a step that may be left when it is shortened
NEARBY = 1e-3  # share of a step over which the slope of R is measured
STAYS = 0.9  # a share above this is 1
EVEN = 24  # times the gap of a row spread evenly over the softened part is its cap times the width of that part
ENOUGH_ACTIVE_ROWS = 2  # for each weight, if the softness falls far from the minimum; 1 under the ridge alone
DAMPING = 1e-3  # first damping of the Hessian, relative to its largest possible diagonal, unless a step is exact
LEAST_DAMPING = 1e-14  # least damping: smaller ones are rounding
EIGEN = 6  # matrices of the size of the Hessian while its eigenvectors are computed


ONLY_LINE = np.zeros(1, np.int64)


@state
class LastStep:
    """The last step: from `start` by `newton_step`, and `path_step` along the path of minima (K, d+1).

    `descent`        minus the slope at its start, inf: not known.
    `active`         rows with a second derivative there.
    `softness_left`  the share of the softness that it left.
    `least_left`     the least share that the next one may leave.

    damping: added to the Hessian, relative to scale (K, d+1), its diagonal at the first read.
    """

    start: Kept[f8]
    newton_step: Kept[f8]
    path_step: Kept[f8]
    scale: Kept[f8]
    descent: Kept[f8] = of(GROUPS, fill=math.inf)
    active: Kept[f8] = of(GROUPS)
    softness_left: Kept[f8] = of(GROUPS, fill=1.0)
    least_left: Kept[f8] = of(GROUPS, fill=LEAST_FALL)
    damping: Kept[f8] = of(GROUPS)


@state
class ProxNewton(CertifiedState):
    """due: groups to step after this read; gap: its objective minus its bound; theta (K, d+1): A^T alpha,
    scaled to be feasible for a free constant; columns (K, m): of H in this read. begun: whether there was a whole read,
    or none with all rows curved is needed.
    """

    sums: Curved
    softness: Shared[f8] = of(GROUPS)
    step: LastStep
    theta: Shared[f8] = of(K, W)
    zeros: Shared[b1] = of(K, W)
    columns: Shared[i8] = of(K, W, shrinks=True)
    due: Shared[b1] = of(GROUPS)
    gap: Kept[f8] = of(GROUPS)
    begun: bool = False
    ended: bool = False


class ProximalNewton(CertifiedByRead[ProxNewton]):
    """Newton steps on F, the objective with softened losses, for centres c:

        F(w) = R(w) + sum_i M_i(w);
        M_i(w) = max over feasible a of dual_i(a) - a u_i - softness (a - c_i)^2 / (2 cap_i).

    The maximising a_i are the proximal steps of the losses (compiled/look.py), and the centres c_i the midpoints of the
    feasible intervals. The smooth part of F has the gradient -A^T a. A^T diag(slope_i) A is a matrix of its generalised
    Hessian. Each read yields both at w, and certifies w and a. Between reads the quadratic model plus R is
    minimised. A step whose slope at its end is too steep is shortened at the next read. Smooth losses have softness 0:
    F is the objective.

    The first read is at w = 0, with the best constant if it is not penalised. It computes the best duals for these
    weights. If they are optimal, so is w = 0. All rows count for its H, which is an upper bound. Under the ridge alone
    w = 0 is never optimal, and the first read is like all others.

    If the penalty leaves most weights 0, the Hessian has some columns only, and a step moves these
    (curved_columns.py). In memory the first read finds them, and makes no step.
    """

    name = "proximal steps of newton"
    requires: ClassVar[tuple[str, ...]] = ("step", "primal", "dual", "gap", "slope")
    couples = ("coupled_step", "coupled_slopes", "coupled_middle")
    takes: ClassVar[tuple[str, ...]] = (NUMBERS, SEVERAL, TASKS, PATH, FOLDS)

    def lacks(self, penalty: Penalty, free: bool) -> str | None:
        able = penalty.proximal or isinstance(penalty, LpSquare)  # the exponent of lp is checked elsewhere
        return None if able else "newton needs the method prox of a penalty, and this one has none"

    def reserved_bytes(self, problem: Problem) -> int:
        shape = (problem.lines, problem.features + 1)[problem.lines == 1 :]  # as `of_group` gives it
        width = math.prod(shape)  # the Hessian, and its part for the nonzero columns, or its eigenvectors
        if by_blocks(problem):
            return 8 * width * (EIGEN * shape[-1] + 16)
        return 8 * width * ((2 if problem.objective.pieces(shape) is not None else EIGEN) * width + 16)

    def start(self, problem: Problem, labels: RowLabels) -> ProxNewton:
        state = super().start(problem, labels)
        state.softness[:] = 0.0 if smooth(problem.loss) else AT_ZERO
        state.step.damping[:] = LEAST_DAMPING if problem.quadratic else DAMPING
        state.begun = plain(problem)
        self._first_constants(problem, state)
        state.columns = curved_columns.at_first(problem)
        return state

    def begin_at(self, problem: Problem, state: ProxNewton, w: np.ndarray) -> None:
        super().begin_at(problem, state, w)
        self._soften_anew(problem, state)
        if state.columns.shape[1] == 1:
            state.columns = curved_columns.of_weights(w)

    @staticmethod
    def _choose_columns(problem: Problem, state: ProxNewton, active: np.ndarray) -> None:
        """Those of the next read, from the sums of this one; after the first exact step it likely certifies alone.

        So it does without a Hessian in memory, where another read costs less.
        """
        if problem.quadratic and problem.resident and not problem.path:
            state.columns = curved_columns.all_from(problem, problem.features if state.number == 1 else 0)
        elif curved_columns.restricts(problem):
            pull = state.sums.pull.sum(axis=1)
            state.columns = curved_columns.following(problem, active, state.w, pull)

    @staticmethod
    def _soften_anew(problem: Problem, state: ProxNewton) -> None:
        """Begin at weights that are not 0."""
        state.softness[:] = 0.0 if smooth(problem.loss) else AT_WEIGHTS
        state.step.softness_left[:], state.step.descent[:], state.step.path_step[:] = 1.0, math.inf, 0.0

    def prologue_passes(self, problem: Problem) -> int:
        return 1 if problem.path else 0

    def prologue_visit(self, problem: Problem, state: ProxNewton, index: int) -> Visit:
        return self.visit(problem, state, np.arange(problem.groups))._replace(begin=self._begin_prologue)

    def _begin_prologue(self, problem: Problem, state: ProxNewton, active: np.ndarray) -> None:
        self._fit_columns(problem, state)
        clear(state.sums)

    def zero_factor(self, problem: Problem, state: ProxNewton) -> float:
        self._choose_columns(problem, state, np.arange(problem.groups))
        found = [bounds_of_group(problem, k, state.w, state.sums).theta for k in range(problem.groups)]
        return min(problem.objective.penalty.zero_factor(problem.objective.penalised(theta)) for theta in found)

    def raise_costs(self, problem: Problem, state: ProxNewton, factor: float) -> None:
        state.step.scale *= factor
        state.zeros[:] = False
        self._soften_anew(problem, state)
        state.best.primal[:], state.best.dual[:] = math.inf, -math.inf

    def begin_pass(self, problem: Problem, state: ProxNewton, active: np.ndarray) -> None:
        state.ended = False
        self._fit_columns(problem, state)
        self._first_constants(problem, state)
        super().begin_pass(problem, state, active)

    @staticmethod
    def _fit_columns(problem: Problem, state: ProxNewton) -> None:
        m = state.columns.shape[1]
        if state.sums.H.shape[1] != m:
            state.sums.H = np.zeros((problem.count, m, m))

    @staticmethod
    def _first_constants(problem: Problem, state: ProxNewton) -> None:
        """Before the first read a free constant is the best one beside weights of 0."""
        alone = problem.objective.free and not (problem.numeric or problem.from_weights)
        if not state.begun and alone and problem.column:
            for k in range(problem.groups):
                problem.view(state.w, k)[:, -1] = constants_alone(problem, k) / problem.column

    def visit(self, problem: Problem, state: ProxNewton, active: np.ndarray) -> Visit:
        m = state.columns.shape[1]
        cost = problem.count * (VISIT + self._joined(problem, state) * m * m / (2 * state.w.shape[1]))
        return super().visit(problem, state, active)._replace(square=m == state.w.shape[1], cost=cost)

    @staticmethod
    def _joined(problem: Problem, state: ProxNewton) -> int:
        """Lines with second derivatives across."""
        return problem.lines if state.sums.crossed.size else 1

    def run_block(self, problem: Problem, state: ProxNewton, active: np.ndarray, block: Block, first: int) -> None:
        """Add the sums of these rows; in the first read with the best duals, and all rows curved."""
        state.sums.rows += block.rows()
        # counts all rows, though only active ones enter the Hessian
        part = state.columns.shape[1] / state.w.shape[1]
        each = matrix_work(0, block.rows(), part * problem.values / problem.rows)
        outputs, labels, lines = problem.outputs, labels_of(problem, state), problem.lines_of(active)
        if not outputs.tasks:
            state.multiplications += self._joined(problem, state) * lines.size * each
            self._add_sums(problem, state, labels, lines, slice(0, problem.count), block, numbered_from(first))
            return
        state.multiplications += lines.size / outputs.tasks * each
        here = labels_for(state.labels.of(slice(first, first + block.rows())), outputs)
        for task, rows, at in by_task(block, outputs.tasks_of(here.classes_of(0))):
            numbers = numbered_from(first + at.start) if isinstance(at, slice) else RowNumbers(first, first + at)
            for line in lines[lines % outputs.tasks == task].tolist():
                self._add_sums(problem, state, line_of(labels, line), ONLY_LINE, slice(line, line + 1), rows, numbers)

    @staticmethod
    def _add_sums(
        problem: Problem, state: ProxNewton, labels: Labels, lines: np.ndarray, at: slice, block: Block,
        numbers: RowNumbers,
    ) -> None:  # fmt: skip
        """Add the sums of rows for the lines of `at`, of which these are active; labels: in the lines of `at`."""
        softness, steepest, read = problem.by_line(state.softness)[at], 0.0, state.sums
        none, centres = np.zeros(softness.size), np.zeros((softness.size, 0))
        if not state.begun:
            if all_curved(problem):
                steepest = 1.0 / (float(state.softness.max(initial=0.0)) + 1.0 / largest_bend(problem.loss))
            softness = none
        step = kernel.Prox(centres, centres, none, softness, steepest=steepest, midway=middle_share(problem.loss))
        diagonal = kernel.EMPTY_LINE[:0] if state.begun else read.diagonal[at]
        H = kernel.Curvature(
            read.H[at], read.crossed, state.columns[at], diagonal, drift=read.drift[at], active=read.active[at]
        )

        def add(some: np.ndarray) -> None:
            read.add(problem.loss, (block, numbers, labels), some, state.w[at], step, H, at)

        # without room for copies of the sums threads share the lines, if these count no mistakes together
        alone = problem.copies < 2 and read.wrong.size == len(state.w)
        shares = max(1, min(lines.size, problem.workers.threads)) if alone else 1
        for _ in problem.workers.each(add, np.array_split(lines, shares)):
            pass

    def skip_remaining(self, problem: Problem, state: ProxNewton) -> None:
        state.due[:] = False

    def end_pass(self, problem: Problem, state: ProxNewton, active: np.ndarray) -> PassReport | float:
        if state.sums.rows < problem.rows:  # interrupted: it proves nothing
            return self.report(problem, state)
        if not state.ended:
            state.ended = True
            self._judge(problem, state, active)
        if state.due.any():
            k = int(np.argmax(state.due))
            self._step(problem, state, k)
            state.due[k] = False
            return 1.0 - float(state.due.sum()) / problem.groups
        state.begun = True
        self._choose_columns(problem, state, active)
        return self.report(problem, state)

    def _judge(self, problem: Problem, state: ProxNewton, active: np.ndarray) -> None:
        """Compute what the pass proves, and which problems make a step."""
        for k, proof in self.prove(problem, state, active).items():
            problem.of_group(state.theta, k)[:] = proof.theta
            state.gap[k] = proof.apart
            if not state.begun:
                self._first_scale(problem, state, k)
            self._find_zeros(problem, state, k, proof)
        unsolved = self.report(problem, state).estimate[active] > problem.tol
        state.due[active] = unsolved & (state.columns.shape[1] > 1 or (state.begun and not problem.quadratic))

    @staticmethod
    def _first_scale(problem: Problem, state: ProxNewton, k: int) -> None:
        """Set the scale from the first read: the Hessian's diagonal, with all rows curved if the loss has kinks."""
        H, scale, theta = (problem.view(each, k) for each in (state.sums.H, state.step.scale, state.theta))
        scale[:] = problem.view(state.sums.diagonal, k)
        if not (np.isfinite(theta).all() and np.isfinite(H).all() and (scale > 0.0)[theta != 0.0].all()):
            raise DataError(TOO_FAR)

    @staticmethod
    def _find_zeros(problem: Problem, state: ProxNewton, k: int, proof: Bounds) -> None:
        """Mark weights proven to be 0, for a loss of bounded curvature; `scale` bounds the Hessian's diagonal."""
        most = largest_bend(problem.loss)
        if most < math.inf and problem.lines == 1:
            bend = state.step.scale[k] * (1.0 if smooth(problem.loss) else 1.0 + AT_ZERO * most)
            state.zeros[k] |= proven_zeros(problem, k, state.best, proof, bend)

    def zeros(self, problem: Problem, state: ProxNewton) -> np.ndarray:
        return state.zeros[:, :-1]

    def _step(self, problem: Problem, state: ProxNewton, k: int) -> None:
        """Set the weights of the next read: where a step from here leads, or one from where the last step began.

        The last step is shortened, with all of the softness, if the slope at its end is too steep.
        """
        step, objective, from_zero = state.step, problem.objective, not (state.begun or problem.from_weights)
        w, start, newton, path_step = self._vectors(problem, state, k)
        down = problem.of_group(state.theta if from_zero else state.sums.pull.sum(axis=1), k)
        damping = float(step.damping[k] * problem.of_group(step.scale, k).max())
        model = QuadraticModel(problem, state.sums, k, problem.view(state.columns, k)[0], damping)
        risen = slope_of_penalty(objective, w, -newton)
        slope = -risen - float(np.vdot(down, newton))
        if not path_step.any() and slope > OVERSHOT * step.descent[k] + OF_OBJECTIVE * float(abs(state.best.primal[k])):
            curvature = float(np.vdot(newton, model.times(newton))) - risen - slope_of_penalty(objective, start, newton)
            self._shorten(state, k, newton, slope, curvature)
        else:
            self._go_on(problem, state, k, model, down)
        w[:] = objective.inside(start + newton + path_step)
        state.multiplications += model.work

    @staticmethod
    def _vectors(problem: Problem, state: ProxNewton, k: int) -> Iterator[np.ndarray]:
        """The weights of a group, where its last step began, and the two parts of that step."""
        step = state.step
        return (problem.of_group(each, k) for each in (state.w, step.start, step.newton_step, step.path_step))

    def _go_on(self, problem: Problem, state: ProxNewton, k: int, model: QuadraticModel, down: np.ndarray) -> None:
        """Make the last step again, or one from here: by Newton, and then along the path of minima."""
        step = state.step
        w, start, newton, path_step = self._vectors(problem, state, k)
        p = model.step(-down, w)
        product = model.times(p)
        curvature = float(np.vdot(p, product))
        moved = self._moved(problem, state, k, curvature)
        if moved > 1.0 and path_step.any():
            self._follow_less(state, k, path_step)
            return
        # of an upper bound there is no descent to check
        checked = state.begun or not all_curved(problem)
        slope = float(np.vdot(down, p)) - slope_of_penalty(problem.objective, w, p)
        step.descent[k] = slope if checked else math.inf
        step.active[k] = float(problem.view(state.sums.active, k).sum())
        step.damping[k] = max(0.25 * step.damping[k], LEAST_DAMPING)
        R = problem.objective.regulariser
        fall = R(problem.objective.inside(w + p)) - R(w) - float(np.vdot(down, p))
        start[:], newton[:], path_step[:], step.softness_left[k] = w, p, 0.0, 1.0
        near = self._soften(problem, state, k, moved, -(fall + 0.5 * curvature), int(np.count_nonzero(w + p)))
        astray = step.least_left[k] >= STAYS and not plain(problem)  # the path led nowhere, as a vertex has it
        step.least_left[k] = next_fall(float(step.least_left[k]))
        if near and step.softness_left[k] < 1.0:
            if astray:
                step.descent[k] = math.inf  # the next slope says nothing of this step
            else:
                self._follow_path(problem, state, k, model, product - down)

    @staticmethod
    def _gap_and_goal(problem: Problem, state: ProxNewton, k: int) -> tuple[float, float]:
        """(What the softening costs a group, the gap that it is to reach)."""
        gap = float(problem.view(state.sums.weights, k)[:, kernel.SUM_OF_GAPS].sum())
        return gap, problem.tol * float(abs(state.best.primal[k]))

    def _moved(self, problem: Problem, state: ProxNewton, k: int, curvature: float) -> float:
        """How far a step of this curvature changes the margins of active rows, in widths of the softened part."""
        gap, goal = self._gap_and_goal(problem, state, k)
        # under a loss of all scores rows may be active and have no gap
        spread = EVEN * (max(gap, AIM * goal) if coupled(problem.loss) else gap)
        return math.sqrt(max(0.0, curvature) / spread) if spread > 0.0 else math.inf

    def _soften(self, problem: Problem, state: ProxNewton, k: int, moved: float, decrease: float, nonzero: int) -> bool:
        """Choose the softness at the end of a step; returns whether it begins near the minimum for its softness.

        decrease: of the model; nonzero: weights at the end.
        """
        gap, goal = self._gap_and_goal(problem, state, k)
        share = max(moved, share_of_softness(gap, goal, float(state.step.least_left[k])))
        # with few rows for each weight the quadratic model is accurate only nearby
        enough = share * float(state.step.active[k]) >= (1 if plain(problem) else ENOUGH_ACTIVE_ROWS) * nonzero
        enough |= decrease == 0.0  # no step is left at this softness
        near = may_soften(decrease, gap) and (enough or plain(problem))
        near |= may_soften(float(state.gap[k]) - gap, gap)
        self._leave(state, k, share if near or enough else 1.0)
        return near

    @staticmethod
    def _follow_path(problem: Problem, state: ProxNewton, k: int, model: QuadraticModel, slope: np.ndarray) -> None:
        """Add to a Newton step what the minimum moves as the softness falls; slope: of the model at its end.

        On the path of minima the margins of active rows stay in proportion to the softness, so that their duals hardly
        change. What it adds to a step is in proportion to the share of the softness that goes.
        """
        step, left = state.step, float(state.step.softness_left[k])
        start, newton, path_step = (
            problem.of_group(each, k) for each in (step.start, step.newton_step, step.path_step)
        )
        turned = slope + (1.0 - 1.0 / left) * problem.of_group(state.sums.drift, k)
        model.H *= 1.0 / left
        path_step[:] = model.step(turned, start + newton)

    def _follow_less(self, state: ProxNewton, k: int, path_step: np.ndarray) -> None:
        """Make the last step again with a larger share of the softness, as it followed the path of minima too far."""
        step, before = state.step, float(state.step.softness_left[k])
        self._leave(state, k, math.sqrt(before))
        path_step *= (1.0 - step.softness_left[k]) / (1.0 - before)
        step.least_left[k] = max(step.least_left[k], min(step.softness_left[k], STAYS))

    @staticmethod
    def _leave(state: ProxNewton, k: int, share: float) -> None:
        """Set the softness to a share of that where the step begins."""
        share = share if share <= STAYS else 1.0
        state.softness[k] *= share / state.step.softness_left[k]
        state.step.softness_left[k] = share

    def _shorten(self, state: ProxNewton, k: int, newton: np.ndarray, slope: float, curvature: float) -> None:
        """Take back a part of the last step; all of it, with a larger softness, if no row was active there."""
        step, share = state.step, 0.0
        self._leave(state, k, 1.0)
        if step.active[k] == 0 and state.softness[k] > 0.0:
            state.softness[k] *= WIDER
        else:
            share = share_left(float(step.descent[k]), slope, curvature)
        newton *= share
        step.descent[k] *= share
        step.damping[k] *= 4.0
        step.least_left[k] **= 0.5


def all_curved(problem: Problem) -> bool:
    """Whether the first read counts all rows with their largest curvature; else the Hessian is that at the weights."""
    return not (coupled(problem.loss) and smooth(problem.loss))


def slope_of_penalty(objective: Objective, w: np.ndarray, p: np.ndarray) -> float:
    """The slope of R at w along p."""
    return (objective.regulariser(objective.inside(w + NEARBY * p)) - objective.regulariser(w)) / NEARBY


def share_left(descent: float, slope: float, curvature: float) -> float:
    """The share of a step to keep: where the cubic through the slopes -descent and slope at its ends is 0.

    Its derivatives there are descent, as a Newton step has it, and curvature.
    """
    low, high = 0.0, 1.0
    for _ in range(40):
        t = 0.5 * (low + high)
        s = 1.0 - t
        value = s * s * ((1.0 + 2.0 * t) * -descent + t * descent) + t * t * ((3.0 - 2.0 * t) * slope - s * curvature)
        low, high = (t, high) if value < 0.0 else (low, t)
    return min(max(low, SHORTEST_STEP_LEFT), LONGEST_STEP_LEFT)
