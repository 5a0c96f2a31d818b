"""Convert a table: the rows that a training on it would read, for good."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from typing import Any

import numpy as np

from streammargin.options.table import Options
from streammargin.sources.schema import plain_schema
from streammargin.tables.header import Expected
from streammargin.tables.open import open_table
from streammargin.tables.spool import again
from streammargin.tables.spoolable import OfTable
from streammargin.tables.table import as_trained, with_roles
from streammargin.training.tables import asked_of

UNLABELLED = ", or use `label=False` if there is none"


def convert_table(
    input: str, output: str, kind: str, given: dict[str, Any], options: Options, dtype: str | None, force: bool
) -> tuple[int, int, int]:
    """Write the rows of a table; given: the checked options of `convert`. Returns (rows, columns, stored values)."""
    schema = before = None
    if given["like"] is not None:
        schema, before = _columns_of_model(given["like"])
    known = frozenset() if schema is None else schema.known
    expected = Expected(given["y"], given["label"], known, given["separator"])
    asked = replace(asked_of(Options.of({**vars(options), "y": given["y"]})), unknown=given["unknown"])
    with contextlib.ExitStack() as stack:
        reader = again(stack, open_table(input, expected, kind), os.path.dirname(os.path.abspath(output)))
        if schema is None:
            table = with_roles(reader, asked, given["sample_weight"], given["label"], UNLABELLED)
        else:
            table, schema = as_trained(reader, schema, asked, given["label"], given["like"], before)
        kept = None if dtype is None else np.dtype(dtype)
        return OfTable(table, schema, kept, told=False).write(output, force).sizes


def _columns_of_model(path: str) -> tuple[Any, Any]:
    """(schema, column of the labels) of the model in this file. Raises InputMissingError, DataError."""
    from streammargin.model.io import load_model
    from streammargin.sources.label_column import ATTRIBUTE

    model = load_model(path)
    label = model.header.get(ATTRIBUTE)
    return model.schema or plain_schema(model.feature_names_in_, model.answer.features, label), label
