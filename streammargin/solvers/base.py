"""The interface of a solver: what the driver calls, with which arguments, and what is returned.

A solver consumes (block, loss, penalty, state). Its state is a class of typed fields (roles.py) and has all that it
needs to continue. So any solver can be saved in a checkpoint without code of its own.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, get_args

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
from streammargin.solvers.proof.kept import BestKept
from streammargin.solvers.roles import Names, keeps_per_row, new, row_bytes, state_bytes, sum_bytes
from streammargin.solvers.state import State
from streammargin.solvers.visits import Visit
from streammargin.solvers.word import SolverWord

IN_ONE_PLACE = "needs all rows in one place"
BY_ROW = "changes its weights with each row, so one process reads them all"


@dataclass
class PassReport:
    """A solver's report at the end of a pass.

    `estimate`     (groups,): the estimated relative (margin) gap of each.
    `mistakes`     rows misclassified when they were processed.
    `certificate`  exact figures of all groups, if the pass had fixed weights and computed them.
    `wrong`        the rows whose largest score is of a wrong class.
    `still`        another pass would change nothing.
    `kept_rows`    rows that it read and that stayed in memory.
    """

    estimate: np.ndarray
    mistakes: int
    certificate: list[Figures] | None = None
    wrong: np.ndarray | None = None
    still: bool = False
    kept_rows: int = 0


class MarginSizes(NamedTuple):
    """The mean row norm ||a_i||_q, 0 until it is known; what rounding hides; the margin below which it is given up.

    rounding: the largest error of the bound on a margin. It hides every margin below, or that there is none.
    """

    mean: float = 0.0
    rounding: float = 0.0
    least: float = 0.0


def margin_sizes(problem: Problem, mean: float, rounding: float) -> MarginSizes:
    """A margin is given up below tol times the mean row norm, or below its rounding if that is larger."""
    return MarginSizes(mean, rounding, max(problem.tol * mean, rounding))


Blocks = Sequence[tuple[int, Block]]  # with the number of their first row


def multiplications(blocks: Blocks, lines: int) -> float:
    """Multiplications of one visit of these rows."""
    return float(VISIT * lines * sum(stored(block) for _, block in blocks))


def matrix_work(width: int, rows: float, values: float) -> float:
    """Multiplications of a second-order step: a matrix of `rows` rows with `values` values each, and its factor."""
    return rows * values * values / 2 + width**3 / 6


Share = float | None  # the share of the work that is done, if the call must be repeated; None: all of it
VISIT = 2  # multiplications of a value of a visited row: for the score, and for the sum
UNIT = 1e9  # multiplications of a unit, half a second: a request to stop waits for one at most


# what few methods take, as messages and lists name it (`Method.takes`)
JOINT, PATH, TOP, FOLDS = (
    "`multiclass=joint`",
    "`C=path:K`",
    "the parameter top of a loss",
    "`cv`, or a share in `valid`",
)
NUMBERS, SEVERAL, TASKS, KERNELS, MATRICES = "targets", "labels of one row", "rows of tasks", "kernels", "ratings"
ANY_P = "lp with p < 2"  # beside l2


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
    takes: ClassVar[tuple[str, ...]] = (ANY_P,)  # which of the above it supports
    blocks_per_step: ClassVar[int] = 1  # blocks that a step of a pass gets at once, if the memory allows it

    def check(self, problem: Problem) -> None:
        """Raise a Refusal of a loss, penalty, C or option that this method does not support."""
        for refused, wrong, hint in refusals(self, problem):
            if refused:
                raise Refusal(wrong, hint)

    @property
    def whole(self) -> str:
        """Why rows cannot be split over several holders; "" if they can. Default: it needs all of them in one place."""
        return IN_ONE_PLACE

    @property
    def couples(self) -> tuple[str, ...]:
        """The methods that it calls of a loss of all scores, given its fields; default: it takes none."""
        return ()

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

    def lacks(self, penalty: Penalty, free: bool) -> str | None:
        """Why it does not support this penalty, "" if its name says that; None if it does. Default: lp alone.

        free: without the constant column.
        """
        return None if isinstance(penalty, LpSquare) and not free else ""

    def of(self, problem: Problem) -> Method:
        """The method for this problem: another object if a kernel asks for one; default: the same."""
        return self

    watch: ClassVar[type | None] = None  # the class of the state that decisions over several stages use

    @abstractmethod
    def stages(self) -> dict[str, Stage]:
        """Its solvers by name."""

    def route(self, problem: Problem) -> tuple[str, ...]:
        """The stages that a training may come to, in turn; default: all, whatever the problem."""
        return tuple(self.stages())

    def all_labels(self, problem: Problem) -> bool:
        """Whether it needs the labels of all rows in memory; else those of the rows at hand are enough.

        Default: if a solver of it does. Rows in memory have their labels in memory, whatever it says.
        """
        return any(solver.all_labels(problem) for solver in solvers_of(self, problem))

    def remark(self, problem: Problem) -> str:
        """The words that `auto` adds to its reason for this method; default: none."""
        return ""

    def memory(self, problem: Problem) -> int:
        """Bytes that the state will take, the certificate's included. A stage takes over the arrays of the last one."""
        return max(solver.memory(problem) for solver in solvers_of(self, problem))

    def scratch(self, problem: Problem, rows: int, size: int, sparse: bool) -> int:
        """Bytes that it takes to work on a block of this many rows and bytes, beside the block and the state."""
        return max(solver.scratch(problem, rows, size, sparse) for solver in solvers_of(self, problem))

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
        return solvers_of(self, problem)[0].kept_bytes(problem)


def solvers_of(method: Method, problem: Problem) -> list[Solver[Any]]:
    """The solvers of its route."""
    stages = method.stages()
    return [stages[name].solver for name in method.route(problem)]


def row_bytes_of(method: Method, problem: Problem) -> int:
    """Bytes that it keeps for each row out of core, without cached rows and labels; of its largest solver."""
    problem = replace(problem, resident=False)
    found = solvers_of(method, problem)
    return max(row_bytes(solver.state_class, problem, solver.dtype(problem)) for solver in found)


def sum_bytes_of(method: Method, problem: Problem) -> int:
    """Bytes of a copy of the sums over rows, as each leaf has (leaves.py); of its largest solver."""
    found = solvers_of(method, problem)
    return max(sum_bytes(solver.state_class, problem, solver.dtype(problem)) for solver in found)


def refusals(method: Method, problem: Problem) -> Iterator[tuple[object, str, str]]:
    """(whether the problem is refused for it, why, how to mend it), in turn."""
    called, takes, hard, penalty = method.called, method.takes, problem.hard, problem.penalty
    word = problem.penalty_word or penalty
    some = "the hard margin, C = inf," if hard else called
    matrix, completes, numeric = problem.sides != (0, 0), MATRICES in takes, is_numeric(problem.loss)
    auto, by_newton = "use `solver=auto`", "use `solver=newton`"
    yield matrix and not completes, f"{called} trains on rows, and cannot complete a matrix", auto
    yield completes and not matrix, f"{called} completes matrices", auto
    lacking = problem.kernel is not None and KERNELS not in takes
    yield lacking, f"{called} finds linear models, and a kernel is given", "use `solver=smo`"
    other = ", with a penalised constant" if problem.lp else f", not for `penalty={word}`"
    hint = "give a finite C" if math.isfinite(method.default_C) else "use `penalty=l2`"
    lacking = hard and (not problem.lp or (problem.free and KERNELS not in takes))
    yield lacking, f"the hard margin, C = inf, is for the penalties l2 and lp{other}", hint
    wrong = f"{called} does not find one hard margin of all classes, `multiclass=joint` at C = inf"
    yield hard and problem.joint and JOINT not in takes, wrong, "use `solver=auto`, or `multiclass=ovr`"
    apart = problem.joint and not (hard or method.couples)
    wrong = f"{called} trains each class or output separately, and `penalty={problem.penalty_word}` joins them"
    yield apart and not problem.all_scores, wrong, by_newton
    yield apart and problem.numeric, f"{called} trains each target separately, and the loss joins them", by_newton
    yield apart, f"{called} trains one class against the rest at a finite C", "use `multiclass=ovr`"
    lacking = numeric and not (NUMBERS in takes and problem.numeric)
    yield lacking, f"{called} trains classifiers", f"for numbers use `solver={'sdca' if hard else 'newton'}`"
    lacking = problem.outputs.several and (hard or SEVERAL not in takes)
    yield lacking, f"{some} takes one label a row, and these rows have several", "name one column with `y`"
    lacking = problem.outputs.tasks > 0 and (hard or TASKS not in takes)
    wrong = f"{some} has one set of weights for all rows, and `tasks` asks for one each"
    yield lacking, wrong, "give a finite C" if hard else by_newton
    lacking = math.isinf(method.default_C) and not hard
    yield lacking, f"{called} finds the maximum margin only", "leave `C` out, or use `solver=auto`"
    why = None if completes else method.lacks(penalty, problem.free)
    column = why is not None and problem.free and method.lacks(penalty, False) is None
    yield column, f"{called} needs the constant column to be penalised", "use `bias=1`, or leave it out, with `bias=0`"
    wrong = f"{called} does not take `penalty={word}`{why and f' ({why})'}"
    yield why is not None, wrong, f"use `solver={'newton' if penalty.of_lines else 'pdprox'}`"
    lacking = problem.p != 2.0 and ANY_P not in takes
    yield lacking, f"{called} supports penalties with p = 2 only, not {problem.p:.6g}", "use `penalty=l2`"
    check_loss(method, problem)
    hint = auto if problem.kernel is None else "train on one machine"
    yield problem.holders > 1 and method.whole, f"{called} {method.whole}", hint
    for extra, asked in ((PATH, problem.path), (TOP, problem.top < math.inf), (FOLDS, problem.tried is not None)):
        yield asked and extra not in takes, f"{called} does not support {extra}", "leave it out"


def check_loss(method: Method, problem: Problem) -> None:
    """Raise a Refusal of a loss that lacks a method that is called."""
    called, loss = method.called, problem.loss_called
    needed = method.couples if coupled(problem.loss) else method.required()
    if not needed and problem.loss != terms(method.default_loss):
        raise Refusal(f"{called} has its own loss", "leave `loss` out")
    for name in needed:
        if not has(problem.loss, name):
            able = ", ".join(losses_with(needed, is_numeric(problem.loss)))
            wrong = f"{called} needs the method {name} of a loss, which {loss} lacks (these have it: {able})"
            if problem.kernel is not None and loss in LOSSES:
                wrong = f"{called} with a kernel takes the losses {able}, not {loss}"
            raise Refusal(wrong, "use one of these")


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
    """One solver. Class attributes declare it; `state_class` is the class of its state.

    Long work is done in units. A call does one unit, and returns the share of its work that is done. The driver
    repeats the call with the same arguments until all is done. Between two calls the driver may stop, or save the state
    and continue in another process. So the state records what is left to do.
    """

    mapped: ClassVar[bool] = False  # whether no pass is `alone`: then rows may be split over holders
    adds: ClassVar[Names] = ()  # the fields with sums that a pass adds to; empty: all of them

    @property
    def whole(self) -> str:
        return "" if self.mapped else IN_ONE_PLACE

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        for base in vars(cls).get("__orig_bases__", ()) if "state_class" not in vars(cls) else ():
            for kind in (getattr(one, "__bound__", one) for one in get_args(base)):
                if isinstance(kind, type) and issubclass(kind, State):
                    cls.state_class = kind  # type: ignore[method-assign, assignment]  # in place of the property

    @property
    def state_class(self) -> type[State]:
        """The class of its state, given its fields.

        Default: the state in the brackets of its base, or the bound of the name there.
        """
        raise AssertionError(f"{self.name} has no state")

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
        return self.blocks_per_step > 1 or keeps_per_row(self.state_class, problem)

    def dtype(self, problem: Problem) -> np.dtype:
        """The type of the `Float` arrays in the state."""
        return np.dtype(np.float64)

    def reserved_bytes(self, problem: Problem) -> int:
        """Bytes beside the arrays that the state declares: rows kept, arrays that grow. Default: the rows kept."""
        return self.kept_bytes(problem)

    def fits(self, problem: Problem, state: S) -> bool:
        """Whether the growing arrays of a loaded state fit each other and the rows; kernels do not check them."""
        return True

    def scratch(self, problem: Problem, rows: int, size: int, sparse: bool) -> int:
        return 0

    def kept_bytes(self, problem: Problem) -> int:
        return 0

    def memory(self, problem: Problem) -> int:
        return state_bytes(self.state_class, problem, self.dtype(problem)) + self.reserved_bytes(problem)

    def start(self, problem: Problem, labels: RowLabels) -> S:
        """The state before the first pass; labels: those of the rows."""
        made: Any = new(self.state_class, problem, self.dtype(problem), labels=labels)
        return made

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

    def begin_at(self, problem: Problem, state: S, w: np.ndarray) -> None:
        """Begin at weights (K, d+1) float64, of which R is finite, before the prologue; without this method, at 0."""
        raise AssertionError(f"{self.name} keeps no weights")

    @abstractmethod
    def keep_pass(self, problem: Problem, state: S, kept: BestKept, trials: list[int]) -> None:
        """Copy what it has now for these values of C to `kept`."""

    @abstractmethod
    def point(self, problem: Problem, state: S, column: float, proven: bool, kept: BestKept | None = None) -> Point:
        """The point of the last exact figures, or the current one; column: the value of the constant column.

        kept: an earlier pass, whose weights are taken instead.
        """

    def latest(self, problem: Problem, state: S) -> Point:
        """The point of the pass that has just ended; default: the current one."""
        return self.point(problem, state, problem.column, False)

    def last_read(self, problem: Problem, state: S) -> Visit:
        """The read for the pass that is kept: it adds to a BestKept, and its `end` returns exact figures of all groups.

        They have the best bounds of the training.
        """
        return Visit("last read", proof.add, lines=problem.count, end=partial(proof.figures, best=state.best))

    def margin_sizes(self, problem: Problem, state: S) -> MarginSizes:
        """What a hard margin is compared with; default: nothing is known."""
        return MarginSizes()


class StreamSolver(Solver[S]):
    """A method that keeps nothing per row, and so can learn from a stream."""

    whole = BY_ROW

    @abstractmethod
    def stream_block(self, problem: Problem, state: S, block: Block) -> int:
        """Learn from each row of the block once, in order; returns the number of mistakes made.

        The labels of the state are those of the block's rows. problem.present: the number of rows in the objective.
        """

    @abstractmethod
    def margin_bound(self, problem: Problem, state: S, k: int) -> float:
        """An upper bound of the margin of problem k from the steps so far; inf if there is none."""
