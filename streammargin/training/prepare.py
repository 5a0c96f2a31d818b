"""Prepare a training: open the rows, read the labels, choose a solver and plan the memory."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace

import numpy as np

from streammargin.driver.choose import choose
from streammargin.driver.labels import NONE, LabelReader, SlicedLabels
from streammargin.driver.memory import numbers_of_rows
from streammargin.driver.plan import Plan, column_names, make_plan
from streammargin.driver.setup import Target, check_outputs, encode, make_numbers
from streammargin.driver.validate import ClassValidator, LabelsValidator, NumberValidator, Validator, plan_to_score
from streammargin.errors import BudgetError, DataError, UsageError
from streammargin.losses import make_loss, terms_of
from streammargin.options.table import Options
from streammargin.penalties.lp import LpSquare
from streammargin.points.linear import LinearPoint
from streammargin.sizes import parse_size
from streammargin.solvers import leaves
from streammargin.solvers.auto import candidates, reason
from streammargin.solvers.base import Method
from streammargin.solvers.problem import Problem
from streammargin.solvers.registry import CLASSES, make_solver
from streammargin.sources.base import Source
from streammargin.sources.labels import lie_inside
from streammargin.sources.names import check_same
from streammargin.sources.open import opened
from streammargin.sources.thinned import thinned
from streammargin.sources.watched import WatchedSource
from streammargin.training.job import Job
from streammargin.training.mends import mending
from streammargin.training.problem import make_objective, make_problem, read_labels
from streammargin.training.start import start_of
from streammargin.training.steps import after_steps, bytes_of_steps, make_steps
from streammargin.training.task import Task, check_tolerance, make_task
from streammargin.wording import Message
from streammargin.workers import Workers

LOG = logging.getLogger("streammargin")
SHARDED = 23  # two bits less than the bytes of a shard have, of rows that several processes read


def prepare(stack: ExitStack, data: object, options: Options, least_tol: float = math.inf, remote: bool = False) -> Job:
    """Open the rows, read the labels and plan the reading; the stack closes what was opened.

    least_tol: the smallest tolerance of the training before it was resumed (see `Problem`). remote: other processes
    read the rows, and know nothing of earlier reads.
    """
    task = make_task(options)
    budget = parse_size(options.memory)
    stored = stack.enter_context(opened(data, x=options.x, y=options.y, sample_weight=options.sample_weight))
    source, watched = (stored, []) if remote else watch(stored, options)
    if remote and source.whole() is not None:
        raise UsageError(f"{source.name} is in the memory of this process, and others cannot read it; give paths")
    if remote and options.map is not None:
        raise UsageError("a map is learned from rows in one place; train on one machine")
    read = read_labels(source, task, options, budget)

    working = after_steps(source, options)

    def problem_of(task: Task, options: Options) -> Problem:
        asked = make_problem(working, task, options, read, budget)
        return replace(asked, holders=2, resident=False) if remote else asked

    def served(other: Options) -> Method | None:
        task = make_task(other)
        problem = problem_of(task, other)
        methods = [make_solver(word).of(problem) for word in (candidates(problem) if other.auto else [other.solver])]
        return _first(methods, lambda method: _problem_for(method, problem, task, other, working))

    given = options
    with mending(given, served):
        asked = problem_of(task, options)
    target, labels, known = read.target, read.labels.settled(), read.known
    if not task.numeric:
        options = replace(options, multiclass="joint" if asked.all_scores else "ovr")

    own = labels.held_bytes + asked.objective.penalty.nbytes + bytes_of_weights(options, asked.count, asked.features)
    names = column_names(source, budget, own)
    own += source.names_bytes()
    start = None if options.init is None else start_of(options.init, source, target, names, budget, own)
    held_out = None
    if options.valid is not None:
        held_out = _held_out(stack, options, source, names, budget, own)
        held_out, more = (held_out, []) if remote else watch(held_out, options)
        check_outputs(held_out, target, source.name)
        watched += more
    own += bytes_of_steps(source, options)
    scored = 0 if held_out is None else _least_to_score(held_out, options, asked)
    own += scored
    spare = max(0, asked.budget - own)
    asked = replace(
        asked, budget=spare, least_tol=least_tol, from_weights=start is not None, workers=Workers(options.workers)
    )

    def problem_for(method: Method) -> Problem:
        problem = _problem_for(method, asked, task, options, working)
        every = labels.more_bytes() if method.all_labels(replace(problem, resident=False)) else 0
        return replace(problem, budget=max(0, problem.budget - every))

    def fit(method: Method, problem: Problem) -> tuple[Problem, Plan]:
        each = method.sum_bytes(problem) if problem.copies or remote else 0
        levels = max(2, problem.size.bit_length() - SHARDED) if remote else 0  # of sums that wait for others
        used = own + levels * each
        problem = replace(problem, copies=0, budget=problem.budget + problem.copies * each)  # of an earlier plan
        try:
            found = plan_of(working, method, problem, labels, budget, used)
        except BudgetError as error:
            raise BudgetError(f"{error.raw}{numbers_of_rows(method, problem, able)}", error.least) from None
        size = method.sum_bytes(found[0])
        copies = leaves.copies(found[0], found[1].block_rows, size, budget)
        if copies:
            with suppress(BudgetError):  # without copies blocks are not split
                fewer = replace(problem, copies=copies, budget=max(0, problem.budget - copies * size))
                split = plan_of(working, method, fewer, labels, budget, used + copies * size)
                if split[0].resident == found[0].resident:
                    return split
        return found

    # before anything large is read or allocated
    able = [make_solver(word).of(asked) for word in candidates(asked)]
    named = able if options.auto else [make_solver(options.solver).of(asked)]
    if start is not None:
        named = who_begin(named, asked, options.auto)
    try:
        with mending(given, served):
            method, (problem, plan), before = choose(named, problem_for, fit)
    except BudgetError as error:
        raise error if options.auto else _with_what_fits(error, able, problem_for, fit) from None
    if options.auto and before is not None:
        text = f"auto took {method}, which takes more reads, as {before.raw}"
        LOG.warning(Message(text), extra={"code": "memory"})
    better = not options.auto and str(method) != str(_first(able, problem_for))
    costs = task.costs if options.costs or task.numeric else [method.default_C]
    check_tolerance(options, costs)  # the C of `auto`
    left = budget - method.memory(problem) - own + scored
    if problem.resident or method.all_labels(problem):
        labels, own, left = labels.all(), own + labels.more_bytes(), left - labels.more_bytes()
    steps = make_steps(source, options, labels, left, problem.present)
    for step in steps.values():
        working = step.taken(step.source)
    validator: Validator | None = None
    if held_out is not None:
        rows = held_out
        for step in steps.values():
            rows = step.taken(rows)
        validator = _validator(rows, target, problem, left // 4)
        own += validator.memory_bytes - scored
        # the solver's row cache shrinks accordingly
        problem = replace(problem, budget=max(0, problem.budget - validator.memory_bytes + scored))
    if steps or validator is not None:
        problem, plan = fit(method, problem)
    slim = stored if steps else thinned(stored, budget - plan.memory_bytes)
    if slim is not stored:
        fewer = replace(problem, entries=slim.nnz, sparse=True, budget=max(0, problem.budget - slim.held_bytes()))
        with suppress(UsageError):  # the rows stay dense where sparse ones need more memory
            copied = problem.copies * method.sum_bytes(problem)
            problem, plan = plan_of(slim, method, fewer, labels, budget, own + copied)
            source = working = slim
    if wants_free(options, task, problem) and not problem.free:
        text = f"{method.called} cannot leave the constant free with this penalty: it is penalised (`bias=1` says so)"
        LOG.warning(Message(text), extra={"code": "bias"})
    why = reason(problem, str(method)) + method.remark(problem) if options.auto else None
    if why is not None:
        LOG.info("took %s", why)
    problem = replace(problem, column=options.column(costs))
    return Job(
        options, costs, method, source, target, labels, known, problem, working, steps,
        validator, plan, why, better, watched, names, start, stored.label_column(),
    )  # fmt: skip


def bytes_of_weights(options: Options, outputs: int, features: int) -> int:
    """The bytes of the copies of the weights, and of four vectors of one output."""
    copies = 3 + (options.path is not None)  # latest, certified, shown; best of a path
    copies += 2 * (options.early_stop is not None)  # the best pass, and the current one
    copies += 3 * (options.init is not None)  # the first weights: as given, as scaled, and for each C
    return LinearPoint.nbytes(copies * outputs + 4, features)


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

    inside, outside = replace(problem, resident=True), replace(problem, resident=False)
    with suppress(UsageError):
        plan = attempt(outside if problem.holders > 1 else inside)
        if plan.resident:
            return inside, plan
    return outside, attempt(outside)


def wants_free(options: Options, task: Task, problem: Problem) -> bool:
    """Whether the constant is by default not penalised, if the solver supports that."""
    lp = isinstance(problem.penalty, LpSquare)
    return options.bias is None and options.column(task.costs) != 0.0 and (task.from_constant or not lp)


def _problem_for(method: Method, asked: Problem, task: Task, options: Options, source: Source) -> Problem:
    """The problem for this solver: with its default loss and C, and a free constant if it supports that."""
    if wants_free(options, task, asked):
        able = method.serves(make_objective(source, options, True, asked.per_trial), True)
        penalty = make_objective(source, options, able, asked.per_trial)
        asked = replace(asked, penalty=penalty, norm=penalty.norm or asked.norm, free=able)
    if not options.auto or task.numeric:
        return asked
    at_once = asked.all_scores and not asked.hard
    loss = asked.loss
    if options.loss is None:
        loss = terms_of(make_loss(method.default_loss), at_once, asked.per_trial)
    outputs = asked.outputs if options.costs else asked.outputs.at(method.default_C)  # `asked` has C = 1
    return replace(asked, loss=loss, outputs=outputs)


def _validator(rows: Source, target: Target, problem: Problem, budget: int) -> Validator:
    """The validator of held-out rows, within a budget in bytes."""
    reading = rows.column_bytes()
    several = problem.per_trial if problem.outputs.several else 1
    if problem.numeric:
        numbers = SlicedLabels(rows, NONE, make_numbers(rows), shift=target.shift, reading=reading, outputs=several)
        return NumberValidator(rows, numbers.settled(), problem.loss, problem.trials, budget)
    codes, counted = encode(rows, target)
    labels = SlicedLabels(rows, codes, NONE, reading=reading, outputs=several).settled()
    if several > 1:
        return LabelsValidator(rows, labels, problem.trials, budget)
    return ClassValidator(rows, labels, counted, problem.outputs.positive, problem.trials, budget)


def _least_to_score(held_out: Source, options: Options, problem: Problem) -> int:
    """The bytes of a validator with the smallest plan."""
    rows = after_steps(held_out, options)
    outputs = problem.per_trial if problem.outputs.several else 1
    each = 2 + 8 * outputs if problem.numeric else 2 * outputs
    if held_out.rereads_labels():
        return held_out.column_bytes() + plan_to_score(rows, problem.count, each)[1]
    return held_out.rows * each + plan_to_score(rows, problem.count, 0)[1]


def watch(source: Source, options: Options) -> tuple[Source, list[WatchedSource]]:
    """The source and an empty list; with a checkpoint, the source as a WatchedSource and a list of it."""
    if options.checkpoint is None:
        return source, []
    watched = WatchedSource(source)
    return watched, [watched]


def _first(methods: Sequence[Method], problem_for: Callable[[Method], Problem]) -> Method | None:
    """The first of these solvers that serves its problem."""
    for method in methods:
        with suppress(UsageError):
            method.check(problem_for(method))
            return method
    return None


def _with_what_fits(
    error: BudgetError, methods: Sequence[Method], problem_for: Callable[[Method], Problem],
    fit: Callable[[Method, Problem], tuple[Problem, Plan]],
) -> UsageError:  # fmt: skip
    """The error for a named solver that needs more memory, with what `auto` would take within the budget, if any."""
    with suppress(UsageError):
        taken = choose(methods, problem_for, fit)[0].called
        return UsageError(f"{error.raw}, or `solver=auto`: it takes {taken}, which needs less")
    return error


def _listed(words: Sequence[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def who_begin(methods: Sequence[Method], problem: Problem, auto: bool) -> list[Method]:
    """Those of these solvers that can begin from given weights; auto: they are those that `auto` tries.

    UsageError where none can.
    """
    if problem.path:
        raise UsageError("a path over C begins where all weights are 0; give values of `C`, or leave out `init`")
    able = [method for method in methods if method.keeps_weights]
    if not able:
        names = " or ".join(method.called for method in methods)
        others = _listed([name for name in list(CLASSES)[1:] if make_solver(name).keeps_weights])
        raise UsageError(
            f"{f'`solver=auto` takes {names} here, which' if auto else names} cannot begin from weights; {others} can, "
            "for a finite C: name one with `solver`, or leave out `init`"
        )
    return able


def _held_out(
    stack: ExitStack, options: Options, source: Source, feature_names: np.ndarray | None, budget: int, own: int
) -> Source:  # fmt: skip
    y = options.y if lie_inside(options.y) else None  # those of another file belong to the rows of `source` only
    held_out = stack.enter_context(opened(options.valid, x=options.x, y=y))
    if held_out.features != source.features:
        raise DataError(
            f"{held_out.name} has {held_out.features} columns but {source.name} has {source.features}; convert both "
            "with streammargin-data convert and the same --features"
        )
    if options.scale in ("std", "auto") and held_out.sparse and not source.sparse:
        raise UsageError(
            f"{held_out.name} is sparse, so it cannot be centred as `scale={options.scale}` does with the dense rows "
            f"of {source.name}; write both as dense or both as sparse rows, or use `scale=maxabs`"
        )
    if feature_names is not None:
        others = column_names(held_out, budget, own)
        if others is None:
            text = f"{held_out.name} has no column names, though {source.name} has: columns are matched by position"
            LOG.warning(text, extra={"code": "columns"})
        else:
            check_same(feature_names, others, source.name, held_out.name)
    return held_out
