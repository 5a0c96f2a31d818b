"""Figures of `evaluate` with the rows that go wrong: how far rows are on either side, and the worst ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streammargin.model.base import Model
from streammargin.model.evaluation import Judged, OfClasses, OfNumbers, Tally, tally_of
from streammargin.model.rows import AnyRows
from streammargin.workers import Workers

BINS, WORST = 256, 10  # bins of a histogram, rows that are told


class Unfinished(Exception):
    """Somebody asked to stop before all rows were judged."""


@dataclass
class Histogram:
    """Counts of numbers in BINS bins of equal width from -reach to reach, which doubles when a number is beyond."""

    reach: float = 0.0
    counts: np.ndarray = field(default_factory=lambda: np.zeros(BINS, np.int64))

    def add(self, values: np.ndarray) -> None:
        """Count these numbers (m,)."""
        largest = float(np.abs(values).max(initial=0.0))
        self.reach = self.reach or largest
        while largest > self.reach:
            self.reach *= 2.0
            pairs = self.counts.reshape(-1, 2).sum(axis=1)
            self.counts = np.concatenate([np.zeros(BINS // 4, np.int64), pairs, np.zeros(BINS // 4, np.int64)])
        if not self.reach:
            self.counts[BINS // 2] += values.size
            return
        places = np.floor((values / self.reach + 1.0) * (BINS / 2)).astype(np.intp)
        places = np.where(values < 0.0, np.minimum(places, BINS // 2 - 1), places)  # a tiny number may round to 0
        self.counts += np.bincount(np.clip(places, 0, BINS - 1), minlength=BINS)


@dataclass
class Wrong(Tally):
    """The figures of another tally, and `distances` and `worst` rows.

    The distance of a row of classes is the score of its label above the largest other one; of two classes it is the
    score on the side of the label. It is below 0 if the row is wrong. That of a number is prediction minus target.
    should_stop: asked before rows are added; anything but None ends the read by Unfinished.
    """

    inner: OfClasses | OfNumbers
    should_stop: Callable[[], str | None] = lambda: None
    seen: int = 0
    distances: Histogram = field(default_factory=Histogram)
    worst: list[dict[str, Any]] = field(default_factory=list)

    def known(self, source: AnyRows, start: int, given: np.ndarray) -> np.ndarray:
        return self.inner.known(source, start, given)

    def judged(self, labels: np.ndarray, scores: np.ndarray) -> tuple[Any, np.ndarray, list[dict[str, Any]]]:
        """What the other tally adds, the distances (m,), and the worst of these rows, with their places."""
        part = self.inner.judged(labels, scores)
        if isinstance(self.inner, OfNumbers):
            distances = scores[:, 0] - labels
            order = np.argsort(-np.abs(distances), kind="stable")[:WORST]
            return (
                part,
                distances,
                [_row(k, float(labels[k]), float(scores[k, 0]), distances[k]) for k in order.tolist()],
            )
        assert isinstance(part, Judged)
        distances = apart(labels, scores)
        distances = np.where(part.guess == labels, distances, np.minimum(distances, -np.finfo(float).tiny))
        order = np.argsort(distances, kind="stable")[:WORST]
        classes = self.inner.classes.tolist()
        places = [k for k in order.tolist() if distances[k] < 0.0]
        rows = [_row(k, str(classes[labels[k]]), str(classes[part.guess[k]]), distances[k]) for k in places]
        return part, distances, rows

    def add(self, part: tuple[Any, np.ndarray, list[dict[str, Any]]]) -> None:
        if (why := self.should_stop()) is not None:
            raise Unfinished(f"stopped by {why}")
        inner, distances, rows = part
        self.inner.add(inner)
        self.distances.add(distances)
        every = [*self.worst, *({**row, "row": row["row"] + self.seen} for row in rows)]
        numbers = isinstance(self.inner, OfNumbers)
        every.sort(key=lambda row: -abs(row["distance"]) if numbers else row["distance"])
        self.worst, self.seen = every[:WORST], self.seen + distances.size

    def figures(self, rows: int) -> dict[str, Any]:
        """Those of the other tally; distances: {"reach", "counts"}; worst: row, label, predicted, distance of each."""
        counted = {"reach": self.distances.reach, "counts": self.distances.counts.tolist()}
        return {**self.inner.figures(rows), "distances": counted, "worst": self.worst}


def _row(place: int, label: Any, predicted: Any, distance: float) -> dict[str, Any]:
    return {"row": place, "label": label, "predicted": predicted, "distance": float(distance)}


def apart(labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """The distance (m,) of each row, given numbers of classes (m,) and scores (m, k)."""
    if scores.shape[1] == 1:
        return np.where(labels == 1, scores[:, 0], -scores[:, 0])
    own = np.take_along_axis(scores, labels[:, None], axis=1)[:, 0]
    others = scores.copy()
    np.put_along_axis(others, labels[:, None], -np.inf, axis=1)
    return own - others.max(axis=1)


def wrong_rows(
    model: Model, data: Any, *, memory: int | None = None, threads: int | str | None = None,
    should_stop: Callable[[], str | None] = lambda: None, **asked: Any,
) -> dict[str, Any]:  # fmt: skip
    """The figures of `Model.evaluate`, whose other arguments these are, with the rows that go wrong (see `Wrong`).

    Several outputs, and ratings, have the figures alone. Raises as `Model.evaluate` does, and Unfinished.
    """
    if model.of_pairs or model.outputs is not None:
        return model.evaluate(data, memory=memory, threads=threads, **asked)

    def made(ranks: int, workers: Workers) -> Tally:
        inner = tally_of(model, model.trained_loss(), ranks, workers)
        assert isinstance(inner, (OfClasses, OfNumbers))
        return Wrong(inner, should_stop)

    return model._judged(data, made, memory, threads, **{"y": None, **asked})
