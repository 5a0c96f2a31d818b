"""The model file: an .npz of arrays and one JSON header; never a pickle."""

from __future__ import annotations

import json
import os
import zipfile
from typing import Any

import numpy as np

from streammargin.errors import DataError, InputMissingError, UsageError
from streammargin.files import replacing
from streammargin.model.linear import LinearModel
from streammargin.plain import from_plain, to_plain

FORMAT = "streammargin-model"
SCHEMA = 1
# liblinear's numbers for primal or dual solvers of the same model
_LIBLINEAR_TYPE = {"hinge": "L2R_L1LOSS_SVC_DUAL", "squared_hinge": "L2R_L2LOSS_SVC_DUAL", "logistic": "L2R_LR_DUAL"}


def save_model(model: LinearModel, path: str, force: bool = False) -> None:
    """Write `model` to `path` (.npz), atomically. Raises OutputError, ReadWriteError."""
    header = json.dumps({"format": FORMAT, "schema": SCHEMA, **to_plain(model.header)})
    with replacing(path, force) as name, open(name, "wb") as file:
        np.savez(file, coef=model.coef_, intercept=model.intercept_, classes=model.classes_, header=np.array(header))


def load_model(path: str | os.PathLike) -> LinearModel:
    """The model in a file that `save_model` wrote. Raises InputMissingError, DataError."""
    path = os.fspath(path)
    if not os.path.exists(path):
        raise InputMissingError(f"{path}: no such model file")
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
            header: dict[str, Any] = from_plain(json.loads(str(arrays["header"])))
            if header.pop("format") != FORMAT:
                raise KeyError("format")
            schema = header.pop("schema")
            model = LinearModel(arrays["coef"], arrays["intercept"], arrays["classes"], header)
    except (KeyError, ValueError, TypeError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is not a model; train one with: streammargin train DATA -o MODEL") from error
    if schema > SCHEMA:
        raise DataError(f"{path} was written by a newer streammargin (schema {schema}); upgrade to read it")
    return model


def export_liblinear(model: LinearModel, path: str, force: bool = False) -> None:
    """Write liblinear's text model file. Labels must be integers, as liblinear's are.

    Raises UsageError for other labels or a loss that liblinear has not, OutputError, ReadWriteError.
    """
    loss = model.header.get("loss", "hinge")
    if loss not in _LIBLINEAR_TYPE:
        raise UsageError(f"liblinear has no loss {loss}; it has {', '.join(_LIBLINEAR_TYPE)}")
    try:
        labels = [int(label) for label in model.classes_.tolist()]
        if any(str(label) != str(number) and float(label) != number
               for label, number in zip(model.classes_.tolist(), labels, strict=True)):  # fmt: skip
            raise ValueError
    except ValueError:
        raise UsageError("liblinear's labels are integers; this model's are not, so it cannot be exported") from None
    coef, intercept = model.coef_, model.intercept_
    if len(coef) == 1:  # liblinear's first label is the one of positive scores
        labels = labels[::-1]
    biased = bool(np.any(intercept != 0.0))
    weights = np.vstack([coef.T, intercept]) if biased else coef.T
    with replacing(path, force) as name, open(name, "w", encoding="ascii") as file:
        file.write(f"solver_type {_LIBLINEAR_TYPE[loss]}\nnr_class {len(labels)}\n")
        file.write(f"label {' '.join(map(str, labels))}\nnr_feature {coef.shape[1]}\nbias {1 if biased else -1}\nw\n")
        for row in weights:
            file.write(" ".join(f"{value:.17g}" for value in row) + " \n")
