"""Build the Problem, that is the objective, from options and labels."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import Any

import numpy as np

from streammargin.driver.centre import best_constant, check_near, largest_target
from streammargin.driver.labels import NONE, LabelReader, SlicedLabels
from streammargin.driver.plan import check_read, spendable
from streammargin.driver.setup import (
    Survey,
    Target,
    check_caps,
    check_numbers,
    class_factors,
    hardly_classes,
    make_numbers,
    make_target,
    survey,
)
from streammargin.errors import DataError, UsageError
from streammargin.losses import losses_with
from streammargin.losses.base import Loss, has
from streammargin.matching import number_in
from streammargin.options.table import FREE, Options
from streammargin.penalties import make_penalty
from streammargin.penalties.base import Columns, Penalty
from streammargin.penalties.lp import LpSquare
from streammargin.penalties.mirror_maps import make_norm
from streammargin.solvers.outputs import Outputs
from streammargin.solvers.problem import Problem
from streammargin.sources.arrays import as_weights
from streammargin.sources.base import Slices, Source
from streammargin.sources.groups import column_groups
from streammargin.sources.scaled import ScaledSource
from streammargin.training.task import Task
from streammargin.wording import Message

LOG = logging.getLogger("streammargin")
FEW = 8 << 20  # bytes
MANY = 100  # labels that most often show that there are more than two
EPSILONS = ("epsilons", "loss=interpolate:")  # in messages: what they are, and how to name them


def make_problem(
    source: Source, task: Task, options: Options, budget: int
) -> tuple[Target, SlicedLabels, Survey, Problem]:
    """Read the labels once, and build the K binary problems, or the regression, for each value of C."""
    own = getattr(task.loss, "epsilons", None)
    each = 0 if source.rereads_labels() else 8 if task.numeric else 2
    given = 0 if own is None or isinstance(own, str) else 8
    check_read(source, budget, (each + given) * source.rows + source.column_bytes(), "its labels alone")
    column = options.column(task.costs)
    weights = source.sample_weight()
    labels = SlicedLabels(
        source, NONE, NONE, NONE if weights is None else weights, NONE if own is None else _epsilons(own, source),
        reading=source.column_bytes(),
    )  # fmt: skip
    target, labels, known = _numbers(task, labels, column) if task.numeric else _classes(options, labels)
    factors = np.ones((1, 1))
    if not task.numeric:
        factors = class_factors(options.class_weight, target, known.mass[0], source.name)
    check_caps(task.costs, factors, known.extremes, source.rows)
    per_trial = len(target.positive)
    costs = np.repeat(np.array(task.costs), per_trial)
    joint = per_trial > 1 and is_joint(options, task)
    lines = per_trial if joint or make_penalty(options.penalty).of_lines else 1
    penalty = make_objective(source, options, free=False, lines=lines)
    p = penalty.p if isinstance(penalty, LpSquare) else 2.0
    free = column != 0.0 and (options.bias == FREE or (options.bias is None and not isinstance(penalty, LpSquare)))
    if free:
        penalty = make_objective(source, options, free, lines)
    problem = Problem(
        rows=source.rows,
        features=source.features,
        dtype=source.dtype if options.scale == "none" else ScaledSource.dtype,
        loss=terms_of(task.loss, joint and math.inf not in task.costs),
        norm=penalty.norm or make_norm(p),
        p=p,
        outputs=Outputs(
            np.tile(target.positive, len(task.costs)).astype(np.int64),
            costs[:, None] * factors,
            costs,
            known.mass[0],
        ),
        penalty=penalty,
        free=free,
        trials=len(task.costs),
        tol=options.eps,
        absolute=options.eps if options.absolute else None,
        seed=options.seed,
        present=int(known.mass[1].sum()),
        lines=lines,
        path=options.path is not None,
        top=options.top,
        numeric=task.numeric,
        budget=spendable(budget),
        entries=source.nnz,
        sparse=source.sparse,
        largest_target=largest_target(labels) if task.numeric else 0.0,
    )
    return target, labels, known, problem


def is_joint(options: Options, task: Task) -> bool:
    """Whether several classes have one W: by default where their loss is the softmax."""
    if options.multiclass is not None:
        return options.multiclass == "joint"
    joint = task.loss.joint()
    return joint is not None and has(joint, "log_likelihoods") and math.inf not in task.costs


def terms_of(loss: Loss, joint: bool) -> Any:
    """The terms of a loss, or of its form for all classes at once. UsageError where it has no such form."""
    if not joint:
        return loss.terms()
    found = loss.joint()
    if found is None:
        able = " or ".join(f"`loss={name}`" for name in losses_with(["coupled_step"], joint=True))
        raise UsageError(
            f"the loss {loss.name} has no form for all classes at once; with `multiclass=joint` and a finite C use "
            f"{able}, or use `multiclass=ovr`"
        )
    return found


def _classes(options: Options, labels: SlicedLabels) -> tuple[Target, SlicedLabels, Survey]:
    """The classes of the rows. DataError where fewer than two have rows of positive weight."""
    target, codes = make_target(labels.source, options.positive, options.classes)
    if options.classes is None and options.positive is None:
        say_if_numbers(target.classes, labels.rows, labels.source.name)
    labels = replace(labels, codes=codes)
    plain = not len(labels.weights) and not len(labels.epsilons)
    known = survey(labels, len(target.classes), target.counts if plain else target.counts[:0])
    if np.count_nonzero(known.mass[1]) < 2:
        raise DataError(
            f"{labels.source.name}: fewer than two classes have rows of positive weight; training needs two"
        )
    return target, labels, known


def _numbers(task: Task, labels: SlicedLabels, column: float) -> tuple[Target, SlicedLabels, Survey]:
    """The targets of the rows, shifted where they are to be centred. DataError where no row has a positive weight."""
    source, hard = labels.source, math.inf in task.costs
    labels = replace(labels, targets=make_numbers(source), weighed=not hard)  # hard: only weight 0, absence, matters
    known = survey(labels, 1, np.empty(0, np.int64))
    if not known.mass[1].any():
        raise DataError(f"{source.name}: no row has a positive weight; training needs one")
    say_if_classes(labels, task.loss.name)
    target = Target(np.empty(0), np.array([0]))
    if not hard:
        check_numbers(largest_target(labels), source.name)
    if task.from_constant and column:  # without a constant the targets stay
        shift = best_constant(_near(labels), task.loss.terms())
        target, labels = replace(target, shift=shift), replace(labels, shift=shift)
        check_near(labels, shift, source.name)
    return target, labels, known


def _near(labels: SlicedLabels) -> LabelReader:
    """The same labels in memory where they are few: to find a quantile they are read some 80 times."""
    return labels.all() if labels.rows * labels.row_bytes <= FEW else labels


def _epsilons(given: object, source: Source) -> Slices:
    """The epsilon of each row, (n,) float64, of a column's name or an array."""
    if isinstance(given, str):
        return source.numbers(given, EPSILONS)
    return as_weights(given, source.rows, source.name, "epsilons", "epsilon")


def say_if_classes(labels: SlicedLabels, loss: str) -> None:
    """Warn of targets of present rows that are two whole numbers, as classes are."""
    found: set[float] = set()
    for piece in labels.pieces():
        found |= set(np.unique(piece.targets[piece.codes >= 0][:MANY]).tolist())
        if len(found) <= 2:
            found |= set(np.unique(piece.targets[piece.codes >= 0]).tolist())
        if len(found) > 2:
            return
    if len(found) == 2 and all(number.is_integer() for number in found):
        low, high = sorted(found)
        text = (
            f"{labels.source.name}: its labels are {low:g} and {high:g} only, and the loss {loss} takes them for "
            "numbers to be predicted; to tell two classes apart, use `loss=hinge`"
        )
        LOG.warning(Message(text), extra={"code": "labels"})


def say_if_numbers(classes: np.ndarray, rows: int, name: str) -> None:
    """Warn of classes whose text spells numbers, and so many as amounts are."""
    numbers = [number_in(label) for label in classes.tolist()] if classes.dtype.kind == "U" else [None]
    if None in numbers:
        return
    what = hardly_classes(np.unique(np.array(numbers, np.float64)), rows)
    if what is not None:
        text = (
            f"{name}: its {len(classes)} classes are text, which spells {what} like amounts; for a regression use "
            "`loss=squared_error`"
        )
        LOG.warning(Message(text), extra={"code": "labels"})


def make_objective(source: Source, options: Options, free: bool, lines: int) -> Penalty:
    """The penalty on all columns, including the constant one unless that is free; lines: of a group."""

    def groups(given: object) -> np.ndarray:
        of = column_groups(given, source)
        return of if free else np.append(of, of.max() + 1)  # the constant column is its own group

    return make_penalty(options.penalty).of_columns(Columns(source.features, groups, not free, lines))
