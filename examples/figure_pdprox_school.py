"""Figure 3 of the Pdprox paper, and the part of its Figure 5 and section 5.4 on the same data.

    python -m examples.figure_pdprox_school DATA_DIR [--out FIGURE.png] [--passes 1000]

Multi-task regression of the scores of 139 schools (DATA_DIR/school), l1inf over all schools; 75% of the rows of each,
drawn at random, are trained on. Absolute and epsilon-insensitive loss (0.01), which has two duals a row as in the
paper, lambda = 1e-3 and 1e-5. Methods, steps and counts of products are those of `figure_pdprox_groups`. The curves
show how far the least objective so far is above the optimum of an interior-point method (Clarabel). Our own training
with `tasks` is one more curve, with seconds of the clock. Its passes are iterations of interior points. Two products
are counted for each, but they also sum matrices and read the rows a few more times. Root mean squared errors and the
objective of W = 0 are means over five draws of the training rows, with the steps of the first draw. Section 5.4 tells
the share of columns whose weights are 0 in all schools, a mean over all iterations.
"""

import itertools
from typing import NamedTuple

import clarabel
import numpy as np
import scipy.sparse as sp
from matplotlib import pyplot as plt

import streammargin as sm
from examples import first_order as methods
from examples import first_order_curves as curves
from examples.figure_tools import above, ahead, arguments, below, judge_sparsity, save, verdict
from examples.first_order_curves import GAP_METHOD, PDPROX
from examples.paper_data import of_tasks, school
from streammargin.penalties.outputs import ColumnSizes

LAMBDAS = (1e-3, 1e-5)
ABSOLUTE, INSENSITIVE = "absolute_error", "epsilon_insensitive"
WIDTHS = {ABSOLUTE: 0.0, INSENSITIVE: 0.01}
SHARE, SEEDS = 0.75, 5
START, START_NEAR = 20.52, 0.15  # the paper's objective of W = 0
ERROR, ERROR_NEAR = 10.34, 0.25  # and its root mean squared error of both losses
SPARSE, SPARSE_NEAR = {PDPROX: (0.3766, 0.0), GAP_METHOD: (0.0, 0.0)}, 0.05  # shares of empty columns, both lambda
ACCURACY = 1e-6  # of the interior-point method and of our own training, relative


class Split(NamedTuple):
    """Training rows A (n, tasks d) of W (tasks, d) with scores y (n,), and those left out."""

    A: sp.csr_matrix
    y: np.ndarray
    others: sp.csr_matrix
    left: np.ndarray
    shape: tuple[int, int]

    def error(self, w):
        """The root mean squared error of the rows left out."""
        return float(np.sqrt(np.mean((self.others @ w - self.left) ** 2)))


def drawn(X, y, tasks, seed):
    """The split of a seed: at random, of each task its share."""
    random = np.random.default_rng(seed)
    chosen = np.zeros(len(y), bool)
    for task in range(int(tasks.max()) + 1):
        own = np.flatnonzero(tasks == task)
        chosen[random.permutation(own)[: round(SHARE * len(own))]] = True
    A, shape = of_tasks(X, tasks), (int(tasks.max()) + 1, X.shape[1])
    return Split(A[chosen], y[chosen], A[~chosen], y[~chosen], shape)


def problem(split, width, lam):
    """The problem of a split; a width above 0 makes two duals of each row."""
    A, y = split.A, split.y
    if width == 0.0:
        return methods.Problem(A, lam, ColumnSizes(), -1.0, targets=y, shape=split.shape)
    both, targets = sp.vstack([A, -A]).tocsr(), np.concatenate([y, -y]) - width
    return methods.Problem(both, lam, ColumnSizes(), 0.0, targets=targets, rows=len(y), shape=split.shape)


def optimum(p):
    """(the least objective, weights there) of a problem with l1inf, by an interior-point method for linear programs.

    Its variables are the weights, the largest size of each column, and the loss of each term.
    """
    tasks, columns = p.shape
    one, each, rows = sp.identity(p.d), sp.vstack([sp.identity(columns)] * tasks), sp.identity(p.n)
    targets = np.broadcast_to(p.targets, p.n)
    G = sp.bmat([[-p.A, None, -rows], [-p.low * p.A, None, -rows], [one, -each, None], [-one, -each, None]], "csc")
    h = np.concatenate([-targets, -p.low * targets, np.zeros(2 * p.d)])
    costs = np.concatenate([np.zeros(p.d), np.full(columns, p.lam), np.full(p.n, 1.0 / p.rows)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    cone = [clarabel.NonnegativeConeT(len(h))]
    found = clarabel.DefaultSolver(sp.csc_matrix((costs.size,) * 2), costs, G, h, cone, settings).solve()
    w = np.array(found.x)[: p.d]
    if abs(p.objective(w) - found.obj_val_dual) > ACCURACY * found.obj_val_dual:
        raise RuntimeError(f"the interior-point method ended with {found.status}: {found.obj_val_dual:g}")
    return found.obj_val_dual, w


def own(split, loss, lam):
    """The certificates of our own training on a split, as a curve. Its objective is that of the paper over lambda."""
    n, d = len(split.y), split.shape[1]
    X, tasks = split.A.data.reshape(n, d), split.A.indices[::d] // d
    word = f"{loss}:{WIDTHS[loss]}" if WIDTHS[loss] else loss
    options = {"loss": word, "penalty": "l1inf", "C": 1.0 / (lam * n), "bias": 0, "tol": ACCURACY, "threads": 1}
    result = sm.train((X, split.y), tasks=tasks, **options)
    print(f"streammargin: {lam * result.certificate.primal:.6f}, gap {result.certificate.gap:.1e}")
    return curves.certified(result, lam)


def empty(shape):
    """A function of w: for each column whether its weights are 0 in all schools."""
    return lambda w: ~w.reshape(shape).any(axis=0)


class Errors(NamedTuple):
    """Root mean squared errors of the rows left out, for each draw: at the optimum, and of Pdprox."""

    best: list[float]
    own: list[float]


def run(splits, loss, lam, most):
    """(panel, errors, shares of empty columns, our own curve) of a problem.

    All are of the first split, but errors of the optimum and of Pdprox, which are of all splits.
    """
    p = problem(splits[0], WIDTHS[loss], lam)
    least, w = optimum(p)
    size = float(np.linalg.norm(w))
    panel = curves.Panel(f"{loss}, lambda = {lam:g}", curves.compare(p, size, most), least, most)
    panel.show()
    certified = own(splits[0], loss, lam)
    tried = {name: curves.runs(p, size)[name](panel.found[name][0]) for name in SPARSE}
    shares = {name: curves.emptiness(p, iterates, most, empty(p.shape)) for name, iterates in tried.items()}
    errors = Errors([splits[0].error(w)], [])
    for number, split in enumerate(splits):
        p = problem(split, WIDTHS[loss], lam)
        if number:
            errors.best.append(split.error(optimum(p)[1]))
        iterates = methods.algorithm_1(p, panel.found[PDPROX][0] * p.gamma)
        errors.own.append(split.error(next(itertools.islice(iterates, most // 2 - 1, None))[0]))
    return panel, errors, shares, certified


def judge_start(found):
    """The verdict on the objective of W = 0, from that of each draw."""
    holds, by = below(abs(np.mean(found) - START), START_NEAR, "difference")
    numbers = f"{np.mean(found):.2f} in a mean over {len(found)} draws, from {min(found):.2f} to {max(found):.2f}"
    verdict(holds, f"Figure 3, the objective at W = 0 is near the paper's {START}", numbers, by)


def judge_lead(panel):
    """The verdict on the course of Pdprox."""
    led, marks = panel.lead()
    holds, by = above(led / marks, 0.5, "share")
    verdict(
        holds, f"Figure 3, {panel.title}: Pdprox is below all baselines most of the time",
        f"it is at {led} of {marks} counts of products", by,
    )  # fmt: skip


def judge_losses(lam, absolute, insensitive):
    """The verdict on agd with both losses."""
    behind = [panel.ends()[1]["agd"] / panel.least for panel in (absolute, insensitive)]
    holds, by = ahead(*behind)
    verdict(
        holds, f"Figure 3, lambda = {lam:g}: agd is worse with the epsilon-insensitive loss",
        f"in the end it is above the optimum by {behind[1]:.4g} of that, with the absolute loss by {behind[0]:.4g}", by,
    )  # fmt: skip


def judge_errors(loss, found):
    """The verdict on the errors of rows left out; found {lambda: Errors}."""
    means = {lam: (float(np.mean(errors.own)), float(np.mean(errors.best))) for lam, errors in found.items()}
    nearest = min(abs(own - ERROR) for own, _ in means.values())
    holds, by = below(nearest, ERROR_NEAR, "difference")
    numbers = ", ".join(f"{own:.2f} with lambda = {lam:g} ({best:.2f} at the optimum)"
                        for lam, (own, best) in means.items())  # fmt: skip
    verdict(
        holds, f"section 5.2, {loss}: the error of the test rows is near the paper's {ERROR}",
        f"{numbers}, in a mean over the draws", by,
    )  # fmt: skip


def main():
    """Run all methods on the four problems, draw, and compare with the paper."""
    args = arguments("figure_pdprox_school", __doc__, 1000, data="school/")
    X, y, tasks = school(f"{args.data}/school")
    if args.quick:
        X, y, tasks = (part[tasks < 12] for part in (X, y, tasks))
    splits = [drawn(X, y, tasks, seed) for seed in range(2 if args.quick else SEEDS)]
    cases = [(loss, lam) for loss in WIDTHS for lam in LAMBDAS]
    found = {(loss, lam): run(splits, loss, lam, 2 * args.passes) for loss, lam in cases}
    panels = {case: found[case][0] for case in cases}
    picture, axes = plt.subplots(2, 4, figsize=(20, 9))
    for column, panel in enumerate(panels.values()):
        certified = found[cases[column]][3]
        for at, line in ((0, axes[0]), (2, axes[1])):
            panel.draw(line[column], at)
            line[column].loglog(certified[at], certified[1] - panel.least, "k--", label="streammargin, certified")
        axes[0, column].legend()
    save(picture, args.out)
    judge_start([float(np.mean(np.abs(split.y))) for split in splits])
    for panel in panels.values():
        curves.judge_baselines(f"Figure 3, {panel.title}", panel)
        judge_lead(panel)
    for lam in LAMBDAS:
        judge_losses(lam, *(panels[loss, lam] for loss in WIDTHS))
    for loss in WIDTHS:
        judge_errors(loss, {lam: found[loss, lam][1] for lam in LAMBDAS})
    for loss, where in ((INSENSITIVE, "Figure 5"), (ABSOLUTE, f"section 5.4, {ABSOLUTE} as with {INSENSITIVE}")):
        for lam in LAMBDAS:
            curves.judge_gap_method(f"{where}, l1inf, lambda = {lam:g}", panels[loss, lam], GAP_METHOD, PDPROX)
    curves.judge_lambdas("Figure 5, l1inf", *(panels[INSENSITIVE, lam] for lam in LAMBDAS))
    shares = {lam: found[INSENSITIVE, lam][2] for lam in LAMBDAS}
    judge_sparsity(shares, SPARSE, SPARSE_NEAR, "l1inf", "columns")


if __name__ == "__main__":
    main()
