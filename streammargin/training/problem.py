"""Build the Problem, that is the objective, from options and labels."""

from __future__ import annotations

import logging
import math

import numpy as np

from streammargin.driver.centre import centred, check_near
from streammargin.driver.plan import check_read, spendable
from streammargin.driver.setup import (
    Target,
    check_caps,
    check_numbers,
    check_weights,
    class_factors,
    class_mass,
    hardly_classes,
    make_numbers,
    make_target,
)
from streammargin.errors import DataError
from streammargin.matching import number_in
from streammargin.options.table import FREE, Options
from streammargin.penalties import make_penalty
from streammargin.penalties.base import Columns, Penalty
from streammargin.penalties.lp import LpSquare
from streammargin.penalties.mirror_maps import make_norm
from streammargin.rows.labels import RowLabels
from streammargin.solvers.outputs import Outputs
from streammargin.solvers.problem import Problem
from streammargin.sources.arrays import as_weights
from streammargin.sources.base import Source
from streammargin.sources.groups import column_groups
from streammargin.sources.scaled import ScaledSource
from streammargin.training.task import Task
from streammargin.wording import Message

LOG = logging.getLogger("streammargin")
EPSILONS = ("epsilons", "loss=interpolate:")  # in messages: what they are, and how to name them


def make_problem(source: Source, task: Task, options: Options, budget: int) -> tuple[Target, RowLabels, Problem]:
    """Read the labels once, and build the K binary problems, or the regression, for each value of C."""
    own = getattr(task.loss, "epsilons", None)
    each = (8 if task.numeric else 2) + (0 if own is None else 8)
    labels = each * source.rows + source.column_bytes() + source.weight_bytes()
    check_read(source, budget, labels, "its labels alone")
    weights = check_weights(source.sample_weight(), source)
    column = options.column(task.costs)
    penalty = make_objective(source, options, free=False)
    p = penalty.p if isinstance(penalty, LpSquare) else 2.0
    free = column != 0.0 and (options.bias == FREE or (options.bias is None and not isinstance(penalty, LpSquare)))
    if free:
        penalty = make_objective(source, options, free)
    targets = np.empty(0)
    if task.numeric:
        target, targets = make_numbers(source, weights)
        say_if_classes(targets[target.codes >= 0], source.name, task.loss.name)
        if math.inf in task.costs:
            weights = np.empty(0)  # only weight 0, absence, matters
        else:
            check_numbers(targets, source.name)
        if task.from_constant and column:  # without a constant the targets stay
            target = centred(target, targets, weights, task.loss.terms())
            check_near(target, targets, weights, source.name)
    else:
        target = make_target(source, options.positive, options.classes)
        if options.classes is None and options.positive is None:
            say_if_numbers(target.classes, source.rows, source.name)
    present = class_mass(target.codes, weights, 1 if task.numeric else len(target.classes), rows=True)
    if not task.numeric and np.count_nonzero(present) < 2:
        raise DataError(f"{source.name}: fewer than two classes have rows of positive weight; training needs two")
    factors = np.ones((1, 1)) if task.numeric else class_factors(options.class_weight, target, weights, source.name)
    check_caps(task.costs, factors, weights, source.rows)
    per_trial = len(target.positive)
    costs = np.repeat(np.array(task.costs), per_trial)
    problem = Problem(
        rows=source.rows,
        features=source.features,
        dtype=source.dtype if options.scale == "none" else ScaledSource.dtype,
        loss=task.loss.terms(),
        norm=penalty.norm or make_norm(p),
        p=p,
        outputs=Outputs(
            np.tile(target.positive, len(task.costs)).astype(np.int64),
            costs[:, None] * factors,
            costs,
            class_mass(target.codes, weights, factors.shape[-1]),
        ),
        penalty=penalty,
        free=free,
        trials=len(task.costs),
        tol=options.eps,
        absolute=options.eps if options.absolute else None,
        seed=options.seed,
        present=int(present.sum()),
        lines=per_trial if options.multiclass == "joint" else 1,
        path=options.path is not None,
        top=options.top,
        numeric=task.numeric,
        budget=spendable(budget),
        entries=source.nnz,
        sparse=source.sparse,
        largest_target=float(np.abs(targets).max(initial=0.0)),
    )
    epsilons = np.empty(0) if own is None else _epsilons(own, source)
    return target, RowLabels(target.codes, weights, targets, epsilons), problem


def _epsilons(given: object, source: Source) -> np.ndarray:
    """The epsilon of each row, (n,) float64, of a column's name or an array."""
    if isinstance(given, str):
        values = source.numbers(given, EPSILONS)
    else:
        values = as_weights(given, source.rows, source.name, "epsilons", "epsilon")
    return check_weights(values, source, "epsilon")


def say_if_classes(targets: np.ndarray, name: str, loss: str) -> None:
    """Warn of targets (m,) that are two whole numbers, as classes are."""
    low, high = float(targets.min()), float(targets.max())
    both = low < high and low.is_integer() and high.is_integer()
    if both and np.count_nonzero(targets == low) + np.count_nonzero(targets == high) == len(targets):
        text = (
            f"{name}: its labels are {low:g} and {high:g} only, and the loss {loss} takes them for numbers to be "
            "predicted; to tell two classes apart, use `loss=hinge`"
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


def make_objective(source: Source, options: Options, free: bool) -> Penalty:
    """The penalty on all columns, including the constant one unless that is free."""

    def groups(given: object) -> np.ndarray:
        of = column_groups(given, source)
        return of if free else np.append(of, of.max() + 1)  # the constant column is its own group

    return make_penalty(options.penalty).of_columns(Columns(source.features, groups, not free))
