"""Random small kernel machines against an interior-point method: every kernel and loss, C from 1e-4 to 1e6, and inf.

Each is saved and handed to `verify`, and trained again with a stop in the middle, to the same bits.

python tests/solvers/expansion/test_random_machines.py FIRST NUMBER
"""

import collections
import logging
import math
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

sys.path.insert(0, str(Path(__file__).parents[2]))
from conftest import write_h5
from reference import machines
from reference.sources import CountingSource
from reference.stopped import stop_after

import streammargin as sm
from examples.tangent_kernel import Tangent
from streammargin.verification.verify import verify

KERNELS = (
    "rbf:0.5", "rbf:3", "poly:2,gamma=0.3,coef0=1", "poly:3,gamma=0.2", "linear", "rbf:0.1,weight=2+linear",
    "sigmoid:0.3,coef0=-0.5", "precomputed", Tangent(16),
)  # fmt: skip
OF_CLASSES = ("hinge", "squared_hinge", "smooth_hinge:0.5")
LOSSES = (
    *OF_CLASSES, "epsilon_insensitive:0.1", "absolute_error", "quantile:0.8", "quantile:0.1", "huber:0.4",
    "squared_error",
)  # fmt: skip


def check(seed, folder):
    """Train the problem of this seed; AssertionError if its figures are wrong. Returns what became of it."""
    random = np.random.default_rng(seed)
    n, d = int(random.integers(5, 60)), int(random.integers(1, 6))
    X = random.standard_normal((n, d)) * 10.0 ** random.uniform(-0.5, 0.5)
    kernel, loss = KERNELS[random.integers(len(KERNELS))], str(random.choice(LOSSES))
    C, free = 10.0 ** random.uniform(-4.0, 6.0), bool(random.integers(2))
    numbers = np.sin(X[:, 0]) + 0.3 * random.standard_normal(n)
    weights = random.uniform(0.2, 3.0, n) if random.integers(2) else None
    if isinstance(kernel, str):
        K = machines.matrix("rbf:0.7" if kernel == "precomputed" else kernel, X, X)
    else:
        K = kernel.gram(X, X)
    rows = K if kernel == "precomputed" else sp.csr_array(X) if random.integers(2) else X
    options = {"kernel": kernel, "loss": loss, "C": C, "bias": None if free else 0, "tol": 1e-5, "passes": 40}
    lines = numbers[:, None] if random.random() < 0.7 else numbers[:, None] * [1.0, -2.0] + random.random((n, 2))
    y = lines > np.median(lines, axis=0) if loss in OF_CLASSES else lines
    if loss in OF_CLASSES and lines.shape[1] == 1 and random.random() < 0.2:
        options |= {"C": math.inf, "loss": None, "bias": "free" if free else None, "passes": 3}
    elif random.random() < 0.2:
        options["solver"] = "pdprox"
    outside = "solver" not in options and random.random() < 0.4  # pdprox keeps all rows in memory
    signs = np.where(y, 1.0, -1.0) if loss in OF_CLASSES else y
    y = y.astype(int) if loss in OF_CLASSES else y
    y = y[:, 0] if y.shape[1] == 1 else y

    def train(**more):
        given = CountingSource(rows, y, np.array([0, n // 3, n], np.int64), weights) if outside else (rows, y)
        return sm.train(given, sample_weight=None if outside else weights, **options, **more)

    result, told = train(), f"seed {seed}: {options}, n = {n}"
    beside = {} if weights is None else {"sample_weight": weights}
    data, saved = write_h5(folder / "rows.h5", rows, y, **beside), str(folder / "model.npz")
    result.model.save(saved, force=True)
    given = {} if weights is None else {"sample_weight": "sample_weight"}
    wrong = [check for check in verify(saved, data, **given) if check.agrees is False]
    assert not wrong, f"{told}: {wrong}"
    train(checkpoint=str(folder), should_stop=stop_after(int(random.integers(1, 12))))
    again = train(checkpoint=str(folder))
    for name, array in result.model.answer.arrays().items():
        assert np.array_equal(again.model.answer.arrays()[name], array), f"{told}: {name} differs once stopped"
    return judged(result, K, signs, C if weights is None else C * weights, free, told)


def judged(result, K, signs, caps, free, told):
    """What became of a training, whose figures are compared with those of the matrix K and the labels (n, lines)."""
    found, arrays, n = result.certificate, result.model.answer.arrays(), len(K)
    name, _, number = result.model.header["loss"].partition(":")
    if np.linalg.eigvalsh(K)[0] < -1e-9 * np.abs(K).max():
        assert not result.converged and found.dual in (None, -math.inf), told
        assert found.margin_upper in (None, math.inf), told
        return "has no bound"
    if found.margin_upper is not None:
        best = min(machines.largest_margin(K, line, free) for line in signs.T)
        told, blur = f"{told}: {found}; the largest margin is {best}", 1e-6 * math.sqrt(np.abs(K).max())
        assert found.margin_lower <= best + blur and found.margin_upper >= best - blur, told
        return "converged" if result.converged else result.reason
    primal = best = 0.0
    for k, line in enumerate(signs.T):
        coef = np.zeros(n)
        coef[arrays["support"]] = arrays["dual_coef"][k]
        of_loss = (line, np.broadcast_to(caps, n), name, float(number) if number else None)
        primal += machines.primal(K, coef, float(arrays["intercept"][k]), *of_loss)
        best += machines.optimum(K, *of_loss, free)
    told = f"{told}: {found.primal} {found.dual} {primal}; the optimum is {best}"
    assert found.primal == pytest.approx(primal, rel=1e-7), told
    size = max(abs(best), abs(found.primal), 1e-9)
    assert found.dual <= best + 1e-6 * size and found.primal >= best - 1e-6 * size, told
    if result.converged:
        assert found.primal - found.dual <= 1.001e-5 * max(abs(found.primal), abs(found.dual)) + 1e-300, told
    return "converged" if result.converged else f"did not converge ({result.reason})"


METHODS = (
    "smo", "dual-momentum", "batch-perceptron", "adaptive", "adaptive:step=proven", "diagonal", "inertial-diagonal",
    "normalized-gd", "gd",
)  # fmt: skip
OF_MARGINS = ("linear", "rbf:0.5", "poly:2,coef0=1", "rbf:0.1+linear", "rbf:1e-8")


@pytest.mark.parametrize("method", METHODS)
def test_figures_of_random_hard_margins_are_verified(method, tmp_path):
    """Rows that are equal, 0 or nearly equal, of up to four classes; after a few passes or many."""
    for seed in range(16):
        random = np.random.default_rng(seed)
        n, classes = int(random.integers(3, 30)), int(random.integers(2, 5))
        X = np.round(random.standard_normal((n, 2)), int(random.integers(0, 3)))
        X[random.random(n) < 0.1] = 0.0
        X = X * 1e-6 + 1.0 if random.random() < 0.3 else X
        y = random.integers(0, classes, n)
        y[:2] = 0, 1
        word, rows = OF_MARGINS[seed % len(OF_MARGINS)], sp.csr_array(X) if random.random() < 0.5 else X
        options = {"kernel": word, "C": math.inf, "passes": int(random.choice([1, 3, 40, 300]))}
        if method in ("adaptive", "dual-momentum", "gd") and classes > 2 and random.random() < 0.4:
            options["multiclass"] = "joint"
        if method == "smo" and random.random() < 0.5:
            options["bias"] = "free"
        result, told = sm.train((rows, y), solver=method, **options), f"seed {seed}: {options}"
        data, saved = write_h5(tmp_path / "rows.h5", rows, y), str(tmp_path / "model.npz")
        result.model.save(saved, force=True)
        assert not [check for check in verify(saved, data) if check.agrees is False], told
        if result.reason == "not_separable":
            equal = (X[:, None] == X).all(axis=2) & (y[:, None] != y)
            assert equal.any() or (word == "linear" and not X.any(axis=1).all()), told


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(40), 100244])
def test_a_random_machine_is_certified_as_it_is(seed, tmp_path):
    check(seed, tmp_path)


def main():
    """Check NUMBER problems from FIRST on, and say what became of them."""
    first, number = map(int, sys.argv[1:])
    logging.getLogger("streammargin").setLevel(logging.ERROR)
    found = collections.Counter()
    for seed in range(first, first + number):
        with tempfile.TemporaryDirectory() as folder:
            try:
                found[check(seed, Path(folder))] += 1
            except Exception as error:
                found["is wrong"] += 1
                print(f"{seed}: {str(error).splitlines()[0][:500]}")
        counts = ", ".join(f"{count} {what}" for what, count in found.most_common())
        print(f"{found.total()} problems: {counts}", end="\r", flush=True)


if __name__ == "__main__":
    main()
