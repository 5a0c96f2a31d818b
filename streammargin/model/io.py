"""Load model files."""

from __future__ import annotations

import os
from typing import Any

from streammargin.errors import DataError, UsageError
from streammargin.files import as_path
from streammargin.losses import LOSSES, is_numeric, make_loss
from streammargin.losses.ratings import RATINGS
from streammargin.model.base import Model
from streammargin.model.calibration import ARRAYS
from streammargin.model.file import COLUMN_NAMES, FEATURE_NAMES, MOMENTS, PROBLEM, ROW_NAMES, read_model, unwritten
from streammargin.model.linear import model_of
from streammargin.model.rows import TABLE
from streammargin.numpy_model import texts_of
from streammargin.points.factors import Factors
from streammargin.points.table import KINDS
from streammargin.saved.header import check
from streammargin.sizes import parse_size
from streammargin.sources.names import unpacked
from streammargin.sources.schema import Schema
from streammargin.transforms import chain_of
from streammargin.wording import shown


def load_model(path: str | os.PathLike[str], memory: str | int | None = None) -> Model:
    """Load a model file of `Model.save`; memory: most bytes to use, such as 512M = 512 x 2^20 (None: any).

    Raises InputMissingError, DataError, and UsageError, before reading, if it needs more memory.
    """
    path = as_path(path)
    kind, arrays, header = read_model(path, None if memory is None else parse_size(memory))
    try:
        check(kind, arrays, header)
        answer = KINDS[kind].restored(arrays)
        names = {name: unpacked(arrays[name]) for name in (ROW_NAMES, COLUMN_NAMES, FEATURE_NAMES) if name in arrays}
        classes = texts_of(arrays["classes"])
        problem = {name: arrays[name] for name in PROBLEM if name in arrays}
        moments = (arrays[MOMENTS[0]], arrays[MOMENTS[1]]) if MOMENTS[0] in arrays else None
        calibration = {name: arrays[name] for name in ARRAYS if name in arrays}
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
    model = model_of(answer, classes, header, names.get(FEATURE_NAMES))
    model.problem, model.moments, model.steps, model.calibration = problem, moments, steps, calibration
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
