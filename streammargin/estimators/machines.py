"""The scikit-learn estimators of kernel machines."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from streammargin.errors import UsageError
from streammargin.estimators.base import HELD_OUT, Estimator, intercept, own
from streammargin.estimators.classifier import Classifier
from streammargin.estimators.regressors import Regressor
from streammargin.model.base import Model
from streammargin.options.table import Where
from streammargin.points.expansion import Expansion
from streammargin.points.gram import plain
from streammargin.result import TrainResult
from streammargin.rows.blocks import CSRBlock

# after streammargin.estimators.base, whose ImportError names the extra
from sklearn.utils.validation import check_is_fitted  # isort: skip


class KernelMachine(Estimator):
    """The base of both: the parameter `kernel`, and the expansion that was found."""

    own = (
        own("kernel", "Kernel | str", "rbf", "similarity of two rows: rbf, rbf:0.5, poly:3, sigmoid, linear, "
            "precomputed, or sums of them"),
        intercept("add a free constant"),
        HELD_OUT,
    )  # fmt: skip
    kernel: Any
    early_stop: int | None
    _learned: np.ndarray | None = None  # with rows held out, the numbers of the others, until the end of `fit`

    def _options(self) -> dict[str, Any]:
        if self.kernel is None:
            raise UsageError("`kernel` is None; give one, as kernel='rbf', or use an estimator of linear models")
        return {**super()._options(), "kernel": self.kernel}

    def _held_out(self, y: np.ndarray, sample_weight: Any, seed: int) -> np.ndarray:
        if self._of_numbers:
            raise UsageError(
                "`early_stop` or `calibrate` of an estimator does not split a precomputed matrix; leave it out, or "
                "call streammargin.train with `valid=DATA`"
            )
        out = super()._held_out(y, sample_weight, seed)
        self._learned = np.flatnonzero(~out)
        return out

    @property
    def _of_numbers(self) -> bool:
        """Whether the columns of X are its values against the rows of the training."""
        return str(self.kernel).partition(":")[0] == "precomputed"

    def _keep(self, result: TrainResult) -> None:
        """The attributes of the expansion."""
        answer = result.model.answer
        assert isinstance(answer, Expansion)
        self._fitted: Model = result.model
        self.support_: np.ndarray = answer.numbers
        if self._holds_out() and self._learned is not None:  # else it may be that of a fit that failed
            self.support_ = self._learned[answer.numbers]
        self._learned = None
        self.dual_coef_: np.ndarray = answer.coef
        self.intercept_: np.ndarray = answer.constants
        if (weights := answer.weights()) is not None:
            self.intercept_ = weights[1]
        rows = plain(answer.rows)
        self.support_vectors_: Any = sp.csr_matrix(rows) if isinstance(answer.rows, CSRBlock) else rows
        self.n_support_: np.ndarray = np.array([self.support_.size])

    def _model(self) -> Any:
        check_is_fitted(self)
        found = Model(self._fitted.answer, self._fitted.classes_, self._header, self._names())
        found.problem, found.steps, found.calibration = self._fitted.problem, self._fitted.steps, self._calibration
        return found

    @property
    def coef_(self) -> np.ndarray:
        """The weights (1, d), (k, d) or (outputs, d) of the columns, with the kernel `linear` alone."""
        answer = self._fitted.answer
        assert isinstance(answer, Expansion)
        weights = answer.weights()
        if weights is None:
            raise AttributeError(f"the kernel {self.kernel} has no coef_; kernel='linear' has")
        return weights[0]

    @property
    def sparsify(self) -> Any:
        """Not for kernel machines."""
        raise AttributeError("a kernel machine stores support rows, support_vectors_, and no weights")

    densify = sparsify

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._of_numbers
        return tags


class KernelMarginClassifier(KernelMachine, Classifier):
    """Kernel machine for classes, trained until a certificate proves the tolerance.

    Several classes are trained one-vs-rest; all share the columns of the Gram matrix. X may also be the path of a file,
    a list of paths (shards) or a Source. The constant is free.

    {parameters}
    {support}

    dual_coef_ : (1, m) or (k, m) float64, or (outputs, m) for y (n, outputs), the coefficients with their signs

    n_support_ : (k,) int, the support rows of each class; of files or y (n, outputs), of all together (1,)
    intercept_ : (1,) or (k,) float64, or (outputs,)

    coef_ : (1, d), (k, d) or (outputs, d) float64, of the kernel `linear` alone: scores are X @ coef_.T + intercept_
    classes_ : (k,) the labels
    {fitted}
    """

    place = Where.CLASSIFIER

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit on rows X (n, d) with labels y (n,), or (n, outputs) of 0 and 1, or on files that contain them too.

        sample_weight (n,) >= 0 multiplies C for its row; weight 0 drops the row. Warns (ConvergenceWarning) if the
        tolerance was not reached.
        """
        result, labels = self._trained(X, y, sample_weight)
        self._keep(result)
        if labels is not None and result.model.outputs is None:
            codes = np.searchsorted(self.classes_, labels)
            self.n_support_ = np.bincount(codes[self.support_], None, len(self.classes_))
        self._warn(result)
        return self


class KernelMarginRegressor(KernelMachine, Regressor):
    """Kernel machine for numbers, trained until a certificate proves the tolerance.

    {parameters}
    {support}

    dual_coef_ : (1, m) float64, or (outputs, m) for y (n, outputs), the coefficients with their signs

    n_support_ : (1,) int, the support rows
    intercept_ : (1,) float64, or (outputs,)

    coef_ : (1, d) or (outputs, d) float64, of the kernel `linear` alone: scores are X @ coef_.T + intercept_
    {fitted}
    """

    place = Where.REGRESSOR
    default_loss = "epsilon_insensitive:0.1"
