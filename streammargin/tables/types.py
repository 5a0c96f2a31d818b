"""What the columns of a table hold, by their types, and decimals as numbers."""

from __future__ import annotations

import contextlib
import functools

import pyarrow as pa
import pyarrow.compute as pc


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
    return "date" if pa.types.is_temporal(type_) and not pa.types.is_duration(type_) else str(type_)


def is_category(type_: pa.DataType) -> bool:
    """Whether this is a category of numbers, as pandas has it: a dictionary of them. Truth stays 1 and 0."""
    return pa.types.is_dictionary(type_) and kind_of(type_) == "number" and not pa.types.is_boolean(type_.value_type)


def of_decimals(column: pa.Array) -> pa.Array:
    """Decimals as numbers that are exact: int64 if their type has no fractions, else the float64 nearest to each."""
    if column.type.scale <= 0:
        with contextlib.suppress(pa.ArrowInvalid):  # of 2^63 or more
            return pc.cast(column, pa.int64())
    return pc.cast(pc.cast(column, pa.string()), pa.float64())  # by itself the cast to float64 rounds twice
