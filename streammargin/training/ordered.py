"""Rows that are read front to back as data of a training: they become sources."""

from __future__ import annotations

import os
from contextlib import ExitStack

from streammargin.errors import UsageError
from streammargin.files import STANDARD_INPUT, check_input
from streammargin.options.folds import Folds
from streammargin.options.table import Options, Where, options_for
from streammargin.ordered import PRESENT, columns_of, is_matrix, is_table
from streammargin.sources.label_column import TASKS
from streammargin.sources.open import check_files, is_path, is_source, is_stream, paths_of
from streammargin.training.task import make_task

NAMES = [line.name for line in options_for(Where.SHELL) if line.theme == "table"]
SPOOL = "spool"


def is_spooled(data: object, options: Options) -> bool:
    """Whether the data are batches that are to be written to a spool, so that they can be read again."""
    return PRESENT and options.spool is not None and not is_table(data) and is_stream(data)


def from_tables(stack: ExitStack, data: object, options: Options) -> tuple[object, Options]:
    """Data and options with tables, files of numbers and batches replaced by sources; the stack removes what is theirs.

    Raises DataError, OutputError, ReadWriteError, and UsageError for options of tables without a table.
    """
    if is_table(data) and (several := columns_of(options.y)) is not None:
        options = _without(options, [], y=several)
    # labels in an array: the columns of a frame are all values
    beside = not isinstance(options.y, (str, int, tuple, type(None)))
    given = [name for name in NAMES if getattr(options, name) is not None]
    if is_table(data) or is_matrix(data):
        _check_before(options)
    if options.mask is not None:
        check_files(data)
    if is_matrix(data):
        from streammargin.training.tables import of_matrix

        if others := [name for name in given if name != SPOOL]:
            raise UsageError(f"`{others[0]}` is for tables; leave it out, as rows of numbers have all their columns")
        source, valid, tasks = of_matrix(stack, data, options)
        return source, _without(options, ["x", "y", "sample_weight", SPOOL], valid=valid, tasks=tasks)
    if is_table(data) and (not beside or is_path(data)):
        from streammargin.training.tables import of_table

        source, valid = of_table(stack, data, options)
        tasks, cv = None if options.tasks is None else TASKS, options.cv
        if isinstance(cv, Folds) and cv.by is not None:  # written beside the rows, as tasks are
            cv = cv.replace(by=TASKS)
        return source, _without(options, ["y", "sample_weight", *NAMES], valid=valid, tasks=tasks, cv=cv)
    spooled_away = is_spooled(data, options)
    given = [name for name in given if not (spooled_away and name == SPOOL)]
    if given and all(map(is_source, paths_of(data))):  # else it is said what a file is not
        raise UsageError(f"`{given[0]}` is for tables: frames, CSV, Parquet, Feather; leave it out")
    if spooled_away:
        from streammargin.training.tables import of_batches

        return of_batches(stack, data, options), _without(options, [SPOOL])
    return data, options


def _check_before(options: Options) -> None:
    """What would be refused after the rows are written, if no row is needed for it. UsageError, InputMissingError."""
    make_task(options)
    paths = paths_of(options.valid) if is_path(options.valid) or isinstance(options.valid, list) else []
    for path in paths:
        if path != STANDARD_INPUT and not os.path.exists(path):
            check_input(path)
    if is_path(options.init):
        check_input(os.fspath(options.init), "model file")


def _without(options: Options, names: list[str], **others: object) -> Options:
    """The options without these, which the spool has used up, and with others."""
    return Options.of({**vars(options), **others, **dict.fromkeys(names)})
