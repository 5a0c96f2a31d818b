"""The interface of files of rows of numbers: each format is a module with the members of `Format`.

Such files are read front to back, and once: by `predict`, or to make a file of them that can be read at random.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from streammargin.errors import DataError, UsageError
from streammargin.files import check_apart, check_input
from streammargin.sources.arrays import as_array, as_weights
from streammargin.sources.batch import Batch
from streammargin.sources.label_column import LabelColumn
from streammargin.sources.labels import LabelCursor
from streammargin.tables.textfile import Text

MEMORY = 256 << 20  # bytes for sorting, if none are given


@dataclass(frozen=True)
class How:
    """How such a file is read.

    near: the output; temporary files go next to it, and no input may be it.
    opened: closes what stays open while batches are read.
    x, y, weight: names of arrays in an archive; y and weight may be FILE.npy and FILE:NAME too.
    memory: bytes for sorting.
    features: columns, None for as many as there are.
    zero_based: of svmlight.
    """

    near: str
    opened: contextlib.ExitStack = field(compare=False, repr=False)
    x: str | None = None
    y: str | None = None
    weight: str | None = None
    memory: int = MEMORY
    features: int | None = None
    zero_based: bool = False


@dataclass(frozen=True)
class Matrix:
    """The batches of a file, and what is known before reading.

    features: None if only known at the end. names (d,): of the columns, if the file has them. ids: names of the rows,
    in order; None if there are none. count: of the rows, if a header says it; of the first one of several files.
    """

    batches: Iterator[Batch]
    sparse: bool
    features: int | None
    dtype: Any
    names: np.ndarray | None = None
    label: LabelColumn | None = None
    ids: Iterator[str] | None = None
    count: int | None = None


class Format(Protocol):
    """The members of a format's module. TEXT: whether it may be compressed or a pipe."""

    TEXT: bool

    def read(self, text: Text, how: How) -> Matrix:
        """The rows of the input. Raises DataError, UsageError."""


def beside(found: Iterator[Batch], path: str, how: How, home: Any = None) -> Iterator[Batch]:
    """The batches with the labels and weights that `how` names: of other files, or datasets of `home`."""
    from streammargin.sources.hdf5.labels import LABELS, WEIGHTS

    for name, what in ((how.y, LABELS), (how.weight, WEIGHTS)):
        if name is not None:
            found = _column(found, name, {} if home is None else home, path, how, what)
    return found


def _column(
    found: Iterator[Batch], name: str, home: Any, path: str, how: How, what: tuple[str, str]
) -> Iterator[Batch]:
    """The batches with the labels or weights of this name."""
    from streammargin.sources.hdf5.labels import open_column

    noun = what[0]
    column, other = open_column(name, home, path, what)
    if other is not None:
        how.opened.callback(other.close)
    check_apart({"the output": how.near}, column.files)
    cursor = LabelCursor(column.chunks(1 << 16))
    seen = 0
    for batch in found:
        seen += batch.rows
        if seen > column.length:
            raise DataError(f"{column.name} has {column.length} {noun}, fewer than {path} has rows")
        values = cursor.take(batch.rows)
        yield batch._replace(**{noun: values if noun == "labels" else as_weights(values, batch.rows, column.name)})
    if seen != column.length:
        raise DataError(f"{column.name} has {column.length} {noun} but {path} has {seen} rows")


def tasks_in_memory(given: Any, name: str) -> np.ndarray:
    """Tasks (n,) of an array or a FILE.npy. Raises DataError, InputMissingError, UsageError."""
    if not isinstance(given, str):
        return as_array(given, "tasks")
    if not given.endswith(".npy"):
        raise UsageError(f"{name} have no columns beside their numbers; give `tasks` as a FILE.npy")
    check_input(given)
    try:
        return np.load(given, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise DataError(f"{given} is not an array of numbers or text; write it with numpy.save") from error
