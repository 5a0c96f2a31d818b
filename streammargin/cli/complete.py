"""streammargin complete RATINGS [-o FACTORS]"""

from __future__ import annotations

import argparse

from streammargin.cli import train
from streammargin.cli.options import Parser, add_lines, argument, name
from streammargin.kinds import Whole
from streammargin.losses.ratings import RATINGS
from streammargin.options.costs import Costs
from streammargin.options.table import Where, options_for

SHARED = (  # options of `train`
    "tol", "max_seconds", "memory", "threads", "checkpoint", "checkpoint_seconds", "valid",
    "columns", "y", "spool",
)  # fmt: skip
HELPS = {
    "tol": "stop once the relative gap is proven to be EPS at most; absolute:EPS: the mean gap, (primal - dual) / (C "
    "times the number of ratings)",
    "valid": "held-out ratings, whose root mean squared error is shown with every certificate",
    "columns": "ROW,COLUMN: the columns or datasets that say where each rating is (default: the first two)",
    "y": "the column or dataset of the ratings (default: the next column; value)",
    "spool": "existing folder for sorted ratings that do not fit into the memory (default: beside the model)",
}
PASSES = 10_000


def add_options(parser: Parser) -> None:
    """Options of a completion."""
    parser.description = "Complete a matrix from RATINGS. The model is two factors; the penalty is their trace norm."
    parser.add_argument("data", nargs="+", metavar="RATINGS", help="table (CSV, Parquet, Feather), Matrix Market, "
                        "or HDF5 with datasets row, column and value")  # fmt: skip
    parser.add_argument(
        "-o", "--output", type=name, metavar="FACTORS", help="the model file, else RATINGS' stem + .model.npz, here"
    )
    parser.add_argument("--loss", type=argument(RATINGS.of), default=None, metavar="NAME", help="absolute_error "
                        "(default), squared_error, or hinge:levels=1,2,3,4,at=0,3,6,9: a rating above level 3 should "
                        "have a value above 6")  # fmt: skip
    parser.add_argument("-c", "-C", "--C", dest="C", type=argument(Costs().read), default=1.0, metavar="FLOAT|path:K",
                        help="weight of the errors against the trace norm (default 1); path:K: K values, of "
                        "which the best on --valid is kept")  # fmt: skip
    parser.add_argument("--solver", type=name, default="auto", metavar="NAME", help="auto (default); factors, for low "
                        "rank; splitting, for dense matrices in memory; completion: one, then the other")  # fmt: skip
    parser.add_argument("--passes", type=argument(Whole(1).read), default=PASSES, metavar="N",
                        help=f"stop after this many reads of the ratings (default {PASSES})")  # fmt: skip
    add_lines(parser, SHARED, HELPS)
    train.add_run(parser)
    own = (*SHARED, "loss", "C", "solver", "passes")
    others = {line.name: line.default for line in options_for(Where.SHELL) if line.name not in own}
    parser.set_defaults(dask=None, **others)


def run(options: argparse.Namespace) -> int:
    """Complete the matrix, write the factors, and say how it went."""
    from streammargin.training.ratings import GIVEN, options_of

    return train.run(options, options_of, GIVEN)
