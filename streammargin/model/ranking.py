"""ROC AUC and average precision of scores, exact: sorted runs in memory, and on disk what memory does not hold."""

from __future__ import annotations

import bisect
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from tempfile import TemporaryFile
from typing import BinaryIO, NamedTuple, Protocol

import numpy as np

from streammargin.workers import ALONE, Workers

# a row of a run: a score, each once, the largest first; how many rows of the class have it, and how many in all
RUN = np.dtype([("score", "<f8"), ("positive", "<i8"), ("rows", "<i8")])
HELD, SORTED = 24, 320  # bytes of a row in memory, and of one that is sorted, with its copies
SORTED_PARTS = 8  # the share of the rows in memory that is sorted at a time
SAMPLE = 32  # scores for each part of merged runs, that say if to cut them
FAN = 32  # runs that are merged into one


def rows_in(memory: int, rankings: int) -> int:
    """How many rows each of so many rankings may hold within these bytes; they are sorted in turns."""
    return max(1, memory // (HELD * max(1, rankings) + SORTED // SORTED_PARTS))


class SortedRuns(Protocol):
    """Sorted runs, one after the other."""

    ends: list[int]

    def read(self, place: int, count: int) -> np.ndarray:
        """Rows of a run from this place on."""


class HeldRuns:
    """Sorted runs in memory."""

    def __init__(self) -> None:
        self.ends: list[int] = [0]
        self._runs: list[np.ndarray] = []

    def add(self, run: np.ndarray) -> None:
        """Add a run."""
        self._runs.append(run)
        self.ends.append(self.ends[-1] + len(run))

    def read(self, place: int, count: int) -> np.ndarray:
        number = bisect.bisect_right(self.ends, place) - 1
        start = place - self.ends[number]
        return self._runs[number][start : start + count]


class StoredRuns:
    """Sorted runs in a temporary file."""

    def __init__(self) -> None:
        self._file: BinaryIO = TemporaryFile(prefix="streammargin-")  # noqa: SIM115  # closed by `close`
        self.ends: list[int] = [0]

    def write(self, parts: Iterable[np.ndarray]) -> None:
        """Add a run; scores of a part are above all of the next one."""
        self._file.seek(0, os.SEEK_END)
        rows = 0
        for part in parts:
            self._file.write(part.tobytes())
            rows += len(part)
        self.ends.append(self.ends[-1] + rows)

    def read(self, place: int, count: int) -> np.ndarray:
        self._file.seek(place * RUN.itemsize)
        return np.frombuffer(self._file.read(count * RUN.itemsize), RUN)

    def clear(self) -> None:
        """Forget all runs, and their bytes on disk."""
        self._file.truncate(0)
        self.ends = [0]

    def close(self) -> None:
        self._file.close()


@dataclass
class Rest:
    """The rest of a run that is being merged: its rows from `start` to `end`."""

    runs: SortedRuns
    start: int
    end: int

    def above(self, low: float, window: int) -> Iterator[np.ndarray]:
        """Take the rows with scores of at least `low`; as many as `window` are read at a time."""
        while self.start < self.end:
            items = self.runs.read(self.start, min(window, self.end - self.start))
            above = len(items) - int(np.searchsorted(items["score"][::-1], low))
            self.start += above
            yield items[:above] if 2 * above > len(items) else items[:above].copy()  # a part keeps what was read
            if above < len(items):
                return


class Ranking:
    """Scores of rows and whether each is of the class. most: rows of them in memory; workers: who sorts.

    Beyond these, they are merged and written to disk, a run at a time. FAN runs are merged into one of the next level.
    At last all that are left are merged.
    """

    def __init__(self, most: int, workers: Workers = ALONE) -> None:
        self.most, self._workers = most, workers
        self._held = HeldRuns()
        self._levels: list[StoredRuns] = []
        self._above = self._wrong = 0  # rows of the class, and of the rest

    def add(self, run: np.ndarray) -> None:
        """Add some rows, as `ranked` makes them."""
        if self._held.ends[-1] and self._held.ends[-1] + len(run) > self.most:
            self._write(0, self._held)
            self._held = HeldRuns()
        self._held.add(run)

    def _write(self, level: int, found: SortedRuns) -> None:
        """Merge these runs into one of a level."""
        if level == len(self._levels):
            self._levels.append(StoredRuns())
        runs = self._levels[level]
        runs.write(self._workers.each(tied, merged([found], self.most), self._workers.threads))
        if len(runs.ends) > FAN:
            self._write(level + 1, runs)
            runs.clear()

    def figures(self) -> tuple[float | None, float | None]:
        """(area under the ROC curve, average precision); None if a row of the class, or of the rest, is missing."""
        area = precision = 0.0
        for more, shares in self._workers.each(figures_of, self._parts(), self._workers.threads):
            area, precision = area + more, precision + shares
        above, wrong = self._above, self._wrong
        for runs in self._levels:
            runs.close()
        return (area / (above * wrong), precision / above) if above and wrong else (None, None)

    def _parts(self) -> Iterator[RunPart]:
        """All rows, the largest scores first."""
        self._above = self._wrong = 0
        for part in merged([self._held, *self._levels], self.most):
            yield RunPart(part, self._above, self._wrong)
            right = int(part["positive"].sum())
            self._above, self._wrong = self._above + right, self._wrong + int(part["rows"].sum()) - right


class RunPart(NamedTuple):
    """Rows of some runs; above, wrong: rows of the class, and of the rest, with larger scores."""

    rows: np.ndarray
    above: int
    wrong: int


def figures_of(part: RunPart) -> tuple[float, float]:
    """(pairs of a row of the class above one of the rest, precisions of the rows of the class), added up."""
    run = tied(part.rows)
    right = run["positive"].astype(np.float64)
    others = run["rows"] - right
    before = part.above + np.cumsum(right) - right
    hits, misses = before + right, part.wrong + np.cumsum(others)
    return float(np.sum(others * (before + right / 2.0))), float(np.sum(right * hits / (hits + misses)))


def merged(levels: Sequence[SortedRuns], most: int) -> Iterator[np.ndarray]:
    """The rows of all these runs in parts, of which no two have a score in common; the largest scores come first."""
    total, most = sum(runs.ends[-1] for runs in levels), max(1, most // SORTED_PARTS)
    count = -(-total // most)
    stride = max(1, total // (SAMPLE * max(1, count)))
    places = ((runs, place) for runs in levels for place in range(0, runs.ends[-1], stride))
    some = np.sort(np.fromiter((runs.read(place, 1)["score"][0] for runs, place in places), np.float64))
    lows = np.unique(some[np.arange(1, count) * len(some) // max(1, count)])[::-1]
    left = [Rest(runs, start, end) for runs in levels for start, end in pairwise(runs.ends)]
    for low in [*lows.tolist(), -math.inf]:
        found = [np.empty(0, RUN), *(items for run in left for items in run.above(low, 1 + 2 * most // len(left)))]
        part = np.concatenate(found)
        del found
        if part.size:
            yield part


def ranked(scores: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """Rows with scores (m,) float64, of the class or not (m,) bool, as a run."""
    return _run(scores, positive, None)


def tied(rows: np.ndarray) -> np.ndarray:
    """Rows of RUN in any order as a run."""
    return _run(np.ascontiguousarray(rows["score"]), rows["positive"], rows["rows"])


def _run(scores: np.ndarray, positive: np.ndarray, rows: np.ndarray | None) -> np.ndarray:
    """A run of rows with these scores; None: each is one row."""
    order = np.argsort(scores)[::-1]
    scores = scores[order]
    ends = np.flatnonzero(np.append(scores[1:] != scores[:-1], True))
    run = np.empty(len(ends), RUN)
    run["score"], run["rows"] = scores[ends], np.diff(ends, prepend=-1)
    for name, counts in (("positive", positive), ("rows", rows)):
        if counts is not None:
            counts = counts[order]
            run[name] = counts if len(ends) == len(counts) else np.diff(np.cumsum(counts)[ends], prepend=0)
    return run
