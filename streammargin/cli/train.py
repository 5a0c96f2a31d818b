"""streammargin train DATA [DATA ...] [-o MODEL]"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from streammargin.cli.options import add_common, add_data_names, class_weights, norm, number, numbers
from streammargin.errors import StreamMarginError
from streammargin.files import check_output
from streammargin.solvers.registry import names
from streammargin.specs.losses import LOSSES


def add_options(parser: argparse.ArgumentParser) -> None:
    """All options of training; liblinear's letters are aliases."""
    parser.epilog = "solvers:\n" + "\n".join(f"  {name:<17} {text}" for name, text in names().items())
    parser.add_argument("data", nargs="+", metavar="DATA", help="HDF5 file; several are shards of one data set")
    parser.add_argument("-o", "--output", metavar="MODEL", help="default: DATA's stem + .model.npz, in this directory")
    problem = parser.add_argument_group("problem")
    problem.add_argument("--solver", default="sdca", choices=list(names()), help="default sdca")
    problem.add_argument("--loss", choices=sorted(LOSSES), help="default: the solver's, hinge for most")
    problem.add_argument("--width", type=number, default=1.0, help="of the smoothed hinge, default 1")
    problem.add_argument("-c", "--C", type=numbers, metavar="FLOAT|inf|a,b,c",
                         help="cost of the loss; inf: hard margin; a list: the best on --valid (default 1, or inf "
                         "for a solver of the hard margin alone)")  # fmt: skip
    problem.add_argument("--norm", type=norm, default=2.0, metavar="P|sparse", help="1 < p <= 2, default 2")
    problem.add_argument("-B", "--bias", type=number, help="value of a constant, regularised column (default: none)")
    problem.add_argument("--scale", default="none", choices=["none", "maxabs", "std"],
                         help="columns, in one pass, folded into the weights")  # fmt: skip
    problem.add_argument("--class-weight", type=class_weights, metavar="balanced|LABEL=W,...", help="factors of C")
    problem.add_argument("--positive", metavar="LABEL", help="this class against the rest")
    problem.add_argument("--classes", metavar="A,B,...", help="only these classes")
    problem.add_argument("--multiclass", default="ovr", choices=["ovr", "joint"],
                         help="each class against the rest, or one margin between all of them")  # fmt: skip
    problem.add_argument("--average", action=argparse.BooleanOptionalAction,
                         help="report the averaged iterate (some solvers)")  # fmt: skip
    problem.add_argument("--schedule", metavar="L0/t^2", help="decay of the penalty (some solvers)")
    problem.add_argument("--stochastic", action=argparse.BooleanOptionalAction, help="a step a block (some solvers)")
    stop = parser.add_argument_group("stop")
    stop.add_argument("-e", "--tol", type=number, default=1e-3,
                      help="relative duality gap (C = inf: relative margin gap), default 1e-3")  # fmt: skip
    stop.add_argument("--passes", type=int, default=1000, help="at most, default 1000")
    stop.add_argument("--max-seconds", type=number, metavar="S", help="the certificate's pass included")
    resources = parser.add_argument_group("resources")
    resources.add_argument("--memory", default="1G", metavar="SIZE",
                           help="bounds all that grows with the data, default 1G (512M = 512 x 2^20)")  # fmt: skip
    resources.add_argument("--seed", type=int, default=0, help="default 0")
    data = parser.add_argument_group("data")
    add_data_names(data)  # type: ignore[arg-type]
    data.add_argument("--sample-weight", metavar="NAME", help="dataset of weights (default sample_weight, if there)")
    data.add_argument("--valid", metavar="DATA", help="held-out data; its error is shown with every certificate")
    run = parser.add_argument_group("run")
    run.add_argument("--log-json", metavar="FILE|-", help="events as JSON lines")
    run.add_argument("--require-convergence", action="store_true", help="exit 3 unless the tolerance was proven")
    run.add_argument("--force", action="store_true", help="replace an existing model")
    run.add_argument("-q", "--quiet", action="store_true", help="warnings only")
    run.add_argument("-v", "--verbose", action="store_true", help="every pass and certificate")
    add_common(run)  # type: ignore[arg-type]


def default_output(data: str) -> str:
    """DATA's stem + .model.npz in the current directory."""
    return os.path.splitext(os.path.basename(data))[0] + ".model.npz"


class _Signals:
    """The first SIGINT or SIGTERM asks the run to stop; the second one ends the process at once."""

    def __init__(self) -> None:
        self.caught: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Signals:
        for number_ in (signal.SIGINT, signal.SIGTERM):
            self._before[number_] = signal.signal(number_, self._catch)
        return self

    def _catch(self, number_: int, frame: object) -> None:
        if self.caught is not None:
            os._exit(128 + number_)
        self.caught = number_

    def __exit__(self, *exc: object) -> None:
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
    from streammargin.driver.plan import parse_size
    from streammargin.sinks.console import Console
    from streammargin.sinks.jsonl import JsonLines

    parse_size(options.memory)
    output = options.output or default_output(options.data[0])
    check_output(output, options.force)
    for path in options.data:
        if not os.path.exists(path):
            from streammargin.errors import InputMissingError

            raise InputMissingError(f"{path}: no such file")
    verbosity = -1 if options.quiet else 1 if options.verbose else 0
    sinks: list[Any] = [Console(verbosity, max_seconds=options.max_seconds)]
    if options.log_json:
        sinks.append(JsonLines(options.log_json))

    def publish(event: dict[str, Any]) -> None:
        for sink in sinks:
            sink(event)

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
            width=options.width, C=options.C, norm=options.norm, tol=options.tol, passes=options.passes,
            max_seconds=options.max_seconds, memory=options.memory, seed=options.seed, bias=options.bias,
            scale=options.scale, class_weight=options.class_weight, positive=options.positive,
            classes=options.classes.split(",") if options.classes else None, multiclass=options.multiclass,
            average=options.average, schedule=options.schedule, stochastic=options.stochastic,
            valid=options.valid, listeners=[publish], should_stop=signals.should_stop,
        )  # fmt: skip
        result.model.save(output, force=options.force)
        code = 0
        if signals.caught is not None and result.reason == "signal":
            code = 128 + signals.caught
        elif not result.converged:
            code = 3 if options.require_convergence else 0
            publish({"event": "warning", "code": "not_converged", "message": _advice(result)})
        publish({**result.run_end, "exit_code": code, "model": output})
    if not options.quiet:
        print(f"model written to {output}", file=sys.stderr)
    return code


def _advice(result: Any) -> str:
    upper = result.certificate.get("margin_upper")
    if result.reason == "not_separable":
        return f"no separator with a margin above {upper:.3g} exists; train with a finite --C instead of inf"
    return f"stopped by {result.reason} before the tolerance was proven; raise --passes or --tol, or try --scale maxabs"
