"""Prepare a training: open the rows, read the labels, choose a solver and plan the memory."""

from __future__ import annotations

import math
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from streammargin.driver.learn.steps import Step, after_steps, bytes_beside, bytes_of_steps, make_steps, transformed
from streammargin.driver.learn.validate import Counted, Validator
from streammargin.errors import BudgetError, UsageError
from streammargin.model.linear import CONSTANT_IN_COLUMNS
from streammargin.options.table import FREE_BIAS, Options
from streammargin.points.linear import LinearPoint
from streammargin.reading.labels import LabelReader
from streammargin.reading.plan import Plan, column_names
from streammargin.reading.tasks import Tasks, column_of, learn
from streammargin.rows.blocks import CSRBlock, values_of
from streammargin.sizes import parse_size
from streammargin.solvers.auto import reason
from streammargin.solvers.base import Method, sum_bytes_of
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import state_bytes
from streammargin.sources.arrays import is_anndata
from streammargin.sources.base import Slices, Source
from streammargin.sources.open import opened
from streammargin.sources.views import TransformedSource, WatchedSource, thinned
from streammargin.training.fitting import Asking, Fitting, plan_of, wants_free
from streammargin.training.folds import FoldValidator, check_place, column_of_groups, in_folds
from streammargin.training.grid import GRIDS, grid_of, tell_grid
from streammargin.training.held_out import least_to_score, make_validator, open_held_out
from streammargin.training.job import Job
from streammargin.training.problem import LabelsRead, read_labels
from streammargin.training.setup import check_every
from streammargin.training.start import start_of
from streammargin.training.task import Task, check_tolerance, make_task
from streammargin.transforms.chain import Chain
from streammargin.wording import LOG, note, warn
from streammargin.workers import Workers

UNWEIGHTED_CHOICE = (
    "the held-out errors that choose C count each row once, without `class_weight`, and so hardly a rare class; name "
    'one `C`, or choose by scoring="balanced_accuracy" of sm.MarginClassifierCV in Python'
)
COUNTS_SAMPLE_BYTES = 1 << 20  # bytes of the first rows that may be counts
COUNTED = 10.0  # whole numbers above it are counts of molecules, and no marks or classes


def prepare(stack: ExitStack, data: object, options: Options, least_tol: float = math.inf, remote: bool = False) -> Job:
    """Open the rows, read the labels and plan the reading; the stack closes what was opened.

    With folds and without C fewer values of C are tried if the budget is too small for all of the grid.
    """
    if options.cv is None or options.C is not None:
        return _prepared(stack, data, options, least_tol, remote)
    refusals: list[BudgetError] = []
    for grid in GRIDS:
        with ExitStack() as opened_here:
            try:
                job = _prepared(opened_here, data, options, least_tol, remote, grid)
            except BudgetError as error:
                if refusals and error.least == refusals[-1].least:  # fewer values do not help
                    raise
                refusals.append(error)
                continue
            stack.push(opened_here.pop_all())
            tell_grid(job.costs, refusals)
            return job
    raise BudgetError(
        f"{refusals[-1].raw}, for {len(GRIDS[-1])} values of C; `valid=20%` or fewer values of `C` need less",
        refusals[-1].least,
    )


class _Rows(NamedTuple):
    """The rows as they are stored, and as steps without memory leave them; watched: those that a checkpoint hashes.

    remote: other processes read them.
    """

    stored: Source
    source: Source
    watched: list[WatchedSource]
    remote: bool

    @property
    def chain(self) -> Chain | None:
        """The steps that the rows take."""
        return self.source.chain if isinstance(self.source, TransformedSource) else None


class _Beside(NamedTuple):
    """What is beside the solver's state, of `own` bytes; own_tasks: of the held-out rows.

    scored: bytes of these for scores of held-out rows, until a validator says how many it needs.
    """

    own: int
    names: np.ndarray | None
    start: LinearPoint | None
    held_out: Source | None = None
    own_tasks: Slices | None = None
    scored: int = 0


def _prepared(
    stack: ExitStack, data: object, options: Options, least_tol: float, remote: bool, grid: np.ndarray | None = None
) -> Job:
    """See `prepare`.

    `grid`       values of C times the mean ||x||^2, if folds choose among them.
    `least_tol`  the smallest tolerance of the training before it was resumed (see `Problem`).
    `remote`     other processes read the rows, and know nothing of earlier reads.
    """
    task = make_task(options)  # what cannot be is refused before anything is read
    budget = parse_size(options.memory)
    workers = stack.enter_context(closing(Workers(options.workers)))
    rows = _open_rows(stack, data, options, remote)
    if grid is not None:
        options = replace(options, C=grid_of(transformed(rows.stored, options, rows.chain), options, grid))
        task = make_task(options)
    read = _read(stack, data, options, rows, task, workers)
    asking = Asking(after_steps(rows.source, options), read, options, budget, remote)
    options, told = asking.with_loss()
    task, asking = make_task(options), replace(asking, options=options)
    with asking.with_hints():
        asked = asking.problem(task, options)
    if options.calibrate is not None and asked.outputs.several:
        raise UsageError("`calibrate` takes one label a row, and these rows have several; name one column with `y`")

    labels = read.labels.settled()
    asked = replace(asked, least_tol=least_tol, workers=workers, from_weights=options.init is not None)
    fitting = Fitting(asked, task, options, asking.rows, labels, budget, 0)
    own = _bytes_known(options, rows.source, labels, asked)
    if own > budget:
        fitting.beside(own).choose(asking)  # refused, with the bytes of all that follows
    beside = _beside(stack, options, rows, read, asked, own, workers)
    fitting = fitting.beside(beside.own)
    method, problem, plan, better = fitting.choose(asking)
    costs = task.costs if options.costs or task.numeric else [method.default_C]
    costs = costs * (problem.trials // len(costs))  # for each fold, and for all rows
    check_tolerance(options, costs)  # the C of `auto`

    fitting, problem, steps, validator = _learn(options, rows, read, beside, fitting, method, problem)
    if steps or validator is not None:
        problem, plan = fitting.fit(method, problem)
    source, working = rows.source, fitting.rows
    slim = rows.stored if steps or rows.chain else thinned(rows.stored, budget - plan.memory_bytes)
    if slim is not rows.stored and (sparse := _of_sparse(fitting, slim, method, problem)) is not None:
        problem, plan = sparse
        source = working = slim

    why = reason(problem, str(method)) + method.remark(problem) if options.auto else None
    if told:
        note(told)
    in_columns = _constant_in_columns(asking, problem)
    _tell(options, task, method, problem, why, in_columns)
    alone = [path.endswith(".h5ad") for path in rows.stored.files()] == [True]
    if is_anndata(data) or (alone and not remote and options.of_files is None and options.mask is None):
        _tell_counts(rows.stored, options)
    problem = replace(problem, column=options.column(costs))
    return Job(
        options, costs, method, source, read.target, fitting.labels, read.known, problem, working, steps, validator,
        plan, why, better, rows.watched, beside.names, beside.start, in_columns, rows.stored.label_column(),
    )  # fmt: skip


def _open_rows(stack: ExitStack, data: object, options: Options, remote: bool) -> _Rows:
    """Open the data."""
    weight, mask = options.sample_weight, None if isinstance(data, Source) else options.mask  # a spool has its rows
    stored = stack.enter_context(
        opened(data, x=options.x, y=options.y, sample_weight=weight, mask=mask, columns=options.of_files)
    )
    if remote and options.mask is not None:
        raise UsageError("`mask` is for one machine; write these rows to a file of their own for a cluster")
    watched: list[WatchedSource] = []
    source = stored if remote else watch(stored, options, watched)
    if remote and source.whole() is not None:
        raise UsageError(f"{source.name} is in the memory of this process, and others cannot read it; give paths")
    source = transformed(source, options)
    if options.folds is not None:
        check_place(source, options)
    return _Rows(stored, source, watched, remote)


def _read(stack: ExitStack, data: object, options: Options, rows: _Rows, task: Task, workers: Workers) -> LabelsRead:
    """Read the labels, with tasks and folds."""
    tasks = None if options.tasks is None else _tasks_of(stack, rows.stored, data, options, task, workers)
    read = read_labels(rows.source, task, options, parse_size(options.memory), tasks, workers)
    if options.folds is None:
        return read
    groups = column_of_groups(stack, options.folds, data, options.x, rows.stored)
    with_folds, division = in_folds(read.labels, read.target, options.folds, options.seed, groups)
    by = None if groups is None else str(groups.label_column() or getattr(options.folds, "by", None))
    return read._replace(labels=with_folds, division=division, target=replace(read.target, group_column=by))


def _bytes_known(options: Options, source: Source, labels: LabelReader, asked: Problem) -> int:
    """Bytes beside the solver's state before anything else is read: of labels, weights, names of columns and steps."""
    own = labels.held_bytes + asked.objective.penalty.nbytes
    own += bytes_of_weights(options, asked.count, asked.features)
    if options.tasks is not None:  # these grow with the squared tasks
        own += asked.outputs.caps.nbytes + asked.outputs.mass.nbytes
    if options.folds is not None:
        own += FoldValidator.bytes_of(asked)
    if options.calibrate is not None:
        own += state_bytes(Counted, asked)
    return own + source.names_bytes() + bytes_of_steps(source, options) + bytes_beside(source, options)


def _beside(
    stack: ExitStack, options: Options, rows: _Rows, read: LabelsRead, asked: Problem, own: int, workers: Workers
) -> _Beside:
    """Names of columns, first weights and held-out rows; own: the bytes of `_bytes_known`."""
    source, budget = rows.source, parse_size(options.memory)
    names = column_names(source, budget, own - source.names_bytes())
    if names is None and options.of_files is not None:
        raise UsageError(f"{source.name} has no column names, and `columns` chooses by name; leave it out")
    start = None if options.init is None else start_of(options.init, source, read.target, names, budget, own)
    if options.held_out is None:
        return _Beside(own, names, start)
    held_out, own_tasks = open_held_out(stack, options, source, names, budget, own, read.target, workers)
    held_out = transformed(held_out if rows.remote else watch(held_out, options, rows.watched), options, rows.chain)
    scored = least_to_score(held_out, options, asked)
    return _Beside(own + scored, names, start, held_out, own_tasks, scored)


def _learn(
    options: Options, rows: _Rows, read: LabelsRead, beside: _Beside, fitting: Fitting, method: Method, problem: Problem
) -> tuple[Fitting, Problem, dict[str, Step], Validator | None]:
    """What is learned and read beside: the fitting and the problem without its memory, the steps, the validator."""
    labels, working, held_out, own = fitting.labels, fitting.rows, beside.held_out, fitting.own
    more = working is not rows.source or rows.chain is not None or held_out is not None
    left = fitting.budget - own + beside.scored - (method.memory(problem) if more else 0)
    if problem.resident or method.all_labels(problem):
        labels, own, left = labels.all(), own + labels.more_bytes(), left - labels.more_bytes()
    steps = make_steps(rows.source, options, labels, left, problem.present)
    for step in steps.values():
        working = step.taken(step.source)
        held_out = None if held_out is None else step.taken(held_out)

    validator: Validator | None = None
    if held_out is not None:
        every = options.calibrate is not None
        validator = make_validator(held_out, read.target, problem, left // 4, beside.own_tasks, every)
        size = validator.memory_bytes - beside.scored
        own, problem = own + size, replace(problem, budget=max(0, problem.budget - size))
    if read.division is not None:
        validator = FoldValidator(labels, problem, read.division)
        if options.calibrate is not None:
            check_every(rows.source.name, read.target.classes, read.division.held_out)
    return replace(fitting, rows=working, labels=labels, own=own), problem, steps, validator


def _tasks_of(stack: ExitStack, source: Source, data: object, options: Options, task: Task, workers: Workers) -> Tasks:
    """The tasks of the rows. UsageError for options that these do not have."""
    if math.inf in task.costs:
        raise UsageError("rows of tasks are trained at a finite C, by `solver=newton`; give one, as `C=1`")
    for name in ("kernel", "init"):
        if getattr(options, name) is not None:
            raise UsageError(f"`{name}` is for one set of weights, and `tasks` has one for each task; leave out one")
    return learn(column_of(stack, options.tasks, data, options.x, source), options.tasks, workers)


def _of_sparse(fitting: Fitting, slim: Source, method: Method, problem: Problem) -> tuple[Problem, Plan] | None:
    """The plan for dense rows in memory as sparse ones; None if these need more memory."""
    fewer = replace(problem, entries=slim.nnz, sparse=True, budget=max(0, problem.budget - slim.held_bytes()))
    with suppress(UsageError):
        used = fitting.own + problem.copies * sum_bytes_of(method, problem)
        return plan_of(slim, method, fewer, fitting.labels, fitting.budget, used)
    return None


def _constant_in_columns(asking: Asking, problem: Problem) -> bool:
    """Whether columns carry a part of a penalised constant, as the scale keeps their means, and `bias=free` ends it."""
    options = asking.options
    kept = options.scaling[0] == "std" and asking.rows.sparse and not (options.kernel or options.map)
    if not kept or problem.free or not options.column(problem.outputs.costs.tolist()):
        return False
    with suppress(UsageError):
        return asking.supported(replace(options, bias=FREE_BIAS)) is not None
    return False


def _tell(options: Options, task: Task, method: Method, problem: Problem, why: str | None, in_columns: bool) -> None:
    """Log what was chosen."""
    if wants_free(options, task, problem) and not problem.free:
        text = f"{method.called} cannot leave the constant free with this penalty: it is penalised (`bias=1` says so)"
        warn(text, "bias")
    if options.calibrate is not None and problem.all_scores and task.loss.name == "logistic":
        note("the softmax has probabilities of its own, and `calibrate` replaces them: compare both")
    if options.class_weight is not None and (len(task.costs) > 1 or options.path is not None):
        note(UNWEIGHTED_CHOICE)
    if in_columns:
        note(CONSTANT_IN_COLUMNS)
    if why is not None:
        LOG.info("took %s", why)


def _tell_counts(cells: Source, options: Options) -> None:
    """Say how raw counts are made alike, if the first cells hold counts, and no step or scale changes them.

    Also say that fractions may be logarithms already, if the steps take those of totals.
    """
    bounds, words = cells.bounds(COUNTS_SAMPLE_BYTES)[:2], [step.name for step in options.steps]
    logs = "total" in words and "log1p" in words
    changed = not logs and (options.steps or options.scaling[0] != "none")
    if changed or cells.buffer_bytes(bounds) > 2 * COUNTS_SAMPLE_BYTES:
        return
    block = cells.read(0, int(bounds[1]), cells.allocate(bounds))
    values = values_of(block)
    values = values[block.indptr[0] : block.indptr[-1]] if isinstance(block, CSRBlock) else values
    most = values.max(initial=0.0)
    whole = np.array_equal(values, np.rint(values))
    if logs and not whole:
        why = f"{cells.name}: its first rows hold fractions up to {most:g}, and no counts"
        note(f"{why}; if they are logarithms already, leave out `transform`")
    if not logs and most > COUNTED and values.min() >= 0.0 and whole:
        why = f"{cells.name}: its first rows hold counts up to {most:g}"
        note(f"{why}, which are not scaled; `transform=total:10000,log1p` makes cells of any depth comparable")


def bytes_of_weights(options: Options, outputs: int, features: int) -> int:
    """The bytes of the copies of the weights, and of four vectors of one output."""
    copies = 3 + (options.path is not None)  # latest, certified, shown; best of a path
    copies += 2 * (options.early_stop is not None)  # the best pass, and the current one
    copies += 2 * (options.folds is not None)  # of all trials, for rows as they are stored
    copies += 3 * (options.init is not None)  # the first weights: as given, as scaled, and for each C
    return LinearPoint.nbytes(copies * outputs + 4, features)


def watch(source: Source, options: Options, watched: list[WatchedSource]) -> Source:
    """The source; with a checkpoint as a WatchedSource, which is added to `watched`."""
    if options.checkpoint is None:
        return source
    watched.append(WatchedSource(source))
    return watched[-1]
