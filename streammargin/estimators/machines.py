"""The scikit-learn estimators of kernel machines."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

import numpy as np
import scipy.sparse as sp

from streammargin.estimators.base import Estimator, from_files
from streammargin.model.base import Model
from streammargin.options.table import Where
from streammargin.points.expansion import Expansion
from streammargin.points.gram import plain
from streammargin.result import TrainResult
from streammargin.rows.blocks import CSRBlock
from streammargin.wording import shown

# after streammargin.estimators.base, whose ImportError names the extra
from sklearn.base import ClassifierMixin, RegressorMixin  # isort: skip
from sklearn.utils.multiclass import check_classification_targets  # isort: skip
from sklearn.utils.validation import check_is_fitted, column_or_1d  # isort: skip

CLASSIFIER = TypeVar("CLASSIFIER", bound="KernelMarginClassifier")
REGRESSOR = TypeVar("REGRESSOR", bound="KernelMarginRegressor")


class KernelMachine(Estimator):
    """What both have in common: the parameter `kernel`, and the expansion that was found."""

    own: ClassVar[dict[str, tuple[object, str]]] = {"kernel": ("rbf", "Kernel | str")}
    kernel: Any
    support_: np.ndarray
    support_vectors_: Any
    dual_coef_: np.ndarray
    intercept_: np.ndarray
    n_iter_: int
    _fitted: Model

    def _options(self) -> dict[str, Any]:
        return {**super()._options(), "kernel": self.kernel}

    def _keep(self, result: TrainResult) -> None:
        """The attributes of the expansion."""
        answer = result.model.answer
        assert isinstance(answer, Expansion)
        self._fitted = result.model
        self.support_, self.dual_coef_, self.intercept_ = answer.numbers, answer.coef, answer.constants
        rows = plain(answer.rows)
        self.support_vectors_ = sp.csr_matrix(rows) if isinstance(answer.rows, CSRBlock) else rows

    def _model(self) -> Any:
        check_is_fitted(self)
        found = Model(self._fitted.answer, self._fitted.classes_, self._header, self._names())
        found.problem = self._fitted.problem
        return found

    @property
    def sparsify(self) -> Any:
        """Not of kernel machines."""
        raise AttributeError("a kernel machine has no coef_; its support rows are support_vectors_")

    @property
    def densify(self) -> Any:
        """Not of kernel machines."""
        raise AttributeError("a kernel machine has no coef_; its support rows are support_vectors_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = str(self.kernel).partition(":")[0] == "precomputed"
        return tags


class KernelMarginClassifier(ClassifierMixin, KernelMachine):
    """Kernel machine for classes, trained until a certificate proves the tolerance.

    Several classes are trained one-vs-rest; all share the columns of the Gram matrix. X may also be the path of a file,
    a list of paths (shards) or a Source. The constant is free.

    Parameters
    ----------
    {options}

    kernel : str or streammargin.kernels.Kernel, default "rbf"
        Similarity of two rows: rbf, rbf:0.5, poly:3, sigmoid, linear, precomputed, or sums of them.
    fit_intercept : bool, default True
        Add a free constant.
    random_state : int, RandomState or None, default 0
        Seed of all random draws.
    n_jobs : int, default None
        Threads that visit rows at the same time, -1 for all cores.
    verbose : bool, default False
        show the progress on stderr

    Attributes
    ----------
    support_ : (m,) int64, the numbers of the support rows in the training, ascending
    support_vectors_ : (m, d), an array or a SciPy matrix, scaled if `scale` is given
    dual_coef_ : (1, m) or (k, m) float64, the coefficients with their signs
    n_support_ : (k,) int, the support rows of each class; of files, of all classes together (1,)
    intercept_ : (1,) or (k,) float64
    classes_ : (k,) the labels
    n_iter_ : int, passes over the rows
    n_features_in_ : int, and feature_names_in_ (d,) where X had names
    certificate_ : exact figures, see `streammargin.result.Certificate`
    """

    classes_: np.ndarray
    n_support_: np.ndarray

    place = Where.CLASSIFIER

    def fit(self: CLASSIFIER, X: Any, y: Any = None, sample_weight: Any = None) -> CLASSIFIER:
        """Fit on rows X (n, d) with labels y (n,), or on files that contain the labels too.

        sample_weight (n,) >= 0 multiplies C for its row; weight 0 drops the row. Warns (ConvergenceWarning) when the
        tolerance was not reached.
        """
        codes = None
        if from_files(X):
            result = self._train(X, y, sample_weight)
            self._take_names(result.model.feature_names_in_)
        else:
            X, labels = self._rows(X, y=y, multi_output=False)
            labels = column_or_1d(labels, warn=True)
            check_classification_targets(labels)
            known, codes = np.unique(labels, return_inverse=True)
            if len(known) < 2:
                name = type(self).__name__
                raise ValueError(f"{name} needs two classes; y has one class only, {shown(labels[0])}")
            result = self._train((X, labels), None, self._weights(sample_weight, X))
        self._keep(result)
        self.classes_ = result.model.classes_
        size = len(self.classes_)
        self.n_support_ = (
            np.array([self.support_.size]) if codes is None else np.bincount(codes[self.support_], None, size)
        )
        self._warn(result)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores (n,), or (n, k) for several classes, float64."""
        model = self._scorer(X)
        found: np.ndarray = model.decision_function(self._rows(X, reset=False))
        return found

    def predict(self, X: Any) -> np.ndarray:
        """Labels (n,) of the rows of X."""
        model = self._scorer(X)
        found: np.ndarray = model.predict(self._rows(X, reset=False))
        return found

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy on rows X with labels y; with files, y may name the dataset of labels."""
        if from_files(X):
            return self._score_files("accuracy", X, y, sample_weight)
        return super().score(X, y, sample_weight)

    def _takes_several(self) -> bool:
        return False


class KernelMarginRegressor(RegressorMixin, KernelMachine):
    """Kernel machine for numbers, trained until a certificate proves the tolerance.

    Parameters
    ----------
    {options}

    kernel : str or streammargin.kernels.Kernel, default "rbf"
        Similarity of two rows: rbf, rbf:0.5, poly:3, sigmoid, linear, precomputed, or sums of them.
    fit_intercept : bool, default True
        Add a free constant.
    random_state : int, RandomState or None, default 0
        Seed of all random draws.
    n_jobs : int, default None
        Threads that visit rows at the same time, -1 for all cores.
    verbose : bool, default False
        show the progress on stderr

    Attributes
    ----------
    support_ : (m,) int64, the numbers of the support rows in the training, ascending
    support_vectors_ : (m, d), an array or a SciPy matrix, scaled if `scale` is given
    dual_coef_ : (1, m) float64, the coefficients with their signs
    n_support_ : (1,) int, the support rows
    intercept_ : (1,) float64
    n_iter_ : int, passes over the rows
    n_features_in_ : int, and feature_names_in_ (d,) where X had names
    certificate_ : exact figures, see `streammargin.result.Certificate`
    """

    n_support_: np.ndarray
    of_numbers = True

    place = Where.REGRESSOR

    def fit(self: REGRESSOR, X: Any, y: Any = None, sample_weight: Any = None) -> REGRESSOR:
        """Fit targets y (n,) on rows X (n, d), or on files with both; the loss is epsilon_insensitive:0.1 by default.

        sample_weight (n,) >= 0 multiplies C for its row; weight 0 drops the row. Warns (ConvergenceWarning) when the
        tolerance was not reached.
        """
        if from_files(X):
            result = self._train(X, y, sample_weight)
            self._take_names(result.model.feature_names_in_)
        else:
            X, numbers = self._rows(X, y=y, y_numeric=True, multi_output=False)
            result = self._train((X, numbers), None, self._weights(sample_weight, X))
        self._keep(result)
        self.n_support_ = np.array([self.support_.size])
        self._warn(result)
        return self

    def _options(self) -> dict[str, Any]:
        options = super()._options()
        return {**options, "loss": "epsilon_insensitive:0.1" if self.loss is None else self.loss}

    def predict(self, X: Any) -> np.ndarray:
        """Predictions (n,) float64 for the rows of X."""
        model = self._scorer(X)
        found: np.ndarray = model.predict(self._rows(X, reset=False))
        return found

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """R^2 on rows X with targets y, which must not all be equal; with files, y may name the dataset of targets."""
        if from_files(X):
            return self._score_files("r2", X, y, sample_weight)
        return super().score(X, y, sample_weight)

    def _takes_several(self) -> bool:
        return False


__all__ = ["KernelMarginClassifier", "KernelMarginRegressor"]
