"""A separate process for each side: its threads are limited, and it can be stopped in the middle of a call."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from typing import Any

from examples.benchmarks.sets import load
from examples.benchmarks.sides import find

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "NUMBA_NUM_THREADS")
GRACE = 1.0  # seconds beyond the limit before a process is stopped from outside
COMPILING = 900.0  # the same if a side keeps the limit by itself, which compiling does not count towards


class CutOff(Exception):
    """The limit passed before an answer came."""


class Failed(Exception):
    """The side cannot do this: it is not installed, or raises an error."""


def hold_threads(threads: int) -> None:
    """Let BLAS and OpenMP of every process started from here have this many threads."""
    for name in THREADS:
        os.environ[name] = str(threads)


def timed(work: Callable[[], Any], clock: Callable[[], float] = time.process_time) -> tuple[float, Any]:
    """Seconds, of CPU by default, and what it returns."""
    begun = clock()
    found = work()
    return clock() - begun, found


class Worker:
    """Answers `solve` for one side on one set; a process that was stopped is started anew when it is next asked."""

    def __init__(self, side: str, name: str, path: str, rows: int | None, threads: int) -> None:
        self.arguments = (side, name, path, rows, threads)
        self._process: Any = None

    def start(self) -> None:
        """Load and convert the rows. Raises Failed if the side cannot: not installed, say."""
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, *self.arguments), daemon=True)
        self._process.start()
        other.close()
        try:
            fault = self._connection.recv()
        except EOFError:
            fault = "its process died while the data were prepared"
        if fault:
            self.close()
            raise Failed(fault)

    def solve(self, loss: str, C: float, setting: Any, limit: float) -> tuple[float, Any, dict[str, Any]]:
        """(seconds, W, facts). Raises CutOff after `limit` seconds, Failed with what went wrong."""
        if self._process is None:
            self.start()
        self._connection.send((loss, C, setting, limit))
        stops = find(self.arguments[0]).stops
        if not self._connection.poll(limit + (COMPILING if stops else GRACE)):
            self.close()
            raise CutOff
        try:
            seconds, W, facts, fault = self._connection.recv()
        except EOFError:
            self.close()
            raise Failed("its process died") from None
        if fault:
            raise Failed(fault)
        if seconds > limit and not stops:
            raise CutOff
        return seconds, W, facts

    def close(self) -> None:
        """Stop the process."""
        if self._process is not None:
            self._connection.close()
            self._process.kill()
            self._process.join()
            self._process = None


def _serve(connection: Any, side: str, name: str, path: str, rows: int | None, threads: int) -> None:
    try:
        chosen = find(side)
        X, y, _, _ = load(name, path, rows)
        data = chosen.prepare(X, y, threads)
    except Exception as error:
        connection.send(f"{type(error).__name__}: {error}")
        return
    connection.send(None)
    while True:
        try:
            loss, C, setting, limit = connection.recv()
        except EOFError:  # the parent process has ended
            return
        started = time.perf_counter()
        try:
            W, facts = chosen.solve(data, loss, C, setting, limit)
        except Exception as error:
            connection.send((0.0, None, {}, f"{type(error).__name__}: {error}"))
            continue
        seconds = time.perf_counter() - started
        connection.send((facts.pop("seconds", seconds) - facts.get("compile_seconds", 0.0), W, facts, None))
