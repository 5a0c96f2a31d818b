"""Predictions for collections of dask, computed by whoever computes these, partition by partition."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.delayed import Delayed

from streammargin.dask.train import files
from streammargin.errors import UsageError
from streammargin.model.base import Model
from streammargin.model.columns import ERROR
from streammargin.ordered import is_ordered
from streammargin.sources.open import is_path, open_source

SCORES, LABELS, PROBABILITIES = "decision_function", "predict", "predict_proba"


def predict(model: Model, data: Any, *, missing_columns: str = ERROR, unknown: str = "error") -> Any:
    """`model.predict` of a collection, lazy: predicted labels, or numbers.

    data: an Array, whose chunks of rows are kept; a DataFrame, which gives a Series with its index, or a DataFrame
    if rows have several numbers; a path, a list of paths or a pattern that the workers see, which give an Array.
    """
    return _lazily(model, data, LABELS, {"missing_columns": missing_columns, "unknown": unknown})


def decision_function(model: Model, data: Any, *, missing_columns: str = ERROR, unknown: str = "error") -> Any:
    """`model.decision_function` of a collection, lazy; data as for `predict`."""
    return _lazily(model, data, SCORES, {"missing_columns": missing_columns, "unknown": unknown})


def predict_proba(model: Model, data: Any, *, missing_columns: str = ERROR, unknown: str = "error") -> Any:
    """`model.predict_proba` of a collection, lazy; data as for `predict`."""
    return _lazily(model, data, PROBABILITIES, {"missing_columns": missing_columns, "unknown": unknown})


def _lazily(model: Model, data: Any, what: str, given: dict[str, str]) -> Any:
    if not isinstance(model, Model):
        raise UsageError(f"the model must be one of streammargin, not {type(model).__name__}")
    if model.of_pairs or model.tasks:
        what = "completes a matrix, and predicts pairs" if model.of_pairs else "asks for the task of each row"
        raise UsageError(f"this model {what}; use its method predict on one machine")
    if what == PROBABILITIES:
        model.check_probabilities()
    like = _of_none(model, what)
    rows = not isinstance(data, Delayed) and getattr(data, "ndim", 0) == 2  # a Delayed object has any attribute
    if rows and hasattr(data, "map_blocks"):
        if not np.isnan(data.shape[1]):
            _found(model, np.zeros((1, data.shape[1]), data.dtype), what, given)  # refuses other columns now
        return _of_array(model, data, what, given, like)
    if rows and hasattr(data, "map_partitions"):
        names = _columns(model, what, like)
        made = functools.partial(_frame, what=what, given=given, names=names)
        return data.map_partitions(made, dask.delayed(model, pure=True), meta=_framed(data._meta, like, names))
    if is_path(data) or (isinstance(data, (list, tuple)) and data and all(map(is_path, data))):
        found: Any = files(data)
        return _of_paths(model, found if isinstance(found, list) else [found], what, given, like)
    raise UsageError("predictions are of an Array of rows, a DataFrame, or paths; in memory use those of the model")


def _of_none(model: Model, what: str) -> np.ndarray:
    """The prediction for no rows, which has the shape and type of any."""
    scores = np.empty((0, model.answer.outputs))
    if what == LABELS:
        return model.labels_of(scores)
    if what == PROBABILITIES:
        return model.probabilities_of()(scores)
    return scores[:, 0] if scores.shape[1] == 1 and model.outputs is None else scores


def _columns(model: Model, what: str, like: np.ndarray) -> list[str] | None:
    """The names of the columns if rows have several numbers; None for one."""
    if like.ndim == 1:
        return None
    names: Sequence[Any] = model.classes_.tolist() if model.outputs is None else model.outputs
    return [str(name) for name in names]


def _found(model: Model, rows: Any, what: str, given: dict[str, str]) -> np.ndarray:
    """The prediction for some rows, or none."""
    if hasattr(rows, "shape") and rows.shape[0] == 0:
        return _of_none(model, what)
    found: np.ndarray = getattr(model, what)(rows, **given)
    return found


def _of_array(model: Model, X: Any, what: str, given: dict[str, str], like: np.ndarray) -> Any:
    """An Array with the chunks of rows of X."""
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    made = functools.partial(_block, what=what, given=given)
    shape = {"drop_axis": 1} if like.ndim == 1 else {"chunks": (X.chunks[0], (like.shape[1],))}
    return da.map_blocks(made, X, model=dask.delayed(model, pure=True), dtype=like.dtype, meta=like, **shape)


def _block(rows: Any, model: Model, what: str, given: dict[str, str]) -> np.ndarray:
    return _found(model, rows, what, given)


def _frame(frame: Any, model: Model, what: str, given: dict[str, str], names: list[str] | None) -> Any:
    return _framed(frame, _found(model, frame, what, given), names)


def _framed(frame: Any, found: np.ndarray, names: list[str] | None) -> Any:
    """Predictions with the index of the frame."""
    import pandas as pd

    return pd.Series(found, frame.index) if names is None else pd.DataFrame(found, frame.index, names)


def _of_paths(model: Model, paths: list[Any], what: str, given: dict[str, str], like: np.ndarray) -> Any:
    """An Array with a chunk for each file; how many rows a table has is not known before it is read."""
    known, each = dask.delayed(model, pure=True), dask.delayed(_found, pure=False)
    parts = []
    for path in paths:
        rows = float("nan")
        if not is_ordered(path):
            with open_source(path) as source:
                rows = source.rows
        shape = (rows, *like.shape[1:])
        parts.append(da.from_delayed(each(known, path, what, given), shape, dtype=like.dtype, meta=like))
    return da.concatenate(parts, axis=0, allow_unknown_chunksizes=True)
