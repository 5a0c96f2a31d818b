"""Tables, files of numbers and batches as data of a training: their rows are spooled first."""

from __future__ import annotations

import functools
import os
from contextlib import ExitStack
from dataclasses import replace

from streammargin.errors import UsageError
from streammargin.options.table import Options, read_by
from streammargin.ordered import files_read, is_matrix, is_table
from streammargin.reading.plan import check_least
from streammargin.sizes import parse_size
from streammargin.sources.arrays import is_anndata
from streammargin.sources.base import Source
from streammargin.sources.labels import lie_inside
from streammargin.sources.open import name_of_labels, opened, paths_of
from streammargin.tables.asked import ERROR, Asked
from streammargin.tables.elsewhere import lie_outside
from streammargin.tables.header import Expected
from streammargin.tables.matrices.base import How, tasks_in_memory
from streammargin.tables.open import open_table
from streammargin.tables.readers.base import Room
from streammargin.tables.spool import OfBatches, OfMatrix, OfTable, again, spooled
from streammargin.tables.table import matched, with_roles
from streammargin.training.prepare import bytes_of_weights
from streammargin.wording import shown, warn


def of_table(stack: ExitStack, data: object, options: Options) -> tuple[Source, object]:
    """The rows of a table as a source, and the held-out data, if these are a table as one, too."""
    if not isinstance(options.tasks, (str, type(None))):
        raise UsageError(f"`tasks` of a table is the name of a column, not {shown(options.tasks)}")
    if options.x is not None:
        raise UsageError("`x` names a dataset of HDF5; name the columns of a table with `columns`")
    y, weight = (os.fspath(each) if isinstance(each, os.PathLike) else each
                 for each in (options.y, options.sample_weight))  # fmt: skip
    of_columns = asked_of(options)
    asked = replace(of_columns, y="") if lie_outside(y, ()) else of_columns
    room = Room(parse_size(options.memory), "" if options.spool is None else os.path.join(options.spool, "rows"))
    reader = again(stack, open_table(data, _expected(asked), room=room), options.spool)
    by = getattr(options.cv, "by", None)
    tasks, naming = (by, "cv") if options.tasks is None else (options.tasks, "tasks")
    others = [each if lie_outside(each, reader.columns) else None for each in (y, weight)]
    valid = options.valid
    if others[0] is not None and is_table(valid):
        raise UsageError("`y` has labels only of the training rows, and not of `valid`; put labels "
                         "into a column of both tables, or hold out a share of the rows with `valid=0.2`")  # fmt: skip
    asked = of_columns if others[0] is None else asked  # a column may be called like a file
    own = weight if others[1] is None else None
    table = with_roles(reader, asked, own, tasks=tasks, naming_tasks=naming)  # type: ignore[arg-type]  # checked
    check = functools.partial(_check_memory, options, table.name, len(table.labels))
    read = _read(data, options)
    files = [each if isinstance(each, str) else None for each in others]
    arrays = [None if isinstance(each, str) else each for each in others]
    rows = OfTable(table, check=check, y=files[0], weight=files[1])
    source = stack.enter_context(spooled(rows, options.spool, y=arrays[0], weight=arrays[1], read=read))
    if is_table(valid):
        assert source.table_schema is not None
        known = source.table_schema.known
        other = again(stack, open_table(valid, _expected(asked, known), room=room), options.spool)
        schema = matched(other, source.table_schema, table.labels, tasks=table.tasks)
        asked = replace(asked, unknown=options.unknown or ERROR)
        held_out = replace(table, reader=other, asked=asked, values=schema.values, weight="")
        valid = stack.enter_context(spooled(OfTable(held_out, schema), options.spool, ".valid.h5", read=read))
    elif paths_of(valid) and not isinstance(valid, (Source, tuple)):
        valid = stack.enter_context(opened(valid, y=name_of_labels(valid, table.labels)))
    return source, valid


def _check_memory(options: Options, name: str, outputs: int, rows: int, features: int, row_bytes: int) -> None:
    """UsageError if a training on such rows, of at least so many, cannot keep to the memory."""
    state = bytes_of_weights(options, max(1, outputs), features)
    check_least(name, parse_size(options.memory), state, rows, row_bytes)


def _expected(asked: Asked, known: frozenset[str] = frozenset()) -> Expected:
    """The allowed contents of the first line of a text; known: columns of the training."""
    if isinstance(asked.y, tuple):
        return Expected(names=known | set(asked.y))
    return Expected(None if asked.y == "" else asked.y, asked.y != "", known)


def of_matrix(stack: ExitStack, data: object, options: Options) -> tuple[Source, object, object]:
    """The same of files of rows of numbers, and their tasks (n,), if any; labels and weights may be arrays."""
    tasks = None if options.tasks is None else tasks_in_memory(options.tasks, "rows of numbers", options.mask)
    y, weight = options.y, options.sample_weight
    by = getattr(options.cv, "by", None)
    named = [os.fspath(each) if isinstance(each, (str, os.PathLike)) else None for each in (y, weight)]
    how = How("", stack, options.x, named[0], named[1], parse_size(options.memory), mask=options.mask,
              columns=options.of_files, groups=by if lie_inside(by) else None)  # fmt: skip
    y, weight = (None if name else value for name, value in zip(named, (y, weight), strict=True))
    rows = OfMatrix(paths_of(data), how, y is None)
    rows = replace(rows, check=functools.partial(_check_memory, options, rows.name, 1))
    read = _read(data, options)
    source = stack.enter_context(spooled(rows, options.spool, y=y, weight=weight, read=read))
    valid = options.valid
    if is_matrix(valid):
        features = source.features if source.sparse else None
        own = replace(how, features=features, groups=None, y=how.y if lie_inside(how.y) else None)
        valid = stack.enter_context(spooled(OfMatrix(paths_of(valid), own), options.spool, ".valid.h5", read=read))
    elif is_anndata(valid) or (paths_of(valid) and not isinstance(valid, (Source, tuple))):
        y = how.y if lie_inside(how.y) else None
        valid = stack.enter_context(opened(valid, x=how.x, y=y, mask=how.mask, columns=how.columns))
    return source, valid, tasks


def _read(data: object, options: Options) -> list[str]:
    """The files of the training, if there is a spool that stays and could replace one."""
    return [] if options.spool is None else files_read(data, **read_by(vars(options)))


def of_batches(stack: ExitStack, data: object, options: Options) -> Source:
    """Batches that pass by once, as a source."""
    return stack.enter_context(spooled(OfBatches(data), options.spool))


def asked_of(options: Options) -> Asked:
    """The options that concern a table; a scale that does not suit its text is a warning."""
    if options.text and options.scaling[0] == "std":
        better = "use `scale=maxabs`, or leave `scale` out"
        warn(f"`scale={options.scale}` gives rare words of `text` large values; {better}", "scale")
    name, _, grams = (options.text or "").partition(",ngrams=")
    y = options.y if isinstance(options.y, (int, tuple, type(None))) else str(options.y)
    return Asked(
        y=y, columns=tuple(options.columns or ()),
        drop=tuple(options.drop or ()), categorical=tuple(options.categorical or ()),
        text=((name, int(grams or 1)),) if name else (), decimal=options.decimal,
        dates=options.dates or None, missing=options.missing,
    )  # fmt: skip
