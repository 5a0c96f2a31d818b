"""What the columns of a table hold, by their types; decimals as numbers, and columns of a batch as text."""

from __future__ import annotations

import contextlib
import functools

from streammargin.arrow import pa, pc
from streammargin.matching import plain, spelt

VIEW = "string_view"  # a type that older releases of Arrow lack
OF_VIEWS = (VIEW, f"dictionary<values={VIEW}")


@functools.lru_cache(64)
def kind_of(type_: pa.DataType) -> str:
    """number, words, "" for a column of gaps alone, or the name of another type."""
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    if pa.types.is_null(type_):
        return ""
    numeric = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    if any(holds(type_) for holds in numeric):
        return "number"
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return "words"
    span = pa.types.is_duration(type_) or pa.types.is_interval(type_)
    return "date" if pa.types.is_temporal(type_) and not span else str(type_)


def is_category(type_: pa.DataType) -> bool:
    """Whether this is a category of numbers, as pandas has it: a dictionary of them. Truth stays 1 and 0."""
    return pa.types.is_dictionary(type_) and kind_of(type_) == "number" and not pa.types.is_boolean(type_.value_type)


def of_decimals(column: pa.Array) -> pa.Array:
    """Decimals as numbers that are exact: int64 if their type has no fractions, else the float64 nearest to each."""
    if column.type.scale <= 0:
        with contextlib.suppress(pa.ArrowInvalid):  # of 2^63 or more
            return pc.cast(column, pa.int64())
    return pc.cast(pc.cast(column, pa.string()), pa.float64())  # by itself the cast to float64 rounds twice


def worded(batch: pa.RecordBatch, words: frozenset[str]) -> pa.RecordBatch:
    """The batch with these columns as text. Those of a dictionary keep it: a long text may stand in many rows."""
    arrays = [
        _text(column) if name in words or str(column.type).startswith(OF_VIEWS) else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


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
