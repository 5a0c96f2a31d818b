"""The scikit-learn regressors."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

import numpy as np

from streammargin.errors import UsageError
from streammargin.estimators.base import HELD_OUT, Estimator, from_files
from streammargin.losses.residuals import Interpolate
from streammargin.model.base import Model
from streammargin.options.table import Where
from streammargin.result import TrainResult

# after streammargin.estimators.base, whose ImportError names the extra
from sklearn.base import RegressorMixin  # isort: skip
from sklearn.utils.validation import check_is_fitted  # isort: skip

SELF = TypeVar("SELF", bound="Regressor")
INTERPOLATOR = TypeVar("INTERPOLATOR", bound="InterpolatingRegressor")


class Regressor(RegressorMixin, Estimator):
    """The base class of the regressors; attributes coef_ (d,) and intercept_, or (outputs, d) and (outputs,)."""

    coef_: np.ndarray
    intercept_: Any

    of_numbers = True

    def fit(self: SELF, X: Any, y: Any = None, sample_weight: Any = None) -> SELF:
        """Fit targets y (n,), or (n, outputs), on rows X (n, d), an array or a SciPy matrix, or on files with both.

        sample_weight (n,) >= 0 multiplies C for its row; weight 0 drops the row. For interpolation (C = inf) other
        weights have no effect. With files, y and sample_weight may name a dataset. Warns (ConvergenceWarning) when the
        tolerance was not reached.
        """
        self._warn(self._fit(X, y, sample_weight))
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> TrainResult:
        """`fit` without its warning."""
        if from_files(X):
            result = self._train(X, y, sample_weight)
            self._take_names(result.model.feature_names_in_)
        else:
            X, numbers = self._rows(X, y=y, y_numeric=True)
            result = self._train((X, numbers), None, self._weights(sample_weight, X), y)
        coef, intercept = self._take_weights(result.model.answer)
        self.coef_, self.intercept_ = coef, intercept
        if result.model.outputs is None:
            self.coef_, self.intercept_ = coef[0], float(intercept[0])
        return result

    def _model(self) -> Model:
        check_is_fitted(self)
        return self._model_of(np.atleast_1d(self.intercept_), np.empty(0))

    def predict(self, X: Any) -> np.ndarray:
        """Predictions (n,), or (n, outputs), float64 for the rows of X."""
        model = self._scorer(X)
        return model.predict(self._rows(X, reset=False))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """R^2 on rows X with targets y, which must not all be equal; with files, y may name the dataset of targets.

        With several outputs it is the mean.
        """
        if from_files(X):
            return self._score_files("r2", X, y, sample_weight)
        return super().score(X, y, sample_weight)


class MarginRegressor(Regressor):
    """Linear regression with any loss and penalty, trained until a certificate proves the tolerance.

    Minimises R(w) + C sum_i s_i phi(x_i.w + b - y_i). Each column of y (n, outputs) has weights of its own, from the
    same reads. X may also be the path of a file, a list of paths (shards) or a Source, which is streamed. Columns of
    frames must have the names and order of those in `fit`; columns of files are matched by name, in any order.

    Parameters
    ----------
    {options}
    fit_intercept : bool, default True
        add a constant column, as `bias` says. By default it is not penalised, where the solver supports that.
        Otherwise its distance from the best constant prediction is penalised.
    random_state : int, RandomState or None, default 0
        Seed of all random draws.
    n_jobs : int, default None
        Threads that visit rows at the same time, -1 for all cores; the weights do not depend on it.

    validation_fraction : float, default 0.1
        With `early_stop`, the share of the rows that is held out, drawn by random_state. The rest is copied.
    verbose : bool, default False
        show the progress on stderr

    Attributes
    ----------
    coef_ : (d,) float64, or (outputs, d) for y (n, outputs)
    intercept_ : float, or (outputs,)
    n_iter_ : int, passes over the rows
    n_features_in_ : int, and feature_names_in_ (d,) where X had names
    certificate_ : exact figures, see `streammargin.result.Certificate`

    Source: Pdprox paper, section 4; lp-norm perceptron paper, appendices B.1 and C.
    """

    place = Where.REGRESSOR
    own: ClassVar[dict[str, tuple[object, str]]] = HELD_OUT

    def _options(self) -> dict[str, Any]:
        options = super()._options()
        return {**options, "loss": "squared_error" if self.loss is None else self.loss}


class InterpolatingRegressor(Regressor):
    """The weights with the smallest l2 or lp penalty such that |x_i.w + b - y_i| <= epsilon for every row.

    If rows contradict each other no such weights exist: fit then warns. X may also be the path of a file, a list of
    paths (shards) or a Source, which is streamed. Columns of frames must have the names and order of those in `fit`;
    columns of files are matched by name, in any order.

    Parameters
    ----------
    {options}

    epsilon : float or str, default 0.0
        largest allowed error of a prediction, in units of y; of files also the name of a dataset, with one for each row

    fit_intercept : bool, default True
        add a constant column of value `bias` (default 1), whose weight is penalised
    random_state : int, RandomState or None, default 0
        seed of all random draws
    n_jobs : int, default None
        threads that visit rows at the same time, -1 for all cores; the weights do not depend on it
    verbose : bool, default False
        show the progress on stderr

    Attributes
    ----------
    coef_ : (d,) float64
    intercept_ : float
    n_iter_ : int, passes over the rows
    n_features_in_ : int, and feature_names_in_ (d,) where X had names
    certificate_ : exact figures, see `streammargin.result.Certificate`

    Source: lp-norm perceptron paper, Algorithm 1 and section 2.3.
    """

    place = Where.INTERPOLATOR
    own: ClassVar[dict[str, tuple[object, str]]] = {"epsilon": (0.0, "float | str")}
    epsilon: float | str

    def _takes_several(self) -> bool:
        return False

    def fit(self: INTERPOLATOR, X: Any, y: Any = None, sample_weight: Any = None, epsilon: Any = None) -> INTERPOLATOR:
        """As `Regressor.fit`; epsilon (n,): of each row, in place of the parameter. It is cut with the rows by
        cross-validation, as sample_weight is.
        """
        if epsilon is None and np.ndim(self.epsilon):
            raise UsageError("an array of epsilons belongs to the rows; give it to fit, as in fit(X, y, epsilon=...)")
        self._epsilon = self.epsilon if epsilon is None else epsilon
        try:
            result = self._fit(X, y, sample_weight)
        finally:
            del self._epsilon
        self._warn(result)
        return self

    def _options(self) -> dict[str, Any]:
        return {**super()._options(), "loss": Interpolate(getattr(self, "_epsilon", self.epsilon))}


__all__ = ["InterpolatingRegressor", "MarginRegressor"]
