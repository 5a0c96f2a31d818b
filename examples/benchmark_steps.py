"""What does an iteration cost? Whole-pass methods against X @ w plus X.T @ q, asdca's step against sdca's.

    python examples/benchmark_steps.py [--repeats 15]

Generated rows in memory, dense (12,000 x 784) and CSR (20,000 x 50,000, 75 values a row), float32; BLAS on one
thread; compile time excluded. Medians; both sides measured in one run.
"""

import argparse
import os
import statistics
import tempfile
import time

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from benchmark_liblinear import load

import streammargin as sm
from data_tools.generate import generate
from streammargin.solvers.registry import names

WHOLE_PASS = ("dual-momentum", "normalized-gd", "gd", "batch-perceptron", "diagonal", "inertial-diagonal", "homotopic")
KINDS = {
    "dense": {"rows": 12_000, "features": 784},
    "csr": {"rows": 20_000, "features": 50_000, "sparse": True, "nonzeros": 75},
}


def seconds_of(function, repeats):
    """Median seconds of a call."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def passes(data, solver, count, **options):
    """Seconds of each pass of a training run."""
    result = sm.train(data, solver=solver, C=np.inf, passes=count, tol=0.0, **options)
    return [event["seconds"] for event in result.history if event["event"] == "pass_end"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    for kind, shape in KINDS.items():
        with tempfile.TemporaryDirectory() as folder:
            generate(os.path.join(folder, "data.h5"), **shape)
            X, y = data = load(os.path.join(folder, "data.h5"))
        w, q = np.ones(X.shape[1], X.dtype), np.ones(X.shape[0], X.dtype)
        products = seconds_of(lambda X=X, w=w, q=q: (X @ w, X.T @ q), options.repeats)
        print(f"{kind}: X @ w and X.T @ q {1e3 * products:.2f} ms")
        for solver in WHOLE_PASS:
            if solver in names():
                passes(data, solver, 3)
                one = statistics.median(passes(data, solver, options.repeats + 2)[2:])
                print(f"  {solver:<18} {1e3 * one:6.2f} ms an iteration, {one / products:.2f} times that")
        if "asdca" in names():
            # at C = inf and from zero the first pass of both moves every dual
            first = {}
            for solver in ("sdca", "asdca"):
                passes(data, solver, 1)
                first[solver] = statistics.median(passes(data, solver, 1)[0] for _ in range(options.repeats))
            a, b = (1e9 * first[solver] / len(y) for solver in ("sdca", "asdca"))
            print(f"  a step of sdca {a:.0f} ns, of asdca {b:.0f} ns, {b / a:.2f} times that")


if __name__ == "__main__":
    main()
