"""The protocol of a source: rows of a known number and width, with random access by block.

A new file format is one new file with a subclass of Source, and a line in `open.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from streammargin.rows.blocks import Block


class Buffer(NamedTuple):
    """Memory that one block after the other is read into; None for what a source has no use for.

    data: the values, (rows, d) or (nnz,); indices (nnz,) uint32 and indptr (rows + 1,) int64 of sparse rows;
    scratch (bytes,) uint8: what is stored as another type, before it is converted.
    """

    data: np.ndarray
    indices: np.ndarray | None = None
    indptr: np.ndarray | None = None
    scratch: np.ndarray | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of all of it."""
        return sum(part.nbytes for part in self if part is not None)

    def larger(self, other: Buffer) -> Buffer:
        """Of each array the longer one: a buffer for the blocks of both."""
        return Buffer(*(max((p for p in pair if p is not None), key=len, default=None)
                        for pair in zip(self, other, strict=True)))  # type: ignore[arg-type]  # fmt: skip


class Source(ABC):
    """Rows (n, d) that can be read block by block, in any order, without ever holding all of them.

    Attributes
    ----------
    name : str
        What to call it in messages (the path of a file, "X" for arrays).
    rows, features, nnz : int
        n, d and the stored values (n d when dense).
    dtype : numpy.dtype
        float32 or float64: the type of the values of every block it yields.
    sparse : bool
        Blocks are CSRBlock rather than DenseBlock.
    """

    name: str
    rows: int
    features: int
    nnz: int
    dtype: np.dtype
    sparse: bool

    def whole(self) -> Block | None:
        """All rows as one block that lies in memory already and is used in place, or None."""
        return None

    @abstractmethod
    def bounds(self, max_bytes: int) -> np.ndarray:
        """Row bounds (int64, from 0 to n) of consecutive blocks.

        Each block's buffer, everything needed to fill it included, takes at most max_bytes; the
        bounds follow the chunks of the file where that saves reading a chunk twice. When even the
        smallest block needs more, the bounds hold those smallest blocks; the caller compares.
        """

    @abstractmethod
    def buffer_bytes(self, bounds: np.ndarray) -> int:
        """Bytes that allocate(bounds) will take, scratch space included."""

    def held_bytes(self) -> int:
        """Bytes that reading holds beside the buffers, however large they are (places of chunks, say); none here."""
        return 0

    @abstractmethod
    def allocate(self, bounds: np.ndarray) -> Buffer:
        """A reusable buffer that fits the largest block of these bounds; it takes no memory before it is written to."""

    @abstractmethod
    def read(self, start: int, stop: int, buffer: Buffer) -> Block:
        """Rows start..stop as a block of views into the buffer (bias 0); one contiguous read per array.

        Values are not checked here (driver/prefetch.py does). Raises DataError for a truncated or
        inconsistent file, ReadWriteError when the disk fails.
        """

    def announce(self, start: int, stop: int) -> None:  # noqa: B027
        """A hint that rows start..stop are read soon: the disk may begin with them now."""

    def place(self, row: int) -> tuple[str, int]:
        """(name, row there) of a row, for messages: of several files, the one that holds it."""
        return self.name, row

    def label_place(self, row: int) -> tuple[str, int]:
        """`place` of the label of a row, which may lie in another file."""
        return self.place(row)

    @abstractmethod
    def has_labels(self) -> bool:
        """Whether there are labels at all (right or wrong)."""

    @abstractmethod
    def labels(self, chunk: int = 1 << 16) -> Iterator[np.ndarray]:
        """The raw labels in consecutive arrays of at most `chunk` (original type; text as str).

        Raises DataError where the source has none or their number is not n.
        """

    def column_bytes(self) -> int:
        """Bytes that reading the labels or the weights holds beside what it yields (a large chunk, say); none here."""
        return 0

    def weight_bytes(self) -> int:
        """Bytes of the weights that `sample_weight` would make; none here."""
        return 0

    @abstractmethod
    def sample_weight(self) -> np.ndarray | None:
        """Weights (n,) float64, or None where the source has none."""

    def names_bytes(self) -> int:
        """Bytes that `feature_names` takes, counted before they are read; none here."""
        return 0

    def feature_names(self) -> np.ndarray | None:
        """Names of the columns (d,), an array of objects each of which is a str; None where the source has none.

        Objects, as scikit-learn has them: one long name does not widen the others. Raises DataError where they are not
        d texts.
        """
        return None

    def files(self) -> list[str]:
        """The files that the rows, their labels, weights and names are read from, linked ones too; none for arrays."""
        return []

    def check_unchanged(self) -> None:  # noqa: B027
        """Raise DataError where a file was written to, or replaced, since the source was opened. Costs no reading."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A short text that changes when the data change: size, mtime, shapes and sampled bytes."""

    def layout(self) -> dict[str, Any]:
        """How the rows are stored, for people and for `info --json`: plain values only."""
        return {"format": "memory", "sparse": self.sparse, "dtype": str(self.dtype)}

    def close(self) -> None:  # noqa: B027
        """Let go of files."""

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
