"""Time to a certified gap of 1e-3 against LIBLINEAR's dual hinge (scikit-learn's LinearSVC), data in memory.

    python examples/benchmark_liblinear.py DATA.h5 [--gap 1e-3] [--repeats 5]

One thread each, compile time excluded (a first, uncounted run). Our time includes the certificates;
LIBLINEAR is held only to the objective: the loosest of its tolerances whose weights are within the
same relative distance of the optimum. Both objectives are computed by the same line of code.
"""

import argparse
import math
import statistics
import time
import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.svm import LinearSVC

import streammargin as sm


def load(path):
    """The rows and +-1 labels of an HDF5 file as arrays in memory."""
    import h5py

    with h5py.File(path) as file:
        y = file["y"][:]
        if isinstance(file["X"], h5py.Group):
            group = file["X"]
            parts = (group["data"][:], group["indices"][:], group["indptr"][:])
            X = sp.csr_matrix(parts, shape=tuple(group.attrs["shape"]))
        else:
            X = file["X"][:]
    return X, np.where(y == y.max(), 1, -1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--gap", type=float, default=1e-3)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("-C", type=float, default=1.0)
    options = parser.parse_args()
    X, y = load(options.data)
    X64 = X.astype(np.float64)

    def objective(w):
        return 0.5 * w @ w + options.C * np.maximum(0.0, 1.0 - y * (X64 @ w)).sum()

    def ours(tol):
        start = time.perf_counter()
        result = sm.train((X, y), C=options.C, tol=tol)
        return time.perf_counter() - start, result

    def liblinear(tol):
        model = LinearSVC(loss="hinge", C=options.C, tol=tol, fit_intercept=False, max_iter=1000)
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its own cap on iterations
            model.fit(X64, y)
        return time.perf_counter() - start, model.coef_.ravel()

    first, reference = ours(1e-6)
    best = objective(reference.model.coef_.ravel())
    print(f"{options.data}: {X.shape[0]} rows, {X.shape[1]} features, optimum {best:.6g} (certified gap "
          f"{reference.certificate['gap']:.1e})")  # fmt: skip
    for tol in (1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01):
        _, w = liblinear(tol)
        distance = objective(w) / best - 1.0
        if distance <= options.gap:
            break
    print(f"LIBLINEAR: loosest tol within {options.gap:g}: {tol} (at {distance:.1e})")
    compile_seconds = first - ours(1e-6)[0]
    ours(options.gap)
    pairs = []
    for _ in range(options.repeats):
        mine, result = ours(options.gap)
        theirs, _ = liblinear(tol)
        pairs.append((mine, theirs))
    mine, theirs = (statistics.median(p[k] for p in pairs) for k in (0, 1))
    ratio = statistics.median(b / a for a, b in pairs)
    suboptimality = objective(result.model.coef_.ravel()) / best - 1.0
    passes = sum(1 for e in result.history if e["event"] == "pass_end")
    certificates = sum(1 for e in result.history if e["event"] == "certificate")
    print(f"streammargin {mine:.3f} s to a certified {result.certificate['gap']:.1e} (objective at "
          f"{suboptimality:.1e}), {passes} passes and {certificates} certificates")  # fmt: skip
    print(f"LIBLINEAR    {theirs:.3f} s")
    print(f"ratio        {ratio:.2f} times as fast (median of {options.repeats} pairs)")
    print(f"compile time, excluded: {max(compile_seconds, 0.0):.1f} s" if math.isfinite(compile_seconds) else "")


if __name__ == "__main__":
    main()
