"""The format of data: found by their type, by their path, or by their first bytes."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from typing import Any
from weakref import WeakKeyDictionary

from streammargin.errors import InputMissingError, StreamMarginError
from streammargin.ordered import STANDARD_INPUT
from streammargin.sources.kinds import kind_of
from streammargin.sources.open import is_path, is_source, paths_of
from streammargin.tables.matrices import market, svmlight
from streammargin.tables.textfile import Text, plain_stem

CSV, PARQUET, ARROW, STREAM, FOLDER = "csv", "parquet", "arrow", "arrow stream", "folder"
SVMLIGHT, MARKET, NPY, NPZ = "svmlight", "mtx", "npy", "npz"
TABLES = (CSV, PARQUET, ARROW, STREAM, FOLDER)  # columns with names, which may hold words and gaps
_FOLDER = "streammargin.tables.matrices"
# rows of numbers -> the module that reads them
MATRICES = {SVMLIGHT: f"{_FOLDER}.svmlight", MARKET: f"{_FOLDER}.market", NPY: f"{_FOLDER}.npy", NPZ: f"{_FOLDER}.npz"}
STREAM_START = b"\xff\xff\xff\xff"
STARTS = {b"PAR1": PARQUET, b"ARROW1": ARROW, STREAM_START: STREAM, b"PK\x03\x04": NPZ, b"\x93NUMPY": NPY,
          market.START: MARKET}  # fmt: skip
SUFFIXES = {".csv": CSV, ".tsv": CSV, ".tab": CSV, ".svm": SVMLIGHT, ".svmlight": SVMLIGHT, ".libsvm": SVMLIGHT}
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
SEPARATORS = (b",", b"\t", b";", b"|")
_pipes: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # standard input, or what stands for a path -> the pipe


class _Held:
    """Stands for the path of a pipe."""


_paths: dict[str, _Held] = {}


def is_table(data: object) -> bool:
    """Whether this is a table: an object with an Arrow C stream, a query, or the path of what a reader takes."""
    if not isinstance(data, (str, os.PathLike, list)):
        return is_query(data) or any(hasattr(data, name) for name in ("__arrow_c_stream__", "scanner"))
    return _all_in(data, TABLES)


def is_parquet(data: object) -> bool:
    """Whether these are the path of a Parquet file or of a folder of these, or a list of such paths."""
    return _all_in(data, (PARQUET, FOLDER))


def is_matrix(data: object) -> bool:
    """Whether these are paths of rows of numbers that are read front to back."""
    return _all_in(data, MATRICES)


def _all_in(data: object, kinds: Collection[str]) -> bool:
    """Whether these are a path, or a list of paths, of one of these formats each."""
    parts = data if isinstance(data, list) else [data]
    paths = [part for part in parts if is_path(part) and not _may_wait(part)]
    return bool(parts) and len(paths) == len(parts) and all(format_of(path) in kinds for path in paths)


def is_query(data: object) -> bool:
    """Whether this is a query of polars that has not run, a LazyFrame."""
    return hasattr(data, "collect_schema") and hasattr(data, "lazy") and not hasattr(data, "__arrow_c_stream__")


def _may_wait(path: str | os.PathLike[str]) -> bool:
    """Whether this is a named pipe that a look at it may wait for; those of a shell, as <(...), are open already."""
    path = os.fspath(path)
    return path != STANDARD_INPUT and is_pipe(path) and not path.startswith(("/dev/", "/proc/"))


def format_of(path: str | os.PathLike[str]) -> str | None:
    """The format of what is read front to back; None for other files, and if there is none.

    A name that says a kind of text is believed, as text is told by its content with less certainty. What can be read at
    random is no such file, so that a package may bring a better way for one of these formats.
    """
    path = os.fspath(path)
    found = _format(path)
    return None if found is not None and not is_pipe(path) and is_source(path) else found


def _format(path: str) -> str | None:
    """`format_of`, whether or not the file can be read at random too."""
    if os.path.isdir(path):
        if any(name.endswith(".parquet") for _, _, names in os.walk(path) for name in names):
            return FOLDER
        return MARKET if market.inside(path) else None
    by_name = SUFFIXES.get(os.path.splitext(plain_stem(path))[1].lower())
    try:
        start = start_of(path)
    except StreamMarginError:  # said when it is opened
        return CSV if path == STANDARD_INPUT else by_name
    found = next((kind for magic, kind in STARTS.items() if start.startswith(magic)), None)
    if found is not None or (by_name is not None and b"\0" not in start):
        return found or by_name
    if kind_of(start) is not None:
        return by_name if start.startswith(UTF_16) else None
    return by_name or text_format(start) or (CSV if path == STANDARD_INPUT else None)


def text_format(start: bytes) -> str | None:
    """The kind of text that begins so; None if it looks like none of them."""
    if b"\0" in start:
        return None
    if svmlight.sniff(start):
        return SVMLIGHT
    line = next(filter(None, (line.strip() for line in start.splitlines())), b"")
    return CSV if any(mark in line for mark in SEPARATORS) else None


def start_of(path: str) -> bytes:
    """The first bytes, without compression. Raises StreamMarginError."""
    if is_pipe(path):
        found = piped(path)
        return bytes(found.start if isinstance(found, Text) else found.peek(8)[:8])
    with Text(path) as text:
        return text.start


def is_pipe(path: str) -> bool:
    """Whether this is standard input, or the path of what can be read once only."""
    return path == STANDARD_INPUT or (os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path))


def piped(path: str) -> Any:
    """A pipe that is open: a Text, or a file if it is no text. These first bytes are read all the same."""
    try:
        holder = sys.stdin if path == STANDARD_INPUT else _paths.setdefault(path, _Held())
        known = _pipes.get(holder)
        if known is None:
            own = path != STANDARD_INPUT
            file = open(path if own else sys.stdin.fileno(), "rb", closefd=own)  # noqa: SIM115  # read later
            binary = file.peek(8)[:8].startswith((STREAM_START, b"PAR1", b"ARROW1"))
            known = _pipes[holder] = file if binary else Text(path if own else "standard input", file)
        return known
    except (AttributeError, OSError, TypeError, ValueError) as error:  # None, closed, or an object without a file
        if isinstance(error, StreamMarginError):
            raise
        what = "standard input is not open" if path == STANDARD_INPUT else f"{path} cannot be read"
        raise InputMissingError(f"{what}; name a file") from error


def files_of(data: object) -> list[str]:
    """The files that are read of these paths beside themselves: no output may replace them."""
    paths = paths_of(data)
    inside = [os.path.join(folder, name) for path in paths for folder, _, names in os.walk(path) for name in names]
    beside = [name for path in paths if ".mtx" in path for name in market.names_beside(path).values()]
    return [*inside, *beside]
