"""What does an iteration cost?

Compares whole-pass methods with X @ w plus X.T @ q, and asdca's step with sdca's. Also compares a pass of sdca with an
elastic net (logistic loss, C = 1) with one with the l2 penalty.

    python -m examples.benchmarks.steps [--repeats 15]

Generated rows in memory, dense (12,000 x 784) and CSR (20,000 x 50,000, 75 values a row), float32; BLAS on one
thread; compile time excluded. Medians of pairs: the products, and right after them a few iterations.
"""

import argparse
import logging
import os
import statistics
import tempfile
import time

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

import streammargin as sm
from examples.benchmarks.sets import read
from streammargin.data_tools.generate import generate

WHOLE_PASS = ("dual-momentum", "normalized-gd", "gd", "batch-perceptron", "diagonal", "inertial-diagonal", "homotopic")
KINDS = {
    "dense": {"rows": 12_000, "features": 784},
    "csr": {"rows": 20_000, "features": 50_000, "sparse": True, "nonzeros": 75},
}


def products(X, w, q):
    """Seconds of one X @ w and one X.T @ q."""
    start = time.perf_counter()
    X @ w
    X.T @ q
    return time.perf_counter() - start


def passes(data, solver, count, **options):
    """Seconds of each pass of a training run."""
    result = sm.train(data, solver=solver, passes=count, tol=0.0, **{"C": np.inf, **options})
    return [event["seconds"] for event in result.history if event["event"] == "pass_end"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--rows", type=int, help="at most so many rows, for a trial")
    parser.add_argument("--solvers", default=",".join(WHOLE_PASS))
    options = parser.parse_args()
    logging.disable()  # trainings that stop before their tolerance say so
    for kind, shape in KINDS.items():
        with tempfile.TemporaryDirectory() as folder:
            generate(os.path.join(folder, "data.h5"), **shape)
            X, y = data = tuple(part[: options.rows] for part in read(os.path.join(folder, "data.h5")))
        w, q = np.ones(X.shape[1], X.dtype), np.ones(X.shape[0], X.dtype)
        print(f"{kind}, {X.shape[0]:,} x {X.shape[1]:,}")
        for solver in options.solvers.split(","):
            passes(data, solver, 3)
            pairs = []
            for _ in range(options.repeats):
                beside = statistics.median(products(X, w, q) for _ in range(5))
                pairs.append((statistics.median(passes(data, solver, 7)[2:]), beside))
            one, two = (1e3 * statistics.median(pair[side] for pair in pairs) for side in (0, 1))
            ratio = statistics.median(a / b for a, b in pairs)
            print(f"  {solver:<18} {one:6.2f} ms an iteration, X @ w and X.T @ q {two:6.2f} ms, {ratio:.2f} times that")
        # at C = inf and from zero the first pass of both moves every dual
        pairs = []
        for _ in range(options.repeats + 1):  # the first one compiles
            pairs.append([1e9 * passes(data, solver, 1)[0] / len(y) for solver in ("sdca", "asdca")])
        sdca, asdca = (statistics.median(pair[side] for pair in pairs[1:]) for side in (0, 1))
        ratio = statistics.median(b / a for a, b in pairs[1:])
        print(f"  a step of sdca {sdca:.0f} ns, of asdca {asdca:.0f} ns, {ratio:.2f} times that")
        pairs = []
        for _ in range(options.repeats + 1):
            options_of = [{"C": 1.0, "loss": "logistic", "bias": 0, "penalty": name} for name in ("l2", "elasticnet")]
            each = [passes(data, "sdca", 9, **one) for one in options_of]
            pairs.append([1e3 * statistics.median(seconds[2:]) for seconds in each])
        l2, elastic = (statistics.median(pair[side] for pair in pairs[1:]) for side in (0, 1))
        ratio = statistics.median(b / a for a, b in pairs[1:])
        print(f"  a pass of sdca, logistic: l2 {l2:.1f} ms, elasticnet {elastic:.1f} ms, {ratio:.2f} times that")


if __name__ == "__main__":
    main()
