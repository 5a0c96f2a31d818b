"""Figures of `evaluate` with the rows that go wrong: how far rows are on either side, and the worst ones."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streammargin.errors import DataError
from streammargin.model.base import Model
from streammargin.model.evaluation import JudgedRows, OfClasses, OfNumbers, Tally, tally_of
from streammargin.model.linear import LinearModel
from streammargin.model.rows import AnyRows, ModelRows
from streammargin.model.scoring import BUDGET
from streammargin.ordered import is_table
from streammargin.report.page import RANKED_COLUMNS
from streammargin.saved.words import left_out
from streammargin.sources.open import paths_of
from streammargin.sources.schema import Schema
from streammargin.workers import Workers

BINS, WORST = 256, 10  # bins of a histogram, rows that are told
Row = dict[str, Any]  # row, label, predicted, distance, ids
Known = tuple[np.ndarray, tuple[np.ndarray, ...], int]  # labels, names of rows, and the number of the first row
Part = tuple[Any, np.ndarray, np.ndarray, list[Row]]  # what the other tally adds, distances, which are left, worst rows


class Unfinished(Exception):
    """Somebody asked to stop before all rows were judged."""


@dataclass
class Histogram:
    """Counts of numbers in BINS bins of equal width from -reach to reach, which doubles when a number is beyond."""

    reach: float = 0.0
    counts: np.ndarray = field(default_factory=lambda: np.zeros(BINS, np.int64))

    def add(self, values: np.ndarray, left: np.ndarray) -> None:
        """Count these numbers (m,); left (m,) bool: those that count as below 0, if they are 0 or nearly so."""
        largest = float(np.abs(values).max(initial=0.0))
        self.reach = self.reach or largest
        while largest > self.reach:
            self.reach *= 2.0
            pairs = self.counts.reshape(-1, 2).sum(axis=1)
            self.counts = np.concatenate([np.zeros(BINS // 4, np.int64), pairs, np.zeros(BINS // 4, np.int64)])
        places = np.floor((values / (self.reach or 1.0) + 1.0) * (BINS / 2)).astype(np.intp)
        places = np.where(left, np.minimum(places, BINS // 2 - 1), np.maximum(places, BINS // 2))
        self.counts += np.bincount(np.clip(places, 0, BINS - 1), minlength=BINS)


@dataclass
class Wrong(Tally):
    """The figures of another tally, and `distances` and `worst` rows.

    The distance of a row of classes is the score of its label above the largest other one; of two classes it is the
    score on the side of the label. If the row is wrong it is at most 0. For numbers it is prediction minus target.

    `id`           columns of names of rows, which `worst` rows have as ids.
    `should_stop`  asked before rows are added; anything but None ends the read by Unfinished.
    `share`        (folds, seed): only rows that these leave out count; () for all rows.
    """

    inner: OfClasses | OfNumbers
    id: tuple[str, ...] = ()
    should_stop: Callable[[], str | None] = lambda: None
    share: Sequence[int] = ()
    seen: int = 0
    distances: Histogram = field(default_factory=Histogram)
    worst: list[Row] = field(default_factory=list)

    def known(self, source: AnyRows, piece: ModelRows, given: np.ndarray) -> Known:
        return self.inner.known(source, piece, given), piece.ids, piece.first

    def judged(self, known: Known, scores: np.ndarray) -> Part | None:
        """The distances (m,) of rows, and more; None if no row counts."""
        labels, ids, first = known
        numbers = np.arange(first, first + len(labels))
        if self.share:
            kept = left_out(first, len(labels), *self.share)
            labels, scores, numbers, ids = labels[kept], scores[kept], numbers[kept], tuple(each[kept] for each in ids)
        if not numbers.size:
            return None
        part = self.inner.judged(labels, scores)
        if isinstance(self.inner, OfNumbers):
            distances = scores[:, 0] - labels
            order = np.argsort(-np.abs(distances), kind="stable")[:WORST]
            rows = [_row(k, numbers, float(labels[k]), float(scores[k, 0]), distances[k], ids) for k in order.tolist()]
            return part, distances, distances < 0.0, rows
        assert isinstance(part, JudgedRows)
        distances, wrong = apart(labels, scores), part.guess != labels
        order = np.argsort(np.where(wrong, distances, np.inf), kind="stable")[: min(WORST, np.count_nonzero(wrong))]
        classes = self.inner.classes.tolist()
        rows = [
            _row(k, numbers, str(classes[labels[k]]), str(classes[part.guess[k]]), distances[k], ids)
            for k in order.tolist()
        ]
        return part, distances, wrong, rows

    def add(self, part: Part | None) -> None:
        if (why := self.should_stop()) is not None:
            raise Unfinished(f"stopped by {why}")
        if part is None:
            return
        inner, distances, left, rows = part
        self.inner.add(inner)
        self.distances.add(distances, left)
        every = [*self.worst, *rows]
        numbers = isinstance(self.inner, OfNumbers)
        every.sort(key=lambda row: -abs(row["distance"]) if numbers else row["distance"])
        self.worst, self.seen = every[:WORST], self.seen + distances.size

    def figures(self, rows: int) -> dict[str, Any]:
        """Those of the other tally; distances: {"reach", "counts"}; worst: row, label, predicted, distance.

        If rows have names, id lists their columns, and each of the worst has its `ids`.

        rows: the number read; with a share fewer are judged.
        """
        counted = {"reach": self.distances.reach, "counts": self.distances.counts.tolist()}
        names = {"id": self.id} if self.id else {}
        return {**self.inner.figures(self.seen), "distances": counted, **names, "worst": self.worst}


def _row(
    place: int, numbers: np.ndarray, label: Any, predicted: Any, distance: float, ids: tuple[np.ndarray, ...]
) -> Row:  # fmt: skip
    names = {"ids": [str(each[place]) for each in ids]} if ids else {}
    return {"row": int(numbers[place]), "label": label, "predicted": predicted, "distance": float(distance), **names}


def apart(labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """The distance (m,) of each row, given numbers of classes (m,) and scores (m, k)."""
    if scores.shape[1] == 1:
        return np.where(labels == 1, scores[:, 0], -scores[:, 0])
    own = np.take_along_axis(scores, labels[:, None], axis=1)[:, 0]
    others = scores.copy()
    np.put_along_axis(others, labels[:, None], -np.inf, axis=1)
    return own - others.max(axis=1)


def wrong_rows(
    model: Model,
    data: Any,
    *,
    memory: int | None = None,
    threads: int | str | None = None,
    id: tuple[str, ...] = (),
    should_stop: Callable[[], str | None] = lambda: None,
    share: Sequence[int] = (),
    **asked: Any,
) -> dict[str, Any]:
    """The figures of `Model.evaluate`, whose other arguments these are, with the rows that go wrong (see `Wrong`).

    id: columns that name rows, as for `Model.rows_of`. share: see `Wrong`. Several outputs, and ratings, have the
    figures of all rows alone. For a table with hashed text also words, by column (see `words_of`). Raises as
    `Model.evaluate` does, and Unfinished.
    """
    if model.of_pairs or model.outputs is not None:
        return model.evaluate(data, memory=memory, threads=threads, **asked)

    def made(ranks: int, workers: Workers) -> Tally:
        inner = tally_of(model, model.trained_loss(), ranks, workers)
        assert isinstance(inner, (OfClasses, OfNumbers))
        return Wrong(inner, id, should_stop, share)

    found = model._judged(data, made, memory, threads, **{"y": None, "id": id, **asked})
    if isinstance(model, LinearModel) and model.schema is not None and model.schema.hashed and is_table(data):
        found["words"] = _words(model, model.schema, data, memory)
    return found


def _words(model: LinearModel, schema: Schema, data: Any, memory: int | None) -> dict[int, list[tuple[str, int]]]:
    """The words of a table in the hashed columns that a page shows; {} if it lacks the text, or is read once."""
    from streammargin.model.tables import words_of

    parts = [part["features"] for part in model.top_features(RANKED_COLUMNS)]
    columns = {int(one["column"]) for one in itertools.chain(model.top_columns(RANKED_COLUMNS), *parts)}
    if all(os.path.isfile(path) or os.path.isdir(path) for path in paths_of(data)):  # no pipe
        with contextlib.suppress(DataError):
            return words_of(schema, data, columns, BUDGET if memory is None else memory)
    return {}
