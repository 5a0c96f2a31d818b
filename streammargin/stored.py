"""Open HDF5 files, and refuse datasets with values that are stored in other files, or nowhere.

HDF5 silently uses fill values for a missing source of a virtual dataset, and overflows the stack on one that is its own
source. It leaves memory as it was for values that were never written, if no fill value stands for them.
"""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Callable, Mapping
from typing import Any

import h5py
import numpy as np

from streammargin.errors import DataError, InputMissingError, ReadWriteError
from streammargin.files import check_input, short_reason


def open_hdf5(path: str, hint: str = "copy or convert it again", **how: Any) -> h5py.File:
    """Open an HDF5 file for reading; how: options of h5py.

    Raises DataError, InputMissingError if it may not be read, and ReadWriteError if it is open for writing.
    """
    try:
        return h5py.File(path, "r", **how)
    except (PermissionError, FileNotFoundError) as error:
        raise InputMissingError(f"{path} cannot be read ({short_reason(error)})") from error
    except (OSError, RuntimeError, KeyError, ValueError) as error:
        if "unable to lock" in str(error):
            raise ReadWriteError(f"{path} is being written by another program; wait until it is closed") from error
        if "already open for write" in str(error):  # flags that a writer of the latest format sets, and clears
            raise ReadWriteError(
                f"{path} is open in a program that writes it, or that crashed; close it there, or if it crashed repair "
                f"the file with: h5clear -s {path}"
            ) from error
        what = "is truncated" if "truncated" in str(error) else "cannot be opened as HDF5"
        raise DataError(f"{path} {what} ({short_reason(error)}); {hint}") from error


class Categories:
    """A column of categories of anndata: the number of each row, and the text or number that it stands for.

    lacking: the error for a wanted row without one.
    """

    def __init__(self, lacking: str, codes: Any, categories: Any, wanted: np.ndarray | None) -> None:
        self.lacking, self.codes = lacking, codes
        check_stored_values(codes)
        check_stored_values(categories)
        self.categories = np.asarray(_texts(categories))
        self.shape, self.dtype = codes.shape, self.categories.dtype
        self.wanted = wanted

    def __getitem__(self, rows: slice) -> np.ndarray:
        codes = self.codes[rows]
        missing = codes < 0 if self.wanted is None else (codes < 0) & self.wanted[rows]
        if missing.any():
            raise DataError(f"{self.lacking}; drop it")
        return self.categories[codes] if len(self.categories) else np.zeros(len(codes), self.dtype)


class Nullable:
    """A column of anndata whose values may be missing: values, and a mask that is true for missing ones.

    lacking: the error for a wanted row without a value.
    """

    def __init__(self, lacking: str, group: h5py.Group, wanted: np.ndarray | None) -> None:
        values, self.mask, self.lacking, self.wanted = group["values"], group["mask"], lacking, wanted
        check_stored_values(values)
        check_stored_values(self.mask)
        self.shape, self.dtype = values.shape, values.dtype
        self.values = values.asstr() if h5py.check_string_dtype(values.dtype) else values

    def __getitem__(self, rows: slice) -> np.ndarray:
        missing = self.mask[rows].astype(bool)
        if (missing if self.wanted is None else missing & self.wanted[rows]).any():
            raise DataError(f"{self.lacking}; drop it")
        return np.asarray(self.values[rows])


def column_in(home: h5py.Group, name: str, wanted: np.ndarray | None = None) -> Any:
    """A column beside the rows, or of anndata's obs, by its name: a dataset, Categories or Nullable; None for none.

    wanted: (n,) bool, the rows that must have a value; None: all.
    """
    for full in (name, f"obs/{name}"):
        node, lacking = home.get(full), f"{home.file.filename}: a row has no label in /{full}"
        if isinstance(node, h5py.Group) and {"codes", "categories"} <= set(node):
            return Categories(f"{lacking}/codes", node["codes"], _column(node["categories"], lacking), wanted)
        link = node.attrs.get("categories") if isinstance(node, h5py.Dataset) else None
        if isinstance(link, h5py.Reference):  # of anndata before 0.8
            return Categories(lacking, node, home.file[link], wanted)
        if node is not None:
            return _column(node, lacking, wanted)
    return None


def _column(node: Any, lacking: str, wanted: np.ndarray | None = None) -> Any:
    """A Nullable for a group of values and a mask, else the node itself."""
    nullable = isinstance(node, h5py.Group) and {"values", "mask"} <= set(node)
    return Nullable(lacking, node, wanted) if nullable else node


def column_named(home: h5py.Group, name: str, wanted: np.ndarray | None, opened: Callable[[str], Any]) -> Any:
    """A column NAME beside the rows, FILE:NAME, or an array FILE.npy; None for none. opened: opens a FILE."""
    column, (place, _, inside) = column_in(home, name, wanted), name.rpartition(":")
    if column is None and place:
        return column_in(opened(place), inside, wanted)
    if column is None and name.endswith(".npy"):
        check_input(name)
        return np.load(name, "r", allow_pickle=False)
    return column


def names_in(path: str, names: dict[str, Any]) -> dict[str, Any]:
    """The names in this file, by `names_of`: in a spool, which has chosen rows alone, they are the default ones."""
    usual = dict.fromkeys(("x", "y", "sample_weight", "mask"))
    return {**names, **usual} if path in names.get("spooled", ()) else names


def rows_with(home: h5py.Group, mask: str, opened: Callable[[str], Any] = open_hdf5) -> np.ndarray:
    """Which rows (n,) have VALUE in a column beside them, or in another file; mask: COLUMN=VALUE."""
    name, _, value = mask.partition("=")
    column = column_named(home, name, None, opened)
    absent: Any = None
    if isinstance(column, Nullable):
        absent, column = column.mask[:].astype(bool), np.asarray(column.values[:])
    if not isinstance(column, (Categories, h5py.Dataset, np.ndarray)):
        raise DataError(f"{home.file.filename} has no column {name}, which chose the rows of the training")
    same = equal(column.categories if isinstance(column, Categories) else np.asarray(_texts(column)), value)
    if isinstance(column, Categories):
        return np.isin(column.codes[:], np.flatnonzero(same))
    return same if absent is None else same & ~absent


def equal(known: np.ndarray, value: str) -> np.ndarray:
    """Which of these are this value (n,) bool; a number equals its text, as exactly as the array has it."""
    if known.dtype.kind not in "biuf":
        return np.asarray(_texts(known)).astype(object) == value
    value = {"true": "1", "false": "0"}.get(value.lower(), value)
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return known == kind(value)
    return np.zeros(len(known), bool)


def _texts(column: Any) -> Any:
    """The entries of a dataset, an array or a Nullable, text as str."""
    if isinstance(column, Nullable):
        return column[:]
    if isinstance(column, h5py.Dataset):
        return column.asstr()[:] if h5py.check_string_dtype(column.dtype) else column[:]
    return np.char.decode(column, "utf-8", "replace") if column.dtype.kind == "S" else column


def names_of(header: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The names of columns beside the rows: those given, or else in the header of a model.

    `table`    of the label in a table, if the rows were one.
    `given`    the list of those given.
    `spooled`  the files whose rows the mask has chosen already.
    """
    table = header.get("table") or {}
    own = {"tasks": "tasks"} if table and header.get("tasks") else {}  # as rows of a table are written
    label = next(iter(table.get("labels", [])), None)
    given = {name: value for name, value in given.items() if value is not None}
    return {**header["problem"]["names"], **own, "table": label, **given, "given": [*given.values()]}


def labels_in(home: h5py.Group, table: str | None) -> str:
    """The name of the labels: y, or if there is none that of the label in the table of the training."""
    return "y" if table is None or column_in(home, "y") is not None else table


def numbers_of(labels: np.ndarray, path: str, rows: np.ndarray) -> np.ndarray:
    """The labels of these rows of a file, which may be texts of numbers, as float64. DataError for others."""
    try:
        return labels.astype(np.float64)
    except (ValueError, TypeError):
        for row in range(len(labels) if len(labels) > 1 else 0):
            numbers_of(labels[[row]], path, rows[[row]])
        told = f"the label of row {rows[0]} is '{labels[0]!s:.60}', and not a number; name others with `y`"
        raise DataError(f"{path}: {told}") from None


def columns_in(file: Any, known: np.ndarray | range) -> list[int] | None:
    """Which column of the rows in a file each one of a model is, `features` for a missing one; None: the same ones.

    They are matched by name if both have names. file: a File of `verify.py`. known: the names of the model's
    columns, or their numbers. With the name `columns` the file may have others. Raises DataError for other
    columns, if the file has rows.
    """
    if file.keep is not None and not file.keep.any():
        return None
    home, features, x, of_files = file.home, file.features, file.names["x"] or "X", file.names.get("columns")
    given = range(features) if isinstance(known, range) else _names_in(home, x) or range(features)
    if len(given) != len(known) and (of_files is None or isinstance(given, range)):
        raise DataError(f"{home.file.filename} has {features} columns, not {len(known)}; name the model's data")
    if isinstance(given, range) or list(given) == list(known):
        return None
    place: dict[Any, int] = {name: column for column, name in enumerate(given)}
    lacking = [name for name in known if name not in place]
    if (lacking and of_files != "all") or len(place) < len(given):
        what = f"lacks the column {lacking[0]!s:.60}" if lacking else "has a name of columns twice"
        raise DataError(f"{home.file.filename} {what}, so it has other columns than the model; name the model's data")
    return [place.get(name, features) for name in known]


def taken(X: Any, columns: list[int] | None) -> Any:
    """The columns of rows, dense or sparse, by `columns_in`; a missing one is 0."""
    if columns is None:
        return X
    from scipy import sparse

    zeros = np.zeros((X.shape[0], 1), X.dtype)
    wider = sparse.hstack([X, sparse.csr_array(zeros)], "csr") if sparse.issparse(X) else np.hstack([X, zeros])
    return wider[:, columns]


def _names_in(home: h5py.Group, x: str) -> list[str] | None:
    """The names of the columns of the rows x: the index of anndata's table `var`, or `feature_names`; None for none."""
    parent, _, leaf = x.strip("/").rpartition("/")
    if leaf != "X" and parent != "layers":
        return None
    home = home if parent in ("", "layers") else home[parent]
    table = home.get("var")
    if table is None:
        found = home.get("feature_names")
    else:
        found = column_in(table, table.attrs.get("_index", "_index")) if isinstance(table, h5py.Group) else None
    if found is None:
        return None
    check_stored_values(found)
    values = np.asarray(found[:])
    return [each.decode() if isinstance(each, bytes) else str(each) for each in values.tolist()]


def check_rows(rows: Any) -> None:
    """DataError if values of dense rows, or of a csr_matrix, are stored nowhere."""
    sparse = isinstance(rows, h5py.Group)
    check_stored_values(rows["indptr"] if sparse else rows)
    for part in ("data", "indices") if sparse else ():
        check_stored_values(rows[part], rows["indptr"])


def check_stored_values(dataset: Any, indptr: h5py.Dataset | None = None) -> None:
    """DataError if values of a dataset are stored in other files, or nowhere.

    indptr: that of the sparse rows whose values or columns these are, to name the row.
    """

    def place(entry: int) -> str:
        return f"row {entry if indptr is None else np.searchsorted(indptr[1:], entry, side='right')}"

    if not isinstance(dataset, h5py.Dataset):
        return
    name = f"{dataset.file.filename}: {dataset.name.lstrip('/')}"
    check_here(dataset, name)
    check_written(dataset, name, place)


def check_here(dataset: h5py.Dataset, name: str) -> None:
    """DataError if a dataset has its values in other files: it is virtual, or they are raw."""
    if dataset.is_virtual or dataset.id.get_create_plist().get_external_count():
        raise elsewhere(name)


def elsewhere(name: str) -> DataError:
    """The error for a dataset with its values in other files."""
    return DataError(
        f"{name} has its values in other files; give these files themselves, several are shards of one data set, or "
        "copy the values into one dataset"
    )


def check_written(dataset: h5py.Dataset, name: str, place: Callable[[int], str] = "row {}".format) -> None:
    """DataError if values of a 1- or 2-dimensional dataset were never written, and no fill value stands for them.

    place: names an entry of axis 0 in the message.
    """
    entry = _first_unwritten(dataset)
    if entry is not None:
        raise DataError(
            f"{name} has no values at {place(entry)}: they were never written, and its fill_time is never; write the "
            "file again to its end"
        )


def _first_unwritten(dataset: h5py.Dataset) -> int | None:
    """The first entry of axis 0 with values that are neither written nor filled."""
    never = dataset.id.get_create_plist().get_fill_time() == h5py.h5d.FILL_TIME_NEVER
    if not never or not dataset.size:
        return None
    if dataset.chunks is None:
        return 0 if dataset.id.get_space_status() == h5py.h5d.SPACE_STATUS_NOT_ALLOCATED else None
    (high, wide), (rows, columns) = (*dataset.shape, 1)[:2], (*dataset.chunks, 1)[:2]
    lines, across = -(-high // rows), -(-wide // columns)
    if dataset.id.get_num_chunks() == lines * across:
        return None
    written = array("q")

    def note(info: Any) -> None:
        row, column = (*info.chunk_offset, 0)[:2]
        written.append(row // rows * across + column // columns)

    dataset.id.chunk_iter(note)
    numbers = np.sort(np.frombuffer(written, np.int64)) if written else np.empty(0, np.int64)
    # the first number that is not its own rank is behind a gap
    missing = int(np.argmax(np.append(numbers != np.arange(len(numbers)), True)))
    return missing // across * rows
