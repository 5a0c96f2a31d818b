"""Recognise HDF5 files, and open their dense or sparse rows."""

from __future__ import annotations

from typing import Any

import h5py

from streammargin.errors import DataError
from streammargin.packages import register_filters
from streammargin.sources.base import Source
from streammargin.sources.hdf5.base import HDF5Source
from streammargin.sources.hdf5.csr import CSRHDF5Source
from streammargin.sources.hdf5.dense import DenseHDF5Source
from streammargin.sources.hdf5.nodes import attribute, children, decoding, look_up
from streammargin.sources.hdf5.storage import has_link, opened

_SIGNATURE = b"\x89HDF\r\n\x1a\n"


def sniff(path: str, start: bytes) -> bool:
    """Whether this is an HDF5 file; a user block may precede the signature."""
    return start.startswith(_SIGNATURE) or h5py.is_hdf5(path)


def open_file(path: str, x: str | None, y: Any, sample_weight: Any) -> Source:
    """The rows called x (default X, or matrix, 10x's name) with their labels and weights."""
    register_filters()
    file = opened(path)
    try:
        with decoding(path):
            source = _open_rows(file, path, x, y, sample_weight)
            source.remember(open_file)
            return source
    except BaseException:
        file.close()
        raise


def encoding_of(group: Any) -> str:
    """The encoding that an HDF5 group declares: csr (the default), csc, or another word."""
    encoding = attribute(group, "encoding-type", "h5sparse_format")
    return "csr" if encoding is None else str(encoding).removesuffix("_matrix")


def _open_rows(file: h5py.File, path: str, x: str | None, y: Any, sample_weight: Any) -> HDF5Source:
    if x is None:
        x = "X" if has_link(file, "X") or not has_link(file, "matrix") else "matrix"
    node = look_up(file, x, path)
    if node is None:
        raise DataError(f"{path} has no dataset {x} of rows; it has {children(file)}; name the rows with `x=NAME`")
    if isinstance(node, h5py.Dataset):
        return DenseHDF5Source(file, path, x, y, sample_weight)
    if not isinstance(node, h5py.Group):
        raise DataError(f"{path}: {x} is a named type; rows must be a dataset or a csr_matrix group; use `x=NAME`")
    encoding = encoding_of(node)
    if encoding == "csc":
        raise DataError(
            f"{path}: {x} is a csc_matrix, which cannot be streamed by row; "
            f"convert it with: streammargin-data convert {path} OUT.h5"
        )
    if encoding != "csr":
        raise DataError(
            f"{path}: {x} is a group of encoding {encoding!r}; name a dataset or a csr_matrix with `x=NAME`"
        )
    return CSRHDF5Source(file, path, x, y, sample_weight)
