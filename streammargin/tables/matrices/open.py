"""Open files of rows of numbers, one or several that are shards of one data set."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from streammargin.errors import DataError
from streammargin.files import no_file
from streammargin.sources.batch import Batch
from streammargin.sources.names import check_same
from streammargin.tables.formats import MARKET, MATRICES, SVMLIGHT, files_of, format_of, is_pipe, parts_of, piped
from streammargin.tables.matrices import market
from streammargin.tables.matrices.base import Format, How, Matrix
from streammargin.tables.matrices.by_name import labelled, split_name
from streammargin.tables.readers.room import Room
from streammargin.tables.stamp import stamp
from streammargin.tables.textfile import PIECE, Text


def open_matrix(paths: str | Sequence[str], how: How, kind: str | None = None) -> Matrix:
    """The rows of a file, or of several one after the other. kind: the format, if it is known.

    Raises DataError, InputMissingError, UsageError.
    """
    files = [file for path in ([paths] if isinstance(paths, str) else paths) for file in _shards(path)]
    if len(files) == 1:
        return _open(files[0], how, kind)
    if all((kind or format_of(file)) == SVMLIGHT for file in files):  # nothing is known before it is read
        return replace(_open(files[0], how, kind), batches=_in_turn(files, how, kind))
    found = [_open(file, how, kind) for file in files]
    first = found[0]
    for path, other in zip(files[1:], found[1:], strict=True):
        check_same(first.names, other.names, files[0], path)
        if (other.sparse, other.features) != (first.sparse, first.features):
            raise DataError(f"{path} has other columns than {files[0]}; give all files the same columns")
    dtype = max((each.dtype for each in found), key=lambda one: one.itemsize)
    ids = None if any(each.ids is None for each in found) else chain(*(each.ids for each in found if each.ids))
    return replace(first, batches=chain.from_iterable(each.batches for each in found), dtype=dtype, ids=ids)


def _shards(path: str) -> list[str]:
    """The files of svmlight in a folder; else this file, or folder of single cells. Raises DataError for others."""
    folder = not is_pipe(path) and os.path.isdir(path) and format_of(path) == SVMLIGHT
    return parts_of(path, told=True) if folder else [path]


def _in_turn(files: Sequence[str], how: How, kind: str | None) -> Iterator[Batch]:
    """The rows of these files, of which one is open at a time."""
    for file in files:
        with contextlib.ExitStack() as stack:
            yield from _open(file, replace(how, opened=stack), kind).batches


def _open(path: str, how: How, kind: str | None) -> Matrix:
    kind = kind or format_of(path)
    assert kind in MATRICES
    if kind == MARKET and os.path.isdir(path):
        path = market.inside(path) or path
    if not is_pipe(path) and not os.path.exists(path):
        raise no_file(path)
    module: Format = importlib.import_module(MATRICES[kind])
    text = piped(path) if is_pipe(path) else how.opened.enter_context(Text(path))
    if module.TEXT:
        text.piece, text.memory = Room(how.memory).text(PIECE), how.memory
    if not module.TEXT and is_pipe(path):
        raise DataError(f"{text.name} is a pipe, and {kind.upper()} cannot be read from a pipe; name a file")
    if (table := split_name(how.y)) is not None:
        return labelled(module.read(text, replace(how, y=None)), text.name, *table)
    return module.read(text, how)


def fingerprint(paths: Sequence[str]) -> str:
    """A text that changes when one of these files does; "" for pipes. Raises InputMissingError."""
    if any(map(is_pipe, paths)):
        return ""
    return stamp(files_of(list(paths)))
