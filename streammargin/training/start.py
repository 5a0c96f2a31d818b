"""The weights of an earlier model, as the problems of a training begin from them (`init`)."""

from __future__ import annotations

import os

import numpy as np

from streammargin.errors import DataError, UsageError
from streammargin.files import as_path
from streammargin.matching import Matcher
from streammargin.model.base import Model
from streammargin.model.columns import places
from streammargin.model.io import load_model
from streammargin.model.linear import LinearModel
from streammargin.points.linear import LinearPoint
from streammargin.sources.base import Source
from streammargin.sources.names import equal, listed
from streammargin.sources.views import TransformedSource
from streammargin.training.setup import LARGEST_NUMBER, Target
from streammargin.wording import counted, note, shown, warn


def start_of(
    given: object, source: Source, target: Target, names: np.ndarray | None, budget: int, held: int
) -> LinearPoint:
    """One output for each class (one for two classes or numbers), for the source's columns, unscaled, minus the shift.

    given: a model, or the path of its file; names (d,): of the columns; held: bytes of the budget used already. Columns
    and classes that the model lacks begin at 0. Raises InputMissingError, DataError, UsageError.
    """
    model, name = _model(given, budget)
    if model.numeric != (target.classes.size == 0):
        kinds = ("numbers", "classes") if model.numeric else ("classes", "numbers")
        raise UsageError(f"{name} predicts {kinds[0]}, but this training is for {kinds[1]}; give `init` another model")
    steps = str(source.chain) if isinstance(source, TransformedSource) else ""
    if steps != (own := str(model.steps or "")):
        of = f"with `transform={own}`" if own else "without `transform`"
        raise UsageError(f"{name} is for rows {of}; train with the same steps, or leave `init` out")
    order = _columns(model, name, source, names, budget, held)
    known = np.flatnonzero(order >= 0)
    w = np.zeros((len(target.positive), source.features + 1))
    for line, parts in zip(w, _parts(model, name, source, target), strict=True):
        for output, sign in parts:
            line[order[known]] += sign * model.coef_[output, known]
            line[-1] += sign * model.intercept_[output]
    if not (largest := float(np.abs(w).max())) <= LARGEST_NUMBER:  # also if it is nan
        raise DataError(f"the largest weight of {name}, {largest:g}, is too far from 0 to begin from; leave out `init`")
    w[:, -1] -= target.shift
    return LinearPoint(w, 1.0)


def _model(given: object, budget: int) -> tuple[LinearModel, str]:
    """The model, and its name in messages."""
    if isinstance(given, (str, os.PathLike)):
        path = as_path(given, "`init`")
        model, name = load_model(path, budget), path
    elif isinstance(given, Model):
        model, name = given, "the model of `init`"
    else:
        raise UsageError(f"`init` must be a model or the path of its file, not {shown(given)}")
    if not isinstance(model, LinearModel):
        raise UsageError(f"{name} is not linear; give `init` a linear model")
    return model, name


def _columns(
    model: LinearModel, name: str, source: Source, names: np.ndarray | None, budget: int, held: int
) -> np.ndarray:
    """(columns of the model,) int64: which column of the source each is, -1 for none."""
    known = model.feature_names_in_
    if known is None or names is None:
        if model.answer.features != source.features:
            raise DataError(
                f"{name} was trained on {model.answer.features} columns but {source.name} has {source.features}; give "
                "`init` a model of as many, or name the columns of both"
            )
        if known is not names:
            nameless, other = (source.name, name) if names is None else (name, source.name)
            text = f"{nameless} has no column names, though {other} has: columns are matched by position"
            warn(text, "init")
    if known is None or names is None or equal(known, names):
        _say_shared(name, source, source.features)
        return np.arange(source.features)
    order, unknown = places(known, names, source, budget, held)
    lacking = known[order < 0]
    if len(lacking) == len(known):
        raise DataError(f"{source.name} has no column of {name} ({listed(known)}); give `init` a model of its columns")
    if len(lacking):
        text = (
            f"{source.name} lacks {counted(len(lacking), 'column')} of {name} ({listed(lacking)}): left out; if a "
            "column was only renamed, rename it back to begin from its weight"
        )
        warn(text, "init")
    if unknown:
        text = f"{name} lacks {counted(len(unknown), 'column')} of {source.name} ({listed(unknown)}): they begin at 0"
        warn(text, "init")
    _say_shared(name, source, len(known) - len(lacking))
    return order


def _say_shared(name: str, source: Source, shared: int) -> None:
    note(f"the weights begin at those of {name} for {counted(shared, 'column')} of {source.name}")


def _parts(model: LinearModel, name: str, source: Source, target: Target) -> list[list[tuple[int, float]]]:
    """For each problem the outputs of the model that it begins from, with their factors; none: it begins at 0.

    An output separates a class from the rest. With two classes, the second has it, and the first its negative.
    A problem of two classes begins from half the difference of their outputs.
    """
    if max(len(model.outputs or ()), len(target.outputs or ())) > 1:
        return _of_outputs(model, name, source, target)
    if model.numeric:
        return [[(0, 1.0)]]
    labels, parts = model.classes_.tolist(), [(output, 1.0) for output in range(len(model.classes_))]
    if len(labels) == 2:
        parts = [(0, -1.0), (0, 1.0)]
    if (rest := model.header.get("positive")) is not None:
        labels, parts = [rest], [(0, 1.0)]
    known, wanted = Matcher(labels, name), target.classes.tolist() if target.rest is None else [target.rest]
    found = [None if (code := known.find(label)) is None else parts[code] for label in wanted]
    lacking = [str(label) for label, own in zip(wanted, found, strict=True) if own is None]
    if len(lacking) == len(wanted):
        raise DataError(
            f"{name} has no class of {source.name} ({listed(lacking)}), but {listed(list(map(str, labels)))}; give "
            "`init` a model of its classes"
        )
    if lacking:
        begun = "the other one counts" if len(wanted) == 2 else "they begin at 0"
        text = f"{name} lacks {listed(lacking)} of the classes of {source.name}: {begun}"
        warn(text, "init")
    if len(wanted) != 2:
        return [[] if own is None else [own] for own in found]
    both = [(side, *own) for side, own in zip((-1.0, 1.0), found, strict=True) if own is not None]
    return [[(output, side * sign / len(both)) for side, output, sign in both]]


def _of_outputs(model: LinearModel, name: str, source: Source, target: Target) -> list[list[tuple[int, float]]]:
    """Like `_parts`, for several labels or targets of a row: each begins from the output of its name."""
    known, wanted = model.outputs or ["its only output"], target.outputs or ["its only label"]
    found = [known.index(output) if output in known else None for output in wanted]
    if all(place is None for place in found):
        raise DataError(
            f"{name} has no output of {source.name} ({listed(wanted)}), but {listed(known)}; give `init` a model of "
            "its outputs"
        )
    if lacking := [output for output, place in zip(wanted, found, strict=True) if place is None]:
        text = f"{name} lacks {listed(lacking)} of the outputs of {source.name}: they begin at 0"
        warn(text, "init")
    return [[] if place is None else [(place, 1.0)] for place in found]
