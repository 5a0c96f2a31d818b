"""`streammargin-data VERB ...`: dispatch; exit codes and one-sentence errors as those of `streammargin`."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Sequence

from streammargin import __version__
from streammargin.cli import entry
from streammargin.cli.main import report
from streammargin.cli.options import Parser
from streammargin.cli.remarks import Remarks, say

VERBS = {
    "convert": "svmlight text, CSV, SciPy's NPZ or HDF5 to a file that can be streamed",
    "generate": "a seeded data set of any size",
    "shuffle": "the rows of a file in a seeded random order, on disk",
    "split": "the rows of a file into a part to train on and a part to test on",
}


def build_parser(verb: str | None = None) -> Parser:
    """The parser. Only the named verb gets its options, so that no other verb is imported."""
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
            importlib.import_module(f"streammargin.data_tools.{name}").add_options(child)
            child.add_argument("-q", "--quiet", action="store_true", help="warnings only")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    verb = arguments[0] if arguments and arguments[0] in VERBS else None
    with entry.signals_caught():
        try:
            options = build_parser(verb).parse_args(arguments)
            with Remarks(logging.WARNING if options.quiet else logging.INFO, "streammargin-data: "):
                line = importlib.import_module(f"streammargin.data_tools.{options.verb}").run(options)
        except SystemExit as stop:
            return stop.code if isinstance(stop.code, int) else 2
        except Exception as error:
            return report(error, "--debug" in arguments, "streammargin-data")
        except KeyboardInterrupt:
            return entry.interrupted("streammargin-data")
    if not options.quiet:
        say(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
