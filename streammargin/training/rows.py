"""Training on rows that can be read again."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

from streammargin.driver.loop.holders import Elsewhere
from streammargin.driver.loop.runs import run
from streammargin.driver.save.checkpoint import PLAN, Checkpoint, OtherTraining
from streammargin.driver.save.slots import written_by
from streammargin.driver.status.events import History
from streammargin.errors import OtherRowsError, ReadWriteError, UsageError
from streammargin.files import STANDARD_INPUT, check_apart, check_input
from streammargin.options.folds import Folds
from streammargin.options.table import TABLE_OPTIONS, Options, asked_digest, digest_of, read_by
from streammargin.ordered import PRESENT, columns_of, files_read, is_matrix, is_table
from streammargin.reading.prefetch import Stopwatch
from streammargin.result import TrainResult
from streammargin.sources.labels import TASKS, lie_inside
from streammargin.sources.open import check_files, is_path, is_shards, is_source, is_stream, paths_of
from streammargin.training.held_out import say_if_trained_on
from streammargin.training.job import Job
from streammargin.training.prepare import prepare
from streammargin.training.task import make_task

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
    given = [name for name in TABLE_OPTIONS if getattr(options, name) is not None]
    if is_table(data) or is_matrix(data):
        _check_before(options)
    if options.of_files is not None and (is_path(data) or is_shards(data)) and not is_table(data):
        given.remove("columns")
    if options.mask is not None:
        check_files(data, options.y, options.sample_weight, options.tasks)
    if is_matrix(data):
        from streammargin.training.tables import of_matrix

        if others := [name for name in given if name != SPOOL]:
            raise UsageError(f"`{others[0]}` is for tables; leave it out, as rows of numbers have all their columns")
        source, valid, tasks = of_matrix(stack, data, options)
        cv = options.cv
        if isinstance(cv, Folds) and lie_inside(cv.by):
            cv = cv.replace(by=TASKS)
        return source, _without(options, ["x", "y", "sample_weight", SPOOL], valid=valid, tasks=tasks, cv=cv)
    if is_table(data) and (not beside or is_path(data) or is_shards(data)):
        from streammargin.training.tables import of_table

        source, valid = of_table(stack, data, options)
        tasks, cv = None if options.tasks is None else TASKS, options.cv
        if isinstance(cv, Folds) and cv.by is not None:  # written beside the rows, as tasks are
            cv = cv.replace(by=TASKS)
        return source, _without(options, ["y", "sample_weight", *TABLE_OPTIONS], valid=valid, tasks=tasks, cv=cv)
    if given and is_table(data[0] if isinstance(data, tuple) and data else data):
        how = "add them as a column, and name it in `y`, as train(frame, `y=NAME`)"
        raise UsageError(f"`{given[0]}` is for tables that hold their labels; {how}")
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


class DataKind(NamedTuple):
    """The handling of data of one kind: opened (data, options), which may be read again; its job; and its files."""

    opened: Callable[[ExitStack, object, Options], tuple[object, Options]]
    prepare: Callable[[ExitStack, object, Options, float, bool], Job]
    paths: Callable[[object], list[str]]


ROW_DATA = DataKind(from_tables, prepare, paths_of)


def train_rows(
    data: object, options: Options, history: History, should_stop: Callable[[], str | None] | None,
    elsewhere: Elsewhere | None = None, given: DataKind = ROW_DATA,
) -> TrainResult:  # fmt: skip
    """Train on a path, a list of paths, (X, y), X, a Source or a table; elsewhere: who holds the rows of a reader."""
    say_if_trained_on(data, options.held_out)
    asked = asked_digest(options, paths_of(data))  # of the files that are named, as a command knows them
    with ExitStack() as stack:
        typed, (data, options) = options, given.opened(stack, data, options)
        checkpoint = None
        if options.checkpoint is not None:  # the lock keeps other processes from writing to the directory
            check_apart(written_by(options.checkpoint), files_read(given.paths(data), **read_by(vars(options))))
            checkpoint = stack.enter_context(Checkpoint(options.checkpoint, options.checkpoint_seconds))
        try:
            return _train(stack, data, options, history, should_stop, checkpoint, elsewhere, given, asked, typed)
        except (OtherTraining, OtherRowsError) as other:
            if checkpoint is None or not checkpoint.finished:
                raise
            history.start_over()  # first: a listener may refuse
            checkpoint.replace("on other rows" if isinstance(other, OtherRowsError) else "a different one")
            return _train(stack, data, options, history, should_stop, checkpoint, elsewhere, given, asked, typed)


def _train(
    stack: ExitStack, data: object, options: Options, history: History, should_stop: Callable[[], str | None] | None,
    checkpoint: Checkpoint | None, elsewhere: Elsewhere | None, given: DataKind, asked: str, typed: Options,
) -> TrainResult:  # fmt: skip
    """See `train_rows`; asked: the digest of what is asked for, typed: the options with those that a spool uses up."""
    least_tol = math.inf if checkpoint is None else checkpoint.least_tol()
    job = given.prepare(stack, data, options, least_tol, elsewhere is not None)
    training = job.training(history, should_stop, elsewhere)
    start, name = job.run_start(typed), None
    if checkpoint is not None:
        known = job.identity()
        name = f"{asked}-{digest_of({**known, PLAN: None})}"  # tol may change the plan
    if checkpoint is None or not checkpoint.resume(training, known, start, name):
        history.publish(start)
    watch = Stopwatch()
    try:
        outcome = run(training, None if checkpoint is None else checkpoint.keep)
    except ReadWriteError as error:
        if checkpoint is None or elsewhere is None:
            raise
        checkpoint.keep(training, "signal")  # the last read has added nothing
        raise ReadWriteError(f"{error.raw}; the same training resumes from {checkpoint.folder}") from error
    except ArithmeticError as error:
        raise error if checkpoint is None else checkpoint.contradicted(error) from None
    if checkpoint is not None:
        checkpoint.finish(training)
    result = job.result(outcome, watch.read(), history)
    result.model.header["job"] = name
    if checkpoint is not None:
        result.resumable = checkpoint.written and (result.limit or result.reason) in ("signal", "seconds")
        result.replaced = checkpoint.replaced
    return result
