"""What a solver is told, what it keeps, and what it must answer: the protocol of the driver.

A solver consumes (block, loss, penalty, state). All that it needs to go on lies in its state, a class of typed fields
(roles.py), so that a checkpoint can be taken of any solver without asking it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from streammargin.compiled.order import permutation
from streammargin.errors import UsageError
from streammargin.losses import is_numeric, losses_with, terms
from streammargin.losses.base import called, has
from streammargin.penalties.base import Penalty
from streammargin.penalties.lp import LpSquare
from streammargin.points.base import Point
from streammargin.points.linear import LinearPoint
from streammargin.rows.blocks import Block, CSRBlock, values_of
from streammargin.rows.labels import RowLabels
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.figures import Figures
from streammargin.solvers.roles import new, state_bytes
from streammargin.solvers.state import State
from streammargin.solvers.word import SolverWord


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


def matrix_work(width: int, rows: float, values: float) -> float:
    """Multiplications of a second-order step: a matrix of so many rows with so many values each, and its factor."""
    return rows * values * values / 2 + width**3 / 6


Share = float | None  # of the work of a call that is done, where it is to be called again; None: all of it
UNIT = 1e9  # multiplications of a unit, half a second: whoever wants the training to end waits for it


# what few solvers take, and how it is asked for
PATH, TOP = "`C=path:K`", "the field top of a loss"


def extras(problem: Problem) -> list[str]:
    """Which of these a problem asks for."""
    return [*([PATH] if problem.path else []), *([TOP] if problem.top < math.inf else [])]


class Method(SolverWord):
    """What `solver` stands for: what it serves and takes. It is one solver, or several that follow one another.

    Its fields (`streammargin.words.entry`) are those of its word. An object is never changed once it is made, as
    several trainings may share it.
    """

    prologue: ClassVar[int] = 0  # passes over the rows before the first (power iterations, ...)
    default_loss: ClassVar[str] = "hinge"
    requires: ClassVar[tuple[str, ...]] = ()  # methods of a loss that it calls; none: it has no loss but the default
    default_C: ClassVar[float] = 1.0  # inf: the method knows the hard margin alone
    joint: ClassVar[bool] = False  # serves multiclass = joint
    takes: ClassVar[tuple[str, ...]] = ()  # of PATH and TOP
    numeric: ClassVar[bool] = False  # serves targets that are numbers
    blocks_per_step: ClassVar[int] = 1  # blocks that a step of a pass is given at once, where the memory allows it

    def check(self, problem: Problem) -> None:
        """Raise UsageError for a loss, norm, C or option that this method does not serve."""
        if problem.joint and not (problem.hard and self.joint):
            raise UsageError(
                "`multiclass=joint` is one hard margin of all classes: it knows `C=inf` alone, with `solver=auto`, "
                "dual-momentum, gd, normalized-gd or adaptive; for a finite C leave it out"
            )
        if is_numeric(problem.loss) and not (self.numeric and problem.numeric):
            able = (
                "to interpolate numbers use `solver=sdca` or asdca" if problem.hard else "for numbers use `solver=auto`"
            )
            raise UsageError(f"{self.called} trains classifiers; {able}")
        if math.isinf(self.default_C) and not problem.hard:
            raise UsageError(f"{self.called} finds the maximum margin only; leave `C` out, or use `solver=auto`")
        self._check_penalty(problem)
        needed = self.required()
        if not needed and problem.loss != terms(self.default_loss):
            raise UsageError(f"{self.called} has one loss of its own; leave `loss` out")
        for method in needed:
            if not has(problem.loss, method):
                able = ", ".join(losses_with(needed))
                raise UsageError(
                    f"{self.called} needs the method {method} of a loss, which {called(problem.loss)} has not; "
                    f"the losses that serve are {able}"
                )
        for extra in extras(problem):
            if extra not in self.takes:
                other = ", or use `solver=pdprox`" if extra == TOP else ""
                raise UsageError(f"{self.called} has no use for {extra}; leave it out{other}")

    @property
    def called(self) -> str:
        """What messages call it; default: its word without fields."""
        return self.name

    def required(self) -> tuple[str, ...]:
        """The methods of a loss that it calls with its fields as they are; default: `requires`."""
        return self.requires

    def serves(self, penalty: Penalty, free: bool) -> bool:
        """Whether it minimises with this penalty; free: of all but the constant column. Default: lp, of all."""
        return isinstance(penalty, LpSquare) and not free

    def needs(self, penalty: Penalty) -> str:
        """Why it does not serve this penalty; "" where its name says it."""
        return ""

    def _check_penalty(self, problem: Problem) -> None:
        penalty = problem.penalty
        if penalty is None:
            return
        lp = isinstance(penalty, LpSquare)
        if problem.hard and not (lp and not problem.free):
            name = "bias=free" if lp else f"penalty={penalty}"
            raise UsageError(f"the hard margin, C = inf, is that of l2 and lp alone; give a finite C with `{name}`")
        if self.serves(penalty, problem.free):
            return
        if self.serves(penalty, False):
            raise UsageError(
                f"{self.called} needs the constant column to be penalised, with `bias=1`, or left out, with `bias=0`; "
                "`solver=pdprox` takes it as it is"
            )
        why = self.needs(penalty)
        raise UsageError(f"{self.called} does not serve `penalty={penalty}`; `solver=pdprox` does{why and f' ({why})'}")

    watch: ClassVar[type | None] = None  # the state of what decides over several stages

    @abstractmethod
    def stages(self) -> dict[str, Stage]:
        """Its solvers by name."""

    def first(self, problem: Problem) -> str:
        """The name of the stage that begins."""
        return next(iter(self.stages()))

    @abstractmethod
    def memory(self, problem: Problem) -> int:
        """Bytes that the state will take, the certificate's included."""

    @abstractmethod
    def scratch(self, problem: Problem, rows: int, size: int, sparse: bool) -> int:
        """Bytes that it takes to work on a block of so many rows and bytes, beside the block and the state."""

    def prologue_passes(self, problem: Problem) -> int:
        """Passes over the rows before the first, where that depends on the problem; default: `prologue`."""
        return self.prologue

    def kept_bytes(self, problem: Problem) -> int:
        """Bytes for rows that stay in memory between two reads; default: none."""
        return 0


def stay(problem: Problem, state: Any, watch: Any, report: PassReport, active: np.ndarray) -> str:
    """The stage goes on."""
    return ""


@dataclass(frozen=True)
class Stage:
    """A solver that others may come before and after.

    enter: makes its state, `best` included, of that of the stage before, whose arrays it may take; the driver sets
    labels, number and multiplications. leave: called once a pass, before its certificate is judged, says which stage is
    to follow, "" where this one goes on. The driver changes over when the next pass begins, so that the pass before is
    certified by the solver that made it. watch: what the method declares for decisions over several stages; both may
    write it.
    """

    solver: Solver
    enter: Callable[[Problem, Any, Any], Any] = lambda problem, before, watch: before
    leave: Callable[[Problem, Any, Any, PassReport, np.ndarray], str] = stay


S = TypeVar("S", bound=State)


class Solver(Method, Generic[S]):
    """One solver. Class attributes declare it; its state is of the class that `kind_of_state` says.

    What takes longer than a moment is done in units: a call makes one of them, and returns which share of its work is
    done. The driver calls again, with the same arguments, until it is all. Between two calls it may stop, or save the
    state and go on from there in another process: what is left to do stands in the state.
    """

    state_class: ClassVar[type[State]]

    def kind_of_state(self) -> type[State]:
        """The class of its state with its fields as they are; default: `state_class`."""
        return self.state_class

    def stages(self) -> dict[str, Stage]:
        return {self.name: Stage(self)}

    def zero_factor(self, problem: Problem, state: S) -> float:
        """Called before the first pass, of a path over C: how many times as large C may be with w = 0 still optimal.

        As far as that is known; 0 where it is at no C.
        """
        raise AssertionError(f"{self.name} knows no path")

    def raise_costs(self, problem: Problem, state: S, factor: float) -> None:
        """Called between two passes of a path: go on with C so many times as large."""
        raise AssertionError(f"{self.name} knows no path")

    def reached(self, problem: Problem, figures: Figures) -> bool:
        """Whether exact figures prove what the user asked for; default: what the objective says."""
        return problem.objective.reached(figures, problem.tol)

    def satisfied(self, problem: Problem, state: S, k: int, figures: Figures) -> bool:
        """Whether the method looks for nothing better than these weights, proven or not; default: never."""
        return False

    def dtype(self, problem: Problem) -> np.dtype:
        """Of the arrays of `Float` in the state."""
        return np.dtype(np.float64)

    def reserved_bytes(self, problem: Problem) -> int:
        """Bytes of what comes and goes beside the arrays of the state: rows kept, what grows, vectors of a step."""
        return 0

    def fits(self, problem: Problem, state: S) -> bool:
        """Whether the arrays that grow, of a state that was loaded, fit each other and the rows: kernels trust them."""
        return True

    def memory(self, problem: Problem) -> int:
        """Bytes that the state will take, the certificate's included."""
        return state_bytes(self.kind_of_state(), problem, self.dtype(problem)) + self.reserved_bytes(problem)

    def scratch(self, problem: Problem, rows: int, size: int, sparse: bool) -> int:
        """Bytes that it takes to work on a block of so many rows and bytes, beside the block and the state."""
        return 0

    def start(self, problem: Problem, labels: RowLabels) -> S:
        """The state before the first pass; labels: of its rows."""
        made: Any = new(self.kind_of_state(), problem, self.dtype(problem), labels=labels)
        return made

    def prologue_block(self, problem: Problem, state: S, index: int, block: Block, first: int) -> Share:
        """One block of prologue pass number `index`, of `prologue_passes`; in units."""
        raise AssertionError(f"{self.name} declares no prologue")

    def order(self, problem: Problem, state: S, number: int, blocks: int) -> np.ndarray:
        """The blocks that pass `number` (from 1) visits, in this order; default: a seeded permutation."""
        return permutation(blocks, problem.seed, number)

    def begin_pass(self, problem: Problem, state: S, number: int) -> None:
        """Called before the first block of a pass."""
        state.number = number

    @abstractmethod
    def run_block(self, problem: Problem, state: S, active: np.ndarray, block: Block, first: int) -> Share:
        """Learn from rows first .. first + m, for the problems listed in `active` (int64); in units."""

    def run_blocks(self, problem: Problem, state: S, active: np.ndarray, blocks: Blocks) -> Share:
        """Learn from the blocks of one step, (first, block), at most `blocks_per_step` of them; in units."""
        [(first, block)] = blocks
        return self.run_block(problem, state, active, block, first)

    @abstractmethod
    def end_pass(self, problem: Problem, state: S, active: np.ndarray) -> PassReport | float:
        """Called after the last block of a pass; in units, and then the report."""

    def skip_remaining(self, problem: Problem, state: S) -> None:  # most have none
        """Called where a pass is to end now: `end_pass` is to report at once, without the units that are left."""

    def begin_certificate(self, problem: Problem, state: S, active: np.ndarray) -> None:
        """Freeze the weights for a certificate sweep (never called when passes certify themselves).

        Problems that are not active any more keep the weights they were certified with.
        """
        raise AssertionError(f"{self.name} certifies by its passes")

    def certify_block(self, problem: Problem, state: S, block: Block, first: int) -> None:
        """One block of the certificate sweep."""
        raise AssertionError(f"{self.name} certifies by its passes")

    def end_certificate(self, problem: Problem, state: S) -> tuple[list[Figures], np.ndarray]:
        """Exact figures of all K problems, and per trial the rows whose largest score is a wrong class's."""
        raise AssertionError(f"{self.name} certifies by its passes")

    def certified(self, problem: Problem, state: S) -> np.ndarray:
        """The weights (K, d+1) float64 that the last exact figures belong to."""
        return state.best.w.astype(np.float64, copy=False)

    def point(self, problem: Problem, state: S, column: float, proven: bool) -> Point:
        """What the last exact figures belong to, or what it has now; column: the value of the constant column."""
        return LinearPoint(self.certified(problem, state) if proven else self.weights(problem, state), column)

    def zeros(self, problem: Problem, state: S) -> np.ndarray:
        """Which weights (K, d) are known to be 0 in every solution; default: none."""
        return np.zeros((problem.count, problem.features), bool)

    def mean_norm(self, problem: Problem, state: S) -> float:
        """The mean row norm ||a_i||_q, for the hard margin; 0 until it is known."""
        return 0.0

    def rounding(self, problem: Problem, state: S) -> float:
        """What the bound on a margin of 0 may come to by rounding alone: one no larger proves that none is above 0."""
        return 0.0

    def smallest_margin(self, problem: Problem, state: S) -> float:
        """The margin below which the hard margin is given up: tol times the mean row norm, or what is 0 to rounding."""
        return max(problem.tol * self.mean_norm(problem, state), self.rounding(problem, state))

    @abstractmethod
    def weights(self, problem: Problem, state: S) -> np.ndarray:
        """The current weights (K, d+1) float64; the last column belongs to the constant column."""


class StreamSolver(Solver[S]):
    """A method that keeps nothing per row, and so can learn from rows that pass by once."""

    @abstractmethod
    def stream_block(self, problem: Problem, state: S, block: Block) -> int:
        """Learn from each row of the block once, in order, and count the mistakes made on the way.

        The labels of the state are those of its rows; `present` of the problem: the rows that the objective is made of.
        """

    @abstractmethod
    def margin_bound(self, problem: Problem, state: S, k: int) -> float:
        """An upper bound of the margin of problem k, from the steps so far; inf where they tell nothing."""
