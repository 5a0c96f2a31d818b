"""`streammargin-data VERB ...`: dispatch; exit codes and one-sentence errors as those of `streammargin`."""

from __future__ import annotations

import contextlib
import importlib
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from streammargin import __version__
from streammargin.cli.main import report
from streammargin.cli.options import Parser

VERBS = {
    "convert": "svmlight text, CSV, SciPy's NPZ or HDF5 to a file that can be streamed",
    "generate": "a seeded data set of any size",
    "shuffle": "the rows of a file in a seeded random order, on disk",
    "split": "the rows of a file into a part to train on and a part to test on",
}


def build_parser(verb: str | None = None) -> Parser:
    """The parser; only the named verb gets its options, so that nothing else need be imported."""
    parser = Parser(
        prog="streammargin-data",
        description="Prepare data for streammargin: everything streams, outputs are whole or not there.",
        epilog="exit codes: 0 done, 2 usage, 65 bad data, 66 input missing, 73 cannot create output, 74 I/O error,\n"
        "129 hung up, 130 interrupted, 143 terminated, 1 unexpected",
    )
    parser.add_argument("--version", action="version", version=f"streammargin-data {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, summary in VERBS.items():
        child = verbs.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        if name == verb:
            importlib.import_module(f"data_tools.{name}").add_options(child)
            child.add_argument("-q", "--quiet", action="store_true", help="say nothing")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    verb = arguments[0] if arguments and arguments[0] in VERBS else None
    try:
        with _ended_by_signals():
            options = build_parser(verb).parse_args(arguments)
            line = importlib.import_module(f"data_tools.{options.verb}").run(options)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2
    except Exception as error:
        return report(error, "--debug" in arguments, "streammargin-data")
    except KeyboardInterrupt:
        print("streammargin-data: interrupted; nothing was written", file=sys.stderr)
        return 130
    if not options.quiet:
        print(line, file=sys.stderr)
    return 0


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP leave the block as SystemExit, so that what was begun is removed on the way out."""

    def stop(number: int, frame: object) -> NoReturn:
        for other in before:
            signal.signal(other, signal.SIG_IGN)  # once is enough; a second one would interrupt the removal
        print("streammargin-data: terminated; nothing was written", file=sys.stderr)
        raise SystemExit(128 + number)

    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():  # only this one may set handlers
        for number in {signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}:
            if signal.getsignal(number) == signal.SIG_DFL:  # one that is ignored, as under nohup, stays ignored
                before[number] = signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(main())
