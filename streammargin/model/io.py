"""Load model files, and export models to LIBLINEAR."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from streammargin.errors import DataError, UsageError
from streammargin.files import as_path, replacing
from streammargin.losses import LOSSES, is_numeric, make_loss
from streammargin.losses.ratings import RATINGS
from streammargin.matching import number_in
from streammargin.model.base import Model
from streammargin.model.file import COLUMN_NAMES, MOMENTS, NAMES, PROBLEM, ROW_NAMES, read_model, unwritten
from streammargin.model.linear import LinearModel, model_of
from streammargin.model.rows import TABLE
from streammargin.numpy_model import texts_of
from streammargin.points.factors import Factors
from streammargin.points.table import KINDS
from streammargin.saved import check
from streammargin.sizes import parse_size
from streammargin.sources.names import unpacked
from streammargin.sources.schema import Schema
from streammargin.transforms import chain_of
from streammargin.wording import shown

# liblinear's names for solvers of the same model
_LIBLINEAR_TYPE = {"hinge": "L2R_L1LOSS_SVC_DUAL", "squared_hinge": "L2R_L2LOSS_SVC_DUAL", "logistic": "L2R_LR_DUAL"}
_JOINT_TYPE = "MCSVM_CS"  # one W for all classes; liblinear gives such a model no probabilities, as it has no softmax


def load_model(path: str | os.PathLike[str], memory: str | int | None = None) -> Model:
    """Load a model file of `Model.save`; memory: most bytes to use, such as 512M = 512 x 2^20 (None: any).

    Raises InputMissingError, DataError, and UsageError, before reading, if it needs more memory.
    """
    path = as_path(path)
    kind, arrays, header = read_model(path, None if memory is None else parse_size(memory))
    try:
        check(kind, arrays, header)
        answer = KINDS[kind].restored(arrays)
        names = {name: unpacked(arrays[name]) for name in (ROW_NAMES, COLUMN_NAMES, NAMES) if name in arrays}
        classes = texts_of(arrays["classes"])
        problem = {name: arrays[name] for name in PROBLEM if name in arrays}
        moments = (arrays[MOMENTS[0]], arrays[MOMENTS[1]]) if MOMENTS[0] in arrays else None
        steps = chain_of(arrays, answer.features)
        del arrays  # the answer has a copy, and the model will have another
        header = unwritten(header)
        _check_loss(header, isinstance(answer, Factors), not len(classes))
        if isinstance(answer, Factors):
            from streammargin.model.ratings import RatingsModel  # which reads tables

            return RatingsModel(answer, header, names[ROW_NAMES].tolist(), names[COLUMN_NAMES].tolist())
        if (table := header.get(TABLE)) is not None and Schema.from_plain(table).features != answer.features:
            raise ValueError("its schema has other columns than its weights")
    except UsageError as error:  # of a class that is not known here
        raise UsageError(f"{path}: {error.raw}") from None
    except ValueError as fault:
        raise DataError(f"{path} is a damaged model: {fault}; train it again, or restore a backup") from None
    model = model_of(answer, classes, header, names.get(NAMES))
    model.problem, model.moments, model.steps = problem, moments, steps
    return model


def _check_loss(header: dict[str, Any], ratings: bool, numeric: bool) -> None:
    """ValueError for a loss of ours that is none, or that models of classes, numbers or ratings do not have."""
    word = header.get("loss", "hinge")
    try:
        if ratings:
            RATINGS.of(word)
        elif word.partition(":")[0] in LOSSES and numeric != is_numeric(make_loss(word).terms()):
            raise ValueError(f"its loss is {word}, and it predicts {'numbers' if numeric else 'classes'}")
    except UsageError as error:
        raise ValueError(f"its loss is {shown(word)}: {error}") from None


def _whole(classes: list[Any]) -> list[int]:
    """Classes as different integers. Raises UsageError if they are not."""
    found: dict[int, Any] = {}
    for label in classes:
        number = number_in(label) if isinstance(label, str) else label
        if number is None or number != int(number):
            raise UsageError("liblinear's labels are integers; this model's are not, so it cannot be exported")
        if found.setdefault(int(number), label) != label:
            raise UsageError(
                f"liblinear's labels are integers, and the classes {shown(found[int(number)])} and {shown(label)} are "
                "one of them, so this model cannot be exported"
            )
    return list(found)


def export_liblinear(model: Model, path: str, force: bool = False) -> None:
    """Write liblinear's text model file. Labels must be integers, as liblinear's are.

    Raises UsageError for other labels, and for a model or loss that liblinear does not have; OutputError,
    ReadWriteError.
    """
    if model.steps is not None:
        raise UsageError(f"liblinear's models take rows as they are, and this one has the steps {model.steps}")
    if not isinstance(model, LinearModel):
        raise UsageError("liblinear's models are linear; this one is not, so it cannot be exported")
    if model.outputs is not None:
        raise UsageError(
            "liblinear's models have one label a row; this one has several outputs; train one of them alone"
        )
    loss = model.header.get("loss", "hinge")
    if loss not in _LIBLINEAR_TYPE:
        raise UsageError(f"liblinear has no loss {loss}; it has {', '.join(_LIBLINEAR_TYPE)}")
    labels = _whole(model.classes_.tolist())
    coef, intercept = model.coef_, model.intercept_
    if len(coef) == 1:  # liblinear's first label is the one of positive scores
        labels = labels[::-1]
    biased = bool(np.any(intercept != 0.0))
    weights = np.vstack([coef.T, intercept]) if biased else coef.T
    with replacing(path, force) as name, open(name, "w", encoding="ascii") as file:
        joint = model.header.get("multiclass") == "joint" and len(labels) > 2
        file.write(f"solver_type {_JOINT_TYPE if joint else _LIBLINEAR_TYPE[loss]}\nnr_class {len(labels)}\n")
        file.write(f"label {' '.join(map(str, labels))}\nnr_feature {coef.shape[1]}\nbias {1 if biased else -1}\nw\n")
        for row in weights:
            file.write(" ".join(f"{value:.17g}" for value in row) + " \n")
