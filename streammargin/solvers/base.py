"""The interface of a solver: what the driver calls, with which arguments, and what is returned.

A solver consumes (block, loss, penalty, state). Its state is a class of typed fields (roles.py) and has all that it
needs to continue. So any solver can be saved in a checkpoint without code of its own.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from streammargin.errors import Refusal
from streammargin.losses import LOSSES, is_numeric, losses_with, terms
from streammargin.losses.base import coupled, has
from streammargin.penalties.base import Penalty
from streammargin.penalties.lp import LpSquare
from streammargin.points.base import Point
from streammargin.rows.blocks import Block, stored
from streammargin.rows.labels import RowLabels
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof import kept as proof
from streammargin.solvers.proof.figures import Figures
from streammargin.solvers.proof.kept import Kept
from streammargin.solvers.roles import Names, keeps_per_row, new, row_bytes, state_bytes, sum_bytes
from streammargin.solvers.state import State
from streammargin.solvers.visits import Visit
from streammargin.solvers.word import SolverWord

BY_ROW = "changes its weights with each row, so one process reads them all"


@dataclass
class PassReport:
    """A solver's report at the end of a pass.

    estimate (groups,): the estimated relative (margin) gap of each; mistakes: rows misclassified when they were
    processed. certificate: exact figures of all groups, if the pass had fixed weights and computed them; wrong: the
    rows whose largest score is of a wrong class. still: another pass would change nothing. kept_rows: rows that it read
    and that stayed in memory.
    """

    estimate: np.ndarray
    mistakes: int
    certificate: list[Figures] | None = None
    wrong: np.ndarray | None = None
    still: bool = False
    kept_rows: int = 0


Blocks = Sequence[tuple[int, Block]]  # with the number of their first row


def multiplications(blocks: Blocks, lines: int) -> float:
    """Multiplications of one visit of these rows: each value counts once for the score and once for the sums."""
    return 2.0 * lines * sum(stored(block) for _, block in blocks)


def matrix_work(width: int, rows: float, values: float) -> float:
    """Multiplications of a second-order step: a matrix of `rows` rows with `values` values each, and its factor."""
    return rows * values * values / 2 + width**3 / 6


Share = float | None  # the share of the work that is done, if the call must be repeated; None: all of it
UNIT = 1e9  # multiplications of a unit, half a second: a request to stop waits for one at most


# options that few solvers support, as messages name them
PATH, TOP, FOLDS = "`C=path:K`", "the parameter top of a loss", "`cv`, or a share in `valid`"


class Method(SolverWord):
    """A method that `solver` names: what it supports. It is one solver, or several that follow one another.

    Its parameters are declared by `streammargin.words.entry`. An object is never changed, as several trainings may
    share it.
    """

    prologue: ClassVar[int] = 0  # passes over the rows before the first (power iterations, ...)
    default_loss: ClassVar[str] = "hinge"
    # methods of a loss that it calls, beside those that its base classes name; empty: the default loss only
    requires: ClassVar[tuple[str, ...]] = ()
    default_C: ClassVar[float] = 1.0  # inf: the method supports the hard margin only
    joint: ClassVar[bool] = False  # supports multiclass = joint at C = inf
    couples: ClassVar[tuple[str, ...]] = ()  # methods that it calls of a loss of all scores; empty: it takes none
    takes: ClassVar[tuple[str, ...]] = ()  # which of PATH, TOP and FOLDS it supports
    numeric: ClassVar[bool] = False  # supports targets that are numbers
    several: ClassVar[bool] = False  # supports several labels or targets of a row
    of_tasks: ClassVar[bool] = False  # supports rows of several tasks
    kernels: ClassVar[bool] = False  # trains kernel machines
    completes: ClassVar[bool] = False  # completes matrices
    whole: ClassVar[str] = "needs all rows in one place"  # why rows cannot be split over holders, if they cannot
    blocks_per_step: ClassVar[int] = 1  # blocks that a step of a pass gets at once, if the memory allows it

    def check(self, problem: Problem) -> None:
        """Raise a Refusal of a loss, penalty, C or option that this method does not support."""
        if (problem.sides != (0, 0)) != self.completes:
            does = "completes matrices" if self.completes else "finds models of rows, and completes no matrix"
            raise Refusal(f"{self.called} {does}", "use `solver=auto`")
        if problem.kernel is not None and not self.kernels:
            raise Refusal(f"{self.called} finds linear models, and a kernel is given", "use `solver=smo`")
        if problem.hard:
            self._check_hard(problem)
        elif problem.joint and not self.couples:
            raise Refusal(*self._one_by_one(problem))
        if is_numeric(problem.loss) and not (self.numeric and problem.numeric):
            able = "`solver=sdca`" if problem.hard else "`solver=newton`"
            raise Refusal(f"{self.called} trains classifiers", f"for numbers use {able}")
        if problem.outputs.several and (problem.hard or not self.several):
            what = "the hard margin, C = inf," if problem.hard else self.called
            raise Refusal(f"{what} takes one label of a row, and here are several", "name one column with `y`")
        if problem.outputs.tasks and (problem.hard or not self.of_tasks):
            what = "the hard margin, C = inf," if problem.hard else self.called
            hint = "give a finite C" if problem.hard else "use `solver=newton`"
            raise Refusal(f"{what} has one set of weights for all rows, and `tasks` asks for one each", hint)
        if math.isinf(self.default_C) and not problem.hard:
            raise Refusal(f"{self.called} finds the maximum margin only", "leave `C` out, or use `solver=auto`")
        self._check_penalty(problem)
        if problem.p != 2.0 and not self.any_p:
            wrong = f"{self.called} supports penalties with p = 2 only, not {problem.p:.6g}"
            raise Refusal(wrong, "use `penalty=l2`")
        self._check_loss(problem)
        if problem.holders > 1:
            self.check_spread(problem.kernel is not None)
        for extra, asked in ((PATH, problem.path), (TOP, problem.top < math.inf), (FOLDS, problem.tried is not None)):
            if asked and extra not in self.takes:
                raise Refusal(f"{self.called} does not support {extra}", "leave it out")

    def _check_hard(self, problem: Problem) -> None:
        """The hard margin: its penalty, and whether one of all classes is supported."""
        if not problem.lp or problem.free:
            other = f", not of `penalty={problem.penalty_word or problem.penalty}`"
            other = ", with a penalised constant" if problem.lp else other
            hint = "give a finite C" if math.isfinite(self.default_C) else "use `penalty=l2`"
            raise Refusal(f"the hard margin, C = inf, is that of l2 and lp alone{other}", hint)
        if problem.joint and not self.joint:
            wrong = f"{self.called} does not find one hard margin of all classes, `multiclass=joint` at C = inf"
            raise Refusal(wrong, "use `solver=auto`, or `multiclass=ovr`")

    def _one_by_one(self, problem: Problem) -> tuple[str, str]:
        """The refusal of joined outputs by a method that trains each by itself, with a hint."""
        if not problem.all_scores:
            wrong = (
                f"{self.called} trains each class or output separately, and `penalty={problem.penalty_word}` joins them"
            )
            return wrong, "use `solver=newton`"
        if problem.numeric:
            return f"{self.called} trains each target separately, and the loss joins them", "use `solver=newton`"
        return f"{self.called} trains one class against the rest at a finite C", "use `multiclass=ovr`"

    def _check_loss(self, problem: Problem) -> None:
        needed = self.couples if coupled(problem.loss) else self.required()
        if not needed and problem.loss != terms(self.default_loss):
            raise Refusal(f"{self.called} has its own loss", "leave `loss` out")
        for method in needed:
            if not has(problem.loss, method):
                able, loss = ", ".join(losses_with(needed, is_numeric(problem.loss))), problem.loss_called
                if problem.kernel is not None and loss in LOSSES:
                    wrong = f"{self.called} with a kernel takes the losses {able}, not {loss}"
                    raise Refusal(wrong, "use one of these")
                wrong = f"{self.called} needs the method {method} of a loss, which {loss} lacks"
                raise Refusal(f"{wrong} (these have it: {able})", "use one of these")

    @property
    def joins(self) -> bool:
        """Whether it takes a loss of all scores of a row, given its fields; default: if it calls methods of one."""
        return bool(self.couples)

    @property
    def called(self) -> str:
        """Its name in messages; default: its word without fields."""
        return self.name

    def required(self) -> tuple[str, ...]:
        """The methods of a loss that it calls, given its fields; default: `requires` of its class and the bases."""
        if not self.requires:
            return ()
        called = (name for cls in reversed(type(self).__mro__) for name in vars(cls).get("requires", ()))
        return tuple(dict.fromkeys(called))

    def supports(self, penalty: Penalty, free: bool) -> bool:
        """Whether it supports this penalty; free: without the constant column. Default: lp, with the column."""
        return isinstance(penalty, LpSquare) and not free

    any_p: ClassVar[bool] = True  # of those that support lp: whether with p < 2 too

    def needs(self, penalty: Penalty) -> str:
        """Why it does not support this penalty; "" if the name of the penalty says it."""
        return ""

    def _check_penalty(self, problem: Problem) -> None:
        penalty = problem.penalty
        if self.completes or self.supports(penalty, problem.free):
            return
        if self.supports(penalty, False):
            wrong = f"{self.called} needs the constant column to be penalised"
            raise Refusal(wrong, "use `bias=1`, or leave it out, with `bias=0`")
        why, able = self.needs(penalty), "newton" if penalty.of_lines else "pdprox"
        wrong = f"{self.called} does not take `penalty={problem.penalty_word or penalty}`{why and f' ({why})'}"
        raise Refusal(wrong, f"use `solver={able}`")

    @property
    def keeps_weights(self) -> bool:
        """Whether it can begin from given weights: one of its solvers can."""
        return any(stage.solver.keeps_point for stage in self.stages().values())

    def of(self, problem: Problem) -> Method:
        """The method for this problem: another object if a kernel asks for one; default: the same."""
        return self

    watch: ClassVar[type | None] = None  # the class of the state that decisions over several stages use

    @abstractmethod
    def stages(self) -> dict[str, Stage]:
        """Its solvers by name."""

    def solvers(self, problem: Problem) -> list[Solver[Any]]:
        """Its solvers, in turn; default: of all stages, whatever the problem."""
        return [stage.solver for stage in self.stages().values()]

    def all_labels(self, problem: Problem) -> bool:
        """Whether it needs the labels of all rows in memory; else those of the rows at hand are enough.

        Default: if a solver of it does. Rows in memory have their labels in memory, whatever it says.
        """
        return any(solver.all_labels(problem) for solver in self.solvers(problem))

    def row_bytes(self, problem: Problem) -> int:
        """Bytes that it keeps for each row out of core, without cached rows and labels; of its largest solver."""
        problem = replace(problem, resident=False)
        return max(solver.row_bytes(problem) for solver in self.solvers(problem))

    def remark(self, problem: Problem) -> str:
        """The words that `auto` adds to its reason for this method; default: none."""
        return ""

    def first(self, problem: Problem) -> str:
        """The name of the first stage."""
        return next(iter(self.stages()))

    def check_spread(self, of_kernel: bool) -> None:
        """Raise a Refusal if rows cannot be split over holders; of_kernel: for a kernel machine."""
        if not self.spreads:
            hint = "train on one machine" if of_kernel else "use `solver=auto`"
            raise Refusal(f"{self.called} {self.whole}", hint)

    @property
    def spreads(self) -> bool:
        """Whether rows may be split over several holders; default: it needs all of them in one place."""
        return False

    def memory(self, problem: Problem) -> int:
        """Bytes that the state will take, the certificate's included. A stage takes over the arrays of the last one."""
        return max(stage.solver.memory(problem) for stage in self.stages().values())

    def sum_bytes(self, problem: Problem) -> int:
        """Bytes of a copy of the sums over rows, as each leaf has (leaves.py); of its largest solver."""
        return max(solver.sum_bytes(problem) for solver in self.solvers(problem))

    def scratch(self, problem: Problem, rows: int, size: int, sparse: bool) -> int:
        """Bytes that it takes to work on a block of this many rows and bytes, beside the block and the state."""
        return max(solver.scratch(problem, rows, size, sparse) for solver in self.solvers(problem))

    def prologue_passes(self, problem: Problem) -> int:
        """Passes over the rows before the first pass, for this problem; default: `prologue`."""
        return self.prologue

    def wants_memory(self, problem: Problem) -> int:
        """Bytes of the memory with which it would take far fewer passes; 0: more would not help so much."""
        return 0

    def look_work(self, problem: Problem) -> float:
        """Multiplications per value of a row that is looked at for a certificate, or scored."""
        return 2.0 * problem.count

    def kept_bytes(self, problem: Problem) -> int:
        """Bytes for rows that stay in memory between two reads, of its first stage."""
        return self.stages()[self.first(problem)].solver.kept_bytes(problem)


def stay(problem: Problem, state: Any, watch: Any, report: PassReport, active: np.ndarray) -> str:
    """The stage continues."""
    return ""


@dataclass(frozen=True)
class Stage:
    """A solver among several that follow one another.

    enter: makes its state, `best` included, from the state of the stage before, whose arrays it may take. The driver
    sets labels, number and multiplications. leave: called once a pass, before its certificate is judged; returns the
    name of the next stage, or "" to continue. The driver switches when the next pass begins. So the solver that made a
    pass also certifies it. watch: the state that the method declares for decisions over several stages; both functions
    may change it.
    """

    solver: Solver[Any]
    enter: Callable[[Problem, Any, Any], Any] = lambda problem, before, watch: before
    leave: Callable[[Problem, Any, Any, PassReport, np.ndarray], str] = stay


S = TypeVar("S", bound=State)


class Solver(Method, Generic[S]):
    """One solver. Class attributes declare it; `kind_of_state` returns the class of its state.

    Long work is done in units. A call does one unit, and returns the share of its work that is done. The driver
    repeats the call with the same arguments until all is done. Between two calls the driver may stop, or save the state
    and continue in another process. So the state records what is left to do.
    """

    state_class: ClassVar[type[State]]
    mapped: ClassVar[bool] = False  # whether no pass is `alone`: then rows may be split over holders
    adds: ClassVar[Names] = ()  # the fields with sums that a pass adds to; empty: all of them

    @property
    def keeps_point(self) -> bool:
        """Whether it can begin from a point; default: no."""
        return False

    def kind_of_state(self) -> type[State]:
        """The class of its state, given its fields; default: `state_class`."""
        return self.state_class

    def stages(self) -> dict[str, Stage]:
        return {self.name: Stage(self)}

    def zero_factor(self, problem: Problem, state: S) -> float:
        """The largest known factor of C for which w = 0 is still optimal; 0 if w = 0 is optimal for no C.

        Called before the first pass of a path over C.
        """
        raise AssertionError(f"{self.name} supports no path")

    def raise_costs(self, problem: Problem, state: S, factor: float) -> None:
        """Multiply C by this factor. Called between two passes of a path."""
        raise AssertionError(f"{self.name} supports no path")

    def satisfied(self, problem: Problem, state: S, k: int, figures: Figures) -> bool:
        """Whether the method stops at these weights even if the tolerance is not proven; default: never."""
        return False

    def unsettled(self, problem: Problem, state: S) -> bool:
        """Whether the answer needs a last read for its certificate, though figures are known; default: never."""
        return False

    def all_labels(self, problem: Problem) -> bool:
        """Whether it uses labels of other rows than those at hand.

        Default: if it keeps rows, or numbers of them, or visits several blocks at once. If not, `state.labels` is a
        window on the rows of each block that is visited, and empty between two visits.
        """
        return self.blocks_per_step > 1 or keeps_per_row(self.kind_of_state(), problem)

    def row_bytes(self, problem: Problem) -> int:
        return row_bytes(self.kind_of_state(), replace(problem, resident=False), self.dtype(problem))

    def dtype(self, problem: Problem) -> np.dtype:
        """The type of the `Float` arrays in the state."""
        return np.dtype(np.float64)

    def reserved_bytes(self, problem: Problem) -> int:
        """Bytes beside the arrays of the state: rows kept, arrays that grow, vectors of a step."""
        return 0

    def fits(self, problem: Problem, state: S) -> bool:
        """Whether the growing arrays of a loaded state fit each other and the rows; kernels do not check them."""
        return True

    def sum_bytes(self, problem: Problem) -> int:
        return sum_bytes(self.kind_of_state(), problem, self.dtype(problem))

    def scratch(self, problem: Problem, rows: int, size: int, sparse: bool) -> int:
        return 0

    def kept_bytes(self, problem: Problem) -> int:
        return 0

    def memory(self, problem: Problem) -> int:
        return state_bytes(self.kind_of_state(), problem, self.dtype(problem)) + self.reserved_bytes(problem)

    def start(self, problem: Problem, labels: RowLabels) -> S:
        """The state before the first pass; labels: those of the rows."""
        made: Any = new(self.kind_of_state(), problem, self.dtype(problem), labels=labels)
        return made

    @property
    def spreads(self) -> bool:
        return self.mapped

    # a pass, for the groups listed in `active` (int64)

    def visit(self, problem: Problem, state: S, active: np.ndarray) -> Visit:
        """The next pass; its `end` returns a PassReport. Default: it is made of the four functions below."""
        return Visit(
            "pass", self.run_block, (active,), self.adds, lines=problem.lines * active.size, alone=not self.mapped,
            begin=self.begin_pass, end=self.end_pass, at_once=self.skip_remaining,
        )  # fmt: skip

    def begin_pass(self, problem: Problem, state: S, active: np.ndarray) -> None:
        """Called before the first block; default: nothing is to be done."""

    def run_block(self, problem: Problem, state: S, active: np.ndarray, block: Block, first: int) -> Share:
        """Visit the rows of a block, of which the first has the number `first`."""
        raise AssertionError(f"{self.name} declares no pass")

    def end_pass(self, problem: Problem, state: S, active: np.ndarray) -> PassReport | float:
        """Called after the last block; in units, of which each returns the share that is done."""
        raise AssertionError(f"{self.name} declares no pass")

    def skip_remaining(self, problem: Problem, state: S) -> None:
        """Leave out the units of `end_pass` that are left; default: there are none."""

    def prologue_visit(self, problem: Problem, state: S, index: int) -> Visit:
        """Prologue pass number `index`, of `prologue_passes`."""
        raise AssertionError(f"{self.name} declares no prologue")

    # a certificate, if passes compute none

    def certificate(self, problem: Problem, state: S, active: np.ndarray) -> Visit:
        """A read with fixed weights; groups that are no longer active keep those of their last certificate."""
        begin = partial(self.begin_certificate, active=active)
        return Visit("certificate", self.certify_block, lines=problem.count, begin=begin, end=self.end_certificate)

    def begin_certificate(self, problem: Problem, state: S, active: np.ndarray) -> None:
        """Fix the weights, and clear the sums."""

    def certify_block(self, problem: Problem, state: S, block: Block, first: int) -> Share:
        """Add the sums of a block."""
        raise AssertionError(f"{self.name} certifies by its passes")

    def end_certificate(self, problem: Problem, state: S) -> tuple[list[Figures], np.ndarray]:
        """Exact figures of all groups, and per trial the rows whose largest score is of a wrong class."""
        raise AssertionError(f"{self.name} certifies by its passes")

    def begin_from(self, problem: Problem, state: S, point: Point) -> None:
        """Begin from this point, for each value of C, in place of 0. Called before the prologue."""
        raise AssertionError(f"{self.name} keeps no point")

    @abstractmethod
    def keep_pass(self, problem: Problem, state: S, kept: Kept, trials: list[int]) -> None:
        """Copy what it has now for these values of C to `kept`."""

    @abstractmethod
    def point(self, problem: Problem, state: S, column: float, proven: bool, kept: Kept | None = None) -> Point:
        """The point of the last exact figures, or the current one; column: the value of the constant column.

        kept: an earlier pass, whose weights are taken instead.
        """

    def latest(self, problem: Problem, state: S) -> Point:
        """The point of the pass that has just ended; default: the current one."""
        return self.point(problem, state, problem.column, False)

    def last_read(self, problem: Problem, state: S, kept: Kept) -> Visit:
        """The read that adds up, in the sums of `kept`, the figures of the pass that is kept."""
        return Visit("last read", proof.add, lines=problem.count)

    def figures_kept(self, problem: Problem, state: S, kept: Kept) -> list[Figures]:
        """Exact figures of all groups after that read, with the best bounds of the training."""
        return proof.figures(problem, kept, state.best)

    def mean_norm(self, problem: Problem, state: S) -> float:
        """The mean row norm ||a_i||_q, for the hard margin; 0 until it is known."""
        return 0.0

    def rounding(self, problem: Problem, state: S) -> float:
        """The largest rounding error of the bound on a margin: it hides every margin below, or that there is none."""
        return 0.0

    def smallest_margin(self, problem: Problem, state: S) -> float:
        """The margin below which a hard margin is given up: tol times the mean row norm, or `rounding` if larger."""
        return max(problem.tol * self.mean_norm(problem, state), self.rounding(problem, state))


class StreamSolver(Solver[S]):
    """A method that keeps nothing per row, and so can learn from a stream."""

    whole: ClassVar[str] = BY_ROW

    @abstractmethod
    def stream_block(self, problem: Problem, state: S, block: Block) -> int:
        """Learn from each row of the block once, in order; returns the number of mistakes made.

        The labels of the state are those of the block's rows. problem.present: the number of rows in the objective.
        """

    @abstractmethod
    def margin_bound(self, problem: Problem, state: S, k: int) -> float:
        """An upper bound of the margin of problem k from the steps so far; inf if there is none."""
