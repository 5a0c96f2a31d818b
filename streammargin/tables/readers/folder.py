"""Folders of Parquet, and files of such a folder: names like key=value between them and the files are columns."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import dataset

from streammargin.errors import DataError, InputMissingError
from streammargin.tables.readers.arrow import ALL, Batches, damage, of_groups, of_parquet, parquet_file, renamed
from streammargin.tables.readers.base import Reader
from streammargin.tables.readers.room import USUAL, Room
from streammargin.tables.unnamed import names_of


def of_folder(path: str, room: Room = USUAL, files: slice = ALL) -> Reader:
    """A reader of all Parquet files below a folder, by their paths in order; names like key=value are columns.

    files: those that are read.
    """
    with damage(path):
        found = dataset.dataset(path, format="parquet", partitioning="hive", exclude_invalid_files=False)
    try:
        fragments = sorted(found.get_fragments(), key=lambda one: one.path)[files]
    except UnicodeDecodeError as error:
        raise InputMissingError(
            f"{path} cannot be read, as the path of a file there is not UTF-8; rename it"
        ) from error
    if not fragments:
        raise DataError(f"{path} has no Parquet files; name a folder that has some")
    return _of_fragments(path if files == ALL else fragments[0].path, found.schema, fragments, room)


def keyed(paths: Sequence[str]) -> str:
    """The folder of these files and folders below which names are like key=value; "" if there are no such names."""
    folders = [path if os.path.isdir(path) else os.path.dirname(path) for path in map(os.path.abspath, paths)]
    base = os.path.commonpath(folders)
    while "=" in os.path.basename(base):
        base = os.path.dirname(base)
    return base if any("=" in os.path.relpath(folder, base) for folder in folders) else ""


def of_parts(paths: Sequence[str], base: str, room: Room = USUAL) -> Reader:
    """A reader of these files and folders of Parquet, in order; names like key=value below `base` are columns."""
    parts = [of_folder(path, room).files() if os.path.isdir(path) else [path] for path in paths]
    files = [os.path.abspath(file) for part in parts for file in part]
    name = f"{paths[0]} and {len(paths) - 1} more"
    with damage(name):
        found = dataset.dataset(files, format="parquet", partitioning="hive", partition_base_dir=base)
        by_path = {fragment.path: fragment for fragment in found.get_fragments()}
    return _of_fragments(name, found.schema, [by_path[file] for file in files], room)


def _of_fragments(name: str, schema: pa.Schema, fragments: Sequence[Any], room: Room) -> Reader:
    """A reader of these files of a dataset, in order. Raises DataError for one of another kind."""
    for fragment in fragments:
        with open(fragment.path, "rb") as file:
            if (start := file.read(4)) and start != b"PAR1":
                raise DataError(
                    f"{fragment.path} is no Parquet file, but lies in a folder of these; move it elsewhere, or "
                    "begin its name with _ or ."
                )

    def opened(columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        for fragment in fragments:
            keys = dataset.get_partition_keys(fragment.partition_expression)
            with damage(fragment.path), parquet_file(fragment.path) as file:
                stored = [name for name in columns if name not in keys]
                lacking = set(stored).difference(names_of(file.schema_arrow.names))
                if lacking:
                    raise DataError(f"{fragment.path} lacks the column {min(lacking)}, which other files here have")
                for batch in of_groups(file, stored, rows, room):
                    arrays = [
                        pa.array([keys[name]] * batch.num_rows) if name in keys else batch.column(name)
                        for name in columns
                    ]
                    yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    return _Files(name, renamed(schema), opened, room, [fragment.path for fragment in fragments])


class _Files(Batches):
    """The rows of several files."""

    def parts(self) -> Iterable[Reader]:
        return (of_parquet(path, self.room) for path in self.files())
