"""Newton's method, as a succession: what the steps on all rows start from, and what follows where they lead nowhere.

start -> momentum -> steps      rows in memory: after some passes, unless steps from a sample are cheaper
start ----> steps (a sample)
near -----> steps               rows out of core: those near the margin stay in memory, while that leads on
steps ----> ascent              where steps are stuck
proximal                        alone: other penalties, a free constant, numbers, losses with fewer methods
"""

from __future__ import annotations

import math

import numpy as np

from streammargin.errors import UsageError
from streammargin.losses.base import has, smooth
from streammargin.penalties.base import Penalty
from streammargin.penalties.lp import LpSquare
from streammargin.solvers.base import PassReport, Stage
from streammargin.solvers.cache.rows import RowCache
from streammargin.solvers.columns.prox_newton import ProximalNewton
from streammargin.solvers.coordinate.dual_ascent import Ascent, DualAscent
from streammargin.solvers.coordinate.momentum import Momentum, MomentumAscent
from streammargin.solvers.coordinate.plain import Plain, PlainAscent
from streammargin.solvers.newton import sample
from streammargin.solvers.newton.near_margin import NearMargin, NearState, enough_room
from streammargin.solvers.newton.steps import Steps, steps_between_looks, work_of_step
from streammargin.solvers.newton.steps_state import StepsState, find_largest, move_centres
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.best import Best
from streammargin.solvers.roles import K, Shared, f8, new, of, state
from streammargin.solvers.succession import Succession, passes_left

START = 6  # passes of coordinate ascent where no sample can start the steps: they bring duals and weights near enough
START_MOST = 20  # of them at most while it is about to get there by itself, as it may not
START_NEAR = 12.0  # times the tolerance: an estimate that is about to get there; steps would cost half as much again
COLUMNS = 200  # with more of them a step costs as much as more such passes, and passes come before a sample too
TAKEN = 15  # steps whose multiplications momentum must beat to go on, where no sample starts them
SAMPLED = 3, 8  # the same where one does, which leaves fewer: of dense rows; of sparse ones or a smooth loss
PASS_WORK = 7  # multiplications that a value costs in such a pass: it waits for memory, as a matrix does not
A_VISIT = 10  # values that a visit of a row takes as long as, beside its own, where duals rest at their bounds
A_SEARCH = 750  # where they never do, as those of the logistic loss: it is a search for the best dual
MOST = 400  # passes until the steps begin: a training has 1000, if nothing else is said
PROGRESS = 0.9  # a gap that has not fallen to this part of what it was has not moved
PATIENCE = 40  # passes without that until coordinate ascent takes over: a smaller softness moves it again late
RESIDENT = 8  # the same in memory, where a pass is many steps, unless the softness falls, as at a huge C it does long
READS = 8  # the same of rows near the margin, before steps of all rows take over: these are dearer than a few reads
DOWNHILL = 0.1  # of the tolerance: an objective of a smooth loss that falls by it moves, though no bound shows it yet
LEAST_SAMPLE = 5  # rows of a sample to start from, at least, in multiples of the columns: fewer say nothing of all

CALLED = (*DualAscent.requires, "slope", "distance", "curvature_bound")  # methods of a loss, by all but `proximal`

# the last one is in float64 whatever the rows are, so that weights keep their certificates
ASCENT, MOMENTUM = Plain(precise=False), Momentum(precise=False)
NEAR, STEPS, LAST = NearMargin(), Steps(), Momentum(precise=True)
PROXIMAL = ProximalNewton()


@state
class Stall:
    """passes: since a gap fell; marks, lowest (K,): what gaps and objectives were then; as_soft: passes since the
    softness (K,) fell.
    """

    passes: int = 0
    marks: Shared[f8] = of(K, fill=math.inf)
    lowest: Shared[f8] = of(K, fill=math.inf)
    softness: Shared[f8] = of(K, fill=math.inf)
    as_soft: int = 0


@state
class Watch:
    """estimate: of coordinate ascent, when it was last looked at."""

    estimate: float = math.inf
    stall: Stall


class Newton(Succession):
    """Second-order steps, a few reads at any C; finite C, few columns; l2, l1, elasticnet, groups, a free constant.

    Each read sums up, at the weights w, the slope g of the objective and the matrix H of its second derivatives:
        alpha_i <- the dual of the loss, softened towards where alpha_i was (a smooth loss needs no softening)
        g <- w - sum_i alpha_i y_i x_i,   H <- 1 + sum_i slope_i x_i x_i^T,   and the duality gap of w and alpha
        w <- w - t H^-1 g, the step t shortened where the objective rises; the softness falls as the gap does
    It starts from a sample of the rows, from coordinate ascent, or from the rows near the margin.
    With a penalty that has kinks, or numbers, the step is the minimum of R and the quadratic model instead.
    Where steps lead nowhere, coordinate ascent goes on from their duals.

    Source: Lee, Sun and Saunders 2014 (proximal Newton); Li, Sun and Toh 2018 (semismooth steps on the dual).
    """

    name = "newton"
    numeric = True
    requires = ProximalNewton.requires
    takes = ProximalNewton.takes
    watch = Watch

    def takes_proximal(self, problem: Problem) -> bool:
        """Whether penalty, constant, numbers, a path over C or the loss ask for these steps."""
        lp = problem.penalty is None or isinstance(problem.penalty, LpSquare)
        plain = lp and not (problem.free or problem.numeric or problem.path)
        return not plain or not all(has(problem.loss, method) for method in CALLED)

    def serves(self, penalty: Penalty, free: bool) -> bool:
        return PROXIMAL.serves(penalty, free)

    def needs(self, penalty: Penalty) -> str:
        return PROXIMAL.needs(penalty)

    def check(self, problem: Problem) -> None:
        super().check(problem)
        if problem.p != 2.0:
            raise UsageError(
                f"{self.name} knows the norm p = 2 only, not {problem.p:.6g}; use `penalty=l2` or `solver=sdca`"
            )
        if problem.hard:
            raise UsageError(f"{self.name} needs a finite C; for the hard margin, C = inf, use `solver=auto`")

    def stages(self) -> dict[str, Stage]:
        return {
            "start": Stage(ASCENT, leave=leave_start),
            "momentum": Stage(
                MOMENTUM, lambda problem, before, watch: MOMENTUM.follow(problem, before), leave_momentum
            ),
            "near": Stage(NEAR, leave=leave_near),
            "steps": Stage(STEPS, enter_steps, leave_steps),
            "ascent": Stage(LAST, enter_ascent),
            "proximal": Stage(PROXIMAL),
        }

    def first(self, problem: Problem) -> str:
        if self.takes_proximal(problem):
            return "proximal"
        if not problem.resident:
            return "near" if enough_room(problem, LEAST_SAMPLE) else "steps"
        if sample.takes_all(problem):
            return "steps"
        sampled = sample.samples(problem) or smooth(problem.loss)
        return "start" if problem.features > COLUMNS or not sampled else "steps"

    def memory(self, problem: Problem) -> int:
        """Ascent is still there while the steps set out from its duals; rows near the margin are gone by then."""
        first = self.first(problem)
        if first == "proximal":
            return PROXIMAL.memory(problem)
        later = max(STEPS.memory(problem), LAST.memory(problem))
        if first == "start":
            return max(ASCENT.memory(problem), MOMENTUM.memory(problem)) + later
        return max(NEAR.memory(problem), later) if first == "near" else later

    def prologue_passes(self, problem: Problem) -> int:
        return PROXIMAL.prologue_passes(problem) if self.takes_proximal(problem) else 0


def leave_start(problem: Problem, state: PlainAscent, watch: Watch, report: PassReport, active: np.ndarray) -> str:
    """Steps from a sample, where ascent takes longer than these; else momentum after some passes."""
    number, estimate = state.number, float(report.estimate[active].max(initial=0.0))
    more = max(1.0, problem.features / COLUMNS)
    near = estimate <= START_NEAR * problem.tol and number < START_MOST * more
    if sample.samples(problem) and far(problem, watch, number, estimate) and not near:
        return "steps"
    return "momentum" if number >= START * more and not near else ""


def leave_momentum(
    problem: Problem, state: MomentumAscent, watch: Watch, report: PassReport, active: np.ndarray
) -> str:  # fmt: skip
    """Steps, where momentum takes longer than these."""
    estimate = float(report.estimate[active].max(initial=0.0))
    return "steps" if far(problem, watch, state.number, estimate) else ""


def leave_near(problem: Problem, state: NearState, watch: Watch, report: PassReport, active: np.ndarray) -> str:
    """Steps on all rows, where those kept say too little of the others.

    Where there is room for few, or the loss is smooth and near to its quadratic model everywhere, that is so from the
    start, and they are the sample that the weights start from.
    """
    lost = smooth(problem.loss) or stuck(problem, state.best, watch.stall, active) >= READS or not enough_room(problem)
    return "steps" if lost else ""


def leave_steps(problem: Problem, state: StepsState, watch: Watch, report: PassReport, active: np.ndarray) -> str:
    """Coordinate ascent, where no gap falls any more, nor the softness."""
    stall = watch.stall
    if (state.softness < stall.softness).any():
        stall.as_soft = 0
    stall.softness, passes = state.softness.copy(), stuck(problem, state.best, stall, active)
    stall.as_soft += 1
    patience = max(RESIDENT, PATIENCE // steps_between_looks(problem, active)) if problem.resident else PATIENCE
    return "ascent" if passes >= PATIENCE or min(passes, stall.as_soft) >= patience else ""


def enter_steps(problem: Problem, before: Ascent | NearState, watch: Watch) -> StepsState:
    """From the sample that is to be drawn, or from duals and weights so far; best weights and bounds stay."""
    watch.stall = new(Stall, problem)
    after = STEPS.start(problem, before.labels)
    after.best = before.best
    after.best.w = before.best.w.astype(np.float64, copy=False)
    if isinstance(before, NearState):
        _follow_near(problem, before, after)
    elif not sample.samples(problem):
        _follow_ascent(problem, before, after)
    return after


def _follow_near(problem: Problem, before: NearState, after: StepsState) -> None:
    """From here on one step a read with the matrix of all rows."""
    before.rows = RowCache()
    after.bound = before.bound
    after.w[:] = before.w if before.number == 1 else before.best.w
    if not smooth(problem.loss):
        after.alpha = before.alpha
        if before.number == 1:
            after.softness = before.softness


def _follow_ascent(problem: Problem, before: Ascent, after: StepsState) -> None:
    if isinstance(before, MomentumAscent):
        for k in range(problem.count):
            MOMENTUM.restart(problem, before, k)
    after.w[:] = before.theta
    if smooth(problem.loss):
        return
    after.alpha = before.alpha.astype(np.float64, copy=False)
    for k in range(problem.count):
        # nearly separable rows at a large C: their duals are far from the caps, and so should a step be
        find_largest(problem, after, k)
        largest, cap = float(after.largest[k, 0]), float(problem.caps[k].max())
        after.softness[k] *= cap / largest if largest > 0.0 else 1.0


def enter_ascent(problem: Problem, before: StepsState, watch: Watch) -> MomentumAscent:
    """From the duals that the last look attained; bounds and best weights stay."""
    if smooth(problem.loss):
        before.alpha = np.zeros((problem.count, problem.rows))
    for k in range(problem.count):
        move_centres(problem, before, k)
    after = new(
        MomentumAscent, problem, np.float64, labels=before.labels, alpha=before.alpha, theta=before.look.image,
        best=before.best,
    )  # fmt: skip
    after.constant.centre = before.w[:, -1].copy()
    return LAST.set_out(problem, after)


def far(problem: Problem, watch: Watch, number: int, estimate: float) -> bool:
    """Whether coordinate ascent takes more passes than second-order steps would, by how its estimate falls.

    That is looked at after twice as many passes each time.
    """
    left = 0.0
    taken = SAMPLED[problem.sparse or smooth(problem.loss)] if sample.samples(problem) else TAKEN
    visit = A_VISIT if problem.loss.settled(0.0, 1.0) else A_SEARCH
    most = min(MOST, taken * work_of_step(problem) / (PASS_WORK * (problem.values + visit * problem.rows)))
    if number & (number - 1) == 0:
        left = passes_left(watch.estimate, estimate, number // 2, problem.tol)
        watch.estimate = estimate
    return number + left >= most


def stuck(problem: Problem, best: Best, stall: Stall, active: np.ndarray) -> int:
    """How many passes have gone by without the gap of any problem falling to a part of what it was.

    Of smooth losses without the objective falling either: that is what their steps go by, and with separable rows at
    a large C there is no bound before it is near the optimum.
    """
    apart = best.primal - best.dual
    stall.passes += 1
    for k in active:
        if apart[k] < PROGRESS * stall.marks[k]:
            stall.marks[k], stall.passes = apart[k], 0
        if smooth(problem.loss) and best.primal[k] < (1.0 - DOWNHILL * problem.tol) * stall.lowest[k]:
            stall.lowest[k], stall.passes = best.primal[k], 0
    return stall.passes
