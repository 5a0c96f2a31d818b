"""`--like MODEL`: the columns that rows must have for a model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Like:
    """The columns that the model in `path` was trained on: their number, and their names if the model has them.

    label: the column of a table that its labels were from, by name or number; None where it is unknown.
    """

    path: str
    features: int
    names: np.ndarray | None
    label: str | int | None = None


def columns_of_model(path: str) -> Like:
    """The columns of the model in this file. Raises InputMissingError, DataError."""
    from streammargin.model.io import load_model
    from streammargin.sources.label_column import ATTRIBUTE

    model = load_model(path)
    return Like(path, model.answer.features, model.feature_names_in_, model.header.get(ATTRIBUTE))
