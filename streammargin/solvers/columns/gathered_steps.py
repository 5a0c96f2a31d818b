"""Newton steps on the columns that matter for several lines at once; each read certifies weights and duals.

A read chooses columns: those with weights, and those that are about to get some. Their values in all rows are gathered,
from rows in memory at once, and otherwise by the next read. The problem of these columns alone is solved in memory
(few_columns.py), and the next read certifies its solution for all columns.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from streammargin.rows.blocks import Block
from streammargin.solvers.base import PassReport, Share
from streammargin.solvers.cache import rows as store
from streammargin.solvers.columns import few_columns
from streammargin.solvers.columns.dual_pass import LAST, pulled
from streammargin.solvers.columns.primal_dual import (
    Restarted,
    RestartedSteps,
    first_step,
    proximal_step,
    store_pulled,
)
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.rounding import blur
from streammargin.solvers.roles import GROUPS, D, N, Rows, Shared, Stored, b1, f8, of, state, state_bytes, sum_bytes
from streammargin.solvers.state import labels_of
from streammargin.solvers.visits import Visit

CROWD = 3.0  # if more columns have weights than this times those that fit, proximal steps are faster
SHARE = 0.75  # of the budget, after all else: bytes for columns
LEAST = 0.02  # least share of the columns that must fit
NEAR = 0.95  # of the limit: the pull of columns that are gathered from rows in memory, as a missed one costs a pass
FIRST, GROWTH = (100, 200), (2, 4)  # most columns at first, and times those with weights: in memory, out of core
FURTHER = 1.2  # the limit of a pull grows by this factor while more columns exceed it
WIDE = 0.7, 0.85, 1.0  # the same out of core, as far as there is room: the next weights may want more


@state
class OnGathered(Restarted):
    """on (groups,): steps are made on columns; chosen (d,): the columns that this read gathers, as gathered (n, m).

    others (n, K), or (n, 0) for 0: the scores by all other weights. spent (groups,): multiplications of the steps that
    go on in the next unit; 0: none do. bound (groups,): of few_columns.Few.
    """

    on: Shared[b1] = of(GROUPS, fill=1.0)
    chosen: Shared[b1] = of(D)
    gathered: Rows[Stored] = of(N, 0, grows=True)
    others: Rows[f8] = of(N, 0, grows=True)
    spent: Shared[f8] = of(GROUPS)
    bound: Shared[f8] = of(GROUPS, fill=1.0)


def room(problem: Problem) -> int:
    """How many columns fit in memory, or 0: too few."""
    each, copies = few_columns.bytes_of_column(problem), problem.copies * sum_bytes(OnGathered, problem)
    left = problem.budget + copies - state_bytes(OnGathered, problem) - few_columns.bytes_beside(problem)
    left -= problem.size if problem.resident else store.BUFFERS
    fit = min(int(SHARE * max(0, left)) // each, problem.features)
    return fit if fit >= max(1.0, LEAST * problem.features) else 0


def suits(problem: Problem) -> bool:
    """Whether steps on gathered columns support this problem, and there is room for them."""
    return problem.holders == 1 and few_columns.supports(problem) and room(problem) > 0


class GatheredSteps(RestartedSteps[OnGathered]):
    """A group whose columns do not fit switches to proximal steps for good."""

    name = "steps on gathered columns"
    state_class: ClassVar[type] = OnGathered

    def reserved_bytes(self, problem: Problem) -> int:
        return few_columns.bytes_of_column(problem) * room(problem) + few_columns.bytes_beside(problem)

    def fits(self, problem: Problem, state: OnGathered) -> bool:
        known = state.others.shape[1] in (0, problem.count)
        return known and state.gathered.shape[1] in (0, np.count_nonzero(state.chosen))

    def zero_factor(self, problem: Problem, state: OnGathered) -> float:
        for k in range(problem.groups):
            store_pulled(problem, state, k, pulled(problem, k, state.read))
        return super().zero_factor(problem, state)

    def dual_steps(self, problem: Problem, state: OnGathered) -> np.ndarray:
        return np.where(state.on, 0.0, super().dual_steps(problem, state))

    def begin_pass(self, problem: Problem, state: OnGathered, active: np.ndarray) -> None:
        super().begin_pass(problem, state, active)
        state.spent[:] = 0.0
        if problem.resident:
            state.due[active] = (state.on & self._known(problem, state))[active]
            return
        self._choose(problem, state, active)
        state.gathered = np.zeros((problem.rows, np.count_nonzero(state.chosen)), problem.dtype)
        if state.chosen.any() and state.w[LAST][:, :-1][:, ~state.chosen].any():
            state.others = np.zeros((problem.rows, problem.count))

    @staticmethod
    def _known(problem: Problem, state: OnGathered) -> np.ndarray:
        """Which groups (groups,) have had a read."""
        return np.array([problem.view(state.previous.image, k).any() for k in range(problem.groups)])

    def _choose(self, problem: Problem, state: OnGathered, active: np.ndarray) -> None:
        """Choose the columns of all groups that the next read gathers; of the first ones if they do not all fit.

        Steps were made on those chosen before, since their pull was summed up.
        """
        groups, most = active[(state.on & self._known(problem, state))[active]].tolist(), room(problem)
        solved = state.chosen.copy()
        for some, near in [*((groups, near) for near in WIDE), (groups[:1], 1.0)]:
            state.chosen[:] = False
            for k in some:
                state.chosen |= self._fitting(problem, state, k, near, solved, most)
            if np.count_nonzero(state.chosen) <= most:
                return

    def _fitting(
        self, problem: Problem, state: OnGathered, k: int, near: float, solved: np.ndarray, most: int
    ) -> np.ndarray:
        """The columns (d,) that matter for group k; of too many the `most` that are furthest from optimality."""
        chosen: np.ndarray = self._wanted(problem, state, k, near)
        if np.count_nonzero(chosen) <= most:
            return chosen
        image, w = problem.view(state.previous.image, k), problem.view(state.w[LAST], k)
        off = np.where(chosen & ~solved, few_columns.violations(problem, image, w), -1.0)
        chosen[np.argsort(-off, kind="stable")[most:]] = False
        return chosen

    @staticmethod
    def _wanted(problem: Problem, state: OnGathered, k: int, near: float) -> np.ndarray:
        """The columns (d,) with weights, and some of those whose pull is at least `near` times its limit."""
        image, w = problem.view(state.previous.image, k), problem.view(state.w[LAST], k)
        used = int(np.count_nonzero(w[:, :-1].any(axis=0)))
        enough = max(FIRST[not problem.resident], GROWTH[not problem.resident] * used)
        chosen = few_columns.wanted(problem, image, w, near)
        while np.count_nonzero(chosen) > enough:
            near *= FURTHER
            fewer = few_columns.wanted(problem, image, w, near)
            if np.count_nonzero(fewer) <= used:
                break
            chosen = fewer
        return chosen

    def visit(self, problem: Problem, state: OnGathered, active: np.ndarray) -> Visit:
        visit = super().visit(problem, state, active)
        if problem.resident:
            return visit._replace(prepare=self.move)
        return visit._replace(keeps=self.gather)

    @staticmethod
    def gather(problem: Problem, state: OnGathered, active: np.ndarray, block: Block, first: int) -> None:
        """Keep the chosen columns of these rows, and the scores by the others."""
        here = slice(first, first + block.rows())
        if state.gathered.shape[1]:
            few_columns.copy_columns(block, state.chosen, state.gathered[here])
        if state.others.shape[1]:
            state.others[here] = few_columns.other_scores(block, state.w[LAST], state.chosen)

    def move(self, problem: Problem, state: OnGathered, active: np.ndarray, block: Block) -> Share:
        """The steps of one group on the columns that matter, from rows in memory, or a unit of them."""
        if not state.due.any():
            return None
        k, none = int(np.argmax(state.due)), np.zeros(problem.features, bool)
        if not state.spent[k]:
            state.chosen[:] = self._fitting(problem, state, k, NEAR, none, room(problem))
        chosen = state.chosen
        if chosen.any():
            values = np.zeros((problem.rows, np.count_nonzero(chosen)), problem.dtype)
            few_columns.copy_columns(block, chosen, values)
            others = few_columns.other_scores(block, problem.view(state.w[LAST], k), chosen)
            self._improve(problem, state, k, chosen, values, others)
            lines = problem.lines_of(k)
            state.rounding[:, lines] = blur(state.w[LAST, lines])
        state.due[k] = state.spent[k] > 0.0
        return 1.0 - float(state.due.sum() + 1) / (problem.groups + 1)

    @staticmethod
    def _improve(
        problem: Problem, state: OnGathered, k: int, chosen: np.ndarray, values: np.ndarray, others: np.ndarray
    ) -> None:
        """Solve the problem of these columns, beside the scores (n, lines) or (n, 0) by others, or a unit of it."""
        columns, w = np.append(chosen, True), problem.view(state.w[LAST], k)
        labels, bound = labels_of(problem, state), float(state.bound[k])
        found = few_columns.minimise(problem, labels, k, values, w[:, columns], others, bound)
        w[:, columns], state.bound[k] = found.w, found.bound
        state.multiplications += found.work
        spent = state.spent[k] + found.work
        state.spent[k] = 0.0 if found.ended or spent > few_columns.most_work(problem, values) else spent
        for each in state.w[1:]:
            problem.view(each, k)[:] = w

    def advance(self, problem: Problem, state: OnGathered, k: int, gaps: list[float]) -> None:
        if state.pace.step[k] == 0.0:
            first_step(problem, state, k, gaps)
        if not state.on[k]:
            super().advance(problem, state, k, gaps)
            return
        now = pulled(problem, k, state.read)
        store_pulled(problem, state, k, now)
        state.totals.forget(problem, k)
        if not state.spent[k] and np.count_nonzero(problem.view(state.w[LAST], k)[:, :-1].any(axis=0)) > CROWD * room(
            problem
        ):
            self._start_over(problem, state, k, min(gaps))
        elif state.gathered.shape[1]:
            others = problem.view(state.others.T, k).T if state.others.size else state.others
            self._improve(problem, state, k, state.chosen, state.gathered, others)

    @staticmethod
    def _start_over(problem: Problem, state: OnGathered, k: int, gap: float) -> None:
        """Begin proximal steps from these weights and duals."""
        state.on[k], lines = False, problem.lines_of(k)
        state.anchor.alpha[lines] = state.alpha[lines]
        state.anchor.place(problem, k, problem.of_group(state.w[LAST], k), gap)
        now = pulled(problem, k, state.read)
        proximal_step(problem, state, k, now, now)

    def skip_remaining(self, problem: Problem, state: OnGathered) -> None:
        super().skip_remaining(problem, state)
        state.spent[:] = 0.0

    def end_pass(self, problem: Problem, state: OnGathered, active: np.ndarray) -> PassReport | float:
        report = super().end_pass(problem, state, active)
        state.due |= (state.spent > 0.0) & (not problem.resident)
        if not isinstance(report, float):
            state.gathered, state.others = state.gathered[:, :0].copy(), state.others[:, :0].copy()
        return report
