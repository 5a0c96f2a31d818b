"""Columns of a batch as text."""

from __future__ import annotations

import contextlib

import pyarrow as pa

from streammargin.matching import plain, spelt
from streammargin.tables.types import kind_of, of_decimals

VIEW = "string_view"  # a type that older releases of Arrow lack


def worded(batch: pa.RecordBatch, words: frozenset[str]) -> pa.RecordBatch:
    """The batch with these columns as text. Those of a dictionary keep it: a long text may stand in many rows."""
    arrays = [
        _text(column) if name in words or str(_value_type(column)) == VIEW else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _value_type(column: pa.Array) -> pa.DataType:
    return column.type.value_type if pa.types.is_dictionary(column.type) else column.type


def _text(column: pa.Array) -> pa.Array:
    """A column, or the dictionary of one, as text. Arrow has few functions of views of text, as polars has them."""
    if str(column.type) == VIEW:  # many may be of one text
        with contextlib.suppress(pa.ArrowNotImplementedError):  # of an older Arrow
            column = column.dictionary_encode()
    if pa.types.is_dictionary(column.type):
        texts = column.dictionary
        texts = _spelt(texts) if kind_of(texts.type) == "number" else texts.cast(pa.string())
        if texts.null_count:  # NaN
            return texts.take(column.indices)
        return pa.DictionaryArray.from_arrays(column.indices, texts)
    if pa.types.is_string(column.type):
        return column
    if pa.types.is_integer(column.type) or kind_of(column.type) != "number":
        return column.cast(pa.string())
    return _text(column.dictionary_encode())


def _spelt(numbers: pa.Array) -> pa.Array:
    """Numbers as text, those that are equal alike: 7 for 7.0 and True; null for NaN."""
    found = map(plain, (of_decimals(numbers) if pa.types.is_decimal(numbers.type) else numbers).to_pylist())
    return pa.array([None if number is None or number != number else spelt(number) for number in found], pa.string())
