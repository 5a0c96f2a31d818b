"""Figure 7 of the Pdprox paper: one method with two duals kept or two primals, and Algorithm 2 beside Algorithm 3.

    python -m examples.figure_pdprox_forms DATA_DIR [--out FIGURE.png] [--passes 200]

The paper's 1000 rows of webspam (8,287,348 columns) are not at hand: 1000 of the film reviews in DATA_DIR/imdb as word
1-3-grams, hashed to 4,194,304 columns; hinge, squared l2 norm, lambda = 1/n and the step of Theorem 6. A form's seconds
are the least of its iterations, the forms in turns, with all columns and with those that the rows have; columns that no
row has keep weights of 0, so that the curves are of the others. Turns make up to 20 rounds, and the least seconds of a
round count. A form is the faster one if it wins most of the rounds.
Beside the paper: a9a (DATA_DIR/a9a), where n >> d. --quick takes 100 rows of it in place of the reviews.
"""

import time

import numpy as np
import scipy.sparse as sp
from matplotlib import pyplot as plt

from examples import first_order as methods
from examples.benchmarks.sets import WORK, load, make
from examples.figure_tools import above, arguments, below, marks, save, verdict
from streammargin.penalties.lp import L2

DUAL = {"double-dual": methods.dual_double_dual, "double-primal": methods.dual_double_primal}
PRIMAL = {"double-dual": methods.primal_double_dual, "double-primal": methods.primal_double_primal}
ROWS, LEAST_TURNS, ROUNDS, SECONDS = 1000, 10, 20, 5.0
MOST = 0.75  # of the rounds; a coin toss wins half of them


def problem(name, data, rows=None):
    """The hinge with lambda = 1/n on all rows of a set, or on a random sample of this size."""
    X, y, _, _ = load(name, make(name, data, WORK))
    chosen = np.random.default_rng(0).permutation(len(y))[:rows]
    return on(sp.csr_matrix(sp.diags(y[chosen].astype(float)) @ X[chosen].astype(np.float64)))


def on(A):
    """The problem of these signed rows."""
    return methods.Problem(A, 1.0 / A.shape[0], L2())


def used(p):
    """The same without the columns that no row has."""
    return on(p.A[:, np.unique(p.A.indices)])


def seconds(p, forms, spent):
    """{form: CPU seconds of each iteration (turns,)}; the forms take turns for this many CPU seconds."""
    iterates = {name: form(p, p.gamma, p.gamma) for name, form in forms.items()}
    turns, end = [], time.process_time() + spent
    while len(turns) < LEAST_TURNS or time.process_time() < end:
        turns.append([])
        for form in iterates.values():
            started = time.process_time()
            next(form)
            turns[-1].append(time.process_time() - started)
    return dict(zip(forms, np.array(turns).T, strict=True))


def least(turns):
    """The least of each round of turns (turns,): what else the machine does is in the others."""
    size = max(1, len(turns) // ROUNDS)
    return turns[: len(turns) // size * size].reshape(-1, size).min(axis=1)


def objectives(p, form, passes):
    """The objective of each iterate (passes,)."""
    iterates = form(p, p.gamma, p.gamma)
    return np.array([p.objective(next(iterates)[0]) for _ in range(passes)])


def judge_time(title, times, faster, slower):
    """The verdict on the seconds (turns,) of two forms of one method."""
    wins = np.mean(least(times[faster]) < least(times[slower]))
    holds, by = above(wins, MOST, "share of rounds")
    verdict(
        holds, f"{title}, {faster} takes less time than {slower}",
        ", ".join(f"{name} {1e3 * values.min():.2f} ms an iteration" for name, values in times.items())
        + f", the least of {len(times[faster])}", by,
    )  # fmt: skip


def judge_alike(dual, primal, twin):
    """Verdicts on the objectives of Algorithm 3, of Algorithm 2, and of Algorithm 3 in its other form."""
    apart = float(np.max(np.abs(dual - twin) / dual))
    holds, by = below(apart, 1e-9, "difference")
    verdict(holds, "section 4.4, both forms are one method", f"their objectives differ by {apart:.1e} at most", by)
    away = np.abs(dual - primal)[len(dual) // 10 :] / dual[len(dual) // 10 :]
    holds, by = below(float(away.max()), 0.05, "difference")
    verdict(
        holds, "Figure 7, Pdprox-primal and Pdprox-dual perform alike, within 5%",
        f"after a tenth of the passes their objectives differ by {away.max():.1e} at most, relative, {away[-1]:.1e} in "
        "the end", by,
    )  # fmt: skip


def main():
    """Time and run all forms, draw, and compare with the paper."""
    args = arguments("figure_pdprox_forms", __doc__, 200, data="imdb/ and a9a/")
    whole = problem("a9a", args.data, 100) if args.quick else problem("imdb", args.data, ROWS)
    spent = 0.1 if args.quick else SECONDS
    p = used(whole)
    times = {}
    for name, one in (("all columns", whole), ("those the rows have", p), ("a9a", problem("a9a", args.data))):
        times[name] = seconds(one, DUAL, spent), seconds(one, PRIMAL, spent)
        print(f"{name}, {one.n} rows of {one.d} columns, ms an iteration (double-dual, double-primal):")
        for title, turns in zip(("Pdprox-dual", "Pdprox-primal"), times[name], strict=True):
            print(f"    {title:14}", *(f"{1e3 * values.min():8.2f}" for values in turns.values()))
    curves = {
        "dual, double-dual": objectives(p, DUAL["double-dual"], args.passes),
        "primal, double-dual": objectives(p, PRIMAL["double-dual"], args.passes),
        "dual, double-primal": objectives(p, DUAL["double-primal"], args.passes),
    }
    chosen = marks(args.passes)
    print(f"\nobjective after iterations\n{'':20}", *(f"{t:>8}" for t in chosen))
    for name, values in curves.items():
        print(f"{name:20}", *(f"{values[t - 1]:>8.5f}" for t in chosen))
    picture, axes = plt.subplots(1, 2, figsize=(12, 5))
    steps = np.arange(1, args.passes + 1)
    for name, form in (("dual, double-dual", "double-dual"), ("dual, double-primal", "double-primal")):
        axes[0].plot(steps * times["all columns"][0][form].min(), curves[name], label=name)
    for name in ("dual, double-dual", "primal, double-dual"):
        axes[1].plot(steps, curves[name], label=name)
    for axis, label in zip(axes, ("seconds, all columns", "iterations"), strict=True):
        axis.set(xlabel=label, ylabel="objective")
        axis.legend()
    save(picture, args.out)
    for name in ("all columns", "those the rows have"):
        judge_time(f"Figure 7, d >> n ({name})", times[name][0], "double-dual", "double-primal")
    judge_time("section 5.6, n >> d (a9a)", times["a9a"][0], "double-primal", "double-dual")
    judge_alike(*curves.values())


if __name__ == "__main__":
    main()
