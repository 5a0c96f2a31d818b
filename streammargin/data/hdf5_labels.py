"""Labels and weights beside the rows: datasets of an HDF5 file, columns of anndata's obs, or .npy files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import h5py
import numpy as np

from streammargin.errors import DataError, InputMissingError


class Column:
    """A column of n values, read in pieces: a dataset, or a categorical group of anndata (codes, categories)."""

    def __init__(self, node: Any, name: str) -> None:
        self.name = name
        self.categories: np.ndarray | None = None
        if isinstance(node, h5py.Group):
            if "codes" not in node or "categories" not in node:
                raise DataError(f"{name} is a group without codes and categories; name a dataset with --y NAME")
            categories = node["categories"]
            self.categories = categories.asstr()[:] if _is_text(categories) else categories[:]
            node = node["codes"]
        if node.ndim == 2 and node.shape[1] == 1:
            raise DataError(f"{name} has shape {node.shape}; labels must be one-dimensional")
        if node.ndim != 1:
            raise DataError(f"{name} has {node.ndim} dimensions; labels must be one-dimensional")
        self.data = node
        self.length = int(node.shape[0])

    def chunks(self, size: int) -> Iterator[np.ndarray]:
        """The values in order, at most `size` at a time; text as str."""
        text = isinstance(self.data, h5py.Dataset) and _is_text(self.data)
        for start in range(0, self.length, size):
            try:
                part = self.data.asstr()[start : start + size] if text else self.data[start : start + size]
            except OSError as error:
                raise DataError(f"{self.name}: cannot read labels ({error}); the file may be damaged") from error
            if self.categories is not None:
                if np.any(part < 0):
                    row = start + int(np.flatnonzero(part < 0)[0])
                    raise DataError(f"{self.name}: row {row} has no category; drop the row or give it a label")
                part = self.categories[part]
            yield np.asarray(part)


def _is_text(dataset: h5py.Dataset) -> bool:
    return h5py.check_string_dtype(dataset.dtype) is not None


def open_column(name: str, home: h5py.File, path: str) -> tuple[Column, Any]:
    """The column called NAME in the file of the rows, or FILE:NAME, or FILE.npy; and what to close after it.

    Raises InputMissingError for a missing file, DataError for a missing dataset.
    """
    if name in home:
        return Column(home[name], f"{path}: {name}"), None
    if name.endswith(".npy"):
        if not os.path.exists(name):
            raise InputMissingError(f"{name}: no such file")
        try:
            return Column(np.load(name, mmap_mode="r", allow_pickle=False), name), None
        except ValueError as error:
            raise DataError(f"{name} is not an array of labels ({error})") from error
    file_name, colon, inner = name.rpartition(":")
    if colon:
        if not os.path.exists(file_name):
            raise InputMissingError(f"{file_name}: no such file (labels are named NAME or FILE:NAME)")
        try:
            other = h5py.File(file_name, "r")
        except OSError as error:
            raise DataError(f"{file_name} is not an HDF5 file ({error})") from error
        if inner not in other:
            names = ", ".join(sorted(other)) or "none"
            other.close()
            raise DataError(f"{file_name} has no dataset {inner}; it has {names}")
        return Column(other[inner], f"{file_name}: {inner}"), other
    names = ", ".join(sorted(home)) or "none"
    raise DataError(f"{path} has no dataset {name} of labels; it has {names}; name one with --y NAME or --y FILE:NAME")
