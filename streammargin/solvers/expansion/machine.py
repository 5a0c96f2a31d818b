"""Machines of any kernel: its values, rounds of steps, certificates, and the expansion that is found."""

from __future__ import annotations

import logging
import math
from typing import ClassVar

import numpy as np

from streammargin.compiled import gram as sums
from streammargin.compiled import smo as steps
from streammargin.errors import DataError
from streammargin.kernels.base import Kernel
from streammargin.points import gram
from streammargin.points.base import Point
from streammargin.points.expansion import TILE, Expansion, alone
from streammargin.points.gram import Few
from streammargin.rows.blocks import Block, CSRBlock, DenseBlock, part, values_of
from streammargin.solvers.base import Share, Solver
from streammargin.solvers.cache.rows import Kept as KeptRows
from streammargin.solvers.expansion.certificate import Exact, exact, exact_margin
from streammargin.solvers.expansion.columns import NONE, Columns
from streammargin.solvers.expansion.form import Form, form_of
from streammargin.solvers.expansion.found import SUPPORT, Found, SmoState, expansion_of, merged, rows_of, set_found
from streammargin.solvers.expansion.matrices import check_symmetric, negative
from streammargin.solvers.expansion.memory import Memory
from streammargin.solvers.expansion.rounds import make_round
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.best import best_figures, keep_better, keep_bounds
from streammargin.solvers.proof.figures import Figures
from streammargin.solvers.proof.kept import Kept
from streammargin.solvers.proof.rounding import EPS
from streammargin.solvers.visits import Visit
from streammargin.wording import Message

LOG = logging.getLogger("streammargin")

SHARE = 0.5  # of the tolerance: the estimated gap that a pass aims at
TIGHTER = 0.3  # the factor of that after a certificate in vain
PASS_ROUNDS = 200  # most rounds of a pass, for each line
HARD_ROUNDS = 50  # of a hard margin, which nothing may separate: a certificate tells
SMALLEST_GOAL = 1e-15
NEARLY = 1e-7  # of the mean length of a row: a hard margin below this is given up
TESTED = 800  # rows whose matrix is tested
LARGEST_VALUE = 1e60
ROUGH = 2e-3  # error of a value in float32, relative to the largest, from which on float64 is taken
STEEP = 32.0  # coefficients at their bound that a round moves: their rounding adds up in a score
FEW = 2048  # rows whose columns are float64 in any case
LOOKED = 2048  # support rows that the pieces of a certificate are cut for


class Machine(Solver[SmoState]):
    """What rows in memory and rows on disk have in common."""

    state_class: ClassVar[type[SmoState]] = SmoState
    requires: ClassVar[tuple[str, ...]] = ("primal", "dual_form")
    prologue: ClassVar[int] = 1

    # memory

    def reserved_bytes(self, problem: Problem) -> int:
        return Memory.of(problem).bytes

    def kept_bytes(self, problem: Problem) -> int:
        return 0 if problem.resident else Memory.of(problem).bytes

    def look_work(self, problem: Problem) -> float:
        return 2.0 * min(LOOKED, problem.rows)

    def fits(self, problem: Problem, state: SmoState) -> bool:
        held = state.held
        slots = {held.rows.shape, held.batch.shape, held.used.shape}
        inside = all(np.all((one >= NONE) & (one < problem.rows)) for one in (held.rows, held.batches[1]))
        points = (state.frozen, state.best_point)
        known = all(
            one.coef.shape[1] == one.numbers.size and np.all((one.numbers >= 0) & (one.numbers < problem.rows))
            for one in points
        )
        return len(slots) == 1 and inside and known

    # the kernel

    def prologue_passes(self, problem: Problem) -> int:
        return 1 if problem.kernel is None or problem.kernel.by_products or problem.kernel.of_numbers else 2

    def prologue_visit(self, problem: Problem, state: SmoState, index: int) -> Visit:
        return Visit("prologue", self.prologue_block, (index,), leaves=False, lines=problem.count)

    def prologue_block(self, problem: Problem, state: SmoState, index: int, block: Block, first: int) -> None:
        kernel = given(problem)
        if kernel.of_numbers:
            assert isinstance(block, DenseBlock)
            check_symmetric(block.X[:, first : first + block.rows()], first)
        elif index == 0:
            squares, values = np.empty(block.rows()), values_of(block)
            sums.squares_of(block._replace(bias=0.0), 0, block.rows(), squares)
            values = values[block.indptr[0] : block.indptr[-1]] if isinstance(block, CSRBlock) else values.reshape(-1)
            sums.add_moments(values, squares, state.moments)
            return
        own = gram.diagonal(self.kernel_of(problem, state), block, first)
        state.largest[0] = max(state.largest[0], float(np.abs(own).max(initial=0.0)))

    def kernel_of(self, problem: Problem, state: SmoState) -> Kernel:
        """The kernel with numbers in place of words; known after the first read."""
        rows, total, squares, _ = state.moments.tolist()
        count = max(1.0, rows * problem.features)
        return given(problem).resolved(problem.features, max(0.0, squares / count - (total / count) ** 2))

    def largest_value(self, problem: Problem, state: SmoState) -> float:
        """The largest |K(x, x)|, or a bound on it. DataError where values overflow."""
        kernel, value = self.kernel_of(problem, state), float(state.largest[0])
        if kernel.by_products:
            squares = np.array([0.0, state.moments[sums.LONGEST]])
            with np.errstate(all="ignore"):
                value = float(np.abs(kernel.of_products(squares.copy(), squares, squares)).max())
        if not value <= LARGEST_VALUE:
            raise DataError(
                f"the kernel {kernel} has values of {value:.3g}, too large to compute with; use `scale=std`, or a "
                "smaller gamma or weight"
            )
        return value

    def _blur(self, problem: Problem, state: SmoState, terms: int) -> float:
        """A bound on the rounding error of a score, for coefficients whose sizes add up to 1."""
        value = self.largest_value(problem, state)
        of_value = self.kernel_of(problem, state).blur(float(state.moments[sums.LONGEST]), value, problem.features)
        return EPS * (of_value + value * (terms + 8.0))

    def _dtype(self, problem: Problem, state: SmoState) -> np.dtype:
        """Of the columns: float32 unless rows are few, or its rounding is large for this C and tolerance."""
        kernel, value = self.kernel_of(problem, state), self.largest_value(problem, state)
        if kernel.of_numbers:
            return problem.dtype
        width = int(problem.values / max(1, problem.rows))
        rough = kernel.blur(float(state.moments[sums.LONGEST]), value, width) * 2.0**-24
        large = float(problem.outputs.caps.max()) * value / (problem.largest_target or 1.0)
        wide = rough > ROUGH * value or STEEP * large * 2.0**-24 > problem.tol or problem.rows <= FEW
        return np.dtype(np.float64 if wide or not kernel.by_products else np.float32)

    # passes

    def begin_pass(self, problem: Problem, state: SmoState, active: np.ndarray) -> None:
        if state.number == 1:
            self.largest_value(problem, state)
        state.begun = state.part = state.seen = 0
        state.ended = state.skipping = False
        if problem.resident:
            self._aim(problem, state)

    def _aim(self, problem: Problem, state: SmoState) -> None:
        state.goal = np.minimum(state.goal, SHARE * problem.tol)
        state.gaps[:], state.idle[:] = math.inf, False

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
        now = make_round(form, problem.loss, problem.free, state.columns, f, b, state.goal[k], state.rounds, random)
        if rows is not None:
            state.scores[k, rows], state.alpha[k, rows] = f, b
        state.begun += 1
        state.rounds += 1
        state.gaps[k], state.violations[k] = now.gap, now.violation
        state.multiplications += now.multiplications
        value = self.largest_value(problem, state)
        state.indefinite |= not given(problem).definite and now.curvature < -1e-5 * value
        settled = now.violation <= problem.tol and not given(problem).definite
        state.idle[k] = not now.left or settled
        return state.begun / (state.begun + 20.0 * active.size)

    def _form(self, problem: Problem, state: SmoState, k: int, rows: np.ndarray | None) -> Form:
        """The form of a line, on these rows; it is kept until the rows change."""
        if state.forms is None:
            state.forms = {}
        if k not in state.forms:
            state.forms[k] = form_of(problem, state.labels if rows is None else state.labels.of(rows), k)
        return state.forms[k]

    def columns_of(
        self, problem: Problem, state: SmoState, block: Block, numbers: np.ndarray
    ) -> Columns:  # fmt: skip
        """The cache of the columns of these rows, with these numbers."""
        if state.columns is None:
            dtype = self._dtype(problem, state)
            slots = Memory.of(problem).slots(numbers.size, dtype.itemsize)
            rows = alone(block._replace(bias=0.0))
            state.columns = Columns(state.held, self.kernel_of(problem, state), rows, numbers, slots, dtype)
        return state.columns

    def skip_remaining(self, problem: Problem, state: SmoState) -> None:
        state.skipping = True

    def mistakes(self, problem: Problem, state: SmoState, active: np.ndarray) -> int:
        """Rows on the wrong side of the active lines, by the scores as they are known."""
        found = 0
        for k in active.tolist() if problem.counts else []:
            form = form_of(problem, state.labels, k)
            up, down = form.bounds(state.scores[k], state.alpha[k])
            constant = 0.5 * (up + down) if problem.free and math.isfinite(up + down) else 0.0
            at = constant, form.sign, form.target, form.caps, 0.0
            found += int(steps.losses_at(problem.loss, state.scores[k], 1.0, *at)[2])
        return found

    def freeze(self, problem: Problem, state: SmoState) -> None:
        """Take the coefficients as they are for the next certificate, and keep their rows."""
        kernel = self.kernel_of(problem, state)
        if problem.free:
            for k in range(problem.count):
                _balance(form_of(problem, state.labels, k), state.alpha[k])
        numbers = np.flatnonzero(state.alpha.any(axis=0))
        if rows_of(state, kernel, numbers[:1]) is None:
            return  # of a training that was resumed, and ends before it reads a row
        set_found(state.frozen, numbers, state.alpha[:, numbers], np.zeros(problem.count))
        state.expansion = None
        self._keep_rows(problem, state, kernel)

    def _keep_rows(self, problem: Problem, state: SmoState, kernel: Kernel) -> None:
        """Copies of the rows of both expansions; out of core those of steps are copies already."""
        if problem.resident and not kernel.of_numbers:
            both = np.union1d(state.frozen.numbers, state.best_point.numbers)
            rows = rows_of(state, kernel, both)
            if rows is not None and both.size:
                state.rows.pieces[SUPPORT] = KeptRows(both, rows)

    # certificates

    def certificate(self, problem: Problem, state: SmoState, active: np.ndarray) -> Visit:
        return Visit(
            "certificate", self.certify_block, lines=problem.count, begin=self.begin_certificate,
            end=self.end_certificate,
        )  # fmt: skip

    def begin_certificate(self, problem: Problem, state: SmoState) -> None:
        state.expansion = None
        self.frozen(problem, state)  # all leaves of a block have the same

    def frozen(self, problem: Problem, state: SmoState) -> Expansion:
        """The expansion to be certified, without constants."""
        if state.expansion is None:
            state.expansion = expansion_of(problem, state, self.kernel_of(problem, state), state.frozen)
        return state.expansion

    def certify_block(self, problem: Problem, state: SmoState, block: Block, first: int) -> None:
        self.decide(problem, state, block, first, 0, block.rows())

    def decide(self, problem: Problem, state: SmoState, block: Block, first: int, start: int, stop: int) -> None:
        """The scores of some rows of a block, by the frozen expansion."""
        expansion = self.frozen(problem, state)
        for low in range(start, stop, TILE):
            high = min(stop, low + TILE)
            rows = alone(part(block, low, high))._replace(bias=0.0)
            state.scores[:, first + low : first + high] = expansion.decide(rows).T

    def end_certificate(self, problem: Problem, state: SmoState) -> tuple[list[Figures], np.ndarray]:
        self.judge(problem, state)
        return best_figures(problem, state.best), state.wrong.copy()

    def judge(self, problem: Problem, state: SmoState) -> None:
        """Exact figures of the frozen expansion, once the scores of all rows are known."""
        frozen, count = state.frozen, problem.count
        if not np.isfinite(state.scores).all():
            raise DataError(
                f"the kernel {self.kernel_of(problem, state)} has a value that is not finite; use `scale=std`"
            )
        self._test_definite(problem, state)
        unit, found = self._blur(problem, state, frozen.numbers.size), []
        coef = frozen.coef.copy()
        for k in range(count):
            b = np.zeros(problem.rows)
            b[frozen.numbers] = frozen.coef[k]
            blur = unit * math.fsum(np.abs(frozen.coef[k]))
            form = form_of(problem, state.labels, k)
            found.append(
                exact_margin(
                    form, problem.free, state.scores[k], b, blur, math.sqrt(self.largest_value(problem, state))
                )
                if problem.hard
                else exact(form, problem.loss, problem.free, state.scores[k], b, blur, SHARE * problem.tol)
            )
            coef[k] *= found[k].scale
        dual, upper = np.array([[one.dual, one.upper] for one in found]).T
        if problem.hard:
            dual = np.array([problem.objective.dual(one) for one in upper.tolist()])
        if not state.indefinite:
            keep_bounds(state.best, dual, upper)
        better = keep_better(problem, state.best, [one.candidate for one in found])
        constants = np.array([one.constant for one in found])
        now = Found(numbers=frozen.numbers, coef=coef, constants=constants)
        set_found(state.best_point, *merged(state.best_point, now, better))
        missed = np.array([one.gap > problem.tol for one in found])
        state.goal = np.where(missed, np.maximum(TIGHTER * state.goal, SMALLEST_GOAL), state.goal)
        state.constants = constants
        self._count_wrong(problem, state, found)
        self._keep_rows(problem, state, self.kernel_of(problem, state))

    def _count_wrong(self, problem: Problem, state: SmoState, found: list[Exact]) -> None:
        """Rows whose largest score is of a wrong class, for each value of C."""
        state.wrong[:] = 0
        if not problem.compared:
            return
        there = state.labels.present(slice(0, problem.rows))
        codes = state.labels.codes
        for trial in range(problem.trials):
            lines = range(trial * problem.per_trial, (trial + 1) * problem.per_trial)
            scores = np.stack([found[k].scale * state.scores[k] + found[k].constant for k in lines])
            taken = problem.outputs.positive[lines.start : lines.stop][np.argmax(scores, axis=0)]
            state.wrong[trial] = int(np.count_nonzero((taken != codes) & there))

    def _test_definite(self, problem: Problem, state: SmoState) -> None:
        """Whether the matrix of some support rows has an eigenvalue below 0; it is said once."""
        kernel, numbers = self.kernel_of(problem, state), state.frozen.numbers
        if not kernel.definite and not state.indefinite and numbers.size:
            some = numbers[:: -(-numbers.size // TESTED)]
            state.indefinite = negative(self._matrix(problem, state, kernel, some))
        if state.indefinite and not state.known:
            state.known = True
            text = (
                f"the kernel {kernel} is not positive semidefinite on these rows, so nothing can be certified; the "
                "training ends where steps no longer help"
            )
            LOG.warning(Message(text), extra={"code": "kernel"})

    def _matrix(self, problem: Problem, state: SmoState, kernel: Kernel, numbers: np.ndarray) -> np.ndarray:
        """The values (m, m) of these rows, in float64."""
        if kernel.of_numbers:
            if state.block is None:
                return np.eye(1)
            assert isinstance(state.block, DenseBlock)
            return np.asarray(state.block.X[np.ix_(numbers, numbers)], np.float64)
        rows = rows_of(state, kernel, numbers)
        assert rows is not None
        out = np.empty((numbers.size, numbers.size))
        Few(kernel, numbers, rows).values(rows, 0, numbers.size, out)
        return out

    def mean_norm(self, problem: Problem, state: SmoState) -> float:
        rows, _, squares, _ = state.moments.tolist()
        kernel = self.kernel_of(problem, state)
        if not kernel.by_products:
            return math.sqrt(float(state.largest[0]))
        mean = np.array([squares / rows]) if rows else np.zeros(1)
        return math.sqrt(max(0.0, float(kernel.of_products(mean.copy(), mean, mean)[0]))) if rows else 0.0

    def smallest_margin(self, problem: Problem, state: SmoState) -> float:
        # the bound of classes that overlap falls fast: a proof that there is no margin is near
        return max(min(problem.tol, NEARLY) * self.mean_norm(problem, state), self.rounding(problem, state))

    def rounding(self, problem: Problem, state: SmoState) -> float:
        return 2.0 * math.sqrt(self._blur(problem, state, state.frozen.numbers.size))

    def keep_pass(self, problem: Problem, state: SmoState, kept: Kept, trials: list[int]) -> None:
        raise AssertionError("an expansion is kept by its certificate alone")

    def point(
        self, problem: Problem, state: SmoState, column: float, proven: bool, kept: Kept | None = None
    ) -> Point:  # fmt: skip
        certified = bool(np.isfinite(state.best.lower if problem.hard else state.best.primal).all())
        found = state.best_point if certified else state.frozen
        return expansion_of(problem, state, self.kernel_of(problem, state), found)


def given(problem: Problem) -> Kernel:
    """The kernel as it was given."""
    assert problem.kernel is not None
    return problem.kernel


def _balance(form: Form, b: np.ndarray) -> None:
    """Make the coefficients add up to 0 again, where rounding has moved their sum."""
    for _ in range(3):
        drift = math.fsum(b)
        inside = (form.low < b - drift) & (b - drift < form.high) & (b != 0.0) & (form.low < b) & (b < form.high)
        if drift == 0.0 or not inside.any():
            return
        b[np.argmax(np.where(inside, np.abs(b), -1.0))] -= drift
