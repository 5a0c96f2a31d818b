"""streammargin-data convert IN OUT.h5: svmlight text, CSV, SciPy's NPZ or HDF5 to a file that can be streamed."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from data_tools.rows import Batch, batches
from data_tools.textfile import Text, plain_stem
from data_tools.writer import writing
from streammargin.cli.options import add_common
from streammargin.data.kinds import kind_of
from streammargin.data.labels import LabelCursor
from streammargin.data.open import files_read
from streammargin.errors import DataError, InputMissingError, UsageError
from streammargin.files import check_apart, check_output
from streammargin.sizes import parse_size

FORMATS = ("svmlight", "csv", "npz", "hdf5")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of convert."""
    parser.add_argument("input", metavar="IN", help="text also compressed (gzip, bzip2, xz), or a pipe")
    parser.add_argument("output", metavar="OUT.h5")
    parser.add_argument("--format", choices=FORMATS, help="default: by name and content")
    parser.add_argument("--features", type=int, metavar="D", help="columns (svmlight default: the largest index)")
    parser.add_argument("--dtype", choices=["float32", "float64"],
                        help="of the values; default float32 for text, as stored for NPZ and HDF5")  # fmt: skip
    parser.add_argument("--label-column", metavar="N|NAME",
                        help="of CSV, from 0, -1 the last; default: label, class, target, y or last")  # fmt: skip
    parser.add_argument("--zero-based", action="store_true", help="svmlight indices count from 0")
    parser.add_argument("--x", metavar="NAME", help="rows inside an HDF5 file (default X)")
    parser.add_argument("--y", metavar="NAME|FILE:NAME|FILE.npy", help="labels for NPZ and HDF5")
    parser.add_argument("--memory", default="256M", metavar="SIZE", help="for what must be sorted, default 256M")
    parser.add_argument("--force", action="store_true", help="replace an existing OUT.h5")
    add_common(parser)


def run(options: argparse.Namespace) -> str:
    """Convert the file given on the command line; returns what to say about it."""
    rows, features, nnz = convert(
        options.input, options.output, format=options.format, features=options.features, dtype=options.dtype,
        label_column=options.label_column, zero_based=options.zero_based, x=options.x, y=options.y,
        memory=options.memory, force=options.force,
    )  # fmt: skip
    return f"{options.output}: {rows} rows, {features} columns, {nnz} stored values"


@dataclass
class _Input:
    """What a reader yields, and what is known before it does."""

    batches: Iterator[Batch]
    sparse: bool
    features: int | None
    dtype: Any


def convert(
    input: str,
    output: str,
    *,
    format: str | None = None,
    features: int | None = None,
    dtype: str | None = None,
    label_column: str | None = None,
    zero_based: bool = False,
    x: str | None = None,
    y: str | None = None,
    memory: str | int = "256M",
    force: bool = False,
) -> tuple[int, int, int]:
    """Write `input` as an HDF5 file that can be streamed; returns (rows, columns, stored values).

    Raises the errors of streammargin.errors: DataError names the line or row; on any error no output is left.
    """
    if features is not None and not 0 < features < 2**31:
        raise UsageError(f"--features must lie between 1 and {2**31 - 1}, not {features}")
    check_output(output, force)
    check_apart({"the output": output}, files_read([input], x=x, y=y))
    if not os.path.exists(input):
        raise InputMissingError(f"{input}: no such file")
    if os.path.isdir(input):
        raise InputMissingError(f"{input} is a directory; name a file")
    with contextlib.ExitStack() as stack:
        text = stack.enter_context(Text(input))
        if not text.start:
            raise DataError(f"{input} is empty")
        kind = format or _sniff(text)
        if kind in ("npz", "hdf5") and not os.path.isfile(input):
            raise DataError(f"{input} is a pipe, and {kind.upper()} is not read front to back; name a file")
        found = _open(kind, text, output, stack, features, label_column, zero_based, x, y, parse_size(memory))
        width = found.features
        if features is not None:
            if width is not None and width > features:
                raise UsageError(f"{input} has {width} columns, more than --features {features}")
            width = features
        first = next(found.batches, None)
        if first is None or first.rows == 0:
            raise DataError(f"{input} has no rows")
        if first.X is not None and (width is None or width > first.X.shape[1]):
            if width is not None:
                raise UsageError(f"--features {width} widens sparse data only; {input} has {first.X.shape[1]} columns")
            width = first.X.shape[1]
        if first.X is not None and width is not None and width < first.X.shape[1]:
            raise UsageError(f"{input} has {first.X.shape[1]} columns, more than --features {width}")
        kept = np.dtype(dtype) if dtype else found.dtype
        with writing(output, force, kept, found.sparse, width) as writer:
            _append(writer, first, kept, input)
            for batch in found.batches:
                _append(writer, batch, kept, input)
            if found.sparse and writer.features is None and writer.widest == 0:
                raise DataError(f"{input} has no values at all; give the number of columns with --features")
    columns = width if width is not None else writer.widest
    return writer.rows, columns, writer.nnz if found.sparse else writer.rows * columns


def _append(writer: Any, batch: Batch, dtype: np.dtype, name: str) -> None:
    """Append; a value too large for the stored type is an error rather than infinity."""
    values = batch.X if batch.X is not None else batch.data
    assert values is not None
    if values.dtype.kind == "f" and values.dtype.itemsize > dtype.itemsize and values.size:
        largest = max(float(values.max()), -float(values.min()))
        if largest > float(np.finfo(dtype).max):
            raise DataError(f"{name}: the value {largest:g} is too large for {dtype}; use --dtype float64")
    writer.append(batch)


def _sniff(text: Text) -> str:
    name = plain_stem(text.name).lower()
    if text.start.startswith(b"\x89HDF\r\n\x1a\n"):
        return "hdf5"
    if text.start.startswith(b"PK\x03\x04"):
        return "npz"
    for suffix, kind in ((".csv", "csv"), (".npz", "npz"), (".h5", "hdf5"), (".hdf5", "hdf5"), (".h5ad", "hdf5")):
        if name.endswith(suffix):
            return kind
    found = kind_of(text.start)
    if found is None and b"\0" in text.start:
        found = "binary", "write its rows as CSV or svmlight text, or as HDF5"
    if found is not None:
        raise DataError(f"{text.name} is {found[0]}, not text; {found[1]}")
    lines = (line.split(b"#")[0].strip() for line in text.start.splitlines())
    line = next(filter(None, lines), b"")
    return "csv" if b":" not in line and any(mark in line for mark in (b",", b";", b"\t")) else "svmlight"


def _open(
    kind: str, text: Text, near: str, stack: contextlib.ExitStack, features: int | None, label_column: str | None,
    zero_based: bool, x: str | None, y: str | None, memory: int,
) -> _Input:  # fmt: skip
    path, single = text.name, np.dtype(np.float32)
    if kind in ("svmlight", "csv"):
        if y is not None:
            raise UsageError("--y names the labels of NPZ and HDF5 input; text holds its labels")
        if kind == "svmlight":
            from data_tools.svmlight import read_svmlight

            return _Input(read_svmlight(text, zero_based, features), True, features, single)
        from data_tools.csvtext import read_csv

        return _Input(read_csv(text, label_column), False, None, single)
    if kind == "npz":
        from data_tools.matrices import read_npz

        stored, width, found = read_npz(path, memory, near)
        return _Input(_with_labels(found, y, None, path, stack), True, width, _kept(stored, path))
    return _open_hdf5(path, near, stack, x, y, memory)


def _open_hdf5(path: str, near: str, stack: contextlib.ExitStack, x: str | None, y: str | None, memory: int) -> _Input:
    import h5py

    from streammargin.data.hdf5 import encoding_of
    from streammargin.data.open import open_source

    csc = False
    with contextlib.suppress(OSError), h5py.File(path, "r") as probe:  # open_source says what is wrong with a file
        group = probe.get(x or "X")
        csc = isinstance(group, h5py.Group) and encoding_of(group) == "csc"
    if csc:
        from data_tools.matrices import read_csc_group

        file = stack.enter_context(h5py.File(path, "r"))
        stored, width, found = read_csc_group(file[x or "X"], path, memory, near)
        name = y or ("y" if "y" in file else None)
        return _Input(_with_labels(found, name, file, path, stack), True, width, _kept(stored, path))
    source = stack.enter_context(open_source(path, x=x, y=y))
    return _Input(batches(source, memory), source.sparse, source.features, source.dtype)


def _kept(stored: np.dtype, path: str) -> np.dtype:
    from streammargin.data.arrays import value_dtype

    try:
        return value_dtype(stored)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def _with_labels(
    found: Iterator[Batch], y: str | None, home: Any, path: str, stack: contextlib.ExitStack
) -> Iterator[Batch]:
    """The batches with the labels of another file, or of a dataset beside them."""
    if y is None:
        yield from found
        return
    from streammargin.data.hdf5_labels import open_column

    column, other = open_column(y, home if home is not None else {}, path)
    if other is not None:
        stack.callback(other.close)
    cursor = LabelCursor(column.chunks(1 << 16))
    seen = 0
    for batch in found:
        seen += batch.rows
        if seen > column.length:
            raise DataError(f"{column.name} has {column.length} labels, fewer than {path} has rows")
        yield batch._replace(labels=cursor.take(batch.rows))
    if seen != column.length:
        raise DataError(f"{column.name} has {column.length} labels but {path} has {seen} rows")
