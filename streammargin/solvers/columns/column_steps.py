"""Weights that move by steps on the few columns that matter, with a read that steps the duals and certifies both."""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import numpy as np

from streammargin.rows.blocks import Block
from streammargin.solvers.base import PassReport, Share, extras
from streammargin.solvers.cache import columns as cache
from streammargin.solvers.columns import kept_columns, working_set
from streammargin.solvers.columns.dual_pass import LAST, MEAN, wakes
from streammargin.solvers.columns.kept_columns import Kept
from streammargin.solvers.columns.primal_dual import (
    Pulled,
    Restarted,
    RestartedSteps,
    first_step,
    proximal_step,
    pulled_now,
)  # fmt: skip
from streammargin.solvers.columns.working_set import Gathered, Position, Split
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.rounding import blur
from streammargin.solvers.roles import K, Scratch, Shared, b1, f8, of, state, state_bytes
from streammargin.solvers.state import labels_of


class Plan(NamedTuple):
    """The penalty as steps on columns take it, None where they are not taken; how many values of columns are kept
    between two reads, of each problem, 0 where all columns fit.
    """

    penalty: Split | None
    stored: int


@state
class OnColumns(Restarted):
    """sigma: the step of the duals; 0: of a problem whose weights move by proximal steps. proven: problems whose last
    steps found the duals as well.
    """

    sigma: Shared[f8] = of(K)
    next_sigma: Shared[f8] = of(K)
    interior_tried: Shared[b1] = of(K)
    proven: Shared[b1] = of(K)
    begun: bool = False
    kept: Kept
    gathered: Gathered
    plan: Scratch[Plan | None] = None


class ColumnSteps(RestartedSteps[OnColumns]):
    """In memory, and where the penalty is a sum over columns or groups of them, w is moved by many steps on the few
    columns that matter (working_set.py) before the rows see it. Where these steps become hard, interior points take
    their place once (interior.py). Out of core the read gathers, of sparse rows, the columns that move at its end
    (kept_columns.py).

    The problems that more columns matter to than fit go on with proximal steps, while the others stay: each would lose
    what it has come to if it had to wait for others, or to leave with them. No problem comes back.
    """

    name = "steps on columns"
    state_class: ClassVar[type] = OnColumns

    def plan(self, problem: Problem) -> Plan:
        """What a problem allows."""
        fit = working_set.all_fit(problem)
        penalty = None if extras(problem) or not (fit or problem.sparse) else working_set.split(problem)
        if penalty is None or fit:
            return Plan(penalty, 0)
        # columns of dense rows are all as long as the rows are many
        vectors = state_bytes(OnColumns, problem) - state_bytes(Kept, problem) + super().reserved_bytes(problem)
        stored = kept_columns.capacity(problem, vectors)
        return Plan(penalty if stored else None, stored)

    def _plan(self, problem: Problem, state: OnColumns) -> Plan:
        """Made once: of many columns it takes as long as a few sweeps."""
        if state.plan is None:
            state.plan = self.plan(problem)
        return state.plan

    def reserved_bytes(self, problem: Problem) -> int:
        plan = self.plan(problem)
        steps = working_set.room(problem) if plan.penalty is not None and not plan.stored else 0
        return super().reserved_bytes(problem) + steps + kept_columns.reserved_bytes(problem, plan.stored)

    def fits(self, problem: Problem, state: OnColumns) -> bool:
        return kept_columns.fits(problem, state.kept)

    def prologue_block(self, problem: Problem, state: OnColumns, index: int, block: Block, first: int) -> Share:
        if self._plan(problem, state).stored:
            cache.count(state.kept.columns, labels_of(problem, state), block, first)
        return super().prologue_block(problem, state, index, block, first)

    def begin_pass(self, problem: Problem, state: OnColumns, number: int) -> None:
        super().begin_pass(problem, state, number)
        state.begun, state.proven[:] = False, False
        if self._plan(problem, state).stored and state.sigma.any():
            kept_columns.begin(problem, state.kept)

    def dual_steps(self, problem: Problem, state: OnColumns) -> np.ndarray:
        return np.where(state.sigma > 0.0, state.sigma, super().dual_steps(problem, state))

    def resting(self, problem: Problem, state: OnColumns) -> np.ndarray:
        return state.proven

    def run_block(self, problem: Problem, state: OnColumns, active: np.ndarray, block: Block, first: int) -> Share:
        moving, (penalty, stored) = active[state.sigma[active] > 0.0], self._plan(problem, state)
        if penalty is None:
            return super().run_block(problem, state, active, block, first)
        if not state.begun:
            state.begun = True
            state.due[moving] = not stored
        if state.due.any():
            k = int(np.argmax(state.due))
            state.proven[k], state.due[k] = self._improve(problem, penalty, state, k, block), False
            return 1.0 - float(state.due.sum() + 1) / (problem.count + 1)
        share = super().run_block(problem, state, active, block, first)
        if share is None:
            for k in moving:
                kept_columns.gather(problem, state, state.kept, k, state.w[LAST, k], block, first)
        return share

    @staticmethod
    def _improve(problem: Problem, penalty: Split, state: OnColumns, k: int, block: Block) -> bool:
        """Steps on the columns that matter, before the rows see w; returns whether they found the duals as well."""
        sigma = float(state.sigma[k])
        at = Position(state.w[LAST, k], state.alpha[k], state.previous.image[k], sigma)
        w, state.next_sigma[k], proof = working_set.improve(
            problem, penalty, state, state.gathered, block, k, at, state.zeros[k]
        )  # fmt: skip
        if state.next_sigma[k] <= sigma < math.inf and not state.interior_tried[k]:
            state.interior_tried[k] = True
            found = working_set.approach(problem, penalty, state, state.gathered, block, k, at._replace(w=w))
            w, proof = found or (w, proof)
        state.w[:, k] = w
        state.rounding[:, k] = blur(w[None])
        if proof is not None:
            state.alpha[k] = proof
        return proof is not None

    def end_pass(self, problem: Problem, state: OnColumns, active: np.ndarray) -> PassReport | float:
        report = super().end_pass(problem, state, active)
        if not isinstance(report, float):
            kept_columns.release(state.kept)
        return report

    def advance(self, problem: Problem, state: OnColumns, k: int, gaps: list[float]) -> None:
        plan = self._plan(problem, state)
        if state.pace.step[k] == 0.0 and plan.penalty is not None:
            first_step(problem, state, k, gaps)
            state.sigma[k] = state.next_sigma[k] = working_set.first_sigma(problem, k, wakes(problem, state, k))
            state.alpha[k] = 0.0
        if state.sigma[k] == 0.0:
            super().advance(problem, state, k, gaps)
        elif not self._stay(problem, plan, state, k):
            self._start_over(problem, state, k)

    def _stay(self, problem: Problem, plan: Plan, state: OnColumns, k: int) -> bool:
        """The next sigma, and the weights of the columns that a read gathered; returns whether steps on columns go on.

        So they do not where too few columns fit, nor with less memory or other options than before.
        """
        if plan.penalty is None:
            return False
        self._wait(state, k, pulled_now(problem, state, k))
        sigma, last = float(state.sigma[k]), state.w[LAST, k]
        if not plan.stored:
            state.sigma[k] = state.next_sigma[k]
            return True
        at = Position(last, state.alpha[k], state.previous.image[k], sigma)
        off = float(np.linalg.norm(kept_columns.violations(plan.penalty, last, at.image)))
        following = kept_columns.improve(problem, plan.penalty, state, state.kept, k, at)
        state.w[MEAN, k] = last
        crowd = kept_columns.choose(problem, plan.penalty, state.kept, k, at, state.zeros[k], plan.stored)
        state.sigma[k] = kept_columns.next_sigma(state.kept, k, sigma, following, off, crowd)
        early = state.number <= kept_columns.EARLY
        return crowd <= kept_columns.CROWD or (early and crowd < math.inf)

    @staticmethod
    def _wait(state: OnColumns, k: int, now: Pulled) -> None:
        """The weights move when the rows are at hand; nothing is to be a mean of what was before."""
        state.previous.image[k], state.previous.mass[k] = now
        state.totals.forget(k)

    def _start_over(self, problem: Problem, state: OnColumns, k: int) -> None:
        """Proximal steps from the start: duals that lie far apart are a worse one. The bounds stay that were found."""
        state.sigma[k], state.alpha[k], state.w[:, k] = 0.0, 0.0, 0.0
        self.first_weights(problem, state, k)
        nothing = Pulled(np.zeros(state.w.shape[2]), 0.0)
        self._wait(state, k, nothing)
        proximal_step(problem, state, k, nothing, nothing)
