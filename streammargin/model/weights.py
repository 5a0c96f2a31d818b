"""Write the weights of a linear model as a table, one row for each class and column."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from streammargin.errors import ReadWriteError, UsageError
from streammargin.files import replacing, short_reason
from streammargin.model.base import Model
from streammargin.model.linear import LinearModel
from streammargin.sources.schema import NUMBER, OTHER, TEXT, Schema
from streammargin.wording import one_line

ROWS = 1 << 14  # of the table that are in memory at once
COLUMNS = {"class": "string", "column": "string", "word": "string", "weight": "float64", "scaled_weight": "float64",
           "count": "int64"}  # fmt: skip
PARQUET = ".parquet"


def check_linear(model: Model) -> LinearModel:
    """The model, if it has weights of columns. Raises UsageError."""
    if not isinstance(model, LinearModel):
        raise UsageError("this model has no weights of columns: it is not linear")
    return model


def write_weights(model: Model, path: str, force: bool = False) -> None:
    """Write class, column, word, weight, scaled weight and count: as Parquet if `path` ends so, otherwise as CSV.

    The first row of each class has no column: its weight is the constant. A column of a table that counts words has one
    row for each word. The count says in how many training rows a word is. It is empty for other columns, for weighted
    rows, and if only some rows were measured. The scaled weight is the weight times the standard deviation of the
    column. Raises UsageError for a model that is not linear, OutputError, ReadWriteError.
    """
    import pyarrow as pa
    from pyarrow import csv, parquet

    linear = check_linear(model)
    schema = pa.schema(list(COLUMNS.items()))
    make: Any = parquet.ParquetWriter if path.endswith(PARQUET) else csv.CSVWriter
    with replacing(path, force) as name:
        try:
            with make(name, schema) as writer:
                rows = _rows(linear)
                while some := list(itertools.islice(rows, ROWS)):
                    writer.write_batch(pa.record_batch([list(values) for values in zip(*some, strict=True)], schema))
        except pa.ArrowException as error:
            raise ReadWriteError(f"cannot write {path}: {short_reason(error)}") from error


def _rows(model: LinearModel) -> Iterator[tuple[Any, ...]]:
    """The rows of the table."""
    for line, label in enumerate(model.labels_of_weights):
        text, scaled = None if label is None else one_line(str(label)), model.scaled_weights(line)
        yield text, None, None, float(model.intercept_[line]), None, None
        effects = itertools.repeat(None) if scaled is None else _each(scaled)
        yield from (
            (text, *named, weight, effect, count)
            for named, weight, effect, count in zip(
                named_columns(model), _each(model.coef_[line]), effects, _counts(model), strict=False
            )
        )


def named_columns(model: Model) -> Iterator[tuple[str, str | None]]:
    """The column of the data that each column of the rows is from, and the word that it counts, or None."""
    schema, names = model.schema, model.feature_names_in_
    if schema is None:
        yield from ((str(place if names is None else names[place]), None) for place in range(model.answer.features))
        return
    for column in schema.columns:
        if column.kind == TEXT:
            yield from ((column.name, f"#{place}") for place in range(column.width))
            continue
        numbers = [None] if column.kind == NUMBER else ["year", f"days since {column.first}"][: column.numbers]
        words = [*numbers, *column.words, *[OTHER] * column.other, *["missing"] * column.indicator]
        yield from ((column.name, word) for word in words)


def _counts(model: LinearModel) -> Iterator[int | None]:
    """In how many training rows each column is 1, of those that count a word of a category; None if it is unknown."""
    rows = model.header.get("rows")
    weighted = (model.header.get("problem") or {}).get("weighted", True)
    weighted = weighted or model.steps is not None  # means are of other numbers
    if model.moments is None or model.schema is None or weighted or model.header.get("measured_rows") != rows:
        return itertools.repeat(None)
    counts = _each(model.moments[0] * rows)
    return (round(count) if known else None for count, known in zip(counts, _of_words(model.schema), strict=True))


def _each(array: np.ndarray) -> Iterator[float]:
    """The numbers of an array, of which few at a time are objects."""
    for start in range(0, array.size, ROWS):
        yield from array[start : start + ROWS].tolist()


def _of_words(schema: Schema) -> Iterator[bool]:
    """Which columns are 0 or 1: those of words, of parts of dates, and of missing values."""
    for column in schema.columns:
        first = column.numbers if column.kind != TEXT else column.width
        yield from (place >= first for place in range(column.width))
