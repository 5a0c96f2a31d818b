"""Block-wise sequential minimal optimisation: the solver of kernel machines."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from streammargin.errors import BudgetError, Refusal
from streammargin.losses.base import has
from streammargin.penalties.base import Penalty
from streammargin.rows.blocks import Block, DenseBlock, values_of
from streammargin.rows.labels import RowLabels
from streammargin.solvers.base import FOLDS, KERNELS, NUMBERS, PATH, SEVERAL, PassReport, Share
from streammargin.solvers.cache.rows import Coming, add, choose
from streammargin.solvers.expansion.columns import Columns, Held
from streammargin.solvers.expansion.form import form_of
from streammargin.solvers.expansion.found import NEW, WORKING, SmoState
from streammargin.solvers.expansion.machine import Machine
from streammargin.solvers.expansion.matrices import check_all_symmetric
from streammargin.solvers.expansion.measured import check_rows, given
from streammargin.solvers.expansion.memory import Memory
from streammargin.solvers.expansion.products import unit_rows
from streammargin.solvers.expansion.rounds import constant_of
from streammargin.solvers.expansion.steps import SHARE
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.best import best_figures, gaps_of
from streammargin.solvers.roles import new as fresh
from streammargin.solvers.state import labels_for, labels_of

FIRST, MORE = 2048, 512  # rows drawn for the first steps, and the least that a later read adds
INNER = 0.05  # of the last exact gap, at most 1: the gap at which steps on the rows in memory end
CROWDED = 24  # reads for which rows may leave others their room, before there are too many of them
MAPPED = 500  # columns of a map that needs no room for support rows
FULL = 0.9  # of the rows in memory: if more carry the expansion, there is no room for others


class Smo(Machine):
    """Kernel machines: steps on two coefficients of an expansion at a time; the first choice for `kernel`.

    A round takes the (up to) 128 rows that violate the optimum most, computes their columns of the Gram matrix by one
    product of matrices, and makes steps on these and on up to 896 rows whose columns are stored. If rows are on disk,
    those with steps stay in memory, and a read finds the next ones.

    Source: Platt 1998; Joachims 1999; second rows of steps: Fan, Chen and Lin 2005.
    """

    name = "smo"
    takes: ClassVar[tuple[str, ...]] = (NUMBERS, SEVERAL, KERNELS, PATH, FOLDS)

    def check(self, problem: Problem) -> None:
        if problem.kernel is None:
            raise Refusal(f"{self.called} trains kernel machines, and no kernel is given", "give one, as `kernel=rbf`")
        if problem.hard and problem.joint:
            raise Refusal(f"{self.called} does not find one hard margin of all classes", "use `multiclass=ovr`")
        if problem.hard and not (has(problem.loss, "has_hard_margin") and problem.loss.has_hard_margin()):
            raise Refusal(f"the loss {problem.loss_called} has no hard margin", "use `loss=hinge`")
        super().check(problem)
        check_rows(problem)

    def lacks(self, penalty: Penalty, free: bool) -> str | None:
        return super().lacks(penalty, False)

    def run_block(self, problem: Problem, state: SmoState, active: np.ndarray, block: Block, first: int) -> Share:
        if not problem.resident:
            return self.look(problem, state, active, block, first)
        self.take(problem, state, block)
        return self.round(problem, state, active, None)

    def take(self, problem: Problem, state: SmoState, block: Block) -> Columns:
        """The cache of columns, of all rows in memory."""
        if state.block is None:
            state.block = block
            if given(problem).of_numbers:
                assert isinstance(block, DenseBlock)
                check_all_symmetric(block.X)
        return self.columns_of(problem, state, block, np.arange(problem.rows))

    def end_pass(self, problem: Problem, state: SmoState, active: np.ndarray) -> PassReport | float:
        if not problem.resident:
            return self.end_read(problem, state, active)
        self.freeze(problem, state)
        still = bool(state.idle[active].all()) and state.best_point.numbers.size > 0
        return PassReport(state.gaps.copy(), self.mistakes(problem, state, active), still=still)

    # rows on disk: those on which steps are made stay in memory, and a read of all rows finds the next ones

    def look(self, problem: Problem, state: SmoState, active: np.ndarray, block: Block, first: int) -> Share:
        """Score some rows of the block; at its end keep those that violate most."""
        work = 2.0 * max(1.0, values_of(block).size / block.rows()) * max(1, state.frozen.numbers.size)
        stop = min(block.rows(), state.part + unit_rows(work / 2.0))
        if state.number > 1:
            self.decide(problem, state, block, first, np.arange(state.part, stop))
            state.multiplications += work * (stop - state.part)
        if stop < block.rows():
            state.part = stop
            return stop / block.rows()
        state.part = 0
        state.seen += block.rows()
        self._collect(problem, state, active, block, first)
        return None

    def _collect(self, problem: Problem, state: SmoState, active: np.ndarray, block: Block, first: int) -> None:
        """Keep copies of the rows of the block that violate most, among those of all blocks so far."""
        rows = slice(first, first + block.rows())
        labels = state.labels.of(rows)
        keys = self._drawn(problem, state, labels, first) if state.number == 1 else np.zeros(block.rows())
        for k in active.tolist() if state.number > 1 else []:
            form = form_of(problem, labels, k)
            found = form.violations(state.scores[k, rows], state.alpha[k, rows], state.constants[k])
            keys = np.maximum(keys, np.abs(found))
        working = state.rows.ids_of(WORKING)
        keys[working[(working >= rows.start) & (working < rows.stop)] - first] = 0.0
        room = self._room(problem, state)
        kept = state.rows.pieces.get(NEW)
        least = float(kept.beside[0].min()) if kept is not None and kept.ids.size >= room else 0.0
        here = np.flatnonzero(keys > least)
        here = np.sort(here[np.argsort(-keys[here], kind="stable")[:room]])
        if not here.size:
            return
        state.rows.change(NEW, None, [Coming(first, block._replace(bias=0.0), here, (keys[here],))])
        kept = state.rows.pieces[NEW]
        if kept.ids.size > room:
            state.rows.pieces[NEW] = choose(kept, np.sort(np.argsort(-kept.beside[0], kind="stable")[:room]))

    def _drawn(self, problem: Problem, state: SmoState, labels: RowLabels, first: int) -> np.ndarray:
        """Keys by which rows are drawn at random, of each class about as many (Efraimidis and Spirakis 2006)."""
        count = labels.codes.shape[0]
        random = np.random.default_rng((problem.seed, first))
        there = labels.present(slice(0, count))
        classes = np.maximum(labels_for(labels, problem.outputs).classes_of(0), 0)
        every = labels_of(problem, state).classes_of(0)[state.labels.present(slice(0, problem.rows))]
        counts = np.bincount(every, minlength=int(classes.max(initial=0)) + 1)
        found: np.ndarray = np.where(there, random.random(count) ** (counts[classes] / max(1, counts.sum())), 0.0)
        return found

    def _room(self, problem: Problem, state: SmoState) -> int:
        """How many rows this read may add."""
        most, support = Memory.of(problem).rows, state.frozen.numbers.size
        if state.number == 1:
            return min(FIRST, most)
        return max(1, min(max(MORE, support), max(most - support, 0) // 2))

    def end_read(self, problem: Problem, state: SmoState, active: np.ndarray) -> PassReport | float:
        """Judge the read, let the new rows join, and make steps on the rows in memory, a round a call."""
        whole = state.seen == problem.rows
        if not state.ended:
            if whole:
                self.judge(problem, state)
            self._join(problem, state, active)
        if whole and not state.skipping and self._steps(problem, state, active):
            return min(0.99, state.begun / (state.begun + 20.0))
        moved = self.moved(state)
        if whole:
            self.freeze(problem, state)
            self._set_constants(problem, state)
        figures = best_figures(problem, state.best)
        certificate = figures if state.number > 1 or whole else None
        ended = state.idle & (state.hidden | (state.joined == 0))
        still = whole and not moved and bool(ended[active].all())
        wrong = state.wrong.copy() if problem.compared else None
        return PassReport(gaps_of(figures), self.mistakes(problem, state, active), certificate, wrong, still=still)

    def _steps(self, problem: Problem, state: SmoState, active: np.ndarray) -> bool:
        """One round; whether more are to follow."""
        kept = state.rows.pieces.get(WORKING)
        if kept is None:
            return False
        self.columns_of(problem, state, kept.rows, kept.ids)
        return self.round(problem, state, active, kept.ids) is not None

    def _set_constants(self, problem: Problem, state: SmoState) -> None:
        """Take the constants that suit the rows in memory: at these every other row that steps need is a violator.

        The constant with the least losses is no such one: it may satisfy all other rows and none of those in memory.
        """
        rows = state.rows.ids_of(WORKING)
        labels = state.labels.of(rows)
        for k in range(problem.count):
            f, b = state.scores[k, rows], state.alpha[k, rows]
            state.constants[k] = constant_of(form_of(problem, labels, k), problem.free, f, b)[0]

    def _slack(self, problem: Problem, state: SmoState, rows: np.ndarray) -> np.ndarray:
        """How far each of these rows is from violating its optimum in any line."""
        labels, found = state.labels.of(rows), np.full(rows.size, math.inf)
        for k in range(problem.count):
            slack = form_of(problem, labels, k).slack(state.scores[k, rows], float(state.constants[k]))
            found = np.minimum(found, slack)
        return found

    def _join(self, problem: Problem, state: SmoState, active: np.ndarray) -> None:
        """The rows that were found join those in memory; if these are too many, rows without coefficients leave."""
        state.ended, state.begun = True, 0
        new, most = state.rows.ids_of(NEW).size, Memory.of(problem).rows
        state.joined = new
        kept = state.rows.pieces.get(WORKING)
        if kept is not None and kept.ids.size + new > most:
            points = np.union1d(state.best_point.numbers, state.kept_point.numbers)
            used = state.alpha[:, kept.ids].any(axis=0) | np.isin(kept.ids, points)
            state.crowded += 1
            if used.sum() > FULL * most or state.crowded > CROWDED:
                raise _too_small(problem, int(used.sum()), most)
            order = np.argsort(np.where(used, -math.inf, self._slack(problem, state, kept.ids)), kind="stable")[::-1]
            leaving = order[: min(int((~used).sum()), kept.ids.size + new - most)]
            state.rows.pieces[WORKING] = choose(kept, np.setdiff1d(np.arange(kept.ids.size), leaving))
        if new:
            coming = state.rows.pieces.pop(NEW)._replace(beside=())
            state.rows.pieces[WORKING] = add(state.rows.pieces.get(WORKING), coming)
        state.held, state.columns, state.forms = fresh(Held, problem), None, None
        gaps = gaps_of(best_figures(problem, state.best)).tolist()
        goals = [max(INNER * min(1.0, gap), SHARE * problem.tol) for gap in gaps]
        if state.number == 1:
            state.goal = np.full(problem.groups, INNER)
        elif new:
            state.goal = np.array(goals)
        else:  # the rows in memory are all that matter; `judge` has tightened the goals of gaps that were missed
            state.goal = np.minimum(state.goal, SHARE * problem.tol)
        state.gaps[:], state.idle[:] = math.inf, state.hidden


def _too_small(problem: Problem, support: int, rows: int) -> BudgetError:
    """The error for support rows that leave too little room for others. rows: that the budget holds."""
    more = int(2.0 * Memory.of(problem).bytes / 2**20) + 1
    text = (
        f"the expansion has {support} support rows so far and needs more, but the memory budget holds {rows}; raise "
        f"`memory` by {more}M or more, use a smaller C, or "
        f"`map=nystroem:{min(MAPPED, rows)}` in place of `kernel`"
    )
    return BudgetError(text, problem.budget + (more << 20))
