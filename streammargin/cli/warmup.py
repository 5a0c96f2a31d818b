"""streammargin warmup"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time

from streammargin.cli.options import name
from streammargin.errors import OutputError
from streammargin.files import short_reason


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of warmup."""
    parser.add_argument(
        "--to", type=name, metavar="DIR",
        help="cache them in this folder, for an image; name it in NUMBA_CACHE_DIR when they are used",
    )  # fmt: skip
    parser.add_argument("-q", "--quiet", action="store_true", help="say nothing")


def run(options: argparse.Namespace) -> int:
    """Compile everything."""
    from streammargin.compiled.warmup import warmup

    started = time.perf_counter()
    try:
        warmup(lambda what: None if options.quiet else print(f"compiled {what}", file=sys.stderr), options.to)
    except OSError as error:
        if options.to is None:
            raise
        raise OutputError(f"no kernels can be written to {options.to} ({short_reason(error)}); name a folder of your "
                          "own with --to") from error  # fmt: skip
    if not options.quiet:
        named = "" if options.to is None else f"; set NUMBA_CACHE_DIR={shlex.quote(os.path.abspath(options.to))}"
        print(f"kernels ready after {time.perf_counter() - started:.1f} s{named}", file=sys.stderr)
    return 0
