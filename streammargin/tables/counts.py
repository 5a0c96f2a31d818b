"""How many rows a file says that it has, in its footer or header: no row is read."""

from __future__ import annotations

from contextlib import ExitStack

from pyarrow import dataset, parquet

from streammargin.tables.formats import ARROW, NPY, NPZ, PARQUET, format_of, is_parquet
from streammargin.tables.matrices.base import How
from streammargin.tables.matrices.open import open_matrix
from streammargin.tables.open import open_table
from streammargin.tables.readers.arrow import damage


def rows_told(path: str) -> int | None:
    """The rows of a table or of rows of numbers; None if that is known at the end only.

    Raises DataError, InputMissingError.
    """
    kind = format_of(path)
    if kind == PARQUET or is_parquet(path):
        count = 0
        for file in open_table(path).files():
            with damage(file):
                count += parquet.read_metadata(file).num_rows
        return count
    if kind == ARROW:
        with damage(path):
            return int(dataset.dataset(path, format="ipc").count_rows())
    if kind in (NPY, NPZ):
        with ExitStack() as stack:
            return open_matrix(path, How("", stack), kind).count
    return None
