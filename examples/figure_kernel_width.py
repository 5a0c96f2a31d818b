"""Figure 6 of the diagonal descent paper, digits, with a kernel that is not nearly the identity.

    python -m examples.figure_kernel_width DATA_DIR [--out FIGURE.png] [--passes 1000]

As `figure_kernel_digits`, on 2,000 rows of each pair of digits. Half the median of their squared distances is sigma^2,
so that the kernel of two rows is 1/e in the median. With the paper's 3.4 it is below .02 for any two rows.
"""

import logging

import numpy as np

from examples.figure_kernel_digits import SETS, curves, draw, judge_gaps, judge_pairs, rows_of
from examples.figure_tools import arguments, save

ROWS = 2000


def median_width(X):
    """sigma^2 for which the kernel of two rows is 1/e in the median."""
    squares = (X**2).sum(axis=1)
    between = squares[:, None] + squares - 2.0 * X @ X.T
    return float(np.median(between[np.triu_indices(len(X), 1)])) / 2.0


def main():
    """Run all methods on the three pairs, draw, and compare with the paper."""
    args = arguments("figure_kernel_width", __doc__, 1000, data="mnist/")
    logging.getLogger("streammargin").setLevel(logging.ERROR)  # ranges of columns
    found = {}
    for name in (name for name in SETS if SETS[name] is not None):
        rows = rows_of(name, args.data, 400 if args.quick else ROWS)
        found[f"{name}, median width"] = curves(name, rows, median_width(rows[0]), args.passes)
    save(draw(found), args.out)
    judge_gaps(found)
    judge_pairs(found, ", with the median width")


if __name__ == "__main__":
    main()
