"""Column names in HDF5: anndata's table `var`, a dataset `feature_names`, or 10x's feature ids."""

from __future__ import annotations

import posixpath
from typing import Any

import h5py
import numpy as np

from streammargin.errors import DataError
from streammargin.sources.hdf5.labels import Column
from streammargin.sources.hdf5.nodes import attribute, decoding, look_up
from streammargin.sources.hdf5.reader import Field
from streammargin.sources.names import as_names

VAR = "var"  # anndata's table with one entry per column
LIST = "feature_names"  # a dataset beside X
LAYERS = "layers"  # anndata's group of other matrices with the same rows and columns as X
NAME_BYTES = 96  # memory of one name: the reference, the object, and the allocator's rounding
MOST_OF_TEXT = 4  # most bytes in memory per byte of UTF-8
_PIECE = 1 << 16


def write_names(file: h5py.Group, names: np.ndarray) -> None:
    """Write the column names (d,) of X as anndata's `var`."""
    group = file.create_group(VAR)
    group.attrs["encoding-type"], group.attrs["encoding-version"] = "dataframe", "0.2.0"
    group.attrs["_index"], group.attrs["column-order"] = "_index", np.empty(0)
    index = group.create_dataset("_index", data=np.asarray(names, object), dtype=h5py.string_dtype())
    index.attrs["encoding-type"], index.attrs["encoding-version"] = "string-array", "0.2.0"


def names_column(file: h5py.File, x: str, path: str) -> Column | None:
    """The column names of the rows x, or None if the file has none."""
    with decoding(path):
        for place in _places(file, x, path):
            files: list[str] = []
            node = look_up(file, place, path, files)
            if posixpath.basename(place) == VAR:
                place, node = _index(file, node, place, path, files)
            if node is not None:
                return Column(node, f"{path}: {place}", files)
    return None


def names_bytes(column: Column | None) -> int:
    """Most bytes that the names and reading them need, computed without reading them."""
    if column is None:
        return 0
    with decoding(column.name):
        return NAME_BYTES * column.length + MOST_OF_TEXT * column.text_bytes() + column.held_bytes


def read_names(column: Column, features: int) -> np.ndarray:
    """The names (d,) as objects. Raises DataError if they are not d strings."""
    if column.length != features:
        raise DataError(
            f"{column.name} has {column.length} names but there are {features} columns; they must agree, "
            "so write the file again"
        )
    parts = []
    for part in column.chunks(_PIECE):
        whole = part.dtype.kind in "iu"  # some writers number the columns instead of naming them
        parts.append(as_names((part.astype(str) if whole else part).tolist(), column.name))
    return np.concatenate(parts)


def _places(file: h5py.File, x: str, path: str) -> list[str]:
    """Paths where the names may be, in order; empty for matrices with other columns, such as those of obsm."""
    home, _, leaf = x.strip("/").rpartition("/")
    if leaf == "X" or home == LAYERS:
        home = "" if home == LAYERS else home
        return [posixpath.join(home, VAR), posixpath.join(home, LIST)]
    inside = isinstance(look_up(file, x, path), h5py.Group)  # 10x, new and old
    return [f"{x}/features/id", f"{x}/genes"] if inside else []


def _index(file: h5py.File, table: Any, place: str, path: str, files: list[str]) -> tuple[str, Any]:
    """The index column of anndata's table; None if `table` is not such a table."""
    if isinstance(table, h5py.Group):
        name = attribute(table, "_index")
        place = f"{place}/{name}"
        node = None if name is None else look_up(file, place, path, files)
        if node is None and name is not None:
            raise DataError(f"{path} has no {place}, which should name its columns; write it again with anndata")
        return place, node
    fields = (table.dtype.fields or {}) if isinstance(table, h5py.Dataset) else {}  # anndata before 0.7
    # strings of variable length in a table cannot be read
    name = next((name for name in ("index", "_index") if name in fields and not fields[name][0].hasobject), None)
    return f"{place}/{name}", None if name is None else Field(table, name)
