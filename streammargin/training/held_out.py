"""Held-out rows: open them, and make what finds their errors."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np

from streammargin.driver.learn import validate
from streammargin.driver.learn.steps import after_steps
from streammargin.errors import DataError, UsageError
from streammargin.files import found_in
from streammargin.model.columns import order_of
from streammargin.options.table import Options
from streammargin.ordered import files_of
from streammargin.reading.labels import NO_NUMBERS, SlicedLabels, codes_of_tasks
from streammargin.reading.tasks import column_of, matched
from streammargin.solvers.problem import Problem
from streammargin.sources.base import Slices, Source
from streammargin.sources.columns import reordered
from streammargin.sources.labels import lie_inside
from streammargin.sources.open import opened, paths_of
from streammargin.training.setup import Target, check_outputs, encode, make_numbers
from streammargin.wording import warn
from streammargin.workers import Workers


def say_if_trained_on(data: object, valid: object) -> None:
    """Warn of held-out rows that are those of the training, or files of them."""
    found = "" if valid is None else _shared(data, valid)
    if found:
        warn(f"`valid` has training rows, {found}: their error says little about new rows; name others", "valid")


def _shared(data: object, valid: object) -> str:
    """The file, or what else, that is among the rows of the training and the held-out ones; "" for nothing."""
    if isinstance(valid, Source) or isinstance(data, Source):  # two may be of one file
        return data.name if isinstance(data, Source) and valid is data else ""
    if (paths := paths_of(valid)) and (others := paths_of(data)):
        return found_in(files_of(paths), files_of(others)) or ""
    one, other = (each[0] if isinstance(each, tuple) and each else each for each in (data, valid))
    if one is other:
        return "the same object"
    same = isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and _place(one) == _place(other)
    return "the same array" if same else ""


def _place(array: np.ndarray) -> tuple[object, ...]:
    return array.__array_interface__["data"], array.shape, array.strides, array.dtype


def open_held_out(
    stack: ExitStack, options: Options, source: Source, feature_names: np.ndarray | None, budget: int, own: int,
    target: Target, workers: Workers,
) -> tuple[Source, Slices | None]:  # fmt: skip
    """The held-out rows, and the numbers of their tasks, if they are of tasks."""
    valid, given = options.valid, options.tasks
    if given is not None and isinstance(valid, tuple):
        if len(valid) != 3:
            raise UsageError("held-out rows of tasks are given as (X, y, tasks), or as the path of a file")
        given, valid = valid[2], valid[:2]
    elif given is not None and not lie_inside(given):
        raise UsageError("the tasks of the held-out rows are unknown; name a column of both files with `tasks`")
    x, y = (None, None) if isinstance(valid, (tuple, Source)) else (options.x, options.y)  # which have their own
    y = y if lie_inside(y) else None  # those of another file belong to the rows of `source` only
    mask = None if isinstance(valid, (tuple, Source)) else options.mask or (source.mask if paths_of(valid) else None)
    held_out = stack.enter_context(opened(valid, x=x, y=y, mask=mask, columns=options.of_files))
    tasks = None
    if given is not None:
        tasks = matched(column_of(stack, given, valid, options.x, held_out), target.tasks.tolist(), workers)
    order, said = order_of(feature_names, held_out, budget, None, own, options.of_others or source.of_others)
    if order is None and held_out.features != source.features:
        raise DataError(
            f"{held_out.name} has {held_out.features} columns but {source.name} has {source.features}; convert both "
            "with streammargin-data convert and the same --features"
        )
    if options.scaling[0] in ("std", "auto") and held_out.sparse and not source.sparse:
        raise UsageError(
            f"{held_out.name} is sparse, so it cannot be centred as `scale={options.scale}` does with the dense rows "
            f"of {source.name}; write both as dense or both as sparse rows, or use `scale=maxabs`"
        )
    if said:
        warn(said, "columns")
    check_outputs(held_out, target, source.name)
    return held_out if order is None else reordered(held_out, order, feature_names), tasks


def least_to_score(held_out: Source, options: Options, problem: Problem) -> int:
    """The bytes of a validator with the smallest plan."""
    rows = after_steps(held_out, options)
    outputs = problem.per_trial if problem.outputs.several else 1
    each = 2 + 8 * outputs if problem.numeric else 2 * outputs
    if held_out.rereads_labels():
        return held_out.column_bytes() + validate.plan_to_score(rows, problem.count, each)[1]
    return held_out.rows * each + validate.plan_to_score(rows, problem.count, 0)[1]


def make_validator(
    rows: Source, target: Target, problem: Problem, budget: int, tasks: Slices | None = None, every: bool = False
) -> validate.Validator:  # fmt: skip
    """The validator of held-out rows, within a budget in bytes.

    tasks: their numbers, if they are of tasks; every: each class must have rows.
    """
    several, trials = problem.per_trial if problem.outputs.several else 1, problem.trials
    if problem.numeric:
        codes, targets, counted = NO_NUMBERS if tasks is None else tasks, make_numbers(rows), rows.rows
    else:
        targets, (codes, counted) = NO_NUMBERS, encode(rows, target, problem.workers, every)
        codes = codes if tasks is None else codes_of_tasks(tasks, codes, 2)
    reading, shift = rows.column_bytes(), target.shift
    labels = SlicedLabels(rows, codes, targets, shift=shift, reading=reading, outputs=several).settled()
    if problem.numeric:
        return validate.NumberValidator(rows, labels, problem.loss, trials, budget)
    if tasks is not None:
        return validate.TaskValidator(rows, labels, counted, np.ones(trials), trials, budget)
    if several > 1:
        return validate.LabelsValidator(rows, labels, trials, budget)
    return validate.ClassValidator(rows, labels, counted, problem.outputs.positive, trials, budget)
