"""The rows of a source as batches for the writer."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

from streammargin.errors import DataError, UsageError
from streammargin.matching import Matcher
from streammargin.rows.blocks import Block, CSRBlock
from streammargin.sources.base import Source
from streammargin.sources.batch import Batch
from streammargin.sources.hdf5.base import RANGES, SCHEMA
from streammargin.sources.label_column import LabelColumn
from streammargin.sources.labels import LabelCursor, as_values, census, distinct, is_text

BATCH_BYTES = 8 << 20


def check_seed(seed: int) -> None:
    """Raise UsageError unless seed is a whole number >= 0."""
    if not isinstance(seed, (int, np.integer)) or seed < 0:
        raise UsageError(f"`seed` must be a whole number and >= 0, not {seed!r}")


def batch_of(block: Block, *beside: np.ndarray | None) -> Batch:
    """A block of a source as a batch of views; beside: labels, weights, numbers of queries."""
    if isinstance(block, CSRBlock):
        return Batch(None, block.data, block.indices.view(np.int32), block.indptr, *beside)
    return Batch(block.X, None, None, None, *beside)


def batches(source: Source, memory: int | None = None, held: int = 0) -> Iterator[Batch]:
    """The rows of a source in their order, with labels, weights and numbers of queries; valid until the next one.

    memory: bytes for the rows being read plus `held`; None for a few batches, or the need of the file's largest chunk.
    """
    from streammargin.driver.plan import least_budget
    from streammargin.driver.prefetch import read_blocks

    memory = held + max(4 * BATCH_BYTES, least_budget(source)) if memory is None else memory

    cursor = LabelCursor(_labels(source)) if source.has_labels() else None
    weights, queries = source.sample_weight(), source.queries()
    for start, stop, block in read_blocks(source, memory, held):
        yield batch_of(
            block,
            None if cursor is None else _of_one_type(cursor.take(stop - start), source.name),
            *(None if each is None else each[start:stop] for each in (weights, queries)),
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


def table_of(source: Source) -> dict[str, str]:
    """The attributes of a file that tell how its rows were made of a table; {} for other rows."""
    schema, ranges = source.schema(), source.ranges()
    return {} if schema is None else {SCHEMA: json.dumps(schema), RANGES: ranges or ""}


def label_of(source: Source) -> LabelColumn | None:
    """Where the labels of a source were from, if it is known, and the names of their columns, if they have several."""
    name, outputs = source.label_column(), source.outputs() if source.has_labels() else None
    return None if name is None and outputs is None else LabelColumn(name, outputs=outputs)
