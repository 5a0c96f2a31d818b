"""ROC AUC and average precision of scores, exact: runs that memory does not hold are sorted, stored and merged."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from tempfile import TemporaryFile
from typing import BinaryIO, NamedTuple

import numpy as np

RUN = np.dtype([("score", "<f8"), ("positive", "<i8"), ("rows", "<i8")])  # of a run on disk
HELD, SORTED = 9, 224  # bytes of a row that waits, and of one that is sorted, with its copies
SAMPLE = 32  # scores for each part of merged runs, that say where to cut them
FAN = 32  # runs that are merged into one


class Ties(NamedTuple):
    """The scores from the largest to the smallest, each once, and how many rows have it: of the class, and in all."""

    scores: np.ndarray
    positive: np.ndarray
    rows: np.ndarray


def rows_in(memory: int, rankings: int) -> int:
    """How many rows each of so many rankings may hold within these bytes; they are sorted in turns."""
    return max(1, memory // (HELD * max(1, rankings) + SORTED))


class Runs:
    """Sorted runs in a temporary file."""

    def __init__(self) -> None:
        self._file: BinaryIO = TemporaryFile(prefix="streammargin-")  # noqa: SIM115  # closed by `close`
        self.ends: list[int] = [0]

    def write(self, parts: Iterable[Ties]) -> None:
        """Add a run; scores of a part are above all of the next one."""
        self._file.seek(0, os.SEEK_END)
        rows = 0
        for part in parts:
            run = np.empty(len(part.scores), RUN)
            run["score"], run["positive"], run["rows"] = part
            self._file.write(run.tobytes())
            rows += len(run)
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
    """What is left of a run that is being merged: its rows from `start` to `end`."""

    runs: Runs
    start: int
    end: int

    def above(self, low: float, window: int) -> Iterator[np.ndarray]:
        """Take the rows with scores of at least `low`; as many as `window` are read at a time."""
        while self.start < self.end:
            items = self.runs.read(self.start, min(window, self.end - self.start))
            above = len(items) - int(np.searchsorted(items["score"][::-1], low))
            self.start += above
            yield items[:above].copy()
            if above < len(items):
                return


class Ranking:
    """Scores of rows and whether each is of the class. most: rows of them in memory.

    Beyond these, rows are sorted and written to disk, a run at a time. FAN runs are merged into one of the next level.
    At last all that are left are merged.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._kept: list[tuple[np.ndarray, np.ndarray]] = []
        self._held = 0
        self._levels: list[Runs] = []

    def add(self, scores: np.ndarray, positive: np.ndarray) -> None:
        """Scores (m,) float64, and (m,) bool."""
        for start in range(0, len(scores), self.most):
            here = slice(start, start + self.most)
            if self._held + len(scores[here]) > self.most:
                self._write(0, [self._sorted()])
            self._kept.append((scores[here].copy(), positive[here].copy()))
            self._held += len(scores[here])

    def _sorted(self) -> Ties:
        """The rows in memory, which they leave."""
        scores, positive = (np.concatenate(columns) for columns in zip(*self._kept, strict=True))
        self._kept, self._held = [], 0
        return tied(scores, positive, np.ones(len(scores), np.int64))

    def _write(self, level: int, parts: Iterable[Ties]) -> None:
        if level == len(self._levels):
            self._levels.append(Runs())
        runs = self._levels[level]
        runs.write(parts)
        if len(runs.ends) > FAN:
            self._write(level + 1, merged([runs], self.most))
            runs.clear()

    def _parts(self) -> Iterator[Ties]:
        """All rows in parts; scores of a part are above all of the next one."""
        if self._kept and self._levels:
            self._write(0, [self._sorted()])
        if self._kept:
            yield self._sorted()
        elif self._levels:
            yield from merged(self._levels, self.most)

    def figures(self) -> tuple[float | None, float | None]:
        """(area under the ROC curve, average precision); None where a row of the class, or of the rest, is missing."""
        above, wrong = 0, 0  # rows of the class, and of the rest, with larger scores
        area = precision = 0.0
        for ties in self._parts():
            right = ties.positive.astype(np.float64)
            others = ties.rows - right
            before = above + np.cumsum(right) - right
            area += float(np.sum(others * (before + right / 2.0)))
            hits, misses = before + right, wrong + np.cumsum(others)
            precision += float(np.sum(right * hits / (hits + misses)))
            above, wrong = above + int(right.sum()), wrong + int(others.sum())
        for runs in self._levels:
            runs.close()
        if not above or not wrong:
            return None, None
        return area / (above * wrong), precision / above


def merged(levels: list[Runs], most: int) -> Iterator[Ties]:
    """All these runs in parts of about `most` rows; scores of a part are above all of the next one."""
    total = sum(runs.ends[-1] for runs in levels)
    count = -(-total // most)
    stride = max(1, total // (SAMPLE * count))
    places = ((runs, place) for runs in levels for place in range(0, runs.ends[-1], stride))
    some = np.sort(np.fromiter((runs.read(place, 1)["score"][0] for runs, place in places), np.float64))
    lows = np.unique(some[np.arange(1, count) * len(some) // count])[::-1]
    left = [Rest(runs, start, end) for runs in levels for start, end in pairwise(runs.ends)]
    for low in [*lows.tolist(), -math.inf]:
        found = [np.empty(0, RUN), *(items for run in left for items in run.above(low, 1 + 2 * most // len(left)))]
        part = np.concatenate(found)
        del found
        if part.size:
            yield tied(part["score"], part["positive"], part["rows"])


def tied(scores: np.ndarray, positive: np.ndarray, rows: np.ndarray) -> Ties:
    """Rows of equal scores together."""
    order = np.argsort(scores)[::-1]
    scores = scores[order]
    ends = np.flatnonzero(np.append(scores[1:] != scores[:-1], True))
    sums = (np.diff(np.cumsum(column[order], dtype=np.int64)[ends], prepend=0) for column in (positive, rows))
    return Ties(scores[ends], *sums)
