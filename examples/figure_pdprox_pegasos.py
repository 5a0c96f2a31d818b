"""Figure 8 of the Pdprox paper: the squared l2 norm and the hinge, beside Pegasos, on covtype.

    python -m examples.figure_pdprox_pegasos DATA_DIR [--out FIGURE.png] [--passes 300]

DATA_DIR holds covtype20k/, of which 16,000 rows are the training set: class 2 against the rest, scaled by maxabs;
lambda = n^-0.5, n^-0.8 and n^-1. Pdprox is Algorithm 3 with the one step of Theorem 6, and with two steps of the same
product. Their ratio tau / sigma is the best of 1000, ..., 0.001; with the same two it is accelerated (-ac: Chambolle
and Pock 2011, Algorithm 2). Pegasos is the package's. An iteration of Pdprox is one pass, as are n steps of Pegasos.
The optimum is certified by `newton`. Pegasos swings from one pass to the next, so that it is compared by medians, over
all passes but the first sixth.
"""

import time

import numpy as np
import scipy.sparse as sp
from matplotlib import pyplot as plt

import streammargin as sm
from examples.benchmarks.sets import WORK, load, make
from examples.figure_tools import CLEAR, above, ahead, arguments, below, factor, marks, save, verdict
from examples.first_order import Problem, dual_double_dual
from examples.trajectories import trajectory
from streammargin.penalties.lp import L2

EXPONENTS = (-0.5, -0.8, -1.0)
RATIOS = (1e3, 1e2, 1e1, 1.0, 1e-1, 1e-2, 1e-3)
ONE, TWO, FASTER, PEGASOS = "Pdprox (gamma)", "Pdprox (tau, sigma)", "Pdprox-ac", "Pegasos"
ALIKE = 0.02  # a relative difference of two objectives


def course(p, weights, passes):
    """Objectives (passes,) of weights after each pass, and the median seconds of a pass without them."""
    found, spent = [], []
    for _ in range(passes):
        started = time.perf_counter()
        w = next(weights)
        spent.append(time.perf_counter() - started)
        found.append(p.objective(w))
    return np.array(found), float(np.median(spent))


def stepped(p, ratio, **options):
    """Weights of Algorithm 3 with tau / sigma = ratio."""
    root = ratio**0.5
    return (w for w, _ in dual_double_dual(p, root * p.gamma, p.gamma / root, **options))


def best(p, passes):
    """(ratio, course) of the ratio that is lowest in the end."""
    tried = ((ratio, course(p, stepped(p, ratio), passes)) for ratio in RATIOS)
    return min(tried, key=lambda one: one[1][0][-1])


def compare(X, y, lam, passes):
    """{method: (objectives, seconds a pass)}, the ratio of the two steps, and what is certified below the optimum."""
    A = sp.csr_matrix(y[:, None] * X.astype(np.float64))
    p = Problem(A, lam, L2())
    C = 1.0 / (lam * len(y))
    proven = sm.train((X, y), C=C, bias=0, solver="newton", tol=1e-6).certificate
    ratio, two = best(p, passes)
    faster = course(p, stepped(p, ratio, strong=1.0), passes)
    list(trajectory("pegasos", X, y, 1, C=C))  # compiles
    pegasos = (w for w, _ in trajectory("pegasos", X, y, passes, C=C))
    one = course(p, stepped(p, 1.0), passes)
    return {ONE: one, TWO: two, FASTER: faster, PEGASOS: course(p, pegasos, passes)}, ratio, lam * proven.dual


def judge(exponent, runs, least):
    """The verdicts on the steps with one lambda; least: below the optimum."""
    title, two = f"Figure 8, lambda = n^{exponent:g}", runs[TWO][0]
    last = {name: float(values[-1]) - least for name, (values, _) in runs.items()}
    holds, by = ahead(last[TWO], last[ONE])
    verdict(
        holds, f"{title}: (1) two steps converge better than one",
        f"in the end {last[TWO]:.1e} above the optimum against {last[ONE]:.1e}", by,
    )  # fmt: skip
    apart = float(np.max(np.abs(runs[FASTER][0] / two - 1.0)[len(two) // 10 :]))
    holds, by = below(apart, ALIKE, "difference")
    verdict(
        holds, f"{title}: (3) the accelerated version is almost identical, within {ALIKE:.0%}",
        f"after a tenth of the passes the objectives differ by {apart:.1%} at most; in the end {last[FASTER]:.1e} "
        f"above the optimum against {last[TWO]:.1e}", by,
    )  # fmt: skip


def settled(values):
    """Values after passes, without the first sixth of them."""
    return values[len(values) // 6 :]


def judge_pegasos(results):
    """The verdict on Pegasos, from {exponent: (runs, least)}: what both are above the optimum within equal seconds."""
    apart, numbers = {}, []
    for exponent, (runs, least) in results.items():
        until = min(len(values) * seconds for values, seconds in (runs[TWO], runs[PEGASOS]))
        passes = {name: max(1, int(until / runs[name][1] + 1e-9)) for name in (PEGASOS, TWO)}
        apart[exponent] = {name: float(np.median(settled(runs[name][0][: passes[name]]))) - least for name in passes}
        at, late = apart[exponent], {name: settled(runs[name][0]) - least for name in passes}
        numbers.append(
            f"n^{exponent:g}: in {until:.2f} s a median of {at[PEGASOS]:.1e} above the optimum ({passes[PEGASOS]} "
            f"passes) against {at[TWO]:.1e} ({passes[TWO]}). In as many passes {np.median(late[PEGASOS]):.1e} against "
            f"{np.median(late[TWO]):.1e}, and Pegasos is between {late[PEGASOS].min():.1e} and "
            f"{late[PEGASOS].max():.1e}"
        )
    large, small = apart[EXPONENTS[0]], apart[EXPONENTS[-1]]
    holds, by = above(min(factor(large[PEGASOS], large[TWO]), factor(small[TWO], small[PEGASOS])), CLEAR, "factor")
    verdict(
        holds, "Figure 8: (2) in running time Pegasos is ahead at n^-0.5 and Pdprox (tau, sigma) at n^-1",
        "; ".join(numbers), by,
    )  # fmt: skip


def main():
    """Run all methods with the three lambdas, draw, and compare with the paper."""
    args = arguments("figure_pdprox_pegasos", __doc__, 300, data="covtype20k/")
    X, y, _, _ = load("covtype20k", make("covtype20k", args.data, WORK), 500 if args.quick else None)
    picture, axes = plt.subplots(1, 3, figsize=(16, 5))
    chosen, results = marks(args.passes), {}
    for exponent, axis in zip(EXPONENTS, axes, strict=True):
        runs, ratio, least = compare(X, y, len(y) ** exponent, args.passes)
        results[exponent] = runs, least
        print(
            f"\nlambda = n^{exponent:g}, tau / sigma {ratio:g}, optimum {least:.6f}; objective after passes, ms a pass"
        )
        print(f"{'':20}", *(f"{t:>8}" for t in chosen))
        for name, (values, seconds) in runs.items():
            print(f"{name:20}", *(f"{values[t - 1]:>8.5f}" for t in chosen), f"{1e3 * seconds:>8.2f}")
            axis.loglog(np.arange(1, args.passes + 1), values - least, label=name)
        axis.set(title=f"lambda = n^{exponent:g}", xlabel="passes", ylabel="objective above the optimum")
        axis.legend()
    save(picture, args.out)
    for exponent, result in results.items():
        judge(exponent, *result)
    judge_pegasos(results)


if __name__ == "__main__":
    main()
