"""The rows of files of numbers: each format has a function that returns `Ordered` rows, and an entry of FORMATS.

Such files are read front to back, and once: by `predict`, or to make a file of them that can be read at random.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streammargin.errors import DataError, UsageError
from streammargin.files import check_apart, check_input
from streammargin.sources.arrays import as_array, as_weights
from streammargin.sources.batch import Batch
from streammargin.sources.labels import TASKS, LabelCursor
from streammargin.sources.names import Columns

GROUPS = ("groups", "by")  # (noun, option)
MEMORY = 256 << 20  # bytes for sorting, if none are given


@dataclass(frozen=True)
class How:
    """How such a file is read.

    `near`              the output. Temporary files go next to it, and no input may be it.
    `opened`            closes what stays open while batches are read.
    `x`, `y`, `weight`  names of arrays in an archive. y and weight may be FILE.npy, FILE:NAME and columns.
    `memory`            bytes for sorting.
    `features`          columns, None for as many as there are.
    `zero_based`        whether columns of svmlight begin at 0.
    `mask`              COLUMN=VALUE, the rows of zarr that are taken.
    `groups`            a column of zarr or an archive with groups of rows, which is written as tasks.
    `columns`           those that are taken, COMMON, ALL or names.
    """

    near: str
    opened: contextlib.ExitStack = field(compare=False, repr=False)
    x: str | None = None
    y: Any = None
    weight: Any = None
    memory: int = MEMORY
    features: int | None = None
    zero_based: bool = False
    mask: str | None = None
    columns: Columns = None
    groups: str | None = None


Take = Callable[[int], np.ndarray]  # so many of the next labels or weights
# (name or None, LABELS or WEIGHTS) -> those of the file of the rows; None if it has none of that name
Inside = Callable[[str | None, tuple[str, str]], Take | None]


def nowhere(given: str | None, what: tuple[str, str]) -> None:
    """None, for a file that has nothing beside its rows."""


def beside(found: Iterator[Batch], path: str, how: How, inside: Inside = nowhere, home: Any = None) -> Iterator[Batch]:
    """The batches with the labels and weights that `how` names: of the file, of HDF5 `home`, or of other files."""
    from streammargin.sources.hdf5.columns import LABELS, WEIGHTS

    grouped = [] if how.groups is None else [(how.groups, GROUPS)]
    for given, what in ((how.y, LABELS), (how.weight, WEIGHTS), *grouped):
        take = inside(given, what) if given is None or isinstance(given, str) else None
        if take is not None:
            found = with_column(found, what[0], take, path)
        elif given is not None:
            found = _of_others(found, given, {} if home is None else home, path, how, what)
    return found


def with_column(found: Iterator[Batch], part: str, take: Take, name: str) -> Iterator[Batch]:
    """The batches with these labels, weights or tasks; name: of what has them, for messages."""
    for batch in found:
        values = take(batch.rows)
        values = as_weights(values, batch.rows, name) if part == "weights" else values
        yield batch._replace(**{TASKS if part == "groups" else part: values})


def _of_others(
    found: Iterator[Batch], given: Any, home: Any, path: str, how: How, what: tuple[str, str]
) -> Iterator[Batch]:  # fmt: skip
    """The batches with the labels or weights of a column, or of this name in another file."""
    from streammargin.sources.hdf5.columns import open_column

    noun = what[0]
    column, other = open_column(given, home, path, what) if isinstance(given, str) else (given, None)
    if other is not None:
        how.opened.callback(other.close)
    check_apart({"the output": how.near}, column.files)
    cursor, seen = LabelCursor(column.chunks(1 << 16)), 0

    def take(count: int) -> np.ndarray:
        nonlocal seen
        seen += count
        if seen > column.length:
            raise DataError(f"{column.name} has {column.length} {noun}, fewer than {path} has rows")
        return cursor.take(count)

    yield from with_column(found, noun, take, column.name)
    if seen != column.length:
        raise DataError(f"{column.name} has {column.length} {noun} but {path} has {seen} rows")


def tasks_in_memory(given: Any, name: str, mask: str | None) -> np.ndarray:
    """Tasks (n,) of an array or a FILE.npy. Raises DataError, InputMissingError, UsageError."""
    if mask is not None:
        raise UsageError("`mask` chooses no tasks of stores of zarr; write the rows to a file of HDF5")
    if not isinstance(given, str):
        return as_array(given, "tasks")
    if not given.endswith(".npy"):
        raise UsageError(f"{name} have no columns beside their numbers; give `tasks` as a FILE.npy")
    check_input(given)
    try:
        return np.load(given, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise DataError(f"{given} is not an array of numbers or text; write it with numpy.save") from error
