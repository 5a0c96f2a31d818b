"""A reader thread that fills buffers ahead of the kernel. Every block it returns has been checked."""

from __future__ import annotations

import copy
import queue
import threading
import time
from collections.abc import Generator, Iterator
from contextvars import copy_context
from dataclasses import dataclass

import numpy as np

from streammargin.compiled.jit import compile_seconds
from streammargin.reading.labels import NO_ROWS, LabelReader
from streammargin.reading.plan import make_plan
from streammargin.rows.blocks import Block, nbytes, part
from streammargin.rows.labels import RowLabels
from streammargin.sources.base import Buffer, Source
from streammargin.sources.checks import check_block
from streammargin.workers import ALONE, Workers

Labelled = tuple[int, int, Block, RowLabels]  # start, stop, rows, and labels that cover them


class Stopwatch:
    """Runs from the moment it is made."""

    def __init__(self) -> None:
        self._started, self._compiled = time.perf_counter(), compile_seconds()

    def read(self) -> dict[str, float]:
        """The keys `seconds` and `compile_seconds` of the event run_end."""
        return {"seconds": time.perf_counter() - self._started, "compile_seconds": compile_seconds() - self._compiled}

    def computing(self) -> float:
        """Seconds without those of compiling. A kernel that another thread had begun to compile counts as compiled."""
        seconds, compiling = self.read().values()
        return max(0.0, seconds - compiling)


@dataclass
class ReadCounts:
    """Running totals of a reader: seconds reading, seconds the consumer waited, bytes of blocks.

    Compiling is neither reading nor waiting.
    """

    read_seconds: float = 0.0
    wait_seconds: float = 0.0
    bytes_read: int = 0


class BlockReader:
    """Reads the blocks of a plan in any order, ahead of their use, into buffers that are reused, and their labels.

    A resident reader (one block that holds everything) reads once and then hands out the same block.
    """

    def __init__(
        self, source: Source, bounds: np.ndarray, buffers: int, resident: bool = False,
        labels: LabelReader | None = None, workers: Workers = ALONE, checks: bool = True,
    ) -> None:  # fmt: skip
        self.source: Source = source
        self.bounds: np.ndarray = bounds
        self.labels: LabelReader | None = labels
        self._workers = workers
        self.counts: ReadCounts = ReadCounts()
        self._whole, self._checks = source.whole(), checks
        self._kept: Block | None = None
        self._resident = resident or self._whole is not None
        self.buffer_count: int = 0 if self._whole is not None else buffers
        self._buffers: list[Buffer] = []  # allocated at the first read
        self._of: BlockReader | None = None  # the reader that this one was made from by `pieces`

    def cut(self, bounds: np.ndarray) -> None:
        """Split blocks at these bounds too, before the first read. ValueError if they do not fit these rows."""
        ends = bounds[[0, -1]].tolist() if bounds.ndim == 1 and bounds.size else []
        if bounds.dtype != np.int64 or ends != [0, self.bounds[-1]] or np.any(np.diff(bounds) <= 0):
            raise ValueError("its blocks do not fit these rows")
        if self._resident and bounds.size > self.bounds.size:
            raise ValueError("it has several blocks, though the rows are in memory")
        self.bounds = np.union1d(self.bounds, bounds)

    def pieces(self, rows: int) -> BlockReader:
        """A reader of the same memory that yields rows in memory in chunks of `rows`; itself for rows on disk."""
        if not self._resident or rows >= self.bounds[-1]:
            return self
        reader = copy.copy(self)
        reader.bounds = np.append(np.arange(0, self.bounds[-1], rows), self.bounds[-1])
        reader._of = self
        return reader

    def whole(self) -> Block:
        """All rows as one block, for a resident reader."""
        if self._of is not None:
            return self._of.whole()
        if not self._buffers:
            self._buffers = [self.source.allocate(self.bounds) for _ in range(self.buffer_count)]
        if self._kept is None and self._whole is not None:
            found = self._whole
            self._kept = check_block(self.source, found, 0, True, self._workers) if self._checks else found
        if self._kept is None:
            self._kept, _ = self._fill(0, self._buffers[0])
            self.source.check_unchanged()
            self.counts.wait_seconds = self.counts.read_seconds
        return self._kept

    def release(self) -> None:
        """Free the buffers; blocks are no longer valid."""
        self._buffers, self._kept = [], None

    def _fill(self, index: int, buffer: Buffer) -> tuple[Block, RowLabels]:
        watch = Stopwatch()
        start, stop = int(self.bounds[index]), int(self.bounds[index + 1])
        block = check_block(self.source, self.source.read(start, stop, buffer), start)
        labels = self._labels(start, stop)
        self.counts.read_seconds += watch.computing()
        self.counts.bytes_read += nbytes(block)
        return block, labels

    def _labels(self, start: int, stop: int) -> RowLabels:
        return NO_ROWS if self.labels is None else self.labels.read(start, stop)

    def stream(self, order: np.ndarray) -> Iterator[tuple[int, int, Block]]:
        """(start, stop, block) for every block number in order; a block is valid until the next one."""
        for [(start, stop, block, _)] in self.groups(order, 1):
            yield start, stop, block

    def groups(self, order: np.ndarray, blocks_per_step: int) -> Generator[list[Labelled]]:
        """Like `stream` with labels, in lists of up to blocks_per_step blocks; blocks are valid until the next list.

        Several blocks come at once only if the labels of all rows are in memory. Raises DataError if the files
        changed since the source was opened, checked before and after the read.
        """
        if self._resident:
            whole = self.whole()
            for index in order:
                start, stop = int(self.bounds[index]), int(self.bounds[index + 1])
                rows = whole if stop - start == whole.rows() else part(whole, start, stop)
                yield [(start, stop, rows, self._labels(start, stop))]
            return
        if not self._buffers:
            self._buffers = [self.source.allocate(self.bounds) for _ in range(self.buffer_count)]
        self.source.check_unchanged()
        free: queue.SimpleQueue = queue.SimpleQueue()
        filled: queue.SimpleQueue = queue.SimpleQueue()
        for buffer in self._buffers:
            free.put(buffer)
        halt = threading.Event()

        def work() -> None:
            try:
                for index in order:
                    buffer = free.get()
                    if halt.is_set():
                        return
                    filled.put((int(index), buffer, *self._fill(int(index), buffer), None))
            except BaseException as error:  # passed to the consumer, which raises it
                filled.put((0, None, None, None, error))

        thread = threading.Thread(target=copy_context().run, args=(work,), name="streammargin-reader", daemon=True)
        thread.start()
        try:
            # the other half of the buffers is filled meanwhile: with one of four a pass waited a fifth of its time
            size = max(1, min(blocks_per_step, (self.buffer_count + 1) // 2))
            groups = np.array_split(order, -(-len(order) // size)) if len(order) else []  # of equal sizes
            for now in groups:
                group, used = [], []
                for _ in now:
                    watch = Stopwatch()
                    index, buffer, block, labels, error = filled.get()
                    self.counts.wait_seconds += watch.computing()
                    if error is not None:
                        raise error
                    group.append((int(self.bounds[index]), int(self.bounds[index + 1]), block, labels))
                    used.append(buffer)
                yield group
                for buffer in used:
                    free.put(buffer)
        finally:
            halt.set()
            free.put(None)
            thread.join()
        self.source.check_unchanged()


def read_blocks(
    source: Source, memory: int, held: int = 0, workers: Workers = ALONE, checks: bool = True
) -> Iterator[tuple[int, int, Block]]:
    """All rows in file order, (start, stop, block), in at most `memory` bytes, of which `held` are used already.

    checks: False leaves out the check of rows that are arrays.
    """
    plan = make_plan(source, memory, held)
    reader = BlockReader(source, plan.bounds, plan.buffers, plan.resident, workers=workers, checks=checks)
    yield from reader.stream(np.arange(plan.blocks))
