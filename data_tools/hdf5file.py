"""HDF5 in any layout that h5py can read: what can be streamed already, and matrices that are stored by columns."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

import h5py
import numpy as np

from streammargin.data_tools.rows import batches, label_of
from streammargin.driver.plan import column_names
from streammargin.errors import DataError, StreamMarginError
from streammargin.files import check_apart
from streammargin.sources.arrays import value_dtype
from streammargin.sources.batch import Batch
from streammargin.sources.hdf5.file import encoding_of
from streammargin.sources.hdf5.names import names_bytes, names_column, read_names
from streammargin.sources.hdf5.nodes import attribute, decoding, look_up
from streammargin.sources.hdf5.reader import RowReader, stored_dtype
from streammargin.sources.hdf5.storage import has_link, opened
from streammargin.sources.open import open_source
from streammargin.tables.matrices.base import How, Matrix, beside
from streammargin.tables.matrices.compressed import by_columns, check_kind, check_lengths, check_shape
from streammargin.tables.matrices.spill import buckets_for


def read(path: str, how: How) -> Matrix:
    """The rows as a source reads them, or those of a matrix by columns, sorted."""
    x, y = how.x, how.y
    by_column = False
    with contextlib.suppress(StreamMarginError), decoding(path), opened(path) as probe:  # open_source says it
        group = look_up(probe, x or "X", path)
        by_column = isinstance(group, h5py.Group) and encoding_of(group) == "csc"
    if by_column:
        file = how.opened.enter_context(opened(path))
        column = names_column(file, x or "X", path)
        held = names_bytes(column)
        buckets_for(0, how.memory, held=held)  # refuses names that do not fit
        stored, width, found = _csc_group(file, x or "X", path, how, held)
        labels = y or ("y" if has_link(file, "y") else None)
        weights = "sample_weight" if has_link(file, "sample_weight") else None
        found = beside(found, path, replace(how, y=labels, weight=weights), file)
        names = None
        if column is not None:
            check_apart({"the output": how.near}, column.files)
            names = read_names(column, width)
        return Matrix(found, True, width, value_dtype(stored, f"{path}: X"), names)
    source = how.opened.enter_context(open_source(path, x=x, y=y))
    names = column_names(source, how.memory)
    found = batches(source, how.memory, source.names_bytes())
    return Matrix(found, source.sparse, source.features, source.dtype, names, label_of(source))


def _csc_group(file: h5py.File, x: str, path: str, how: How, held: int) -> tuple[np.dtype, int, Iterator[Batch]]:
    """A csc_matrix group of an HDF5 file as batches of rows; held: bytes of the memory that names take."""
    files: list[str] = []  # that links lead to
    group = look_up(file, x, path, files)
    with decoding(path):
        shape = attribute(group, "shape", "h5sparse_shape")
        rows, columns = check_shape(shape, f"{path}: {group.name}")
        parts = {name: look_up(group, name, path, files) for name in ("data", "indices", "indptr")}
        check_apart({"the output": how.near}, files)
        for name, part in parts.items():
            if not isinstance(part, h5py.Dataset) or part.ndim != 1:
                raise DataError(f"{path}: {group.name} has no 1-dimensional dataset {name}; write the file again")
            check_kind(name, stored_dtype(part, f"{path}: {name}"), path)
        lengths = {name: int(part.shape[0]) for name, part in parts.items()}
        check_lengths(lengths, columns, path)
    readers = {
        name: RowReader(part, part.dtype, path, keep=True, place="entry {}".format) for name, part in parts.items()
    }
    for reader in readers.values():
        how.opened.callback(reader.close)
    place = {"data": 0, "indices": 0, "indptr": 0}

    def take(name: str, count: int) -> np.ndarray:
        start = place[name]
        place[name] += count
        if place[name] > lengths[name]:
            raise DataError(f"{path}: {name} ends early; write the file again")
        found = np.empty(count, parts[name].dtype)
        readers[name].read(start, place[name], found)
        return found

    found = by_columns(take, lengths["data"], rows, columns, path, how.memory, how.near, held)
    return parts["data"].dtype, columns, found
