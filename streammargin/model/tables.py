"""Rows of a table, in order, for a model: scored while they are read, and never kept."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from streammargin.errors import DataError
from streammargin.rows.blocks import Block, CSRBlock, DenseBlock
from streammargin.sources.base import Source
from streammargin.sources.batch import Batch
from streammargin.tables.asked import Asked
from streammargin.tables.open import is_table, open_table
from streammargin.tables.schema import Column, Schema
from streammargin.tables.table import matched

TABLE = "table"  # the entry of a model's header that has its schema


def is_rows(data: Any, schema: Schema | None) -> bool:
    """Whether the data are read as a table: files are, and objects where the model has a schema."""
    return is_table(data) and (schema is not None or isinstance(data, (str, os.PathLike)))


class TableRows:
    """The rows of a table as the schema of a model makes them; read once, in order.

    label: the column of the labels, "" for none; id: that of the names of rows. Raises DataError where the table lacks
    columns.
    """

    features: int
    name: str
    asked: Asked
    id: str
    label: str
    schema: Schema

    def __init__(self, data: Any, schema: Schema, asked: Asked, label: str = "", id: str = "") -> None:
        self.reader: Any = open_table(data, label or schema.label or None)
        self.name, self.features = self.reader.name, schema.features
        self.schema, self.asked, self.label, self.id = matched(self.reader, schema, label, id), asked, label, id

    def place(self, row: int) -> tuple[str, int]:
        """(name of the table, row), as of a source."""
        return self.name, row

    label_place = place

    def blocks(self) -> Iterator[tuple[int, Block, np.ndarray | None, np.ndarray | None]]:
        """(first row, block, labels, names of rows) of some thousand rows at a time."""
        from streammargin.tables.apply import Beside, rows_of
        from streammargin.tables.labels import Labelling

        labelling, rows = Labelling(self.reader), False
        for part in rows_of(self.reader, self.schema, self.asked, Beside(self.label, id=self.id)):
            labels = None if part.labels is None else labelling.values(part.labels, part.first)
            ids = None if part.ids is None else part.ids.to_numpy(zero_copy_only=False)
            rows = True
            yield part.first, _block(part.batch, self.schema), labels, ids
        if not rows:
            raise DataError(f"{self.name} has no rows; check the input")


def _block(batch: Batch, schema: Schema) -> Block:
    """Rows in the type that those of the training had."""
    dtype = np.dtype(schema.dtype)
    if batch.X is not None:
        return DenseBlock(batch.X.astype(dtype), 0.0)
    assert batch.data is not None and batch.indices is not None and batch.indptr is not None
    return CSRBlock(batch.data.astype(dtype), batch.indices.astype(np.uint32), batch.indptr, schema.features, 0.0)


def plain_schema(names: np.ndarray | None, features: int, label: object) -> Schema:
    """The schema of a model of numbers that has none: its columns by name, or by position.

    label: the name of the column that its labels were from, if it has one.
    """
    named = names is not None
    texts = [str(name) for name in names] if names is not None else [str(place) for place in range(features)]
    known = label if named and isinstance(label, str) else ""
    return Schema(tuple(Column(name) for name in texts), known, dtype="float64", named=named)


Ordered = Source | TableRows
