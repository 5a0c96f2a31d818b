"""Write rows that are read in order, such as batches from Python, to a file that can be streamed."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from streammargin.errors import DataError, StreamMarginError, UsageError
from streammargin.files import as_path, check_output
from streammargin.rows.blocks import CSRBlock
from streammargin.sources.arrays import ArraySource
from streammargin.sources.batch import Batch, Narrowing, Ordered, finite_rows, sorted_rows
from streammargin.sources.hdf5.nodes import decoding
from streammargin.sources.hdf5.write import RowWriter, writing
from streammargin.sources.labels import LabelColumn, class_values, number_rows
from streammargin.sources.names import check_same, listed
from streammargin.sources.open import is_stream, parts_of
from streammargin.wording import shown

_OF_CELLS = {"/": "anndata", "layers": "dict", "raw": "raw"}  # what anndata calls its groups


def write_hdf5(batches: Any, path: str | os.PathLike[str], *, dtype: str | None = None, force: bool = False) -> int:
    """Write batches of rows to one HDF5 file that `train` can stream; returns the number of rows.

    batches : an iterable of (X, y) or (X, y, sample_weight): an iterator, a loader or a list. X (m, d) is an array, a
        pandas or polars frame, or a SciPy matrix; y (m,) class labels or numbers, or (m, outputs) numbers, or None for
        unlabelled rows; sample_weight (m,) >= 0. One batch is in memory at a time.
    path : the new file; an existing one is an error unless `force` is True
    dtype : of the stored values, "float32" or "float64"; by default that of the first batch, float16 too

    Sparse batches are stored as CSR, with sorted column indices. Column names of frames are stored too. If anything
    fails, no file is left.

    Raises
    ------
    UsageError, DataError (which names batch and row, both from 0), OutputError, ReadWriteError; errors of the
    iterable pass unchanged.
    """
    path = as_path(path)
    if dtype not in (None, "float32", "float64"):
        raise UsageError(f"`dtype` must be float32 or float64, not {shown(dtype)}")
    if not isinstance(force, (bool, np.bool_)):
        raise UsageError(f"`force` must be True or False, not {shown(force)}")
    if not is_stream(batches):
        raise UsageError(f"batches must be an iterable of (X, y), as in [(X, y)], not {type(batches).__name__}")
    check_output(path, bool(force))
    return write_batches(batches, path, dtype, bool(force), {})


def write_batches(batches: Any, path: str, dtype: str | None, force: bool, attributes: Mapping[str, str]) -> int:
    """`write_hdf5` of checked arguments. attributes: of the file."""
    pulled = _batches(batches)
    try:
        first = next(pulled, None)
        if first is None:
            raise DataError(f"there are no rows to write to {path}; give batches with rows")
        rows = (_checked(source, first, dtype) for source in itertools.chain([first], pulled))
        found = Ordered(rows, first.sparse, first.features, np.dtype(dtype or first.stored), first.feature_names(),
                        LabelColumn(None, outputs=first.outputs()), name=path)  # fmt: skip
        return write_rows(found, path, force, lambda: attributes).rows
    except _OfTheIterable as error:
        assert error.__cause__ is not None
        raise error.__cause__ from None


def write_rows(
    found: Ordered, path: str, force: bool, told: Callable[[], Mapping[str, str]] = dict
) -> RowWriter:  # fmt: skip
    """Write these rows as values of their type; returns what was written. told: attributes, after the last row."""
    batches, narrowing = found.read(), Narrowing(np.dtype(found.dtype), found.name)
    first = next(batches)  # before there is a file
    with writing(path, force, found.dtype, found.sparse, found.features, found.names, found.label, found.x) as writer:
        for batch in itertools.chain([first], batches):
            narrowing.check(batch)
            writer.append(batch)
        if found.sparse and writer.features is None and writer.widest == 0:
            raise DataError(f"{found.name} has no values at all; give the number of columns with `features`")
        writer.file.attrs.update(told())
        if found.obs is not None:
            with decoding(found.name):
                writer.file.copy(found.obs, "obs", expand_refs=True)  # categories of anndata before 0.8 are references
            for home in _OF_CELLS.keys() & {"/", found.x.partition("/")[0]}:
                group = writer.file.require_group(home)
                group.attrs.update({"encoding-type": _OF_CELLS[home], "encoding-version": "0.1.0"})
    return writer


class _OfTheIterable(StreamMarginError):
    """Wraps an exception of the user's iterable, so that its OSError is not taken for one of the output file."""


def _batches(batches: Any) -> Iterator[ArraySource]:
    """The batches that have rows. Raises UsageError for an item that is not a batch."""
    iterator = iter(batches)
    number = 0
    while True:
        try:
            batch = next(iterator)
        except StopIteration:
            return
        except Exception as error:
            raise _OfTheIterable("the iterable failed") from error
        if (parts := parts_of(batch, number)) is not None:
            yield ArraySource(*parts, f"batch {number}")
        number += 1


def _checked(source: ArraySource, first: ArraySource, dtype: str | None) -> Batch:
    """The batch to write. Raises DataError if it does not fit the first batch."""
    name = source.name
    if source.features != first.features:
        raise DataError(
            f"{name} has {source.features} columns but the first one has {first.features}; all must have the same"
        )
    if source.sparse != first.sparse:
        kinds = ("sparse", "dense") if source.sparse else ("dense", "sparse")
        raise DataError(f"{name} is {kinds[0]} but the first one is {kinds[1]}; make all of them the same")
    if source.feature_names() is not None:
        check_same(first.feature_names(), source.feature_names(), "the first batch", name)
    weights = source.sample_weight()
    for what, found, expected in (
        ("labels", source.has_labels(), first.has_labels()),
        ("weights", weights is not None, first.sample_weight() is not None),
    ):
        if found != expected:
            raise DataError(f"{name} has {'' if found else 'no '}{what}, unlike the first one; give all of them {what}")
    if source.outputs() != first.outputs():
        both = source.outputs(), first.outputs()
        told = ["one column" if each is None else f"the columns {listed(each)}" for each in both]
        raise DataError(
            f"the labels of {name} have {told[0]}, but those of the first one {told[1]}; make them the same"
        )
    if dtype is None and source.stored.itemsize > first.stored.itemsize:
        raise DataError(f"{name} holds {source.stored} but the first one {first.stored}; use `dtype={source.stored}`")
    return _rows(source)._replace(labels=_labels(source), weights=_weights(weights, name))


def _rows(source: ArraySource) -> Batch:
    block = source.whole()
    if isinstance(block, CSRBlock):
        return sorted_rows(block.data, block.indices.view(np.int32), block.indptr, source.features, source.name, 0)
    assert block is not None
    return finite_rows(block.X, source.name, 0)


def _labels(source: ArraySource) -> np.ndarray | None:
    if not source.has_labels():
        return None
    labels, outputs = np.concatenate(list(source.labels())), source.outputs()
    if labels.ndim == 2:
        why = f"{source.name}: labels of several columns must be numbers"
        return number_rows(labels, why, lambda row: (source.name, row), outputs)
    return class_values(labels, source.name, lambda row: (source.name, row))


def _weights(weights: np.ndarray | None, name: str) -> np.ndarray | None:
    if weights is not None and not (np.isfinite(weights).all() and weights.min() >= 0.0):
        row = int(np.flatnonzero(~(np.isfinite(weights) & (weights >= 0.0)))[0])
        raise DataError(f"{name}: row {row} has the weight {weights[row]}; weights must be finite and not negative")
    return weights
