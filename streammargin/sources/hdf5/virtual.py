"""Read virtual datasets from their sources directly: HDF5 would decompress the sources' chunks unchecked."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import h5py
import numpy as np

from streammargin.errors import DataError
from streammargin.sources.hdf5.storage import opened, source_of

_OPEN = 16  # most sources open at a time
_PIECE_BYTES = 1 << 18  # least bytes of a source read at a time

Span = tuple[int, int]  # from, to


class _Part(NamedTuple):
    """A block of the virtual dataset, and the block of its source that fills it."""

    rows: Span
    columns: Span
    path: str
    name: str
    first: tuple[int, int]  # row and column in the source


class _Source(NamedTuple):
    """An open source: its reader, and a buffer for a whole number of its chunks."""

    file: h5py.File
    reader: Any
    shape: tuple[int, ...]
    buffer: np.ndarray

    def close(self) -> None:
        self.reader.close()
        self.file.close()


class Parts:
    """The blocks that fill a 1- or 2-dimensional virtual dataset; storage_files has checked their sources.

    open_reader: opens the RowReader of a source. Raises DataError for a source that does not fill a rectangular block,
    or fills values that another source fills too.
    """

    def __init__(self, dataset: h5py.Dataset, name: str, open_reader: Callable[..., Any]) -> None:
        self._open_reader = open_reader
        self._width = (*dataset.shape, 1)[1]
        self._open: dict[tuple[str, str], _Source] = {}
        self._most = 0  # most bytes that one source needs
        with contextlib.ExitStack() as stack:
            stack.callback(self.close)
            self._parts = [self._part(one, dataset, name) for one in dataset.virtual_sources()]
            self._check_apart(name)
            stack.pop_all()
        self.held_bytes: int = self._most * min(_OPEN, len({(part.path, part.name) for part in self._parts}))

    def _check_apart(self, name: str) -> None:
        spans = np.array([[*part.rows, *part.columns] for part in self._parts]).reshape(-1, 4).T
        self._starts, self._stops, left, right = spans  # of rows and columns
        for k in range(len(self._parts)):
            here = (self._starts < self._stops[k]) & (self._starts[k] < self._stops)
            if np.count_nonzero(here & (left < right[k]) & (left[k] < right)) > 1:
                raise DataError(f"{name} is virtual, and two of its sources fill the same values; correct it")

    def fill(self, start: int, stop: int, target: np.ndarray) -> None:
        """Read these entries into target (stop - start,) or (stop - start, d), of the stored dtype."""
        out = target.reshape(stop - start, self._width)
        for k in np.flatnonzero((self._starts < stop) & (self._stops > start)):
            part = self._parts[k]
            source = self._source(part.path, part.name)
            width = part.columns[1] - part.columns[0]
            shift = part.first[0] - part.rows[0]
            low, end = max(start, part.rows[0]) + shift, min(stop, part.rows[1]) + shift
            while low < end:
                high = min(end, low - low % len(source.buffer) + len(source.buffer))
                source.reader.read(low, high, source.buffer)
                values = source.buffer[: high - low].reshape(high - low, -1)
                place = low - shift - start
                into = out[place : place + high - low, part.columns[0] : part.columns[1]]
                into[...] = values[:, part.first[1] : part.first[1] + width]
                low = high

    def _part(self, one: Any, dataset: h5py.Dataset, name: str) -> _Part:
        where, inside = source_of(one, dataset)
        own = _block(one.vspace, dataset.shape)
        source = None if where is None else _block(one.src_space, self._source(where, inside).shape)
        if where is None or own is None or source is None or _sizes(own) != _sizes(source):
            raise DataError(
                f"{name} is virtual, and its part from {one.file_name} is not a block of adjacent rows and columns; "
                "copy the rows into one dataset"
            )
        return _Part(own[0], own[1], where, inside, (source[0][0], source[1][0]))

    def _source(self, path: str, name: str) -> _Source:
        key = path, name
        if key not in self._open:
            if len(self._open) == _OPEN:
                self._open.pop(next(iter(self._open))).close()
            with contextlib.ExitStack() as stack:
                file = stack.enter_context(opened(path))
                dataset = file[name]
                reader = self._open_reader(dataset, dataset.dtype, path)
                entries = max(1, _PIECE_BYTES // max(1, reader.item), reader.chunk_rows)
                entries -= entries % reader.chunk_rows
                buffer = np.empty((min(entries, max(1, reader.length)), *dataset.shape[1:]), dataset.dtype)
                self._open[key] = _Source(file, reader, dataset.shape, buffer)
                stack.pop_all()
            self._most = max(self._most, reader.held_bytes + buffer.nbytes)
        return self._open[key]

    def close(self) -> None:
        for source in self._open.values():
            source.close()
        self._open.clear()


def _sizes(block: tuple[Span, Span]) -> list[int]:
    return [stop - start for start, stop in block]


def _block(space: h5py.h5s.SpaceID, shape: tuple[int, ...]) -> tuple[Span, Span] | None:
    """The selected (rows, columns) of a dataset of this shape, None where not adjacent; 1-dimensional: one column."""
    kind = space.get_select_type()
    spans: list[Span] = [(0, size) for size in shape]
    if kind == h5py.h5s.SEL_HYPERSLABS and space.is_regular_hyperslab():
        lines = zip(*space.get_regular_hyperslab(), strict=True)
        if any(count > 1 and stride != block for _, stride, count, block in lines):
            return None
        low, high = space.get_select_bounds()
        spans = [(int(first), int(last) + 1) for first, last in zip(low, high, strict=True)]
    elif kind != h5py.h5s.SEL_ALL:
        return None
    if len(spans) not in (1, 2):
        return None
    rows, columns = [*spans, (0, 1)][:2]
    return rows, columns
