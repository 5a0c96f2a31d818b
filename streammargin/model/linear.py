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

CONSTANT_IN_COLUMNS = (
    "the constant is penalised and `scale=std` keeps means of sparse rows: levels and noise may carry part of it "
    "and rank high; `bias=free` ends this"
)


class LinearModel(Model):
    """Scores x . coef + intercept.

    coef_ : (1, d) for two classes (score > 0 is classes_[1]), else (k, d), float64; of several outputs (outputs, d)
    intercept_ : (1,) or (k,) float64, or (outputs,)
    classes_ : (2,) or (k,) labels; (0,) for a regressor, whose scores are its predictions

    outputs, tasks : names of the columns of the labels (n, outputs) that it predicts, or of tasks, or None

    header : dict of plain values: options, certificate, how training ended
    feature_names_in_ : (d,) column names, or None; columns are matched by name (see Model)
    moments : means and standard deviations (d,) of the columns in the training rows, or None
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
        known = self.classes_.nbytes + sum(array.nbytes for array in self.moments or ())
        return 2 * (self.coef_.nbytes + self.intercept_.nbytes) + known + self._names_bytes

    @property
    def answer(self) -> LinearPoint:
        return LinearPoint.of(self.coef_, self.intercept_)

    @property
    def labels_of_weights(self) -> list[Any]:
        """What each row of coef_ is for: `classes_[1]`, a class, an output or a task; None for a regressor."""
        labels: list[Any] = [None] if self.numeric else self.classes_.tolist()[-len(self.coef_) :]
        return self.outputs or self.tasks or labels

    @property
    def remark(self) -> str:
        """Why some columns rank too high, with options in backquotes; "" for nothing."""
        return CONSTANT_IN_COLUMNS if (self.header.get("problem") or {}).get("constant_in_columns") is True else ""

    def scaled_weights(self, line: int) -> np.ndarray | None:
        """A row of coef_ times the standard deviations of the columns, (d,): effects on the score; None if unknown."""
        return None if self.moments is None else self.coef_[line] * self.moments[1]

    def top_features(self, n: int = 20, feature_names: Any = None) -> list[dict[str, Any]]:
        """The n columns of largest effect for each class, in descending order, without weights of 0.

        The effect is |weight| times the standard deviation of the column in the training rows; |weight| alone where
        `moments` is None. A list of {"label": ..., "features": [{"column": j, "name": ..., "weight": ...,
        "scaled_weight": ...}]}, one for each row of coef_. The label is `classes_[1]` for two classes, None for a
        regressor, the name of an output or a task. The name is None without column names. `weight` is for unscaled
        columns, and `scaled_weight` is it times the standard deviation, or None. `feature_names` (d,): names for a
        model without them, as `get_feature_names_out` of a vectorizer. Raises UsageError for n < 1, or another number
        of names. `remark` says if some rank too high.
        """
        count, found, named = _count(n), [], self._names_or(feature_names)
        for line, (label, weights) in enumerate(zip(self.labels_of_weights, self.coef_, strict=True)):
            scaled = self.scaled_weights(line)
            order = _largest(np.abs(weights if scaled is None else scaled), weights != 0.0, count)
            features = [
                {**self._column(column, named), "weight": float(weights[column]),
                 "scaled_weight": None if scaled is None else float(scaled[column])}
                for column in order
            ]  # fmt: skip
            found.append({"label": label, "features": features})
        return found

    def top_columns(self, n: int = 20, feature_names: Any = None) -> list[dict[str, Any]]:
        """The n columns of largest effect on all scores together, as {"column": j, "name": ..., "effect": ...}.

        The effect is the root of the sum of squares of the column's weights, times its standard deviation. The names,
        and what is raised, are as in `top_features`.
        """
        named = self._names_or(feature_names)
        effect = np.zeros(self.coef_.shape[1])
        for weights in self.coef_:
            effect += weights**2
        effect = np.sqrt(effect) * (1.0 if self.moments is None else self.moments[1])
        return [
            {**self._column(column, named), "effect": float(effect[column])}
            for column in _largest(effect, effect > 0.0, _count(n))
        ]

    def _names_or(self, given: Any) -> Any:
        """The names that are given, or those of the model."""
        if given is None:
            return self.feature_names_in_
        if len(given) != self.coef_.shape[1]:
            raise UsageError(f"the model has {self.coef_.shape[1]} columns; feature_names has {len(given)} names")
        return given

    def _column(self, column: int, names: Any) -> dict[str, Any]:
        schema = self.schema
        beside = None if names is not None or schema is None else schema.name_at(int(column))  # columns of words
        return {"column": column, "name": beside if names is None else names[column]}


def _count(n: object) -> int:
    if not isinstance(n, numbers.Integral) or n < 1:
        raise UsageError(f"the number of features must be a whole number and at least 1, not {shown(n)}")
    return int(n)


def _largest(effect: np.ndarray, known: np.ndarray, count: int) -> list[int]:
    """The columns of largest effect, of equal ones the first, without those that are not known."""
    columns = np.flatnonzero(known)
    if columns.size > count:  # all that may be among them: sorting millions would take seconds
        least = np.partition(effect[columns], columns.size - count)[columns.size - count]
        columns = columns[effect[columns] >= least]
    return list(columns[np.argsort(-effect[columns], kind="stable")][:count].tolist())


def model_of(answer: Answer, classes: np.ndarray, header: dict[str, Any], names: np.ndarray | None = None) -> Model:
    """The model of an answer: a LinearModel, with coef_ and intercept_, for a linear one."""
    if isinstance(answer, LinearPoint):
        coef, intercept = answer.arrays().values()
        return LinearModel(coef, intercept, classes, header, names)
    return Model(answer, classes, header, names)
