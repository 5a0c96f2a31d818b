"""From whatever the user names to a Source."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

from streammargin.data.base import Source
from streammargin.errors import DataError, InputMissingError, ReadWriteError, UsageError
from streammargin.files import check_input, short_reason

_MAGIC = b"\x89HDF\r\n\x1a\n"
_CONVERT = "convert it with: streammargin-data convert {} OUT.h5"


def open_source(data: Any, *, x: str | None = None, y: Any = None, sample_weight: Any = None) -> Source:
    """A Source of a path, a list of paths (shards), the pair (X, y), an array X, or a Source itself.

    x, y, sample_weight: names of datasets inside a file (y also FILE:NAME), or arrays y (n,) and
    sample_weight (n,). Raises InputMissingError, DataError or UsageError.
    """
    if isinstance(data, Source):
        given = [name for name, value in (("x", x), ("y", y), ("sample_weight", sample_weight)) if value is not None]
        if given:
            raise UsageError(f"a Source has its own {given[0]}; name it in open_source instead")
        return data
    if isinstance(data, (str, os.PathLike)):
        return _open_file(os.fspath(data), x, y, sample_weight)
    if isinstance(data, Sequence) and data and all(isinstance(part, (str, os.PathLike)) for part in data):
        return _open_shards([os.fspath(part) for part in data], x, y, sample_weight)
    from streammargin.data.arrays import ArraySource, check_pair

    if isinstance(data, tuple):
        X, labels = check_pair(data)
        return ArraySource(X, labels if y is None else y, sample_weight)
    if hasattr(data, "shape"):
        return ArraySource(data, y, sample_weight)
    raise UsageError(f"data must be a path, a list of paths, (X, y) or a Source, not {type(data).__name__}")


@contextlib.contextmanager
def opened(data: Any, **names: Any) -> Iterator[Source]:
    """`open_source`, closed afterwards unless the caller opened it."""
    source = open_source(data, **names)
    try:
        yield source
    finally:
        if source is not data:
            source.close()


def _open_shards(paths: list[str], x: str | None, y: Any, sample_weight: Any) -> Source:
    for name, value in (("y", y), ("sample_weight", sample_weight)):
        if value is not None and not isinstance(value, str):
            raise UsageError(f"with several files, {name} must name a dataset inside each of them")
    if len(paths) == 1:
        return _open_file(paths[0], x, y, sample_weight)
    from streammargin.data.shards import ShardedSource

    opened: list[Source] = []
    try:
        for path in paths:
            opened.append(_open_file(path, x, y, sample_weight))
        return ShardedSource(opened)
    except BaseException:
        for source in opened:
            source.close()
        raise


def _check_file(path: str) -> None:
    check_input(path)
    try:
        with open(path, "rb") as file:
            start = file.read(8)
    except OSError as error:
        raise InputMissingError(f"{path} cannot be read ({error.strerror})") from error
    if not start:
        raise DataError(f"{path} is empty; make a data file with: streammargin-data convert IN OUT.h5")
    if start != _MAGIC:
        import h5py

        if not h5py.is_hdf5(path):  # a user block may stand before the signature
            raise DataError(f"{path} is not an HDF5 file; if it is svmlight text, CSV or NPZ, {_CONVERT.format(path)}")


def encoding_of(group: Any) -> str:
    """How an HDF5 group says that its rows are stored: csr (also if it says nothing), csc, or another word."""
    encoding = group.attrs.get("encoding-type", group.attrs.get("h5sparse_format", "csr_matrix"))
    if isinstance(encoding, bytes):
        encoding = encoding.decode(errors="replace")
    return str(encoding).removesuffix("_matrix")


def _open_file(path: str, x: str | None, y: Any, sample_weight: Any) -> Source:
    _check_file(path)

    import h5py

    with contextlib.suppress(ImportError):
        import hdf5plugin  # noqa: F401  # registers zstd, blosc, lz4, ...
    try:
        file = h5py.File(path, "r", rdcc_nbytes=0)
    except OSError as error:
        if "unable to lock" in str(error):
            raise ReadWriteError(f"{path} is being written by another program; wait until it is closed") from error
        what = "is truncated" if "truncated" in str(error) else "cannot be opened as HDF5"
        raise DataError(f"{path} {what} ({short_reason(error)}); copy or convert it again") from error
    except (RuntimeError, KeyError, ValueError) as error:
        raise DataError(f"{path} cannot be opened as HDF5 ({error}); copy or convert it again") from error
    try:
        from streammargin.data.hdf5_nodes import decoding

        with decoding(path):
            return _open_rows(file, path, x, y, sample_weight)
    except BaseException:
        file.close()
        raise


def _open_rows(file: Any, path: str, x: str | None, y: Any, sample_weight: Any) -> Source:
    import h5py

    from streammargin.data.hdf5_nodes import children, look_up

    if x is None:
        x = "X" if "X" in file or "matrix" not in file else "matrix"
    node = look_up(file, x, path)
    if node is None:
        raise DataError(f"{path} has no dataset {x} of rows; it has {children(file)}; name the rows with --x NAME")
    if isinstance(node, h5py.Dataset):
        from streammargin.data.hdf5_dense import DenseHDF5Source

        return DenseHDF5Source(file, path, x, y, sample_weight)
    if not isinstance(node, h5py.Group):
        raise DataError(f"{path}: {x} is a named type; rows must be a dataset or a csr_matrix group; use --x NAME")
    encoding = encoding_of(node)
    if encoding == "csc":
        raise DataError(f"{path}: {x} is a csc_matrix, which cannot be streamed by row; {_CONVERT.format(path)}")
    if encoding != "csr":
        raise DataError(
            f"{path}: {x} is a group of encoding {encoding!r}; name a dataset or a csr_matrix with --x NAME"
        )
    from streammargin.data.hdf5_csr import CSRHDF5Source

    return CSRHDF5Source(file, path, x, y, sample_weight)
