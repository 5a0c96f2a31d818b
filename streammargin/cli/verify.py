"""streammargin verify MODEL DATA [--valid DATA] [--json]"""

from __future__ import annotations

import argparse
import json
import os

from streammargin.cli.options import add_lines, check_kind, name

DISAGREES = 65


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of verification."""
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument(
        "data", nargs="+", metavar="DATA", help="the HDF5 file that it learned from; several are shards"
    )
    add_lines(parser, ("x", "y", "columns", "tasks"))
    parser.add_argument(
        "--sample-weight", type=name, metavar="NAME", help="dataset of weights (default as in training)"
    )
    parser.add_argument("--valid", type=name, metavar="DATA", help="the held-out data, for their error")
    parser.add_argument("--memory", default="256M", metavar="SIZE", help="memory for blocks of rows (default 256M)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> int:
    """Print each figure as certified and as recomputed; returns 65 if one differs."""
    from streammargin.completed import is_completion, verify_ratings
    from streammargin.errors import DataError
    from streammargin.json_values import to_plain
    from streammargin.ordered import is_table
    from streammargin.sizes import parse_size
    from streammargin.verification import verify
    from streammargin.wording import printable

    memory = parse_size(options.memory)
    of_pairs = is_completion(options.model)
    check_kind(options, of_pairs)
    if of_pairs:
        checks = verify_ratings(options.model, options.data, options.valid, options.columns, options.y, memory)
    else:
        names = {name: getattr(options, name) for name in ("x", "y", "sample_weight", "tasks")}
        try:
            checks = verify(options.model, options.data, options.valid, memory=memory, **names)
        except DataError:
            table = next((path for path in options.data if is_table(path)), None)
            if table is None:
                raise
            raise DataError(
                f"{table} is a table, and its rows are verified as numbers; give the file of them that the training "
                f"wrote beside the model, as {os.path.basename(table)}.rows.h5"
            ) from None
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
