"""Steps on a working set of columns; each read updates the duals and certifies weights and duals."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from streammargin.rows.blocks import Block
from streammargin.solvers.base import PassReport, Share
from streammargin.solvers.cache import columns as cache
from streammargin.solvers.columns import kept_columns, working_set
from streammargin.solvers.columns.dual_pass import LAST, MEAN, pulled, zero_factor
from streammargin.solvers.columns.kept_columns import KeptState, Sent
from streammargin.solvers.columns.primal_dual import (
    Pulled,
    Restarted,
    RestartedSteps,
    first_step,
    proximal_step,
    store_pulled,
)
from streammargin.solvers.columns.working_set import GatheredColumns, Position, Split
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.rounding import blur
from streammargin.solvers.roles import K, Scratch, Shared, b1, f8, new, of, state, state_bytes
from streammargin.solvers.state import labels_of
from streammargin.solvers.visits import Visit


class ColumnPlan(NamedTuple):
    """penalty: as steps on columns use it, None if they are not possible; stored: values of columns to cache between
    reads, per problem, 0 if all columns fit.
    """

    penalty: Split | None
    stored: int


@state
class OnColumns(Restarted):
    """sigma: step of the duals; 0 for a problem that makes proximal steps. proven: problems whose last steps also
    found the duals.
    """

    sigma: Shared[f8] = of(K)
    next_sigma: Shared[f8] = of(K)
    proven: Shared[b1] = of(K)
    kept: KeptState
    coming: Sent
    gathered: GatheredColumns
    plan: Scratch[ColumnPlan | None] = None


class ColumnSteps(RestartedSteps[OnColumns]):
    """For penalties that are sums over columns or groups: many steps on a working set of columns per read.

    In memory, they are made before the rows are visited (working_set.py). For sparse rows out of core, or in several
    places, a read gathers the columns of the working set. The steps follow it (kept_columns.py).

    A problem whose working set does not fit switches to proximal steps for good; the other problems stay here.
    """

    name = "steps on columns"
    adds = ("read", "coming")

    def plan(self, problem: Problem) -> ColumnPlan:
        """The plan for a problem."""
        fit = problem.resident and working_set.reserved_bytes(problem) <= problem.budget // 2  # all columns, too
        penalty = None if problem.top < math.inf or not (fit or problem.sparse) else working_set.split(problem)
        if penalty is None or fit:
            return ColumnPlan(penalty, 0)
        # for dense rows each column has n values
        vectors = state_bytes(OnColumns, problem)
        stored = kept_columns.capacity(problem, vectors)
        return ColumnPlan(penalty if stored else None, stored)

    def _plan(self, problem: Problem, state: OnColumns) -> ColumnPlan:
        """Cached: with many columns it takes as long as a few sweeps."""
        if state.plan is None:
            state.plan = self.plan(problem)
        return state.plan

    def reserved_bytes(self, problem: Problem) -> int:
        plan = self.plan(problem)
        steps = working_set.reserved_bytes(problem) if plan.penalty is not None and not plan.stored else 0
        return steps + kept_columns.reserved_bytes(problem, plan.stored)

    def fits(self, problem: Problem, state: OnColumns) -> bool:
        sent = kept_columns.sent_fits(problem, state.coming, state.read.rows)
        return sent and kept_columns.fits(problem, state.kept)

    def prologue_block(self, problem: Problem, state: OnColumns, block: Block, first: int) -> None:
        if self._plan(problem, state).stored:
            cache.count(state.kept.columns, labels_of(problem, state), block, first)
        super().prologue_block(problem, state, block, first)

    def begin_pass(self, problem: Problem, state: OnColumns, active: np.ndarray) -> None:
        super().begin_pass(problem, state, active)
        state.proven[:], state.coming = False, new(Sent, problem)
        penalty, stored = self._plan(problem, state)
        state.due[active] = (penalty is not None) and not stored and (state.sigma[active] > 0.0)
        if stored and state.sigma.any():
            kept_columns.begin(problem, state.kept)

    def dual_steps(self, problem: Problem, state: OnColumns) -> np.ndarray:
        return np.where(state.sigma > 0.0, state.sigma, super().dual_steps(problem, state))

    def resting(self, problem: Problem, state: OnColumns) -> np.ndarray:
        return state.proven

    def visit(self, problem: Problem, state: OnColumns, active: np.ndarray) -> Visit:
        visit = super().visit(problem, state, active)
        if self._plan(problem, state).penalty is None:
            return visit
        return visit._replace(prepare=self.move, keeps=self.gather)

    def move(self, problem: Problem, state: OnColumns, active: np.ndarray, block: Block) -> Share:
        """The steps of one problem on the columns that matter."""
        penalty = self._plan(problem, state).penalty
        if penalty is None or not state.due.any():
            return None
        k = int(np.argmax(state.due))
        state.proven[k], state.due[k] = self._improve(problem, penalty, state, k, block), False
        return 1.0 - float(state.due.sum() + 1) / (problem.count + 1)

    @staticmethod
    def gather(problem: Problem, state: OnColumns, active: np.ndarray, block: Block, first: int) -> None:
        """Keep what steps on columns need of these rows."""
        moving = active[state.sigma[active] > 0.0]
        kept_columns.gather(problem, state, state.kept, state.coming, moving, state.w[LAST], block, first)

    @staticmethod
    def _improve(problem: Problem, penalty: Split, state: OnColumns, k: int, block: Block) -> bool:
        """Steps on the working set, before the rows are visited; returns whether they also found the duals."""
        sigma = float(state.sigma[k])
        at = Position(state.w[LAST, k], state.alpha[k], state.previous.image[k], sigma)
        w, state.next_sigma[k], proof = working_set.improve(problem, penalty, state, state.gathered, block, k, at)
        state.w[:, k] = w
        state.rounding[:, k] = blur(w[None])
        if proof is not None:
            state.alpha[k] = proof
        return proof is not None

    def end_pass(self, problem: Problem, state: OnColumns, active: np.ndarray) -> PassReport | float:
        if state.read.rows == problem.rows:
            moving = active[state.sigma[active] > 0.0]
            state.coming = kept_columns.receive(problem, state, state.kept, state.coming, moving)
        report = super().end_pass(problem, state, active)
        if not isinstance(report, float):
            kept_columns.release(state.kept)
        return report

    def advance(self, problem: Problem, state: OnColumns, k: int, gaps: list[float]) -> None:
        plan = self._plan(problem, state)
        if state.pace.step[k] == 0.0 and plan.penalty is not None:
            first_step(problem, state, k, gaps)
            state.sigma[k] = state.next_sigma[k] = working_set.first_sigma(problem, k, zero_factor(problem, state, k))
            if not problem.from_weights:
                state.alpha[k] = 0.0
        if state.sigma[k] == 0.0:
            super().advance(problem, state, k, gaps)
        elif not self._stay(problem, plan, state, k):
            self._start_over(problem, state, k)

    def _stay(self, problem: Problem, plan: ColumnPlan, state: OnColumns, k: int) -> bool:
        """Update sigma and the weights of the gathered columns; returns whether steps on columns continue.

        They end if too few columns fit, or after a resume with less memory or other options.
        """
        if plan.penalty is None:
            return False
        self._wait(problem, state, k, pulled(problem, k, state.read))
        sigma, last = float(state.sigma[k]), state.w[LAST, k]
        if not plan.stored:
            state.sigma[k] = state.next_sigma[k]
            return True
        at = Position(last, state.alpha[k], state.previous.image[k], sigma)
        off = float(np.linalg.norm(kept_columns.violations(plan.penalty, last, at.image)))
        following = kept_columns.improve(problem, plan.penalty, state, state.kept, k, at)
        state.w[MEAN, k] = last
        crowd = kept_columns.choose(problem, plan.penalty, state.kept, k, at, plan.stored)
        state.sigma[k] = kept_columns.next_sigma(state.kept, k, sigma, following, off, crowd)
        early = state.number <= kept_columns.EARLY
        return crowd <= kept_columns.CROWD or (early and crowd < math.inf)

    @staticmethod
    def _wait(problem: Problem, state: OnColumns, k: int, now: Pulled) -> None:
        """Keep the weights until the next read, and restart the means."""
        store_pulled(problem, state, k, now)
        state.totals.forget(problem, k)

    def _start_over(self, problem: Problem, state: OnColumns, k: int) -> None:
        """Begin proximal steps from 0, which is better than from duals far from the weights. Bounds are kept."""
        state.sigma[k], state.alpha[k], state.w[:, k] = 0.0, 0.0, 0.0
        self.first_weights(problem, state, k)
        nothing = Pulled(np.zeros(state.w.shape[2]), 0.0)
        self._wait(problem, state, k, nothing)
        proximal_step(problem, state, k, nothing, nothing)
