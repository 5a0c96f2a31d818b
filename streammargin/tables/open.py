"""Find the reader of a table: by what it is, by its path, or by its first bytes."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any

from streammargin.errors import DataError, InputMissingError, UsageError
from streammargin.matching import strict_number
from streammargin.tables.readers.base import Reader
from streammargin.tables.textfile import Text, plain_stem

STANDARD_INPUT = "-"
PARQUET, IPC, IPC_STREAM = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"
SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}  # by suffix, compression apart
OTHERS = (",", "\t", ";", "|")


def is_table(data: object) -> bool:
    """Whether this is a table: an object with an Arrow C stream, or the path of what a reader takes."""
    if isinstance(data, list):
        return bool(data) and all(isinstance(part, (str, os.PathLike)) and is_table(part) for part in data)
    if not isinstance(data, (str, os.PathLike)):
        return any(hasattr(data, name) for name in ("__arrow_c_stream__", "scanner"))
    path = os.fspath(data)
    if path == STANDARD_INPUT:
        return True
    if os.path.isdir(path):
        return any(name.endswith(".parquet") for _, _, names in os.walk(path) for name in names)
    if os.path.splitext(plain_stem(path))[1].lower() in SEPARATORS:
        return True
    return os.path.isfile(path) and _start(path).startswith((PARQUET, IPC))


def files_of(data: object) -> list[str]:
    """The files in those of these paths that are folders: no output may replace them."""
    paths = [
        os.fspath(path) for path in (data if isinstance(data, list) else [data]) if isinstance(path, (str, os.PathLike))
    ]
    return [os.path.join(folder, name) for path in paths for folder, _, names in os.walk(path) for name in names]


def open_table(data: Any, y: str | None = None) -> Reader:
    """The reader of a table, for which `is_table` is true. Raises DataError, InputMissingError, UsageError."""
    if importlib.util.find_spec("pyarrow") is None:
        raise UsageError("tables are read by pyarrow, which is not installed; install it with: pip install pyarrow")
    from streammargin.tables.readers import arrow

    if isinstance(data, list):
        from streammargin.tables.readers.chain import Chain

        readers = [open_table(part, y) for part in data]
        return Chain(readers) if len(readers) > 1 else readers[0]
    if not isinstance(data, (str, os.PathLike)):
        return arrow.of_object(data)
    path = os.fspath(data)
    if path == STANDARD_INPUT:
        return _standard_input(y)
    if os.path.isdir(path):
        return arrow.of_folder(path)
    start = _start(path)
    if start.startswith(PARQUET):
        return arrow.of_parquet(path)
    if start.startswith(IPC):
        return arrow.of_ipc(path)
    with Text(path) as text:
        return _delimited(text, y)


def _standard_input(y: str | None) -> Reader:
    """Standard input, which can be read once: delimited text, or an Arrow stream."""
    from streammargin.tables.readers import arrow

    try:
        file = open(sys.stdin.fileno(), "rb", closefd=False)  # noqa: SIM115  # read later
    except (AttributeError, OSError, ValueError) as error:  # None, closed, or an object without a file
        raise InputMissingError("standard input is not open; name a file") from error
    start = file.peek(8)[:8]
    if start.startswith(IPC_STREAM):
        return arrow.of_stream(file, "standard input")
    if start.startswith((PARQUET, IPC)):
        raise DataError("standard input is Parquet or Feather, which cannot be read from a pipe; name the file")
    return _delimited(Text("standard input", file), y, once=True)


def _start(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(8)
    except FileNotFoundError as error:
        raise InputMissingError(f"{path}: no such file") from error
    except OSError as error:
        raise InputMissingError(f"{path} cannot be read ({error.strerror})") from error


def _delimited(text: Text, y: str | None, once: bool = False) -> Reader:
    """A reader of delimited text: the separator by suffix or by the first line, the header by its first two lines."""
    from streammargin.tables.readers.delimited import Delimited, first_rows

    path = text.name
    separator = SEPARATORS.get(os.path.splitext(plain_stem(path))[1].lower(), ",")
    rows = first_rows(text, separator)
    if not rows or not rows[0]:
        raise DataError(f"{path}, line 1 is blank; begin the table with a header or a row")
    if len(rows[0]) == 1:
        for other in OTHERS:
            wider = first_rows(text, other)
            if len(wider[0]) > 1:
                separator, rows = other, wider
                break
    second = rows[1] if len(rows) > 1 else []
    header = _is_header(rows[0], second, y)
    columns = rows[0] if header else [str(place) for place in range(len(rows[0]))]
    twice = {name for name in columns if columns.count(name) > 1}
    if twice:
        raise DataError(f"{path} has several columns called {sorted(twice)[0]}; give each a name of its own")
    return Delimited(path, separator, columns, header, text if once else None)


def _is_header(first: list[str], second: list[str], y: str | None) -> bool:
    """Whether the first line has names: it does if none of its fields is a number, or if numbers are below names."""
    if y is not None and y in first:
        return True
    numbers = [_is_number(field) for field in first]
    if not any(numbers):
        return True
    return any(not name and _is_number(below) for name, below in zip(numbers, second, strict=False))


def _is_number(field: str) -> bool:
    try:
        strict_number(field)
    except ValueError:
        return False
    return True
