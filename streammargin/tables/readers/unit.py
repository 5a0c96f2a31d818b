"""A row group of Parquet, or a batch of Feather: its columns are decoded a few at a time, and given row by row.

Side by side they need the buffers of all columns at once. Decoded columns that memory has no room for go to a file.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa

from streammargin.files import temporary_folder
from streammargin.tables.readers.room import Room
from streammargin.tables.stage import writes

Read = Callable[[Sequence[str]], pa.Table]  # all rows of these columns, in this order


def parts(sizes: Mapping[str, int], most: int) -> Iterator[list[str]]:
    """Names side by side whose sizes are `most` together, or one name each."""
    part: list[str] = []
    total = 0
    for name, size in sizes.items():
        if part and total + size > most:
            yield part
            part, total = [], 0
        part.append(name)
        total += size
    if part:
        yield part


def by_rows(read: Read, sizes: Mapping[str, int], rows: int, room: Room) -> Iterator[pa.RecordBatch]:
    """The rows of a unit, `rows` at a time; sizes: the names of its columns, with the bytes of each."""
    held: list[pa.ChunkedArray] = []
    paths: list[str] = []
    with contextlib.ExitStack() as stack:
        folder = ""
        for names in parts(sizes, room.decoding):
            held += read(names).columns
            if sum(column.get_total_buffer_size() for column in held) > room.decoded:
                folder = folder or stack.enter_context(temporary_folder(room.beside))
                paths.append(_written(held, rows, os.path.join(folder, str(len(paths)))))
                held = []
        if not paths:
            yield from pa.Table.from_arrays(held, names=list(sizes)).to_batches(rows)
            return
        if held:
            paths.append(_written(held, rows, os.path.join(folder, str(len(paths)))))
        held = []
        streams = [pa.ipc.open_stream(stack.enter_context(pa.OSFile(path))) for path in paths]
        for found in zip(*streams, strict=True):
            columns = [column for batch in found for column in batch.columns]
            yield pa.RecordBatch.from_arrays(columns, names=list(sizes))


def _written(columns: Sequence[pa.ChunkedArray], rows: int, path: str) -> str:
    """Write these columns, `rows` at a time."""
    table = pa.Table.from_arrays(columns, names=[str(place) for place in range(len(columns))])
    table.validate(full=True)  # of a damaged file
    with writes(path), pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        for start in range(0, table.num_rows, rows):
            (batch,) = table.slice(start, rows).combine_chunks().to_batches()
            stream.write_batch(batch)
    return path
