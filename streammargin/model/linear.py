"""A linear model: scores x . coef + intercept."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from streammargin.errors import UsageError
from streammargin.model.base import Model
from streammargin.points.base import Answer
from streammargin.points.linear import LinearPoint
from streammargin.wording import shown


class LinearModel(Model):
    """Scores x . coef + intercept.

    coef_ : (1, d) for two classes (score > 0 is classes_[1]), else (k, d), float64; of several outputs (outputs, d)
    intercept_ : (1,) or (k,) float64, or (outputs,)
    classes_ : (2,) or (k,) labels; (0,) for a regressor, whose scores are its predictions
    outputs, tasks : names of the columns of the labels (n, outputs) that it predicts, or of tasks, or None
    header : dict of plain values: options, certificate, how training ended
    feature_names_in_ : (d,) column names, or None; columns are matched by name (see Model)
    """

    def __init__(
        self, coef: np.ndarray, intercept: np.ndarray, classes: np.ndarray, header: dict[str, Any],
        names: np.ndarray | None = None,
    ) -> None:  # fmt: skip
        self.coef_: np.ndarray = np.ascontiguousarray(coef, np.float64)
        self.intercept_: np.ndarray = np.ascontiguousarray(intercept, np.float64)
        # `answer` builds the point when asked, so that no second copy of the weights is kept
        self._keep(classes, header, names)

    @property
    def nbytes(self) -> int:
        """Bytes of the weights, twice: coef_ and intercept_, and the answer's copy."""
        return 2 * (self.coef_.nbytes + self.intercept_.nbytes) + self.classes_.nbytes + self._names_bytes

    @property
    def answer(self) -> LinearPoint:
        return LinearPoint.of(self.coef_, self.intercept_)

    def top_features(self, n: int = 20) -> list[dict[str, Any]]:
        """The n weights of largest absolute value for each class, in descending order, without zeros.

        A list of {"label": ..., "features": [{"column": j, "name": ..., "weight": ...}]}, one for each row of coef_.
        The label is `classes_[1]` for two classes, None for a regressor, the name of an output or a task. The name is
        None without column names. Weights are for unscaled columns, so columns of small numbers have large weights.
        Raises UsageError for n < 1.
        """
        if not isinstance(n, numbers.Integral) or n < 1:
            raise UsageError(f"the number of features must be a whole number and at least 1, not {shown(n)}")
        labels: list[Any] = [None] if self.numeric else self.classes_.tolist()[-len(self.coef_) :]
        labels = self.outputs or self.tasks or labels
        found, names = [], self.feature_names_in_
        for label, weights in zip(labels, self.coef_, strict=True):
            order = np.argsort(-np.abs(weights), kind="stable")[: int(n)]
            features = [
                {"column": column, "name": None if names is None else names[column], "weight": float(weights[column])}
                for column in order[weights[order] != 0.0].tolist()
            ]
            found.append({"label": label, "features": features})
        return found


def model_of(answer: Answer, classes: np.ndarray, header: dict[str, Any], names: np.ndarray | None = None) -> Model:
    """The model of an answer: a LinearModel, with coef_ and intercept_, for a linear one."""
    if isinstance(answer, LinearPoint):
        coef, intercept = answer.arrays().values()
        return LinearModel(coef, intercept, classes, header, names)
    return Model(answer, classes, header, names)
