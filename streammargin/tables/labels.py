"""The columns of a table beside the values: labels, weights, tasks and names of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streammargin.errors import DataError
from streammargin.sources.batch import Batch
from streammargin.tables.header import is_number
from streammargin.tables.readers.base import Reader
from streammargin.tables.table import Beside
from streammargin.tables.tally import coded, codes_of, no_label, numbers_of, row_of
from streammargin.tables.types import kind_of, of_decimals
from streammargin.wording import shown


class Part(NamedTuple):
    """Some rows of a table: the number of the first, the rows, and their names."""

    first: int
    batch: Batch
    ids: tuple[np.ndarray, ...]


def beside_rows(batch: Batch, found: pa.RecordBatch, reader: Reader, beside: Beside, first: int) -> Part:
    """These rows with the columns beside them in the table. Raises DataError for a bad label, task or weight."""
    labels, tasks, weights = [found.column(name) for name in beside.labels], beside.tasks, beside.weight
    rows = batch._replace(
        labels=label_values(labels, reader, first) if labels else None,
        tasks=_values(found.column(tasks), reader, first, "task") if tasks else None,
        weights=_weights(found.column(weights), reader, first) if weights else None,
    )
    return Part(first, rows, tuple(_ids(found.column(name)) for name in beside.id))


def objects(words: pa.Array) -> np.ndarray:
    """Words (m,), as of `coded`, as objects: rows with one word share its text. A gap is None."""
    return np.array([*words.dictionary.to_pylist(), None], object)[codes_of(words.indices)]


def _ids(names: pa.Array) -> np.ndarray:
    """Names of rows (m,)."""
    names = coded(names)
    return objects(names) if kind_of(names.type) == "words" else names.to_numpy(zero_copy_only=False)


def label_values(labels: Sequence[pa.Array], reader: Reader, first: int) -> np.ndarray:
    """The labels (m,) of a batch: numbers, booleans or text as it is; of several columns numbers (m, columns).

    Raises DataError for a missing label.
    """
    if len(labels) == 1:
        return _values(labels[0], reader, first)
    return np.stack([_numbers(column, reader, first) for column in labels], axis=1)


def _values(labels: pa.Array, reader: Reader, first: int, noun: str = "label") -> np.ndarray:
    labels = coded(labels, reader.gaps[:1])
    gap = np.flatnonzero(labels.is_null().to_numpy(zero_copy_only=False))
    if gap.size:
        raise no_label(reader.name, reader.place(first + int(gap[0])), noun=noun)
    kind = kind_of(labels.type)
    if kind == "words":
        bad = pc.index(pc.match_substring(labels.dictionary, "\0"), True).as_py()
        if bad >= 0:
            where = reader.place(first + row_of(labels, bad))
            raise DataError(f"{reader.name}, {where}: the {noun} has a NUL character; remove it from the table")
        return objects(labels)
    if kind == "number":
        labels = of_decimals(labels) if pa.types.is_decimal(labels.type) else labels
        return np.asarray(labels.to_numpy(zero_copy_only=False))
    raise DataError(f"{reader.name}: the {noun}s are of type {labels.type}; {noun}s must be numbers or text")


def _numbers(labels: pa.Array, reader: Reader, first: int) -> np.ndarray:
    """One of several columns (m,) float64."""
    values = _values(labels, reader, first)
    if kind_of(labels.type) == "number":
        return values.astype(np.float64)
    bad = next((row for row, text in enumerate(values.tolist()) if not is_number(text)), None)
    if bad is not None:
        raise DataError(
            f"{reader.name}, {reader.place(first + bad)}: {shown(str(values[bad]))} is one of several "
            "labels, and not a number; name one column with `y`, or write numbers"
        )
    return np.array([float(text) for text in values.tolist()])


def _weights(weights: pa.Array, reader: Reader, first: int) -> np.ndarray:
    """Sample weights (m,) float64. Raises DataError for one that is no finite number or negative."""
    weights = coded(weights)
    found = numbers_of(weights) if kind_of(weights.type) == "number" else np.full(len(weights), np.nan)
    bad = np.flatnonzero(~(np.isfinite(found) & (found >= 0.0)))
    if bad.size:
        weight = weights[int(bad[0])].as_py()
        raise DataError(
            f"{reader.name}, {reader.place(first + int(bad[0]))}: the sample weight is "
            f"{'missing' if weight is None else weight}; weights must be finite and not negative"
        )
    return found
