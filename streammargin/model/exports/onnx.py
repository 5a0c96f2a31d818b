"""ONNX, by way of the pipeline of scikit-learn: skl2onnx knows its steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from streammargin.errors import UsageError
from streammargin.model.base import Model
from streammargin.model.exports.parts import Parts, taken
from streammargin.model.exports.pipeline import pipeline_of
from streammargin.sources.schema import CATEGORY, NUMBER

NEEDED = "ONNX files are written by skl2onnx; install it with: pip install 'streammargin[onnx]'"
GAPS = ("",)  # how a missing category comes: text of ONNX has no other
DIGITS = 2.0**24 * 1e-4  # float32 has 24 bits; columns farther from 0 than so many standard deviations lose too many


def onnx_bytes(model: Model) -> bytes:
    """The file. Inputs are float32: `X` (n, d), or (n, 1) for each column of a table, text for categories.

    UsageError without skl2onnx, for columns that lose digits as float32, and for steps that ONNX does not have.
    """
    parts = taken(model, "ONNX", maps=False)
    _check_digits(parts, model)
    if parts.outputs is not None and not parts.numeric and parts.link is None:
        raise UsageError("several labels without probabilities have no form as ONNX; train with `loss=logistic`")
    try:
        from skl2onnx import to_onnx
    except ImportError as error:
        raise UsageError(f"{NEEDED} ({error})") from None
    inputs, made = _inputs(parts), pipeline_of(parts, GAPS, float32=True)
    options = {} if parts.numeric else {"zipmap": False} if parts.link else {"raw_scores": True}
    found = to_onnx(made, initial_types=inputs, options={id(made[-1]): options})
    return bytes(found.SerializeToString())


def _check_digits(parts: Parts, model: Model) -> None:
    """UsageError if a column of the training needs more digits than float32 has."""
    if parts.schema is not None and parts.schema.dtype == "float64":
        raise UsageError(
            "a column of the table has whole numbers above 2^24, and float32 of ONNX would lose digits; subtract a "
            "constant from it, or use to_sklearn"
        )
    if model.moments is None:
        return
    means, deviations = model.moments
    far = np.divide(np.abs(means), deviations, out=np.zeros_like(means, np.float64), where=deviations > 0.0)
    worst = int(np.argmax(far))
    if far[worst] > DIGITS:
        name = f"column {worst}" if parts.names is None else parts.names[worst]
        raise UsageError(
            f"the mean of {name} is {far[worst]:.3g} standard deviations from 0, so that ONNX would lose digits by "
            "float32; subtract a constant from it, or use to_sklearn"
        )


def _inputs(parts: Parts) -> list[tuple[str, Any]]:
    """The names and types of the inputs."""
    from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType

    if parts.schema is None:
        return [("X", FloatTensorType([None, parts.features]))]
    found = []
    for column in parts.schema.columns:
        if column.kind not in (NUMBER, CATEGORY):
            raise UsageError(f"the column {column.name} is a {column.kind}, which ONNX does not make numbers of; use "
                             "to_sklearn or numpy_model")  # fmt: skip
        kind = FloatTensorType if column.kind == NUMBER else Int64TensorType if column.numeric else StringTensorType
        found.append((column.name, kind([None, 1])))
    return found
