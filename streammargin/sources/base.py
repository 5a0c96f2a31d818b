"""The interface of a source: a known number of rows and columns, with random access by block.

A new file format is one new file with a subclass of Source, and one line in `open.py`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np

from streammargin.errors import UsageError
from streammargin.rows.blocks import Block
from streammargin.wording import brief

MUCH = 1e3  # ratio of the largest range of columns to the smallest that is worth a warning
MOST_SOME_ROWS = 1 << 12
SOME_ROWS_STRETCHES = 8  # stretches of them


class Buffer(NamedTuple):
    """Memory that is reused for one block after the other; None for arrays that a source does not need.

    data: the values, (rows, d) or (nnz,); indices (nnz,) uint32 and indptr (rows + 1,) int64 of sparse rows;
    scratch (bytes,) uint8: column indices as stored, before a conversion.
    """

    data: np.ndarray
    indices: np.ndarray | None = None
    indptr: np.ndarray | None = None
    scratch: np.ndarray | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of all its arrays."""
        return sum(part.nbytes for part in self if part is not None)

    def larger(self, other: Buffer) -> Buffer:
        """The longer one of each array: a buffer for the blocks of both."""
        return Buffer(*(max((p for p in pair if p is not None), key=len, default=None)
                        for pair in zip(self, other, strict=True)))  # type: ignore[arg-type]  # fmt: skip


class Slices(Protocol):
    """Something of each row: an array (n,), or a column of a file, of which each use reads a part."""

    def __getitem__(self, rows: slice, /) -> np.ndarray:
        """The part for these consecutive rows."""

    def __len__(self) -> int:
        """n; 0 if rows have nothing of it."""


OfValues = Callable[[np.ndarray], np.ndarray]  # (m,) -> (m,), or (m, outputs) -> (m, outputs)


class Source(ABC):
    """Rows (n, d) that can be read block by block, in any order, without ever holding all of them.

    Attributes
    ----------
    name : str
        In messages: the path of a file, "X" for arrays;
    rows, features, nnz : int
        n, d and the number of stored values (n d when dense);
    dtype : numpy.dtype
        Of the values of every block: float32 or float64;
    sparse : bool
        Blocks are CSRBlock rather than DenseBlock.
    """

    name: str
    rows: int
    features: int
    nnz: int
    dtype: np.dtype
    sparse: bool
    mask: str | None = None  # COLUMN=VALUE, if these are the rows of a file with this value
    named: Mapping[str, object] = MappingProxyType({})  # what x, y and sample_weight were named as
    of_others: str | None = None  # what a model takes of files with other columns, COMMON or ALL; None: no such ones
    largest_square: float = math.inf  # about the largest ||x||^2 of a row, if that is known before a read

    def __repr__(self) -> str:
        facts = {name: getattr(self, name, None) for name in ("name", "rows", "features", "nnz")}
        return brief(self, **facts, dtype=str(getattr(self, "dtype", None)))

    def whole(self) -> Block | None:
        """All rows as one block that is in memory already and is used in place, or None."""
        return None

    @abstractmethod
    def bounds(self, max_bytes: int) -> np.ndarray:
        """Row bounds (int64, from 0 to n) of consecutive blocks.

        The buffer of a block, with all that is needed to fill it, takes at most max_bytes. Bounds
        follow the chunks of the file if that saves reading a chunk twice. If even the smallest
        block needs more, blocks are as small as possible; the caller checks their size.
        """

    @abstractmethod
    def buffer_bytes(self, bounds: np.ndarray) -> int:
        """Bytes that allocate(bounds) will take, scratch space included."""

    def held_bytes(self) -> int:
        """Bytes that reading needs besides the buffers, whatever their size (a table of chunk offsets, say); here 0."""
        return 0

    @abstractmethod
    def allocate(self, bounds: np.ndarray) -> Buffer:
        """A reusable buffer for the largest block of these bounds; its memory is not touched yet."""

    @abstractmethod
    def read(self, start: int, stop: int, buffer: Buffer) -> Block:
        """Rows start..stop as a block of views into the buffer (bias 0); one contiguous read per array.

        Values are checked elsewhere (reading/prefetch.py). Raises DataError for a truncated or
        inconsistent file, ReadWriteError if the disk fails.
        """

    def some_rows(self, bounds: np.ndarray) -> Iterator[tuple[int, int]]:
        """Some stretches of rows (first, stop), each within a block of these bounds, as a sample of the values."""
        for number in np.unique(np.linspace(0, len(bounds) - 2, SOME_ROWS_STRETCHES).astype(int)).tolist():
            yield (
                int(bounds[number]),
                min(int(bounds[number + 1]), int(bounds[number]) + MOST_SOME_ROWS // SOME_ROWS_STRETCHES),
            )

    def place(self, row: int) -> tuple[str, int]:
        """(name of the file that contains a row, row number in it), for messages."""
        return self.name, row

    def told(self, row: int) -> str:
        """Where a row is, for messages; in a text its line."""
        where, row = self.place(row)
        return f"{where}: row {row}"

    def label_place(self, row: int) -> tuple[str, int]:
        """`place` for the label of a row, which may be in another file."""
        return self.place(row)

    @abstractmethod
    def has_labels(self) -> bool:
        """Whether there are labels, valid or not."""

    @abstractmethod
    def labels(self, chunk: int = 1 << 16) -> Iterator[np.ndarray]:
        """The raw labels in consecutive arrays of at most `chunk` values (original type; text as str).

        An array is (m,), or (m, outputs) for several outputs. Raises DataError if the source has none or their
        number is not n.
        """

    def outputs(self) -> list[str] | None:
        """The names of the columns of the labels, if these are (n, outputs); None if they are (n,)."""
        return None

    def label_column(self) -> str | int | None:
        """The column of a table that the labels are from: its name, or its number from 0; None if it is unknown."""
        return None

    def rereads_labels(self) -> str:
        """The kind (NumPy's letter) of labels of which each block's are best read with it; "" for others, as here.

        They are numbers or categories in files, of one kind.
        """
        return ""

    def labels_as(self, made: OfValues) -> Slices:
        """The labels, or their categories, as `made` converts them, read at each use; only if `rereads_labels`."""
        raise AssertionError(f"the labels of {self.name} are not read again")

    def column_bytes(self) -> int:
        """Bytes that reading labels and weights needs besides the result (large chunks, say); here 0."""
        return 0

    @abstractmethod
    def sample_weight(self) -> Slices | None:
        """Weights (n,) float64, or None if the source has none."""

    def numbers(self, name: str, what: tuple[str, str]) -> Slices:
        """A column of numbers beside the rows, (n,) float64, by its name.

        what: for messages, what the numbers are, and the option that names them. Raises DataError, UsageError.
        """
        raise UsageError(f"{self.name} has no column {name} of {what[0]}; give an array with one number for each row")

    def masked(self, mask: str) -> Source:
        """The rows with `mask`, COLUMN=VALUE, alone. Raises DataError, UsageError."""
        raise UsageError(f"{self.name} has no columns beside its rows; `mask` is for files such as those of anndata")

    def task_column(self) -> Source | None:
        """These rows with the tasks that were written beside them as labels; None if there are none, as here."""
        return None

    def names_bytes(self) -> int:
        """Bytes that `feature_names` needs, computed before it reads them; here 0."""
        return 0

    def feature_names(self) -> np.ndarray | None:
        """Column names (d,), an object array of str as in scikit-learn; None if the source has none.

        Raises DataError if they are not d strings.
        """
        return None

    def schema(self) -> dict[str, Any] | None:
        """How the rows were made of a table, as plain values that the model keeps; None for other rows."""
        return None

    def files(self) -> list[str]:
        """All files that rows, labels, weights and names are read from, linked ones included; empty for arrays."""
        return []

    def check_unchanged(self) -> None:  # noqa: B027
        """Raise DataError if a file was modified or replaced since the source was opened. Reads no data."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A short string that changes with the data: a hash of size, mtime, shapes and sampled bytes."""

    def layout(self) -> dict[str, Any]:
        """How the rows are stored, as plain values, for `info`."""
        return {"format": "memory", "sparse": self.sparse, "dtype": str(self.dtype)}

    def close(self) -> None:  # noqa: B027
        """Close the files."""

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
