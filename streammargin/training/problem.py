"""Build the Problem, that is the objective, from options and labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from streammargin.errors import DataError, UsageError
from streammargin.kernels import make_kernel
from streammargin.losses import LOSSES, terms_of
from streammargin.losses.base import coupled, has
from streammargin.matching import MAX_CLASSES, number_in
from streammargin.options.table import FREE_BIAS, Options
from streammargin.penalties import make_penalty
from streammargin.penalties.base import PenalisedColumns, Penalty
from streammargin.penalties.lp import LpSquare
from streammargin.reading import plan
from streammargin.reading.labels import NO_NUMBERS, SlicedLabels, codes_of_tasks
from streammargin.reading.tasks import Tasks
from streammargin.solvers.problem import Outputs, Problem
from streammargin.sources.arrays import as_weights
from streammargin.sources.base import Slices, Source
from streammargin.sources.groups import column_groups
from streammargin.sources.labels import is_text
from streammargin.training import setup
from streammargin.training.folds import Division
from streammargin.training.setup import Survey, Target, best_constants, check_near, largest_targets
from streammargin.training.task import Task
from streammargin.wording import short, shortened, shown, warn
from streammargin.workers import ALONE, Workers

HELD_LABEL_BYTES = 8 << 20
TRIED_LABELS = 100  # they most often show that there are more than two
EPSILONS = ("epsilons", "loss=interpolate:")  # in messages: what they are, and how to name them


class LabelsRead(NamedTuple):
    """Facts read from the labels; largest: the largest |target|, 0 for classes; division: the folds, if there are."""

    target: Target
    labels: SlicedLabels
    known: Survey
    largest: float
    division: Division | None = None


def read_labels(
    source: Source, task: Task, options: Options, budget: int, tasks: Tasks | None = None, workers: Workers = ALONE
) -> LabelsRead:
    """Read the labels once; tasks: those of the rows."""
    own = getattr(task.loss, "epsilons", None)
    each = 0 if source.rereads_labels() else (8 if task.numeric else 2) * max(1, len(source.outputs() or ()))
    given = 0 if own is None or isinstance(own, str) else 8
    plan.check_read(source, budget, (each + given) * source.rows + source.column_bytes(), "its labels alone")
    column = options.column(task.costs)
    weights = source.sample_weight()
    labels = SlicedLabels(
        source, NO_NUMBERS, NO_NUMBERS, NO_NUMBERS if weights is None else weights,
        NO_NUMBERS if own is None else _epsilons(own, source), reading=source.column_bytes(),
    )  # fmt: skip
    if tasks is not None:
        target, labels, known = of_tasks(task, options, labels, column, tasks, workers)
    else:
        target, labels, known = _numbers(task, labels, column) if task.numeric else _classes(options, labels, workers)
    largest = float(largest_targets(labels).max()) if task.numeric else 0.0
    if labels.outputs > 1:
        labels = replace(labels, trials=len(task.costs))
    return LabelsRead(target, labels, known, largest)


def make_problem(source: Source, task: Task, options: Options, read: LabelsRead, budget: int) -> Problem:
    """Build the K binary problems, or the regression, for each value of C. Refusal of a loss without a joint form."""
    column = options.column(task.costs)
    target, labels, known, largest, division = read
    factors = np.ones((1, 1))
    if not task.numeric:
        factors = setup.class_factors(options.class_weight, target, known.mass[0], source.name)
    setup.check_caps(task.costs, factors, known.extremes, source.rows)
    per_trial = len(target.positive)
    penalty = make_objective(source, options, free=False, lines=per_trial)
    by_default = options.bias is None and (options.kernel is not None or not isinstance(penalty, LpSquare))
    free = column != 0.0 and (options.bias == FREE_BIAS or by_default)
    if free:
        penalty = make_objective(source, options, free, per_trial)
    costs = np.repeat(np.array(task.costs), per_trial)
    joint = is_joint(options, task, len(target.classes), labels.outputs)
    lines = per_trial if joint or penalty.of_lines or coupled(task.loss.terms()) else 1
    mass, tasks = known.mass[0], len(target.tasks)
    if tasks:
        factors, mass = (spread(np.broadcast_to(each, mass.shape)) for each in (factors, mass))
    factors, mass = (np.tile(each, (costs.size // len(each), 1)) for each in (factors, mass))
    positive = np.tile(target.positive, len(task.costs)).astype(np.int64)
    outputs = Outputs(positive, costs[:, None] * factors, costs, mass, labels.outputs > 1, tasks)
    if division is not None:
        outputs = _of_trials(outputs, division, options, target, source.name)
    return Problem(
        rows=source.rows,
        features=source.features,
        dtype=source.dtype,
        loss=terms_of(task.loss, joint and math.inf not in task.costs, per_trial),
        outputs=outputs,
        penalty=penalty,
        penalty_word=_named(penalty, options),
        loss_word=task.loss.name if task.loss.name in LOSSES else "",  # the terms of others are users' own
        kernel=None if options.kernel is None else make_kernel(options.kernel),
        free=free,
        trials=outputs.costs.size // per_trial,
        tried=None if division is None else division.tried(len(task.costs)),
        tol=options.eps,
        absolute=options.eps if options.absolute else None,
        seed=options.seed,
        present=int(known.mass[1].sum() if tasks else known.mass[1, 0].sum()),
        lines=lines,
        path=options.path is not None,
        alone=options.checkpoint is None,
        keeps_pass=options.early_stop is not None,
        top=options.top,
        numeric=task.numeric,
        budget=max(0, budget - plan.SLACK_BYTES),  # for counted arrays
        entries=source.nnz,
        largest_square=source.largest_square,
        mapped=options.map is not None,
        scaled=options.scale != "none" and options.map is None and options.kernel is None,
        sparse=source.sparse,
        largest_target=largest,
    )


def _of_trials(outputs: Outputs, division: Division, options: Options, target: Target, name: str) -> Outputs:
    """The lines of one trial for each, with the weights of the classes of its own rows."""
    lines, masses = len(outputs.costs), division.trained(division.mass)
    factors = np.ones(masses.shape)
    if len(target.classes):
        each = [setup.class_factors(options.class_weight, target, mass[None], name) for mass in masses]
        factors = np.concatenate(each)
    costs = np.tile(outputs.costs, len(masses))
    factors, masses = (np.repeat(each, lines, axis=0) for each in (factors, masses))
    positive = np.tile(outputs.positive, len(division.spans))
    return Outputs(positive, costs[:, None] * factors, costs, masses, parts=division.parts(lines))


def _named(penalty: Penalty, options: Options) -> str:
    """The word of the penalty, as messages name it; of one output it may have become another penalty."""
    given, made = str(options.penalty), str(penalty)
    return made if made.partition(":")[0] == given.partition(":")[0] else given


def spread(each: np.ndarray) -> np.ndarray:
    """Values (T, classes) of each task's classes, for the classes of all tasks (T, T classes); 0 for others."""
    tasks, classes = each.shape
    found = np.zeros((tasks, tasks, classes))
    found[np.arange(tasks), np.arange(tasks)] = each
    return found.reshape(tasks, tasks * classes)


def is_joint(options: Options, task: Task, classes: int, outputs: int) -> bool:
    """Whether several classes have one W: by default if their loss is the softmax."""
    if classes < 3 or outputs > 1:
        return False
    if options.multiclass is not None:
        return options.multiclass == "joint"
    joint = task.loss.joint()
    return joint is not None and has(joint, "log_likelihoods") and math.inf not in task.costs


def _classes(options: Options, labels: SlicedLabels, workers: Workers) -> tuple[Target, SlicedLabels, Survey]:
    """The classes of the rows. DataError if fewer than two have rows of positive weight."""
    outputs = labels.source.outputs()
    if outputs is not None and len(outputs) > 1:
        return _several(options, labels, outputs)
    target, codes = setup.make_target(labels.source, options.positive, options.classes, workers)
    if options.classes is None and options.positive is None:
        say_if_numbers(target.classes, labels.rows, labels.source.name)
        say_if_alike(target.classes, labels.source.name)
    labels = replace(labels, codes=codes)
    plain = not len(labels.weights) and not len(labels.epsilons)
    known = setup.survey(labels, len(target.classes), target.counts if plain else target.counts[:0])
    if np.count_nonzero(known.mass[1]) < 2:
        raise DataError(
            f"{labels.source.name}: fewer than two classes have rows of positive weight; training needs two"
        )
    return target, labels, known


def _several(options: Options, labels: SlicedLabels, outputs: list[str]) -> tuple[Target, SlicedLabels, Survey]:
    """Several labels of a row, each 0 or 1, of which each is a problem of its own."""
    given = next((name for name in ("positive", "classes") if getattr(options, name) is not None), None)
    if given is not None or options.multiclass == "joint":
        raise UsageError(
            f"{labels.source.name}: its labels have {len(outputs)} columns, each of which is 0 or 1; leave out "
            f"`{given or 'multiclass=joint'}`, or name one column with `y`"
        )
    target = Target(np.array([0, 1]), np.ones(len(outputs), np.int64), outputs=outputs)
    labels = replace(labels, codes=setup.make_labels(labels.source, outputs), outputs=len(outputs))
    known = setup.survey(labels, 2, np.empty(0, np.int64))
    alone = np.flatnonzero(np.count_nonzero(known.mass[1], axis=1) < 2)
    if alone.size:
        value = int(np.argmax(known.mass[1, alone[0]]))
        more = f", like {alone.size - 1} others" if alone.size > 1 else ""
        raise DataError(
            f"{labels.source.name}: the label {short(outputs[alone[0]])} is {value} in every row{more}; training "
            "needs both, so drop it"
        )
    return target, labels, known


def _numbers(task: Task, labels: SlicedLabels, column: float) -> tuple[Target, SlicedLabels, Survey]:
    """The targets of the rows, shifted if they are to be centred. DataError if no row has a positive weight."""
    source, hard = labels.source, math.inf in task.costs
    outputs = source.outputs()
    count = 1 if outputs is None else len(outputs)
    if hard and count > 1:
        raise UsageError(
            f"{source.name}: its labels have {count} columns, and interpolation takes one; name one with `y`, or give "
            "a finite C with `loss=absolute_error`"
        )
    # hard: only weight 0, absence, matters
    labels = replace(labels, targets=setup.make_numbers(source), weighed=not hard, outputs=count)
    known = setup.survey(labels, 1, np.empty(0, np.int64))
    if not known.mass[1].any():
        raise DataError(f"{source.name}: no row has a positive weight; training needs one")
    say_if_classes(labels, task.loss.name)
    target = Target(np.empty(0), np.zeros(count, np.int64), outputs=outputs)
    if not hard:
        setup.check_numbers(largest_targets(labels), source.name, outputs)
    if task.from_constant and column:  # without a constant the targets stay
        target, labels = _centred(task, target, labels, outputs)
    return target, labels, known


def _centred(
    task: Task, target: Target, labels: SlicedLabels, names: Sequence[str] | None, tasks: int = 0
) -> tuple[Target, SlicedLabels]:
    """The targets less the best constants; names: of the outputs, or of so many tasks."""
    few = (
        labels.all() if labels.rows * labels.row_bytes <= HELD_LABEL_BYTES else labels
    )  # a quantile takes some 80 reads of them
    shifts = best_constants(few, task.loss, tasks)
    shift = shifts if tasks or shifts.size > 1 else float(shifts[0])
    labels = replace(labels, shift=shift)
    check_near(labels, shifts, labels.source.name, names, tasks)
    return replace(target, shift=shift), labels


def of_tasks(
    task: Task, options: Options, labels: SlicedLabels, column: float, tasks: Tasks, workers: Workers
) -> tuple[Target, SlicedLabels, Survey]:  # fmt: skip
    """The targets or classes of rows of several tasks, each of which is a problem of its own.

    The codes of rows are those of task and class, so that a line has no rows but those of its task. The survey has the
    weights of the classes of each task.
    """
    source, count = labels.source, len(tasks.names)
    outputs = source.outputs()
    if outputs is not None and len(outputs) > 1:
        raise UsageError(
            f"{source.name}: its labels have {len(outputs)} columns, and rows of tasks have one label; name one with "
            "`y`, or leave out `tasks`"
        )
    if coupled(task.loss.terms()) or options.multiclass == "joint":
        raise UsageError("a row of a task has one score, and the loss joins several; use another `loss`")
    if task.numeric:
        target = Target(np.empty(0), np.arange(count))
        codes, classes = tasks.codes, 1
        labels = replace(labels, targets=setup.make_numbers(source))
    else:
        target, own = setup.make_target(source, options.positive, options.classes, workers)
        if (classes := len(target.classes)) > 2:
            raise UsageError(f"tasks have two classes, and the labels of {source.name} are {classes}; use `positive`")
        target = replace(target, positive=2 * np.arange(count) + 1)
        codes = own
    if count * classes > MAX_CLASSES:
        raise DataError(f"{source.name}: {count} tasks are too many; at most {MAX_CLASSES // classes} are supported")
    if not task.numeric:
        codes = codes_of_tasks(tasks.codes, codes, classes)
    target = replace(target, tasks=tasks.names, task_column=tasks.column)
    labels = replace(labels, codes=codes)
    known = setup.survey(labels, count * classes, np.empty(0, np.int64))
    known = replace(known, mass=known.mass.reshape(2, count, classes))
    _check_tasks(known.mass[1], target, source.name)
    if task.numeric:
        setup.check_numbers(largest_targets(labels), source.name)
        if task.from_constant and column:
            target, labels = _centred(task, target, labels, list(map(str, tasks.names.tolist())), count)
    return target, labels, known


def _check_tasks(rows: np.ndarray, target: Target, name: str) -> None:
    """DataError for a task without rows of positive weight, or with one class; rows (T, classes): their numbers."""
    names = [short(one) for one in target.tasks.tolist()]
    if (empty := np.flatnonzero(~rows.any(axis=1))).size:
        raise DataError(f"{name}: the task {names[empty[0]]} has no row of positive weight; drop its rows")
    if (alone := np.flatnonzero(~rows.all(axis=1))).size:
        label = short(target.classes[int(np.argmax(rows[alone[0]]))])
        more = f", like {alone.size - 1} others" if alone.size > 1 else ""
        raise DataError(
            f"{name}: all rows of the task {names[alone[0]]} have the label {label}{more}; training needs both classes "
            "in each task, so drop its rows"
        )
    single = np.flatnonzero(rows.sum(axis=1) == 1)
    if single.size:
        more = f", like {single.size - 1} others" if single.size > 1 else ""
        text = f"{name}: the task {names[single[0]]} has one row only{more}, which its constant fits"
        warn(text, "tasks")


def _epsilons(given: object, source: Source) -> Slices:
    """The epsilon of each row, (n,) float64, of a column's name or an array."""
    if isinstance(given, str):
        return source.numbers(given, EPSILONS)
    return as_weights(given, source.rows, source.name, "epsilons", "epsilon")


def say_if_classes(labels: SlicedLabels, loss: str) -> None:
    """Warn of targets of present rows that are two whole numbers, as classes are."""
    found: set[float] = set()
    for piece in labels.pieces():
        found |= set(np.unique(piece.targets[piece.codes >= 0][:TRIED_LABELS]).tolist())
        if len(found) <= 2:
            found |= set(np.unique(piece.targets[piece.codes >= 0]).tolist())
        if len(found) > 2:
            return
    if len(found) == 2 and all(number.is_integer() for number in found):
        low, high = sorted(found)
        text = (
            f"{labels.source.name}: its labels are {low:g} and {high:g} only, and the loss {loss} takes them for "
            "numbers to be predicted; to separate two classes, use `loss=hinge`"
        )
        warn(text, "labels")


def say_if_numbers(classes: np.ndarray, rows: int, name: str) -> None:
    """Warn of classes whose text spells numbers, and so many as amounts are."""
    numbers = [number_in(label) for label in classes.tolist()] if is_text(classes) else [None]
    if None in numbers:
        return
    what = setup.hardly_classes(np.unique(np.array(numbers, np.float64)), rows)
    if what is not None:
        text = (
            f"{name}: its {len(classes)} classes are text, which spells {what} like amounts; for a regression use "
            "`loss=squared_error`"
        )
        warn(text, "labels")


def say_if_alike(classes: np.ndarray, name: str) -> None:
    """Warn of classes whose texts differ by case or blanks alone."""
    alike: dict[str, list[str]] = {}
    for label in classes.tolist() if is_text(classes) else ():
        alike.setdefault(" ".join(label.split()).casefold(), []).append(shown(label))
    if told := [" and ".join(texts) for texts in alike.values() if len(texts) > 1]:
        text = (
            f"{name}: classes that differ by case or blanks alone: {shortened(told, short)}; spell one class in one way"
        )
        warn(text, "labels")


def make_objective(source: Source, options: Options, free: bool, lines: int) -> Penalty:
    """The penalty on all columns, including the constant one unless that is free; lines: for each value of C."""

    def groups(given: object) -> np.ndarray:
        of = column_groups(given, source)
        return of if free else np.append(of, of.max() + 1)  # the constant column is its own group

    return make_penalty(options.penalty).of_columns(PenalisedColumns(source.features, groups, not free, lines))
