"""Block-wise sequential minimal optimisation: the solver of kernel machines."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from streammargin.compiled import smo as steps
from streammargin.errors import BudgetError, Refusal
from streammargin.kernels.base import Kernel
from streammargin.losses.base import has
from streammargin.penalties.base import Penalty
from streammargin.rows.blocks import Block, DenseBlock, alone, values_of
from streammargin.rows.labels import RowLabels
from streammargin.solvers.base import FOLDS, KERNELS, NUMBERS, PATH, SEVERAL, PassReport, Share
from streammargin.solvers.cache.rows import Coming, add, choose
from streammargin.solvers.cache.rows import Kept as KeptRows
from streammargin.solvers.expansion.certificate import AIMED_TOL_SHARE, Machine
from streammargin.solvers.expansion.columns import EMPTY_PLACE, Columns, HeldColumns, unit_rows
from streammargin.solvers.expansion.form import Form, form_of
from streammargin.solvers.expansion.found import (
    NEW,
    SUPPORT,
    WORKING,
    Found,
    Memory,
    SmoState,
    inside,
    rows_of,
    set_found,
)
from streammargin.solvers.expansion.matrices import check_all_symmetric, indefinite, say_sampled, tested
from streammargin.solvers.expansion.measured import check_rows, check_values, given, kernel_of, largest_value
from streammargin.solvers.expansion.rounds import constant_of, make_round
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.best import Best, best_figures, gaps_of
from streammargin.solvers.roles import new
from streammargin.solvers.state import labels_for, labels_of

FIRST_DRAWN_ROWS, MORE = 2048, 512  # rows drawn for the first steps, and the least that a later read adds
INNER_GAP_SHARE = 0.05  # of the last exact gap, at most 1: the gap at which steps on the rows in memory end
CROWDED = 24  # reads for which rows may leave others their room, before there are too many of them
MAPPED = 500  # columns of a map that needs no room for support rows
FULL_MEMORY_SHARE = 0.9  # of the rows in memory: if more carry the expansion, there is no room for others
ROUGH = 2e-3  # error of a value in float32, relative to the largest, from which on float64 is taken
STEEP = 32.0  # coefficients at their bound that a round moves: their rounding adds up in a score
WIDE_COLUMN_ROWS = 2048  # rows whose columns are float64 in any case
PASS_ROUNDS = 200  # most rounds of a pass, for each line
HARD_ROUNDS = 50  # of a hard margin, which nothing may separate: a certificate tells


class Smo(Machine):
    """Kernel machines: steps on two coefficients of an expansion at a time; the first choice for `kernel`.

    A round takes up to 128 rows that violate the optimum most, and computes their columns of the Gram matrix by one
    product of matrices. It makes steps on these and on up to 896 rows whose columns are stored. If rows are on disk,
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

    # memory

    def kept_bytes(self, problem: Problem) -> int:
        return Memory.of(problem).bytes

    def fits(self, problem: Problem, state: SmoState) -> bool:
        held = state.held
        slots = {held.rows.shape, held.batch.shape, held.used.shape}
        cached = all(
            np.all((one >= EMPTY_PLACE) & (one < problem.rows)) for one in (held.rows, held.batches[1], held.recent)
        )
        known = all(inside(problem, one) for one in (state.frozen, state.best_point, state.kept_point))
        return len(slots) == 1 and cached and known

    def _dtype(self, problem: Problem, state: SmoState) -> np.dtype:
        """Of the columns: float32 unless rows are few, or its rounding is large for this C and tolerance."""
        kernel, value = kernel_of(problem, state.measured), largest_value(problem, state.measured)
        if kernel.of_numbers:
            return problem.dtype
        width = int(problem.values / max(1, problem.rows))
        rough = kernel.blur(state.measured.longest, value, width) * 2.0**-24
        large = float(problem.outputs.caps.max()) * value / (problem.largest_target or 1.0)
        wide = rough > ROUGH * value or STEEP * large * 2.0**-24 > problem.tol or problem.rows <= WIDE_COLUMN_ROWS
        return np.dtype(np.float64 if wide or not kernel.by_products else np.float32)

    # a path over C

    def zero_factor(self, problem: Problem, state: SmoState) -> float:
        return 0.0  # not even a small C has the weights 0

    def raise_costs(self, problem: Problem, state: SmoState, factor: float) -> None:
        """Coefficients and scores grow with C: those at their bounds stay there."""
        state.best, state.forms, state.expansion = new(Best, problem), None, None
        state.kept_point = new(Found, problem)
        state.hidden[:], state.goal[:], state.crowded = False, 1.0, 0
        state.scores *= factor
        state.travel *= factor
        for k, b in enumerate(state.alpha):
            form = form_of(problem, state.labels, k)
            np.clip(factor * b, form.low, form.high, out=b)
        self.balance(problem, state)
        state.frozen.coef = state.alpha[:, state.frozen.numbers]
        if state.held.bytes and state.held.bytes != self._dtype(problem, state).itemsize:
            state.held, state.columns = new(HeldColumns, problem), None

    # rounds

    def begin_pass(self, problem: Problem, state: SmoState, active: np.ndarray) -> None:
        if state.number == 1:
            check_values(problem, state.measured)
        state.begun = state.part = state.seen = 0
        state.ended = state.skipping = False
        if problem.resident:
            state.goal = np.minimum(state.goal, AIMED_TOL_SHARE * problem.tol)
            state.gaps[:], state.idle[:] = math.inf, state.hidden

    def round(self, problem: Problem, state: SmoState, active: np.ndarray, rows: np.ndarray | None) -> Share:
        """A round of the line that is farthest from its goal, on these rows, None: all; the share that is done."""
        left = [k for k in active.tolist() if not state.idle[k] and state.gaps[k] > state.goal[k]]
        if not left or state.begun >= (HARD_ROUNDS if problem.hard else PASS_ROUNDS) * active.size:
            return None
        k = max(left, key=lambda one: (state.gaps[one] / state.goal[one], -one))
        assert state.columns is not None
        form, every = self._form(problem, state, k, rows), slice(None) if rows is None else rows
        f, b = state.scores[k, every], state.alpha[k, every]  # views of all rows, copies of some
        random = np.random.default_rng((problem.seed, k, state.rounds))
        recent = state.held.recent[k]
        before = b.copy()
        now = make_round(
            form, problem.loss, problem.free, state.columns, f, b, state.goal[k], state.rounds, recent, random
        )
        if rows is None:
            f[~state.labels.present(slice(0, problem.rows))] = 0.0
        else:
            state.scores[k, rows], state.alpha[k, rows] = f, b
        state.begun += 1
        state.rounds += 1
        state.travel[k] += float(np.abs(b - before).sum())
        state.gaps[k] = now.gap
        state.multiplications += now.multiplications
        state.idle[k] = not now.left
        if not given(problem).definite:
            state.indefinite |= now.curvature < -1e-5 * largest_value(problem, state.measured)
            reached = state.indefinite and now.gap <= state.goal[k]  # which no certificate will prove
            state.idle[k] |= now.violation <= problem.tol or reached
        return state.begun / (state.begun + 20.0 * active.size)

    def _form(self, problem: Problem, state: SmoState, k: int, rows: np.ndarray | None) -> Form:
        """The form of a line, on these rows; it is kept until the rows change."""
        if state.forms is None:
            state.forms = {}
        if k not in state.forms:
            form = form_of(problem, state.labels, k)
            form = form if given(problem).definite else form.bounded()  # by the losses of all rows
            state.forms[k] = form if rows is None else form.at(rows)
        return state.forms[k]

    def columns_of(self, problem: Problem, state: SmoState, block: Block, numbers: np.ndarray) -> Columns:
        """The cache of the columns of these rows, with these numbers."""
        if state.columns is None:
            dtype = self._dtype(problem, state)
            slots = Memory.of(problem).slots(numbers.size, dtype.itemsize)
            rows = alone(block._replace(bias=0.0))
            state.columns = Columns(state.held, kernel_of(problem, state.measured), rows, numbers, slots, dtype)
        return state.columns

    def skip_remaining(self, problem: Problem, state: SmoState) -> None:
        state.skipping = True

    def mistakes(self, problem: Problem, state: SmoState, active: np.ndarray) -> int:
        """Rows on the wrong side of the active lines, by the scores as they are known."""
        found = 0
        for k in active.tolist() if problem.counts else []:
            form = form_of(problem, state.labels, k)
            constant, _ = constant_of(form, problem.free, state.scores[k], state.alpha[k])
            at = constant, form.sign, form.target, form.caps, 0.0
            found += int(steps.losses_at(problem.loss, state.scores[k], 1.0, *at)[2])
        return found

    def freeze(self, problem: Problem, state: SmoState) -> None:
        """Take the coefficients as they are for the next certificate, and keep their rows."""
        kernel = kernel_of(problem, state.measured)
        self.balance(problem, state)
        numbers = np.flatnonzero(state.alpha.any(axis=0))
        if rows_of(state, kernel, numbers[:1]) is None:
            return  # of a training that was resumed, and ends before it reads a row
        set_found(state.frozen, numbers, state.alpha[:, numbers], np.zeros(problem.count))
        state.expansion = None
        self._keep_rows(problem, state, kernel)
        self._test_definite(problem, state, kernel)

    def _test_definite(self, problem: Problem, state: SmoState, kernel: Kernel) -> None:
        """Whether the matrix of the rows has an eigenvalue below 0; what was tested is said, if not all."""
        support, kept = state.frozen.numbers, state.rows.pieces.get(WORKING)
        present = np.flatnonzero(state.labels.present(slice(0, problem.rows)))
        if kernel.definite or state.tested == present.size or not support.size:
            return
        if state.block is not None:
            some = tested(support, present, problem)
            state.indefinite |= indefinite(kernel, some, some, state.block)
        elif kept is not None:
            order = np.argsort(kept.ids)
            some = tested(support, kept.ids[order], problem)
            at = order[np.searchsorted(kept.ids[order], some)]
            state.indefinite |= indefinite(kernel, at, some, kept.rows)
        else:
            return
        if some.size < present.size and not (state.indefinite or state.tested):
            say_sampled(kernel, some.size, present.size)
        state.tested = some.size

    def balance(self, problem: Problem, state: SmoState) -> None:
        """Make the coefficients of each line add up to 0 again, beside a free constant."""
        for k in range(problem.count) if problem.free else ():
            _balance(form_of(problem, state.labels, k), state.alpha[k])

    def _keep_rows(self, problem: Problem, state: SmoState, kernel: Kernel) -> None:
        """Copies of the rows of all expansions; out of core those of steps are copies already."""
        if problem.resident and not kernel.of_numbers:
            points = (state.frozen, state.best_point, state.kept_point)
            used = np.unique(np.concatenate([one.numbers for one in points]))
            rows = rows_of(state, kernel, used)
            if rows is not None and used.size:
                state.rows.pieces[SUPPORT] = KeptRows(used, rows)

    # a pass

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
            return min(FIRST_DRAWN_ROWS, most)
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
        joining, most = state.rows.ids_of(NEW).size, Memory.of(problem).rows
        state.joined = joining
        kept = state.rows.pieces.get(WORKING)
        if kept is not None and kept.ids.size + joining > most:
            points = np.union1d(state.best_point.numbers, state.kept_point.numbers)
            used = state.alpha[:, kept.ids].any(axis=0) | np.isin(kept.ids, points)
            state.crowded += 1
            if used.sum() > FULL_MEMORY_SHARE * most or state.crowded > CROWDED:
                raise _too_small(problem, int(used.sum()), most)
            order = np.argsort(np.where(used, -math.inf, self._slack(problem, state, kept.ids)), kind="stable")[::-1]
            leaving = order[: min(int((~used).sum()), kept.ids.size + joining - most)]
            state.rows.pieces[WORKING] = choose(kept, np.setdiff1d(np.arange(kept.ids.size), leaving))
        if joining:
            coming = state.rows.pieces.pop(NEW)._replace(beside=())
            state.rows.pieces[WORKING] = add(state.rows.pieces.get(WORKING), coming)
        state.held, state.columns, state.forms = new(HeldColumns, problem), None, None
        gaps = gaps_of(best_figures(problem, state.best)).tolist()
        goals = [max(INNER_GAP_SHARE * min(1.0, gap), AIMED_TOL_SHARE * problem.tol) for gap in gaps]
        if state.number == 1:
            state.goal = np.full(problem.groups, INNER_GAP_SHARE)
        elif joining:
            state.goal = np.array(goals)
        else:  # the rows in memory are all that matter; `judge` has tightened the goals of gaps that were missed
            state.goal = np.minimum(state.goal, AIMED_TOL_SHARE * problem.tol)
        state.gaps[:], state.idle[:] = math.inf, state.hidden


def _balance(form: Form, b: np.ndarray) -> None:
    """Make the coefficients add up to 0 again, if rounding has moved their sum."""
    for _ in range(3):
        drift = math.fsum(b)
        inside = (form.low < b - drift) & (b - drift < form.high) & (b != 0.0) & (form.low < b) & (b < form.high)
        if drift == 0.0 or not inside.any():
            return
        b[np.argmax(np.where(inside, np.abs(b), -1.0))] -= drift


def _too_small(problem: Problem, support: int, rows: int) -> BudgetError:
    """The error for support rows that leave too little room for others. rows: that the budget holds."""
    more = int(2.0 * Memory.of(problem).bytes / 2**20) + 1
    text = (
        f"the expansion has {support} support rows so far and needs more, but the memory budget holds {rows}; raise "
        f"`memory` by {more}M or more, use a smaller C, or "
        f"`map=nystroem:{min(MAPPED, rows)}` in place of `kernel`"
    )
    return BudgetError(text, problem.budget + (more << 20))
