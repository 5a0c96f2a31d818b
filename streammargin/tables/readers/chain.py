"""Several tables one after the other, as the shards of one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from streammargin.errors import DataError
from streammargin.sources.names import listed
from streammargin.tables.readers.base import Reader
from streammargin.tables.unnamed import is_stored_index


class Chain(Reader):
    """The rows of several readers, which must have the same columns, in any order. Raises DataError.

    name: of all of them; "": made of theirs.
    """

    def __init__(self, readers: Sequence[Reader], name: str = "") -> None:
        first = readers[0]
        self.readers: Sequence[Reader] = readers
        self.named: bool = first.named
        self.typed: bool = all(reader.typed for reader in readers)
        self.types = first.types
        self.gaps: Sequence[str] = first.gaps
        self.name: str = name or f"{first.name} and {len(readers) - 1} more"
        self._at, self._rows = first, 0  # the reader of the latest batch, and the rows before its first
        lacking: set[str] = set()  # the index of some of the frames that were written
        for other in readers[1:]:
            if other.columns is first.columns:  # there may be very many
                continue
            apart = set(other.columns) ^ set(first.columns)
            lacking |= set(filter(is_stored_index, apart))
            apart -= lacking
            if apart or other.named != first.named:
                what = listed(sorted(apart)) if apart else "a header"
                raise DataError(f"{first.name} and {other.name} differ by {what}; give all tables the same columns")
        self.columns: list[str] = [name for name in first.columns if name not in lacking]

    def batches(self, columns: Sequence[str], words: frozenset[str]) -> Iterator[pa.RecordBatch]:
        self._rows = 0
        for reader in self.readers:
            self._at, rows = reader, 0
            for batch in reader.batches(columns, words):
                yield batch
                rows += batch.num_rows
            self._rows += rows

    @property
    def numeric(self) -> frozenset[str]:
        return frozenset.intersection(*(reader.numeric for reader in self.readers))

    @property
    def categories(self) -> frozenset[str]:
        return frozenset.union(*(reader.categories for reader in self.readers))

    def rename(self, called: Mapping[str, str]) -> None:
        for reader in self.readers:
            reader.rename(called)
        super().rename(called)

    def parts(self) -> Iterable[Reader]:
        return [part for reader in self.readers for part in reader.parts()]

    def place(self, row: int) -> str:
        return f"{self._at.place(row - self._rows)} of {self._at.name}"

    def files(self) -> list[str]:
        return [file for reader in self.readers for file in reader.files()]

    def fingerprint(self) -> str:
        return super().fingerprint() if all(reader.files() for reader in self.readers) else ""
