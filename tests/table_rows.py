"""The rows of numbers that a training, and then a prediction, makes of a table in each of its forms."""

import contextlib
import json

import h5py
import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from pyarrow import csv, feather, parquet

from streammargin.sources.hdf5.file import SCHEMA
from streammargin.sources.schema import Schema
from streammargin.tables.apply import rows_of
from streammargin.tables.asked import Asked
from streammargin.tables.open import open_table
from streammargin.tables.spool import OfTable, again
from streammargin.tables.table import NamesBeside, matched, with_roles

FORMS = ("csv", "parquet", "feather", "pandas", "polars", "arrow", "stream", "shards")


def in_form(rows, form, folder, name="t", batch=7):
    """A frame of pandas, or a table of Arrow, in one of the forms of a table: a path, or an object."""
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_pandas(rows, preserve_index=False)
    frame, path = rows.to_pandas() if table is rows else rows, str(folder / f"{name}.{form}")
    if form == "csv":
        frame.to_csv(path, index=False)
    elif form == "arrow csv":  # each text in quotes
        csv.write_csv(table, path)
    elif form == "parquet":
        parquet.write_table(table, path, row_group_size=batch)
    elif form == "feather":
        feather.write_feather(table, path, chunksize=batch)
    elif form == "shards":
        path = [str(folder / f"{k}.csv") for k in range(2)]
        for each, part in zip(path, (frame.iloc[:11], frame.iloc[11:]), strict=True):
            part.to_csv(each, index=False)
    elif form == "polars":
        polars = pytest.importorskip("polars")
        return polars.from_arrow(table) if table is rows else polars.from_pandas(frame)
    else:
        return {"pandas": frame, "arrow": table, "stream": table.to_reader(batch)}[form]
    return path


def trained(data, folder, **asked):
    """(schema, rows X (n, d)) of a training on a table with the labels y."""
    path = str(folder / "rows.h5")
    with contextlib.ExitStack() as stack:
        reader = open_table(data)
        reader = again(stack, reader, str(folder)) if reader.once else reader
        OfTable(with_roles(reader, Asked(y="y", **asked))).write(path, True)
    with h5py.File(path) as file:
        schema, X = Schema.from_plain(json.loads(file.attrs[SCHEMA])), file["X"]
        if isinstance(X, h5py.Dataset):
            return schema, X[:].astype(float)
        parts = X["data"][:], X["indices"][:], X["indptr"][:]
        return schema, sp.csr_matrix(parts, shape=(len(parts[2]) - 1, schema.features)).toarray().astype(float)


def scored(data, schema, **asked):
    """The rows X (m, d) that a prediction makes of a table."""
    reader = open_table(data)
    found = list(rows_of(reader, matched(reader, schema), Asked(**asked), NamesBeside()))
    return np.vstack([
        sp.csr_matrix((each.data, each.indices, each.indptr), shape=(each.rows, schema.features)).toarray()
        if each.X is None else each.X for each in found
    ])  # fmt: skip
