"""streammargin warmup"""

from __future__ import annotations

import argparse
import sys
import time

from streammargin.cli.options import add_common


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of warmup."""
    parser.add_argument("-q", "--quiet", action="store_true", help="say nothing")
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    """Compile everything."""
    from streammargin.compiled.warmup import warmup

    started = time.perf_counter()
    warmup(lambda what: None if options.quiet else print(f"compiled {what}", file=sys.stderr))
    if not options.quiet:
        print(f"kernels ready after {time.perf_counter() - started:.1f} s", file=sys.stderr)
    return 0
