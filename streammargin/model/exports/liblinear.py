"""LIBLINEAR's text model."""

from __future__ import annotations

from typing import Any

import numpy as np

from streammargin.errors import UsageError
from streammargin.matching import number_in
from streammargin.model.exports.parts import taken
from streammargin.model.scoring import Scorer
from streammargin.wording import shown

FORM = "LIBLINEAR's text model"
# liblinear's names for solvers of the same model
_TYPES = {"hinge": "L2R_L1LOSS_SVC_DUAL", "squared_hinge": "L2R_L2LOSS_SVC_DUAL", "logistic": "L2R_LR_DUAL"}
_JOINT_TYPE = "MCSVM_CS"  # one W for all classes; liblinear gives such a model no probabilities, as it has no softmax


def liblinear_text(model: Scorer) -> str:
    """The file. UsageError for labels that are no integers, and for a model that LIBLINEAR does not have."""
    parts = taken(model, FORM, maps=False)
    if parts.outputs is not None:
        raise UsageError(
            "liblinear's models have one label a row; this one has several outputs; train one of them alone"
        )
    if parts.loss not in _TYPES:
        raise UsageError(f"liblinear has no loss {parts.loss}; it has {', '.join(_TYPES)}")
    labels = _whole(parts.classes.tolist())
    if len(parts.coef) == 1:  # liblinear's first label is the one of positive scores
        labels = labels[::-1]
    joint = model.header.get("multiclass") == "joint" and len(labels) > 2
    biased = bool(np.any(parts.intercept != 0.0))
    rows = [*parts.coef.T, *[parts.intercept] * biased]
    return (
        f"solver_type {_JOINT_TYPE if joint else _TYPES[parts.loss]}\nnr_class {len(labels)}\n"
        f"label {' '.join(map(str, labels))}\nnr_feature {parts.features}\nbias {1 if biased else -1}\nw\n"
        + "".join(" ".join(f"{value:.17g}" for value in row) + " \n" for row in rows)
    )


def _whole(classes: list[Any]) -> list[int]:
    """Classes as different integers. Raises UsageError if they are not."""
    found: dict[int, Any] = {}
    for label in classes:
        number = number_in(label) if isinstance(label, str) else label
        if number is None or number != int(number):
            raise UsageError("liblinear's labels are integers; this model's are not, so it cannot be exported")
        if found.setdefault(int(number), label) != label:
            raise UsageError(
                f"liblinear's labels are integers, and the classes {shown(found[int(number)])} and {shown(label)} are "
                "one of them, so this model cannot be exported"
            )
    return list(found)
