"""The base class of sources that wrap another source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from streammargin.rows.blocks import Block
from streammargin.sources.base import Buffer, OfValues, Slices, Source


class View(Source):
    """Forwards everything to the wrapped source; subclasses override parts."""

    features: int
    name: str
    nnz: int
    rows: int
    dtype: np.dtype
    sparse: bool

    def __init__(self, source: Source) -> None:
        self.source = source
        self.name, self.rows, self.features, self.nnz = source.name, source.rows, source.features, source.nnz
        self.dtype, self.sparse = source.dtype, source.sparse

    def whole(self) -> Block | None:
        return self.source.whole()

    def bounds(self, max_bytes: int) -> np.ndarray:
        return self.source.bounds(max_bytes)

    def buffer_bytes(self, bounds: np.ndarray) -> int:
        return self.source.buffer_bytes(bounds)

    def held_bytes(self) -> int:
        return self.source.held_bytes()

    def allocate(self, bounds: np.ndarray) -> Buffer:
        return self.source.allocate(bounds)

    def announce(self, start: int, stop: int) -> None:
        self.source.announce(start, stop)

    def read(self, start: int, stop: int, buffer: Buffer) -> Block:
        return self.source.read(start, stop, buffer)

    def place(self, row: int) -> tuple[str, int]:
        return self.source.place(row)

    def label_place(self, row: int) -> tuple[str, int]:
        return self.source.label_place(row)

    def has_labels(self) -> bool:
        return self.source.has_labels()

    def labels(self, chunk: int = 1 << 16) -> Iterator[np.ndarray]:
        return self.source.labels(chunk)

    def outputs(self) -> list[str] | None:
        return self.source.outputs()

    def label_column(self) -> str | int | None:
        return self.source.label_column()

    def column_bytes(self) -> int:
        return self.source.column_bytes()

    def rereads_labels(self) -> str:
        return self.source.rereads_labels()

    def labels_as(self, made: OfValues) -> Slices:
        return self.source.labels_as(made)

    def sample_weight(self) -> Slices | None:
        return self.source.sample_weight()

    def numbers(self, name: str, what: tuple[str, str]) -> Slices:
        return self.source.numbers(name, what)

    def queries(self) -> Slices | None:
        return self.source.queries()

    def names_bytes(self) -> int:
        return self.source.names_bytes()

    def feature_names(self) -> np.ndarray | None:
        return self.source.feature_names()

    def schema(self) -> dict[str, Any] | None:
        return self.source.schema()

    def ranges(self) -> str | None:
        return self.source.ranges()

    def files(self) -> list[str]:
        return self.source.files()

    def check_unchanged(self) -> None:
        self.source.check_unchanged()

    def fingerprint(self) -> str:
        return self.source.fingerprint()

    def layout(self) -> dict[str, Any]:
        return self.source.layout()

    def close(self) -> None:
        self.source.close()
