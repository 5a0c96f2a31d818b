"""How many rows a file says that it has, in its footer or header: no row is read."""

from __future__ import annotations

from contextlib import ExitStack

from pyarrow import dataset

from streammargin.tables.formats import ARROW, NPY, NPZ, files_of, format_of, is_parquet
from streammargin.tables.matrices.base import How
from streammargin.tables.matrices.open import open_matrix
from streammargin.tables.open import open_table
from streammargin.tables.readers.arrow import damage


def rows_told(path: str) -> int | None:
    """The rows of a table or of rows of numbers; None if that is known at the end only.

    Raises DataError, InputMissingError.
    """
    if is_parquet(path):
        return sum(open_table(file).count or 0 for file in files_of(path))
    kind = format_of(path)
    if kind == ARROW:
        with damage(path):
            return int(dataset.dataset(path, format="ipc").count_rows())
    if kind in (NPY, NPZ):
        with ExitStack() as stack:
            return open_matrix(path, How("", stack), kind).count
    return None
