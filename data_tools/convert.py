"""streammargin-data convert IN OUT.h5: svmlight text, CSV, SciPy's NPZ or HDF5 to a file that can be streamed."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import logging
import os

import numpy as np

from streammargin.cli.options import add_common
from streammargin.data_tools.formats import FORMATS, Asked, Found, check_options, format_named, format_of
from streammargin.data_tools.like import columns_of_model
from streammargin.errors import DataError, InputMissingError, UsageError
from streammargin.files import check_apart, check_output
from streammargin.options.table import read_by
from streammargin.sizes import parse_size
from streammargin.sources.batch import Batch, Narrowing
from streammargin.sources.hdf5.write import writing
from streammargin.sources.names import equal
from streammargin.sources.open import files_read
from streammargin.tables.textfile import Text

LOG = logging.getLogger("streammargin")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of convert."""
    parser.add_argument("input", metavar="IN", help="text also compressed (gzip, bzip2, xz), or a pipe")
    parser.add_argument("output", metavar="OUT.h5")
    parser.add_argument("--format", choices=FORMATS, help="default: by name and content")
    parser.add_argument("--features", type=int, metavar="D", help="columns (svmlight default: the largest index)")
    parser.add_argument("--dtype", choices=["float32", "float64"],
                        help="of the values; default float32 for text, as stored for NPZ and HDF5")  # fmt: skip
    label = parser.add_mutually_exclusive_group()
    label.add_argument("--label-column", metavar="N|NAME",
                       help="of CSV, from 0, -1 the last; default: label, class, target or y")  # fmt: skip
    label.add_argument("--no-label", dest="label", action="store_false", help="of CSV: all columns are values")
    parser.add_argument(
        "--separator", metavar="C", help="of CSV, between fields: a character, or the word tab; default a comma"
    )
    parser.add_argument("--like", metavar="MODEL",
                        help="the columns that MODEL was trained on, those of CSV in its order")  # fmt: skip
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
        label_column=options.label_column, label=options.label, separator=options.separator, like=options.like,
        zero_based=options.zero_based, x=options.x, y=options.y, memory=options.memory, force=options.force,
    )  # fmt: skip
    return f"{options.output}: {rows} rows, {features} columns, {nnz} stored values"


def convert(
    input: str,
    output: str,
    *,
    format: str | None = None,
    features: int | None = None,
    dtype: str | None = None,
    label_column: str | int | None = None,
    label: bool = True,
    separator: str | None = None,
    like: str | None = None,
    zero_based: bool = False,
    x: str | None = None,
    y: str | None = None,
    memory: str | int = "256M",
    force: bool = False,
) -> tuple[int, int, int]:
    """Write `input` as an HDF5 file that can be streamed; returns (rows, columns, stored values).

    label_column: of CSV, a name or a number. label: whether CSV has a label. like: a model file; the output has its
    columns. Logs CSV's label column, and warnings about the other columns.
    Raises the errors of streammargin.errors: DataError names the line or row; on any error no output is left.
    """
    if features is not None and not 0 < features < 2**31:
        raise UsageError(f"`features` must lie between 1 and {2**31 - 1}, not {features}")
    if features is not None and like is not None:
        raise UsageError("`like` sets the number of columns; omit `features`")
    if label_column is not None and not label:
        raise UsageError("`label_column` names a label, but `label=False` says that there is none; omit one of them")
    check_output(output, force)
    check_apart({"the output": output}, [like, *files_read([input], **read_by({"x": x, "y": y}))])
    if not os.path.exists(input):
        mend = "; name standard input /dev/stdin" if input == "-" else ""
        raise InputMissingError(f"{input}: no such file{mend}")
    if os.path.isdir(input):
        raise InputMissingError(f"{input} is a directory; name a file")
    trained = None if like is None else columns_of_model(like)
    with contextlib.ExitStack() as stack:
        asked = Asked(
            features=features if trained is None else trained.features, label_column=label_column, label=label,
            separator=separator, like=trained, zero_based=zero_based, x=x, y=y, memory=parse_size(memory), near=output,
            opened=stack,
        )  # fmt: skip
        text = stack.enter_context(Text(input))
        if not text.start:
            raise DataError(f"{input} is empty")
        kind = format or format_of(text, asked)
        reader = format_named(kind)
        check_options(asked, kind, input)
        if not reader.TEXT and not os.path.isfile(input):
            raise DataError(f"{input} is a pipe, and {kind.upper()} cannot be read from a pipe; name a file")
        found = reader.read(text, asked)
        first = next(found.batches, None)
        if first is None or first.rows == 0:
            raise DataError(f"{input} has no rows")
        width = _width(found, first, asked, input)
        _check_names(found, width, asked, input)
        kept = np.dtype(dtype) if dtype else found.dtype
        narrowing = Narrowing(kept, input)
        with writing(output, force, kept, found.sparse, width, found.names, found.label) as writer:
            for batch in itertools.chain([first], found.batches):
                narrowing.check(batch)
                writer.append(batch)
            if found.sparse and writer.features is None and writer.widest == 0:
                raise DataError(f"{input} has no values at all; give the number of columns with `features`")
    columns = width if width is not None else writer.widest
    return writer.rows, columns, writer.nnz if found.sparse else writer.rows * columns


def _width(found: Found, first: Batch, asked: Asked, path: str) -> int | None:
    """The number of output columns, or None if only known after the last row. Raises UsageError if they do not fit."""
    stored = found.features if first.X is None else first.X.shape[1]
    wanted = asked.features
    if stored is None or wanted is None:
        return wanted if stored is None else stored
    option = f"`features={wanted}`" if asked.like is None else f"`like={asked.like.path}`, which has {wanted}"
    if stored > wanted:
        raise UsageError(f"{path} has {stored} columns, more than {option}")
    if stored < wanted and first.X is not None:
        raise UsageError(f"{path} has {stored} columns, and only sparse data is widened to {option}")
    return wanted


def _check_names(found: Found, width: int | None, asked: Asked, path: str) -> None:
    """Raises UsageError if the input's column names differ from the output's: only CSV columns can be reordered."""
    if found.names is None:
        return
    trained = asked.like
    if trained is not None and trained.names is not None and not equal(found.names, trained.names):
        raise UsageError(
            f"{path} names its columns, and not as {trained.path} does; leave `like` out: predict and evaluate match "
            "columns by their names"
        )
    if len(found.names) != width:
        raise UsageError(f"{path} names its {len(found.names)} columns, and more would have no names; ask for no more")
