"""Predictions for collections of dask, computed by whoever computes these, partition by partition."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.delayed import Delayed

from streammargin.arrow import dataset
from streammargin.dask.partitions import files
from streammargin.errors import UsageError
from streammargin.model.base import Model
from streammargin.model.columns import ERROR
from streammargin.ordered import is_ordered
from streammargin.sources.open import is_path, open_source
from streammargin.tables.file_format import ARROW, NPY, NPZ
from streammargin.tables.formats import files_of, format_of, is_parquet
from streammargin.tables.matrices.base import How
from streammargin.tables.matrices.open import open_matrix
from streammargin.tables.open import open_table
from streammargin.tables.readers.arrow import damage

SCORES_METHOD, LABELS_METHOD, PROBABILITIES_METHOD = "decision_function", "predict", "predict_proba"


def predict(model: Model, data: Any, *, tasks: Any = None, missing_columns: str = ERROR, unknown: str = "error") -> Any:
    """`model.predict` for a collection, lazy: predicted labels, or numbers.

    `data`: an Array, whose chunks of rows are kept. A DataFrame gives a Series with its index, or a DataFrame if rows
    have several numbers. A path, a list of paths or a pattern that the workers see gives an Array.
    `tasks`: the task of each row, if the model has tasks. Beside an Array it is an Array, else the name of a column.
    """
    return _lazily(model, data, LABELS_METHOD, tasks, {"missing_columns": missing_columns, "unknown": unknown})


def decision_function(
    model: Model, data: Any, *, tasks: Any = None, missing_columns: str = ERROR, unknown: str = "error"
) -> Any:  # fmt: skip
    """`model.decision_function` of a collection, lazy; arguments as for `predict`."""
    return _lazily(model, data, SCORES_METHOD, tasks, {"missing_columns": missing_columns, "unknown": unknown})


def predict_proba(
    model: Model, data: Any, *, tasks: Any = None, missing_columns: str = ERROR, unknown: str = "error"
) -> Any:  # fmt: skip
    """`model.predict_proba` of a collection, lazy; arguments as for `predict`."""
    return _lazily(model, data, PROBABILITIES_METHOD, tasks, {"missing_columns": missing_columns, "unknown": unknown})


def _lazily(model: Model, data: Any, what: str, tasks: Any, given: dict[str, Any]) -> Any:
    if not isinstance(model, Model):
        raise UsageError(f"the model must be one of streammargin, not {type(model).__name__}")
    if model.of_pairs:
        raise UsageError("this model completes a matrix, and predicts pairs; use its method predict on one machine")
    if what == PROBABILITIES_METHOD:
        model.probabilities_of()
    like = _of_none(model, what)
    rows = not isinstance(data, Delayed) and getattr(data, "ndim", 0) == 2  # a Delayed object has any attribute
    if rows and hasattr(data, "map_blocks"):
        if model.asked_tasks(tasks) is not None and not hasattr(tasks, "map_blocks"):
            raise UsageError("`tasks` of an Array is another Array, with the task of each row")
        if not np.isnan(data.shape[1]):  # other columns are refused now
            some = None if model.tasks is None else np.array(model.tasks[:1])
            _found(model, np.zeros((1, data.shape[1]), data.dtype), what, given | {"tasks": some})
        return _of_array(model, data, tasks, what, given, like)
    given["tasks"] = model.asked_tasks(tasks)
    if rows and hasattr(data, "map_partitions"):
        _check_columns(model, data, given)
        names = _columns(model, like)
        made = functools.partial(_frame, what=what, given=given, names=names)
        return data.map_partitions(made, dask.delayed(model, pure=True), meta=_framed(data._meta, like, names))
    if is_path(data) or (isinstance(data, (list, tuple)) and data and all(map(is_path, data))):
        found: Any = files(data)
        return _of_paths(model, found if isinstance(found, list) else [found], what, given, like)
    raise UsageError("give an Array of rows, a DataFrame, or paths; for rows in memory use the methods of the model")


def _of_none(model: Model, what: str) -> np.ndarray:
    """The prediction for no rows, which has the shape and type of any."""
    scores = np.empty((0, 1 if model.tasks else model.answer.outputs))
    if what == LABELS_METHOD:
        return model.labels_of(scores)
    if what == PROBABILITIES_METHOD:
        return model.probabilities_of()(scores)
    return scores[:, 0] if scores.shape[1] == 1 and model.outputs is None else scores


def _columns(model: Model, like: np.ndarray) -> list[str] | None:
    """The names of the columns if rows have several numbers; None for one."""
    if like.ndim == 1:
        return None
    names: Sequence[Any] = model.classes_.tolist() if model.outputs is None else model.outputs
    return [str(name) for name in names]


def _found(model: Model, rows: Any, what: str, given: dict[str, Any]) -> np.ndarray:
    """The prediction for some rows, or none."""
    if hasattr(rows, "shape") and rows.shape[0] == 0:
        return _of_none(model, what)
    return getattr(model, what)(rows, **given)


def _check_columns(model: Model, data: Any, given: dict[str, Any]) -> None:
    """Raise DataError or UsageError if a DataFrame has not the columns of the model."""
    import pandas as pd

    row = pd.DataFrame(0.0, [0], data.columns)
    if model.schema is None:
        _found(model, row, SCORES_METHOD, given)
    else:
        with model.rows_of(row, tasks=given["tasks"], missing_columns=given["missing_columns"]):
            pass


def _of_array(model: Model, X: Any, tasks: Any, what: str, given: dict[str, Any], like: np.ndarray) -> Any:
    """An Array with the chunks of rows of X."""
    parts = (X, "ij") if tasks is None else (X, "ij", tasks, "i")
    many = {} if like.ndim == 1 else {"new_axes": {"k": like.shape[1]}}
    made, known = functools.partial(_block, what=what, given=given), dask.delayed(model, pure=True)
    return da.blockwise(
        made, "ik" if many else "i", *parts, model=known, dtype=like.dtype, meta=like, concatenate=True, **many
    )  # fmt: skip


def _block(rows: Any, tasks: Any = None, *, model: Model, what: str, given: dict[str, Any]) -> np.ndarray:
    return _found(model, rows, what, given | {"tasks": tasks})


def _frame(frame: Any, model: Model, what: str, given: dict[str, Any], names: list[str] | None) -> Any:
    return _framed(frame, _found(model, frame, what, given), names)


def _framed(frame: Any, found: np.ndarray, names: list[str] | None) -> Any:
    """Predictions with the index of the frame."""
    import pandas as pd

    return pd.Series(found, frame.index) if names is None else pd.DataFrame(found, frame.index, names)


def _of_paths(model: Model, paths: list[Any], what: str, given: dict[str, Any], like: np.ndarray) -> Any:
    """An Array with a chunk for each file; of text it is not known before it is read how many rows it has."""
    known, each = dask.delayed(model, pure=True), dask.delayed(_found, pure=False)
    parts = []
    for path in paths:
        if is_ordered(path):
            rows = _rows_told(path)
        else:
            with open_source(path) as source:
                rows = source.rows
        shape = (math.nan if rows is None else rows, *like.shape[1:])
        parts.append(da.from_delayed(each(known, path, what, given), shape, dtype=like.dtype, meta=like))
    return da.concatenate(parts, axis=0, allow_unknown_chunksizes=True)


def _rows_told(path: str) -> int | None:
    """The rows that a file has by its footer or header; None if that is known at the end only.

    Raises DataError, InputMissingError.
    """
    if is_parquet(path):
        return sum(open_table(file).count or 0 for file in files_of(path))
    kind = format_of(path)
    if kind == ARROW:
        with damage(path):
            return int(dataset.dataset(path, format="ipc").count_rows())
    if kind in (NPY, NPZ):
        with ExitStack() as stack:
            return open_matrix(path, How("", stack), kind).count
    return None
