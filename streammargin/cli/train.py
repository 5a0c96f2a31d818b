"""streammargin train DATA [DATA ...] [-o MODEL]"""

from __future__ import annotations

import argparse
import itertools
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from streammargin.cli import entry
from streammargin.cli.options import (
    add_common,
    add_data_names,
    bias,
    class_weights,
    label_list,
    name,
    norm,
    number,
    numbers,
    whole,
)
from streammargin.errors import StreamMarginError
from streammargin.files import check_apart, check_input, check_output
from streammargin.solvers.registry import names
from streammargin.specs.losses import LOSSES


def add_options(parser: argparse.ArgumentParser) -> None:
    """All options of training; liblinear's letters are aliases."""
    parser.epilog = "solvers:\n" + "\n".join(f"  {name:<17} {text}" for name, text in names().items())
    parser.add_argument("data", nargs="+", metavar="DATA", help="HDF5 file; several are shards of one data set")
    parser.add_argument(
        "-o", "--output", type=name, metavar="MODEL", help="default: DATA's stem + .model.npz, in this directory"
    )
    problem = parser.add_argument_group("problem")
    problem.add_argument("--solver", default="sdca", choices=list(names()), help="default sdca")
    problem.add_argument("--loss", choices=sorted(LOSSES), help="default: the solver's, hinge for most")
    problem.add_argument("--width", type=number, default=1.0, help="of the smoothed hinge, default 1")
    problem.add_argument("--epsilon", type=number, default=0.0,
                         help="of --loss interpolate: how far from its number a score may be, default 0")  # fmt: skip
    problem.add_argument("-c", "--C", type=numbers, metavar="FLOAT|inf|a,b,c",
                         help="cost of the loss; inf: hard margin; a list: the best on --valid (default 1, or inf "
                         "for a solver of the hard margin alone)")  # fmt: skip
    problem.add_argument("--norm", type=norm, default=2.0, metavar="P|sparse", help="1 < p <= 2, default 2")
    problem.add_argument("-B", "--bias", type=bias, metavar="FLOAT|midway",
                         help="value of a constant, regularised column (default: none); midway: none, and at the end "
                         "of C = inf a read that puts the hyperplane midway between the classes")  # fmt: skip
    problem.add_argument("--scale", default="none", choices=["none", "maxabs", "std"],
                         help="columns, in one pass, folded into the weights")  # fmt: skip
    problem.add_argument("--class-weight", type=class_weights, metavar="balanced|LABEL=W,...", help="factors of C")
    problem.add_argument("--positive", type=name, metavar="LABEL", help="this class against the rest")
    problem.add_argument("--classes", type=label_list, metavar="A,B,...", help="only these classes")
    problem.add_argument("--multiclass", default="ovr", choices=["ovr", "joint"],
                         help="each class against the rest, or one margin between all of them")  # fmt: skip
    problem.add_argument("--average", action=argparse.BooleanOptionalAction,
                         help="report the averaged iterate (some solvers)")  # fmt: skip
    problem.add_argument("--schedule", metavar="L0/t^2|...",
                         help="diagonal: decay of the penalty, L0/log t, L0/sqrt t, L0/t, L0/t^2 or L0/2^t; "
                         "adaptive: momentum or proven (its step size)")  # fmt: skip
    problem.add_argument("--stochastic", action=argparse.BooleanOptionalAction, help="a step a block (some solvers)")
    stop = parser.add_argument_group("stop")
    stop.add_argument("-e", "--tol", type=number, default=1e-3,
                      help="relative duality gap (C = inf: relative margin gap), default 1e-3")  # fmt: skip
    stop.add_argument("--passes", type=whole, default=1000, help="at most, default 1000")
    stop.add_argument("--max-seconds", type=number, metavar="S", help="the certificate's pass included")
    resources = parser.add_argument_group("resources")
    resources.add_argument("--memory", default="1G", metavar="SIZE",
                           help="bounds all that grows with the data, default 1G (512M = 512 x 2^20)")  # fmt: skip
    resources.add_argument("--seed", type=whole, default=0, help="default 0")
    data = parser.add_argument_group("data")
    add_data_names(data)  # type: ignore[arg-type]
    data.add_argument(
        "--sample-weight", type=name, metavar="NAME", help="dataset of weights (default sample_weight, if there)"
    )
    data.add_argument(
        "--valid", type=name, metavar="DATA", help="held-out data; its error is shown with every certificate"
    )
    run = parser.add_argument_group("run")
    run.add_argument("--log-json", type=name, metavar="FILE|-", help="events as JSON lines")
    run.add_argument("--require-convergence", action="store_true", help="exit 3 unless the tolerance was proven")
    run.add_argument("--force", action="store_true", help="replace an existing model")
    run.add_argument("-q", "--quiet", action="store_true", help="warnings only")
    run.add_argument("-v", "--verbose", action="store_true", help="every pass and certificate")
    add_common(run)  # type: ignore[arg-type]


def default_output(data: str) -> str:
    """DATA's stem + .model.npz in the current directory."""
    return os.path.splitext(os.path.basename(data))[0] + ".model.npz"


class _Signals:
    """The first SIGINT, SIGTERM or SIGHUP asks the run to stop; another one a second later ends the process at once."""

    def __init__(self) -> None:
        self.caught: int | None = None
        self._when = 0.0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Signals:
        for number_ in entry.SIGNALS:
            if number_ == signal.SIGINT or signal.getsignal(number_) != signal.SIG_IGN:  # nohup stays in force
                self._before[number_] = signal.signal(number_, self._catch)
        return self

    def _catch(self, number_: int, frame: object) -> None:
        if self.caught is None:
            self.caught, self._when = number_, time.monotonic()
        elif time.monotonic() - self._when > entry.AGAIN:
            os._exit(128 + number_)

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        if kind is KeyboardInterrupt and self.caught is not None:  # before there was a model
            entry.caught = self.caught
        for number_, handler in self._before.items():
            signal.signal(number_, handler)

    def should_stop(self) -> str | None:
        return None if self.caught is None else "signal"


class _Warnings(logging.Handler):
    """Warnings of the library become events."""

    def __init__(self, publish: Callable[[dict[str, Any]], None]) -> None:
        super().__init__(logging.WARNING)
        self.publish = publish

    def emit(self, record: logging.LogRecord) -> None:
        code = getattr(record, "code", "library")
        self.publish({"event": "warning", "code": code, "message": record.getMessage()})


def run(options: argparse.Namespace) -> int:
    """Train, write the model, and say how it went."""
    from streammargin.data.open import files_read
    from streammargin.driver.plan import parse_size
    from streammargin.sinks.console import Console
    from streammargin.sinks.jsonl import JsonLines

    parse_size(options.memory)
    output = options.output or default_output(options.data[0])
    check_output(output, options.force)
    for path in [*options.data, *([options.valid] if options.valid else [])]:
        check_input(path)
    log = None if options.log_json == "-" else options.log_json
    inputs = files_read(options.data, x=options.x, y=options.y, sample_weight=options.sample_weight)
    inputs += files_read([options.valid], x=options.x)
    check_apart({"the model": output, "the log": log}, inputs)
    verbosity = -1 if options.quiet else 1 if options.verbose else 0
    sinks: list[Any] = [Console(verbosity, max_seconds=options.max_seconds)]
    if options.log_json:
        sinks.append(JsonLines(options.log_json))

    def publish(event: dict[str, Any]) -> None:
        for sink in list(sinks):
            try:
                sink(event)
            except (OSError, ValueError) as error:  # a full disk or a reader that left must not cost the training
                sinks.remove(sink)
                if isinstance(sink, JsonLines):
                    sink.abandon()
                    publish({"event": "warning", "code": "log", "message": f"the log ends here: {error}"})

    handler = _Warnings(publish)
    logging.getLogger("streammargin").addHandler(handler)
    try:
        return _train(options, output, publish)
    except Exception as error:
        code = error.exit_code if isinstance(error, StreamMarginError) else 1
        publish(
            {"event": "run_end", "status": "error", "converged": False, "reason": "error", "passes": None,
             "seconds": None, "exit_code": code, "model": None, "message": str(error)}
        )  # fmt: skip
        raise
    finally:
        logging.getLogger("streammargin").removeHandler(handler)
        for sink in sinks:
            if isinstance(sink, JsonLines):
                sink.close()


def _train(options: argparse.Namespace, output: str, publish: Callable[[dict[str, Any]], None]) -> int:
    from streammargin.api import train

    with _Signals() as signals:
        result = train(
            options.data[0] if len(options.data) == 1 else options.data,
            x=options.x, y=options.y, sample_weight=options.sample_weight, solver=options.solver, loss=options.loss,
            width=options.width, epsilon=options.epsilon, C=options.C, norm=options.norm, tol=options.tol,
            passes=options.passes, max_seconds=options.max_seconds, memory=options.memory, seed=options.seed,
            bias=options.bias, scale=options.scale, class_weight=options.class_weight, positive=options.positive,
            classes=options.classes, multiclass=options.multiclass,
            average=options.average, schedule=options.schedule, stochastic=options.stochastic,
            valid=options.valid, listeners=[publish], should_stop=signals.should_stop,
        )  # fmt: skip
        output = _save(result.model, output, options.force)
        code = 0
        if signals.caught is not None and result.reason == "signal":
            code = 128 + signals.caught
        elif not result.converged:
            code = 3 if options.require_convergence else 0
            publish({"event": "warning", "code": "not_converged", "message": _advice(result, options)})
        publish({**result.run_end, "exit_code": code, "model": output})
    if not options.quiet:
        print(f"model written to {output}", file=sys.stderr)
    return code


def _save(model: Any, output: str, force: bool) -> str:
    """Write the model; beside `output` where a file has appeared there since the start. The name it got."""
    stem, ending = os.path.splitext(output)
    names_ = itertools.chain([output], (f"{stem}-{number_}{ending}" for number_ in itertools.count(2)))
    free = next(name for name in names_ if force or not os.path.exists(name))
    model.save(free, force=force)
    return free


def _advice(result: Any, options: argparse.Namespace) -> str:
    upper = result.certificate.get("margin_upper")
    if result.reason == "not_separable":
        advice = f"{'add --bias 1' if options.bias is None else 'lower --tol'}, or train with a finite --C"
        return f"no separator through the origin has a margin above {upper:.3g}; {advice}"
    if result.certificate.get("residual") is not None:
        from streammargin.result import unmet

        return unmet(result)
    limit = "max-seconds" if result.reason == "seconds" else "passes"
    hard = result.certificate.get("gap") is None and result.certificate.get("margin_upper") is not None
    other = "--solver auto" if hard and options.solver not in ("auto", "active-set", "asdca") else "--scale maxabs"
    advice = f"raise --{limit} or --tol, or try {other}"
    return f"stopped by {result.reason} before the tolerance was proven; {advice}"
