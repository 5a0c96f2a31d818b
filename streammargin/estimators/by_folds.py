"""The scikit-learn estimators that choose C by folds, all of which share the reads of one training."""

from __future__ import annotations

import copy
from numbers import Integral
from typing import Any, NoReturn, Self

import numpy as np

from streammargin.errors import UsageError
from streammargin.estimators.base import Estimator, from_files, intercept, own
from streammargin.estimators.classifier import MarginClassifier
from streammargin.estimators.machines import KernelMarginClassifier
from streammargin.estimators.regressors import MarginRegressor
from streammargin.model.base import Model
from streammargin.options.table import Line, Where
from streammargin.points.mapped import taken_apart
from streammargin.result import TrainResult
from streammargin.solvers.problem import smallest, standard_errors
from streammargin.wording import shown

# after streammargin.estimators.base, whose ImportError names the extra
from sklearn.metrics import check_scoring  # isort: skip
from sklearn.model_selection import check_cv  # isort: skip

FOLDS: tuple[Line, ...] = (
    own("Cs", "int | Sequence[float] | None", None, "values of C; a whole number: so many from 1e-4 to 1e4, as in "
        "LogisticRegressionCV; None: 13 values that suit the mean length of a row"),
    own("cv", "Any", 5, "folds: their number, which keeps the share of each class as in scikit-learn, or a splitter or "
        "splits whose test sets are disjoint"),
    own("scoring", "str | Callable[..., float] | None", None, "what chooses C: a scorer of scikit-learn; None: "
        "accuracy, of a regressor R^2"),
    own("rule", "str", "best", "best: the C with the best mean score; 1se: the smallest C within one standard error"),
)  # fmt: skip


class ByFolds(Estimator):
    """The parameters and attributes of folds, in front of the estimator of one C."""

    without = ("C", "early_stop")
    Cs: Any
    cv: Any
    scoring: Any
    rule: str

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit on arrays; groups (n,): of the rows, for a splitter of groups, such as GroupKFold."""
        self._groups = groups
        try:
            return super().fit(X, y, sample_weight)
        finally:
            del self._groups

    def _takes_several(self) -> bool:
        return False

    def _costs(self, options: dict[str, Any]) -> Any:
        several = self.Cs is None or np.ndim(self.Cs) > 0
        if not several and (isinstance(self.Cs, bool) or not isinstance(self.Cs, Integral) or self.Cs < 1):
            raise UsageError(f"Cs is a list of values of C, how many to try, or None, not {shown(self.Cs)}")
        if self.rule not in ("best", "1se"):
            raise UsageError(f"rule must be best or 1se, not {shown(self.rule)}")
        if not several:
            return np.logspace(-4.0, 4.0, self.Cs).tolist()
        return None if self.Cs is None else list(self.Cs)

    def _train(self, data: Any, y: Any, sample_weight: Any, named: Any = None, **more: Any) -> TrainResult:
        if from_files(data):
            raise UsageError(f"{type(self).__name__} takes arrays; for files call streammargin.train with `cv=5`")
        X, labels = data
        folds = np.full(len(labels), -1)
        if isinstance(self.cv, str):
            raise UsageError(
                f"cv of {type(self).__name__} is a number of folds or a splitter, not {self.cv!r}; for folds by a "
                "column give cv=GroupKFold(5) of scikit-learn, and the column to fit as groups"
            )
        splits = list(check_cv(self.cv, labels, classifier=not self.of_numbers).split(X, labels, self._groups))
        for fold, (train, test) in enumerate(splits):
            if np.any(folds[test] >= 0) or len(train) + len(test) != len(labels):
                raise UsageError(
                    "the splits of cv are no folds: test sets must be disjoint; use GridSearchCV for others"
                )
            folds[test] = fold
        result = super()._train(data, y, sample_weight, named, cv=folds, **more)
        found = result.cross_validation
        if found is None:
            raise UsageError("the training ended before the folds were judged; raise `max_seconds`")
        self.Cs_: np.ndarray = found.Cs
        self.classes_ = result.model.classes_
        self.scores_: np.ndarray = self._scores(result, X, labels, folds)
        self._paths(result)
        best = self._best()
        self.C_: float = float(self.Cs_[best])
        if result.run_end["C"] != self.C_:
            more |= {"C": self.C_, "cv": folds if self._holds_out() else None}
            result = super()._train(data, y, sample_weight, named, **more)
        return result

    def _scores(self, result: TrainResult, X: Any, y: np.ndarray, folds: np.ndarray) -> np.ndarray:
        """The scores (folds, m) of the trainings without one fold, on its rows."""
        found = result.cross_validation
        assert found is not None
        if self.scoring is None and not self.of_numbers:
            return 1.0 - found.errors
        scorer, values = check_scoring(self, self.scoring), len(found.Cs)
        scores, lines = np.empty(found.errors.shape), result.trials.outputs // (values * (len(found.errors) + 1))
        for fold, value in np.ndindex(*scores.shape):
            first, here = (fold * values + value) * lines, np.flatnonzero(folds == fold)
            answer = result.trials.chosen(slice(first, first + lines))
            scores[fold, value] = scorer(self._alone(result.model, answer), X[here], y[here])
        return scores

    def _alone(self, model: Model, answer: Any) -> Any:
        """This estimator with another answer."""
        made, other = copy.copy(self), Model(answer, model.classes_, model.header, None)
        made.__dict__.pop("feature_names_in_", None)  # rows are an array by now
        other.steps, made._calibration = model.steps, {}  # which is that of the chosen C
        made._take(other)
        return made

    def _take(self, model: Model) -> None:
        """Set the weights of a model."""
        self.coef_, self.intercept_ = self._take_weights(model.answer)

    def _paths(self, result: TrainResult) -> None:
        """Set the weights of all trainings without one fold."""
        found, (_, coef, constants) = result.cross_validation, taken_apart(result.trials)
        assert found is not None
        values, folds = len(found.Cs), len(found.errors)
        self.coefs_paths_: np.ndarray = coef.reshape(folds + 1, values, -1, coef.shape[1])[:folds]
        self.intercepts_paths_: np.ndarray = constants.reshape(folds + 1, values, -1)[:folds]

    def _best(self) -> int:
        """The index of the chosen C: of equal scores the smallest."""
        mean = self.scores_.mean(axis=0)
        best = smallest(self.Cs_, -mean)
        return smallest(self.Cs_, -mean, standard_errors(self.scores_)[best]) if self.rule == "1se" else best


class MarginClassifierCV(ByFolds, MarginClassifier):
    """Linear large-margin classifier whose C is chosen by folds, in the reads of one training.

    Each value of C is trained without each fold, and on all rows. Each of these trainings has a certificate. X and y
    are arrays; of files `streammargin.train` chooses C by `cv`.

    {parameters}
    {chosen}
    coefs_paths_ : (folds, m, 1, d) or (folds, m, k, d) float64; intercepts_paths_ : (folds, m, 1) or (folds, m, k)

    coef_ : (1, d) or (k, d) float64, of all rows at C_
    intercept_ : (1,) or (k,) float64
    classes_ : (k,) the labels
    {fitted}
    """

    place = Where.CLASSIFIER
    own = (intercept("add a constant column, as `bias` says (default 1)"), *FOLDS)  # type: ignore[assignment]

    @property
    def partial_fit(self) -> NoReturn:
        """Not here: folds are of all rows."""
        raise AttributeError("folds need all rows at once; MarginClassifier has partial_fit")


class MarginRegressorCV(ByFolds, MarginRegressor):
    """Linear regression whose C is chosen by folds, in the reads of one training.

    Each value of C is trained without each fold, and on all rows. Each of these trainings has a certificate. X and y
    are arrays; of files `streammargin.train` chooses C by `cv`.

    {parameters}
    {chosen}
    coefs_paths_ : (folds, m, 1, d) float64; intercepts_paths_ : (folds, m, 1)
    coef_ : (d,) float64, of all rows at C_
    intercept_ : float
    {fitted}
    """

    place = Where.REGRESSOR
    own = (MarginRegressor.own[0], *FOLDS)  # type: ignore[assignment]

    def _take(self, model: Model) -> None:
        coef, constants = self._take_weights(model.answer)
        self.coef_, self.intercept_ = coef[0], constants[0]


class KernelMarginClassifierCV(ByFolds, KernelMarginClassifier):
    """Kernel machine for classes whose C is chosen by folds; all trainings share the columns of the Gram matrix.

    {parameters}
    {chosen}
    {support}

    dual_coef_ : (1, m) or (k, m) float64, the coefficients with their signs
    n_support_ : (k,) int, the support rows of each class

    intercept_ : (1,) or (k,) float64
    classes_ : (k,) the labels
    {fitted}
    """

    place = Where.CLASSIFIER
    own = (KernelMarginClassifier.own[0], intercept("add a free constant"), *FOLDS)  # type: ignore[assignment]
    early_stop = None

    def _take(self, model: Model) -> None:
        self._fitted = model

    def _paths(self, result: TrainResult) -> None:
        """A kernel machine has no weights of columns."""
