"""The index of a frame among the columns of a table: it numbers the rows, and is no value."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streammargin.tables.header import all_of
from streammargin.tables.readers.base import Reader
from streammargin.tables.unnamed import is_stored_index, may_be_index
from streammargin.wording import warn

LOOKED_AT = 1 << 16  # rows that tell whether a column numbers them


def without_index(reader: Reader, values: Sequence[str], named: Collection[str] = ()) -> tuple[str, ...]:
    """These columns without an index, of which a warning tells. named: those that the user has named, which stay.

    An index is what pandas or dask has stored as one, or a first column without a name that holds different whole
    numbers. If no other column is left, it is a value.
    """
    found = [name for name in values if may_be_index(name) and name not in named]
    twice = {name: False if is_stored_index(name) else repeated(reader, name) for name in found}
    left_out = [name for name in found if twice[name] is False]
    left_out = left_out if len(left_out) < len(values) else []
    if left_out:
        warn(
            f"{reader.name}: left out, as an index without a name: {all_of(left_out)}; to use it, name it in "
            "`columns`, with all other columns"
        )
    for name in found:
        if name not in left_out and twice[name] is not None:
            warn(
                f"{reader.name}: the first column has no name, and is used as a value; if it numbers the rows, leave "
                f"it out with `drop={name}`: their order may reveal the labels"
            )
    return tuple(name for name in values if name not in left_out)


def repeated(reader: Reader, name: str) -> bool | None:
    """Whether a whole number occurs twice in a part of a table, which may begin anew; None if there are other values.

    The first rows tell.
    """
    left = LOOKED_AT
    for part in reader.parts():
        seen: set[int] = set()
        rows = 0
        for batch in part.batches([name], frozenset()):
            found = _whole(batch.column(0))
            if found is None:
                return None
            seen.update(found.tolist())
            rows += len(found)
            if len(seen) < rows:
                return True
            if rows >= left:
                return False
        left -= rows
    return False


def _whole(column: pa.Array) -> np.ndarray | None:
    """The numbers (m,) int64 of a column of whole numbers; None if it has others, words or gaps."""
    kind = column.type
    if column.null_count or not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return None
    try:
        return np.asarray(pc.cast(column, pa.int64()).to_numpy(zero_copy_only=False))
    except pa.ArrowInvalid:  # a fraction, NaN, or above 2^63
        return None
