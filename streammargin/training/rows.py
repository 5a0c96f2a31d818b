"""Training on rows that can be read again."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

from streammargin.driver.checkpoint import PLAN, Checkpoint, OtherTraining
from streammargin.driver.clock import Stopwatch
from streammargin.driver.events import History
from streammargin.driver.holders import Elsewhere
from streammargin.driver.runs import run
from streammargin.driver.slots import written_by
from streammargin.errors import OtherRowsError, ReadWriteError
from streammargin.files import check_apart
from streammargin.options.table import Options, asked_digest, digest_of, read_by
from streammargin.ordered import files_read
from streammargin.result import TrainResult
from streammargin.sources.open import paths_of
from streammargin.training.held_out import say_if_trained_on
from streammargin.training.job import Job
from streammargin.training.ordered import from_tables
from streammargin.training.prepare import prepare


class Given(NamedTuple):
    """The handling of data of one kind: opened (data, options), which may be read again; its job; and its files."""

    opened: Callable[[ExitStack, object, Options], tuple[object, Options]]
    prepare: Callable[[ExitStack, object, Options, float, bool], Job]
    paths: Callable[[object], list[str]]


ROWS = Given(from_tables, prepare, paths_of)


def train_rows(
    data: object, options: Options, history: History, should_stop: Callable[[], str | None] | None,
    elsewhere: Elsewhere | None = None, given: Given = ROWS,
) -> TrainResult:  # fmt: skip
    """Train on a path, a list of paths, (X, y), X, a Source or a table; elsewhere: who holds the rows of a reader."""
    say_if_trained_on(data, options.held_out)
    with ExitStack() as stack:
        data, options = given.opened(stack, data, options)
        checkpoint = None
        if options.checkpoint is not None:  # the lock keeps other processes from writing to the directory
            check_apart(written_by(options.checkpoint), files_read(given.paths(data), **read_by(vars(options))))
            checkpoint = stack.enter_context(Checkpoint(options.checkpoint, options.checkpoint_seconds))
        try:
            return _train(stack, data, options, history, should_stop, checkpoint, elsewhere, given)
        except (OtherTraining, OtherRowsError) as other:
            if checkpoint is None or not checkpoint.finished:
                raise
            history.start_over()  # first: a listener may refuse
            checkpoint.replace("on other rows" if isinstance(other, OtherRowsError) else "a different one")
            return _train(stack, data, options, history, should_stop, checkpoint, elsewhere, given)


def _train(
    stack: ExitStack, data: object, options: Options, history: History, should_stop: Callable[[], str | None] | None,
    checkpoint: Checkpoint | None, elsewhere: Elsewhere | None, given: Given,
) -> TrainResult:  # fmt: skip
    least_tol = math.inf if checkpoint is None else checkpoint.least_tol()
    job = given.prepare(stack, data, options, least_tol, elsewhere is not None)
    training = job.training(history, should_stop, elsewhere)
    start, name = job.run_start(), None
    if checkpoint is not None:
        known = job.identity()
        name = (
            f"{asked_digest(options, given.paths(data))}-{digest_of({**known, PLAN: None})}"  # tol may change the plan
        )
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
