"""Batches of a table on disk as Arrow: text is parsed once only, and a stream can be read again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from streammargin.files import writes
from streammargin.tables.readers.base import Reader
from streammargin.tables.types import kind_of, worded


class Staged(Reader):
    """Passes on the batches of another reader and writes them to a file; afterwards yields them from there.

    Each batch is an Arrow stream of its own, as text has no types: a column may hold numbers here and words there.
    """

    def __init__(self, reader: Reader, path: str) -> None:
        self.reader: Reader = reader
        self.path: str = path
        self.take_after(reader)
        self._again = False  # whether the latest batch is from the file
        self._columns: list[str] = []  # that are written, once all rows are
        self._text: set[str] = set()  # those of them that are text in every batch, or gaps

    def batches(self, columns: Sequence[str], words: frozenset[str]) -> Iterator[pa.RecordBatch]:
        if self.reader.once and not self._columns:  # all of it now, as whoever reads may stop early, or ask for more
            for _ in self._passed(self.reader.columns, frozenset()):
                pass
        if self.reader.once or (set(self._columns) >= set(columns) and self._text >= words & set(columns)):
            self._again = True
            for batch in self._written(columns):
                yield worded(batch, words)
            return
        yield from self._passed(columns, words)

    def _passed(self, columns: Sequence[str], words: frozenset[str]) -> Iterator[pa.RecordBatch]:
        """Batches of the other reader, which are written to the file."""
        self._again = False
        self._columns, self._text = [], set(columns)
        with writes(self.path), pa.OSFile(self.path, "wb") as file:
            for batch in self.reader.batches(columns, words):
                with pa.ipc.new_stream(file, batch.schema) as stream:
                    stream.write_batch(batch)
                self._text -= {field.name for field in batch.schema if kind_of(field.type) not in ("words", "")}
                yield batch
        self._columns = list(columns)

    def _written(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with pa.OSFile(self.path) as file:
            size = file.size()
            while file.tell() < size:
                for batch in pa.ipc.open_stream(file):
                    yield batch.select(list(columns))

    @property
    def numeric(self) -> frozenset[str]:
        return self.reader.numeric

    @property
    def categories(self) -> frozenset[str]:
        return self.reader.categories

    def place(self, row: int) -> str:
        if self._again and not self.typed:  # find the piece of text that has the row
            rows = 0
            for batch in self.reader.batches(self._columns, frozenset(self._columns)):
                rows += batch.num_rows
                if row < rows:
                    break
        return self.reader.place(row)

    def files(self) -> list[str]:
        return self.reader.files()

    def fingerprint(self) -> str:
        return self.reader.fingerprint()
