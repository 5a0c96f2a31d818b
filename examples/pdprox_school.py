"""The start of Figure 3 of the Pdprox paper: its objective of the School data at W = 0.

    python -m examples.pdprox_school DATA_DIR [--seeds 5]

DATA_DIR holds school/school.mat as distributed: 139 schools, a column of scores for each. The training rows are 75% of
the rows of each school, drawn at random. At W = 0 the objective of the absolute loss is the mean size of their scores.
"""

import argparse

import numpy as np
from scipy.io import loadmat

from examples.figure_tools import below, verdict

PAPER, NEAR, SHARE = 20.52, 0.15, 0.75


def start(scores, seed):
    """The mean absolute loss of W = 0 over the training rows; scores: an array for each school."""
    random = np.random.default_rng(seed)
    kept = [random.permutation(one)[: round(SHARE * len(one))] for one in scores]
    return float(np.mean(np.abs(np.concatenate(kept))))


def judge(found):
    """The verdict, from the objective of each draw."""
    holds, by = below(abs(np.mean(found) - PAPER), NEAR, "difference")
    numbers = f"{np.mean(found):.2f} in a mean over {len(found)} draws, from {min(found):.2f} to {max(found):.2f}"
    verdict(holds, f"Figure 3, the objective at W = 0 is near the paper's {PAPER}", numbers, by)


def main():
    """Read the scores, draw training rows, and compare with the paper."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", metavar="DATA_DIR")
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    scores = [np.ravel(one).astype(float) for one in loadmat(f"{args.data}/school/school.mat")["Y"].ravel()]
    judge([start(scores, seed) for seed in range(args.seeds)])


if __name__ == "__main__":
    main()
