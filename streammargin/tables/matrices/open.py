"""Open files of rows of numbers, one or several that are shards of one data set."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from streammargin.errors import DataError, InputMissingError
from streammargin.files import stamp
from streammargin.sources.names import check_same
from streammargin.tables.formats import MARKET, MATRICES, format_of, is_pipe, piped
from streammargin.tables.matrices import market
from streammargin.tables.matrices.base import Format, How, Matrix
from streammargin.tables.matrices.by_name import labelled, split_name
from streammargin.tables.textfile import Text


def open_matrix(paths: str | Sequence[str], how: How, kind: str | None = None) -> Matrix:
    """The rows of a file, or of several one after the other. kind: the format, if it is known.

    Raises DataError, InputMissingError, UsageError.
    """
    if isinstance(paths, str):
        return _open(paths, how, kind)
    found = [_open(path, how, kind) for path in paths]
    first = found[0]
    for path, other in zip(paths[1:], found[1:], strict=True):
        check_same(first.names, other.names, paths[0], path)
        if (other.sparse, other.features) != (first.sparse, first.features):
            raise DataError(f"{path} has other columns than {paths[0]}; give all files the same columns")
    dtype = max((each.dtype for each in found), key=lambda one: one.itemsize)
    ids = None if any(each.ids is None for each in found) else chain(*(each.ids for each in found if each.ids))
    return replace(first, batches=chain.from_iterable(each.batches for each in found), dtype=dtype, ids=ids)


def _open(path: str, how: How, kind: str | None) -> Matrix:
    kind = kind or format_of(path)
    assert kind in MATRICES
    if kind == MARKET and os.path.isdir(path):
        path = market.inside(path) or path
    if not is_pipe(path) and not os.path.exists(path):
        raise InputMissingError(f"{path}: no such file")
    module: Format = importlib.import_module(MATRICES[kind])
    text = piped(path) if is_pipe(path) else how.opened.enter_context(Text(path))
    if not module.TEXT and is_pipe(path):
        raise DataError(f"{text.name} is a pipe, and {kind.upper()} cannot be read from a pipe; name a file")
    if (table := split_name(how.y)) is not None:
        return labelled(module.read(text, replace(how, y=None)), text.name, *table)
    return module.read(text, how)


def fingerprint(paths: Sequence[str]) -> str:
    """A text that changes when one of these files does; "" for pipes. Raises InputMissingError."""
    if any(map(is_pipe, paths)):
        return ""
    missing = [path for path in paths if not os.path.exists(path)]
    if missing:
        raise InputMissingError(f"{missing[0]}: no such file")
    return stamp(name for path in paths for name in (path, *market.names_beside(path).values()))
