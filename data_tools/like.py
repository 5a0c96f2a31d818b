"""`--like MODEL`: the columns that rows must have for a model."""

from __future__ import annotations

from streammargin.tables.header import Like


def columns_of_model(path: str) -> Like:
    """The columns of the model in this file. Raises InputMissingError, DataError."""
    from streammargin.model.io import load_model
    from streammargin.sources.label_column import ATTRIBUTE

    model = load_model(path)
    return Like(path, model.answer.features, model.feature_names_in_, model.header.get(ATTRIBUTE))
