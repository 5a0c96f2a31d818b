"""`streammargin-data VERB ...`: dispatch; exit codes and one-sentence errors as those of `streammargin`."""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
from collections.abc import Sequence
from typing import Any

from streammargin.cli.main import EXIT_CODES, carried_out, parser_of
from streammargin.cli.options import Parser, add_common
from streammargin.cli.remarks import Remarks, say

VERBS = {
    "convert": "write a table, svmlight text, NumPy arrays or HDF5 as a file that can be streamed",
    "generate": "make a random data set of any size",
    "shuffle": "write the rows of a file in a random order",
    "split": "split the rows of a file into a training part and a test part",
}

CODES = {
    0: "done",
    **{code: EXIT_CODES[code] for code in (1, 2)},
    65: "bad data",
    66: EXIT_CODES[66],
    73: "the output cannot be created, or exists without --force",
    74: "the disk failed while reading or writing",
    129: "hung up: no output is half written",
    130: "interrupted (Ctrl-C): no output is half written",
    143: "terminated: no output is half written",
}


def build_parser(verb: str | None = None) -> Parser:
    """The parser of the command."""
    about = "Prepare data for streammargin: files of any size; an output is complete or does not exist."
    return parser_of("streammargin-data", about, CODES, VERBS, verb, _add_options)


def _module(verb: str) -> Any:
    return importlib.import_module(f"streammargin.data_tools.{verb}")


def _add_options(verb: str, parser: Parser) -> None:
    _module(verb).add_options(parser)
    add_common(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="warnings only")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    return carried_out("streammargin-data", argv, VERBS, build_parser, _run)


def _run(options: argparse.Namespace) -> int:
    with Remarks(logging.WARNING if options.quiet else logging.INFO, "streammargin-data: "):
        line = _module(options.verb).run(options)
    if not options.quiet:
        say(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
