"""Write a model for another program."""

from __future__ import annotations

from collections.abc import Callable

from streammargin.files import replacing
from streammargin.model.base import Model
from streammargin.model.exports.as_json import json_text
from streammargin.model.exports.liblinear import liblinear_text
from streammargin.model.exports.onnx import onnx_bytes
from streammargin.model.weights import write_weights

MADE: dict[str, Callable[[Model], str | bytes]] = {
    "json": json_text, "onnx": onnx_bytes, "liblinear": liblinear_text,
}  # fmt: skip


def export(model: Model, form: str, path: str, force: bool = False) -> None:
    """Write a model as json, onnx, liblinear or csv. Raises UsageError for what this form does not have, OutputError,
    ReadWriteError.
    """
    if form == "csv":
        return write_weights(model, path, force)
    made = MADE[form](model)
    with replacing(path, force) as name, open(name, "wb") as file:
        file.write(made.encode() if isinstance(made, str) else made)
