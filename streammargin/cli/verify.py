"""streammargin verify MODEL DATA [--valid DATA] [--json]"""

from __future__ import annotations

import argparse
import json

from streammargin.cli.options import add_common, add_data_names, name

DISAGREES = 65


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of verification."""
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument(
        "data", nargs="+", metavar="DATA", help="the HDF5 file that it learned from; several are shards"
    )
    add_data_names(parser)
    parser.add_argument(
        "--sample-weight", type=name, metavar="NAME", help="dataset of weights (default as in training)"
    )
    parser.add_argument("--valid", type=name, metavar="DATA", help="the held-out data, for their error")
    parser.add_argument("--memory", default="256M", metavar="SIZE", help="for blocks of rows, default 256M")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    """Print each figure as it was certified and as it is; 65 where one of them differs."""
    from dataclasses import asdict

    from streammargin.json_values import to_plain
    from streammargin.sizes import parse_size
    from streammargin.verification import verify
    from streammargin.wording import one_line

    found = verify(
        options.model, options.data, options.valid, x=options.x, y=options.y, sample_weight=options.sample_weight,
        memory=parse_size(options.memory),
    )  # fmt: skip
    if options.json:
        print(json.dumps(to_plain({**asdict(found), "agrees": found.agrees}), allow_nan=False))
        return 0 if found.agrees else DISAGREES
    width = max(len(one_line(check.name)) for check in found.checks)
    print(f"{'':<{width}}  {'certified':<23}  recomputed")
    for check in found.checks:
        known = "" if check.certified is None else f"{check.certified:.17g}"
        word = {True: "agrees", False: "DIFFERS", None: ""}[check.agrees] + (f" ({check.note})" if check.note else "")
        print(f"{one_line(check.name):<{width}}  {known:<23}  {check.found:<23.17g}  {word}".rstrip())
    print(
        "all agree"
        if found.agrees
        else "the model is not what was certified, or these are not the rows it learned from"
    )
    return 0 if found.agrees else DISAGREES
