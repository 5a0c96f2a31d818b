"""The scikit-learn regressors."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np

from streammargin.errors import UsageError
from streammargin.estimators.base import HELD_OUT, Estimator, ScoredMixin, from_files, intercept, own
from streammargin.losses.residuals import Interpolate
from streammargin.model.base import Model
from streammargin.options.table import Where
from streammargin.result import TrainResult

# after streammargin.estimators.base, whose ImportError names the extra
from sklearn.base import RegressorMixin  # isort: skip
from sklearn.utils.validation import check_is_fitted  # isort: skip


class Regressor(ScoredMixin, RegressorMixin, Estimator):
    """The base class of the regressors."""

    of_numbers = True
    default_loss: ClassVar[str]

    def _options(self) -> dict[str, Any]:
        options = super()._options()
        return {**options, "loss": self.default_loss if options.get("loss") in (None, "auto") else options["loss"]}

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit targets y (n,), or (n, outputs), on rows X (n, d), an array or a SciPy matrix, or on files with both.

        sample_weight (n,) >= 0 multiplies C for its row; weight 0 drops the row. For interpolation (C = inf) other
        weights have no effect. With files, y and sample_weight may name a dataset. Warns (ConvergenceWarning) if the
        tolerance was not reached.
        """
        self._warn(self._fit(X, y, sample_weight))
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> TrainResult:
        """`fit` without its warning."""
        if from_files(X):
            result = self._train(X, y, sample_weight)
        else:
            X, numbers = self._rows(X, y=y, y_numeric=True)
            result = self._train((X, numbers), None, self._weights(sample_weight, X), y)
        self._keep(result)
        return result

    @abstractmethod
    def _keep(self, result: TrainResult) -> None:
        """Set the attributes of what was found."""


class LinearRegressor(Regressor):
    """A regressor with the attributes coef_ (d,) and intercept_, or (outputs, d) and (outputs,)."""

    coef_: np.ndarray
    intercept_: Any

    def _keep(self, result: TrainResult) -> None:
        coef, intercept = self._take_weights(result.model.answer)
        self.coef_, self.intercept_ = coef, intercept
        if result.model.outputs is None:
            self.coef_, self.intercept_ = coef[0], float(intercept[0])

    def _model(self) -> Model:
        check_is_fitted(self)
        return self._model_of(np.atleast_1d(self.intercept_), np.empty(0))


class MarginRegressor(LinearRegressor):
    """Linear regression with any loss and penalty, trained until a certificate proves the tolerance.

    Minimises R(w) + C sum_i s_i phi(x_i.w + b - y_i). Each column of y (n, outputs) has its own weights.
    {files}

    {parameters}
    coef_ : (d,) float64, or (outputs, d) for y (n, outputs)
    intercept_ : float, or (outputs,)
    {fitted}

    Source: Pdprox paper, section 4; lp-norm perceptron paper, appendices B.1 and C.
    """

    place = Where.REGRESSOR
    own = (
        intercept("add a constant column, as `bias` says; by default it is not penalised, if the solver supports that; "
                  "otherwise its distance from the best constant prediction is penalised"),
        HELD_OUT,
    )  # fmt: skip
    default_loss = "squared_error"


class InterpolatingRegressor(LinearRegressor):
    """The weights with the smallest l2 or lp penalty such that |x_i.w + b - y_i| <= epsilon for every row.

    If rows contradict each other no such weights exist: fit then warns.
    {files}

    {parameters}
    coef_ : (d,) float64
    intercept_ : float
    {fitted}

    Source: lp-norm perceptron paper, Algorithm 1 and section 2.3.
    """

    place = Where.INTERPOLATOR
    own = (
        own("epsilon", "float | str", 0.0, "largest allowed error of a prediction, in units of y; of files also the "
            "name of a dataset, with one for each row"),
        intercept("add a constant column of value `bias` (default 1), whose weight is penalised"),
    )  # fmt: skip
    default_loss = "interpolate"
    epsilon: float | str

    def _takes_several(self) -> bool:
        return False

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, epsilon: Any = None) -> Self:
        """Like `Regressor.fit`; epsilon (n,): of each row, in place of the parameter. Cross-validation splits it like
        sample_weight.
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
