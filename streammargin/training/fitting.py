"""Choose a solver for what is asked for, and plan its reading within the budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np

from streammargin.compiled.overloads import expose
from streammargin.errors import BudgetError, UsageError
from streammargin.losses import make_loss, terms, terms_of
from streammargin.options.table import Options
from streammargin.reading.labels import LabelReader
from streammargin.reading.plan import Plan, make_plan
from streammargin.sizes import format_size
from streammargin.solvers import leaves
from streammargin.solvers.auto import candidates
from streammargin.solvers.base import Method, Solver, row_bytes_of, sum_bytes_of
from streammargin.solvers.problem import Outputs, Problem
from streammargin.solvers.registry import SOLVER_CLASSES, make_solver, names
from streammargin.solvers.word import Auto
from streammargin.sources.base import Source
from streammargin.training.hints import with_hints
from streammargin.training.problem import LabelsRead, make_objective, make_problem
from streammargin.training.task import Task, make_task
from streammargin.wording import warn

SHARDED = 26  # bits of the bytes of a shard, of rows that several processes read
SEVERAL = "logistic"  # the loss of three classes and more, if none is given
WORTH = 1 << 16  # least bytes of all rows that are told
FAR_OVER_BUDGET = 64  # times: a solver that needs more is no advice
WITHOUT_ROW_NUMBERS = ("newton", "mirror")  # named first: for a finite C, for the hard margin
Fit = TypeVar("Fit")


@dataclass(frozen=True)
class Asking:
    """The options' demands on these rows; options: the user's own, for which hints are tried. remote: see `prepare`."""

    rows: Source
    read: LabelsRead
    options: Options
    budget: int
    remote: bool

    def problem(self, task: Task, options: Options) -> Problem:
        """The problem of a task, before a solver is known."""
        asked = make_problem(self.rows, task, options, self.read, self.budget)
        return replace(asked, holders=2, resident=False) if self.remote else asked

    def supported(self, other: Options) -> Method | None:
        """The solver that supports other options, if there is one."""
        task = make_task(other)
        problem = self.problem(task, other)
        methods = [make_solver(word).of(problem) for word in (candidates(problem) if other.auto else [other.solver])]
        return first_that_serves(methods, lambda method: problem_for(method, problem, task, other, self.rows))

    def with_loss(self) -> tuple[Options, str]:
        """The options, with the loss logistic for three classes and more if none was given; and what is told of that.

        Kernel machines, several outputs, tasks, C = inf and solvers with a loss of their own keep their default. So do
        solvers that do not support this loss.
        """
        given, classes = self.options, len(self.read.target.positive)
        named = None if given.auto else make_solver(given.solver)
        own = named is not None and (named.default_loss != Method.default_loss or math.inf == named.default_C)
        if given.loss is not None or given.kernel is not None or own or math.inf in (given.costs or ()):
            return given, ""
        if classes > 2 and not (self.read.labels.outputs > 1 or len(self.read.target.tasks)):
            several = replace(given, loss=SEVERAL)
            with suppress(UsageError):
                if self.supported(several) is not None:
                    told = f"no loss was given: {classes} classes take `loss={SEVERAL}`, which has probabilities"
                    return several, f"{told}; `loss=hinge` separates each class from the rest"
        return given, f"no loss was given: `loss={Method.default_loss}` is taken; `loss={SEVERAL}` has probabilities"

    def with_hints(self) -> AbstractContextManager[None]:
        """Within it a Refusal becomes the error that hints at other options."""
        return with_hints(self.options, self.supported)


class FittedSolver(NamedTuple):
    """A solver with its problem and plan; better: `auto` would take another solver than the one that was named."""

    method: Method
    problem: Problem
    plan: Plan
    better: bool


@dataclass(frozen=True)
class Fitting:
    """Finds a solver within the budget, of which `own` bytes are used by other things than the solver's state."""

    asked: Problem
    task: Task
    options: Options
    rows: Source
    labels: LabelReader
    budget: int
    own: int

    def beside(self, own: int) -> Fitting:
        """The same beside so many bytes of other things."""
        left = max(0, self.asked.budget - own - self.rows.held_bytes())
        return replace(self, asked=replace(self.asked, budget=left), own=own)

    @property
    def able(self) -> list[Method]:
        """The solvers that `auto` tries."""
        known = replace(self.asked, resident=self.rows.whole() is not None)
        return [make_solver(word).of(self.asked) for word in candidates(known)]

    def choose(self, asking: Asking) -> FittedSolver:
        """The solver that was named, or the first that fits. UsageError, before anything large is read or allocated."""
        auto, able = self.options.auto, self.able
        named = able if auto else [make_solver(self.options.solver).of(self.asked)]
        if self.asked.from_weights:
            named = who_begin(named, self.asked, auto)
        try:
            with asking.with_hints():
                method, (problem, plan), before = choose(named, self._problem, self.fit)
        except BudgetError as error:
            raise error if auto else self._with_what_fits(error) from None
        if auto and before is not None:
            why, is_near = before.raw, before.least < FAR_OVER_BUDGET * self.budget
            why = (
                why
                if is_near
                else f"{why.partition(' plan needs ')[0]} plan needs over {FAR_OVER_BUDGET} times as much"
            )
            warn(f"auto took {method}, which fits but may take more reads, as for {why}", "memory")
        better = not auto and str(method) != str(first_that_serves(able, self._problem))
        return FittedSolver(method, problem, plan, better)

    def _problem(self, method: Method) -> Problem:
        problem = problem_for(method, self.asked, self.task, self.options, self.rows)
        every = self.labels.more_bytes() if method.all_labels(replace(problem, resident=False)) else 0
        return replace(problem, budget=max(0, problem.budget - every))

    def fit(self, method: Method, problem: Problem) -> tuple[Problem, Plan]:
        """The plan, with copies of the sums for threads if these leave room. BudgetError for a budget too small."""
        remote = problem.holders > 1
        each = sum_bytes_of(method, problem) if problem.copies or remote else 0
        levels = 2 * max(1, problem.size.bit_length() - SHARDED) if remote else 0  # sums of shards in a row that wait
        used = self.own + levels * each
        if problem.copies:  # of an earlier plan
            problem = replace(problem, copies=0, budget=problem.budget + problem.copies * each)
        try:
            found = plan_of(self.rows, method, problem, self.labels, self.budget, used)
        except BudgetError as error:
            kept = numbers_of_rows(method, problem, self.able, self.budget - self.own)
            raise BudgetError(f"{error.raw}{kept}", error.least) from None
        if not leaves.may_split(found[0], found[1].block_rows):
            return found
        size, free = sum_bytes_of(method, found[0]), self.budget - found[1].memory_bytes if found[0].resident else 0
        if copies := leaves.copies(size, max(free, self.budget // leaves.COPIES_BUDGET_PART)):
            with suppress(BudgetError):  # without copies blocks are not split
                fewer = replace(problem, copies=copies, budget=max(0, problem.budget - copies * size))
                split = plan_of(self.rows, method, fewer, self.labels, self.budget, used + copies * size)
                if split[0].resident == found[0].resident:
                    return split
        return found

    def _with_what_fits(self, error: BudgetError) -> BudgetError:
        """The error for a named solver that needs more memory, with what `auto` would take within it, if any."""
        with suppress(UsageError):
            taken = choose(self.able, self._problem, self.fit)[0].called
            text = f"{error.raw}, or `solver=auto`: it takes {taken}, which needs less"
            return BudgetError(text, error.least)
        return error


def plan_of(
    rows: Source, method: Method, problem: Problem, labels: LabelReader, budget: int, others: int
) -> tuple[Problem, Plan]:
    """The block plan for these rows, and the problem with `resident` set according to it.

    others: bytes of the budget used by other things than the solver's state, labels that are held included. UsageError
    for a budget too small.
    """

    def attempt(fitted: Problem) -> Plan:
        def scratch(m: int, size: int) -> int:
            return method.scratch(fitted, m, size, rows.sparse)

        every = fitted.resident or method.all_labels(fitted)
        state = method.memory(fitted) + others + (labels.more_bytes() if every else 0)
        each, even = 0 if every else labels.row_bytes, problem.holders > 1
        return make_plan(rows, budget, state, scratch, method.blocks_per_step, fitted.count, each, even)

    inside = replace(problem, resident=True)
    with suppress(UsageError):
        plan = attempt(inside if problem.holders == 1 else replace(problem, resident=False))
        if plan.resident:
            return inside, plan
    outside = replace(problem, resident=False)
    return outside, attempt(outside)


def wants_free(options: Options, task: Task, problem: Problem) -> bool:
    """Whether the constant is by default not penalised, if the solver supports that."""
    return options.bias is None and options.column(task.costs) != 0.0 and (task.from_constant or not problem.lp)


def problem_for(method: Method, asked: Problem, task: Task, options: Options, source: Source) -> Problem:
    """The problem for this solver: with its default loss and C, and a free constant if it supports that."""
    if wants_free(options, task, asked):
        able = method.lacks(make_objective(source, options, True, asked.per_trial), True) is None
        penalty = make_objective(source, options, able, asked.per_trial)
        asked = replace(asked, penalty=penalty, free=able)
    if not options.auto or task.numeric:
        return asked
    at_once = asked.all_scores and not asked.hard
    loss = asked.loss
    if options.loss is None:
        loss = terms_of(make_loss(method.default_loss), at_once, asked.per_trial)
    outputs = asked.outputs if options.costs else asked.outputs.at(method.default_C)  # `asked` has C = 1
    return replace(asked, loss=loss, outputs=outputs)


def first_that_serves(methods: Sequence[Method], problem_for: Callable[[Method], Problem]) -> Method | None:
    """The first of these solvers that supports its problem."""
    for method in methods:
        with suppress(UsageError):
            method.check(problem_for(method))
            return method
    return None


def keeps_weights(method: Method) -> bool:
    """Whether a method can begin from given weights: one of its solvers can."""
    return any(type(stage.solver).begin_at is not Solver.begin_at for stage in method.stages().values())


def who_begin(methods: Sequence[Method], problem: Problem, auto: bool) -> list[Method]:
    """The solvers that can begin from given weights; auto: they are those that `auto` tries.

    UsageError if none can.
    """
    if problem.path:
        raise UsageError("a path over C begins at the weights 0; give values of `C`, or leave out `init`")
    able = [method for method in methods if keeps_weights(method)]
    if not able:
        names = " or ".join(method.called for method in methods)
        others = [other for other in map(make_solver, list(SOLVER_CLASSES)[1:]) if keeps_weights(other)]
        finite, hard = (
            ", ".join(other.name for other in others if math.isinf(other.default_C) == at_inf)
            for at_inf in (False, True)
        )
        raise UsageError(
            f"{f'`solver=auto` takes {names} here, which' if auto else names} cannot begin from weights; {finite} can, "
            f"for a finite C, and {hard} for C = inf: name one with `solver`, or leave out `init`"
        )
    return able


def numbers_of_rows(method: Method, problem: Problem, others: Sequence[Method], budget: int) -> str:
    """The end of a refusal: bytes a row, in all, and who keeps none; empty if the method itself keeps none.

    others: methods that `auto` would take. budget: bytes that the one who keeps none may take for all else.
    """
    each = row_bytes_of(method, problem)
    if each * problem.rows < WORTH:
        return ""
    said, end = f"; {method.called} keeps {each} bytes a row, {format_size(each * problem.rows)} in all", ""
    rest = (name for name in (*WITHOUT_ROW_NUMBERS, *names()) if name != Auto.name)
    for other in (*others, *map(make_solver, rest)):
        with suppress(UsageError):
            other.check(problem)
            if row_bytes_of(other, problem):
                continue
            if other.memory(replace(problem, budget=0, copies=0, resident=False)) <= budget:
                return f"{said}; `solver={other.called}` keeps none"
            end = "; methods that keep none need more for their steps"
    return said + (end or "; every method for this problem keeps some")


def usual_bytes(method: Method) -> int:
    """Bytes that it keeps of each row out of core: two classes, float32 values, one value of C, the penalty l2."""
    cost = math.inf if math.isinf(method.default_C) else 1.0
    return row_bytes_of(method, Problem(
        rows=1, features=1, dtype=np.dtype(np.float32), loss=terms(method.default_loss),
        outputs=Outputs(np.array([1]), np.full((1, 2), cost)), trials=1, tol=1e-3, seed=0, present=1, resident=False,
    ))  # fmt: skip


def choose(
    methods: Sequence[Method], problem_for: Callable[[Method], Problem], fit: Callable[[Method, Problem], Fit]
) -> tuple[Method, Fit, BudgetError | None]:
    """(The first solver that supports its problem and fits, what `fit` returned, a refusal).

    The refusal names the first solver tried that needs more memory, if there was one.

    If none does, raises the UsageError of the one that needs the least memory, or else the last refusal.

    `problem_for`  the problem, with the solver's own loss and C if these were left out.
    `fit`          plans the memory. UsageError for a budget that is too small. It is tried with smaller shares of the
                   budget for the solver's optional caches. A share of 0 makes the error name the minimum.
    """
    refusal: UsageError | None = None
    too_large: list[UsageError] = []
    before: BudgetError | None = None
    for method in methods:
        problem = problem_for(method)
        expose(type(problem.loss))
        expose(type(problem.norm))
        try:
            method.check(problem)
        except UsageError as error:
            refusal = error
            continue
        # caches may leave too little for blocks that cannot be small
        for share in (1.0, 0.75, 0.5, 0.0) if problem.budget else (0.0,):
            try:
                return method, fit(method, replace(problem, budget=int(share * problem.budget))), before
            except UsageError as error:
                too_large.append(error)
        if before is None and isinstance(too_large[-1], BudgetError):
            before = BudgetError(f"{method.called} {too_large[-1].raw}", too_large[-1].least)
    none_fits = refusal or UsageError("there is no solver to try")
    raise min(too_large, key=lambda error: getattr(error, "least", math.inf), default=none_fits)
