"""Rows that are read front to back, for a model: scored while they are read, and never kept."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from streammargin.errors import DataError, NoSuchRowsError, UsageError
from streammargin.files import temporary_folder
from streammargin.model.columns import checked
from streammargin.model.scoring import Scorer
from streammargin.ordered import is_matrix
from streammargin.sources.batch import Batch, Ordered
from streammargin.sources.hdf5.columns import LABELS
from streammargin.sources.labels import ATTRIBUTE, LabelCursor
from streammargin.sources.names import ALL_COLUMNS, all_of
from streammargin.sources.open import paths_of
from streammargin.sources.schema import TEXT, Schema, plain_schema
from streammargin.tables.asked import Asked
from streammargin.tables.elsewhere import column_of, lie_outside
from streammargin.tables.file_format import NPZ, TENSORS, ZARR
from streammargin.tables.formats import format_of, is_pipe
from streammargin.tables.header import Expected
from streammargin.tables.matrices.base import MEMORY, How, beside, tasks_in_memory
from streammargin.tables.matrices.open import fingerprint, open_matrix
from streammargin.tables.open import open_table
from streammargin.tables.readers.base import USUAL, Room
from streammargin.tables.table import NamesBeside, apart, check_named, matched, places_of
from streammargin.tables.tally import coded
from streammargin.wording import short


class WantedRows(NamedTuple):
    """The request for rows to score, as for `Model.rows_of`."""

    x: str | None
    y: Any
    labelled: bool
    unknown: str
    id: tuple[str, ...]
    tasks: Any
    memory: int | None
    missing_columns: str
    mask: str | None


@contextlib.contextmanager
def in_order(data: Any, model: Scorer, schema: Schema | None, wanted: WantedRows) -> Iterator[Ordered]:
    """The rows of a table, or of files of numbers, for a model, whose columns the schema has; None: it has none.

    Raises DataError, InputMissingError, UsageError.
    """
    missing = checked(wanted.missing_columns)
    with ExitStack() as stack:
        if is_matrix(data):
            yield _of_files(stack, paths_of(data), model, wanted)
        else:
            known = schema or plain_schema(model.feature_names_in_, model.answer.features, model.header.get(ATTRIBUTE))
            yield _of_table(stack, data, known, tuple(model.outputs or ()), wanted, missing)


def _of_table(
    stack: ExitStack, data: Any, schema: Schema, outputs: tuple[str, ...], wanted: WantedRows, missing: str
) -> Ordered:  # fmt: skip
    """The rows of a table as the schema of a model makes them; outputs: the columns of its labels, if several."""
    asked, y, tasks = Asked(unknown=wanted.unknown), wanted.y, wanted.tasks
    if tasks is not None and not isinstance(tasks, str):
        raise UsageError("`tasks` of a table is the name of a column, not an array; put the tasks into the table")
    y = (schema.labels or outputs if y is None else y) if wanted.labelled else None
    if isinstance(y, tuple) and not y:
        raise UsageError("the column of the labels is not known; name it with `y`")
    own = None if lie_outside(y, ()) else y
    label = next(iter(schema.labels), None) if own is None or isinstance(own, tuple) else own
    room = USUAL if wanted.memory is None else Room(wanted.memory)
    reader = open_table(data, Expected(label, own is not None, schema.known, scored=True), room=room)
    outside = y if lie_outside(y, reader.columns) else None
    labels = () if y is None or outside is not None else tuple(map(str, apart(y, reader)))
    known = set(schema.values)  # a lack of these is said below
    labels = labels if wanted.y is None or known & set(labels) else places_of(reader, labels)
    for option, names in (("id", wanted.id), ("tasks", [wanted.tasks])):
        check_named(reader, (name for name in names if name not in known), option)
    schema = matched(reader, schema, labels, wanted.id, tasks or "", missing)
    from streammargin.tables.apply import rows_of

    found = rows_of(reader, schema, asked, NamesBeside(labels, id=wanted.id, tasks=tasks or ""))
    found = beside(found, reader.name, How("", stack, y=column_of(outside, reader.name, LABELS)))
    return Ordered(found, schema.sparse, schema.features, np.dtype(schema.dtype), name=reader.name,
                   key=reader.fingerprint, matched=True, line=None if reader.typed else reader.place)  # fmt: skip


def _of_files(stack: ExitStack, paths: list[str], model: Scorer, wanted: WantedRows) -> Ordered:
    """Rows of numbers of files, which the stack closes; of sparse ones the columns of the model."""
    tasks = None if wanted.tasks is None else tasks_in_memory(wanted.tasks, "the rows", wanted.mask)
    name = paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    near = os.path.join(stack.enter_context(temporary_folder()), "rows")
    y = wanted.y if wanted.labelled and isinstance(wanted.y, str) else None
    memory = MEMORY if wanted.memory is None else wanted.memory
    how = How(near, stack, wanted.x, y, None, memory, mask=wanted.mask, columns=model.shared(wanted.missing_columns))
    found = model.with_columns(replace(open_matrix(paths, how), name=name), wanted.missing_columns, wanted.memory)
    if wanted.labelled and y is None and wanted.y is not None:
        found = replace(found, batches=beside(found.batches, name, replace(how, y=column_of(wanted.y, name, LABELS))))
    ids = [_names(found, name, paths, how, column) for column in wanted.id]
    features = model.answer.features if found.features is None else found.features

    def batches() -> Iterator[Batch]:
        first = 0
        for batch in found.batches:
            widest = int(batch.indices.max()) + 1 if batch.indices is not None and batch.indices.size else 0
            if widest > features:
                raise DataError(f"{name} has {widest} columns or more, but the model was trained on {features}")
            own = None if tasks is None else tasks[first : first + batch.rows]
            if own is not None and len(own) < batch.rows:
                raise DataError(f"{name} has more rows than the {len(own) + first} tasks; give one for each row")
            yield batch._replace(tasks=own, ids=tuple(take(batch.rows) for take in ids))
            first += batch.rows
        if first and tasks is not None and len(tasks) > first:
            raise DataError(f"{name} has {first} rows, but there are {len(tasks)} tasks; give one for each")

    key = functools.partial(fingerprint, paths)
    return replace(found, batches=batches(), features=features, key=key)


def has_rows(paths: list[str], x: str) -> bool:
    """Whether these files have rows of this name, or rows without one, as text has them."""
    if not {format_of(path) for path in paths} <= {NPZ, TENSORS, ZARR}:
        return True
    with contextlib.suppress(NoSuchRowsError), ExitStack() as stack:
        open_matrix(paths, How("", stack, x, columns=ALL_COLUMNS))
        return True
    return False


def _names(found: Ordered, of: str, paths: list[str], how: How, name: str) -> Callable[[int], np.ndarray]:
    """What takes so many of the names of rows that are called so: of barcodes, or a column beside the rows."""
    inside = ":" not in name and not name.endswith(".npy")
    if found.ids is not None and inside:
        ids = found.ids
        return lambda count: np.array(list(itertools.islice(ids, count)), object)
    if any(map(is_pipe, paths)):
        raise UsageError(f"{of} is a pipe, which is read once, so it has no names of rows; leave out `id`")
    if inside and format_of(paths[0]) != NPZ:
        raise UsageError(f"{of} has no names of rows; name those of another file, with `id=FILE.npy` or "
                         "`id=FILE:NAME`, or leave `id` out")  # fmt: skip
    again = open_matrix(paths, replace(how, y=name))
    return LabelCursor(batch.labels for batch in again.batches if batch.labels is not None).take


def words_of(schema: Schema, data: Any, columns: Collection[int], memory: int) -> dict[int, list[tuple[str, int]]]:
    """The words of a table that fall in each of these hashed columns, and how often; the most frequent one first.

    data: a table with the text that the schema hashes. memory: bytes for reading. Raises DataError without it.
    """
    from streammargin.tables.apply import words_in

    reader = open_table(data, Expected(None, False, schema.known), room=Room(memory))
    found: dict[int, Counter[str]] = defaultdict(Counter)
    for column, start in zip(schema.read.columns, schema.starts.tolist(), strict=False):
        if column.kind != TEXT:
            continue
        if column.name not in reader.columns:
            its = all_of(reader.columns)
            raise DataError(f"{reader.name} has no column {short(column.name)}, which the model hashes; it has {its}")
        for batch in reader.batches([column.name], frozenset([column.name])):
            words, counts, places = words_in(coded(batch.column(0), reader.gaps, trimmed=True), column.ngrams)
            for k in np.flatnonzero(np.isin(places + start, list(columns))).tolist():
                found[start + int(places[k])][words[k]] += counts[k]
    return {place: sorted(words.items(), key=lambda one: (-one[1], one[0])) for place, words in found.items()}
