"""Figures 1 and 2 of the dual acceleration paper.

    python -m examples.figure_dual_acceleration DATA_DIR [--out FIGURE.png] [--passes 1000]

Above: the margin of every iterate on MNIST 0/1, in units of the largest row norm as in the paper. Below: MNIST 3/5,
which no hyperplane separates: test error of every iterate, and the upper bound on the margin. Exponential loss, step
size 1 (the paper's appendix F). Iterations are reads after the first one, which finds the row norms and w_1.

Test errors are medians over the second half of the iterations.
"""

import math
from itertools import pairwise

import numpy as np
from matplotlib import pyplot as plt

import streammargin as sm
from examples.figure_tools import CLEAR, ERRORS, above, arguments, factor, save, slope, table, verdict
from examples.paper_data import mnist
from examples.trajectories import margin, trajectory

METHODS = ("dual-momentum", "batch-perceptron", "normalized-gd", "gd")


def first(flags):
    """The iteration, from 1, of the first true flag; "never" if there is none."""
    return int(np.argmax(flags)) + 1 if np.any(flags) else "never"


def main():
    """Run all methods on both pairs of digits, draw, and compare with the paper."""
    args = arguments("figure_dual_acceleration", __doc__, 1000, data="mnist/")
    folder = f"{args.data}/mnist"
    picture, axes = plt.subplots(2, 2, figsize=(12, 9))
    axes = axes.ravel()
    iterations = np.arange(1, args.passes + 1)

    X, y = mnist(folder, "train", (0, 1))
    R = float(np.sqrt((X.astype(np.float64) ** 2).sum(axis=1).max()))
    A = y[:, None] * X.astype(np.float64) / R
    best = sm.train((X, y), C=np.inf, tol=1e-6, passes=10 * args.passes).certificate
    print(f"MNIST 0/1: the largest margin is in [{best['margin_lower'] / R:.8g}, {best['margin_upper'] / R:.8g}]")
    margins = {name: [margin(A, w) for w, _ in trajectory(name, X, y, args.passes)] for name in METHODS}
    table("margin after iterations", margins, args.passes)
    gaps = {name: best["margin_upper"] / R - np.array(margins[name]) for name in METHODS}
    for name in METHODS:
        axes[0].plot(iterations, margins[name], label=name)
        axes[1].plot(iterations, gaps[name], label=name)
    axes[0].axhline(best["margin_upper"] / R, color="gray", linewidth=0.7, label="the largest")
    axes[0].set(title="MNIST 0/1", ylabel="margin")
    axes[1].set(title="MNIST 0/1", ylabel="distance to the largest margin", yscale="log")

    X, y = mnist(folder, "train", (3, 5))
    R35 = float(np.sqrt((X.astype(np.float64) ** 2).sum(axis=1).max()))
    X_test, y_test = mnist(folder, "t10k", (3, 5))
    errors, uppers = {}, {}
    for name in METHODS:
        runs = list(trajectory(name, X, y, args.passes))
        errors[name] = [float(np.mean(y_test * (X_test @ w) <= 0.0)) for w, _ in runs]
        uppers[name] = [report.certificate[0].margin_upper / R35 for _, report in runs]
        axes[2].plot(iterations, errors[name], label=name)
        axes[3].plot(iterations, uppers[name], label=name)
    table("MNIST 3/5: test error", errors, args.passes)
    table("MNIST 3/5: upper bound on the margin", uppers, args.passes)
    axes[2].set(title="MNIST 3/5, not separable", ylabel="test error", yscale="log")
    axes[3].set(title="MNIST 3/5, not separable", ylabel="no margin is above this", yscale="log")
    for axis in axes:
        axis.set(xlabel="iteration", xscale="log")
        axis.legend()
    save(picture, args.out)

    apart = [factor(gaps[one][-1], gaps[other][-1]) for one, other in pairwise(METHODS)]
    holds, by = above(min(apart), CLEAR, "factor between gaps")
    verdict(
        holds, "Figure 1, dual momentum above batch perceptron above normalised gradient descent above descent",
        f"margins after {args.passes} iterations: " + " ".join(f"{name} {margins[name][-1]:.6g}" for name in METHODS),
        by,
    )  # fmt: skip
    order = np.array([margins[name] for name in METHODS])
    separated = order[0] > 0.0
    ahead = np.all(order[0] >= order[1:], axis=0)
    verdict(
        bool(ahead[separated].all() and separated.any()),
        "Figure 1, dual momentum leads from its first positive margin on",
        f"it separates at {separated.sum()} of {args.passes} iterations, from {first(separated)} on, and leads at "
        f"{ahead[separated].sum()} of these; before that, at {ahead[~separated].sum()} of {np.sum(~separated)}; "
        "first positive margins: " + " ".join(f"{name} {first(np.array(margins[name]) > 0.0)}" for name in METHODS),
        f"{ahead[separated].sum()} iterations, limit all {separated.sum()}",
    )
    slopes = {name: slope(gaps[name], args.passes // 20) for name in METHODS}
    holds, by = above(-slopes["dual-momentum"], 1.5, "exponent")
    verdict(
        holds, "Figure 1, the gap to the largest margin falls like 1/t^2 up to logarithms (Theorem 3.1)",
        f"exponents fitted from iteration {args.passes // 20}: "
        + " ".join(f"{name} {slopes[name]:.2f}" for name in METHODS), by,
    )  # fmt: skip
    settled = {name: float(np.median(errors[name][args.passes // 2 :])) for name in METHODS}
    suffers = settled.pop("batch-perceptron")
    worst = max(settled.values())
    error = math.sqrt((worst * (1.0 - worst) + suffers * (1.0 - suffers)) / len(y_test))
    holds, by = above(factor(error, 1.0) * (suffers - worst), ERRORS, "standard errors")
    verdict(
        holds, "Figure 2, without a margin the exponential loss still generalises and the batch perceptron suffers",
        f"test errors, medians over the second half of {args.passes} iterations: "
        + " ".join(f"{name} {value:.4f}" for name, value in settled.items())
        + f" against batch-perceptron {suffers:.4f}", by,
    )  # fmt: skip
    falls = slope(uppers["dual-momentum"], args.passes // 20)
    holds, by = above(-falls, 0.5, "exponent")
    verdict(
        holds, "section 3, the dual shows that 3/5 is not separable: the upper bound falls to 0",
        f"no margin above {uppers['dual-momentum'][-1]:.3g} of the largest row norm, falling like t^{falls:.2f}", by,
    )  # fmt: skip


if __name__ == "__main__":
    main()
