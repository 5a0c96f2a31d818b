"""scikit-learn's linear classifiers: a whole fit, as its users wait for it."""

from __future__ import annotations

from typing import Any

from examples.benchmarks.sides import Side

DUAL = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 3e-3, 1e-3, 1e-4, 1e-5)
SMOOTH = (1.0, 0.1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)


def prepare(X: Any, y: Any, threads: int) -> Any:
    """Rows in float64, which its checks would convert to."""
    import numpy as np
    import sklearn.linear_model
    import sklearn.svm  # noqa: F401  # imported before the clock runs

    return X.astype(np.float64), y


def svc(data: Any, loss: str, C: float, tol: float, limit: float) -> tuple[Any, dict[str, Any]]:
    """LinearSVC, without its default cap on iterations."""
    from sklearn.svm import LinearSVC

    model = LinearSVC(loss=loss, dual=True, C=C, tol=tol, fit_intercept=False, max_iter=10**6, random_state=0)
    return model.fit(*data).coef_, {}


def logistic(method: str) -> Any:
    """LogisticRegression with one of its solvers."""

    def solve(data: Any, loss: str, C: float, tol: float, limit: float) -> tuple[Any, dict[str, Any]]:
        from sklearn.linear_model import LogisticRegression
        from sklearn.multiclass import OneVsRestClassifier

        model = LogisticRegression(C=C, tol=tol, solver=method, fit_intercept=False, max_iter=10**5)
        if data[1].min() == 0:  # more than two classes: each against the rest, as all other sides do
            import numpy as np

            found = OneVsRestClassifier(model).fit(*data)
            return np.concatenate([one.coef_ for one in found.estimators_]), {}
        return model.fit(*data).coef_, {}

    return solve


SIDES = {
    "LinearSVC": Side(("hinge", "squared_hinge"), DUAL, prepare, svc),
    **{
        f"LogisticRegression {method}": Side(("logistic",), SMOOTH, prepare, logistic(method))
        for method in ("lbfgs", "newton-cg", "newton-cholesky")
    },
}
