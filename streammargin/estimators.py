"""scikit-learn estimators (scikit-learn is an extra: pip install 'streammargin[sklearn]')."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streammargin.api import train
from streammargin.model.linear import LinearModel

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, check_random_state, validate_data
except ImportError as error:
    raise ImportError(
        "streammargin.MarginClassifier needs scikit-learn 1.6 or newer; pip install 'streammargin[sklearn]'"
    ) from error


def _is_path(X: Any) -> bool:
    return isinstance(X, (str, os.PathLike))


class MarginClassifier(ClassifierMixin, BaseEstimator):
    """Linear large-margin classifier, trained until a certificate proves the tolerance.

    Parameters are those of `streammargin.train`; fit_intercept adds a constant, regularised column of
    value `bias`. Several classes are told apart one against the rest.

    Attributes
    ----------
    coef_ : (1, d) or (k, d) float64
    intercept_ : (1,) or (k,) float64
    classes_ : (k,) the labels
    n_iter_ : int, passes over the rows
    certificate_ : dict of exact figures, see `streammargin.TrainResult`
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        solver: str = "sdca",
        loss: str = "hinge",
        width: float = 1.0,
        norm: float | str = 2,
        tol: float = 1e-3,
        passes: int = 1000,
        max_seconds: float | None = None,
        fit_intercept: bool = True,
        bias: float = 1.0,
        scale: str = "none",
        class_weight: str | Mapping[Any, float] | None = None,
        memory: str | int = "1G",
        random_state: Any = 0,
    ) -> None:
        self.C = C
        self.solver = solver
        self.loss = loss
        self.width = width
        self.norm = norm
        self.tol = tol
        self.passes = passes
        self.max_seconds = max_seconds
        self.fit_intercept = fit_intercept
        self.bias = bias
        self.scale = scale
        self.class_weight = class_weight
        self.memory = memory
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> MarginClassifier:
        """Learn from rows X (n, d), an array, a SciPy matrix, or the path of a file that holds the labels too.

        y (n,) labels; sample_weight (n,) >= 0 multiplies C for its row.
        """
        data: Any = X
        names = y
        if not _is_path(X):
            X, y = validate_data(
                self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], accept_large_sparse=True, order="C"
            )
            check_classification_targets(y)
            if sample_weight is not None:
                sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
            data, names = (X, y), None
            if len(np.unique(y)) < 2:
                raise ValueError(f"MarginClassifier needs two classes; y has one class only, {y[0]!r}")
        seed = self.random_state
        if not isinstance(seed, (int, np.integer)):
            seed = check_random_state(seed).randint(np.iinfo(np.int32).max)
        result = train(
            data,
            y=names,
            sample_weight=sample_weight,
            solver=self.solver,
            loss=self.loss,
            width=self.width,
            C=self.C,
            norm=self.norm,
            tol=self.tol,
            passes=self.passes,
            max_seconds=self.max_seconds,
            bias=self.bias if self.fit_intercept else None,
            scale=self.scale,
            class_weight=self.class_weight,
            memory=self.memory,
            seed=int(seed),
        )
        self._take(result.model)
        self.certificate_ = result.certificate
        self.n_iter_ = result.passes
        if not result.converged:
            warnings.warn(
                f"not converged ({result.reason}) after {result.passes} passes; raise passes or tol, or scale the data",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _take(self, model: LinearModel) -> None:
        self.coef_, self.intercept_, self.classes_ = model.coef_, model.intercept_, model.classes_
        self.n_features_in_ = model.coef_.shape[1]

    def _model(self) -> LinearModel:
        check_is_fitted(self)
        return LinearModel(self.coef_, self.intercept_, self.classes_, {"certificate": self.certificate_})

    def _rows(self, X: Any) -> Any:
        if _is_path(X):
            return X
        return validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores (n,), or (n, k) for several classes, float64."""
        model = self._model()
        return model.decision_function(self._rows(X))

    def predict(self, X: Any) -> np.ndarray:
        """Labels (n,) of the rows of X."""
        model = self._model()
        return model.predict(self._rows(X))

    def save(self, path: str | os.PathLike, force: bool = False) -> None:
        """Write the model as `streammargin train` would."""
        self._model().save(path, force=force)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


__all__: Sequence[str] = ["MarginClassifier"]
