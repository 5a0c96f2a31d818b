"""Columns of a batch as text."""

from __future__ import annotations

import contextlib

import pyarrow as pa

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
        return pa.DictionaryArray.from_arrays(column.indices, column.dictionary.cast(pa.string()))
    return column if pa.types.is_string(column.type) else column.cast(pa.string())
