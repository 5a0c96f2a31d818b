"""The scikit-learn regressor of the smallest weights that meet given numbers."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np

from streammargin.api import train
from streammargin.errors import UsageError
from streammargin.model.linear import LinearModel
from streammargin.result import unmet

try:
    from sklearn.base import BaseEstimator, RegressorMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, check_random_state, validate_data

    from streammargin.estimators import _streams
except ImportError as error:
    raise ImportError(
        "streammargin.InterpolatingRegressor needs scikit-learn 1.6 or newer; pip install 'streammargin[sklearn]'"
    ) from error


class InterpolatingRegressor(RegressorMixin, BaseEstimator):
    """The weights of smallest lp norm with |x_i.w + b - y_i| <= epsilon for every row.

    Other parameters are those of `streammargin.train` with the loss interpolate; fit_intercept adds a
    constant column of value `bias`, whose weight counts in the norm. Rows that contradict each other have
    no such weights: fit then warns. Wherever rows X are asked for, the path of a file, a list of paths
    (shards) or a Source is streamed instead.

    Attributes
    ----------
    coef_ : (d,) float64
    intercept_ : float
    n_iter_ : int, passes over the rows
    n_features_in_ : int, and feature_names_in_ (d,) where X had names
    certificate_ : dict of exact figures, see `streammargin.TrainResult`

    Source: lp-norm perceptron paper, Algorithm 1 and section 2.3.
    """

    def __init__(
        self,
        *,
        norm: float | str = 2,
        epsilon: float = 0.0,
        solver: str = "sdca",
        tol: float = 1e-3,
        passes: int = 1000,
        max_seconds: float | None = None,
        fit_intercept: bool = True,
        bias: float = 1.0,
        scale: str = "none",
        memory: str | int = "1G",
        random_state: Any = 0,
    ) -> None:
        self.norm = norm
        self.epsilon = epsilon
        self.solver = solver
        self.tol = tol
        self.passes = passes
        self.max_seconds = max_seconds
        self.fit_intercept = fit_intercept
        self.bias = bias
        self.scale = scale
        self.memory = memory
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> InterpolatingRegressor:
        """Meet the numbers y (n,) of rows X (n, d), an array or a SciPy matrix, or of files that hold them too.

        sample_weight (n,) >= 0: 0 means that the row is absent, any other weight changes nothing. With files,
        y and sample_weight may name a dataset. Warns (ConvergenceWarning) when the tolerance was not reached.
        """
        if _streams(X):
            if hasattr(self, "feature_names_in_"):  # of an earlier fit
                del self.feature_names_in_
            data, numbers = X, y
        else:
            X, y = validate_data(
                self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", y_numeric=True
            )
            if sample_weight is not None:
                sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
            data, numbers = (X, y), None
        seed = self.random_state
        if not isinstance(seed, (int, np.integer)):
            seed = check_random_state(seed).randint(np.iinfo(np.int32).max)
        result = train(
            data, y=numbers, sample_weight=sample_weight, solver=self.solver, loss="interpolate",
            epsilon=self.epsilon, norm=self.norm, tol=self.tol, passes=self.passes, max_seconds=self.max_seconds,
            bias=self.bias if self.fit_intercept else None, scale=self.scale, memory=self.memory, seed=int(seed),
        )  # fmt: skip
        model = result.model
        self.coef_, self.intercept_ = model.coef_[0], float(model.intercept_[0])
        self.n_features_in_ = len(self.coef_)
        self.n_iter_ = result.passes
        self.certificate_ = result.certificate
        self._header = model.header
        if not result.converged:
            warnings.warn(unmet(result), ConvergenceWarning, stacklevel=2)
        return self

    def _model(self) -> LinearModel:
        check_is_fitted(self)
        return LinearModel(self.coef_[None, :], np.array([self.intercept_]), np.empty(0), self._header)

    def predict(self, X: Any) -> np.ndarray:
        """Numbers (n,) float64 for the rows of X."""
        model = self._model()
        if not _streams(X):
            X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return model.predict(X)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """R^2 on rows X with numbers y; not of files, for which `evaluate` of the saved model has the errors."""
        if _streams(X):
            raise UsageError("score takes arrays; for files save the model and evaluate it")
        return super().score(X, y, sample_weight)

    def save(self, path: str | os.PathLike, force: bool = False) -> None:
        """Write the model as `streammargin train` would."""
        self._model().save(path, force=force)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


__all__ = ["InterpolatingRegressor"]
