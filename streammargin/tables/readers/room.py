"""How much memory a reader takes at a time, and where it writes what does not fit."""

from __future__ import annotations

from dataclasses import dataclass

LEAST_ROWS = 64
CELLS = 512  # bytes of text at a time for each column, so that a wide table has some rows in a piece


@dataclass(frozen=True)
class Room:
    """memory: bytes, of which a reader takes about half. near: temporary files go next to it; "": the system's folder.

    It has shares for columns that are decoded at a time, for those that stay in memory, for a batch, and for text.
    """

    memory: int = 256 << 20
    near: str = ""

    @property
    def decoding(self) -> int:
        """Bytes of columns that are decoded at a time."""
        return min(16 << 20, self.memory // 32)

    @property
    def decoded(self) -> int:
        """Bytes of columns side by side."""
        return min(64 << 20, self.memory // 4)

    @property
    def batch(self) -> int:
        """Bytes of the rows that are made numbers at a time."""
        return min(16 << 20, self.memory // 16)

    def rows(self, columns: int) -> int:
        """Rows of a batch with so many columns."""
        return max(LEAST_ROWS, self.batch // (8 * max(1, columns)))

    def text(self, most: int, columns: int = 1) -> int:
        """Bytes of a piece of text; parsed and as numbers it takes some times as much.

        Each column of a piece takes as long as hundreds of its rows: that of a wide table may take more memory.
        """
        return max(min(most, max(1 << 16, self.memory // 64)), min(CELLS * columns, self.memory // 8))


USUAL = Room()
