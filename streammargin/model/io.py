"""Load model files, and export models to LIBLINEAR."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from streammargin.errors import DataError, UsageError
from streammargin.files import as_path, replacing
from streammargin.losses import LOSSES, make_loss
from streammargin.losses.ratings import RATINGS
from streammargin.matching import number_in, texts_of
from streammargin.model.base import Model
from streammargin.model.file import COLUMN_NAMES, NAMES, ROW_NAMES, read_model
from streammargin.model.linear import LinearModel, model_of
from streammargin.points.factors import Factors
from streammargin.sizes import parse_size
from streammargin.sources.labels import is_text, text_fault
from streammargin.sources.names import unpacked
from streammargin.wording import shown

# liblinear's names for solvers of the same model
_LIBLINEAR_TYPE = {"hinge": "L2R_L1LOSS_SVC_DUAL", "squared_hinge": "L2R_L2LOSS_SVC_DUAL", "logistic": "L2R_LR_DUAL"}
_JOINT_TYPE = "MCSVM_CS"  # one W for all classes; liblinear gives such a model no probabilities, as it has no softmax


def load_model(path: str | os.PathLike[str], memory: str | int | None = None) -> Model:
    """Load a model file of `Model.save`; memory: most bytes to use, such as 512M = 512 x 2^20 (None: any).

    Raises InputMissingError, DataError, and UsageError, before reading, if it needs more memory.
    """
    path = as_path(path)
    kind, arrays, others, header = read_model(path, "classes", None if memory is None else parse_size(memory))
    classes = arrays.pop("classes")
    try:
        classes = texts_of(classes)
        answer = kind.restored(arrays)
        if isinstance(answer, Factors):
            return _ratings(answer, others, header)
        del arrays  # the answer has a copy, and the model will have another
        _check_header(header)
        _check_classes(classes, answer.outputs, header.get("tasks") or header.get("outputs"))
        names = unpacked(others.pop(NAMES), answer.features) if NAMES in others else None
    except UsageError as error:  # of a class that is not known here
        raise UsageError(f"{path}: {error.raw}") from None
    except ValueError as fault:
        raise DataError(f"{path} is a damaged model: {fault}; train it again, or restore a backup") from None
    model = model_of(answer, classes, header, names)
    model.problem = others
    return model


def _ratings(answer: Factors, others: dict[str, np.ndarray], header: dict[str, Any]) -> Model:
    """The model of ratings. ValueError if it is invalid."""
    from streammargin.model.ratings import RatingsModel  # which reads tables

    if not {ROW_NAMES, COLUMN_NAMES} <= others.keys():
        raise ValueError("the names of rows or columns are missing")
    rows, columns = (
        unpacked(others[name], len(part)).tolist()
        for name, part in ((ROW_NAMES, answer.left), (COLUMN_NAMES, answer.right))
    )
    try:
        RATINGS.of(header.get("loss"))
    except UsageError as error:
        raise ValueError(f"its loss is {header.get('loss')!r}: {error}") from None
    levels = header.get("levels")
    if not isinstance(levels, list) or not all(isinstance(one, (int, float)) for one in levels):
        raise ValueError("its levels are not a list of numbers")
    if not isinstance(header.get("certificate"), dict):
        raise ValueError("its certificate is not a table")
    return RatingsModel(answer, header, rows, columns)


def _check_classes(classes: np.ndarray, outputs: int, named: list[Any] | None = None) -> None:
    """ValueError if these are not labels for this many scores."""
    if classes.ndim != 1 or not (classes.dtype.kind in "biuf" or is_text(classes)):
        raise ValueError(
            f"its classes are an array of shape {classes.shape} and type {classes.dtype}, not a list of labels"
        )
    if classes.dtype.kind == "U" and text_fault(classes) >= 0:
        raise ValueError("the name of a class is not valid text")
    expected = len(classes) if len(classes) > 2 else 1  # two classes have one score, a regressor has no class
    if named is not None:
        expected = len(named) if len(classes) in (0, 2) else 0
    if outputs != expected or len(classes) == 1:
        raise ValueError(f"it gives {outputs} scores for {len(classes)} classes")
    if len(set(classes.tolist())) != len(classes) or (classes.dtype.kind == "f" and not np.isfinite(classes).all()):
        raise ValueError("its classes are not all different and finite")


def _check_header(header: dict[str, Any]) -> None:
    """ValueError for an invalid entry among those that prediction and evaluation use."""
    loss = header.get("loss", "hinge")
    if not isinstance(loss, str):
        raise ValueError(f"its loss is {loss!r}")
    if loss.partition(":")[0] in LOSSES:  # others are users' own
        try:
            make_loss(loss)
        except UsageError as error:
            raise ValueError(f"its loss is {loss!r}: {error}") from None
    p = header.get("p", 2.0)
    if isinstance(p, bool) or not isinstance(p, (int, float)) or not 1.0 < p <= 2.0:
        raise ValueError(f"its p is {str(p)[:40]}")
    if not isinstance(header.get("positive"), (str, int, float, type(None))):
        raise ValueError(f"its positive class is {header.get('positive')!r}")
    for entry, kinds in (("outputs", str), ("tasks", (str, int, float))):
        names = [] if header.get(entry) is None else header[entry]
        if not (isinstance(names, list) and all(isinstance(name, kinds) for name in names)):
            raise ValueError(f"its {entry} are not a list of names")
    if not isinstance(header.get("problem") or {}, dict):
        raise ValueError("its problem is not a table")
    if not isinstance(header.get("certificate", {}), dict):
        raise ValueError("its certificate is not a table")


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
