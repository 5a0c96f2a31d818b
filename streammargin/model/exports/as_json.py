"""A linear model as one JSON object, for a scorer of a few lines in any language (docs/production.md has one)."""

from __future__ import annotations

import json
from typing import Any

from streammargin.errors import UsageError
from streammargin.model.base import Model
from streammargin.model.exports.parts import Parts, taken
from streammargin.model.weights import named_columns
from streammargin.sources.schema import CATEGORY, DATE, NUMBER, Column

FORMAT, VERSION = "streammargin-json", 1


def json_text(model: Model) -> str:
    """The object: format, version, classes, outputs, link, intercept, and an object for each column.

    A column has its name, or its number if it has none, and weights: a list with one for each score, or such a list for
    each category. `gap` is what a missing value adds to the scores, and `other` what a rare category adds. UsageError
    for columns that a scorer would have to make: dates, words of texts, numbers with a unit.
    """
    parts = taken(model, "JSON", maps=False)
    if parts.schema is None:
        names = [name for name, _ in named_columns(model)]
        columns = [{"name": name, "weights": each} for name, each in zip(names, parts.coef.T.tolist(), strict=True)]
    else:
        table = zip(parts.schema.columns, parts.schema.starts.tolist(), strict=False)
        columns = [_column(parts, column, start) for column, start in table]
        columns = [column if parts.schema.named else {**column, "name": str(k)} for k, column in enumerate(columns)]
    found = {"format": FORMAT, "version": VERSION, "classes": parts.classes.tolist(), "outputs": parts.outputs,
             "link": parts.link, "intercept": parts.intercept.tolist(), "columns": columns}  # fmt: skip
    return json.dumps(found, allow_nan=False) + "\n"


def _column(parts: Parts, column: Column, start: int) -> dict[str, Any]:
    """A column of a table. UsageError for one that a scorer would have to make."""
    weights = parts.coef[:, start : start + column.width].T.tolist()
    pair = column.spelling.split("/") if column.kind == NUMBER and "/" in column.spelling else []
    if column.kind not in (NUMBER, CATEGORY) or (column.spelling and not pair):
        what = {DATE: "a date", NUMBER: f"a number with a unit or marks ({column.spelling})"}
        raise UsageError(
            f"the column {column.name} is {what.get(column.kind, 'free text')}, which JSON does not have; train on "
            "numbers and categories, or use streammargin.load_model"
        )
    found: dict[str, Any] = {"name": column.name}
    if column.kind == NUMBER:
        found["weights"] = {pair[0]: weights[0], pair[1]: [0.0] * len(weights[0])} if pair else weights[0]
    else:
        found["weights"] = dict(zip(column.words, weights, strict=False))
    if column.other:
        found["other"] = weights[len(column.words)]
    if column.fill is not None:
        number = column.fill if column.kind == NUMBER else 0.0
        marks = weights[-1] if column.indicator else [0.0] * len(parts.coef)
        found["gap"] = [number * weight + mark for weight, mark in zip(weights[0], marks, strict=True)]
    return found
