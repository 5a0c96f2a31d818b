"""Predict with a model file by NumPy alone. Copy this file wherever you need it: it imports nothing else of ours.

    from numpy_model import NumpyModel

    model = NumpyModel("income.npz")
    model.predict([{"age": 39, "work": "state"}, {"age": None, "work": "own"}])

It takes linear models, alone or behind the map rff. Rows are an array (n, d), a sparse matrix of SciPy, or a table.
This is a frame, a dict of columns or a row, or dicts with all fields. 12.3% is 12.3. Dates are Python's or 2024-01-31.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

WEEKDAYS = np.array(["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"])


class NumpyModel:
    """A model file of streammargin. ValueError for one that needs more than NumPy: the sentence says why.
    Its methods take unknown: whether an unknown category is an "error", or counts as zeros, "zero".

    classes_ : (2,) or (k,) labels; (0,) for a model that predicts numbers
    coef_, intercept_ : (1, d) or (k, d), and (1,) or (k,) float64; of mapped rows behind a map
    outputs, header : the names of several outputs, or None; the header of the file (docs/model_file.md)
    """

    def __init__(self, path: Any) -> None:
        with np.load(path, allow_pickle=False) as file:
            arrays: dict[str, np.ndarray] = dict(file)
        self.header: dict[str, Any] = json.loads(str(arrays["header"]))
        refuse(arrays, self.header)
        self.coef_, self.intercept_ = (arrays[name].astype(np.float64) for name in ("coef", "intercept"))
        self.classes_: np.ndarray = texts_of(arrays["classes"])
        self.outputs: list[str] | None = self.header.get("outputs")
        self._features = int(arrays["features"]) if "features" in arrays else self.coef_.shape[1]
        self._arrays, self._steps = arrays, RowSteps(arrays)
        names = texts_of(arrays["feature_names"].view("S1")) if "feature_names" in arrays else ()
        plain = {"columns": [{"name": name} for name in names], "dtype": "float64", "named": True}
        self._table: dict[str, Any] = self.header.get("table") or plain

    def decision_function(self, data: Any, unknown: str = "error") -> np.ndarray:
        """Scores (n,), or (n, k) for several classes or outputs, float64. ValueError for bad rows."""
        found = self._scores(data, unknown)
        return found[:, 0] if found.shape[1] == 1 and self.outputs is None else found

    def predict(self, data: Any, unknown: str = "error") -> np.ndarray:
        """Labels, or numbers, (n,), or (n, outputs); arguments as for `decision_function`."""
        found = self.decision_function(data, unknown)
        codes = found.argmax(axis=1) if found.ndim == 2 and self.outputs is None else (found > 0.0).astype(np.intp)
        return self.classes_[codes] if len(self.classes_) else found

    def predict_proba(self, data: Any, unknown: str = "error") -> np.ndarray:
        """Probabilities (n, k) of the classes, or (n, outputs) that labels are 1. ValueError if there are none."""
        loss, C, calibrated = *map(self.header.get, ("loss", "C")), "calibration.counts" in self._arrays
        if not calibrated and (loss != "logistic" or C == "inf"):
            raise ValueError(f"a model of the loss {loss} with C = {C} has no probabilities; use predict")
        found = log_odds(self._scores(data, unknown), self._arrays)
        if self.outputs is not None:
            return np.exp(-np.logaddexp(0.0, -found))
        found = np.hstack([-found, found]) if found.shape[1] == 1 else found
        softmax = self.header.get("multiclass") == "joint" and found.shape[1] > 2 and not calibrated
        logs = found if softmax else -np.logaddexp(0.0, -found)
        found = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.asarray(found / found.sum(axis=1, keepdims=True))

    def rows(self, data: Any, unknown: str = "error") -> Any:
        """The rows of numbers (n, d) that data are, or become. ValueError names the row and column that do not fit."""
        if (table := table_of(data)) is None:
            X = data if hasattr(data, "tocsr") else np.asarray(data, np.float64)
        else:
            columns = self._table["columns"]
            names = [column["name"] for column in columns] if self._table["named"] else list(table)
            missing, has = [name for name in names if name not in table], ", ".join(map(str, list(table)[:9]))
            if missing or len(names) != len(columns) or not columns:
                lacks = f"lacks the column {', '.join(missing[:1])}, or a row lacks that field; None is a missing value"
                other = f"has {len(names)}, not {len(columns)}: the columns have no names, or a row lacks a field"
                raise ValueError(f"the table {lacks if missing else other}; all rows have {has or 'no field'}")
            parts = [numbers_of(*each, unknown) for each in zip(columns, map(table.get, names), strict=True)]
            X = np.hstack(parts).astype(self._table["dtype"]).astype(np.float64)
        if X.ndim != 2 or X.shape[1] != self._features:
            raise ValueError(f"the rows have the shape {X.shape}, not (n, {self._features}) as those of the training")
        return X

    def _scores(self, data: Any, unknown: str) -> np.ndarray:
        with np.errstate(all="ignore"):  # what overflows is said here
            X = mapped(self._steps.taken(self.rows(data, unknown)), self._arrays)
            found = np.asarray(X @ self.coef_.T + self.intercept_)
        bad = np.flatnonzero(~np.isfinite(found).all(axis=1))
        if bad.size:
            raise ValueError(f"row {bad[0]}: a value is not finite, or its score overflows; replace it")
        return found


def refuse(arrays: Mapping[str, np.ndarray], header: Mapping[str, Any]) -> None:
    """ValueError for a file that is no model, and for a model that needs more than NumPy."""
    if header.get("format") != "streammargin-model" or header.get("schema", 2) > 1:
        raise ValueError("this is not a model of streammargin, or a newer version wrote it")
    kind, map, columns = header.get("answer", "linear"), str(arrays.get("map", "")), (header.get("table") or {})
    texts = [column["name"] for column in columns.get("columns", ()) if column.get("kind") == "text"]
    for bad, why in (
        (kind not in ("linear", "mapped"), f"it is of the kind {kind}"),
        (header.get("tasks"), "each of its tasks has weights of its own"),
        (texts, f"scikit-learn hashes the free text of its column {''.join(texts[:1])}"),
        (map and not map.startswith("rff:"), f"its map {map} is not rff"),
        (step := RowSteps(arrays).theirs, f"its step {step} is not built in"),
    ):
        if bad:
            raise ValueError(f"this model needs more than NumPy: {why}; use streammargin.load_model")


def texts_of(classes: np.ndarray) -> np.ndarray:
    """The classes of a model file, in which long text is its bytes of UTF-8, each of type S1, with NULs between."""
    return np.array(classes.tobytes().decode().split("\0"), object) if classes.dtype == "S1" else classes


def log_odds(scores: np.ndarray, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """The log odds (n, K) of scores by calibration, each by itself; without one the scores."""
    if "calibration.scores" not in arrays:
        slopes, constants = arrays.get("calibration.sigmoid", np.array([[1.0, 0.0]])).T
        return np.asarray(scores * slopes + constants)
    at, lines = arrays["calibration.scores"], arrays["calibration.probabilities"]
    p = np.stack([np.interp(of, at, line) for of, line in zip(scores.T, lines, strict=True)], axis=1)
    return np.asarray(np.log((p + 1e-15) / (1.0 - p + 1e-15)))  # finite for 0 and 1


def row_sums(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The sum of its row, 1 in place of 0, for each stored value (v,); starts (m + 1,): of the rows among them."""
    filled, found = np.flatnonzero(np.diff(starts)), np.zeros(len(starts) - 1)
    found[filled] = np.add.reduceat(values, starts[filled]) if filled.size else 0.0
    return np.repeat(np.where(found == 0.0, 1.0, found), np.diff(starts))


STEP_FORMULAS: dict[str, Callable[..., np.ndarray]] = {  # of values, bounds of their rows, the word's number, arrays
    "total": lambda x, starts, number, _: x * (number / row_sums(x, starts)),
    "log1p": lambda x, *_: np.log1p(x), "sqrt": lambda x, *_: np.sqrt(x), "tfidf": lambda x, *of: x * of[2]["factors"],
    "unit": lambda x, starts, *_: x / np.sqrt(row_sums(x * x, starts)),
    "clipped": lambda x, _, most, of: np.clip((x - of["center"]) * of["factor"], -most, most),
}  # fmt: skip


class RowSteps:
    """The steps that rows of a model file take, if there are any. theirs: one that is not built in."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.arrays, words = arrays, arrays["transform"].tolist() if "transform" in arrays else []
        self.steps = [re.split(r":(?:\w+=)?", f"{word}:")[:2] for word in words]
        self.theirs: str | None = next((name for name, _ in self.steps if name not in STEP_FORMULAS), None)

    def taken(self, X: Any) -> Any:
        """The rows (m, d), an array or a sparse matrix, after the steps, in float64."""
        if not self.steps:
            return X
        if hasattr(X, "tocsr"):
            found = X.tocsr(copy=True)
            found.data = self._values(found.data.astype(np.float64), found.indptr, found.indices)
            return found
        m, d = X.shape
        return self._values(X.astype(np.float64).ravel(), np.arange(m + 1) * d, np.tile(np.arange(d), m)).reshape(m, d)

    def _values(self, values: np.ndarray, starts: np.ndarray, columns: np.ndarray) -> np.ndarray:
        for k, (name, number) in enumerate(self.steps):
            prefix, dtype = f"transform.{k}.", str(self.arrays["transform.dtypes"][k])
            of = {key[len(prefix) :]: each[columns] for key, each in self.arrays.items() if key.startswith(prefix)}
            values = STEP_FORMULAS[name](values, starts, float(number or 1.0), of).astype(dtype).astype(np.float64)
        return values


def mapped(X: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """The rows that the weights are for: as given, or those of the map `rff` of the scaled rows."""
    if "map" not in arrays:
        return X
    X = X.toarray() if hasattr(X, "tocsr") else X
    X = (X - arrays["centers"]) * arrays["factors"] if arrays["factors"].size else X
    turns, columns = X @ arrays["map.directions"], int(re.split("[:,]", str(arrays["map"]))[1])
    found = np.hstack([np.cos(turns), np.sin(turns[:, : columns // 2])]) * np.sqrt(2.0 / columns)
    return found.astype(str(arrays["dtype"])).astype(np.float64)


def table_of(data: Any) -> Mapping[Any, Any] | None:
    """The columns of a frame, of a dict of columns or of one row, or of a list of dicts; None for rows of numbers."""
    if isinstance(data, Mapping):
        return data if any(map(np.ndim, data.values())) else {name: [value] for name, value in data.items()}
    if isinstance(data, Sequence) and len(data) and isinstance(data[0], Mapping):
        return {name: [row[name] for row in data] for name in data[0] if all(name in row for row in data)}
    return {name: data[name] for name in data.columns} if hasattr(data, "columns") else None


def numbers_of(column: Mapping[str, Any], values: Any, unknown: str) -> np.ndarray:
    """The columns of numbers (n, width) that a column of a table becomes. ValueError names the row."""
    kind, words, dated = column.get("kind", "number"), column.get("words", []), "first" in column
    X = np.zeros((len(values), (1 if kind == "number" else 2 * dated + len(words)) + column.get("other", False)))
    gaps, found = np.zeros(len(values), bool), {word: place for place, word in enumerate(words)}
    if kind == "number" and (plain := np.asarray(values)).dtype.kind in "biuf" and not np.isnan(plain).any():
        X[:, 0], values = plain, ()
    for row, one in enumerate(one.strip(" \t") if isinstance(one, str) else one for one in values):
        gaps[row] = gap = one is None or (not isinstance(one, str) and str(one) in ("nan", "NaT", "<NA>"))
        try:
            if gap and "fill" not in column:
                raise ValueError("the value is missing, and no training row lacked it")
            if kind == "number":
                X[row] = column["fill"] if gap else number_of(one, column.get("spelling", ""))
            elif kind == "date" and gap:
                X[row, :2] = [column.get("year", 0.0), column["fill"]] if dated else 0.0
            elif kind == "date":
                X[row] = date_of(one, column.get("first"), words)
            elif not gap and (place := place_of(one, found, column, unknown)) >= 0:
                X[row, place] = 1.0
        except (TypeError, ValueError) as error:
            raise ValueError(f"row {row}, column {column['name']}: {error}") from None
    return np.column_stack([X, gaps]) if column.get("indicator") else X


def number_of(one: Any, spelling: str) -> float:
    """The number that a value is; yes is 1, and no is 0, if the training had such words."""
    yes, _, no = (spelling or "true/false").partition("/")
    if isinstance(one, str) and no and one.lower() in (yes, no):
        return float(one.lower() == yes)
    if isinstance(one, str) and (spelling or "_" in one or not one):
        raise ValueError(f"{one!r} is text; give the number, such as 12.3 for 12.3%; None is a missing value")
    return float(one)


def date_of(one: Any, first: str | None, words: Sequence[str]) -> list[float]:
    """The years and the days since `first`, unless that is None, and a 1 for each part of the date among the words."""
    when = np.array(one if first else f"1970-01-01T{one}", "datetime64[us]")
    day, month, hour = (when.astype(f"datetime64[{unit}]").astype(int) for unit in "DMh")
    parts = {f"month={month % 12 + 1}", f"day of the week={WEEKDAYS[(day + 3) % 7]}", f"hour={hour - 24 * day}"}
    numbers = [month // 12 + 1970 - int(first[:-6]), day - np.datetime64(first, "D").astype(int)] if first else []
    return [*map(float, numbers), *(float(word in parts) for word in words)]


def place_of(one: Any, found: dict[Any, int], column: Mapping[str, Any], unknown: str) -> int:
    """The place of a category, -1 for none; found: places of words, and of values that came before."""
    if one not in found:
        words, alike = column.get("words", []) if column.get("numeric") or not isinstance(one, str) else [], []
        for place, word in enumerate(words):
            with contextlib.suppress(ValueError):
                alike += [place] * (number_of(word, "") == number_of(one, ""))
        if len(alike) > 1 or not (alike or column.get("other") or unknown == "zero"):
            said = "not clear; replace it" if alike else 'unknown; replace it, or give unknown="zero"'
            raise ValueError(f"the category {one!r} is {said}{'; None is a missing value' * (one == '')}")
        found[one] = alike[0] if alike else len(column["words"]) if column.get("other") else -1
    return found[one]
