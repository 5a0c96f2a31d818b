"""ROC AUC and average precision of scores, exact: rows that memory does not hold are sorted on disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from tempfile import TemporaryDirectory

import numpy as np

ROW = np.dtype([("score", "<f8"), ("positive", "?")])
SAMPLE = 1 << 14  # scores that say where to cut the rows on disk


class Ranking:
    """Scores of rows and whether each is of the class. most: bytes of them in memory.

    Beyond these bytes rows are written to a temporary folder. They are sorted there in parts by ranges of scores.
    """

    def __init__(self, most: int) -> None:
        self.most: int = max(most, 1 << 20)
        self._kept: list[np.ndarray] = []
        self._held = 0
        self._folder: TemporaryDirectory[str] | None = None

    def add(self, scores: np.ndarray, positive: np.ndarray) -> None:
        """Scores (m,) float64, and (m,) bool."""
        rows = np.empty(len(scores), ROW)
        rows["score"], rows["positive"] = scores, positive
        self._kept.append(rows)
        self._held += rows.nbytes
        if 4 * self._held > self.most:  # sorting takes copies
            self._spill()

    def _spill(self) -> None:
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="streammargin-")
        with open(os.path.join(self._folder.name, "rows"), "ab") as file:
            for rows in self._kept:
                file.write(rows.tobytes())
        self._kept, self._held = [], 0

    def _parts(self) -> Iterator[np.ndarray]:
        """All rows in parts; scores of a part are above all of the next one."""
        if self._folder is None:
            yield np.concatenate(self._kept)
            return
        self._spill()
        size = os.path.getsize(os.path.join(self._folder.name, "rows"))
        count, stride = -(-8 * size // self.most), max(1, size // ROW.itemsize // SAMPLE)
        some = np.sort(np.concatenate([rows["score"][::stride] for rows in self._stored()]))
        edges = np.unique(some[np.arange(1, count) * len(some) // count])
        for place in range(len(edges), -1, -1):
            low = -np.inf if place == 0 else edges[place - 1]
            high = np.inf if place == len(edges) else edges[place]
            found = []
            for rows in self._stored():
                found.append(rows[(rows["score"] >= low) & ((rows["score"] < high) | (place == len(edges)))])
            yield np.concatenate(found)

    def _stored(self) -> Iterator[np.ndarray]:
        """The rows on disk, some at a time; a memory map would count as memory of the process."""
        assert self._folder is not None
        with open(os.path.join(self._folder.name, "rows"), "rb") as file:
            while (rows := np.fromfile(file, ROW, max(1, self.most // (8 * ROW.itemsize)))).size:
                yield rows

    def figures(self) -> tuple[float | None, float | None]:
        """(area under the ROC curve, average precision); None where a row of the class, or of the rest, is missing."""
        above, wrong = 0, 0  # rows of the class, and of the rest, with larger scores
        area = precision = 0.0
        for rows in self._parts():
            if not rows.size:
                continue
            order = np.argsort(-rows["score"], kind="stable")
            scores, positive = rows["score"][order], rows["positive"][order]
            ends = np.append(np.flatnonzero(np.diff(scores)), len(scores) - 1)  # last rows of equal scores
            right = np.diff(np.concatenate([[0], np.cumsum(positive)[ends]])).astype(np.float64)
            others = np.diff(np.concatenate([[-1], ends])) - right
            before = above + np.cumsum(right) - right
            area += float(np.sum(others * (before + right / 2.0)))
            hits, misses = before + right, wrong + np.cumsum(others)
            precision += float(np.sum(right * hits / (hits + misses)))
            above, wrong = above + int(right.sum()), wrong + int(others.sum())
        if self._folder is not None:
            self._folder.cleanup()
        if not above or not wrong:
            return None, None
        return area / (above * wrong), precision / above
