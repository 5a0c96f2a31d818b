"""Figure 8 of the Pdprox paper: the squared l2 norm and the hinge, beside Pegasos, on covtype.

    python -m examples.figure_pdprox_pegasos DATA_DIR [--out FIGURE.png] [--passes 300]

DATA_DIR holds covtype20k/, of which 16,000 rows are the training set: class 2 against the rest, scaled by maxabs;
lambda = n^-0.5, n^-0.8 and n^-1. Pdprox is Algorithm 3, once with the single step of Theorem 6 and once with two step
sizes of the same product. Their ratio tau / sigma is the best of 1000, ..., 0.001. The accelerated variant (-ac:
Chambolle and Pock 2011, Algorithm 2) uses the same two. Pegasos is the package's. One pass is one iteration of Pdprox
or n steps of Pegasos. The optimum is certified by `newton`.
"""

import time

import numpy as np
import scipy.sparse as sp
from matplotlib import pyplot as plt

import streammargin as sm
from examples.benchmarks.sets import WORK, load, make
from examples.figure_tools import arguments, marks, verdict
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
    verdict(
        last[TWO] < last[ONE], f"{title}: (1) two steps converge better than one",
        f"in the end {last[TWO]:.1e} above the optimum against {last[ONE]:.1e}",
    )  # fmt: skip
    apart = float(np.max(np.abs(runs[FASTER][0] / two - 1.0)[len(two) // 10 :]))
    verdict(
        apart < ALIKE, f"{title}: (3) the accelerated version is almost identical, within {ALIKE:.0%}",
        f"after a tenth of the passes the objectives differ by {apart:.1%} at most; in the end {last[FASTER]:.1e} "
        f"above the optimum against {last[TWO]:.1e}",
    )  # fmt: skip


def judge_pegasos(results):
    """The verdict on Pegasos, from {exponent: (runs, least)}: what both are above the optimum after equal seconds."""
    above, numbers = {}, []
    for exponent, (runs, least) in results.items():
        until = min(len(values) * seconds for values, seconds in (runs[TWO], runs[PEGASOS]))
        passes = {name: max(1, int(until / runs[name][1] + 1e-9)) for name in (PEGASOS, TWO)}
        above[exponent] = {name: float(runs[name][0][passes[name] - 1]) - least for name in passes}
        at = above[exponent]
        last = [float(runs[name][0][-1]) - least for name in (PEGASOS, TWO)]
        numbers.append(
            f"n^{exponent:g}: after {until:.2f} s {at[PEGASOS]:.1e} above the optimum ({passes[PEGASOS]} passes) "
            f"against {at[TWO]:.1e} ({passes[TWO]}), after as many passes {last[0]:.1e} against {last[1]:.1e}"
        )
    large, small = above[EXPONENTS[0]], above[EXPONENTS[-1]]
    verdict(
        large[PEGASOS] < large[TWO] and small[TWO] < small[PEGASOS],
        "Figure 8: (2) in running time Pegasos is ahead at n^-0.5 and Pdprox (tau, sigma) at n^-1", "; ".join(numbers),
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
    picture.tight_layout()
    picture.savefig(args.out, dpi=120)
    print(f"\n{args.out}\n")
    for exponent, result in results.items():
        judge(exponent, *result)
    judge_pegasos(results)


if __name__ == "__main__":
    main()
