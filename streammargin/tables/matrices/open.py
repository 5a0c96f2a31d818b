"""Open files of rows of numbers, one or several that are shards of one data set, with labels by names of their rows."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from streammargin.errors import DataError
from streammargin.files import STANDARD_INPUT, no_file
from streammargin.sources.batch import Batch, Ordered
from streammargin.sources.columns import alike
from streammargin.sources.hdf5.columns import LABELS, WEIGHTS
from streammargin.sources.kinds import column_saved, first_bytes
from streammargin.sources.labels import LabelColumn, LabelCursor, lie_inside
from streammargin.sources.masked import none_has
from streammargin.sources.names import chosen
from streammargin.sources.open import check_files
from streammargin.sources.shards import check_inside
from streammargin.tables.elsewhere import column_of, column_of_labels, split_name
from streammargin.tables.file_format import MARKET, SVMLIGHT, ZARR
from streammargin.tables.formats import FORMATS, files_of, format_of, is_pipe, parts_of, piped
from streammargin.tables.header import is_number, may_be_index
from streammargin.tables.matrices import market
from streammargin.tables.matrices.base import How, beside
from streammargin.tables.open import open_table
from streammargin.tables.readers.base import Room, stamp
from streammargin.tables.textfile import TEXT_PIECE, Text
from streammargin.wording import in_list, short

NAMED = (MARKET, ZARR)  # whose rows may have names


def open_matrix(paths: str | Sequence[str], how: How, kind: str | None = None) -> Ordered:
    """The rows of a file, or of several one after the other, as are their labels in another file.

    kind: the format, if it is known. Raises DataError, InputMissingError, UsageError.
    """
    files = [file for path in ([paths] if isinstance(paths, str) else paths) for file in _shards(path)]
    if len(files) == 1 or all(each is None or lie_inside(each) for each in (how.y, how.weight)):
        return _chained(files, how, kind)
    by_name = all((kind or format_of(file)) in NAMED for file in files)
    y = None if lie_inside(how.y) or (by_name and split_name(how.y)) else how.y
    weight = None if lie_inside(how.weight) else how.weight
    if how.mask is not None:  # those of another file are of all rows, and here some are left out
        check_inside("y", y)
        check_inside("sample_weight", weight)
    within = replace(how, y=how.y if y is None else None, weight=how.weight if weight is None else None)
    found, name = _chained(files, within, kind), f"{files[0]} and {len(files) - 1} more"
    if not by_name:
        y, weight = column_of(y, name, LABELS), column_of(weight, name, WEIGHTS)
    batches = beside(found.batches, name, replace(how, y=y, weight=weight, groups=None))
    return replace(found, batches=batches, label=column_of_labels(how.y) or found.label)


def _chained(files: Sequence[str], how: How, kind: str | None) -> Ordered:
    """The rows of these files, one after the other. Labels and weights are those of each file, or go by names."""
    named = chosen(how.columns)
    if len(files) == 1 and how.mask is None and not named:
        return _open(files[0], how, kind)
    if not named and all((kind or format_of(file)) == SVMLIGHT for file in files):  # nothing is known before it is read
        return replace(_open(files[0], how, kind), batches=_in_turn(files, how, kind))
    found = [replace(_open(file, how, kind), name=file) for file in files]
    found = [each for each in found if how.mask is None or each.count]
    if not found:
        raise none_has(files, how.mask or "")
    first, *others = found = alike(found, how.columns)
    for other in others:
        if (other.sparse, other.features) != (first.sparse, first.features):
            raise DataError(f"{other.name} has other columns than {first.name}; give all files the same columns")
    dtype = max((each.dtype for each in found), key=lambda one: one.itemsize)
    ids = None if any(each.ids is None for each in found) else chain(*(each.ids for each in found if each.ids))
    return replace(first, batches=chain.from_iterable(each.batches for each in found), dtype=dtype, ids=ids)


def _shards(path: str) -> list[str]:
    """The files of svmlight in a folder, or stores of anndata in one of zarr; else this file, or folder of cells.

    Raises DataError for others.
    """
    kind = None if is_pipe(path) or not os.path.isdir(path) else format_of(path)
    if kind == ZARR:  # as annbatch writes them
        inner = [name for name in os.listdir(path) if re.fullmatch(r"dataset_\d+", name)]
        return [os.path.join(path, name) for name in sorted(inner, key=lambda name: (len(name), name))] or [path]
    return parts_of(path, told=True) if kind == SVMLIGHT else [path]


def _in_turn(files: Sequence[str], how: How, kind: str | None) -> Iterator[Batch]:
    """The rows of these files, of which one is open at a time."""
    for file in files:
        with contextlib.ExitStack() as stack:
            yield from _open(file, replace(how, opened=stack), kind).batches


def _open(path: str, how: How, kind: str | None) -> Ordered:
    kind = kind or format_of(path)
    assert kind is not None
    if how.mask is not None:
        check_files(path)
    if kind == MARKET and os.path.isdir(path):
        path = market.inside(path) or path
    pipe, table = is_pipe(path), split_name(how.y) if kind in NAMED else None
    if not pipe and not os.path.exists(path):
        raise no_file(path)
    name = "standard input" if path == STANDARD_INPUT else path
    given: Any = path
    if FORMATS[kind].text:
        given = piped(path) if pipe else how.opened.enter_context(Text(path))
        given.piece, given.memory = Room(how.memory).text(TEXT_PIECE), how.memory
    elif pipe:
        raise DataError(f"{name} is a pipe, and {kind.upper()} cannot be read from a pipe; name a file")
    elif not os.path.isdir(path):
        first_bytes(path)  # says why it cannot be read
    if table is not None:
        return labelled(FORMATS[kind].opened(given, replace(how, y=None)), name, *table)
    label = column_of_labels(how.y)
    if kind not in NAMED:
        how = replace(how, y=column_of(how.y, name, LABELS), weight=column_of(how.weight, name, WEIGHTS))
    found = FORMATS[kind].opened(given, how)
    return found if label is None else replace(found, label=label)


def fingerprint(paths: Sequence[str]) -> str:
    """A text that changes when one of these files does; "" for pipes. Raises InputMissingError."""
    if any(map(is_pipe, paths)):
        return ""
    return stamp(files_of(list(paths)))


def labelled(found: Ordered, name: str, path: str, column: str) -> Ordered:
    """A matrix, called `name`, with the labels that a column of a table has for the names of its rows.

    Raises DataError if it has no names of rows.
    """
    if found.ids is None:
        raise DataError(
            f"{name} has no barcodes, by which {path} names its labels; name labels in the order of the rows with "
            f"`y=FILE.npy`, which this writes: {column_saved(path, column) or 'numpy.save'}"
        )
    ids = list(found.ids)
    labels, spelt = _labels_by_name(path, column, ids, name)
    cursor = LabelCursor(iter([labels]))
    batches = (batch._replace(labels=cursor.take(batch.rows)) for batch in found.batches)
    return replace(found, batches=batches, label=LabelColumn(None, spelt=spelt), ids=iter(ids))


def _labels_by_name(path: str, column: str, names: Sequence[str], whose: str) -> tuple[np.ndarray, bool]:
    """(labels of the rows with these names, whether they are spelt in text).

    The names stand in the first other column; whose: the file of the rows, for messages. Raises DataError if a row
    has no label, or two.
    """
    from streammargin.tables.apply import label_values
    from streammargin.tables.header import repeated
    from streammargin.tables.tally import coded, codes_of

    reader = open_table(path)
    others = [name for name in reader.columns if name != column]
    if names and not is_number(names[0]):
        others = [name for name in others if not (may_be_index(name) and repeated(reader, name) is False)] or others
    if column not in reader.columns or not others:
        raise DataError(f"{path} has no column {short(column)} beside a column of names; it has "
                        f"{', '.join(map(in_list, reader.columns))}")  # fmt: skip
    wanted = {name: row for row, name in enumerate(names)}
    kept: list[np.ndarray] = []
    places = np.full(len(names), -1)
    first = found = 0
    words = frozenset([others[0]] if reader.typed else [others[0], column])
    for batch in reader.batches([others[0], column], words):
        ids = coded(batch.column(0))
        rows = np.array([*(wanted.get(name, -1) for name in ids.dictionary.to_pylist()), -1])[codes_of(ids.indices)]
        ours = np.flatnonzero(rows >= 0)
        gaps = coded(batch.column(1), reader.gaps[:1]).is_null().to_numpy(zero_copy_only=False)
        for row in ours.tolist():
            if gaps[row]:
                raise DataError(f"{path}, {reader.place(first + row)}: the label is missing; give the row a label")
            if places[rows[row]] >= 0:
                raise DataError(
                    f"{path}, {reader.place(first + row)}: {names[rows[row]]} occurs twice; give each row one label"
                )
            places[rows[row]] = found
            found += 1
        kept.append(label_values([batch.column(1).take(ours)], reader, first))
        first += batch.num_rows
    lacking = np.flatnonzero(places < 0)
    if lacking.size:
        raise DataError(
            f"{path} has no label for {lacking.size} of the {len(names)} rows of {whose}, as {names[int(lacking[0])]} "
            f"in its column {short(others[0])}; add rows for them"
        )
    return np.concatenate(kept)[places], not reader.typed
