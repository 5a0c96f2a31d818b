"""Figures 2 and 3 of the diagonal descent paper.

    python -m examples.figure_diagonal_descent [--out FIGURE.png] [--passes 1000]

The toy set has 80 points and the solution w* = (1/2, 1/2). The figure plots the distance to w* of the iterates and the
normalised iterates, and their margin and angle gaps; the last panel has the points, and the hyperplane that each method
ends with. Curves: Algorithm 1, and Algorithm 2 with alpha = 10, 30, 50, with lambda_t = 4/t and the paper's step,
gamma=fixed. The last two curves are the words without these fields (a step that adapts, inertia that starts again).
"""

import numpy as np
from matplotlib import pyplot as plt

from examples.figure_tools import above, ahead, arguments, below, save, settles, table, verdict
from examples.paper_data import toy
from examples.trajectories import margin, states
from streammargin.solvers import Diagonal, InertialDiagonal

SOLUTION = np.array([0.5, 0.5])
FALLS = {"lambda0": 4.0, "decay": "linear"}


def iterates(solver, X, y, passes):
    """w_t = A^T beta_t (passes, d) of diagonal descent, without the inertia that `weights` would add."""
    runs = states(solver, X, y, passes)
    return np.array([state.theta[0, :-1] / method.largest_norm(state) for method, _, state, _ in runs])


def judge(distances, paper, own, visible=1e-3):
    """The verdicts; distances {name: ||w_t - w*|| after every t}; what is below `visible` is invisible in a picture."""
    plain, *inertial = paper
    passes = len(distances[plain])
    steps = np.arange(1, passes + 1)
    last = {name: distances[name][-1] for name in paper}
    holds, by = ahead(max(last[name] for name in inertial), last[plain])
    verdict(
        holds, "section 6.1, with inertia it is faster, though its worst-case bound is the weaker one",
        f"||w_t - w*|| after {passes} iterations: " + ", ".join(f"{name} {last[name]:.1e}" for name in paper), by,
    )  # fmt: skip
    times = {name: settles(steps, distances[name], visible) for name in paper}
    holds, by = ahead(max(times[name] for name in inertial), times[plain])
    verdict(
        holds, f"Figure 3, with every alpha it is at w* to plotting accuracy, {visible:g}, before the plain one is",
        "iterations needed: " + ", ".join(f"{name} {times[name]:.0f}" for name in paper), by,
    )  # fmt: skip
    half = np.arange(passes // 2, passes)
    logs = np.log(np.maximum(distances[plain][half], 1e-300))
    rate = np.polyfit(half, logs, 1)
    straight = 1.0 - (logs - np.polyval(rate, half)).var() / logs.var()
    holds, by = above(straight, 0.99, "R^2")
    verdict(
        holds and rate[0] < 0.0, "Figure 3, the plain one converges linearly",
        f"in the second half ||w_t - w*|| falls by the factor {np.exp(rate[0]):.4f} an iteration, R^2 {straight:.4f}",
        by,
    )  # fmt: skip
    ratios = np.array([distances[name] for name in inertial])
    ratios = ratios.max(axis=0) / np.maximum(ratios.min(axis=0), 1e-15)
    typical = float(np.median(ratios))
    holds, by = above(typical, 10.0, "factor")
    verdict(
        holds, "Figure 3, the choice of alpha decisively affects the performance",
        f"the distances of the three differ by a factor of {typical:.1e}, the median over the iterations", by,
    )  # fmt: skip
    print("beside the paper, iterations until within 1e-6 for good: " + ", ".join(
        f"{name} {settles(steps, distances[name], 1e-6):.0f}" for name in paper + own))  # fmt: skip


def judge_hyperplanes(gaps, visible=1e-3):
    """The verdict on Figure 2; gaps {name: angle gap 1 - cos of the last iterate}, visible: radians."""
    angles = {name: float(np.arccos(1.0 - gap)) for name, gap in gaps.items()}
    holds, by = below(max(angles.values()), visible, "angle")
    verdict(
        holds, "Figure 2, the hyperplanes of all last iterates overlap with that of w*",
        "angles between them: " + ", ".join(f"{name} {angle:.1e}" for name, angle in angles.items()), by,
    )  # fmt: skip


def show_rows(axis, X, y, weights):
    """The points, and as lines the hyperplanes of weights [(2,), ...]."""
    for label, mark in ((1, "o"), (-1, "s")):
        axis.plot(*X[y == label].T, mark, markersize=4, color=("tab:gray", "black")[label > 0])
    reach = np.array([-1.0, 1.0]) * np.abs(X).max()
    for w in weights:
        axis.plot(*np.outer([-w[1], w[0]] / np.linalg.norm(w), reach), "--", linewidth=1)
    axis.set(title="the last hyperplanes", aspect="equal")


def main():
    """Run all methods, draw, and compare with the paper."""
    args = arguments("figure_diagonal_descent", __doc__, 1000)
    X, y = toy(80)
    A = y[:, None] * X
    solvers = {"plain": Diagonal(**FALLS, gamma="fixed")}
    for inertia in (10.0, 30.0, 50.0):
        solver = InertialDiagonal(**FALLS, gamma="fixed", alpha=inertia, restarts=False)
        solvers[f"inertial, alpha {inertia:.0f}"] = solver
    own = {"diagonal": Diagonal(**FALLS), "inertial-diagonal": InertialDiagonal(**FALLS)}
    found = {name: iterates(solver, X, y, args.passes) for name, solver in {**solvers, **own}.items()}

    units = {name: w / np.linalg.norm(w, axis=1)[:, None] for name, w in found.items()}
    target = SOLUTION / np.linalg.norm(SOLUTION)
    curves = {
        "||w_t - w*||": {name: np.linalg.norm(w - SOLUTION, axis=1) for name, w in found.items()},
        "|w_t/||w_t|| - w*/||w*|||": {name: np.linalg.norm(u - target, axis=1) for name, u in units.items()},
        "margin gap": {name: [margin(A, SOLUTION) - margin(A, w) for w in ws] for name, ws in found.items()},
        "angle gap": {name: 1.0 - u @ target for name, u in units.items()},
    }
    picture, axes = plt.subplots(2, 3, figsize=(16, 9))
    show_rows(axes[0, 2], X, y, [found[name][-1] for name in solvers])
    for axis, (title, values) in zip(axes[:, :2].ravel(), curves.items(), strict=True):
        table(title, values, args.passes, "{:.2e}")
        for name, gaps in values.items():
            # nothing below the rounding of float64 means anything
            axis.plot(np.arange(1, args.passes + 1), np.maximum(gaps, 1e-16), ":" if name in own else "-", label=name)
        axis.set(xlabel="iteration", ylabel=title, yscale="log")
    axes[1, 2].legend(handles=list(axes[0, 0].lines), loc="center")
    axes[1, 2].axis("off")
    save(picture, args.out)
    judge_hyperplanes({name: curves["angle gap"][name][-1] for name in solvers})
    judge(curves["||w_t - w*||"], list(solvers), list(own))


if __name__ == "__main__":
    main()
