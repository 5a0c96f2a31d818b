"""scikit-learn estimators (scikit-learn is an extra: pip install 'streammargin[sklearn]')."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streammargin.api import train
from streammargin.data.base import Source
from streammargin.driver.stream import Learner, streaming_solvers
from streammargin.errors import UsageError
from streammargin.model.linear import LinearModel
from streammargin.streams import stream_header, stream_learner

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, check_random_state, validate_data
except ImportError as error:
    raise ImportError(
        "streammargin.MarginClassifier needs scikit-learn 1.6 or newer; pip install 'streammargin[sklearn]'"
    ) from error


_ADVICE = {
    "passes": "raise passes or tol, or scale the data",
    "seconds": "raise max_seconds or tol, or scale the data",
    "not_separable": "no hyperplane separates the classes; give a finite C (to a solver that takes one)",
}


def _streams(X: Any) -> bool:
    """Whether rows come from files; scikit-learn's checks of arrays are not for them."""
    if isinstance(X, (str, os.PathLike, Source)):
        return True
    return isinstance(X, Sequence) and len(X) > 0 and all(isinstance(part, (str, os.PathLike)) for part in X)


def _learns_from_streams(estimator: MarginClassifier) -> bool:
    solvers = streaming_solvers()
    if estimator.solver not in solvers:
        raise AttributeError(f"solver {estimator.solver!r} has no partial_fit; the solvers {', '.join(solvers)} have")
    return True


class MarginClassifier(ClassifierMixin, BaseEstimator):
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
        if _streams(X):
            if hasattr(self, "feature_names_in_"):  # of an earlier fit
                del self.feature_names_in_
            data, labels = X, y
        else:
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C")
            check_classification_targets(y)
            if sample_weight is not None:
                sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
            if len(np.unique(y)) < 2:
                raise ValueError(f"MarginClassifier needs two classes; y has one class only, {y[0]!r}")
            data, labels = (X, y), None
        seed = self.random_state
        if not isinstance(seed, (int, np.integer)):
            seed = check_random_state(seed).randint(np.iinfo(np.int32).max)
        result = train(
            data,
            y=labels,
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
            multiclass=self.multiclass,
            average=self.average,
            schedule=self.schedule,
            stochastic=self.stochastic,
            memory=self.memory,
            seed=int(seed),
        )
        model = result.model
        self._learner: Learner | None = None
        self.coef_, self.intercept_, self.classes_ = model.coef_, model.intercept_, model.classes_
        self.n_features_in_ = model.coef_.shape[1]
        self.n_iter_ = result.passes
        self.certificate_ = result.certificate
        self._header = model.header
        if not result.converged:
            warnings.warn(
                f"not converged after {result.passes} passes; {_ADVICE[result.reason]}",
                ConvergenceWarning,
                stacklevel=2,
            )
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
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", reset=first
        )  # fmt: skip
        check_classification_targets(y)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        params = {
            "solver": self.solver, "loss": self.loss, "width": self.width, "C": self.C, "norm": self.norm,
            "bias": self.bias if self.fit_intercept else None, "scale": self.scale, "class_weight": self.class_weight,
            "classes": classes, "multiclass": self.multiclass, "average": self.average, "schedule": self.schedule,
            "stochastic": self.stochastic, "tol": self.tol,
        }  # fmt: skip
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

    def _rows(self, X: Any) -> Any:
        if _streams(X):
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

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy on rows X with labels y; of files, y may name the dataset of labels."""
        if not _streams(X):
            return super().score(X, y, sample_weight)
        if sample_weight is not None:
            raise UsageError("score of files takes no sample_weight; give X as an array")
        return self._model().evaluate(X, y=y)["accuracy"]

    def save(self, path: str | os.PathLike, force: bool = False) -> None:
        """Write the model as `streammargin train` would."""
        self._model().save(path, force=force)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


__all__ = ["MarginClassifier"]
