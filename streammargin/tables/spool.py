"""Write a table once as rows of numbers that can be read at random: an HDF5 file, its spool.

A spool has the key of its table: the files, the options and this package. It is used again while these stay the same.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import h5py
import numpy as np

from streammargin.errors import OutputError
from streammargin.files import temporary_folder
from streammargin.sizes import format_size
from streammargin.sources.hdf5.file import open_file
from streammargin.sources.hdf5.write import writing
from streammargin.sources.label_column import LabelColumn
from streammargin.sources.view import View
from streammargin.tables.apply import Beside, rows_of
from streammargin.tables.labels import Labelling
from streammargin.tables.learn import learn
from streammargin.tables.readers.base import Reader
from streammargin.tables.readers.delimited import Delimited
from streammargin.tables.schema import Schema
from streammargin.tables.stage import Staged
from streammargin.tables.table import Table
from streammargin.wording import Message

LOG = logging.getLogger("streammargin")
KEY, SCHEMA, RANGES = "streammargin-table", "streammargin-schema", "streammargin-ranges"  # attributes of a spool


class SpooledSource(View):
    """The rows of a spool under the name of its table, with the schema that made them."""

    name: str

    def __init__(self, path: str, table: Table, schema: Schema) -> None:
        super().__init__(open_file(path, None, None, None))
        self.name, self._schema, self._table = table.name, schema, table
        with h5py.File(path, "r") as file:
            self._ranges = str(file.attrs.get(RANGES, ""))

    @property
    def table_schema(self) -> Schema:
        """The schema that made the rows."""
        return self._schema

    def schema(self) -> dict[str, Any] | None:
        return self._schema.to_plain()

    def ranges(self) -> str | None:
        return self._ranges

    def files(self) -> list[str]:
        return [*self._table.reader.files(), *self.source.files()]


@contextlib.contextmanager
def spooled(table: Table, folder: str | None, schema: Schema | None = None) -> Iterator[SpooledSource]:
    """The rows of a table as a source. folder: where the spool stays; None: in a folder that is removed afterwards.

    schema: that of another table, as held-out rows have it; else it is learnt. Raises DataError, OutputError,
    ReadWriteError.
    """
    if folder is None:
        with temporary_folder(os.path.join(_scratch(), "rows")) as own:
            path = os.path.join(own, "rows.h5")
            source = SpooledSource(path, table, write(table, path, schema))
            try:
                yield source
            finally:
                source.close()
        return
    suffix = ".rows.h5" if schema is None else ".valid.h5"  # two tables in different folders may have one name
    path = os.path.join(folder, os.path.basename(os.path.normpath(table.name)) + suffix)
    found = kept(table, path, schema)
    if found is None:
        found = write(table, path, schema, force=True)
    else:
        LOG.info(Message(f"{table.name}: rows are read from {path}, as nothing has changed since it was written"))
    source = SpooledSource(path, table, found)
    try:
        yield source
    finally:
        source.close()


def again(stack: contextlib.ExitStack, reader: Reader, folder: str | None) -> Reader:
    """A reader of the rows of one that can be read once only; the stack removes their copy."""
    near = os.path.join(_scratch() if folder is None else folder, "stream")
    path = os.path.join(stack.enter_context(temporary_folder(near)), "stream")
    return reader.copied(path) if isinstance(reader, Delimited) else Staged(reader, path)


def _scratch() -> str:
    import tempfile

    return tempfile.gettempdir()


def kept(table: Table, path: str, schema: Schema | None = None) -> Schema | None:
    """The schema of a spool that may be used again; None where there is none, or it is of other rows.

    schema: the one that it must have, where it is not learnt.

    Raises OutputError where another file has this name.
    """
    if not os.path.exists(path):
        return None
    try:
        with h5py.File(path, "r") as file:
            key, plain = file.attrs.get(KEY), file.attrs.get(SCHEMA)
            if isinstance(key, str) and isinstance(plain, str):
                found = Schema.from_plain(json.loads(plain))
                return found if key == table.key() != "" and schema in (None, found) else None
    except (OSError, ValueError):
        pass
    raise OutputError(f"{path} exists, and was not written from a table; rename it, or name a folder with `spool=DIR`")


def write(table: Table, path: str, schema: Schema | None, force: bool = False) -> Schema:
    """Write the rows of a table to a new file; returns its schema, learnt unless it is given."""
    with contextlib.ExitStack() as stack:
        if not table.reader.typed:
            stage = os.path.join(stack.enter_context(temporary_folder(path)), "stage")
            table = replace(table, reader=Staged(table.reader, stage))
        return _write(table, path, schema, force)


def _write(table: Table, path: str, schema: Schema | None, force: bool) -> Schema:
    schema, rows, ranges = learn(table, schema)
    labelling = Labelling(table.reader)
    label = LabelColumn(table.label, spelt=not table.reader.typed) if table.label else None
    size = format_size(rows * schema.row_bytes)
    LOG.info(Message(f"{table.name}: its {rows} rows are written to {path}, {size} at most"))
    with writing(path, force, np.dtype(schema.dtype), schema.sparse, schema.features, schema.names(), label) as writer:
        for part in rows_of(table.reader, schema, table.asked, Beside(table.label, table.weight)):
            batch = part.batch
            if part.labels is not None:
                batch = batch._replace(labels=labelling.values(part.labels, part.first))
            if part.weights is not None:
                batch = batch._replace(weights=labelling.weights(part.weights, part.first))
            writer.append(batch)
        attributes = writer.file.attrs
        attributes[KEY], attributes[SCHEMA], attributes[RANGES] = table.key(), json.dumps(schema.to_plain()), ranges
    return schema
