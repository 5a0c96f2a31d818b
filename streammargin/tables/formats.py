"""The format of data: found by their type, by their path, or by their first bytes."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any

from streammargin.errors import DataError, InputMissingError, StreamMarginError
from streammargin.files import STANDARD_INPUT
from streammargin.sources.inside import AWAY, inside
from streammargin.sources.kinds import first_bytes, kind_of
from streammargin.sources.open import is_path, is_source, paths_of
from streammargin.tables.file_format import ARROW, CSV, NPZ, PARQUET, STREAM, SVMLIGHT, ZARR, FileFormat
from streammargin.tables.matrices import market
from streammargin.tables.textfile import Text, plain_stem
from streammargin.wording import warn

FORMAT_FOLDERS = ("matrices", "readers")  # folders of the modules that list formats in FORMATS, tried in this order
OPENERS = ("open", "folder")  # modules there that open what is found here, and so import this module


def _found() -> dict[str, FileFormat]:
    """The formats by name."""
    found: dict[str, FileFormat] = {}
    for place in FORMAT_FOLDERS:
        for one in pkgutil.iter_modules([os.path.join(os.path.dirname(__file__), place)]):
            if one.name not in OPENERS:
                module = importlib.import_module(f"{__package__}.{place}.{one.name}")
                found |= {each.name: each for each in getattr(module, "FORMATS", ())}
    return found


FORMATS = _found()
FOLDERS = {one.name: f"folder of {one.name}" for one in FORMATS.values() if one.called and one.table}
LOOKED = 100  # files of a folder whose first bytes are looked at for its kind, if no name tells it
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_pipes: dict[str, tuple[Any, Any]] = {}  # by path: the standard input of that time, or the path, and the pipe


def is_table(data: object) -> bool:
    """Whether this is a table: an object with an Arrow C stream, or the path of what a reader takes."""
    if not isinstance(data, (str, os.PathLike, list)):
        return any(hasattr(data, name) for name in ("__arrow_c_stream__", "scanner"))
    return _all_in(data, tables())


def is_parquet(data: object) -> bool:
    """Whether these are the path of a Parquet file or of a folder of these, or a list of such paths."""
    return _all_in(data, (PARQUET, FOLDERS[PARQUET]))


def is_matrix(data: object) -> bool:
    """Whether these are paths of rows of numbers that are read front to back."""
    return _all_in(data, FORMATS.keys() - tables())


def tables() -> list[str]:
    """The formats with columns that have names, folders among them."""
    return [*(one.name for one in FORMATS.values() if one.table), *FOLDERS.values()]


def _all_in(data: object, kinds: Collection[str]) -> bool:
    """Whether these are a path, or a list of paths, of one of these formats each."""
    parts = data if isinstance(data, list) else [data]
    paths = [part for part in parts if is_path(part) and not _may_wait(part)]
    return bool(parts) and len(paths) == len(parts) and all(format_of(path) in kinds for path in paths)


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
        if (whole := _first(lambda one: bool(one.inside(path)))) is not None:
            return whole
        kind = _kind_among(inside(path).files)
        return FOLDERS.get(kind or "", kind)
    by_name = _named(path, lambda one: one.text)
    try:
        start = start_of(path)
    except StreamMarginError:  # said when it is opened
        return CSV if path == STANDARD_INPUT else by_name
    found = _first(lambda one: start.startswith(one.starts))
    found = found or _first(lambda one: not one.text and one.sniff(start))
    if found == NPZ and kind_of(path, start) is not None:  # another archive
        return None
    if found is not None or (by_name is not None and b"\0" not in start):
        return found or by_name
    if kind_of(path, start) is not None:
        return by_name if start.startswith(UTF_16) else None
    if by_name is None and b"\0" not in start:
        by_name = _first(lambda one: one.text and one.sniff(start))
    return by_name or (CSV if path == STANDARD_INPUT else None)


def _first(fits: Callable[[FileFormat], bool]) -> str | None:
    """The first format of which this is true."""
    return next((one.name for one in FORMATS.values() if fits(one)), None)


def _named(path: str, fits: Callable[[FileFormat], object] = lambda one: one.called) -> str | None:
    """The format of files with this ending: one of those of folders, or of which this is true."""
    ending = _suffix(path)
    return _first(lambda one: ending in one.suffixes and bool(fits(one)))


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
    own = path != STANDARD_INPUT
    holder = path if own else sys.stdin
    try:
        if _pipes.get(path, ("", None))[0] != holder:
            file = open(path if own else sys.stdin.fileno(), "rb", closefd=own)  # noqa: SIM115  # read later
            starts = [each for one in FORMATS.values() if one.table for each in one.starts]
            binary = file.peek(8)[:8].startswith(tuple(starts))
            _pipes[path] = holder, file if binary else Text(path if own else "standard input", file)
        return _pipes[path][1]
    except (AttributeError, OSError, TypeError, ValueError) as error:  # None, closed, or an object without a file
        if isinstance(error, StreamMarginError):
            raise
        what = f"{path} cannot be read" if own else "standard input is not open"
        raise InputMissingError(f"{what}; name a file") from error


def files_of(data: object) -> list[str]:
    """All files that are read of these paths: readers open these, and no output may replace one.

    Raises DataError, InputMissingError for a folder whose files cannot be read together.
    """
    return list(dict.fromkeys(file for path in paths_of(data) for file in _files(path)))


def _files(path: str) -> list[str]:
    if path == STANDARD_INPUT:
        return ["/dev/stdin"]  # which may be a file
    if not os.path.isdir(path):
        return [path, *(market.names_beside(path).values() if ".mtx" in path else ())]
    matrix = market.inside(path)
    if matrix is not None:
        return _files(matrix)
    kind = format_of(path)
    return inside(path).files if kind in (None, ZARR) else parts_of(path)


def parts_of(folder: str, chosen: slice = slice(None), told: bool = False) -> list[str]:
    """The files of one kind that a folder holds, in the order of their paths, each once.

    chosen: those that are looked at, to check their kind; told: whether files that are there twice are said. Raises
    DataError, InputMissingError for what is of another kind, or cannot be read.
    """
    found = inside(folder)
    if found.faults:
        raise found.faults[0]
    if told and found.again:
        more = f" and {len(found.again) - 1} more lead" if len(found.again) > 1 else " leads"
        warn(f"{found.again[0]}{more} to what {folder} has already; each file is read once", "files")
    kind = _kind_among(found.files)
    if kind is None:
        raise DataError(f"{folder} has no tables or svmlight files; name a folder that has some")
    if any("\udc80" <= letter <= "\udcff" for path in found.files for letter in path[len(folder) :]):  # as Arrow asks
        raise InputMissingError(f"{folder} cannot be read, as the path of a file there is not UTF-8; rename it")
    called, told_by_names = FORMATS[kind].called, any(map(_named, found.files))
    for path in found.files[chosen]:
        if not _is_shard(path, kind):
            raise _no_shard(path, kind, found.files)
        if told_by_names and _suffix(path) and _named(path) is None:  # a.parquet.bak
            raise DataError(f"{path} has another ending than the {called} files beside it; rename it, or {AWAY}")
        if kind == SVMLIGHT and "=" in os.path.dirname(os.path.relpath(path, folder)):
            raise DataError(
                f"{path} lies in a folder that is called key=value, and rows of svmlight have no column of that name; "
                "list the files themselves, or write them as CSV or Parquet"
            )
    return found.files


def _no_shard(path: str, kind: str, files: Sequence[str]) -> DataError:
    """The error for a file in a folder of another kind, which names one of these."""
    what, called = kind_of(path, first_bytes(path, f"; {AWAY}")), FORMATS[kind].called
    if what is not None and what[0].startswith("compressed") and _named(path):
        return DataError(f"{path} is {what[0]}, and {called} is read as it is; unpack it")
    like = next((one for one in files if one != path and _shard_kind(one) == kind), None)
    shown = "" if like is None else f" ({like} is one)"
    return DataError(f"{path} is not {called}, but lies in a folder of {called} files; {AWAY}{shown}")


def _kind_among(files: Sequence[str]) -> str | None:
    """The kind of most of these files by their names; if none tells, of the first that is known by its first bytes."""
    named = Counter(filter(None, map(_named, files)))
    if named:
        return max(named, key=lambda kind: (named[kind], FORMATS[kind].table))
    return next(filter(None, map(_shard_kind, files[:LOOKED])), None)


def _shard_kind(path: str) -> str | None:
    """The kind of a file of a folder by its name, or else by its first bytes; text may be anything then."""
    if (named := _named(path)) is not None:
        return named
    found = _format(path) if os.path.isfile(path) else None
    found = ARROW if found == STREAM else found
    return found if found is not None and found != CSV and FORMATS[found].called else None


def _is_shard(path: str, kind: str) -> bool:
    """Whether this is a file of a folder of this kind. Raises InputMissingError."""
    if FORMATS[kind].text:
        return _format(path) == kind and (kind != CSV or _named(path) == CSV)
    starts = FORMATS[kind].starts + (FORMATS[STREAM].starts if kind == ARROW else ())
    return first_bytes(path, f"; {AWAY}").startswith(starts)


def _suffix(path: str) -> str:
    """The ending of a name, without that of compression."""
    return os.path.splitext(plain_stem(path))[1].lower()
