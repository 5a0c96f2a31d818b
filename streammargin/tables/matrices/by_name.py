"""Labels of rows with names, as the barcodes of cells: a table has them in any order."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from streammargin.errors import DataError
from streammargin.sources.label_column import LabelColumn
from streammargin.sources.labels import LabelCursor
from streammargin.tables.formats import is_table
from streammargin.tables.header import is_number
from streammargin.tables.matrices.base import Matrix
from streammargin.tables.open import open_table
from streammargin.tables.unnamed import may_be_index
from streammargin.wording import short


def split_name(y: str | None) -> tuple[str, str] | None:
    """(path of a table, column) if the labels are a column of a table; else None."""
    path, colon, column = (y or "").rpartition(":")
    return (path, column) if colon and os.path.isfile(path) and is_table(path) else None


def labelled(found: Matrix, name: str, path: str, column: str) -> Matrix:
    """A matrix, called `name`, with the labels that a column of a table has for the names of its rows.

    Raises DataError if it has no names of rows.
    """
    if found.ids is None:
        raise DataError(
            f"{name} has no barcodes, by which {path} names its labels; name labels in the "
            "order of the rows with `y=FILE.npy`"
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
    from streammargin.tables.index import repeated
    from streammargin.tables.labels import label_values
    from streammargin.tables.tally import coded, codes_of

    reader = open_table(path)
    others = [name for name in reader.columns if name != column]
    if names and not is_number(names[0]):
        others = [name for name in others if not (may_be_index(name) and repeated(reader, name) is False)] or others
    if column not in reader.columns or not others:
        raise DataError(f"{path} has no column {short(column)} beside a column of names; it has "
                        f"{', '.join(map(short, reader.columns))}")  # fmt: skip
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
