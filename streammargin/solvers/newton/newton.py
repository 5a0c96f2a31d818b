"""Newton's method as a succession of stages.

ascent ---> steps               in memory, many columns: coordinate ascent first, then Newton steps;
near -----> proximal            out of core: cached rows near the margin, or a sample; then a Newton step a read;
sampled                         out of core, a smooth loss of all lines whose Hessian is too wide: a step a read, too;
conjugate -> steps, proximal    in memory, a smooth loss under the ridge, many columns: steps by products first;
proximal                        the only stage: other penalties, a free constant, regression, losses with fewer methods;
interior -> proximal            tasks, a loss with corners under l1inf: an iteration of interior points a read first;
rows -----> conjugate, proximal in memory, one loss of all lines under the ridge: steps on the duals of a row first.
"""

from __future__ import annotations

import math
from typing import ClassVar, TypeVar

import numpy as np

from streammargin.compiled.coupled_ascent import VISITS
from streammargin.errors import Refusal
from streammargin.losses.base import coupled, has, smooth
from streammargin.penalties.base import Penalty
from streammargin.solvers.base import Method, PassReport, Stage, matrix_work
from streammargin.solvers.cache.rows import RowCache
from streammargin.solvers.coordinate.ascent import AscentWatch as Estimated
from streammargin.solvers.coordinate.ascent import predicted_left
from streammargin.solvers.coordinate.coupled import Coupled, CoupledAscent
from streammargin.solvers.coordinate.dual_ascent import DualAscent
from streammargin.solvers.coordinate.momentum import Momentum, MomentumAscent
from streammargin.solvers.linear import LinearSolver, LinearState
from streammargin.solvers.newton import conjugate, sample, sampled, task_interior, truncated
from streammargin.solvers.newton.conjugate import Conjugate, ConjugateState
from streammargin.solvers.newton.near_margin import NearMargin, NearState, enough_rows_fit, reaches_far, sample_fits
from streammargin.solvers.newton.prox_newton import ProximalNewton, ProxNewton
from streammargin.solvers.newton.sampled import Sampled
from streammargin.solvers.newton.steps import TAKE_STEP, Steps, StepsState, work_of_step
from streammargin.solvers.newton.task_interior import Interior, InteriorPoints
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import state
from streammargin.solvers.softness import AT_WEIGHTS

FIRST_ASCENT_PASSES = 6  # before its end is predicted, for CHEAP_STEP_COLUMNS columns, without a sample
CHEAP_STEP_COLUMNS = 200  # with more, passes of ascent come before a step, but for smooth losses
TAKEN_JOINT = 8  # assumed number of steps for all lines together
TAKEN = 15  # assumed number of Newton steps without a sample
TAKEN_WITH_SAMPLE = 6  # the same with a sample
PASS_WORK = 7  # cost of a value in a pass of ascent, in multiplications of a matrix product, as it waits for memory
A_VISIT = 10  # overhead of a row's visit for each line, in values
SUMMED = 4000  # most columns of a Hessian that other machines send
MOST_ASCENT_PASSES = 400  # before Newton steps
SLOWS = 2.0  # times as many passes are left as the fall so far predicts, as steps on rows slow down
RATE = 4  # passes of steps on rows whose fall tells how many are left
CACHED_SOFTNESS = 0.1  # of the softness at given weights: at those of cached rows, whose margins are nearly right
HALF = 0.5  # of the budget: products leave room for a Hessian that takes no more
STUCK = 20  # passes of products, or of cached rows, before steps with a Hessian take over
BESIDE = 32 << 20  # bytes of a budget for blocks and all else beside the state, at most

CALLED = (*DualAscent.requires, "slope", "distance", "curvature_bound")  # loss methods needed except by `proximal`

ASCENT = Momentum(precise=False)
NEAR_STAGE, STEPS_STAGE = NearMargin(), Steps()
PROXIMAL, CONJUGATE = ProximalNewton(), Conjugate()
ROWS_STAGE: Coupled[CoupledAscent] = Coupled()
F = TypeVar("F", bound=LinearState)
ON_SAMPLE, INTERIOR = Sampled(), Interior()
FREED = "near", "interior"  # stages whose arrays are freed before the next one begins


@state
class Watch(Estimated):
    """estimate: gap estimate of coordinate ascent at the last prediction."""

    estimate: float = math.inf


class Newton(Method):
    """Second-order steps, a few reads at any C; finite C, few columns; l2, l1, elasticnet, groups, a free constant.

    Each read computes gradient g and second derivatives H at w:
        alpha_i <- the dual of the loss, softened towards the old alpha_i;
        g <- w - sum_i alpha_i y_i x_i;   H <- 1 + sum_i slope_i x_i x_i^T, with the duality gap of w and alpha;
        w <- w - t H^-1 g, with t shortened if the objective rises; the softness falls with the gap.
    A smooth loss needs no softening.
    It starts from a sample of the rows, from coordinate ascent, or from the rows near the margin.
    For penalties with kinks, and for regression, the step minimises R and the quadratic model instead.

    Source: Lee, Sun and Saunders 2014 (proximal Newton); Li, Sun and Toh 2018 (semismooth steps on the dual).
    """

    name = "newton"
    requires: ClassVar[tuple[str, ...]] = ProximalNewton.requires
    couples = ProximalNewton.couples
    takes: ClassVar[tuple[str, ...]] = ProximalNewton.takes
    watch: ClassVar[type | None] = Watch
    whole = ""

    def lacks(self, penalty: Penalty, free: bool) -> str | None:
        return PROXIMAL.lacks(penalty, free)

    def check(self, problem: Problem) -> None:
        super().check(problem)
        if problem.hard:
            raise Refusal(f"{self.name} needs a finite C", "for the hard margin, C = inf, use `solver=auto`")
        if problem.holders > 1 and (width := problem.lines * (problem.features + 1)) > SUMMED:
            wrong = (
                f"{self.name} on several machines adds up matrices of {width} x {width} numbers, and {SUMMED} is the"
            )
            raise Refusal(f"{wrong} most", "use `solver=ascent`, or pdprox")

    def stages(self) -> dict[str, Stage]:
        return {
            "ascent": Stage(ASCENT, leave=leave_ascent),
            "near": Stage(NEAR_STAGE, leave=leave_near),
            "steps": Stage(STEPS_STAGE, enter_steps),
            "rows": Stage(ROWS_STAGE, leave=leave_rows),
            "conjugate": Stage(CONJUGATE, enter_conjugate, leave=leave_conjugate),
            "sampled": Stage(ON_SAMPLE),
            "interior": Stage(INTERIOR, leave=leave_interior),
            "proximal": Stage(PROXIMAL, enter_proximal),
        }

    def route(self, problem: Problem) -> tuple[str, ...]:
        return route(problem)

    def memory(self, problem: Problem) -> int:
        """A stage begins beside the arrays of the one before, unless these are freed."""
        stages, most, before = self.stages(), 0, 0
        for name in route(problem):
            own = stages[name].solver.memory(problem)
            most, before = max(most, before + own), 0 if name in FREED else own
        return most

    def remark(self, problem: Problem) -> str:
        first = route(problem)[0]
        if first == "interior":
            return "; loss and penalty have corners, so each read is an iteration of interior points"
        if problem.resident:
            return ""
        kept = "no number of a row is kept"
        if first == "sampled":
            return f"; each read makes a step on a sample of some {int(sampled.capacity(problem))} rows, and {kept}"
        if first != "near" or smooth(problem.loss) or not enough_rows_fit(problem):
            return f"; each read makes a step, and {kept}"
        return f"; {kept}, but rows near the margin are, if enough of them fit into memory; else each read makes a step"

    def wants_memory(self, problem: Problem) -> int:
        left_out = task_interior.supports(problem) and not inside(problem)
        return INTERIOR.memory(problem) + BESIDE if left_out else 0

    def prologue_passes(self, problem: Problem) -> int:
        return PROXIMAL.prologue_passes(problem) if takes_proximal(problem) else 0


def route(problem: Problem) -> tuple[str, ...]:
    """The stages that a training may come to, in turn."""
    if problem.holders > 1:  # a read is all that they need to do
        return ("proximal",)
    if sampled.suits(problem):
        return ("sampled",)
    products = ("conjugate", *after_products(problem)) if conjugate.suits(problem) else ()
    if begins_by_rows(problem):
        return ("rows", *(products or ("proximal",)))
    if products:
        return products
    if inside(problem):
        return ("interior", "proximal") if goes_on(problem) else ("interior",)
    if takes_proximal(problem):
        return ("proximal",)
    if problem.resident:
        return ("ascent", "steps") if begins_by_ascent(problem) else ("steps",)
    enough = not smooth(problem.loss) and enough_rows_fit(problem)
    near = enough if problem.from_weights else sample_fits(problem)
    return ("near", "proximal") if near else ("proximal",)


def begins_by_ascent(problem: Problem) -> bool:
    """Whether passes of ascent come first, in memory: steps are expensive. Given weights take their place.

    Under a smooth loss they take two to six times as long as steps from the sample.
    """
    given = problem.from_weights or sample.takes_all(problem)
    return problem.features > CHEAP_STEP_COLUMNS and not (given or smooth(problem.loss))


def inside(problem: Problem) -> bool:
    """Whether interior points come first: they support the problem, and what they keep of rows fits."""
    return task_interior.supports(problem) and INTERIOR.memory(problem) <= problem.budget


def goes_on(problem: Problem) -> bool:
    """Whether there is room for steps that follow interior points."""
    return PROXIMAL.memory(problem) <= problem.budget


def takes_proximal(problem: Problem) -> bool:
    """Whether the penalty, a free constant, regression, a path over C or the loss requires the stage `proximal`."""
    other = problem.free or problem.numeric or problem.path or problem.joint or problem.outputs.tasks
    return bool(other) or not (problem.lp and all(has(problem.loss, method) for method in CALLED))


def begins_by_rows(problem: Problem) -> bool:
    """Whether steps on all duals of a row come first: they cost a hundredth of a step with a Hessian.

    With few columns products are cheap enough to begin with.
    """
    if conjugate.suits(problem) and problem.features <= CHEAP_STEP_COLUMNS:
        return False
    given = problem.from_weights or problem.path
    return coupled(problem.loss) and problem.resident and problem.ridge and not (problem.free or given)


def leave_rows(problem: Problem, state: CoupledAscent, watch: Watch, report: PassReport, active: np.ndarray) -> str:
    """Switch to steps with a Hessian when these are predicted to cost less than the passes that are left."""
    estimate = float(report.estimate[active].max(initial=0.0))
    lines, rows = problem.lines, problem.rows
    after = route(problem)[1]
    a_step = matrix_work(lines * (problem.features + 1), rows, lines * (problem.values / rows + 1))
    if after == "conjugate":
        if state.number < RATE:
            return ""
        a_step = conjugate.ASSUMED_PRODUCTS * conjugate.product(problem)
    awake = max(1.0, float(state.figures[:, VISITS].sum())) / (rows * active.size)
    a_pass = awake * PASS_WORK * lines * (problem.values + A_VISIT * rows)
    most = TAKEN_JOINT * a_step / a_pass
    left = SLOWS * predicted_left(problem, watch, state.number, estimate)
    return after if state.number + left >= most else ""


def following(solver: LinearSolver[F], problem: Problem, before: LinearState) -> F:
    """The first state of a solver, with the best weights and bounds of the one before."""
    after = solver.start(problem, before.labels)
    after.best, after.best_w = before.best, before.best_w.astype(np.float64, copy=False)
    return after


def enter_conjugate(problem: Problem, before: CoupledAscent, watch: Watch) -> ConjugateState:
    """The state of steps by products, from the weights of the last pass."""
    after = following(CONJUGATE, problem, before)
    CONJUGATE.begin_at(problem, after, ROWS_STAGE.weights(problem, before))
    return after


def after_products(problem: Problem) -> tuple[str, ...]:
    """The stage that follows products which lead nowhere: steps with a Hessian, if there is room for it."""
    if CONJUGATE.memory(problem) + PROXIMAL.memory(problem) > HALF * problem.budget:
        return ()
    return ("proximal",) if takes_proximal(problem) else ("steps",)


def leave_conjugate(
    problem: Problem, state: ConjugateState, watch: Watch, report: PassReport, active: np.ndarray
) -> str:
    """Switch to steps with a Hessian if products cost as much, or make many steps or passes."""
    many = state.newton.made >= max(1, truncated.MOST_STEPS) or state.number >= STUCK
    return next(iter(after_products(problem)), "") if conjugate.dear(problem, state) or many else ""


def leave_interior(
    problem: Problem, state: InteriorPoints, watch: Watch, report: PassReport, active: np.ndarray
) -> str:
    """Switch to steps that smooth the loss if interior points lead nowhere."""
    stuck = bool((state.stuck[active] >= task_interior.STUCK).any())
    report.still = stuck and not goes_on(problem)
    return "proximal" if stuck and goes_on(problem) else ""


def enter_proximal(
    problem: Problem, before: NearState | CoupledAscent | ConjugateState | InteriorPoints, watch: Watch
) -> ProxNewton:
    """The state of a Newton step a read, from the weights of the stage before if they are near the optimum.

    Steps of products are, and cached rows, whose cache is freed. Others may be far worse than 0: if rows are taken
    for sure that are not, the Hessian is too small.
    """
    after = following(PROXIMAL, problem, before)
    if isinstance(before, NearState):
        before.rows = RowCache()
        PROXIMAL.begin_at(problem, after, before.w if before.number == 1 else before.best_w)
        after.softness *= CACHED_SOFTNESS if enough_rows_fit(problem) else 1.0
    elif isinstance(before, (ConjugateState, InteriorPoints)):
        PROXIMAL.begin_at(problem, after, after.best_w)
    return after


def leave_ascent(problem: Problem, state: MomentumAscent, watch: Watch, report: PassReport, active: np.ndarray) -> str:
    """Switch to Newton steps when ascent is predicted to cost more; without a sample after some passes only."""
    number, estimate = state.number, float(report.estimate[active].max(initial=0.0))
    if number < FIRST_ASCENT_PASSES * problem.features / CHEAP_STEP_COLUMNS and not sample.samples(problem):
        return ""
    return "steps" if newton_is_cheaper(problem, watch, number, estimate) else ""


def leave_near(problem: Problem, state: NearState, watch: Watch, report: PassReport, active: np.ndarray) -> str:
    """Switch to a Newton step a read after STUCK passes of cached rows.

    If too few rows fit, or the loss is smooth, that is right after the first pass, with its weights as a start.
    If very many rows lie at the margin, the cached ones may reach far from it at first only.
    """
    near = enough_rows_fit(problem) and reaches_far(problem, state)
    return "proximal" if smooth(problem.loss) or state.number >= STUCK or not near else ""


def enter_steps(problem: Problem, before: MomentumAscent | ConjugateState, watch: Watch) -> StepsState:
    """The state of Newton steps, from a sample or from the duals and weights so far, with best weights and bounds."""
    after = following(STEPS_STAGE, problem, before)
    if isinstance(before, ConjugateState):
        STEPS_STAGE.begin_at(problem, after, after.best_w)
        after.step[:] = TAKE_STEP
    elif not sample.samples(problem):
        _follow_ascent(problem, before, after)
    return after


def _follow_ascent(problem: Problem, before: MomentumAscent, after: StepsState) -> None:
    for k in range(problem.count):
        ASCENT.restart(problem, before, k)
    after.w[:] = before.theta
    after.alpha = before.alpha.astype(np.float64, copy=False)
    for k in range(problem.count):
        # for nearly separable rows at a large C the duals are far below the caps, and steps should be small too
        largest, cap = float(after.alpha[k].max(initial=0.0)), problem.outputs.largest_cap(k)
        after.softness[k] = AT_WEIGHTS * (cap / largest if largest > 0.0 else 1.0)


def newton_is_cheaper(problem: Problem, watch: Watch, number: int, estimate: float) -> bool:
    """Whether ascent is predicted to take more passes in all than Newton steps cost: their number x a step / a pass."""
    steps = TAKEN_WITH_SAMPLE if sample.samples(problem) else TAKEN
    cost = steps * work_of_step(problem) / (PASS_WORK * (problem.values + A_VISIT * problem.rows))
    return number + predicted_left(problem, watch, number, estimate) >= min(MOST_ASCENT_PASSES, cost)
