"""The footer of a Parquet file, which pyarrow trusts: a damaged entry of it ends the process when Python asks for it.

A reader of rows looks at the same entries with care. It opens all columns of a row group before it reads the first
byte of one, so a file that gives no bytes is enough.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any, NoReturn


class _AskedError(Exception):
    """A byte was asked for, so that all entries are fine."""


class _Unread(io.FileIO):
    """A file of a known size, of which no byte is read."""

    def read(self, size: int | None = -1) -> NoReturn:
        raise _AskedError


def check_chunks(path: str, metadata: Any, groups: Iterable[int]) -> None:
    """Look at the entry of each column in these row groups. Raises errors of Arrow for a damaged one."""
    from pyarrow import parquet

    with _Unread(path) as unread, parquet.ParquetFile(unread, metadata=metadata, buffer_size=1) as file:
        for group in groups:
            try:
                next(file.iter_batches(1, row_groups=[group], use_threads=False), None)
            except _AskedError:
                continue
