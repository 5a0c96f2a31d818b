"""streammargin verify MODEL DATA [--valid DATA] [--json]"""

from __future__ import annotations

import argparse
import json
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

from streammargin.cli.options import SCORED, add_lacking, add_lines, check_kind, name
from streammargin.cli.remarks import Remarks, say
from streammargin.errors import DataError, UsageError
from streammargin.files import check_input, held_and_taken, reading
from streammargin.json_values import to_plain
from streammargin.ordered import is_ordered
from streammargin.sizes import format_size, parse_size
from streammargin.wording import printable

if TYPE_CHECKING:
    from streammargin.verification.verify import Check

DISAGREES, DEFAULT = 65, 256 << 20  # bytes of memory
SPOOL = "folder for the rows of a table as numbers (default: a temporary one)"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of verification."""
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("data", nargs="+", metavar="DATA", help="the data that it was trained on; several are shards")
    add_lines(parser, ("x", "y", "columns", "tasks"), SCORED)
    parser.add_argument(
        "--sample-weight", type=name, metavar="NAME", help="dataset of weights (default as in training), or column"
    )
    parser.add_argument("--valid", type=name, metavar="DATA", help="the held-out data, to check their error")
    add_lacking(parser, "--unknown")
    add_lines(parser, ("spool",), {"spool": {"help": SPOOL}})
    parser.add_argument("--memory", metavar="SIZE", help="memory for the model and blocks of rows (default 256M, or "
                        "what a larger model takes, and 128M for rows)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _memory(given: str | None, model: str) -> int:
    """Bytes of `--memory`; without it those of a large model, and of rows beside it, which is told if it is more."""
    if given is not None:
        return parse_size(given)
    check_input(model, "model file")
    with reading(model, "is not a model, or damaged", "train it again: streammargin train DATA -o MODEL"):
        taken = held_and_taken(model)[1]
    if not DEFAULT < taken < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"):
        return DEFAULT  # of one that the machine cannot hold the error tells the size
    taken += DEFAULT // 2
    say(f"{model} is large: verify takes up to {format_size(taken)} of memory; --memory bounds it")
    return taken


def _checks(options: argparse.Namespace, memory: int) -> list[Check]:
    """The figures of a model of rows; tables and files of numbers are spooled first."""
    import h5py

    from streammargin.verification.verify import verify

    names = {name: getattr(options, name) for name in ("x", "y", "sample_weight", "tasks")}
    data, valid, first, spooled = options.data, options.valid, options.data[0], dict[str, str]()
    with ExitStack() as stack:
        if not (os.path.isfile(first) and h5py.is_hdf5(first)) and is_ordered(data):
            from streammargin.verification.tables import RespooledRows, header_of

            stack.enter_context(Remarks())
            header = header_of(options.model, memory)
            rows = RespooledRows(options.model, header, stack, names, memory, options.spool, options.unknown)
            spooled = {rows.written(data): ", ".join(data)}
            if valid is not None and is_ordered(valid):
                valid = rows.held_out().written([valid], ".verify.valid.h5")
                spooled[valid] = options.valid
            data, names = [*spooled][:1], {"spooled": spooled}
        if data is options.data and (options.spool is not None or options.unknown != "error"):
            raise UsageError("`spool` and `unknown` are for tables; leave them out")
        try:
            return verify(options.model, data, valid, memory=memory, **names)
        except DataError as error:
            if not spooled:
                raise
            told = error.raw  # nobody knows the name of a spool
            for path, given in spooled.items():
                told = told.replace(path, given)
            raise type(error)(told) from error


def run(options: argparse.Namespace) -> int:
    """Print each figure as certified and as recomputed; returns 65 if one differs."""
    from streammargin.verification.ratings import is_completion, verify_ratings

    memory = _memory(options.memory, options.model)
    of_pairs = is_completion(options.model)
    check_kind(options, of_pairs)
    if of_pairs:
        checks = verify_ratings(options.model, options.data, options.valid, options.columns, options.y, memory)
    else:
        checks = _checks(options, memory)
    agrees = all(check.agrees is not False for check in checks)
    if options.json:
        found = {"agrees": agrees, "checks": [check._asdict() for check in checks]}
        print(json.dumps(to_plain(found), allow_nan=False))
        return 0 if agrees else DISAGREES
    width = max(len(printable(check.name)) for check in checks)
    print(f"{'':<{width}}  {'certified':<23}  recomputed")
    for check in checks:
        known = "" if check.certified is None else f"{check.certified:.17g}"
        word = {True: "agrees", False: "DIFFERS", None: ""}[check.agrees]
        print(f"{printable(check.name):<{width}}  {known:<23}  {check.found:<23.17g}  {word}".rstrip())
    print("all agree" if agrees else "the model differs from the certified one, or these are not its training rows")
    return 0 if agrees else DISAGREES
