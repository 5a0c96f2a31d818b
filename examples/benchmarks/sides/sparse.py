"""Peers that find sparse weights of smooth losses: LIBLINEAR -s 5 and 6, scikit-learn's saga and ElasticNet, skglm."""

from __future__ import annotations

import warnings
from typing import Any

from examples.benchmarks.sides import Side, liblinear, scikit

TOLERANCES = (1.0, 0.1, 0.03, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6)
SHARES = {"l1": 1.0, "elasticnet": 0.5}  # of the absolute values


def _liblinear(number: int) -> Any:
    call = liblinear.solver(number)
    return lambda data, loss, C, tol, limit: call(data, loss.loss, C, tol, limit)


def _saga(data: Any, loss: Any, C: float, tol: float, limit: float) -> tuple[Any, dict[str, Any]]:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(l1_ratio=SHARES[loss.penalty], C=C, tol=tol, solver="saga", fit_intercept=False,
                               max_iter=10**5, random_state=0)  # fmt: skip
    return model.fit(*data).coef_, {}


def _columns(X: Any, y: Any, threads: int) -> Any:
    """Columns in float64, as coordinate descent takes them."""
    import numpy as np
    import scipy.sparse as sp
    import sklearn.linear_model  # noqa: F401

    return (sp.csc_matrix(X, dtype=np.float64) if sp.issparse(X) else np.asfortranarray(X, np.float64)), y * 1.0


def _elastic_net(data: Any, loss: Any, C: float, tol: float, limit: float) -> tuple[Any, dict[str, Any]]:
    from sklearn.linear_model import ElasticNet

    X, y = data
    model = ElasticNet(alpha=1.0 / (len(y) * C), l1_ratio=SHARES[loss.penalty], tol=tol, fit_intercept=False,
                       max_iter=10**6)  # fmt: skip
    return model.fit(X, y).coef_.reshape(1, -1), {}


def _compiled(X: Any, y: Any, threads: int) -> Any:
    """As `_columns`; compiles on few rows, so that the clock does not run meanwhile."""
    data = _columns(X, y, threads)
    from examples.benchmarks.judge import Penalised

    for loss, penalty in SKGLM:
        _skglm((data[0][:50], data[1][:50]), Penalised(loss, penalty), 1.0, 1.0, 0.0)
    return data


def _skglm(data: Any, loss: Any, C: float, tol: float, limit: float) -> tuple[Any, dict[str, Any]]:
    from skglm import GeneralizedLinearEstimator
    from skglm.datafits import Logistic, Quadratic
    from skglm.penalties import L1_plus_L2
    from skglm.solvers import AndersonCD, ProxNewton

    X, y = data
    smooth, method = (Logistic(), ProxNewton) if loss.loss == "logistic" else (Quadratic(), AndersonCD)
    model = GeneralizedLinearEstimator(
        smooth, L1_plus_L2(1.0 / (len(y) * C), SHARES[loss.penalty]),
        method(tol=1e-2 * tol, fit_intercept=False, max_iter=1000),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y).coef_.reshape(1, -1), {}


BOTH = ("l1", "elasticnet")
SKGLM = tuple((loss, penalty) for loss in ("logistic", "squared_error") for penalty in BOTH)
SIDES = {
    "LIBLINEAR -s 5": Side((("squared_hinge", "l1"),), liblinear.TOLERANCES, liblinear.prepare, _liblinear(5)),
    "LIBLINEAR -s 6": Side((("logistic", "l1"),), liblinear.TOLERANCES, liblinear.prepare, _liblinear(6)),
    "LogisticRegression saga": Side(tuple(("logistic", name) for name in BOTH), TOLERANCES, scikit.prepare, _saga),
    "ElasticNet": Side(tuple(("squared_error", name) for name in BOTH), TOLERANCES, _columns, _elastic_net),
    "skglm": Side(SKGLM, TOLERANCES, _compiled, _skglm),
}
