"""The interface of input readers: each format is a module with the members of `Format`."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from streammargin.errors import DataError, UsageError
from streammargin.files import check_apart
from streammargin.sources.arrays import as_weights, value_dtype
from streammargin.sources.batch import Batch
from streammargin.sources.kinds import kind_of
from streammargin.sources.label_column import LabelColumn
from streammargin.sources.labels import LabelCursor
from streammargin.tables.header import Like
from streammargin.tables.textfile import Text, plain_stem

# name of a format: its module. First bytes are checked in this order; text that fits nothing else is svmlight.
FORMATS = {
    "hdf5": "streammargin.data_tools.hdf5file",
    "npz": "streammargin.data_tools.npz",
    "csv": "streammargin.data_tools.csvtext",
    "svmlight": "streammargin.data_tools.svmlight",
}


@dataclass(frozen=True)
class Asked:
    """How to read the input: the options of `convert`.

    near: the output file; temporary files go next to it. memory: bytes for sorting.
    opened: closes the files that stay open while batches are read.
    """

    features: int | None
    label_column: str | int | None
    label: bool
    separator: str | None
    like: Like | None
    zero_based: bool
    x: str | None
    y: str | None
    memory: int
    near: str
    opened: contextlib.ExitStack

    @property
    def given(self) -> dict[str, str]:
        """The given options that only some formats use, and their spelling in messages."""
        defaults = {"label_column": None, "label": True, "separator": None, "zero_based": False, "x": None, "y": None}
        found = {name: getattr(self, name) for name, default in defaults.items() if getattr(self, name) != default}
        return {name: f"{name}={value}" if isinstance(value, bool) else name for name, value in found.items()}


@dataclass(frozen=True)
class Found:
    """The batches of a reader, and what is known before reading.

    features: None if only known at the end. names (d,): column names, if the input has them.
    """

    batches: Iterator[Batch]
    sparse: bool
    features: int | None
    dtype: Any
    names: np.ndarray | None = None
    label: LabelColumn | None = None


class Format(Protocol):
    """The members of a format's module.

    TEXT: whether it is read front to back, and so may be compressed or a pipe. OPTIONS: the options of `Asked.given`
    that it uses.
    """

    TEXT: bool
    SUFFIXES: tuple[str, ...]
    OPTIONS: tuple[str, ...]

    def sniff(self, start: bytes) -> bool:
        """Whether input with these first bytes has this format."""

    def read(self, text: Text, asked: Asked) -> Found:
        """The rows of the input. Raises DataError, UsageError."""


def format_named(name: str) -> Format:
    """The module of a format. Raises UsageError for an unknown name."""
    if name not in FORMATS:
        raise UsageError(f"`format` must be one of {', '.join(FORMATS)}, not {name!r}")
    module: Any = importlib.import_module(FORMATS[name])
    return module


def format_of(text: Text, asked: Asked) -> str:
    """The name of the format, by the first bytes, then by the file's name. Raises DataError for other binary files.

    Text formats are checked last, as nearly everything may be text.
    """
    formats = {name: format_named(name) for name in FORMATS}
    path = plain_stem(text.name).lower()
    for name, known in formats.items():
        if not known.TEXT and known.sniff(text.start):
            return name
    for name, known in formats.items():
        if path.endswith(known.SUFFIXES):
            return name
    found = kind_of(text.start)
    if found is None and b"\0" in text.start:
        found = "binary", "write its rows as CSV or svmlight text, or as HDF5"
    if found is not None:
        raise DataError(f"{text.name} is {found[0]}, not text; {found[1]}")
    texts = {name: known for name, known in formats.items() if known.TEXT}
    if asked.separator is not None:  # any character may be a separator, so the content cannot tell
        return next(name for name, known in texts.items() if "separator" in known.OPTIONS)
    return next(name for name, known in texts.items() if known.sniff(text.start))


def check_options(asked: Asked, kind: str, path: str) -> None:
    """Raises UsageError for an option that this format does not use."""
    used = format_named(kind).OPTIONS
    for name, spelt in asked.given.items():
        if name not in used:
            able = " or ".join(f"`format={other}`" for other in FORMATS if name in format_named(other).OPTIONS)
            twin = {"y": "label_column", "label_column": "y"}.get(name)
            mend = f"give `{twin}`" if twin in used else "omit it"
            raise UsageError(f"{path} is read as {kind}, which does not use `{spelt}`; {mend}, or use {able}")


def with_labels(found: Iterator[Batch], y: str | None, home: Any, path: str, asked: Asked) -> Iterator[Batch]:
    """The batches with the labels called y, of another file or a dataset of `home`."""
    from streammargin.sources.hdf5.labels import LABELS

    return _beside(found, y, home, path, asked, LABELS)


def with_weights(found: Iterator[Batch], name: str | None, home: Any, path: str, asked: Asked) -> Iterator[Batch]:
    """The batches with the weights called `name`."""
    from streammargin.sources.hdf5.labels import WEIGHTS

    return _beside(found, name, home, path, asked, WEIGHTS)


def _beside(
    found: Iterator[Batch], name: str | None, home: Any, path: str, asked: Asked, what: tuple[str, str]
) -> Iterator[Batch]:
    """The batches with the labels or weights of this name."""
    if name is None:
        yield from found
        return
    from streammargin.sources.hdf5.labels import open_column

    noun = what[0]
    column, other = open_column(name, home, path, what)
    if other is not None:
        asked.opened.callback(other.close)
    check_apart({"the output": asked.near}, column.files)
    cursor = LabelCursor(column.chunks(1 << 16))
    seen = 0
    for batch in found:
        seen += batch.rows
        if seen > column.length:
            raise DataError(f"{column.name} has {column.length} {noun}, fewer than {path} has rows")
        values = cursor.take(batch.rows)
        yield batch._replace(**{noun: values if noun == "labels" else as_weights(values, batch.rows, column.name)})
    if seen != column.length:
        raise DataError(f"{column.name} has {column.length} {noun} but {path} has {seen} rows")


def kept_dtype(stored: np.dtype, path: str) -> np.dtype:
    """The type that values of a stored type are kept in. Raises DataError."""
    try:
        return value_dtype(stored)
    except DataError as error:
        raise DataError(f"{path}: {error.raw}") from None
