"""The rows of a source as batches for the writer; of HDF5 in any layout, also those of a matrix by columns."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import h5py
import numpy as np

from streammargin.errors import DataError, StreamMarginError, UsageError
from streammargin.matching import Matcher
from streammargin.reading.plan import column_names
from streammargin.rows.blocks import Block, CSRBlock
from streammargin.sources.arrays import stored_as
from streammargin.sources.base import Source
from streammargin.sources.batch import Batch, Ordered
from streammargin.sources.hdf5.columns import LAYERS, OBS, names_bytes, names_column, read_names
from streammargin.sources.hdf5.file import SCHEMA, encoding_of
from streammargin.sources.hdf5.nodes import attribute, decoding, has_link, look_up, opened
from streammargin.sources.hdf5.reader import RowReader, stored_dtype
from streammargin.sources.labels import LabelColumn, LabelCursor, as_values, census, distinct, is_text
from streammargin.sources.open import open_source
from streammargin.tables.matrices.base import How, beside
from streammargin.tables.matrices.compressed import buckets_for, check_kind, check_shape, in_rows
from streammargin.wording import note

BATCH_BYTES = 8 << 20


def check_seed(seed: int) -> None:
    """Raise UsageError unless seed is a whole number >= 0."""
    if not isinstance(seed, (int, np.integer)) or seed < 0:
        raise UsageError(f"`seed` must be a whole number and >= 0, not {seed!r}")


def check_name(*outputs: str) -> None:
    """Raise UsageError for the name of a file of anndata, which does not load what is written."""
    for path in outputs:
        if path.lower().endswith(".h5ad"):
            raise UsageError(f"anndata does not load the rows and labels that are written to {path}; name it .h5")


def batch_of(block: Block, *beside: np.ndarray | None) -> Batch:
    """A block of a source as a batch of views; beside: labels, weights."""
    if isinstance(block, CSRBlock):
        return Batch(None, block.data, block.indices.view(np.int32), block.indptr, *beside)
    return Batch(block.X, None, None, None, *beside)


def batches(source: Source, memory: int | None = None, held: int = 0) -> Iterator[Batch]:
    """The rows of a source in their order, with labels and weights; valid until the next one.

    memory: bytes for the rows being read plus `held`; None for a few batches, or the need of the file's largest chunk.
    """
    from streammargin.reading.plan import least_budget
    from streammargin.reading.prefetch import read_blocks

    memory = held + max(4 * BATCH_BYTES, least_budget(source)) if memory is None else memory

    cursor = LabelCursor(_labels(source)) if source.has_labels() else None
    weights = source.sample_weight()
    for start, stop, block in read_blocks(source, memory, held):
        yield batch_of(
            block,
            None if cursor is None else _of_one_type(cursor.take(stop - start), source.name),
            None if weights is None else weights[start:stop],
        )


def _labels(source: Source) -> Iterator[np.ndarray]:
    """The labels of a source; if shards have numbers and text, the text that both are in training."""
    firsts = [next(shard.labels(1)) for shard in getattr(source, "sources", [])]
    if len({is_text(as_values(first)) for first in firsts}) < 2:
        yield from source.labels()
        return
    classes, _, _ = census(source.labels(), source.rows, source.name, source.label_place, coded=False)
    matcher = Matcher(classes, source.name)
    for chunk in source.labels():
        values, inverse = distinct(as_values(chunk))
        yield classes[matcher.find_all(values)][inverse]


def _of_one_type(labels: np.ndarray, name: str) -> np.ndarray:
    """The labels as text or numbers. Raises DataError for numbers that no type holds."""
    found = as_values(labels)
    if found.dtype.kind == "O" and not is_text(found):
        raise DataError(f"{name}: no type of numbers holds all of its labels as they are; write them as text")
    return found


def say_left_out(source: Source, y: str | None) -> None:
    """Tell that only labels of the table of cells go with the rows, if they are its column y."""
    y = (y or "y").lstrip("/")
    for path in source.files():
        with contextlib.suppress(StreamMarginError), opened(path) as file:  # no HDF5: the labels are another file
            if look_up(file, OBS, path) is not None:
                own = look_up(file, y, path) is None and look_up(file, f"{OBS}/{y}", path) is not None
                inside = y.startswith(f"{OBS}/") or own
                kept = ", but for the labels" if inside else ""
                more = kept if source.has_labels() else "; keep its labels with `y=obs/NAME`"
                note(f"{path}: the table obs is left out{more}")
                return


def table_of(source: Source) -> dict[str, str]:
    """The attributes of a file that tell how its rows were made of a table; {} for other rows."""
    schema = source.schema()
    return {} if schema is None else {SCHEMA: json.dumps(schema)}


def label_of(source: Source) -> LabelColumn | None:
    """Where the labels of a source were from, if it is known, and the names of their columns, if they have several."""
    name, outputs = source.label_column(), source.outputs() if source.has_labels() else None
    return None if name is None and outputs is None else LabelColumn(name, outputs=outputs)


def of_hdf5(path: str, how: How) -> Ordered:
    """The rows as a source reads them, or those of a matrix by columns, sorted."""
    x, y = how.x, how.y
    by_column = cells = False
    with contextlib.suppress(StreamMarginError), decoding(path), opened(path) as probe:  # open_source says it
        cells = attribute(probe, "encoding-type") == "anndata"
        group = look_up(probe, x or "X", path)
        by_column = isinstance(group, h5py.Group) and encoding_of(group) == "csc"
    obs = look_up(how.opened.enter_context(opened(path)), OBS, path) if cells else None
    along: dict[str, Any] = {"x": kept_name(x), "obs": obs} if cells else {}
    if by_column:
        file = how.opened.enter_context(opened(path))
        column = names_column(file, x or "X", path)
        held = names_bytes(column)
        buckets_for(0, how.memory, held=held)  # refuses names that do not fit
        stored, width, found = _csc_group(file, x or "X", path, how, held)
        labels = y or ("y" if has_link(file, "y") else None)
        weights = "sample_weight" if has_link(file, "sample_weight") else None
        found = beside(found, path, replace(how, y=labels, weight=weights), home=file)
        names = None if column is None else read_names(column, width)
        return Ordered(found, True, width, stored_as(stored, f"{path}: X"), names, **along)
    source = how.opened.enter_context(open_source(path, x=x, y=y))
    names = column_names(source, how.memory)
    found = batches(source, how.memory, source.names_bytes())
    return Ordered(found, source.sparse, source.features, source.dtype, names, label_of(source), **along)


def kept_name(x: str | None) -> str:
    """The name in the file that is written: a layer and raw/X keep theirs, as models know them; others become X."""
    x = (x or "X").strip("/")
    return x if x == "raw/X" or x.startswith(f"{LAYERS}/") else "X"


class _Entries:
    """A dataset (n,) that is read front to back."""

    def __init__(self, dataset: h5py.Dataset, path: str, how: How) -> None:
        self._reader = RowReader(dataset, dataset.dtype, path, keep=True, place="entry {}".format)
        how.opened.callback(self._reader.close)
        self.length: int = self._reader.length
        self._at = 0

    def take(self, count: int) -> np.ndarray:
        """The next entries. Raises DataError if there are fewer."""
        start, self._at = self._at, self._at + count
        if self._at > self.length:
            raise DataError(f"{self._reader.path}: {self._reader.name} ends early; write the file again")
        found = np.empty(count, self._reader.dtype)
        self._reader.read(start, self._at, found)
        return found


def _csc_group(file: h5py.File, x: str, path: str, how: How, held: int) -> tuple[np.dtype, int, Iterator[Batch]]:
    """A csc_matrix group of an HDF5 file as batches of rows; held: bytes of the memory that names take."""
    group = look_up(file, x, path)
    with decoding(path):
        shape = check_shape(attribute(group, "shape"), f"{path}: {group.name}")
        parts = {name: look_up(group, name, path) for name in ("data", "indices", "indptr")}
        for name, part in parts.items():
            if not isinstance(part, h5py.Dataset) or part.ndim != 1:
                raise DataError(f"{path}: {group.name} has no 1-dimensional dataset {name}; write the file again")
            check_kind(name, stored_dtype(part, f"{path}: {name}"), path)
    entries = {name: _Entries(part, path, how) for name, part in parts.items()}
    return parts["data"].dtype, shape[1], in_rows(entries, False, shape, path, how, held)
