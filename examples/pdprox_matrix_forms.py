"""Section 5.6 of the Pdprox paper: two duals kept or two primals, if either of them is the larger one.

    python -m examples.pdprox_matrix_forms DATA_DIR

The paper expects two things and shows neither. With several targets, ||y_i - W x_i||_2 and n >> d, two primals take
less time. Here the 20,000 rows and seven classes of DATA_DIR/covtype20k have 140,000 duals and 378 weights, l21. In
matrix completion with the absolute loss two duals take less time. Here 75,394 ratings are of 671 users and 1,682 films,
1,128,622 cells. Singular values, the same for both forms, are most of an iteration there. So the work beside them is
judged as well, with the squared norm in place of the trace norm. Forms take turns, and the faster one wins most
rounds, as in `figure_pdprox_forms`.
"""

import argparse

from examples import first_order as methods
from examples.figure_pdprox_forms import DUAL, judge_time, seconds
from examples.figure_pdprox_ratings import ABSOLUTE, problem
from examples.paper_data import covtype, film_ratings
from streammargin.penalties.lp import L2
from streammargin.penalties.outputs import ColumnLengths

LAMBDA, SECONDS = 1e-3, 8.0


def targets(folder, rows=None):
    """The problem of several targets, on the first so many rows."""
    X, Y = covtype(folder)
    return methods.Lengths(X[:rows], LAMBDA, ColumnLengths(), targets=Y[:rows])


def beside(p):
    """The same rows and vectors with a prox that takes no time worth speaking of."""
    return methods.Problem(p.A, p.lam, L2(), p.low, targets=p.targets)


def main():
    """Time the forms, and compare with the paper."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", metavar="DATA_DIR", help="the folder that holds covtype20k/ as distributed")
    parser.add_argument("--quick", action="store_true", help="a small run, to see that the script works")
    args = parser.parse_args()
    spent, few = (0.1, 5) if args.quick else (SECONDS, 1)
    several = targets(f"{args.data}/covtype20k", 1000 if args.quick else None)
    judge_time(
        f"section 5.6, several targets, {several.n} duals and {several.d} weights",
        seconds(several, DUAL, spent), "double-primal", "double-dual",
    )  # fmt: skip
    ratings = problem(film_ratings(few, few), ABSOLUTE, LAMBDA)
    where = f"section 5.6, completion, {ratings.n} duals and {ratings.d} weights"
    judge_time(where, seconds(ratings, DUAL, spent), "double-dual", "double-primal")
    judge_time(f"{where}, beside the prox", seconds(beside(ratings), DUAL, spent), "double-dual", "double-primal")


if __name__ == "__main__":
    main()
