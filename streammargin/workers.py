"""A pool of threads for pieces of work, whose results come in the order of the pieces."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from contextvars import copy_context
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
R = TypeVar("R")
LEAF_BYTES = 4 << 20  # of rows that are one piece of work: smaller pieces cost more calls than they are worth
_OWN = threading.local()  # busy: whether this thread is one of a pool


def _done(work: Callable[[T], R], piece: T) -> R:
    """A piece of work, on a thread of the pool."""
    _OWN.busy = True
    with np.errstate(all="ignore"):  # each thread has settings of its own
        return work(piece)


def _raise(error: Exception) -> Any:
    raise error


class Workers:
    """At most `threads` threads, which start when they are first needed, in each process anew after a fork.

    Results do not depend on their number, as each piece of work is done alone, and results come in order.
    """

    def __init__(self, threads: int = 1) -> None:
        self.threads: int = threads
        self._pool: ThreadPoolExecutor | None = None
        self._process = 0

    def each(self, work: Callable[[T], R], pieces: Iterable[T], most: int | None = None) -> Iterator[R]:
        """work(piece) of each piece, in order; at most `most` are begun beside those handed out, else two a thread.

        Threads go on while the caller has a result. An error comes after the results of the pieces before it, as if
        there were one thread; all others have ended. Pieces of a piece are done by its thread alone.
        """
        if self.threads < 2 or getattr(_OWN, "busy", False) or (isinstance(pieces, Sized) and len(pieces) < 2):
            yield from map(work, pieces)
            return
        left, begun, pool = iter(pieces), deque[Future[R]](), self._started()

        def begin() -> None:
            try:
                for piece in islice(left, (most or 2 * self.threads) - len(begun)):
                    begun.append(pool.submit(copy_context().run, _done, work, piece))
            except Exception as error:  # after those of the pieces before
                begun.append(pool.submit(_raise, error))

        try:
            begin()
            while begun:
                yield begun.popleft().result()
                begin()
        finally:
            wait([one for one in begun if not one.cancel()])

    def _started(self) -> ThreadPoolExecutor:
        if self._pool is None or self._process != os.getpid():
            self._pool, self._process = ThreadPoolExecutor(self.threads, "streammargin-worker"), os.getpid()
        return self._pool

    def close(self) -> None:
        """End the threads; they start again when they are needed."""
        if self._pool is not None and self._process == os.getpid():
            self._pool.shutdown()
        self._pool = None

    def __getstate__(self) -> dict[str, object]:
        return {"threads": self.threads, "_pool": None, "_process": 0}

    def spans(self, rows: int, size: int, work: Callable[[int, int], None]) -> None:
        """work(start, stop) for spans of the rows, which have `size` bytes in all; the order must not matter."""
        count = max(1, min(rows, size // LEAF_BYTES)) if self.threads > 1 else 1
        ends = [rows * number // count for number in range(count + 1)]
        for _ in self.each(lambda span: work(*span), list(pairwise(ends))):
            pass


ALONE = Workers(1)


def cores() -> int:
    """The number of cores that this process may use: its affinity, and the quota of its control groups."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([allowed, *map(int, _quotas())]))


def _quotas(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> Iterator[float]:
    """Cores that each control group of this process may use on average, rounded up (Linux)."""
    folders = [root, root / "cpu"]
    with suppress(OSError):
        names = [line.rstrip("\n").split(":", 2)[2].lstrip("/") for line in own.read_text().splitlines()]
        inside = [base / name for name in names for base in (root, root / "cpu")]
        folders = [folder for leaf in inside for folder in (leaf, *leaf.parents) if root in (folder, *folder.parents)]
    for folder in dict.fromkeys(folders):
        with suppress(OSError, ValueError):
            if (folder / "cpu.max").exists():
                quota, period = map(float, (folder / "cpu.max").read_text().split())  # "max" is no number
            else:
                quota, period = (float((folder / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
            if quota > 0.0 and period > 0.0:
                yield -(-quota // period)
