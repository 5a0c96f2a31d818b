"""Snap ML: coordinate ascent on the dual, on --threads threads."""

from __future__ import annotations

from typing import Any

from examples.benchmarks.sides import Side

TOLERANCES = (0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6)


def prepare(X: Any, y: Any, threads: int) -> Any:
    """Rows in float32 with the narrow indices that it takes."""
    import numpy as np
    import scipy.sparse as sp
    import snapml  # noqa: F401  # imported before the clock runs

    if sp.issparse(X):
        X = sp.csr_matrix((X.data.astype(np.float32), X.indices.astype(np.int32), X.indptr.astype(np.int32)), X.shape)
    return X, y.astype(np.float64), threads


def solve(data: Any, loss: str, C: float, tol: float, limit: float) -> tuple[Any, dict[str, Any]]:
    """Its SVM or logistic regression; its regulariser is 1/C."""
    import numpy as np
    import snapml

    X, y, threads = data
    options = {"regularizer": 1.0 / C, "tol": tol, "fit_intercept": False, "n_jobs": threads, "max_iter": 10**5}
    options["random_state"] = 0
    if loss == "logistic":
        model = snapml.LogisticRegression(dual=True, **options)
    else:
        model = snapml.SupportVectorMachine(loss=loss, **options)
    W = np.asarray(model.fit(X, y).coef_, np.float64)
    return (W if W.shape[-1] == X.shape[1] else W.T).reshape(-1, X.shape[1]), {}


SIDES = {"Snap ML": Side(("hinge", "squared_hinge", "logistic"), TOLERANCES, prepare, solve)}
