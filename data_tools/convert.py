"""streammargin-data convert IN OUT.h5: a table, text, a matrix or HDF5 to a file that can be streamed."""

from __future__ import annotations

import argparse
import contextlib
import os
from dataclasses import replace
from typing import Any

import numpy as np

from streammargin.cli.options import add_lacking, add_lines, named
from streammargin.data_tools.rows import check_name, of_hdf5
from streammargin.errors import DataError, InputMissingError, UsageError
from streammargin.files import STANDARD_INPUT, check_apart, check_output, no_file
from streammargin.options.table import Options, read_by
from streammargin.ordered import files_read
from streammargin.sizes import parse_size
from streammargin.sources.batch import WIDER, Ordered
from streammargin.sources.columns import reordered
from streammargin.sources.kinds import kind_of
from streammargin.sources.labels import ATTRIBUTE
from streammargin.sources.names import all_of, equal
from streammargin.sources.open import check_file, is_source
from streammargin.sources.schema import plain_schema
from streammargin.tables import formats
from streammargin.tables.file_format import CSV, NPZ, SVMLIGHT
from streammargin.tables.formats import FOLDERS
from streammargin.tables.header import Expected
from streammargin.tables.matrices.base import How
from streammargin.tables.matrices.open import open_matrix
from streammargin.tables.open import open_table
from streammargin.wording import shown, warn

_SEPARATORS = {"tab": "\t", "\\t": "\t"}  # a tab is hard to type in a shell
_TABLE = ("columns", "drop", "categorical", "text", "decimal", "dates", "missing")
HDF5 = "hdf5"
_OF_TABLE = ("y", "label", "like", *_TABLE, "sample_weight", "unknown")
USED = {
    HDF5: ("x", "y"),
    **dict.fromkeys(formats.tables(), _OF_TABLE),
    **dict.fromkeys((CSV, FOLDERS[CSV]), (*_OF_TABLE, "separator")),
    SVMLIGHT: ("zero_based",),
    NPZ: ("x", "y"),
}
OTHERS = ("y",)  # of other files of numbers
DEFAULTS: dict[str, Any] = {"label": True, "zero_based": False, "unknown": "error"}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of convert."""
    parser.add_argument("input", metavar="IN", help="a file, text also compressed (gzip, bzip2, xz); a folder of "
                        "tables or svmlight; a pipe, or - for standard input")  # fmt: skip
    parser.add_argument("output", metavar="OUT.h5")
    parser.add_argument(
        "--features", type=int, metavar="D", help="number of columns (default for svmlight: the largest index)"
    )
    parser.add_argument("--dtype", choices=["float32", "float64"],
                        help="type of the values (default: float32 for text, else as stored)")  # fmt: skip
    label = parser.add_mutually_exclusive_group()
    label.add_argument("--y", "--label-column", metavar="NAME|N|FILE:NAME|FILE.npy", help="labels; of a table a column "
                       "or its number from 0, -1 the last (default: label, class, target or y)")  # fmt: skip
    label.add_argument(
        "--no-label", dest="label", action="store_false", help="a table has no labels; all columns are values"
    )
    parser.add_argument("--sample-weight", metavar="NAME", help="column of weights of a table")
    parser.add_argument("--separator", metavar="C", help="character between fields of CSV, or tab (default: detected)")
    parser.add_argument("--like", metavar="MODEL",
                        help="make the columns that MODEL was trained on, by name")  # fmt: skip
    parser.add_argument("--zero-based", action="store_true", help="svmlight indices count from 0")
    parser.add_argument("--x", metavar="NAME", help="name of the rows in an HDF5 file or an archive (default X)")
    add_lines(parser, _TABLE)
    add_lacking(parser, "--unknown")
    parser.add_argument("--memory", default="256M", metavar="SIZE", help="memory for sorting (default 256M)")
    parser.add_argument("--force", action="store_true", help="replace an existing OUT.h5")


def run(options: argparse.Namespace) -> str:
    """Convert the file given on the command line; returns what to say about it."""
    rows, features, nnz = convert(**named(convert, options))
    return f"{options.output}: {rows} rows, {features} columns, {nnz} stored values"


def convert(
    input: str,
    output: str,
    *,
    features: int | None = None,
    dtype: str | None = None,
    y: str | int | None = None,
    label: bool = True,
    sample_weight: str | None = None,
    separator: str | None = None,
    like: str | None = None,
    zero_based: bool = False,
    x: str | None = None,
    columns: Any = None,
    drop: Any = None,
    categorical: Any = None,
    text: str | None = None,
    decimal: str | None = None,
    dates: bool | str | None = None,
    missing: str | None = None,
    unknown: str = "error",
    memory: str | int = "256M",
    force: bool = False,
) -> tuple[int, int, int]:
    """Write `input` as an HDF5 file that can be streamed; returns (rows, columns, stored values).

    `y` is the label: a name or a number in a table, else a dataset or a file. `label`: whether a table has one. `like`:
    a model file, whose columns the output has. `columns`, `drop`, `categorical`, `text`, `decimal`, `dates`, `missing`
    and `sample_weight` are for a table, as for `train`. `unknown`: with `like`, as for `predict`.

    Logs the label column of text, and warnings about the other columns. Raises the errors of streammargin.errors:
    DataError names the line or row. On any error no output is left.
    """
    if features is not None and not 0 < features < 2**31:
        raise UsageError(f"`features` must lie between 1 and {2**31 - 1}, not {features}")
    if features is not None and like is not None:
        raise UsageError("`like` sets the number of columns; omit `features`")
    if y is not None and not label:
        raise UsageError("`y` names a label, but `label=False` says that there is none; omit one of them")
    table = Options.of({"columns": columns, "drop": drop, "categorical": categorical, "text": text, "decimal": decimal,
                        "dates": dates, "missing": missing})  # fmt: skip
    check_output(output, force)
    label_name = None if y is None else str(y)
    read = files_read([input], **read_by({"x": x, "y": label_name}))
    check_apart({"the output": output}, [like, *read])
    if input != STANDARD_INPUT and not os.path.exists(input):
        raise no_file(input)
    separator = _separator(separator)
    kind = format_for(input, separator)
    given = {"y": y, "label": label, "sample_weight": sample_weight, "separator": separator, "like": like, "x": x,
             "zero_based": zero_based, "unknown": unknown,
             **{name: getattr(table, name) for name in _TABLE}}  # fmt: skip
    if kind in formats.tables():
        check_options(given, kind, input)
        if features is not None:
            raise UsageError(f"{input} is a table, whose columns are counted; omit `features`")
        return _convert_table(input, output, kind, given, table, dtype, force)
    check_options({**given, "like": None}, kind, input)
    with contextlib.ExitStack() as stack:
        how = How(output, stack, x, label_name, None, parse_size(memory), features, zero_based)
        return _convert_numbers(input, kind, how, like, dtype, force)


def _convert_table(
    input: str, output: str, kind: str, given: dict[str, Any], options: Options, dtype: str | None, force: bool
) -> tuple[int, int, int]:
    """The same of a table: the rows that a training on it would read. given: the checked options of `convert`."""
    from streammargin.model.io import load_model
    from streammargin.tables.spool import OfTable, again
    from streammargin.tables.table import as_trained, with_roles
    from streammargin.training.tables import asked_of

    check_name(output)
    y, label, like, schema = given["y"], given["label"], given["like"], None
    if like is not None:
        model = load_model(like)
        before = model.header.get(ATTRIBUTE)
        schema = model.schema or plain_schema(model.feature_names_in_, model.answer.features, before)
    expected = Expected(y, label, frozenset() if schema is None else schema.known, given["separator"])
    asked = replace(asked_of(Options.of({**vars(options), "y": y})), unknown=given["unknown"])
    with contextlib.ExitStack() as stack:
        reader = again(stack, open_table(input, expected, kind), os.path.dirname(os.path.abspath(output)))
        if schema is None:
            unlabelled = ", or use `label=False` if there is none"
            table = with_roles(reader, asked, given["sample_weight"], label, unlabelled)
        else:
            table, schema = as_trained(reader, schema, asked, label, like, before)
        kept = None if dtype is None else np.dtype(dtype)
        return OfTable(table, schema, kept, WIDER, told=False).write(output, force).sizes


def _convert_numbers(
    input: str, kind: str, how: How, like: str | None, dtype: str | None, force: bool
) -> tuple[int, int, int]:  # fmt: skip
    """Write rows of numbers, as wide as is asked for; (rows, columns, stored values)."""
    from streammargin.model.io import load_model
    from streammargin.sources.hdf5.from_batches import write_rows

    option, known = f"`features={how.features}`", None
    if like is not None:
        model = load_model(like)
        how, known = replace(how, features=model.answer.features), model.feature_names_in_
        option = f"`like={like}`, which has {how.features}"
    if kind == HDF5 and os.path.isdir(input):
        raise InputMissingError(f"{input} is a directory; name a file")
    if kind == HDF5 and like is not None:
        how = replace(how, x=model.rows_before(input, how.x))
    found = of_hdf5(input, how) if kind == HDF5 else open_matrix(input, how, kind)
    if found.obs is None or how.y is not None:
        check_name(how.near)
    if kind == HDF5 and like is not None:
        model.say_other_rows(how.x)
    if known is not None and found.names is not None and not equal(known, found.names):
        found = _in_order(replace(found, name=input), found.names, known, how.x)
    width = _width(found, how.features, option, input)
    if found.names is not None and len(found.names) != width:
        few = len(found.names)
        raise UsageError(f"{input} has {few} names of columns, too few for {width} columns; ask for {few}")
    kept = replace(found, features=width, dtype=np.dtype(dtype or found.dtype), name=input)
    return write_rows(kept, how.near, force).sizes


def _separator(given: str | None) -> str | None:
    """The one character between fields; None if it is to be found out."""
    if given is None:
        return None
    found = _SEPARATORS.get(given, given)
    fits = len(found) == 1 and ((found.isascii() and found.isprintable()) or found == "\t")
    if not fits or found.isalnum() or found in '+-."':
        raise UsageError(
            "`separator` must be tab, or a character other than a letter, digit, quote, sign or point, not "
            f"{shown(given)}"
        )
    return found


def _width(found: Ordered, wanted: int | None, option: str, path: str) -> int | None:
    """The number of output columns, or None if only known after the last row. Raises UsageError if they do not fit."""
    stored = found.features
    if stored is None or wanted is None:
        return wanted if stored is None else stored
    if stored > wanted:
        raise UsageError(f"{path} has {stored} columns, more than {option}")
    if stored < wanted and not found.sparse:
        raise UsageError(f"{path} has {stored} columns, and only sparse data is widened to {option}")
    return wanted


def _in_order(found: Ordered, names: np.ndarray, known: np.ndarray, x: str | None) -> Ordered:
    """The rows, whose columns have these names, with those of a model. Raises DataError if one is missing.

    x: the name of the rows.
    """
    from streammargin.model.columns import difference, places

    order, unknown = places(known, names, found, 0)
    if missing := list(known[order < 0]):
        instead = "convert without `like`" if x in (None, "X") else f"convert with `x={x}` instead of `like`"
        may = f", or {instead} and predict with `missing_columns=zero`" if len(missing) < len(known) else ""
        raise DataError(difference(found.name, missing, unknown, may, None))
    if unknown:
        warn(f"{found.name}: left out, as the model knows no such column: {all_of(unknown)}")
    return reordered(found, order, known)


def format_for(path: str, separator: str | None) -> str:
    """The format of an input, by its name and content; text that looks like nothing else is svmlight.

    Raises DataError for other binary files, and if a pipe cannot be read.
    """
    found = formats.format_of(path)
    if found == SVMLIGHT and separator is not None:
        return CSV  # any character may be a separator, so the content cannot tell
    if found is not None:
        return found
    if os.path.isdir(path) and not is_source(path):
        check_file(path)
    start = formats.start_of(path)
    if not formats.is_pipe(path) and is_source(path):
        return HDF5
    if b"\x89HDF\r\n\x1a\n" in start:
        raise DataError(f"{path} is a pipe, and HDF5 cannot be read from a pipe; name a file")
    if not start:
        raise DataError(f"{path} is empty")
    kind = kind_of(path, start)
    if kind is None and b"\0" in start:
        kind = "binary", "write its rows as CSV or svmlight text, or as HDF5"
    if kind is not None:
        raise DataError(f"{path} is {kind[0]}, not text; {kind[1]}")
    return CSV if separator is not None else SVMLIGHT


def check_options(given: dict[str, Any], kind: str, path: str) -> None:
    """Raises UsageError for an option that this format does not use."""
    for name, value in given.items():
        if value == DEFAULTS.get(name) or name in USED.get(kind, OTHERS):
            continue
        spelt = f"{name}={value}" if isinstance(value, bool) else name
        why = "its labels are in each line; " if (kind, name) == (SVMLIGHT, "y") else ""
        raise UsageError(f"{path} is read as {kind}, which does not use `{spelt}`; {why}omit it")
