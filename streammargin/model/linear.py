"""A linear model: scores x . coef + intercept."""

from __future__ import annotations

from typing import Any

import numpy as np

from streammargin.answers.linear import LinearAnswer
from streammargin.model.base import Model


class LinearModel(Model):
    """Scores x . coef + intercept.

    coef_ : (1, d) for two classes (score > 0 is classes_[1]), else (k, d), float64
    intercept_ : (1,) or (k,) float64
    classes_ : (2,) or (k,) labels; (0,) of a regressor, whose score is its prediction
    header : dict of plain values: options, certificate, how training ended
    """

    def __init__(self, coef: np.ndarray, intercept: np.ndarray, classes: np.ndarray, header: dict[str, Any]) -> None:
        self.coef_ = np.ascontiguousarray(coef, np.float64)
        self.intercept_ = np.ascontiguousarray(intercept, np.float64)
        # no second copy of the weights: the answer is made of them when it is asked for
        self.classes_, self.header = np.asarray(classes), header

    @property
    def nbytes(self) -> int:
        """Bytes of the weights, twice: as they are shown, and as they score."""
        return 2 * (self.coef_.nbytes + self.intercept_.nbytes) + self.classes_.nbytes

    @property
    def answer(self) -> LinearAnswer:
        return LinearAnswer(np.column_stack([self.coef_, self.intercept_]), 1.0)
