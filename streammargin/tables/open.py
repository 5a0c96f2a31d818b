"""Open the reader of a table."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from streammargin.arrow import check_installed
from streammargin.errors import DataError, UsageError
from streammargin.files import STANDARD_INPUT, no_file, twice_read
from streammargin.sources.open import is_path
from streammargin.tables.file_format import CSV, STREAM
from streammargin.tables.formats import FORMATS, format_of, is_pipe, piped
from streammargin.tables.header import ANYTHING, Expected
from streammargin.tables.readers.base import USUAL, Reader, Room
from streammargin.tables.textfile import Text

if TYPE_CHECKING:
    from streammargin.tables.readers.folder import Opened


def open_table(data: Any, expected: Expected = ANYTHING, kind: str | None = None, room: Room = USUAL) -> Reader:
    """The reader of a table, for which `is_table` is true. kind: its format, if it is known; room: of its memory.

    Raises DataError, InputMissingError, UsageError.
    """
    check_installed()
    if isinstance(data, list):
        return _several(data, expected, kind, room)
    if not isinstance(data, (str, os.PathLike)):
        from streammargin.tables.readers.arrow import of_object

        return of_object(data, room, expected)
    path = os.fspath(data)
    if is_pipe(path):
        return _piped(path, kind or format_of(path), expected, room)
    if not os.path.exists(path):
        raise no_file(path)
    if os.path.isdir(path):
        from streammargin.tables.readers.folder import of_folder

        return of_folder(path, room, opened=_opener(expected, room))
    return _of_file(path, kind or format_of(path), expected, room)


def _several(data: list[Any], expected: Expected, kind: str | None, room: Room) -> Reader:
    """The rows of several tables, as shards of one. Raises UsageError if a file is there twice by a folder."""
    from streammargin.tables.readers.folder import ChainedReaders, keyed, of_parts

    paths = [os.fspath(part) for part in data if is_path(part) and not is_pipe(os.fspath(part))]
    base = keyed(paths) if len(paths) == len(data) > 1 else ""
    if base:
        found: Reader = of_parts(paths, base, _opener(expected, room))
    else:
        readers = [open_table(part, expected, kind, room) for part in data]
        found = ChainedReaders(readers) if len(readers) > 1 else readers[0]
    if any(map(os.path.isdir, paths)) and (twice := twice_read(found.files())):
        raise UsageError(f"{twice[1]} is {twice[0]}, which is read already; name each file once, alone or by a folder")
    return found


def _opener(expected: Expected, room: Room) -> Opened:
    """Opens a file of a folder: the first one says what names the first lines of the others have."""

    def opened(path: str, keys: frozenset[str], names: frozenset[str] | None) -> Reader:
        own = replace(expected, names=expected.names - keys if names is None else names)
        return _of_file(path, format_of(path), own, room)

    return opened


def _of_file(path: str, kind: str | None, expected: Expected, room: Room) -> Reader:
    found = FORMATS[kind or CSV]
    if not found.text:
        return found.opened(path, expected, room)
    with Text(path) as text:
        return found.opened(text, expected, room)


def _piped(path: str, kind: str | None, expected: Expected, room: Room) -> Reader:
    """The reader of a pipe, which can be read once: text, or an Arrow stream."""
    file = piped(path)
    if kind == STREAM:
        from streammargin.tables.readers.arrow import of_stream

        return of_stream(file, "standard input" if path == STANDARD_INPUT else path, room)
    if not isinstance(file, Text):
        raise DataError("standard input is Parquet or Feather, which cannot be read from a pipe; name the file")
    return FORMATS[kind or CSV].opened(file, expected, room, once=True)
