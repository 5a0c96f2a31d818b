"""Labels and weights outside the file of the rows: a column of another table, or an array, in the order of the rows."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from streammargin.errors import MisnamedError
from streammargin.sources.arrays import as_array
from streammargin.sources.labels import LabelColumn, lie_inside
from streammargin.sources.names import all_of
from streammargin.tables.formats import FORMATS, format_of, is_table
from streammargin.tables.open import open_table
from streammargin.wording import meant, note, short


def lie_outside(given: object, columns: Collection[str]) -> bool:
    """Whether labels or weights given so are an array, or lie in another file than a table with these columns."""
    if isinstance(given, str):
        return given not in columns and (given.endswith(".npy") or not lie_inside(given))
    return not isinstance(given, (int, tuple, type(None)))


def split_name(given: object) -> tuple[str, str] | None:
    """(path of a table, column) if labels or weights given so are a column of a table; else None."""
    path, colon, column = given.rpartition(":") if isinstance(given, str) else ("", "", "")
    return (path, column) if colon and os.path.isfile(path) and is_table(path) else None


def column_of_labels(given: object) -> LabelColumn | None:
    """Where labels of another file are from; None if they are as they were written there."""
    found = split_name(given)
    kind = None if found is None else format_of(found[0])
    return LabelColumn(None, spelt=True) if kind is not None and FORMATS[kind].text else None


def column_of(given: Any, path: str, what: tuple[str, str]) -> Any:
    """The column that this is: of an array, or of a table; names of other files, columns and None stay.

    path: of the rows, for messages; what: LABELS or WEIGHTS.
    """
    from streammargin.sources.hdf5.columns import LABELS, StoredColumn

    if found := split_name(given):
        column = TableColumn(*found, what[0])
        note(f"{path}: the {what[0]} are {column.name}, in the order of the rows")
        return column
    if given is None or isinstance(given, (str, TableColumn)):
        return given
    return StoredColumn(as_array(given, what[1]), what[1], wide=what == LABELS)


class TableColumn:
    """A column of a table; noun: what its values are, labels or weights. Raises DataError if the table lacks it."""

    def __init__(self, path: str, column: str, noun: str) -> None:
        self.name, self.files = f"{path}: {column}", [path]
        self._column, self._reader, self._noun = column, open_table(path), noun.removesuffix("s")
        if column not in self._reader.columns:
            has = f"{meant(column, self._reader.columns)}it has {all_of(self._reader.columns)}"
            raise MisnamedError(f"{path} has no column {short(column)} of {noun}; {has}")
        count = self._reader.count
        self.length: int = sum(batch.num_rows for batch in self._batches()) if count is None else count

    def _batches(self) -> Iterator[Any]:
        words = frozenset() if self._reader.typed else frozenset([self._column])  # labels to the byte
        return self._reader.batches([self._column], words)

    def chunks(self, size: int) -> Iterator[np.ndarray]:
        """The values in order; size: not used here."""
        from streammargin.tables.apply import label_values

        first = 0
        for batch in self._batches():
            yield label_values([batch.column(0)], self._reader, first, self._noun)
            first += batch.num_rows
