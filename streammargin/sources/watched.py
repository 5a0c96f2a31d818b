"""A source that raises an error when rows are not what they were when they were first read."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from streammargin.errors import OtherRowsError
from streammargin.rows.blocks import Block
from streammargin.sources.base import Buffer, Source
from streammargin.sources.view import View

PIECE = 32 << 20  # bytes hashed at a time, for arrays in memory


class WatchedSource(View):
    """Wraps a source, and keeps a sum of row hashes for each range of rows; each read is compared with it.

    ends (B + 1,) int64: bounds of the ranges, from 0; every block bound is among them; sums (B,) int64, mod 2^64: the
    sums of hashes; seen (B,) bool: which are known; files_then: device, inode, size and times in nanoseconds of each
    file when the source was opened, empty for arrays.
    """

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.files_then: list[list[int] | None] = [_status(path) for path in source.files()]
        self._before: tuple[np.ndarray, ...] | None = None  # ends, sums and seen of another process
        self._set(np.array([0, self.rows], np.int64))

    def _set(self, ends: np.ndarray) -> None:
        self.ends = ends
        self.sums: np.ndarray = np.zeros(len(ends) - 1, np.int64)
        self.seen: np.ndarray = np.zeros(len(ends) - 1, bool)

    def cut(self, bounds: np.ndarray) -> None:
        """Split the ranges at these bounds too, and forget all sums."""
        self._set(np.union1d(self.ends, bounds))

    def read(self, start: int, stop: int, buffer: Buffer) -> Block:
        block = self.source.read(start, stop, buffer)
        self._compare(start, block)
        return block

    def look(self) -> None:
        """Hash arrays in memory, for which `read` is never called."""
        whole = self.whole()
        if whole is not None:
            self.cut(self.source.bounds(PIECE))
            self._compare(0, whole)

    def _compare(self, start: int, block: Block) -> None:
        from streammargin.compiled.row_hashes import row_hashes

        low = int(np.searchsorted(self.ends, start))
        high = int(np.searchsorted(self.ends, start + block.rows(), side="right")) - 1
        for piece in range(low, high):
            first, stop = self.ends[piece : piece + 2].tolist()
            found = row_hashes(block, first - start, stop - start, start)
            if self.seen[piece] and self.sums[piece] != found:
                raise self._altered(first, stop)
            self.sums[piece] = found
            self.seen[piece] = True  # set last: a checkpoint may be written by another thread

    def _altered(self, first: int, stop: int) -> OtherRowsError:
        name, row = self.place(first)
        return OtherRowsError(
            f"{name}: some of the rows {row} to {row + stop - first - 1} changed since this training read them; put "
            "the data back as they were, or start again with another `checkpoint`"
        )

    # for checkpoints

    def arrays(self) -> dict[str, np.ndarray]:
        """The sums, as copies, as another thread may be reading rows."""
        seen = self.seen.copy()
        return {"ends": self.ends, "seen": seen, "sums": np.where(seen, self.sums, 0)}

    def restore(self, files: list[Any], arrays: dict[str, np.ndarray]) -> bool:
        """Restore the sums of another process; True if all rows must be read, and `settle` called, before going on.

        It is not needed if the files' status and the ranges are the same. OtherRowsError if rows in memory have
        changed; ValueError for arrays that are not from `arrays`.
        """
        ends, seen, sums = arrays["ends"], arrays["seen"], arrays["sums"]
        kinds = [(ends, np.int64), (seen, np.bool_), (sums, np.int64)]
        if any(array.dtype != dtype or array.ndim != 1 for array, dtype in kinds) or ends.size < 2:
            raise ValueError("its hashes of the rows have another type")
        if not len(seen) == len(sums) == len(ends) - 1 or np.any(np.diff(ends) <= 0):
            raise ValueError("its hashes of the rows have different lengths")
        if ends[0] != 0 or ends[-1] != self.rows:
            raise ValueError("its hashes are for another number of rows")
        self._before = ends, seen, sums
        whole = self.whole()
        if not np.isin(ends, self.ends).all():
            self.cut(ends)
            if whole is not None:
                self._compare(0, whole)
        if whole is not None:
            self.settle()
            return False
        if not np.array_equal(self.ends, ends):  # a smaller tolerance may need smaller blocks
            return True
        self.sums, self.seen = sums.copy(), seen.copy()
        return not self.files_then or files != self.files_then

    def settle(self) -> None:
        """Called once all rows were read: OtherRowsError if they differ from those of the other process."""
        assert self._before is not None and self.seen.all()
        ends, seen, sums = self._before
        self._before = None
        now = np.add.reduceat(self.sums, np.searchsorted(self.ends, ends[:-1]))
        for piece in np.flatnonzero(seen & (now != sums)).tolist():
            raise self._altered(*ends[piece : piece + 2].tolist())


def _status(path: str) -> list[int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
