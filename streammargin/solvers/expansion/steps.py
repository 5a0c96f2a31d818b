"""The kernel of a training as measured in the first read, and rounds of steps of a machine of any kernel."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from streammargin.compiled import smo as steps
from streammargin.kernels.base import Kernel
from streammargin.rows.blocks import Block, alone
from streammargin.solvers.base import Share, Solver
from streammargin.solvers.cache.rows import Kept as KeptRows
from streammargin.solvers.expansion.columns import NONE, Columns
from streammargin.solvers.expansion.form import Form, form_of
from streammargin.solvers.expansion.found import SUPPORT, WORKING, SmoState, inside, rows_of, set_found
from streammargin.solvers.expansion.matrices import indefinite, say_sampled, tested
from streammargin.solvers.expansion.measured import (
    blur,
    check_values,
    given,
    kernel_of,
    largest_value,
    measure,
    smallest_margin,
    squares_of,
)
from streammargin.solvers.expansion.memory import Memory
from streammargin.solvers.expansion.rounds import constant_of, make_round
from streammargin.solvers.problem import Problem
from streammargin.solvers.visits import Visit

ROUGH = 2e-3  # error of a value in float32, relative to the largest, from which on float64 is taken
STEEP = 32.0  # coefficients at their bound that a round moves: their rounding adds up in a score
FEW = 2048  # rows whose columns are float64 in any case
LOOKED = 2048  # support rows that the pieces of a certificate are cut for
SHARE = 0.5  # of the tolerance: the estimated gap that a pass aims at
PASS_ROUNDS = 200  # most rounds of a pass, for each line
HARD_ROUNDS = 50  # of a hard margin, which nothing may separate: a certificate tells


class Steps(Solver[SmoState]):
    """A kernel as measured, and rounds of a pass until each estimated gap is where a certificate is worth it."""

    state_class: ClassVar[type[SmoState]] = SmoState
    requires: ClassVar[tuple[str, ...]] = ("primal", "dual_form")
    prologue: ClassVar[int] = 1

    def prologue_passes(self, problem: Problem) -> int:
        return 1 if problem.kernel is None or problem.kernel.by_products or problem.kernel.of_numbers else 2

    def prologue_visit(self, problem: Problem, state: SmoState, index: int) -> Visit:
        return Visit("prologue", self.prologue_block, (index,), leaves=False, lines=problem.count)

    def prologue_block(self, problem: Problem, state: SmoState, index: int, block: Block, first: int) -> None:
        if index == 0:
            measure(problem, state.measured, state.labels, block, first)
        if index == 1 or given(problem).of_numbers:
            squares_of(problem, state.measured, state.labels, block, first)

    def _dtype(self, problem: Problem, state: SmoState) -> np.dtype:
        """Of the columns: float32 unless rows are few, or its rounding is large for this C and tolerance."""
        kernel, value = kernel_of(problem, state.measured), largest_value(problem, state.measured)
        if kernel.of_numbers:
            return problem.dtype
        width = int(problem.values / max(1, problem.rows))
        rough = kernel.blur(state.measured.longest, value, width) * 2.0**-24
        large = float(problem.outputs.caps.max()) * value / (problem.largest_target or 1.0)
        wide = rough > ROUGH * value or STEEP * large * 2.0**-24 > problem.tol or problem.rows <= FEW
        return np.dtype(np.float64 if wide or not kernel.by_products else np.float32)

    def mean_norm(self, problem: Problem, state: SmoState) -> float:
        """The mean length of a row in the space of the kernel, about."""
        mass, _, squares, _ = state.measured.moments.tolist()
        kernel = kernel_of(problem, state.measured)
        if not kernel.by_products:
            return math.sqrt(float(state.measured.largest[0]))
        mean = np.array([squares / mass]) if mass else np.zeros(1)
        return math.sqrt(max(0.0, float(kernel.of_products(mean.copy(), mean, mean)[0]))) if mass else 0.0

    def smallest_margin(self, problem: Problem, state: SmoState) -> float:
        hidden = 2.0 * math.sqrt(blur(problem, state.measured, state.frozen.numbers.size))  # by rounding
        return smallest_margin(problem, self.mean_norm(problem, state), hidden)

    # memory

    def kept_bytes(self, problem: Problem) -> int:
        return Memory.of(problem).bytes

    def look_work(self, problem: Problem) -> float:
        return 2.0 * min(LOOKED, problem.rows)

    def fits(self, problem: Problem, state: SmoState) -> bool:
        held = state.held
        slots = {held.rows.shape, held.batch.shape, held.used.shape}
        cached = all(np.all((one >= NONE) & (one < problem.rows)) for one in (held.rows, held.batches[1], held.recent))
        known = all(inside(problem, one) for one in (state.frozen, state.best_point, state.kept_point))
        return len(slots) == 1 and cached and known

    # rounds

    def begin_pass(self, problem: Problem, state: SmoState, active: np.ndarray) -> None:
        if state.number == 1:
            check_values(problem, state.measured)
        state.begun = state.part = state.seen = 0
        state.ended = state.skipping = False
        if problem.resident:
            state.goal = np.minimum(state.goal, SHARE * problem.tol)
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
        value = largest_value(problem, state.measured)
        state.indefinite |= not given(problem).definite and now.curvature < -1e-5 * value
        reached = state.indefinite and now.gap <= state.goal[k]  # which no certificate will prove
        settled = not given(problem).definite and (now.violation <= problem.tol or reached)
        state.idle[k] = not now.left or settled
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


def _balance(form: Form, b: np.ndarray) -> None:
    """Make the coefficients add up to 0 again, if rounding has moved their sum."""
    for _ in range(3):
        drift = math.fsum(b)
        inside = (form.low < b - drift) & (b - drift < form.high) & (b != 0.0) & (form.low < b) & (b < form.high)
        if drift == 0.0 or not inside.any():
            return
        b[np.argmax(np.where(inside, np.abs(b), -1.0))] -= drift
