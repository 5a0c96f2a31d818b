"""Training on rows that can be read again."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from streammargin.driver.checkpoint import Checkpoint
from streammargin.driver.events import History
from streammargin.driver.runs import run
from streammargin.driver.slots import written_by
from streammargin.errors import UsageError
from streammargin.files import check_apart
from streammargin.options.table import Options, read_by
from streammargin.result import TrainResult
from streammargin.sources.open import files_read
from streammargin.training.prepare import prepare


def train_rows(
    data: Any, options: Options, history: History, should_stop: Callable[[], str | None] | None
) -> TrainResult:
    """Train on a path, a list of paths, (X, y), X or a Source."""
    if options.resume and options.checkpoint is None:
        raise UsageError("`resume` goes on from a directory; name it with `checkpoint=DIR`")
    with ExitStack() as stack:
        checkpoint = None
        if options.checkpoint is not None:  # nobody else writes to the directory from here on
            check_apart(written_by(options.checkpoint), files_read(data, **read_by(vars(options))))
            checkpoint = stack.enter_context(Checkpoint(options.checkpoint, options.checkpoint_seconds))
        least = checkpoint.least_tol() if checkpoint is not None and options.resume else math.inf
        job = prepare(stack, data, options, least)
        training = job.training(history, should_stop)
        if checkpoint is None or not checkpoint.resume(training, job.identity(), options.resume):
            history.publish(job.run_start())
        started = time.perf_counter()
        try:
            outcome = run(training, None if checkpoint is None else checkpoint.keep)
        except ArithmeticError as error:
            raise error if checkpoint is None else checkpoint.contradicted(error) from None
        if checkpoint is not None:
            checkpoint.finish(training)
        seconds = time.perf_counter() - started
    result = job.result(outcome, seconds, history)
    result.resumable = checkpoint is not None and checkpoint.written and outcome.reason in ("signal", "seconds")
    return result
