"""Figure 4 of the dual acceleration paper, on a stand-in.

    python -m examples.figure_tangent_epochs DATA_DIR [--out FIGURE.png] [--passes 3000] [--seeds 20]

The paper trains AlexNet on 128 images of CIFAR-10. Neither is at hand. Here a network with one hidden layer of 64 ReLU
units and ten outputs is trained on 128 images of MNIST. Its steps are stochastic gradients of the softmax loss, until
its features converge. There are 10,000 test images. A seed draws the images, the network and the order. The features
of a row are the gradient of all outputs by all weights, in one vector of length 1. For the kernels of some epochs
Algorithm 2 with momentum and step 1 makes the largest margin of ten classes. The curves are test errors of these
predictors, and their margins, a curve for each seed.
"""

import math
from typing import NamedTuple

import numpy as np
from matplotlib import pyplot as plt
from scipy.stats import spearmanr

from examples.figure_tools import CLEAR, ERRORS, above, arguments, below, save, verdict
from examples.gram_columns import Momentum
from examples.paper_data import images

ROWS, HIDDEN, CLASSES, BATCH = 128, 64, 10, 16
STEP = 0.3
MARKS = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144)  # epochs with a kernel, then every half more
CONVERGED = 0.01  # the change of the kernel from one mark to the next, relative
LAST = 3000  # epochs at most


class Network:
    """f(x) = B relu(V x); V (hidden, d), B (classes, hidden)."""

    def __init__(self, random, features):
        self.V = random.standard_normal((HIDDEN, features)) * math.sqrt(2.0 / features)
        self.B = random.standard_normal((CLASSES, HIDDEN)) * math.sqrt(1.0 / HIDDEN)

    def outputs(self, X):
        """(n, classes)."""
        return np.maximum(X @ self.V.T, 0.0) @ self.B.T

    def step(self, X, y):
        """A gradient step on the mean softmax loss of a few rows."""
        hidden = np.maximum(X @ self.V.T, 0.0)
        scores = hidden @ self.B.T
        chances = np.exp(scores - scores.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        chances[np.arange(len(y)), y] -= 1.0
        back = (chances @ self.B) * (hidden > 0.0)
        self.B -= STEP / len(y) * chances.T @ hidden
        self.V -= STEP / len(y) * back.T @ X

    def kernel(self, X, Z):
        """The products of gradients of all outputs by all weights (n, m), each of length 1."""
        left, right = X @ self.V.T, Z @ self.V.T
        by_hidden = ((left > 0.0) * (self.B**2).sum(axis=0)) @ (right > 0.0).T.astype(float)
        found = CLASSES * np.maximum(left, 0.0) @ np.maximum(right, 0.0).T + (X @ Z.T) * by_hidden
        return found / np.sqrt(self.squares(X))[:, None] / np.sqrt(self.squares(Z))

    def squares(self, X):
        """The squared lengths (n,) before they are 1."""
        left = X @ self.V.T
        by_hidden = (left > 0.0) @ (self.B**2).sum(axis=0)
        return CLASSES * (np.maximum(left, 0.0) ** 2).sum(axis=1) + (X**2).sum(axis=1) * by_hidden


def predictor(K, y, passes, random):
    """(margin, its bound, coefficients (classes, n)) that Algorithm 2 comes to, for the matrix K (n, n)."""
    n = len(y)
    columns = np.hstack([K, np.eye(n)])  # beside the scores of all rows, the coefficients themselves
    method = Momentum(np.append(y, np.zeros(n, int)), n, np.ones(n))
    for _ in range(passes):
        pair = method.choose(random)
        method.step(pair, columns[pair.row])
    return method.margin(), method.upper(), method.w[:, n:]


class Curves(NamedTuple):
    """Of a seed, a number for each kernel: epochs, test errors, margins and their bounds; of the last: the change of
    the kernel before it, and the test error of the network itself.
    """

    epochs: list
    errors: list
    margins: list
    bounds: list
    change: float = math.inf
    own: float = math.nan


def trained(X, y, X_test, y_test, seed, passes, last=LAST):
    """The Curves of a seed."""
    random = np.random.default_rng(seed)
    chosen = random.permutation(len(X))[:ROWS]
    X, y = X[chosen], y[chosen]
    network, found = Network(random, X.shape[1]), Curves([], [], [], [])
    before, change, marks = None, math.inf, list(MARKS)
    for epoch in range(last + 1):
        if epoch == marks[0]:
            K = network.kernel(X, X)
            if before is not None:
                change = float(np.linalg.norm(K - before) / np.linalg.norm(before))
            margin, bound, coefficients = predictor(K, y, passes, random)
            taken = np.argmax(coefficients @ network.kernel(X, X_test), axis=0)
            for values, one in zip(found, (epoch, np.mean(taken != y_test), margin, bound), strict=False):
                values.append(float(one))
            if change < CONVERGED and epoch >= MARKS[-1]:
                break
            before, marks = K, marks[1:] or [epoch * 3 // 2]
        order = random.permutation(ROWS)
        for low in range(0, ROWS, BATCH):
            few = order[low : low + BATCH]
            network.step(X[few], y[few])
    own = float(np.mean(np.argmax(network.outputs(X_test), axis=1) != y_test))
    return found._replace(change=change, own=own)


def clear(before, after, rows):
    """By how many binomial standard errors the test error after is below that before."""
    error = math.sqrt((before * (1.0 - before) + after * (1.0 - after)) / rows)
    return (before - after) / error if error > 0.0 else 0.0


def judge(found, rows):
    """The verdicts; found: Curves of all seeds; rows: of the test."""
    gains = np.array([clear(one.errors[0], one.errors[-1], rows) for one in found])
    falls = np.array([spearmanr(one.epochs, one.errors)[0] for one in found])
    falling = (gains > ERRORS) & (falls < -0.5)
    best = int(np.argmax(np.where(falls < -0.5, gains, -np.inf)))
    holds, by = above(float(gains[best]), ERRORS, "standard errors")
    verdict(
        holds and falling.any(), "Figure 4, (a) for some seed the test error falls as the network is trained",
        f"for {falling.mean():.0%} of {len(found)} seeds; for seed {best} from {found[best].errors[0]:.4f} to "
        f"{found[best].errors[-1]:.4f}, Spearman {falls[best]:.2f}", by,
    )  # fmt: skip
    worst = int(np.argmin(gains))
    holds, by = above(-float(gains[worst]), ERRORS, "standard errors")
    verdict(
        holds, "Figure 4, (b) for some seed the last kernel does not help: its error is above that of the first",
        f"for {np.mean(gains < -ERRORS):.0%} of {len(found)} seeds, and for {np.mean(gains < ERRORS):.0%} it is not "
        f"below by {ERRORS:g} standard errors; for seed {worst} from {found[worst].errors[0]:.4f} to "
        f"{found[worst].errors[-1]:.4f}", by,
    )  # fmt: skip
    apart = np.array([abs(one.errors[-1] - one.own) for one in found])
    changes = np.array([one.change for one in found])
    holds, by = below(float(np.median(apart)), 0.01, "difference")
    verdict(
        holds and bool((changes < CONVERGED).all()),
        "section 6, once the features converge, the last kernel's predictor has the test error of the network",
        f"medians over the seeds {np.median([one.errors[-1] for one in found]):.4f} and "
        f"{np.median([one.own for one in found]):.4f}, apart by {np.median(apart):.4f}, at most {apart.max():.4f}; the "
        f"kernel changes by at most {changes.max():.2g}, after {max(one.epochs[-1] for one in found):.0f} epochs or "
        "fewer", by,
    )  # fmt: skip
    errors = float(np.median([one.errors[-1] - one.errors[0] for one in found]))
    margins = float(np.median([one.margins[-1] / one.margins[0] for one in found]))
    holds, by = above(margins, CLEAR, "factor between margins")
    verdict(
        holds and errors < 0.0, "section 6, kernels generally improve in margin and in test error",
        f"medians over {len(found)} seeds: the error changes by {errors:+.4f}, the margin by the factor {margins:.3g}",
        by,
    )  # fmt: skip
    gaps = np.array([1.0 - one.margins[-1] / one.bounds[-1] for one in found])
    print(f"what the last margins lack of their bounds: median {np.median(gaps):.1%}, at most {gaps.max():.1%}")
    return best, worst


def draw(found):
    """Test errors and margins against epochs, for all seeds."""
    picture, axes = plt.subplots(1, 2, figsize=(12, 5))
    for one in found:
        for axis, values in zip(axes, (one.errors, one.margins), strict=True):
            axis.plot(np.array(one.epochs) + 1.0, values, linewidth=0.8)
    axes[0].set(ylabel="test error")
    axes[1].set(ylabel="margin")
    for axis in axes:
        axis.set(xlabel="epoch + 1", xscale="log")
    return picture


def main():
    """Train the networks, predict with their kernels, draw, and compare with the paper."""
    args = arguments("figure_tangent_epochs", __doc__, 3000, data="mnist/", seeds=20)
    (X, y), (X_test, y_test) = (images(f"{args.data}/mnist", part) for part in ("train", "t10k"))
    X, X_test = X / 255.0, X_test[: 500 if args.quick else None] / 255.0
    y, y_test = y.astype(int), y_test[: len(X_test)].astype(int)
    last = 3 if args.quick else LAST
    found = [trained(X, y, X_test, y_test, seed, args.passes, last) for seed in range(args.seeds)]
    save(draw(found), args.out)
    judge(found, len(y_test))


if __name__ == "__main__":
    main()
