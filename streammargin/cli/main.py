"""`streammargin VERB ...`: dispatch, exit codes, one-sentence errors."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

from streammargin.cli import entry
from streammargin.cli.options import Parser
from streammargin.cli.remarks import say
from streammargin.errors import StreamMarginError
from streammargin.files import short_reason
from streammargin.version import __version__

VERBS = {
    "train": "train a model",
    "complete": "complete a matrix from some of its entries, as ratings of users and films",
    "predict": "predict labels or scores of the rows of a file",
    "evaluate": "accuracy, mistakes, loss and margin of a model on labelled data",
    "verify": "recompute the certificate of a model on its data, by NumPy alone",
    "info": "show what a data file or a model contains",
    "solvers": "list the solvers, or show one: fields, algorithm, what it takes",
    "losses": "list the losses, or show one: fields, formula, solvers that take it",
    "penalties": "list the penalties, or show one: fields, formula, solvers that take it",
    "demo": "make a data file larger than its memory budget, train on it, show the result",
    "warmup": "compile and cache every kernel, for images and clusters",
}


def build_parser(verb: str | None = None) -> Parser:
    """The parser. Only the named verb gets its options, so that no other module is imported."""
    parser = Parser(
        prog="streammargin",
        description="Linear large-margin classifiers on data larger than memory, "
        "with a certificate of how good the answer is.",
        epilog="exit codes: 0 done, 2 usage, 3 not converged (with --require-convergence),\n"
        "65 bad data or verify disagrees, 66 input missing, 73 cannot create output,\n"
        "74 I/O error, 75 stopped with a checkpoint, 129 hung up, 130 interrupted,\n143 terminated, 1 unexpected",
    )
    parser.add_argument("--version", action="version", version=f"streammargin {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, summary in VERBS.items():
        child = verbs.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        if name == verb:
            _module(name).add_options(child)
    return parser


def _module(verb: str) -> Any:
    """The module of a verb; lists of words have one for all."""
    name = "words" if verb in ("solvers", "losses", "penalties") else verb
    return importlib.import_module(f"streammargin.cli.{name}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    verb = arguments[0] if arguments and arguments[0] in VERBS else None
    try:
        options = build_parser(verb).parse_args(arguments)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2
    try:
        code: int = _module(options.verb).run(options)
        sys.stdout.flush()  # a full disk is found now, while it can still be reported
        return code
    except Exception as error:
        return report(error, options.debug)
    except KeyboardInterrupt:
        return entry.interrupted("streammargin")


def report(error: Exception, debug: bool, program: str = "streammargin") -> int:
    """Print one sentence (or the traceback) and return the exit code of an error."""
    if debug:
        import traceback

        for line in "".join(traceback.format_exception(error)).splitlines():
            say(line)
    if entry.caught is not None:  # whatever this is, the signal caused it
        return entry.interrupted(program)
    if isinstance(error, BrokenPipeError):
        # the reader of our output has closed it; without this the interpreter would report it once more at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if isinstance(error, StreamMarginError):
        say(f"{program}: error: {error.in_shell}")
        return error.exit_code
    if isinstance(error, MemoryError):
        say(f"{program}: error: out of memory ({error}); lower --memory")
    elif isinstance(error, OSError):
        say(f"{program}: error: {short_reason(error)}")
        return 74
    elif not debug:
        say(f"{program}: unexpected {type(error).__name__}: {error} (--debug shows where)")
    return 1


if __name__ == "__main__":
    sys.exit(main())
