"""Names of columns in HDF5: anndata's table `var`, a list of texts `feature_names`, or 10x's ids of features."""

from __future__ import annotations

import posixpath
from typing import Any

import h5py
import numpy as np

from streammargin.errors import DataError
from streammargin.sources.hdf5.labels import Column
from streammargin.sources.hdf5.nodes import attribute, decoding, look_up
from streammargin.sources.hdf5.table import Field
from streammargin.sources.names import as_names

VAR = "var"  # anndata's table of what is known of each column
LIST = "feature_names"  # a dataset of them beside X
LAYERS = "layers"  # other values of the same cells and genes
NAME_BYTES = 96  # of one name in memory: the reference, the object, and what the allocator rounds up
MOST_OF_TEXT = 4  # bytes in memory for one in UTF-8, at most
_PIECE = 1 << 16


def write_names(file: h5py.Group, names: np.ndarray) -> None:
    """The names (d,) of the columns of X, as anndata's `var` of a file."""
    group = file.create_group(VAR)
    group.attrs["encoding-type"], group.attrs["encoding-version"] = "dataframe", "0.2.0"
    group.attrs["_index"], group.attrs["column-order"] = "_index", np.empty(0)
    index = group.create_dataset("_index", data=np.asarray(names, object), dtype=h5py.string_dtype())
    index.attrs["encoding-type"], index.attrs["encoding-version"] = "string-array", "0.2.0"


def names_column(file: h5py.File, x: str, path: str) -> Column | None:
    """The names of the columns of the rows called x, or None where the file has none."""
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
    """Bytes that the names take at most, and reading them; none of them is read."""
    if column is None:
        return 0
    with decoding(column.name):
        return NAME_BYTES * column.length + MOST_OF_TEXT * column.text_bytes() + column.held_bytes


def read_names(column: Column, features: int) -> np.ndarray:
    """The names (d,) as objects. Raises DataError where they are not d texts."""
    if column.length != features:
        raise DataError(
            f"{column.name} has {column.length} names but there are {features} columns; they must agree, "
            "so write the file again"
        )
    parts = []
    for part in column.chunks(_PIECE):
        whole = part.dtype.kind in "iu"  # anndata's names are texts, others number them
        parts.append(as_names((part.astype(str) if whole else part).tolist(), column.name))
    return np.concatenate(parts)


def _places(file: h5py.File, x: str, path: str) -> list[str]:
    """Where they may be, the likeliest first; nowhere for tables whose columns are others, as those of obsm."""
    home, _, leaf = x.strip("/").rpartition("/")
    if leaf == "X" or home == LAYERS:
        home = "" if home == LAYERS else home
        return [posixpath.join(home, VAR), posixpath.join(home, LIST)]
    inside = isinstance(look_up(file, x, path), h5py.Group)  # 10x, of today and as it was
    return [f"{x}/features/id", f"{x}/genes"] if inside else []


def _index(file: h5py.File, table: Any, place: str, path: str, files: list[str]) -> tuple[str, Any]:
    """The column of anndata's table that names its rows; None where it is another thing that has this name."""
    if isinstance(table, h5py.Group):
        name = attribute(table, "_index")
        place = f"{place}/{name}"
        node = None if name is None else look_up(file, place, path, files)
        if node is None and name is not None:
            raise DataError(f"{path} has no {place}, by which its columns are named; write it again with anndata")
        return place, node
    fields = (table.dtype.fields or {}) if isinstance(table, h5py.Dataset) else {}  # anndata before 0.7
    # of a table in one dataset, texts of variable length cannot be read
    name = next((name for name in ("index", "_index") if name in fields and not fields[name][0].hasobject), None)
    return f"{place}/{name}", None if name is None else Field(table, name)
