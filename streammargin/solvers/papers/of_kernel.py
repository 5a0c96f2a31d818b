"""Methods of whole passes in the space of a kernel: one source for linear models and for expansions over the rows.

A vector of such a method is sum_i c_i phi(x_i). It is kept as the coefficients c and the scores K c of all rows
(space.py). So the method adds, weighs and measures vectors as it does in the space of columns. A row has the score that
is known of it, and adding it to a vector adds to its coefficient. This is what a sparse row with a 1 in a column of its
own does. So the kernels of the linear form run on the unit matrix. They find scores in place of weights, and add up
coefficients in place of rows.

A pass begins with these sums, at the weights of the method. Its read multiplies the Gram matrix by all vectors, so
that the scores of every vector are exact; they certify the weights. The step of the method follows.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from copy import copy
from functools import cache
from typing import Any, ClassVar

import numpy as np

from streammargin.compiled import row_norms as norms
from streammargin.errors import Refusal, UsageError
from streammargin.points.expansion import Expansion
from streammargin.rows.blocks import Block, CSRBlock, DenseBlock, alone, taken
from streammargin.rows.labels import numbered_from
from streammargin.solvers.base import KERNELS, MarginSizes, PassReport, Share
from streammargin.solvers.cache.rows import Kept, RowCache
from streammargin.solvers.expansion.columns import Columns, HeldColumns, fill, multiply_stored, multiply_unit, unit_rows
from streammargin.solvers.expansion.found import Found, Memory, expansion_of, found_in, inside, kept_bytes
from streammargin.solvers.expansion.kept import keep, last_read
from streammargin.solvers.expansion.matrices import check_all_symmetric, indefinite, say_indefinite, say_sampled, tested
from streammargin.solvers.expansion.measured import (
    Measured,
    blur,
    check_rows,
    check_values,
    given,
    kernel_of,
    margin_sizes,
    measure,
    squares_of,
)
from streammargin.solvers.papers.power import PowerIteration
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.inseparable import empty, inseparable
from streammargin.solvers.proof.kept import BestKept as BestPass
from streammargin.solvers.proof.margins import sum_margins
from streammargin.solvers.proof.rounding import EPS, mean_rounding
from streammargin.solvers.proof.whole_pass import WholePass
from streammargin.solvers.roles import K, Role, Scratch, W, entries, of, state, state_bytes, walk
from streammargin.solvers.space import OF_KERNEL, Space
from streammargin.solvers.state import labels_of
from streammargin.solvers.visits import Visit

UNDERFLOWN = 1e-170  # the length of a row that is not 0, though its K(x, x) is
ROWS_PIECE = "rows"  # of the cache


@state
class Gram:
    """A method's kernel, and its values.

    `rows`    all rows, if they are in memory.
    `held`    which columns are.
    `kept`    the pass with the least held-out error.
    `part`    rows of the block that are done.
    `seen`    how many of all rows are.
    `tested`  whether it is known if the kernel is indefinite.
    `coefs`   (n, vectors): of the current product.
    `units`   the unit matrix, a sparse row for each row.
    """

    measured: Measured
    rows: RowCache
    held: HeldColumns
    kept: Found
    part: int = 0
    seen: int = 0
    tested: bool = False
    indefinite: bool = False
    columns: Scratch[Columns | None] = None
    coefs: Scratch[np.ndarray | None] = None
    units: Scratch[CSRBlock | None] = None


@cache  # mypy takes no class for hashable
def _with_gram(cls: Any) -> Any:
    """The state of a method with its kernel's."""
    made = dataclasses.make_dataclass(
        f"{cls.__name__}OfKernel",
        [("gram", Gram)],
        bases=(cls,),
        slots=True,
        kw_only=True,
        eq=False,
        namespace={"workspace": (of(4, K, W),)},  # copies of coefficients and of scores
    )
    return made


@cache
def _joined(cls: Any, own: tuple[Any, ...]) -> Any:
    words = {"name": cls.name, "takes": (*cls.takes, KERNELS), "__module__": __name__}
    return type(cls.__name__, (*own, cls), words)


def in_kernel(method: WholePass[Any], *own: Any) -> WholePass[Any]:
    """The same method with expansions for vectors; own: the classes that say what differs."""
    made: WholePass[Any] = _joined(type(method), own)(**method.get_params())
    return made


class OfKernel(WholePass[Any]):
    """The parts that differ in the space of a kernel from the linear form, which is the next class."""

    mapped: ClassVar[bool] = False
    prologue: ClassVar[int] = 2
    space: ClassVar[Space] = OF_KERNEL
    reads_matrices: ClassVar[bool] = True  # whether a precomputed matrix may lie on disk

    @property
    def state_class(self) -> type[Any]:
        linear: Any = super().state_class
        made: type[Any] = _with_gram(linear)
        return made

    def check(self, problem: Problem) -> None:
        if problem.free and problem.hard:
            raise Refusal(f"{self.called} finds margins without a constant", "use `bias=0`, or `solver=smo`")
        super().check(problem)
        check_rows(problem)

    def all_labels(self, problem: Problem) -> bool:
        return True

    # memory

    def reserved_bytes(self, problem: Problem) -> int:
        columns = 0 if given(problem).of_numbers else self._memory(problem).bytes
        beside = problem.size if self._lacks_rows(problem) else 0  # a plan with all rows in memory takes less
        kept = problem.rows * kept_bytes(problem) if given(problem).of_numbers else 0  # else they are with the columns
        return super().reserved_bytes(problem) + columns + kept + beside

    def _lacks_rows(self, problem: Problem) -> bool:
        """Whether rows are on disk that a coefficient may need."""
        return not problem.resident and not (given(problem).of_numbers and self.reads_matrices)

    def _memory(self, problem: Problem) -> Memory:
        whole = dataclasses.replace(problem, resident=True)
        return Memory.of(whole, state_bytes(self.state_class, problem))

    def look_work(self, problem: Problem) -> float:
        return 2.0 * problem.rows

    # prologue

    def prologue_visit(self, problem: Problem, state: Any, index: int) -> Visit:
        each = self.measure_block if index == 0 else self.norms_block
        return Visit("prologue", each, leaves=False)

    def measure_block(self, problem: Problem, state: Any, block: Block, first: int) -> None:
        measure(problem, state.gram.measured, state.labels, block, first)

    def norms_block(self, problem: Problem, state: Any, block: Block, first: int) -> None:
        squares = squares_of(problem, state.gram.measured, state.labels, block, first)
        state.gram.indefinite |= bool(squares.min(initial=0.0) < 0.0)
        lengths = np.sqrt(np.abs(squares))
        if not given(problem).of_numbers:
            lengths[(squares == 0.0) & ~empty(block)] = UNDERFLOWN
        rows = DenseBlock(lengths[:, None], 0.0)
        norms.row_norms(rows, numbered_from(first), labels_of(problem, state), 2.0, state.row_norms)

    # a pass

    def begin_pass(self, problem: Problem, state: Any, active: np.ndarray) -> None:
        if self._lacks_rows(problem):
            wrong = f"{self.called} gives each row a coefficient, so all rows must be in memory at once"
            raise UsageError(f"{wrong}; give more `memory`, or use `solver=smo`")
        if state.number == 1:
            check_values(problem, state.gram.measured)
        super().begin_pass(problem, state, active)
        self.sum_rows(problem, state, active)

    def sum_rows(self, problem: Problem, state: Any, active: np.ndarray) -> None:
        """The sums of the linear form's read, from the scores that are known; then a product is begun."""
        own = copy(state)
        own.sums = copy(state.sums)
        for entry in entries(type(state)):
            if entry.kind == "array" and entry.role is Role.SHARED and entry.of.axes[1:] == (W,):
                setattr(own, entry.name, _scores(getattr(state, entry.name)))
        own.sums.pull = np.zeros((problem.count, problem.rows + 1))
        linear: Any = super()
        linear.run_block(problem, own, active, self._units(problem, state), 0)
        state.sums.pull[:, 0::2] = own.sums.pull[:, :-1]
        self.begin_product(state, self.vectors(state))

    def vectors(self, state: Any) -> list[np.ndarray]:
        """All vectors that move, as arrays (K, 2n)."""
        found = [one for one in walk(state) if one[1].kind == "array" and one[1].of.axes[1:] == (W,)]
        return [value for path, _, value in found if value.size and path != "best_w"]

    def begin_product(self, state: Any, vectors: list[np.ndarray]) -> None:
        gram = state.gram
        gram.part, gram.seen, gram.coefs = 0, 0, None
        for vector in vectors:
            vector[..., 1::2] = 0.0

    def visit(self, problem: Problem, state: Any, active: np.ndarray) -> Visit:
        return super().visit(problem, state, active)._replace(lines=0)

    def run_block(self, problem: Problem, state: Any, active: np.ndarray, block: Block, first: int) -> Share:
        return self.product(problem, state, self.vectors, block, first)

    def product(
        self, problem: Problem, state: Any, of: Callable[[Any], list[np.ndarray]], block: Block, first: int
    ) -> Share:
        """One unit of the scores of these rows: by columns that are held, and by values that are computed again."""
        gram, rows, vectors = state.gram, block.rows(), of(state)
        block = block._replace(bias=0.0)
        if gram.coefs is None:
            gram.coefs = np.concatenate([np.atleast_2d(one)[:, 0::2] for one in vectors]).T.copy()
        if not gram.tested:
            self._test(problem, gram, block, first)
        if not self.ready(problem, gram, block):
            return 0.0
        low = gram.part
        found, each = self.multiply_some(problem, gram, block, low)
        high = low + len(found)
        at = slice(2 * (first + low) + 1, 2 * (first + high), 2)
        for vector, scores in zip(vectors, np.split(found.T, len(vectors)), strict=True):
            vector[..., at] = scores if vector.ndim > 1 else scores[0]
        state.multiplications += 2.0 * each * len(found)
        gram.seen += len(found)
        gram.part = high if high < rows else 0
        return high / rows if high < rows else None

    def ready(self, problem: Problem, gram: Gram, block: Block) -> bool:
        """Whether the columns that memory has room for are known; else some of them were computed."""
        return given(problem).of_numbers or not fill(self.columns_of(problem, gram, block))

    def multiply_some(self, problem: Problem, gram: Gram, block: Block, low: int) -> tuple[np.ndarray, float]:
        """(K coefs (m, r) for a unit of rows of the block from `low` on, multiplications of a row, halved)."""
        assert gram.coefs is not None
        coefs = gram.coefs
        if given(problem).of_numbers:
            high = min(block.rows(), low + unit_rows(coefs.size))
            return multiply_stored(kernel_of(problem, gram.measured), block, low, high, coefs), coefs.size
        return multiply_unit(self.columns_of(problem, gram, block), problem, block, low, coefs)

    def columns_of(self, problem: Problem, gram: Gram, block: Block) -> Columns:
        """The cache of columns of all rows in memory, in float64."""
        if gram.columns is None:
            own, numbers = alone(block), np.arange(problem.rows)
            gram.rows.pieces[ROWS_PIECE] = Kept(numbers, own)
            slots = self._memory(problem).slots(problem.rows, 8)
            kernel = kernel_of(problem, gram.measured)
            gram.columns = Columns(gram.held, kernel, own, numbers, slots, np.float64)
        return gram.columns

    def _test(self, problem: Problem, gram: Gram, block: Block, first: int) -> None:
        """Whether the kernel is symmetric, and has no eigenvalue below 0, as far as this block tells."""
        kernel = kernel_of(problem, gram.measured)
        if kernel.of_numbers and problem.resident:
            assert isinstance(block, DenseBlock)
            check_all_symmetric(block.X)
        gram.tested = True
        if not kernel.definite:
            every = np.arange(block.rows())
            some = tested(every, every, problem)
            gram.indefinite |= indefinite(kernel, some, first + some, block)
            if some.size < problem.rows and not gram.indefinite:
                say_sampled(kernel, some.size, problem.rows)
        if gram.indefinite:
            say_indefinite(kernel)

    def _units(self, problem: Problem, state: Any) -> CSRBlock:
        if state.gram.units is None:
            n = problem.rows
            state.gram.units = CSRBlock(np.ones(n), np.arange(n, dtype=np.uint32), np.arange(n + 1), n, 0.0)
        units: CSRBlock = state.gram.units
        return units

    # certificates

    def complete(self, problem: Problem, state: Any) -> bool:
        return bool(state.gram.seen == problem.rows)

    def report(
        self, problem: Problem, state: Any, w: np.ndarray, smallest: np.ndarray, upper: np.ndarray,
        mistakes: np.ndarray, wrong: np.ndarray | None = None,
    ) -> PassReport:  # fmt: skip
        if self.complete(problem, state):
            smallest, mistakes, counted = self._look(problem, state, w)
            wrong = None if wrong is None else counted
        return super().report(problem, state, w, smallest, upper, mistakes, wrong)

    def _look(self, problem: Problem, state: Any, w: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(smallest margins (groups,), mistakes (groups,), wrong (1,)) of w (K, 2n), by its scores."""
        K = problem.count
        smallest, mistakes, wrong = np.full(K, math.inf), np.zeros(K, np.int64), np.zeros(1, np.int64)
        sum_margins(problem, labels_of(problem, state), _scores(w)[:, :-1], smallest, mistakes, wrong)
        return problem.by_group(smallest).min(axis=1), problem.by_group(mistakes).sum(axis=1), wrong

    def lower(self, problem: Problem, state: Any, w: np.ndarray, smallest: np.ndarray) -> np.ndarray:
        unit, masses = self._unit(problem, state), problem.by_group(np.abs(w[:, 0::2]).sum(axis=1))
        off = unit * (2.0 if problem.joint else 1.0) * masses.max(axis=1) + 4.0 * EPS * np.abs(smallest)
        sure, squares, blurs = smallest - off, self.sizes(problem, w) ** 2, unit * (masses * masses).sum(axis=1)
        lengths = np.sqrt(np.maximum(squares + np.where(sure > 0.0, blurs, -blurs), 0.0))
        found = np.where(masses.any(axis=1), -self._longest(problem, state), -math.inf)  # no margin is below that
        np.divide(sure, lengths, out=found, where=lengths > 0.0)
        return found - 4.0 * EPS * np.abs(found)

    def rounded_up(self, problem: Problem, state: Any, upper: np.ndarray) -> np.ndarray:
        if state.gram.indefinite:  # then no mean of rows bounds a margin
            return np.full(upper.shape, math.inf)
        found = self._blurred(problem, state, upper)
        for group in range(problem.groups) if state.number == 1 else ():
            if self._inseparable(problem, state, group):
                found[group] = 0.0
        return found

    def _blurred(self, problem: Problem, state: Any, upper: np.ndarray) -> np.ndarray:
        """Norms (groups,) of means of rows, plus their rounding bounds."""
        unit = self._unit(problem, state) * (4.0 if problem.joint else 1.0)  # of a joint margin rows have two lines
        found: np.ndarray = np.sqrt(upper**2 + unit)
        return found + mean_rounding(self.terms(problem, state), self._longest(problem, state))

    def _unit(self, problem: Problem, state: Any) -> float:
        """A bound on the error of a score, and of a squared length, for coefficients whose sizes add up to 1."""
        return 2.0 * blur(problem, state.gram.measured, problem.rows)

    def _inseparable(self, problem: Problem, state: Any, group: int) -> bool:
        """Whether two rows of a group prove that it has no margin, once a product has brought the rows."""
        all_rows = state.gram.rows.pieces.get(ROWS_PIECE)
        if all_rows is None:
            return False
        line = group * problem.lines
        labels = labels_of(problem, state)
        sides = (labels.classes_of(line) + 1 if problem.joint else labels.signs_of(line)).astype(int)
        sides[labels.caps_of(line) <= 0.0] = 0
        return inseparable(kernel_of(problem, state.gram.measured), all_rows.rows, sides)

    def margin_sizes(self, problem: Problem, state: Any) -> MarginSizes:
        hidden = float(self._blurred(problem, state, np.zeros(1))[0])  # by rounding
        hidden += self._longest(problem, state) * self.hull_rounding(state)
        return margin_sizes(problem, self.mean_norm(state), hidden)

    # what is found

    def point(self, problem: Problem, state: Any, column: float, proven: bool, kept: BestPass | None = None) -> Any:
        w = self.certified(state) if proven else self.weights(problem, state)
        return self._expansion(problem, state, found_in(w[:, 0::2]) if kept is None else state.gram.kept)

    def _expansion(self, problem: Problem, state: Any, found: Found) -> Expansion:
        all_rows = state.gram.rows.pieces.get(ROWS_PIECE)
        rows = None if all_rows is None else taken(all_rows.rows, found.numbers)
        return expansion_of(problem, kernel_of(problem, state.gram.measured), found, rows)

    # the pass that early stopping keeps

    def keep_pass(self, problem: Problem, state: Any, kept: BestPass, trials: list[int]) -> None:
        keep(problem, state.gram.kept, found_in(self.weights(problem, state)[:, 0::2]), trials)

    def last_read(self, problem: Problem, state: Any) -> Visit:
        found = state.gram.kept
        unit = self._unit(problem, state)
        return last_read(problem, found, self._expansion(problem, state, found), unit, state.best)

    def fits(self, problem: Problem, state: Any) -> bool:
        return super().fits(problem, state) and inside(problem, state.gram.kept)


class FromZero(OfKernel):
    """A method whose prologue is an iteration at w = 0."""

    prologue: ClassVar[int] = 3

    def prologue_visit(self, problem: Problem, state: Any, index: int) -> Visit:
        if index != 2:
            return super().prologue_visit(problem, state, index)
        every = np.arange(problem.groups)
        return Visit("prologue", self.run_block, (every,), alone=True, begin=self.sum_rows)


class PowerOfKernel(OfKernel, PowerIteration[Any]):
    """The power iteration: A^T A times sum_i c_i y_i phi(x_i) has the scores of the rows for coefficients."""

    def prologue_visit(self, problem: Problem, state: Any, index: int) -> Visit:
        if index < self.prologue:
            return super().prologue_visit(problem, state, index)
        begin = self.draw if index == self.prologue else self.turn
        return Visit("prologue", self.multiply_product, (), alone=True, begin=begin)

    def draw(self, problem: Problem, state: Any) -> None:
        there = state.labels.present(slice(0, problem.rows))
        state.product[0::2] = there * np.random.default_rng(problem.seed).standard_normal(problem.rows)
        self.begin_product(state, [state.product])

    def turn(self, problem: Problem, state: Any) -> None:
        super().turn(problem, state)
        there = state.labels.present(slice(0, problem.rows))
        state.product[0::2] = there * state.direction[1::2]
        self.begin_product(state, [state.product])

    def multiply_product(self, problem: Problem, state: Any, block: Block, first: int) -> Share:
        return self.product(problem, state, lambda one: [one.product], block, first)


def _scores(vectors: np.ndarray) -> np.ndarray:
    """The scores (K, n + 1) of vectors (K, 2n), as the weights of the unit matrix."""
    found = np.zeros((len(vectors), vectors.shape[1] // 2 + 1))
    found[:, :-1] = vectors[:, 1::2]
    return found
