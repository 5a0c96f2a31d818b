"""The partitions of a collection of dask, in order: each becomes a frame, batches of rows, or a list of these.

Parquet has partitions, too: some row groups, or a file of a folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import dask
import numpy as np
from dask.delayed import Delayed

from streammargin.errors import UsageError
from streammargin.sources.open import is_path, matching
from streammargin.tables.formats import is_parquet
from streammargin.tables.header import names_of
from streammargin.tables.readers import arrow
from streammargin.tables.readers.base import USUAL, Reader
from streammargin.tables.readers.folder import keyed, of_folder

ROW_GROUP_BYTES = 64 << 20  # bytes of row groups, as stored without compression, that become a piece


class Partitions(NamedTuple):
    """name: of the collection; parts: what is computed, in order; columns: names of a DataFrame's.

    batches: whether they are known to have no columns with names.

    beside: names of the columns that labels, weights and tasks in Series of their own become, "" for none.
    """

    name: str
    parts: list[Any]
    columns: list[str] | None = None
    beside: tuple[str, ...] = ("", "", "")
    batches: bool = False


def is_collection(data: object) -> bool:
    """Whether these are rows of dask: a DataFrame, an Array, a Bag, Delayed objects, or a pair with one of them."""
    if isinstance(data, tuple):
        return bool(data) and is_collection(data[0])
    if isinstance(data, list):
        return bool(data) and all(map(dask.is_dask_collection, data))
    return dask.is_dask_collection(data)


def files(data: object) -> object:
    """Paths that mean the same in each process; patterns are replaced by the files that they match, in order."""
    parts: Any = data if isinstance(data, (list, tuple)) else [data]
    if not (parts and all(map(is_path, parts))):
        raise UsageError(
            "workers read files by themselves; give a path, a list of paths, a pattern like part-*.h5, or a collection "
            "of dask"
        )
    found = [path for part in parts for path in matching(os.path.abspath(part))]
    return found[0] if is_path(data) and len(found) == 1 else found


class RowGroups(NamedTuple):
    """Some row groups of a Parquet file; chosen: which, or which file of a folder."""

    path: str
    chosen: slice = arrow.ALL_GROUPS

    def reader(self) -> Reader:
        """The reader of these. Raises DataError, InputMissingError."""
        return (of_folder if os.path.isdir(self.path) else arrow.of_parquet)(self.path, USUAL, self.chosen)


def _of_parquet(name: str, paths: list[Any]) -> Partitions:
    """Row groups of at least ROW_GROUP_BYTES that follow each other, and each file of a folder. Raises UsageError."""
    if len(paths) > 1 and (base := keyed(paths)):
        raise UsageError(f"folders called key=value are columns of all files below {base}; give this folder alone")
    parts = [dask.delayed(part, traverse=False) for path in paths for part in _groups_of(path)]
    return Partitions(name, parts, list(RowGroups(paths[0]).reader().columns))


def _groups_of(path: str) -> list[RowGroups]:
    from streammargin.arrow import parquet

    if os.path.isdir(path):
        return [RowGroups(path, slice(k, k + 1)) for k in range(len(of_folder(path).files()))]
    with arrow.damage(path), parquet.ParquetFile(path) as file:
        ends, size = [0], 0
        for group in range(file.num_row_groups):
            size += file.metadata.row_group(group).total_byte_size
            if size >= ROW_GROUP_BYTES or group == file.num_row_groups - 1:
                ends, size = [*ends, group + 1], 0
    return [RowGroups(path, slice(*pair)) for pair in pairwise(ends)]


def partitions(data: Any, y: Any, weight: Any, tasks: Any, held_out: bool) -> Partitions:
    """The partitions of such rows, or of Parquet. y, weight, tasks: those of the rows, if these are no names.

    Raises UsageError if they do not fit the rows.
    """
    which = "the held-out " if held_out else "the "
    if is_parquet(data):
        if any(each is not None for each in (y, weight, tasks)):
            raise UsageError(
                "labels, weights and tasks of Parquet are columns; name them with `y`, `sample_weight` and `tasks`"
            )
        paths = data if isinstance(data, list) else [data]
        kind = "list of files" if len(paths) > 1 else "folder" if os.path.isdir(paths[0]) else "file"
        return _of_parquet(f"{which}{kind}", paths)
    if isinstance(data, tuple):
        if len(data) != 2 or y is not None:
            raise UsageError("give rows of dask as X or (X, y), labels once, and weights as `sample_weight`")
        data, y = data
    data = [data] if isinstance(data, Delayed) else data  # which has any attribute
    if isinstance(data, list) and not all(isinstance(one, Delayed) for one in data):
        raise UsageError("a list holds Delayed frames or batches; Arrays and frames go with y in a tuple, (X, y)")
    if hasattr(data, "map_blocks"):
        return _of_array(f"{which}Array", data, y, weight, tasks)
    if hasattr(data, "columns"):
        return _of_frame(f"{which}DataFrame", data, y, weight, tasks)
    if any(each is not None for each in (y, weight, tasks)):
        raise UsageError("give labels in the batches: (X, y), or (X, y, sample_weight); tasks are a column of frames")
    if isinstance(data, list):
        return Partitions(f"{which}batches", data)
    return Partitions(f"{which}Bag", list(data.to_delayed()))


class WithTasks(NamedTuple):
    """A batch, and the tasks of its rows."""

    batch: tuple[Any, ...]
    tasks: Any


def _of_array(name: str, X: Any, y: Any, weight: Any, tasks: Any) -> Partitions:
    """Chunks of rows, with the labels, weights and tasks of these rows."""
    if X.ndim != 2:
        raise UsageError(f"{name} has {X.ndim} dimensions; rows need two")
    if y is None:
        raise UsageError(f"{name} has no labels; give the pair (X, y)")
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    columns = [_beside(X, each, what) for each, what in ((y, "y"), (weight, "sample_weight")) if each is not None]
    batches = [dask.delayed(batch, pure=False) for batch in zip(X.to_delayed().ravel(), *columns, strict=True)]
    if tasks is not None:
        join: Callable[..., Any] = dask.delayed(WithTasks, pure=False)
        batches = [join(*pair) for pair in zip(batches, _beside(X, tasks, "tasks"), strict=True)]
    return Partitions(name, batches, batches=True)


def _beside(X: Any, column: Any, what: str) -> list[Any]:
    """The labels or weights of each chunk of rows. Raises UsageError."""
    import dask.array as da

    known = not any(np.isnan(X.chunks[0]))
    if not dask.is_dask_collection(column):
        shape, rows = np.shape(column), len(X) if known else "an unknown number of"
        if shape[:1] != (rows,):
            raise UsageError(f"`{what}` has shape {shape} but X has {rows} rows; give an Array with chunks like X")
        column = da.from_array(np.asarray(column), chunks=(X.chunks[0], *shape[1:]))
    if hasattr(column, "to_dask_array"):
        column = column.to_dask_array()
    if column.ndim > 1 and column.numblocks[1] > 1:
        column = column.rechunk({1: -1})
    if known and not any(np.isnan(column.chunks[0])):
        if len(column) != len(X):
            raise UsageError(f"`{what}` has {len(column)} entries for {len(X)} rows; they must be as many")
        column = column.rechunk({0: X.chunks[0]})
    if column.numblocks[0] != X.numblocks[0]:
        raise UsageError(
            f"`{what}` has {column.numblocks[0]} chunks for {X.numblocks[0]} chunks of rows, and their sizes are not "
            "known; give both the same partitions"
        )
    return list(column.to_delayed().ravel())


def _of_frame(name: str, frame: Any, *beside: Any) -> Partitions:
    """Partitions of a DataFrame, with Series of labels, weights and tasks as further columns."""
    columns, taken, series = names_of(frame.columns), [], []
    for each, what in zip(beside, ("y", "sample_weight", "tasks"), strict=True):
        if each is None:
            taken.append("")
            continue
        if not hasattr(each, "npartitions") or each.npartitions != frame.npartitions:
            raise UsageError(f"`{what}` must be a column of {name}, or a Series with the same partitions")
        wanted = str(getattr(each, "name", None) or what)
        while wanted in [*columns, *taken]:
            wanted += "_"
        taken.append(wanted)
        series.append(each.to_delayed())
    parts = frame.to_delayed()
    if series:
        join: Callable[..., Any] = dask.delayed(_joined, pure=False)
        parts = [join(list(filter(None, taken)), *each) for each in zip(parts, *series, strict=True)]
    return Partitions(name, list(parts), columns + list(filter(None, taken)), tuple(taken))


def _joined(names: list[str], frame: Any, *series: Any) -> Any:
    """A frame with these columns, row by row."""
    if any(len(one) != len(frame) for one in series):
        raise UsageError(
            f"`y`, `sample_weight` and `tasks` need the partitions of the rows, but one of {len(frame)} rows has "
            "another size there; repartition them"
        )
    return frame.assign(**{name: np.asarray(one) for name, one in zip(names, series, strict=True)})
