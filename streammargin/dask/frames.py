"""The columns of all partitions of a collection of frames, for who learns a schema of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from operator import attrgetter
from typing import Any

import pyarrow as pa

from streammargin.dask.partitions import Partitions
from streammargin.dask.write import Part, looked, reader_of
from streammargin.tables.readers.base import Reader
from streammargin.tables.tally import Counting, Tally, tally, together


class Frames(Reader):
    """parts: those of the rows. each: the results of a function for some partitions, as of `Spool`."""

    def __init__(
        self, rows: Partitions, columns: list[str], parts: list[Part], each: Callable[..., list[Any]]
    ) -> None:  # fmt: skip
        self.rows, self.name, self.columns = rows, rows.name, columns
        self._parts, self._each = parts, each
        self._at: tuple[Reader, int]  # that of the latest batch, and the rows before it

    def tally(self, reader: Reader, of: Counting) -> dict[str, Tally]:
        """`tally` of all partitions, by the workers."""
        found = self._each(looked, self.rows, self._parts, partial(tally, of=of))
        return together(self.name, (each or {} for each in found))

    @cached_property
    def types(self) -> Mapping[str, pa.DataType]:  # type: ignore[override]
        """Those of the first partition with rows."""
        for part, data in zip(self._parts, self.rows.parts, strict=True):
            [found] = self._each(looked, self.rows._replace(parts=[data]), [part], attrgetter("types"))
            if found is not None:
                return found
        return {}

    def batches(self, columns: Sequence[str], words: frozenset[str]) -> Iterator[pa.RecordBatch]:
        """To name a row: of a partition at a time, in this process."""
        first = 0
        for reader in self.parts():
            self._at = reader, first
            for batch in reader.batches(columns, words):
                yield batch
                first += batch.num_rows

    def parts(self) -> Iterator[Reader]:
        for part, data in zip(self._parts, self.rows.parts, strict=True):
            [found] = self._each(lambda data, _: data, self.rows._replace(parts=[data]), [part])
            if (reader := reader_of(found, part)) is not None:
                yield reader

    def place(self, row: int) -> str:
        reader, first = self._at
        return reader.place(row - first)
