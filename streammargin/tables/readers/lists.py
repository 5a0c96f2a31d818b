"""Columns of lists of numbers of one length, such as embeddings: each place in the lists is a column, NAME[PLACE]."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from streammargin.errors import DataError
from streammargin.tables.types import kind_of
from streammargin.wording import short


class Lists:
    """The columns of lists of a table, and the columns that they become.

    types: of all columns as stored, by our names. first: the first values of a column, for the length of its lists;
    None if a column can be read once only: then lists of a type without a length stay. Raises DataError.
    """

    def __init__(self, name: str, types: Mapping[str, pa.DataType], first: Callable[[str], Any] | None) -> None:
        self.name = name
        self.widths: dict[str, int] = {}
        self.types: dict[str, pa.DataType] = {}  # of all columns that there are then
        self._of: dict[str, tuple[str, int]] = {}
        for column, type_ in types.items():
            width = _width(type_, column, first)
            if not width:
                self.types[column] = type_
                continue
            self.widths[column] = width
            places = {f"{column}[{place}]": (column, place) for place in range(width)}
            if twice := [each for each in places if each in types]:
                raise DataError(
                    f"{name} has a column {twice[0]} beside the lists of {short(column)}; rename one of them"
                )
            self._of |= places
            inner = type_.value_type
            self.types |= dict.fromkeys(places, pa.float32() if pa.types.is_float16(inner) else inner)

    def columns_of(self, name: str) -> list[str]:
        """The columns that a column of lists becomes; itself if it is another one."""
        return [f"{name}[{place}]" for place in range(self.widths[name])] if name in self.widths else [name]

    def stored(self, columns: Sequence[str]) -> list[str]:
        """The columns, as stored, that these are made of."""
        return list(dict.fromkeys(self._of.get(name, (name, 0))[0] for name in columns)) if self.widths else [*columns]

    def spread(self, batch: pa.RecordBatch, columns: Sequence[str], first: int) -> pa.RecordBatch:
        """These columns of a batch of stored ones; first: the number of its first row. Raises DataError."""
        if not self.widths:
            return batch
        apart = {name: self._numbers(batch.column(name), name, first) for name in batch.schema.names
                 if name in self.widths}  # fmt: skip
        arrays = []
        for name in columns:
            of, place = self._of.get(name, (name, 0))
            if of in apart:
                arrays.append(pa.array(np.ascontiguousarray(apart[of][:, place]), self.types[name], from_pandas=True))
            else:
                arrays.append(batch.column(of))
        return pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def _numbers(self, column: Any, name: str, first: int) -> np.ndarray:
        """The numbers (m, width) of lists; a missing number is NaN. Raises DataError for another length."""
        width = self.widths[name]
        where = f"{self.name}, row {{}}, column {short(name)}"
        if column.null_count:
            row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise DataError(f"{where.format(first + row)}: the list is missing; give the row one, or leave it out")
        if not pa.types.is_fixed_size_list(column.type):
            lengths = column.value_lengths().to_numpy(zero_copy_only=False)
            if (wrong := lengths != width).any():
                row = int(wrong.argmax())
                raise DataError(f"{where.format(first + row)}: the list has {lengths[row]} numbers, and the first one "
                                f"{width}; give all lists one length")  # fmt: skip
        values = column.flatten().to_numpy(zero_copy_only=False)
        values = values.astype(np.float32) if values.dtype == np.float16 else values
        return values.reshape(len(column), width)


def _width(type_: pa.DataType, column: str, first: Callable[[str], Any] | None) -> int:
    """The length of the lists of a column; 0 if it has none that become columns."""
    fixed = pa.types.is_fixed_size_list(type_)
    if not (fixed or pa.types.is_list(type_) or pa.types.is_large_list(type_)) or kind_of(type_.value_type) != "number":
        return 0
    if fixed:
        return int(type_.list_size)
    found = None if first is None else first(column)
    return 0 if found is None or not len(found) or found[0].as_py() is None else len(found[0])
