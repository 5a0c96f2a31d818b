"""Subgradient steps while the penalty falls (homotopic paper, Algorithm 1, Corollary 3.2, section 6).

Units. The largest row has the norm `radius`. 30 gave the narrowest margin interval of 1, 3, 10, 30 and 100, or nearly
so, after 600 passes over each of four sets; 1 gave the widest. Rows are x / u. The constants of Theorem 3.1 are then
L <= 2 radius and lambda' / u^2, where lambda' is that of the rows as they are. The bound is one of ||v - u w*||.
Relative to ||u w*|| its first term shrinks with u^2, its second one with u^-2. units=paper has u = 1.

Schedule. The paper's proof is for lambda_s = s^-p. Section 6.2 only names the other decays. They take alpha
from p, and C from Lemma 4.3 with their lambda_0.

Certificate. v = sum c_i a_i / u with c >= 0. The mass is the sum of c, and c / mass is a point of the simplex. So
u v / mass is a point of the hull of the rows. In a whole pass, the mean of the rows inside the margin is another.
If no hyperplane separates the rows, neither comes to 0 fast: like sqrt(lambda_s) to lambda_s, which is k^-1/12 to
k^-1/6 after k steps. The nearest point of the segments between them does (space.py).

The pass that evaluated the best iterate has its sums, so it needs no pass of its own. With stochastic steps F_lambda is
estimated on the group. A pass starts from where an outer iteration has just ended, or from
the iterate; the best of them is reported.
"""

from __future__ import annotations

import math
from typing import ClassVar, TypeVar

import numpy as np

from streammargin.compiled import homotopic as kernel
from streammargin.compiled import row_norms as norms
from streammargin.compiled.order import permutation
from streammargin.compiled.vectors import mix
from streammargin.errors import DataError, UsageError
from streammargin.kinds import Number, Whole, Word, YesNo
from streammargin.rows.blocks import Block, values_of
from streammargin.rows.labels import RowLabels, numbered_from
from streammargin.solvers.base import IN_ONE_PLACE
from streammargin.solvers.papers.hinge_pass import Hinge, HingePass, look
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import Axis, K, Shared, W, f8, of, state
from streammargin.solvers.space import Hull, hull_bound, hull_rounding
from streammargin.solvers.state import labels_of
from streammargin.solvers.visits import Visit
from streammargin.words import entry

M = TypeVar("M", bound="Homotopic")

# a stochastic step shrinks all d + 1 weights, so its rows should have at least this many times as many values
VALUES_PER_WEIGHT = 4
DECAYS = ("power", "log", "exponential")  # as POWER_DECAY and the like of the kernel
PLAIN_RANGE = 1e-100, 1e100  # of the largest norm of a row that is taken as it is
INSIDE, HINGE = 2, 3  # further columns of the figures: rows with a_i.w <= 1, and the sum of the hinge losses
LEAST_GROUP_ROWS = 16  # on which F_lambda is estimated


LANDED = Axis(lambda problem: problem.features + 2, name="d+2")


@state
class HomotopicState(Hinge):
    """v: the iterate for rows in units of `unit`; its mass is in `carried`, both the same mixture of the rows.

    kept: the sum of the iterates, or the best one, then with its kept_pull and kept_inside; landed: end point of an
    outer iteration of stochastic steps, and its mass; shown: outer iterations done when w was taken; shown_mass: of w.
    """

    hull: Hull
    v: Shared[f8]
    kept: Shared[f8]
    carried: Shared[f8] = of(K, kernel.CARRIED)
    kept_pull: Shared[f8] = of(K, W)
    kept_inside: Shared[f8] = of(K)
    landed: Shared[f8] = of(K, LANDED)
    shown: Shared[f8] = of(K)
    shown_mass: Shared[f8] = of(K)


def add_subgradients(
    problem: Problem, state: Hinge, active: np.ndarray, block: Block, first: int, scale: float
) -> None:
    """Add the rows with a_i.w <= 1, times scale, to the pull of the problems in `active`, and all to the figures."""
    for seen, margins in look(problem, state, block, first):
        inside, figures = margins <= 1.0, state.sums.figures
        figures[:, INSIDE] += np.count_nonzero(inside, axis=1)
        figures[:, HINGE] += np.sum(np.where(inside, 1.0 - margins, 0.0), axis=1)
        for k in active:
            seen.add(k, scale * inside[k], state.sums.pull[k])


class Homotopic(HingePass[HomotopicState]):
    """Subgradient steps on the hinge while its penalty falls; C = inf, l2; slow; stops by the margin gap.

    Outer iteration s = s0, s0 + 1, ... has t = s^r steps. Its penalty is lambda = s^-p, the size of a step eta_s.
    A step is
        v <- (1 - lambda eta_s) v + (eta_s / n) sum of the y_i x_i with y_i x_i.v <= 1.
    It ends with the mean of its iterates, or with the best one (average=no), where the next begins.
    With stochastic, each step takes the rows of one group in place of all; with group=1, one row.
    Rows are divided so that the largest has norm 30; the paper's method, units=paper, takes them as they are. Every
    pass certifies the weights that it starts from.
    `v` over the sum of the multiples is a point of the hull of the rows, and bounds the margin from above.

    Source: homotopic paper, Algorithm 1, Corollary 3.2, section 6.
    """

    name = "homotopic"
    average: bool = entry(True, YesNo(), "end an outer iteration with the mean of its iterates; no: with the best one")
    stochastic: bool = entry(False, YesNo(), "a step for each group of rows; no: a step for each pass", kw_only=True)
    s0: float = entry(
        10.0, Number("a number above 2, at most 1e6", lambda value: 2.0 < value <= 1e6), "the first s", kw_only=True
    )
    p: float = entry(
        0.5, Number("a number between 0 and 1", lambda value: 0.0 < value < 1.0), "lambda is s^-p", kw_only=True
    )
    r: float = entry(
        2.0, Number("a number above 2 p, at most 10", lambda value: 0.0 < value <= 10.0), "s^r steps", kw_only=True
    )
    decay: str = entry("power", Word(DECAYS), "lambda is s^-p, 1/log s or base^(s - s0)", kw_only=True)
    base: float = entry(
        0.9, Number("a number between 0 and 1", lambda value: 0.0 < value < 1.0), "for decay=exponential", kw_only=True
    )
    units: str = entry("scaled", Word(("scaled", "paper")), "scaled: rows of norm 30 at most; paper: as they are",
        kw_only=True,
    )  # fmt: skip
    group: int | None = entry(
        None, Whole(1), "rows of a stochastic step; none: as many as shrinking all weights is worth", kw_only=True
    )
    radius: ClassVar[float] = 30.0

    def checked(self: M) -> M:
        made = super().checked()
        if made.group is not None and not made.stochastic:
            raise UsageError("the parameter group of homotopic is for stochastic steps; write stochastic as well")
        if made.r <= 2.0 * made.p:
            raise UsageError(
                f"the parameter r of homotopic must be above 2 p, which is {2.0 * made.p:g}, not {made.r:g}"
            )
        penalty, _, eta = kernel.rates(0.0, made.schedule())
        if eta * penalty > 1.0:  # v would not be a sum of rows with positive multiples
            raise UsageError(f"the first step of homotopic times its lambda is {eta * penalty:.3g}, above 1: raise s0")
        return made

    def schedule(self) -> kernel.Schedule:
        return kernel.Schedule(self.s0, self.p, self.r, DECAYS.index(self.decay), self.base)

    @property
    def whole(self) -> str:
        return IN_ONE_PLACE if self.stochastic else ""

    def visit(self, problem: Problem, state: HomotopicState, active: np.ndarray) -> Visit:
        visit = super().visit(problem, state, active)
        return visit._replace(alone=self.stochastic)

    def unit(self, state: HomotopicState) -> float:
        """The number that rows are divided by."""
        return 1.0 if self.units == "paper" else self.largest_norm(state) / self.radius

    def length(self, state: HomotopicState) -> float:
        """The largest norm of a row in units."""
        return self.largest_norm(state) if self.units == "paper" else self.radius

    def check_scale(self, state: HomotopicState) -> None:
        super().check_scale(state)
        low, high = PLAIN_RANGE
        size = self.largest_norm(state)
        if self.units == "paper" and not low <= size <= high:
            raise DataError(f"the largest row has the norm {size:.3g}, too far from 1 as it is; use `solver=homotopic`")

    def start(self, problem: Problem, labels: RowLabels) -> HomotopicState:
        state = super().start(problem, labels)
        state.carried[:, kernel.BEST_OBJECTIVE] = math.inf
        return state

    def hull_rounding(self, state: HomotopicState) -> float:
        return hull_rounding(state.hull)

    def begin_pass(self, problem: Problem, state: HomotopicState, active: np.ndarray) -> None:
        if self.stochastic:
            fresh = state.carried[:, kernel.OUTER_DONE] > state.shown  # an outer iteration ended in the last pass
            state.shown = state.carried[:, kernel.OUTER_DONE].copy()
            state.shown_mass = np.where(fresh, state.landed[:, -1], state.carried[:, kernel.ITERATE_MASS])
            state.w = np.where(fresh[:, None], state.landed[:, :-1], state.v) / self.unit(state)
        super().begin_pass(problem, state, active)

    def run_block(self, problem: Problem, state: HomotopicState, active: np.ndarray, block: Block, first: int) -> None:
        state.sums.seen += block.rows()
        scale = 1.0 / self.unit(state)
        add_subgradients(problem, state, active[: 0 if self.stochastic else None], block, first, scale)
        if self.stochastic:
            rows = block.rows()
            entries = values_of(block).size + rows
            worth = max(LEAST_GROUP_ROWS, math.ceil(VALUES_PER_WEIGHT * (problem.features + 1) * rows / entries))
            group = min(rows, self.group or worth)
            order = permutation(-(-rows // group), problem.seed, state.number, first)
            kernel.stochastic_block(
                block, numbered_from(first), labels_of(problem, state), order, group, active, self.schedule(),
                self.average, scale, state.v, state.kept, state.landed, state.carried,
            )  # fmt: skip

    def move(self, problem: Problem, state: HomotopicState, active: np.ndarray) -> np.ndarray:
        sums, unit, stochastic = state.sums, self.unit(state), self.stochastic
        mass = state.shown_mass if stochastic else state.carried[:, kernel.ITERATE_MASS].copy()
        upper = np.full(problem.count, math.inf)
        for k in active:
            if mass[k] > 0.0:
                upper[k] = unit * hull_bound(problem, state.hull, k, unit / mass[k], state.w[k], self.length(state))
            if not stochastic:
                inside = sums.figures[k, INSIDE]
                if inside > 0.0:
                    bound = hull_bound(problem, state.hull, k, 1.0 / inside, sums.pull[k], self.length(state))
                    upper[k] = min(upper[k], unit * bound)
                self._step(problem, state, k)
                np.multiply(state.v[k], 1.0 / unit, out=state.w[k])
        return upper

    def _step(self, problem: Problem, state: HomotopicState, k: int) -> None:
        """One step of the full method, the end of an outer iteration included."""
        c, v, kept, figures = state.carried[k], state.v[k], state.kept[k], state.sums.figures[k]
        rows = float(state.row_norms[norms.PRESENT_ROWS])
        pull, inside = state.sums.pull[k], figures[INSIDE]
        average = self.average
        penalty, steps, eta = kernel.rates(c[kernel.OUTER_DONE], self.schedule())
        if not average and c[kernel.INNER_DONE] > 0.0:
            objective = 0.5 * penalty * float(v @ v) + figures[HINGE] / rows
            if objective < c[kernel.BEST_OBJECTIVE]:
                c[kernel.BEST_OBJECTIVE], c[kernel.KEPT_MASS] = objective, c[kernel.ITERATE_MASS]
                kept[:], state.kept_pull[k], state.kept_inside[k] = v, pull, inside
            if c[kernel.INNER_DONE] >= steps:  # continue from the best iterate, whose subgradient is known
                v[:], pull, inside = kept, state.kept_pull[k], state.kept_inside[k]
                c[kernel.ITERATE_MASS], c[kernel.BEST_OBJECTIVE], c[kernel.INNER_DONE] = (
                    c[kernel.KEPT_MASS],
                    math.inf,
                    0.0,
                )
                c[kernel.OUTER_DONE] += 1.0
                penalty, steps, eta = kernel.rates(c[kernel.OUTER_DONE], self.schedule())
        mix(1.0 - penalty * eta, v, eta / rows, pull)
        c[kernel.ITERATE_MASS] = (1.0 - penalty * eta) * c[kernel.ITERATE_MASS] + eta * inside / rows
        c[kernel.INNER_DONE] += 1.0
        if average:
            mix(1.0, kept, 1.0, v)
            c[kernel.KEPT_MASS] += c[kernel.ITERATE_MASS]
            if c[kernel.INNER_DONE] >= steps:
                v[:] = kept / steps
                c[kernel.ITERATE_MASS] = c[kernel.KEPT_MASS] / steps
                kept[:] = c[kernel.KEPT_MASS] = c[kernel.INNER_DONE] = 0.0
                c[kernel.OUTER_DONE] += 1.0
