"""The scikit-learn classifier."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self

import numpy as np

from streammargin.errors import UsageError
from streammargin.estimators.base import HELD_OUT, Estimator, ScoredMixin, from_files, intercept
from streammargin.losses import losses_with, terms
from streammargin.losses.base import has
from streammargin.model.base import Model
from streammargin.model.scoring import METHOD
from streammargin.options.table import Options, Where
from streammargin.result import Certificate, TrainResult
from streammargin.solvers.base import StreamSolver
from streammargin.solvers.registry import FAMILY as SOLVERS
from streammargin.solvers.registry import make_solver
from streammargin.training.setup import hardly_classes
from streammargin.training.stream import Learner, streaming_solvers
from streammargin.wording import shown

# after streammargin.estimators.base, whose ImportError names the extra
from sklearn.base import ClassifierMixin  # isort: skip
from sklearn.utils.multiclass import check_classification_targets  # isort: skip
from sklearn.utils.validation import check_is_fitted, column_or_1d  # isort: skip
import functools
from collections.abc import Callable


class AvailableIf:
    """Decorates a method: `check(estimator)` raises the AttributeError that explains why it is not there.

    So `hasattr` is false, as scikit-learn expects; its `available_if` hides the explanation in the cause of another
    error.
    """

    def __init__(self, check: Callable[[Any], None]) -> None:
        self.check = check

    def __call__(self, method: Callable[..., Any]) -> AvailableIf:
        self.method = method
        functools.update_wrapper(self, method)
        return self

    def __get__(self, estimator: Any, owner: Any = None) -> Any:
        if estimator is None:  # of the class: help and pages show it
            return self.method
        self.check(estimator)
        return self.method.__get__(estimator, owner)


def _learns_from_streams(estimator: MarginClassifier) -> None:
    with suppress(UsageError):  # which `fit` raises
        if isinstance(SOLVERS.of(estimator.solver), StreamSolver):
            return
    raise AttributeError(
        f"solver {estimator.solver!s} has no partial_fit; use one of {', '.join(streaming_solvers())}, or write the "
        "batches to a file with streammargin.write_hdf5, and train on that"
    )


def _has_probabilities(estimator: MarginClassifier) -> None:
    loss = estimator.loss
    if getattr(estimator, "calibrate", None) is not None:
        return
    if loss in (None, "auto"):  # the loss that the last fit took
        loss = getattr(estimator, "_header", {}).get("loss", "auto")
    with suppress(UsageError):  # `fit` raises it
        if has(terms(loss), METHOD):
            return
    raise AttributeError(
        f"the loss {loss} has no probabilities; set loss to {' or '.join(losses_with([METHOD]))}, "
        'or calibrate="sigmoid", as CalibratedClassifierCV of scikit-learn does'
    )


class Classifier(ScoredMixin, ClassifierMixin, Estimator):
    """The base class of the classifiers."""

    classes_: np.ndarray

    def _trained(self, X: Any, y: Any, sample_weight: Any) -> tuple[TrainResult, np.ndarray | None]:
        """The result, and the labels (n,) or (n, outputs) of arrays. It sets the classes."""
        labels = None
        if from_files(X):
            result = self._train(X, y, sample_weight)
        else:
            X, labels = self._rows(X, y=y)
            labels = column_or_1d(labels, warn=True) if labels.ndim == 2 and labels.shape[1] == 1 else labels
            check_classification_targets(labels)
            sample_weight = self._weights(sample_weight, X)
            known = np.unique(labels) if labels.ndim == 1 else labels[:0]
            if labels.ndim == 1 and len(known) < 2:
                name = type(self).__name__
                raise ValueError(f"{name} needs two classes; y has one class only, {shown(labels[0])}")
            amounts = hardly_classes(known, len(labels)) is not None  # here they are classes, as in scikit-learn
            result = self._train((X, labels), None, sample_weight, y, **({"classes": known} if amounts else {}))
        self.classes_ = result.model.classes_
        return result, labels

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores (n,), or (n, k) for several classes or outputs, float64."""
        return self._scorer(X).decision_function(self._rows(X, reset=False))

    @AvailableIf(_has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities (n, k) of the classes in the order of `classes_`: of the logistic loss, or calibrated.

        For two classes the second has 1 / (1 + exp(-score)). Several classes have the softmax of their scores, or with
        `multiclass="ovr"` the probability of each score, divided by the row's sum. For several outputs, (n, outputs):
        the probability that each label is 1. With `calibrate` each class has the probability that its score had in
        held-out rows, divided by the row's sum.
        """
        return self._scorer(X).predict_proba(self._rows(X, reset=False))


class MarginClassifier(Classifier):
    """Linear large-margin classifier, trained until a certificate proves the tolerance.

    `loss="auto"` is the hinge for two classes, and the logistic loss for more: one softmax. With other losses each
    class is trained against the rest, or with `multiclass="joint"` all at once.
    Each column of y (n, outputs) of labels 0 and 1 has its own weights.
    {files}

    {parameters}
    coef_ : (1, d) or (k, d) float64, or (outputs, d) for y (n, outputs)
    intercept_ : (1,) or (k,) float64, or (outputs,)
    classes_ : (k,) the labels; 0 and 1 for y (n, outputs)
    n_iter_ : int, passes over the rows; after partial_fit, the batches learned
    t_ : int, rows learned by partial_fit

    n_features_in_ : int, and feature_names_in_ (d,) if X had names
    certificate_ : a `streammargin.result.Certificate`
    """

    coef_: np.ndarray
    intercept_: np.ndarray
    n_iter_: int
    t_: int

    place = Where.CLASSIFIER
    own = (intercept("add a constant column, as `bias` says (default 1, at C = inf too)"), HELD_OUT)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit on rows X (n, d), an array or a SciPy matrix, or on files that contain the labels too.

        y (n,) labels, or (n, outputs) of 0 and 1; sample_weight (n,) >= 0 multiplies C for its row; weight 0 drops the
        row. With files, either may name a dataset. Warns (ConvergenceWarning) if the tolerance was not reached;
        classes that are never predicted are logged, as by `streammargin.train`.
        """
        result, _ = self._trained(X, y, sample_weight)
        self._learner: Learner | None = None
        if hasattr(self, "t_"):  # from an earlier partial_fit
            del self.t_
        self.coef_, self.intercept_ = self._take_weights(result.model.answer)
        self._warn(result)
        return self

    @AvailableIf(_learns_from_streams)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from each row of the batch X (m, d) once, in order; y (m,) labels, sample_weight (m,) >= 0.

        For the solvers pegasos, perceptron and mirror; the latter two ignore weights except 0, which drops the row.
        classes: all labels that may occur; by default those of the first batch. Each call continues the last one, with
        the parameters of the first; after a `fit` it starts anew. The result is that of `streammargin.train` on an
        iterator of the batches.
        """
        learner: Learner | None = getattr(self, "_learner", None)
        first = learner is None
        if from_files(X):
            raise UsageError("partial_fit takes arrays; fit reads files, with any solver")
        X, y = self._rows(X, y=y, multi_output=False, reset=first)
        check_classification_targets(y)
        sample_weight = self._weights(sample_weight, X)
        if learner is None:
            # tol, passes and early_stop do not apply to batches
            given = {**self._options(), "tol": Options.tol, "passes": Options.passes, "early_stop": None}
            options = Options(**given, classes=classes)
            costs = options.costs or [make_solver(self.solver).default_C]
            if options.bias is None and math.inf in costs:  # fit_intercept=True needs one
                options = replace(options, bias=1.0)
            learner = Learner(options)
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise UsageError(
                f"classes are {np.unique(classes).tolist()}, but the first call of partial_fit set "
                f"{self.classes_.tolist()}; leave them out, or fit a clone"
            )
        learner.learn(X, y, sample_weight)
        self._learner = learner
        self.coef_, self.intercept_ = self._take_weights(learner.point())
        assert learner.target is not None
        self.classes_ = learner.target.classes
        self.n_iter_, self.t_, self._calibration = learner.batches, learner.rows, {}
        self._header = learner.header("passes", 0.0)
        self.certificate_: Certificate = learner.certificate()
        return self

    def _model(self) -> Model:
        check_is_fitted(self)
        return self._model_of(self.intercept_, self.classes_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = self._takes_several()
        return tags
