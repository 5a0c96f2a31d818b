"""The model and the log of a training: which existing ones it may replace."""

from __future__ import annotations

import argparse
import functools
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from streammargin.arrow import check_installed
from streammargin.cli.options import name
from streammargin.driver.save.slots import record, written_of
from streammargin.errors import OutputError, StreamMarginError, UsageError
from streammargin.files import check_output, check_still_apart
from streammargin.json_values import to_plain
from streammargin.kinds import ALL_THREADS
from streammargin.model.file import job_of
from streammargin.model.wrong import Unfinished, wrong_rows
from streammargin.options.folds import Cv
from streammargin.options.table import TABLE
from streammargin.report.page import Facts, write_page
from streammargin.result import TrainResult
from streammargin.sizes import parse_size
from streammargin.sources.labels import lie_inside
from streammargin.wording import warn

LOG_FIRST_LINE_BYTES = 16 << 20


class OutputFiles:
    """Checks the outputs of a training. Only with `force` it replaces what another training, or anyone, wrote.

    log: None for none, or standard output; others: paths of what is written beside the model, None for none; asked:
    the digest of what is asked for, with checkpoints in `folder`, else None. A file is the training's own if it names
    this very training, or is recorded in `folder`, and the checkpoint is of it. A log is compared with the
    checkpoint when the training goes on (JsonLines.go_on).
    """

    def __init__(
        self, model: str, log: str | None, others: Iterable[str | None], asked: str | None, folder: str | None,
        force: bool,
    ) -> None:  # fmt: skip
        """Raise OutputError, before anything is read, if the training may not write."""
        self.model: str = model
        self.force: bool = force
        self._folder = None if asked is None else folder
        jobs = {path: self._job_of(path) for path in (model, *others) if path is not None}
        for path, job in jobs.items():
            check_output(path, force or str(job).startswith(f"{asked}-"))
        self._own = {path: job for path, job in jobs.items() if job is not None}
        self._there = list(self._own)  # outputs that are there, and may be the training's own
        if log is None or not os.path.exists(log):
            return
        mode = os.stat(log).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            raise OutputError(f"the log {log} is a pipe or a socket; name a file, or - for standard output")
        if not stat.S_ISREG(mode) or not os.path.getsize(log) or force:
            return
        begins = first_event(log)
        if begins == "run_end":  # of a training that was refused
            return
        if asked is None or begins != "run_start":
            raise OutputError(f"the log {log} exists; use `force=True` to replace it, or name another")
        self._there.append(log)

    def _job_of(self, path: str) -> str | None:
        """The training with a checkpoint that wrote this file; None for none, and if it does not matter."""
        if self._folder is None or self.force:
            return None
        if path != self.model:
            return written_of(self._folder, path)
        return job_of(path) if os.path.isfile(path) and os.path.getsize(path) else None

    def check_job(self, job: object, start: Mapping[str, object] | None = None) -> None:
        """Raise OutputError if an output is of another training; job: of the one that goes on, None: a new one.

        start: the first event of a new one. A log that begins with it is its own, killed before the first checkpoint.
        """
        if job is None and start is not None and not self._own and all(was_killed(log, start) for log in self._there):
            return
        others = [path for path in self._there if job is None or self._own.get(path, job) != job]
        if others:
            raise OutputError(
                f"{others[0]} exists, from another training, or from this one without its checkpoint; use "
                "`force=True` to replace it, or name another output"
            )

    def free(self, path: str, job: str | None) -> bool:
        """Whether the training may write its model there, now that it is done."""
        try:
            check_still_apart(path)
        except OutputError:
            return False
        return (path == self.model and self.replaces(path, job)) or not os.path.lexists(path)

    def replaces(self, path: str, job: str | None) -> bool:
        """Whether the training may replace this file, now that it is done."""
        return self.force or (job is not None and self._own.get(path) == job == self._job_of(path))

    def record(self, job: str | None, place: str) -> None:
        """Record with the checkpoint that the training wrote this file, which has its name only afterwards."""
        if self._folder is not None and job is not None:
            record(self._folder, job, place)


def was_killed(log: str, start: Mapping[str, object]) -> bool:
    """Whether this log begins with the event `start`, and was cut off before a checkpoint."""
    wanted = json.loads(json.dumps(to_plain(dict(start))))
    try:
        with open(log, "rb") as file:
            first = _first(file)
            same = all(first.get(name) == value for name, value in wanted.items())
            return same and not any(b'"event": "checkpoint"' in line or b'"event": "run_end"' in line for line in file)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return False


def first_event(log: str) -> object:
    """The name of the first event but for warnings; None if this is no log."""
    try:
        with open(log, "rb") as file:
            return _first(file)["event"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def _first(file: BinaryIO) -> dict[str, object]:
    """The first event of a log, but for warnings about options, which come before the run starts."""
    event: dict[str, object] = {"event": "warning"}
    while event["event"] == "warning":
        event = json.loads(file.readline(LOG_FIRST_LINE_BYTES))
    return event


THEMES = ("data", "table")  # options that header and log do not have, or not as they were given


def add_beside(parser: argparse._ActionsContainer) -> None:
    """Options of these files."""
    parser.add_argument(
        "--coef", type=name, metavar="FILE", help="write the weights of a linear model as a table: CSV, or .parquet"
    )
    parser.add_argument(
        "--report", type=name, metavar="FILE", help="write a page on the model as HTML; it judges the rows of --valid, "
        "or the training rows, which takes one more read",
    )  # fmt: skip


class OtherOutputs:
    """The files that were asked for, which are checked before anything is read, and written once the model is."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Raise UsageError for a table of weights of a model that has none."""
        self.options = options
        self.coef: str | None = getattr(options, "coef", None)  # a completion has none of them
        self.page: str | None = getattr(options, "report", None)
        self.written: list[str] = []  # lines on what was written
        if self.coef is not None and (options.kernel is not None or options.map is not None):
            raise UsageError("`coef` writes the weights of columns, and this model has none; leave it out")
        if self.coef is not None:
            check_installed()

    @property
    def paths(self) -> dict[str, str | None]:
        """The files by what they are, None for one that was not asked for."""
        return {"the weights": self.coef, "the report": self.page}

    def write(
        self, result: TrainResult, model: str, should_stop: Callable[[], str | None], outputs: OutputFiles
    ) -> int:  # fmt: skip
        """Write the files; model: the file that it is in. Returns the exit code of an error, which a warning tells."""
        code, job = 0, result.model.header["job"]
        for what, write in self._writers(result, model, should_stop):
            path = str(self.paths[what])
            try:
                write(path, outputs.replaces(path, job), functools.partial(outputs.record, job))
                self.written.append(f"{what} written to {self.paths[what]}")
            except StreamMarginError as error:
                warn(error.raw, "output")
                code = error.exit_code
        return code

    def _writers(
        self, result: TrainResult, model: str, should_stop: Callable[[], str | None]
    ) -> Iterator[tuple[str, Callable[..., None]]]:
        """The files, by what they are, and what writes each."""
        from streammargin.model.exports.files import write_weights

        if self.coef is not None:
            yield "the weights", functools.partial(write_weights, result.model)
        if self.page is not None:
            rows, share = self._rows(result, should_stop), _share(result)
            judged = None if rows is None else self._judged(result, rows, should_stop)
            tested, training = ", ".join(rows or ()), judged is not None and self.options.valid is None
            part = f"the held-out {100.0 / share[0]:.3g}%" if share else ""
            given = {line.name: getattr(self.options, line.name) for line in TABLE if line.theme in THEMES}
            facts = Facts(
                result.model,
                model,
                result.history,
                tested,
                judged,
                training,
                {**given, "data": self.options.data},
                part=part,
            )
            yield "the report", functools.partial(write_page, facts)

    def _rows(self, result: TrainResult, should_stop: Callable[[], str | None]) -> list[str] | None:
        """The files of the rows to judge the model on; None if they cannot be read again here, or the run was ended.

        Labels of shape (n, 1) are judged on all rows of files, so not on a share.
        """
        options, share = self.options, _share(result)
        rows = options.data if options.valid is None or share else [options.valid]
        gone = options.dask is not None or should_stop() is not None or (share and result.model.outputs)
        there = all(isinstance(path, str) and os.path.exists(path) for path in rows)  # no pipe
        return list(rows) if there and not gone else None

    def _judged(
        self, result: TrainResult, rows: list[str], should_stop: Callable[[], str | None]
    ) -> dict[str, Any] | None:
        """The figures of these rows; None, and a warning, if they cannot be judged, such as rows of other classes."""
        options, share = self.options, _share(result)
        tasks = options.tasks if result.model.tasks else None
        outside = isinstance(options.y, str) and not lie_inside(options.y)  # labels of the training rows alone
        y = None if outside and options.valid is not None and not share else options.y
        asked = {"x": options.x, "y": y, "mask": options.mask, "tasks": tasks}
        memory, threads = parse_size(options.memory), options.threads or ALL_THREADS
        data = rows if len(rows) > 1 else rows[0]
        id = tuple(by for _, by in Cv.read_by(options.cv))
        try:
            return wrong_rows(
                result.model, data, memory=memory, threads=threads, id=id, should_stop=should_stop,
                share=share, unknown=options.unknown or "error", **asked,
            )  # fmt: skip
        except (StreamMarginError, Unfinished) as error:
            why = error.raw if isinstance(error, StreamMarginError) else str(error)
            warn(f"the report has no figures of {', '.join(rows)}: {why}", "output")
            return None


def _share(result: TrainResult) -> Sequence[int]:
    """(folds, seed) of the training rows that were held out as a share of them; () for none."""
    return (result.model.header.get("problem") or {}).get("left_out") or ()
