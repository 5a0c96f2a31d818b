"""Several sources as one: shards of a data set, with consecutive row numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from streammargin.errors import DataError, UsageError
from streammargin.rows.blocks import Block, CSRBlock, DenseBlock
from streammargin.sources.base import Buffer, OfValues, Slices, Source
from streammargin.sources.columns import alike
from streammargin.sources.labels import lie_inside
from streammargin.sources.names import Columns, listed


def check_inside(option: str, value: object) -> None:
    """Raise UsageError if a value that is given for several files is not the name of a dataset inside each."""
    if value is not None and not lie_inside(value):
        raise UsageError(f"with several files, `{option}` must name a dataset inside each of them, not one for all")


@dataclass(frozen=True)
class Joined:
    """Columns of several sources as one; None: all its entries are 1."""

    columns: Sequence[Slices | None]
    starts: np.ndarray

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __getitem__(self, rows: slice) -> np.ndarray:
        start, stop, _ = rows.indices(len(self))
        parts = []
        for column, begin, end in zip(self.columns, self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True):
            low, high = max(start, begin), min(stop, end)
            if low < high:
                parts.append(np.ones(high - low) if column is None else column[low - begin : high - begin])
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _columns(outputs: list[str] | None) -> str:
    """The kind of a shard's labels, for messages."""
    return "one label a row" if outputs is None else f"labels with the columns {listed(outputs)}"


class ShardedSource(Source):
    """The rows of several sources in order; a block lies within one of them, unless it is all rows.

    sources, columns: as for `alike`. Raises DataError when columns or layouts disagree.
    """

    def __init__(self, sources: Sequence[Source], columns: Columns = None) -> None:
        sources = alike(sources, columns)
        first = sources[0]
        for other in sources[1:]:
            if other.sparse != first.sparse or other.dtype != first.dtype:
                kinds = [f"{'sparse' if s.sparse else 'dense'} {s.dtype}" for s in (other, first)]
                raise DataError(f"{other.name} is {kinds[0]} but {first.name} is {kinds[1]}; convert all to one kind")
        self.sources: list[Source] = sources
        self.name: str = f"{first.name} and {len(sources) - 1} more" if len(sources) > 1 else first.name
        self.starts: np.ndarray = np.cumsum([0] + [s.rows for s in sources])
        self.rows: int = int(self.starts[-1])
        self.nnz: int = sum(s.nnz for s in sources)
        self.features: int = first.features
        self.dtype: np.dtype = first.dtype
        self.sparse: bool = first.sparse
        self.mask: str | None = first.mask

    def bounds(self, max_bytes: int) -> np.ndarray:
        bounds = self._bounds(max_bytes)
        needed = 0 if self._whole(bounds) else self.buffer_bytes(bounds)
        # a buffer shared by shards with many rows and shards with many values is larger than that of each
        return bounds if needed <= max_bytes else self._bounds(max(1, max_bytes * max_bytes // needed))

    def _bounds(self, max_bytes: int) -> np.ndarray:
        parts = [s.bounds(max_bytes)[1:] + start for s, start in zip(self.sources, self.starts, strict=False)]
        return np.concatenate([[0], *parts]).astype(np.int64)

    def _shard(self, row: int) -> tuple[Source, int]:
        """The source that contains a row, and the row's number in it."""
        shard = int(np.searchsorted(self.starts, row, side="right")) - 1
        return self.sources[shard], row - int(self.starts[shard])

    def place(self, row: int) -> tuple[str, int]:
        source, inner = self._shard(row)
        return source.place(inner)

    def label_place(self, row: int) -> tuple[str, int]:
        source, inner = self._shard(row)
        return source.label_place(inner)

    def _pieces(self, bounds: np.ndarray) -> Iterator[tuple[Source, np.ndarray]]:
        """Each shard with the block bounds inside it, counted from its own row 0."""
        for source, low, high in zip(self.sources, self.starts, self.starts[1:], strict=False):
            inner = bounds[(bounds > low) & (bounds < high)] - low
            yield source, np.concatenate([[0], inner, [high - low]]).astype(np.int64)

    def _whole(self, bounds: np.ndarray) -> bool:
        return len(bounds) == 2 and len(self.sources) > 1

    def buffer_bytes(self, bounds: np.ndarray) -> int:
        sizes = [source.buffer_bytes(own) for source, own in self._pieces(bounds)]
        if self._whole(bounds):  # the shards are read and then concatenated
            return 2 * sum(sizes)
        # one buffer serves all shards; each read may need more besides (row ends, say)
        held = [source.allocate(own).nbytes for source, own in self._pieces(bounds)]
        beside = max(size - part for size, part in zip(sizes, held, strict=True))
        return self.allocate(bounds).nbytes + beside

    def held_bytes(self) -> int:
        return sum(source.held_bytes() for source in self.sources)

    def allocate(self, bounds: np.ndarray) -> Buffer:
        if self._whole(bounds):
            return Buffer(np.empty(0, self.dtype))
        return reduce(Buffer.larger, (source.allocate(own) for source, own in self._pieces(bounds)))

    def read(self, start: int, stop: int, buffer: Buffer) -> Block:
        source, low = self._shard(start)
        high = low + stop - start
        return source.read(low, high, buffer) if high <= source.rows else self._join(start, stop)

    def _join(self, start: int, stop: int) -> Block:
        blocks = []
        for source, first in zip(self.sources, self.starts.tolist(), strict=False):
            low, high = max(0, start - first), min(source.rows, stop - first)
            if low < high:
                bounds = np.unique(np.array([0, low, high, source.rows], np.int64))
                blocks.append(source.read(low, high, source.allocate(bounds)))
        if isinstance(blocks[0], DenseBlock):
            return DenseBlock(np.concatenate([b.X for b in blocks if isinstance(b, DenseBlock)]), 0.0)
        sparse = [b for b in blocks if isinstance(b, CSRBlock)]
        ends = np.cumsum([0] + [b.data.size for b in sparse])
        indptr = np.concatenate([[0]] + [b.indptr[1:] + end for b, end in zip(sparse, ends, strict=False)])
        return CSRBlock(
            np.concatenate([b.data for b in sparse]),
            np.concatenate([b.indices for b in sparse]),
            indptr.astype(np.int64),
            self.features,
            0.0,
        )

    def has_labels(self) -> bool:
        return all(shard.has_labels() for shard in self.sources)

    def labels(self, chunk: int = 1 << 16) -> Iterator[np.ndarray]:
        for source in self.sources:
            yield from source.labels(chunk)

    def outputs(self) -> list[str] | None:
        first = self.sources[0]
        names = first.outputs()
        for other in self.sources[1:]:
            if (found := other.outputs()) != names:
                raise DataError(
                    f"{other.name} has {_columns(found)} but {first.name} has {_columns(names)}; write the labels of "
                    "all shards alike"
                )
        return names

    def rereads_labels(self) -> str:
        kinds = {source.rereads_labels() for source in self.sources}
        return kinds.pop() if len(kinds) == 1 else ""

    def labels_as(self, made: OfValues) -> Slices:
        return Joined([source.labels_as(made) for source in self.sources], self.starts)

    def schema(self) -> dict[str, Any] | None:
        first, *others = (source.schema() for source in self.sources)
        return first if all(other == first for other in others) else None

    def label_column(self) -> str | int | None:
        first, *others = (source.label_column() for source in self.sources)
        return first if all(other == first for other in others) else None

    def column_bytes(self) -> int:
        return sum(source.column_bytes() for source in self.sources)

    def sample_weight(self) -> Slices | None:
        weights = [source.sample_weight() for source in self.sources]
        return None if all(w is None for w in weights) else Joined(weights, self.starts)

    def numbers(self, name: str, what: tuple[str, str]) -> Slices:
        check_inside(f"{what[1]}NAME", name)
        return Joined([source.numbers(name, what) for source in self.sources], self.starts)

    def task_column(self) -> Source | None:
        found = [source.task_column() for source in self.sources]
        return None if None in found else ShardedSource(list(filter(None, found)))

    def names_bytes(self) -> int:
        # names of the first shard, and of one other at a time, to compare
        first, *others = (source.names_bytes() for source in self.sources)
        return first + max(others, default=0)

    def feature_names(self) -> np.ndarray | None:
        return self.sources[0].feature_names()

    def files(self) -> list[str]:
        return [path for source in self.sources for path in source.files()]

    def check_unchanged(self) -> None:
        for source in self.sources:
            source.check_unchanged()

    def fingerprint(self) -> str:
        return hashlib.sha256("".join(s.fingerprint() for s in self.sources).encode()).hexdigest()[:16]

    def layout(self) -> dict[str, Any]:
        return {**self.sources[0].layout(), "shards": len(self.sources)}

    def close(self) -> None:
        for source in self.sources:
            source.close()
