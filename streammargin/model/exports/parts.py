"""What every export asks of a model: weights, labels, how scores become probabilities, columns of a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from streammargin.errors import UsageError
from streammargin.model.calibration import CURVE_PROBABILITIES
from streammargin.model.rows import TABLE
from streammargin.model.scoring import Scorer
from streammargin.points.linear import LinearPoint
from streammargin.points.mapped import Mapped, taken_apart
from streammargin.sources.schema import Schema
from streammargin.transforms.chain import Chain


class LinearParts(NamedTuple):
    """A linear model, taken apart.

    coef (K, d), intercept (K,): of rows behind the steps and the map, each of which may be None (steps, behind).
    `classes`, `names`, `outputs`: as in `Model`. `link`: how scores become probabilities: "logistic" (each by itself),
    "softmax", the name of a `calibration` (as of `Model`), or None. `schema`: of the table of the training, or None.
    `features`: the number of columns of a row.
    """

    coef: np.ndarray
    intercept: np.ndarray
    classes: np.ndarray
    names: np.ndarray | None
    outputs: list[str] | None
    loss: str
    C: float
    link: str | None
    schema: Schema | None
    features: int
    behind: Mapped | None
    steps: Chain | None
    calibration: dict[str, np.ndarray]

    @property
    def numeric(self) -> bool:
        """Whether it predicts numbers."""
        return len(self.classes) == 0

    @property
    def changed(self) -> bool:
        """Whether rows are changed behind their columns, by a map or by steps, so that these must be as in training."""
        return self.behind is not None or self.steps is not None

    def coef_at(self, places: Sequence[int]) -> np.ndarray:
        """The weights (K, w) of these columns; zeros behind a map, whose weights are for other columns."""
        if self.behind is not None:
            return np.zeros((len(self.coef), len(places)))
        return self.coef[:, places.start : places.stop] if isinstance(places, range) else self.coef[:, list(places)]


def taken(model: Scorer, form: str, maps: bool = True, steps: bool = False, calibrated: str = "") -> LinearParts:
    """The parts of a model. UsageError, with the name of the form, if it has none.

    maps, steps: whether this form has maps, and steps on rows. calibrated: the calibrations that it has.
    """
    answer, header = model.answer, model.header
    if not isinstance(answer, (LinearPoint, Mapped)):
        kind = f"a machine of the kernel {header['kernel']}" if header.get("kernel") else "a model that is not linear"
        kind = "a completed matrix" if header.get("levels") else kind
        raise UsageError(f"{kind} cannot be exported as {form}; load the model with streammargin.load_model")
    if model.tasks is not None:
        raise UsageError(
            f"a model with weights for each of {len(model.tasks)} tasks cannot be exported as {form}; use predict"
        )
    if model.steps is not None and not steps:
        raise UsageError(
            f"a model with the steps {model.steps} cannot be exported as {form}; use streammargin.numpy_model"
        )
    method = "isotonic" if CURVE_PROBABILITIES in model.calibration else "sigmoid" if model.calibration else ""
    if method not in calibrated:
        raise UsageError(
            f"probabilities by `calibrate={method}` cannot be exported as {form}; use JSON or streammargin.numpy_model"
        )
    behind, coef, intercept = taken_apart(answer)
    if behind is not None and not maps:
        raise UsageError(f"a model with the map {behind.fitted.map} cannot be exported as {form}; use to_sklearn")
    C, loss, plain = float(header.get("C", 1.0)), str(header.get("loss", "hinge")), header.get(TABLE)
    joint = header.get("multiclass") == "joint" and len(model.classes_) > 2
    link = None if loss != "logistic" or math.isinf(C) else "softmax" if joint else "logistic"
    return LinearParts(
        coef, intercept, model.classes_, model.feature_names_in_, model.outputs, loss, C, method or link,
        None if plain is None else Schema.from_plain(plain), answer.features, behind, model.steps, model.calibration,
    )  # fmt: skip
