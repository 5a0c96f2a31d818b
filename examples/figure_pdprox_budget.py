"""Figure 6 of the Pdprox paper: Algorithm 1 converges sooner with a smaller bound m on the duals (eq. (19)).

    python -m examples.figure_pdprox_budget DATA_DIR [--out FIGURE.png] [--passes 500]

DATA_DIR holds a9a/, rcv1sub/ and covtype20k/ as distributed. The penalty is the squared l2 norm with lambda = 1/n;
m = 100, 200 and 400; the step is that of Theorem 6. The figure shows the objective and the gap of the averaged
iterates. The paper stops at an absolute gap of 1e-3. --quick takes 500 rows of the first set.
"""

from itertools import pairwise

import numpy as np
from matplotlib import pyplot as plt

import streammargin as sm
from examples.benchmarks.sets import WORK, load, make
from examples.figure_tools import CLEAR, above, arguments, factor, marks, save, verdict

SETS = ("a9a", "rcv1sub", "covtype20k")
BUDGETS = (100, 200, 400)
GAP = 1e-3


def course(X, y, budget, passes):
    """(objectives, gaps) of the averages after each iteration, of the mean loss; an iteration takes two reads."""
    result = sm.train(
        (X, y), solver="pdprox:dual,average", loss=f"hinge:top={budget}", C=1.0, bias=0, tol=0.0, passes=2 * passes + 1
    )
    told = [event for event in result.history if event["event"] == "certificate"][2::2]
    return np.array([(event["primal"] / len(y), event["mean_gap"]) for event in told]).T


def needed(gaps):
    """Passes until the gap is at most GAP; inf if it is not."""
    reached = np.flatnonzero(gaps <= GAP)
    return float(reached[0] + 1) if reached.size else np.inf


def judge(name, courses):
    """The verdict on one set, from {budget: (objectives, gaps)}."""
    passes = [needed(gaps) for _, gaps in courses.values()]
    last = [gaps[-1] for _, gaps in courses.values()]
    holds, by = above(min(factor(one, more) for one, more in pairwise(last)), CLEAR, "factor")
    verdict(
        holds,
        f"Figure 6, {name}: the smaller m, the faster it converges",
        "gaps in the end " + ", ".join(f"{gap:.1e} (m = {m})" for m, gap in zip(courses, last, strict=True))
        + f"; passes to {GAP:g} " + ", ".join(f"{p:g}" for p in passes),
        by,
    )  # fmt: skip


def main():
    """Run all budgets on the three sets, draw, and compare with the paper."""
    args = arguments("figure_pdprox_budget", __doc__, 500, data="a9a/, rcv1sub/ and covtype20k/")
    picture, axes = plt.subplots(2, len(SETS), figsize=(16, 9))
    results = {}
    for name, line in zip(SETS[:1] if args.quick else SETS, axes.T, strict=False):
        X, y, _, _ = load(name, make(name, args.data, WORK), 500 if args.quick else None)
        results[name] = {m: course(X, y, m, args.passes) for m in BUDGETS}
        chosen = marks(args.passes)
        print(f"\n{name}, {len(y)} rows: gap after passes\n{'':8}", *(f"{t:>9}" for t in chosen))
        for m, found in results[name].items():
            print(f"m = {m:<4}", *(f"{found[1][t - 1]:>9.2e}" for t in chosen))
            for axis, values, label in zip(line, found, ("objective", "gap"), strict=True):
                axis.loglog(np.arange(1, args.passes + 1), values, label=f"m = {m}")
                axis.set(title=name, xlabel="passes", ylabel=label)
                axis.legend()
    save(picture, args.out)
    for name, courses in results.items():
        judge(name, courses)


if __name__ == "__main__":
    main()
