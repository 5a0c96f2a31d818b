"""streammargin complete RATINGS [-o FACTORS]"""

from __future__ import annotations

import argparse
from typing import Any

from streammargin.cli import train
from streammargin.cli.options import Parser, add_lines, name
from streammargin.losses.ratings import RATINGS
from streammargin.options.costs import Costs
from streammargin.options.table import Where, options_for
from streammargin.words import Worded

LINES: dict[str, dict[str, Any]] = {  # the options, and what is another than in those of `train`
    "loss": {"kind": Worded(RATINGS), "help": "absolute_error (default), squared_error, or "
             "hinge:levels=1,2,3,4,at=0,3,6,9: a rating above level 3 asks for a value above 6"},
    "C": {"kind": Costs("FLOAT|path:K"), "default": 1.0, "help": "weight of the errors against the trace norm; "
          "path:K: K values, of which the best on `valid` is kept"},
    "solver": {"help": "factors, for low rank; splitting, for dense matrices in memory; completion: one, then the "
               "other"},
    "passes": {"default": 10_000, "help": "stop after this many reads of the ratings"},
    "tol": {"help": "stop once the relative gap is proven to be EPS at most; absolute:EPS: the mean gap, (primal - "
            "dual) / (C times the number of ratings)"},
    **{name: {} for name in ("max_seconds", "memory", "threads", "checkpoint", "checkpoint_seconds")},
    "valid": {"help": "held-out ratings, whose root mean squared error is shown with every certificate"},
    "columns": {"help": "ROW,COLUMN: the columns or datasets that say where each rating is (default: the first two)"},
    "y": {"help": "the column or dataset of the ratings (default: the next column; value)"},
    "spool": {"help": "folder for sorted ratings that do not fit into the memory (default: beside the model)"},
}  # fmt: skip


def add_options(parser: Parser) -> None:
    """Options of a completion."""
    parser.description = "Complete a matrix from RATINGS. The model is two factors; the penalty is their trace norm."
    parser.add_argument("data", nargs="+", metavar="RATINGS", help="table (CSV, Parquet, Feather), Matrix Market, "
                        "or .npz of SciPy")  # fmt: skip
    parser.add_argument(
        "-o", "--output", type=name, metavar="FACTORS", help="the model file, else RATINGS' stem + .model.npz, here"
    )
    add_lines(parser, LINES, LINES)
    train.add_run(parser)
    others = {line.name: line.default for line in options_for(Where.SHELL) if line.name not in LINES}
    parser.set_defaults(dask=None, **others)


def run(options: argparse.Namespace) -> int:
    """Complete the matrix, write the factors, and say how it went."""
    from streammargin.training.ratings import GIVEN, options_of

    return train.run(options, options_of, GIVEN)
