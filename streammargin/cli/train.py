"""streammargin train DATA [DATA ...] [-o MODEL]"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import itertools
import logging
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, TypeAlias

from streammargin.cli import entry
from streammargin.cli.options import Parser, add_common, add_table, flags, name
from streammargin.cli.outputs import OtherOutputs, OutputFiles, add_beside
from streammargin.cli.remarks import Remarks, say, shell_text
from streammargin.driver.save.slots import written_by
from streammargin.errors import OutputError, ReadWriteError, StreamMarginError, UsageError
from streammargin.files import check_apart, short_reason
from streammargin.kinds import ALL_THREADS, threads_of
from streammargin.options.table import Options, Where, asked_digest, options_for, read_by
from streammargin.ordered import files_read, is_ordered, is_parquet
from streammargin.result import TrainResult
from streammargin.sinks.console import Console
from streammargin.sinks.jsonl import JsonLines
from streammargin.sources.open import check_rows, matching
from streammargin.wording import Message, warn

if TYPE_CHECKING:
    from streammargin.training.rows import DataKind

Handler: TypeAlias = "Callable[[int, FrameType | None], object] | int | None"  # of a signal
REQUEUE = 75  # stopped early with a checkpoint: the same command resumes


def add_options(parser: Parser) -> None:
    """Add all options of training; the letters of LIBLINEAR are aliases."""
    parser.description = "Train a model on the rows of DATA: a file, or several that are shards of one data set."
    parser.epilog = "all names: streammargin losses|penalties|solvers [NAME]"
    parser.add_argument("data", nargs="+", metavar="DATA", help="HDF5 file, table or file of numbers, or - for a pipe; "
                        "as CSV, Parquet, Feather, svmlight, a folder of these, .mtx, .npy, .npz")  # fmt: skip
    parser.add_argument(
        "-o", "--output", type=name, metavar="MODEL", help="the model file, else DATA's stem + .model.npz, here"
    )
    run = add_table(parser)["run"]
    run.add_argument("--dask", type=name, metavar="SCHEDULER", help="let the workers of this dask scheduler read the "
                     "rows: its address, or the file with it; needs the extra `dask`")  # fmt: skip
    add_beside(run)
    add_run(run)
    add_common(run)
    common = [flag for line in options_for(Where.SHELL) if line.common for flag in flags(line)]
    parser.shorten(["--help", "--output", "--force", "--quiet", "--verbose", *common])


def add_run(parser: argparse._ActionsContainer) -> None:
    """Options on how a training goes, which a completion has as well."""
    parser.add_argument("--log-json", type=name, metavar="FILE|-", help="write events as JSON lines")
    parser.add_argument("--require-convergence", action="store_true", help="exit 3 unless the tolerance was proven")
    parser.add_argument("--force", action="store_true", help="replace an existing model or log")
    parser.add_argument("-q", "--quiet", action="store_true", help="print warnings only")
    parser.add_argument("-v", "--verbose", action="store_true", help="print every pass and certificate")


class _Signals:
    """The first SIGINT, SIGTERM or SIGHUP asks the run to stop; another one a second later ends the process at once."""

    def __init__(self) -> None:
        self.caught: int | None = None
        self._when = 0.0
        self._before: dict[int, Handler] = {}

    def __enter__(self) -> _Signals:
        for number_ in entry.SIGNALS:
            if number_ == signal.SIGINT or signal.getsignal(number_) != signal.SIG_IGN:  # nohup stays in force
                self._before[number_] = signal.signal(number_, self._catch)
        return self

    def _catch(self, number_: int, frame: object) -> None:
        if self.caught is None:
            self.caught, self._when, entry.hurried = number_, time.monotonic(), True
        elif time.monotonic() - self._when > entry.AGAIN:
            entry.leave(128 + number_)

    def __exit__(self, *exc: object) -> None:
        for number_, handler in self._before.items():
            signal.signal(number_, handler)

    def should_stop(self) -> str | None:
        return None if self.caught is None else "signal"


class _Sinks:
    """Passes every event to the console and the log; one that fails gets no more events.

    The end of the run is published by the command, with the name of the model. code: that of a log cut short.
    """

    def __init__(self, console: Console, log: JsonLines | None, outputs: OutputFiles) -> None:
        self.log, self.outputs, self.code = log, outputs, 0
        self.sinks: list[Console | JsonLines] = [console] if log is None else [console, log]

    def __call__(self, event: dict[str, object]) -> None:
        if event["event"] in ("run_start", "resumed"):
            self.outputs.check_job(event.get("job"), event if event["event"] == "run_start" else None)
        if event["event"] != "run_end":
            self.publish(event)

    def publish(self, event: dict[str, object]) -> None:
        """To the console and the log."""
        for sink in list(self.sinks):
            try:
                sink(event)
            except (OSError, ValueError) as error:  # a full disk or a reader that left must not cost the training
                self.sinks.remove(sink)
                if sink is self.log:
                    self.log.abandon()
                    self.code = 0 if isinstance(error, BrokenPipeError) else ReadWriteError.exit_code
                    self.publish(
                        {"event": "warning", "code": "log", "message": f"the log ends here: {short_reason(error)}"}
                    )

    def mark(self) -> dict[str, object] | None:
        """The state of the log, for a checkpoint."""
        return None if self.log is None else self.log.mark()

    def go_on(self, mark: dict[str, object] | None, events: list[dict[str, object]]) -> None:
        """The training resumes from a checkpoint."""
        if self.log is not None:
            self.log.go_on(mark, events)

    def start_over(self) -> None:
        """The training starts anew instead of resuming."""
        self.outputs.check_job(None)
        if self.log is not None:
            self.log.start_over()

    def close(self) -> None:
        """Close the log."""
        if self.log is not None:
            self.log.close()


class _Records(Remarks):
    """Turns warnings of the library into events, and without `quiet` what tables say of themselves."""

    def __init__(self, publish: Callable[[dict[str, object]], None], quiet: bool) -> None:
        super().__init__(logging.WARNING if quiet else logging.INFO)
        self.publish = publish

    def far(self, text: str) -> None:
        self.publish({"event": "writing", "message": text})

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            code = getattr(record, "code", "library")
            self.publish({"event": "warning", "code": code, "message": shell_text(record)})
        elif isinstance(record.msg, Message):  # the console has what other records of this level say
            self.publish({"event": "note", "message": shell_text(record)})


def run(
    options: argparse.Namespace,
    check: Callable[[dict[str, object]], Options] = Options.of,
    given: DataKind | None = None,
) -> int:
    """Train, write the model, and say how it went.

    check: makes checked options. given: what the data are; None: rows.
    """
    asked = {line.name: getattr(options, line.name) for line in options_for(Where.SHELL)}
    asked["threads"] = ALL_THREADS if options.threads is None else options.threads
    problem = check(asked)  # what cannot be is refused before anything is touched
    if options.require_convergence and options.early_stop is not None:
        raise UsageError(
            "`early_stop` ends a training before it has converged; leave out `early_stop` or --require-convergence"
        )
    if options.dask is not None:
        options.data = [path for part in options.data for path in matching(part)]
    stem = os.path.splitext(os.path.basename(os.path.normpath(options.data[0])))[0]
    output = options.output or f"{stem}.model.npz"
    log = None if options.log_json == "-" else options.log_json
    asked_for = None if options.checkpoint is None else asked_digest(problem, options.data)
    named = read_by(asked)
    others = OtherOutputs(options)
    made = {"the model": output, "the log": log, **others.paths}
    if options.checkpoint is not None:
        made |= written_by(options.checkpoint)
    check_apart(made, [*options.data, *named["rows"], *named["files"]])  # by name, before "exists; use --force"
    outputs = OutputFiles(output, log, others.paths.values(), asked_for, options.checkpoint, options.force)
    for path in [*options.data, *named["rows"]]:
        if given is None and not is_ordered(path):
            check_rows(path)
    read = files_read(options.data, **named)
    check_apart(made, read)
    verbosity = -1 if options.quiet else 1 if options.verbose else 0
    lines = JsonLines(options.log_json, kept=options.checkpoint is not None) if options.log_json else None
    threads = 1 if options.dask else threads_of(asked["threads"])
    console = Console(verbosity, max_seconds=options.max_seconds, logged=lines is not None, threads=threads)
    console.reading(options.data)
    sinks = _Sinks(console, lines, outputs)
    try:
        save = functools.partial(_save, outputs=outputs, read=read)
        by_workers = options.dask is not None and is_parquet(options.data)  # each has a disk of its own
        if problem.spool is None and (given is not None or is_ordered(options.data[0])) and not by_workers:
            problem = replace(problem, spool=os.path.dirname(output) or os.curdir)
        with _Records(sinks.publish, options.quiet):
            return _train(options, problem, save, sinks, given, others)
    except Exception as error:
        code, text = (error.exit_code, error.in_shell) if isinstance(error, StreamMarginError) else (1, str(error))
        sinks.publish(
            {"event": "run_end", "status": "error", "converged": False, "reason": "error", "passes": None,
             "seconds": None, "compile_seconds": None, "exit_code": code, "model": None, "message": text}
        )  # fmt: skip
        raise
    finally:
        sinks.close()


def _train(
    options: argparse.Namespace, problem: Options, save: Callable[[TrainResult], str], sinks: _Sinks,
    given: DataKind | None, others: OtherOutputs,
) -> int:  # fmt: skip
    from streammargin.api import train_by

    with contextlib.ExitStack() as stack:
        data = options.data[0] if len(options.data) == 1 else options.data
        if options.dask is not None:
            cluster = _clusters(options.debug)
            client = stack.enter_context(cluster.connected(options.dask))  # there is nothing to save yet
        signals = stack.enter_context(_Signals())
        if options.dask is None:
            result = train_by(data, problem, [sinks], signals.should_stop, None, given)
        else:
            result = cluster.train_on(client, data, problem, [sinks], signals.should_stop)
        begun = result.passes > 0 or result.reason != "signal"
        kept = not begun and os.path.lexists(sinks.outputs.model)  # a model without a pass is worse than what is there
        output = None if kept else save(result)
        code = 0
        if output not in (None, sinks.outputs.model):
            code = OutputError.exit_code
        elif signals.caught is not None and result.reason == "signal":
            again = result.resumable and signals.caught != signal.SIGINT
            code = REQUEUE if again else 128 + signals.caught
        elif not result.converged:
            code = REQUEUE if result.resumable else 3 if options.require_convergence else 0
        if output is not None and code != REQUEUE:  # else they are written once the training has ended
            failed = others.write(result, output, signals.should_stop, sinks.outputs)
            code = code or failed
        sinks.publish({**result.run_end, "exit_code": code or sinks.code, "model": output})
    if not options.quiet:
        told = f"no pass was done; {sinks.outputs.model} stays as it was" if kept else f"model written to {output}"
        for line in (told, *others.written):
            say(line)
        if result.resumable and code in (REQUEUE, 128 + signal.SIGINT):
            say(f"the same command goes on from {options.checkpoint}")
        if options.checkpoint is not None and result.reason not in ("signal", "seconds"):
            done = f"{options.checkpoint} holds the finished training, for more passes or a smaller --tol"
            say(f"{done}; it may be deleted")
    return code or sinks.code


def _clusters(debug: bool) -> ModuleType:
    """The module that trains on a cluster. UsageError if what it needs is not installed.

    debug: whether dask may log tracebacks of connections that end; else the error says it in a sentence.
    """
    try:
        module = importlib.import_module("streammargin.dask")
    except ImportError as error:
        raise UsageError(f"`dask` needs packages that are missing: {error}") from error
    for logger in () if debug else ("distributed", "distributed.client"):
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    return module


def _save(result: TrainResult, outputs: OutputFiles, read: Sequence[str]) -> str:
    """Write the model and return its name: another one than was asked for if that was taken during the training.

    read: the files that were read.
    """
    output, model = outputs.model, result.model
    stem, ending = os.path.splitext(output)
    for free in itertools.chain([output], (f"{stem}-{number}{ending}" for number in itertools.count(2))):
        if not outputs.free(free, model.header["job"]):
            continue
        with contextlib.suppress(UsageError):  # one of the files that were read
            check_apart({"the model": free}, read)
            try:
                model.save(free, force=free == output and os.path.lexists(free))
                break
            except OutputError:
                if not os.path.lexists(free):
                    raise  # else another run took the name while this one wrote
    if free != output:
        warn(f"{output} appeared during the training; the model is written to {free}", "output")
    return free
