"""What a solver is told, what it keeps, and what it must answer: the protocol of the driver.

A solver consumes (block, loss, norm, state). Everything it needs to go on lies in one State of named
arrays and plain numbers, declared by its layout, so that a checkpoint can be taken of any solver without asking it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from streammargin.compiled.order import permutation
from streammargin.errors import UsageError
from streammargin.losses import is_numeric, losses_with, make_loss
from streammargin.losses.base import has
from streammargin.penalties.base import Penalty
from streammargin.penalties.lp import LpSquare
from streammargin.penalties.mirror_maps import L2, Shrunk
from streammargin.rows.blocks import Block, CSRBlock, values_of
from streammargin.rows.labels import Labels
from streammargin.solvers.proof.figures import Figures
from streammargin.solvers.proof.objectives.base import Objective
from streammargin.solvers.proof.objectives.hard_margin import HardMargin, JointMargin
from streammargin.solvers.proof.objectives.interpolation import Interpolation
from streammargin.solvers.proof.objectives.soft_margin import SoftMargin
from streammargin.solvers.state import Layout, State, layout_bytes, new_state


@dataclass(frozen=True)
class Problem:
    """K binary problems over the same n rows of d features (one per class and value of C).

    codes (n,) int16: class of each row, -1 for an absent row. positive (K,) int64: the class with
    sign +1 in problem k. caps (K, classes) float64: C times the class weight, inf for the hard margin.
    weights (n,) float64 or (0,): sample weights. trials: the number of values of C.
    present: rows that are not absent (class among those trained on, weight above 0).
    targets (n,) float64 or (0,): numbers in place of classes, 0 for absent rows; then K = trials, and codes are 0.
    budget: bytes for the state and the blocks; a method that may choose how much it holds keeps to a share of them.
    entries: values stored for all rows, 0 where that is not known; sparse: they come with their column indices.
    options: choices that single solvers offer (average, schedule, ...), by name; those that were made.
    resident: all rows are in memory at once, as one block.
    costs (K,): C of each problem, before the weights of classes and rows.
    penalty: R(w), 1/2 ||w||_p^2 where it is None; free: the constant column is left out of it.
    joint: the K problems are the classes of one: they share one margin, (x.U_c - x.U_c') / ||U||.
    least_tol: the smallest tolerance that the training had before it was resumed; its arithmetic stays fit for that.
    """

    rows: int
    features: int
    dtype: np.dtype
    loss: Any
    norm: Any
    p: float
    codes: np.ndarray
    positive: np.ndarray
    caps: np.ndarray
    weights: np.ndarray
    trials: int
    tol: float
    seed: int
    present: int
    joint: bool = False
    costs: np.ndarray = field(default_factory=lambda: np.ones(1))
    penalty: Penalty | None = None
    free: bool = False
    resident: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    targets: np.ndarray = field(default_factory=lambda: np.empty(0))
    largest_target: float = 0.0
    budget: int = 1 << 30
    entries: int = 0
    sparse: bool = False
    least_tol: float = math.inf

    @property
    def values(self) -> int:
        """Values stored in all rows."""
        return self.entries or self.rows * self.features

    @property
    def size(self) -> int:
        """Bytes of the rows: their values, and of sparse rows where these stand."""
        return self.values * (self.dtype.itemsize + 4 * self.sparse) + 8 * self.rows * self.sparse

    @property
    def count(self) -> int:
        """K, the number of binary problems."""
        return len(self.positive)

    @cached_property
    def labels(self) -> Labels:
        """What each row counts for, as kernels take it."""
        return Labels(self.codes, self.positive, self.caps, self.weights, self.targets)

    def there(self, rows: np.ndarray | slice) -> np.ndarray:
        """Which of these rows are present (bool)."""
        there = self.codes[rows] >= 0
        return there & (self.weights[rows] > 0.0) if self.weights.size else there

    @cached_property
    def objective(self) -> Objective:
        """What is minimised, and what proves it."""
        together, lp = self.per_trial > 1, LpSquare(self.p)
        numeric = self.targets.size > 0
        if self.hard and numeric:
            return Interpolation(lp, together, self.largest_target, signed=True)
        if self.hard:
            return JointMargin(lp, together, self.count) if self.joint else HardMargin(lp, together)
        return SoftMargin(self.penalty or lp, together, free=self.free, signed=numeric)

    @property
    def counts(self) -> bool:
        """Whether a row is right or wrong: of its class or not, or met or not."""
        return self.hard or not self.targets.size

    @property
    def per_trial(self) -> int:
        """Binary problems of one value of C: 1, or one per class."""
        return self.count // self.trials

    @property
    def q(self) -> float:
        """The dual exponent p / (p - 1)."""
        return float(self.norm.q)

    @property
    def linear(self) -> bool:
        """Whether w = A^T alpha at the optimum, so that coordinate ascent keeps one vector for both."""
        return isinstance(self.norm, L2)

    @property
    def keeps_powers(self) -> bool:
        """Whether the norm keeps more than A^T alpha."""
        return not isinstance(self.norm, (L2, Shrunk))

    @cached_property
    def hard(self) -> bool:
        """True for the hard margin, C = inf."""
        return math.isinf(float(self.caps.max()))


@dataclass
class PassReport:
    """What a solver knows at the end of a pass, before any exact figure.

    estimate (K,): the relative (margin) gap each problem is believed to have; mistakes: rows seen on the
    wrong side while the weights moved. certificate: exact figures of all K problems, where the pass itself,
    with its weights frozen, yields them; wrong: beside them, what `end_certificate` answers. still: another
    pass would change nothing. kept_rows: of those that it read, rows that stayed in memory.
    """

    estimate: np.ndarray
    mistakes: int
    certificate: list[Figures] | None = None
    wrong: np.ndarray | None = None
    still: bool = False
    kept_rows: int = 0


Blocks = Sequence[tuple[int, Block]]  # with the number of their first row


def multiplications(blocks: Blocks, problems: int) -> float:
    """Those of one visit of these rows by so many problems: each value counts for the score, and for what is summed."""
    return 2.0 * problems * sum(_stored(block) for _, block in blocks)


def _stored(block: Block) -> int:
    """How many values its rows have; the arrays of a part of a sparse block are those of the whole."""
    return int(block.indptr[-1] - block.indptr[0]) if isinstance(block, CSRBlock) else values_of(block).size


Share = float | None  # of the work of a call that is done, where it is to be called again; None: all of it
UNIT = 1e9  # multiplications of a unit, half a second: whoever wants the training to end waits for it


class Solver(ABC):
    """One method. Class attributes declare it; instances hold nothing.

    What takes longer than a moment is done in units: a call makes one of them, and returns which share of its work is
    done. The driver calls again, with the same arguments, until it is all. Between two calls it may stop, or save the
    state and go on from there in another process: what is left to do stands in the state.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    prologue: ClassVar[int] = 0  # passes over the rows before the first (power iterations, ...)
    default_loss: ClassVar[str] = "hinge"
    requires: ClassVar[tuple[str, ...]] = ()  # methods of a loss that it calls; none: it has no loss but the default
    default_C: ClassVar[float] = 1.0  # inf: the method knows the hard margin alone
    joint: ClassVar[bool] = False  # serves multiclass = joint
    options: ClassVar[tuple[str, ...]] = ()  # the names in Problem.options that it heeds
    numeric: ClassVar[bool] = False  # serves targets that are numbers
    together: ClassVar[int] = 1  # blocks that a step of a pass is given at once, where the memory allows it

    def check(self, problem: Problem) -> None:
        """Raise UsageError for a loss, norm, C or option that this method does not serve."""
        if problem.joint and not (problem.hard and self.joint):
            raise UsageError(
                "`multiclass=joint` is one hard margin of all classes: it knows `C=inf` alone, with `solver=auto`, "
                "dual-momentum, gd, normalized-gd or adaptive; for a finite C leave it out"
            )
        if is_numeric(problem.loss) and not (self.numeric and problem.targets.size):
            able = (
                "to interpolate numbers use `solver=sdca` or asdca" if problem.hard else "for numbers use `solver=auto`"
            )
            raise UsageError(f"{self.name} trains classifiers; {able}")
        if math.isinf(self.default_C) and not problem.hard:
            raise UsageError(f"{self.name} finds the maximum margin only; leave `C` out, or use `solver=auto`")
        self._check_penalty(problem)
        if not self.requires and problem.loss != make_loss(self.default_loss):
            raise UsageError(f"{self.name} has one loss of its own; leave `loss` and `width` out")
        for method in self.requires:
            if not has(problem.loss, method):
                able = ", ".join(losses_with(self.requires))
                raise UsageError(
                    f"{self.name} needs the method {method} of a loss, which {type(problem.loss).__name__} has not; "
                    f"the losses that serve are {able}"
                )
        for name in problem.options:
            if name not in self.options:
                raise UsageError(f"{self.name} has no use for `{name}`; leave it out")

    def serves(self, penalty: Penalty, free: bool) -> bool:
        """Whether it minimises with this penalty; free: of all but the constant column. Default: lp, of all."""
        return isinstance(penalty, LpSquare) and not free

    def _check_penalty(self, problem: Problem) -> None:
        penalty = problem.penalty
        if penalty is None:
            return
        lp = isinstance(penalty, LpSquare)
        if problem.hard and not (lp and not problem.free):
            name = "penalize_bias=no" if lp else f"penalty={penalty.name}"
            raise UsageError(f"the hard margin, C = inf, is that of `penalty=lp` alone; give a finite C with `{name}`")
        if self.serves(penalty, problem.free):
            return
        if self.serves(penalty, False):
            raise UsageError(
                f"{self.name} needs the constant column to be penalised, with `penalize_bias=yes`, or left out, with "
                "`bias=0`; `solver=pdprox` takes it as it is"
            )
        raise UsageError(f"{self.name} does not serve `penalty={penalty.name}`; `solver=pdprox` does")

    def wakes(self, problem: Problem, state: State) -> float:
        """Called before the first pass, of a path over C: how many times as large C may be with w = 0 still optimal.

        As far as that is known; 0 where it is at no C.
        """
        raise AssertionError(f"{self.name} knows no path")

    def dearer(self, problem: Problem, state: State, factor: float) -> None:
        """Called between two passes of a path: go on with C so many times as large."""
        raise AssertionError(f"{self.name} knows no path")

    def reached(self, problem: Problem, figures: Figures) -> bool:
        """Whether exact figures prove what the user asked for; default: what the objective says."""
        return problem.objective.reached(figures, problem.tol)

    def satisfied(self, problem: Problem, figures: Figures) -> bool:
        """Whether the method looks for nothing better than these weights, proven or not; default: never."""
        return False

    @abstractmethod
    def layout(self, problem: Problem) -> Layout:
        """The arrays and numbers of the state, and room for what comes and goes beside them."""

    def layout_now(self, problem: Problem, state: State) -> Layout:
        """The layout of this state, where a method changes its own on the way."""
        return self.layout(problem)

    def fits(self, problem: Problem, state: State) -> bool:
        """Whether the arrays that grow, of a state that was loaded, fit each other and the rows: kernels trust them."""
        return True

    def memory(self, problem: Problem) -> int:
        """Bytes that the state will take, the certificate's included."""
        return layout_bytes(self.layout(problem))

    def scratch(self, problem: Problem, rows: int, size: int, sparse: bool) -> int:
        """Bytes that it takes to work on a block of so many rows and bytes, beside the block and the state."""
        return 0

    def start(self, problem: Problem) -> State:
        """The state before the first pass."""
        return new_state(self.layout(problem))

    def prologue_passes(self, problem: Problem) -> int:
        """Passes over the rows before the first, where that depends on the problem; default: `prologue`."""
        return self.prologue

    def prologue_block(self, problem: Problem, state: State, index: int, block: Block, first: int) -> Share:
        """One block of prologue pass number `index`, of `prologue_passes`; in units."""
        raise AssertionError(f"{self.name} declares no prologue")

    def order(self, problem: Problem, state: State, number: int, blocks: int) -> np.ndarray:
        """The blocks that pass `number` (from 1) visits, in this order; default: a seeded permutation."""
        return permutation(blocks, problem.seed, number)

    def begin_pass(self, problem: Problem, state: State, number: int) -> None:
        """Called before the first block of a pass."""
        state.numbers["pass"] = number

    @abstractmethod
    def run_block(self, problem: Problem, state: State, active: np.ndarray, block: Block, first: int) -> Share:
        """Learn from rows first .. first + m, for the problems listed in `active` (int64); in units."""

    def run_blocks(self, problem: Problem, state: State, active: np.ndarray, blocks: Blocks) -> Share:
        """Learn from the blocks of one step, (first, block), at most `together` of them; in units. Default: of one."""
        [(first, block)] = blocks
        return self.run_block(problem, state, active, block, first)

    @abstractmethod
    def end_pass(self, problem: Problem, state: State, active: np.ndarray) -> PassReport | float:
        """Called after the last block of a pass; in units, and then the report."""

    def leave_out(self, problem: Problem, state: State) -> None:  # noqa: B027  # most have none
        """Called where a pass is to end now: `end_pass` is to report at once, without the units that are left."""

    def begin_certificate(self, problem: Problem, state: State, active: np.ndarray) -> None:
        """Freeze the weights for a certificate sweep (never called when passes certify themselves).

        Problems that are not active any more keep the weights they were certified with.
        """
        raise AssertionError(f"{self.name} certifies by its passes")

    def certify_block(self, problem: Problem, state: State, block: Block, first: int) -> None:
        """One block of the certificate sweep."""
        raise AssertionError(f"{self.name} certifies by its passes")

    def end_certificate(self, problem: Problem, state: State) -> tuple[list[Figures], np.ndarray]:
        """Exact figures of all K problems, and per trial the rows whose largest score is a wrong class's."""
        raise AssertionError(f"{self.name} certifies by its passes")

    def certified(self, problem: Problem, state: State) -> np.ndarray:
        """The weights (K, d+1) float64 that the last exact figures belong to."""
        return state.arrays["best"].astype(np.float64, copy=False)

    def zeros(self, problem: Problem, state: State) -> np.ndarray:
        """Which weights (K, d) are known to be 0 in every solution; default: none."""
        return np.zeros((problem.count, problem.features), bool)

    def mean_norm(self, problem: Problem, state: State) -> float:
        """The mean row norm ||a_i||_q, for the hard margin; 0 until it is known."""
        return 0.0

    def rounding(self, problem: Problem, state: State) -> float:
        """What the bound on a margin of 0 may come to by rounding alone: one no larger proves that none is above 0."""
        return 0.0

    def smallest_margin(self, problem: Problem, state: State) -> float:
        """The margin below which the hard margin is given up: tol times the mean row norm, or what is 0 to rounding."""
        return max(problem.tol * self.mean_norm(problem, state), self.rounding(problem, state))

    @abstractmethod
    def weights(self, problem: Problem, state: State) -> np.ndarray:
        """The current weights (K, d+1) float64; the last column belongs to the constant column."""


class StreamSolver(Solver):
    """A method that keeps nothing per row, and so can learn from rows that pass by once."""

    @abstractmethod
    def stream_block(self, problem: Problem, state: State, block: Block) -> int:
        """Learn from each row of the block once, in order, and count the mistakes made on the way.

        The codes and weights of the problem are those of the block, `present` the rows that the objective is made of.
        """

    @abstractmethod
    def margin_bound(self, problem: Problem, state: State, k: int) -> float:
        """An upper bound of the margin of problem k, from the steps so far; inf where they tell nothing."""
