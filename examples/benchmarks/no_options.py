"""Every data set with the default options: which solver is used, and which gap is certified.

    python -m examples.benchmarks.no_options DATA_DIR [--sets a9a,rcv1sub] [--C 1] [--rows N]

Sets whose columns differ in range are scaled beforehand, as their names say. Rows are arrays in memory; all other
options are defaults. Shown are the certified gap, the passes, the seconds, and the held-out error. The exit code is 1
if a set misses the default gap of 1e-3, or if the recomputed objective differs from the certified one.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np
import scipy.sparse as sp

import streammargin as sm
from examples.benchmarks.judge import error, objective
from examples.benchmarks.sets import SETS, WORK, load, make

TOL = 1e-3


def with_constant(X: Any) -> Any:
    """The rows with the constant column of 1 that a finite C has by default."""
    one = np.ones((X.shape[0], 1), np.float32)
    return sp.hstack([X, one], format="csr") if sp.issparse(X) else np.hstack([X, one])


def judge(X: Any, y: np.ndarray, result: sm.TrainResult, C: float) -> bool:
    """Whether the result is proven, by an objective that is summed anew."""
    model = result.model
    W = np.column_stack([model.coef_, model.intercept_])
    found = objective(with_constant(X), y, W, C, "hinge")
    told = sum(each["primal"] for each in result.certificate.per_class)
    return result.converged and result.certificate.gap <= TOL and abs(found - told) <= 1e-6 * found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", metavar="DATA_DIR")
    parser.add_argument("--sets", type=lambda text: text.split(","), default=list(SETS), help=f"of {', '.join(SETS)}")
    parser.add_argument("--C", type=float, default=1.0)
    parser.add_argument("--work", default=WORK, help="where the sets are kept as HDF5 (%(default)s)")
    parser.add_argument("--rows", type=int, help="at most so many rows of a set, for a trial")
    options = parser.parse_args()
    failed = 0
    for name in options.sets:
        try:
            path = make(name, options.data, options.work, options.rows)
        except FileNotFoundError as fault:
            print(f"{name}: left out, {fault}")
            continue
        X, y, X_test, y_test = load(name, path, options.rows)
        started = time.perf_counter()
        result = sm.train(X, y) if options.C == 1.0 else sm.train(X, y, C=options.C)
        seconds = time.perf_counter() - started
        proven = judge(X, y, result, options.C)
        failed += not proven
        model = result.model
        W = np.column_stack([model.coef_, model.intercept_])
        held_out = "" if X_test is None else f", held-out error {error(with_constant(X_test), y_test, W):.4f}"
        print(f"{name:11} {X.shape[0]:7} x {X.shape[1]:<7} {result.history[0]['params']['solver']:8} "
              f"{result.passes:4} passes {seconds:7.2f} s, certified gap {result.certificate.gap:.1e}{held_out}"
              f"{'' if proven else f', NOT PROVEN ({result.reason})'}", flush=True)  # fmt: skip
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
