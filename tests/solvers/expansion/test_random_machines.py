"""Random small kernel machines against an interior-point method: every kernel and loss, C from 1e-4 to 1e6.

python tests/solvers/expansion/test_random_machines.py FIRST NUMBER
"""

import collections
import logging
import math
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

sys.path.insert(0, str(Path(__file__).parents[2]))
from reference import machines

import streammargin as sm
from examples.tangent_kernel import Tangent

KERNELS = (
    "rbf:0.5", "rbf:3", "poly:2,gamma=0.3,coef0=1", "poly:3,gamma=0.2", "linear", "rbf:0.1,weight=2+linear",
    "sigmoid:0.3,coef0=-0.5", "precomputed", Tangent(16),
)  # fmt: skip
OF_CLASSES = ("hinge", "squared_hinge", "smooth_hinge:0.5")
LOSSES = (
    *OF_CLASSES, "epsilon_insensitive:0.1", "absolute_error", "quantile:0.8", "quantile:0.1", "huber:0.4",
    "squared_error",
)  # fmt: skip


def check(seed):
    """Train the problem of this seed; AssertionError if its figures are wrong. Returns what became of it."""
    random = np.random.default_rng(seed)
    n, d = int(random.integers(5, 60)), int(random.integers(1, 6))
    X = random.standard_normal((n, d)) * 10.0 ** random.uniform(-0.5, 0.5)
    kernel, loss = KERNELS[random.integers(len(KERNELS))], str(random.choice(LOSSES))
    C, free = 10.0 ** random.uniform(-4.0, 6.0), bool(random.integers(2))
    numbers = np.sin(X[:, 0]) + 0.3 * random.standard_normal(n)
    name, _, number = loss.partition(":")
    y = np.where(numbers > np.median(numbers), 1, -1) if loss in OF_CLASSES else numbers
    weights = random.uniform(0.2, 3.0, n) if random.integers(2) else None
    caps = C * (np.ones(n) if weights is None else weights)
    if isinstance(kernel, str):
        K = machines.matrix("rbf:0.7" if kernel == "precomputed" else kernel, X, X)
    else:
        K = kernel.gram(X, X)
    rows = K if kernel == "precomputed" else sp.csr_array(X) if random.integers(2) else X
    result = sm.train(
        (rows, y), kernel=kernel, loss=loss, C=C, bias=None if free else 0, sample_weight=weights, tol=1e-5, passes=200
    )
    found, arrays = result.certificate, result.model.answer.arrays()
    coef = np.zeros(n)
    coef[arrays["support"]] = arrays["dual_coef"][0]
    of_loss = (y, caps, name, float(number) if number else None)
    primal = machines.primal(K, coef, float(arrays["intercept"][0]), *of_loss)
    told = f"seed {seed}: {kernel} {loss} C = {C:g}, n = {n}, free {free}: {found.primal} {found.dual} {primal}"
    if np.linalg.eigvalsh(K)[0] < -1e-9 * np.abs(K).max():
        assert found.dual is None or found.dual == -math.inf or not result.converged, told
        return "has no bound"
    assert found.primal == pytest.approx(primal, rel=1e-7), told
    best = machines.optimum(K, *of_loss, free)
    size = max(abs(best), abs(found.primal), 1e-9)
    assert found.dual <= best + 1e-6 * size, f"{told}; the optimum is {best}"
    assert found.primal >= best - 1e-6 * size, f"{told}; the optimum is {best}"
    if result.converged:
        assert found.primal - found.dual <= 1.001e-5 * max(abs(found.primal), abs(found.dual)) + 1e-300, told
    else:
        assert math.isfinite(found.primal), told
    return "converged" if result.converged else "did not converge"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_a_random_machine_is_certified_as_it_is(seed):
    check(seed)


def main():
    """Check NUMBER problems from FIRST on, and say what became of them."""
    first, number = map(int, sys.argv[1:])
    logging.getLogger("streammargin").setLevel(logging.ERROR)
    found = collections.Counter()
    for seed in range(first, first + number):
        try:
            found[check(seed)] += 1
        except Exception as error:
            found["is wrong"] += 1
            print(f"{seed}: {str(error).splitlines()[0][:300]}", flush=True)
    print(f"{number} problems: " + ", ".join(f"{count} {what}" for what, count in found.most_common()))


if __name__ == "__main__":
    main()
