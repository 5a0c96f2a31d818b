"""The scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from streammargin.driver.stream import Learner, streaming_solvers
from streammargin.errors import UsageError
from streammargin.estimator import Estimator, from_files
from streammargin.model.linear import LinearModel
from streammargin.streams import stream_header, stream_learner

# after streammargin.estimator, which says what to install
from sklearn.base import ClassifierMixin  # isort: skip
from sklearn.utils.metaestimators import available_if  # isort: skip
from sklearn.utils.multiclass import check_classification_targets  # isort: skip
from sklearn.utils.validation import check_is_fitted  # isort: skip

_ADVICE = {
    "passes": "raise passes or tol, or scale the data",
    "seconds": "raise max_seconds or tol, or scale the data",
    "not_separable": "no hyperplane separates the classes by more than tol times the mean length of the rows; lower "
    "tol, or give a finite C (to a solver that takes one)",
}


def _learns_from_streams(estimator: MarginClassifier) -> bool:
    solvers = streaming_solvers()
    if estimator.solver not in solvers:
        raise AttributeError(
            f"solver {estimator.solver!r} has no partial_fit; the solvers {', '.join(solvers)} have, and every solver "
            "fits a file that streammargin-data convert wrote"
        )
    return True


class MarginClassifier(ClassifierMixin, Estimator):
    """Linear large-margin classifier, trained until a certificate proves the tolerance.

    Parameters are those of `streammargin.train`; fit_intercept adds a constant, regularised column of
    value `bias`; bias="midway" is for C=inf, see there. Several classes are told apart one against the
    rest. Wherever rows X are asked for, the path of a file, a list of paths (shards) or a Source is streamed instead.

    Attributes
    ----------
    coef_ : (1, d) or (k, d) float64
    intercept_ : (1,) or (k,) float64
    classes_ : (k,) the labels
    n_iter_ : int, passes over the rows; after partial_fit, the batches learned
    t_ : int, rows learned by partial_fit
    n_features_in_ : int, and feature_names_in_ (d,) where X had names
    certificate_ : dict of exact figures, see `streammargin.TrainResult`
    """

    def __init__(
        self,
        C: float | None = None,
        *,
        solver: str = "sdca",
        loss: str | None = None,
        width: float = 1.0,
        norm: float | str = 2,
        tol: float = 1e-3,
        passes: int = 1000,
        max_seconds: float | None = None,
        fit_intercept: bool = True,
        bias: float | str = 1.0,
        scale: str = "none",
        class_weight: str | Mapping[Any, float] | None = None,
        multiclass: str = "ovr",
        average: bool | None = None,
        schedule: str | None = None,
        stochastic: bool | None = None,
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
        self.multiclass = multiclass
        self.average = average
        self.schedule = schedule
        self.stochastic = stochastic
        self.memory = memory
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> MarginClassifier:
        """Learn from rows X (n, d), an array or a SciPy matrix, or from files that hold the labels too.

        y (n,) labels; sample_weight (n,) >= 0 multiplies C for its row, and 0 means that the row is absent;
        with files, either may name a dataset. Warns (ConvergenceWarning) when the tolerance was not reached.
        """
        if from_files(X):
            self._forget_names()
            result = self._train(X, y, sample_weight)
        else:
            X, y = self._rows(X, y=y, order="C")
            check_classification_targets(y)
            sample_weight = self._weights(sample_weight, X)
            if len(np.unique(y)) < 2:
                raise ValueError(f"MarginClassifier needs two classes; y has one class only, {y[0]!r}")
            result = self._train((X, y), None, sample_weight)
        model = result.model
        self._learner: Learner | None = None
        if hasattr(self, "t_"):  # of an earlier partial_fit
            del self.t_  # type: ignore[has-type]
        self.coef_, self.intercept_, self.classes_ = model.coef_, model.intercept_, model.classes_
        if not result.converged:
            self._warn(f"not converged after {result.passes} passes; {_ADVICE[result.reason]}")
        return self

    @available_if(_learns_from_streams)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> MarginClassifier:
        """Learn from each row of the batch X (m, d) once, in order; y (m,) labels, sample_weight (m,) >= 0.

        For the solvers perceptron, mirror (which only tell weight 0, absence, from the others) and pegasos. classes:
        all labels that may come; without them those of the first batch are all. Further batches go on from the state
        of the last, with the parameters of the first; `fit` forgets it, and the first call after a `fit` starts
        afresh. The sequence of batches is learned as `streammargin.train` learns an iterator of them.
        """
        learner: Learner | None = getattr(self, "_learner", None)
        first = learner is None
        if from_files(X):
            raise UsageError("partial_fit takes arrays; fit reads files, with any solver")
        X, y = self._rows(X, y=y, order="C", reset=first)
        check_classification_targets(y)
        sample_weight = self._weights(sample_weight, X)
        params = {**self._options(), "classes": classes}
        for name in ("passes", "max_seconds", "memory"):  # a stream has none
            del params[name]
        if learner is None:
            learner = stream_learner(**params)
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise UsageError(
                f"classes are {np.unique(classes).tolist()}, but the first call of partial_fit set "
                f"{self.classes_.tolist()}; leave them out, or fit a clone"
            )
        learner.learn(X, y, sample_weight)
        self._learner = learner
        self.coef_, self.intercept_, self.classes_ = learner.model_parts()
        self.n_iter_, self.t_ = learner.batches, learner.rows
        self._header = stream_header(params, learner, "passes", 0.0)
        self.certificate_ = self._header["certificate"]
        return self

    def _model(self) -> LinearModel:
        check_is_fitted(self)
        return LinearModel(self.coef_, self.intercept_, self.classes_, self._header)

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores (n,), or (n, k) for several classes, float64."""
        model = self._model()
        return model.decision_function(self._rows(X, reset=False))

    def predict(self, X: Any) -> np.ndarray:
        """Labels (n,) of the rows of X."""
        model = self._model()
        return model.predict(self._rows(X, reset=False))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy on rows X with labels y; of files, y may name the dataset of labels."""
        if not from_files(X):
            return super().score(X, y, sample_weight)
        if sample_weight is not None:
            raise UsageError("score of files takes no sample_weight; give X as an array")
        return self._model().evaluate(X, y=y)["accuracy"]


__all__ = ["MarginClassifier"]
