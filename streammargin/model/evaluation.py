"""Figures of scores on labelled rows, added up block by block: of classes, and of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from streammargin.errors import DataError
from streammargin.losses import is_numeric
from streammargin.losses.base import coupled, lifted, margin_shift
from streammargin.matching import Codes
from streammargin.model.ranking import Ranking, ranked
from streammargin.model.rows import AnyRows
from streammargin.points.base import answered
from streammargin.sources.labels import class_values, distinct, number_rows, number_values, shifted
from streammargin.workers import Workers

MOST_CONFUSED, MOST_RANKED = 1000, 20  # most classes of a confusion matrix, and of AUC and average precision
AMONG = (2, 3, 5, 10)  # the label is among so many classes of the largest scores
_FLAT, _THIRDS = 50.0, 120  # margins from which a loss is 0; steps of a search for a minimum


class Tally(Protocol):
    """Takes the rows of a source, some at a time, and tells their figures. `judged` runs on several cores at once."""

    def known(self, source: AnyRows, start: int, given: np.ndarray) -> Any:
        """Labels (m,) as they are stored, of the rows from `start` on, as `judged` takes them. Raises DataError."""

    def judged(self, labels: Any, scores: np.ndarray) -> Any:
        """What some rows with scores (m, k) add to the figures; changes nothing."""

    def add(self, part: Any) -> None:
        """Add what `judged` found; in the order of the rows."""

    def figures(self, rows: int, workers: Workers) -> dict[str, Any]:
        """What `Model.evaluate` returns, of this many rows."""


def rankings(classes: int) -> int:
    """How many rankings of scores this many classes have."""
    return classes if 2 < classes <= MOST_RANKED else int(classes == 2)


def largest_losses(loss: Any, margins: np.ndarray, top: float) -> float:
    """The sum of the `top` largest losses of each column of margins (n, K): the least of top e + sum phi(u + e).

    e >= 0 is the multiplier of the bound on the duals (Pdprox paper, eq. (19)); of residuals it lifts the loss.
    """
    from streammargin.compiled.predict import total_loss

    def at(column: np.ndarray, e: float) -> float:
        return top * e + float(total_loss(lifted(loss, e), column + margin_shift(loss, e)))

    total = 0.0
    for column in (np.ascontiguousarray(margins[:, k : k + 1]) for k in range(margins.shape[1])):
        far = max(loss.reach()) * float(np.abs(column).max()) if is_numeric(loss) else _FLAT - float(column.min())
        low, high = 0.0, max(0.0, far)
        for _ in range(_THIRDS):  # by convexity a third of the stretch is without the least
            third = (high - low) / 3.0
            left = at(column, low + third) <= at(column, high - third)
            low, high = (low, high - third) if left else (low + third, high)
        total += min(at(column, low), at(column, 0.0))
    return total


class Judged(NamedTuple):
    """Some rows: their classes and the predicted ones (m,), the smallest margin, sums, margins if kept, and ranks."""

    codes: np.ndarray
    guess: np.ndarray
    smallest: float
    total: float
    margins: np.ndarray | None
    ranks: list[np.ndarray]
    among: list[int]
    surprise: float


class OfClasses:
    """Mistakes, losses and the smallest margin of labels.

    classes: (k,) labels; rest: the label that was told from all others, or None; loss: terms, or None; top: how many
    of the largest losses count, None for all; length: of the weights of two classes, in the norm of the penalty; most:
    rows of each ranking in memory.
    """

    smallest: float
    total: float
    surprise: float
    counts: np.ndarray
    correct: np.ndarray
    guessed: np.ndarray
    classes: np.ndarray
    length: float
    loss: Any
    top: float | None
    probable: Callable[[np.ndarray], np.ndarray] | None

    def __init__(
        self, classes: np.ndarray, rest: Any, loss: Any, top: float | None, length: float, most: int,
        probable: Callable[[np.ndarray], np.ndarray] | None,
    ) -> None:  # fmt: skip
        self.classes, self.loss, self.top, self.length = classes, loss, top, length
        k = len(classes)
        self.confusion = np.zeros((k, k), np.int64) if k <= MOST_CONFUSED else None
        self.rankings: list[Ranking] = [Ranking(most) for _ in range(rankings(k))]
        self.probable, self.surprise = probable, 0.0
        self.among: dict[int, int] = {n: 0 for n in AMONG if n < k}
        self.codes: Codes = Codes(classes, rest, "the evaluated rows")
        self.total, self.smallest = 0.0, math.inf
        self.counts, self.correct, self.guessed = np.zeros((3, len(classes)), np.int64)
        self.kept: list[np.ndarray] = []  # margins, where only the largest losses count

    def known(self, source: AnyRows, start: int, given: np.ndarray) -> np.ndarray:
        """Numbers of the classes of these rows (m,). Raises DataError for a label that the model does not know."""
        raw = class_values(given, source.name, shifted(source.label_place, start))
        values, inverse = distinct(raw)
        codes = np.array(self.codes.of(values), np.intp)[inverse]
        if np.any(codes < 0):
            bad = int(np.flatnonzero(codes < 0)[0])
            where, row = source.label_place(start + bad)
            raise DataError(
                f"{where}: row {row} has the label {raw[bad]}, unknown to the model; "
                f"its labels are {self.codes.matcher.listed()}"
            )
        return codes

    def judged(self, labels: np.ndarray, scores: np.ndarray) -> Judged:
        """See `Tally`."""
        from streammargin.compiled.predict import total_coupled_loss, total_loss

        codes, smallest, total = labels, math.inf, 0.0
        if scores.shape[1] == 1:
            margins = (np.where(codes == 1, 1.0, -1.0) * scores[:, 0])[:, None]
            smallest = float(margins.min())
        else:
            margins = np.where(np.arange(scores.shape[1]) == codes[:, None], scores, -scores)
        if self.loss is not None and self.top is None and coupled(self.loss):
            signs = np.where(np.arange(scores.shape[1]) == codes[:, None], 1.0, -1.0)
            total = float(total_coupled_loss(self.loss, margins, signs))
        elif self.loss is not None and self.top is None:
            total = float(total_loss(self.loss, margins))
        ranks = [ranked(scores[:, k], codes == (k if len(self.rankings) > 1 else 1)) for k in range(len(self.rankings))]
        kept = None if self.top is None else margins
        among, surprise = self._among(codes, scores), self._surprise(codes, scores)
        return Judged(codes, answered(scores), smallest, total, kept, ranks, among, surprise)

    def _among(self, codes: np.ndarray, scores: np.ndarray) -> list[int]:
        """How many labels are among the classes of the largest scores; ties count against it, as in scikit-learn."""
        if not self.among:
            return []
        own = np.take_along_axis(scores, codes[:, None], axis=1)
        ahead = np.arange(scores.shape[1]) > codes[:, None]
        larger = (scores > own).sum(axis=1) + ((scores == own) & ahead).sum(axis=1)
        return [int(np.count_nonzero(larger < n)) for n in self.among]

    def _surprise(self, codes: np.ndarray, scores: np.ndarray) -> float:
        """Minus the sum of the logarithms of the probabilities of the labels."""
        if self.probable is None:
            return 0.0
        p = np.clip(self.probable(scores), np.finfo(np.float64).eps, 1.0 - np.finfo(np.float64).eps)
        return -float(np.log(np.take_along_axis(p, codes[:, None], axis=1)).sum())

    def add(self, part: Judged) -> None:
        """See `Tally`."""
        codes, guess, size = part.codes, part.guess, len(self.counts)
        self.smallest, self.total = min(self.smallest, part.smallest), self.total + part.total
        self.surprise += part.surprise
        if part.margins is not None:
            self.kept.append(part.margins)
        self.counts += np.bincount(codes, minlength=size)
        self.guessed += np.bincount(guess, minlength=size)
        self.correct += np.bincount(codes[guess == codes], minlength=size)
        if self.confusion is not None:
            self.confusion += np.bincount(codes * size + guess, minlength=size * size).reshape(size, size)
        for ranking, run in zip(self.rankings, part.ranks, strict=True):
            ranking.add(run)
        for n, seen in zip(self.among, part.among, strict=True):
            self.among[n] += seen

    def figures(self, rows: int, workers: Workers) -> dict[str, Any]:
        """See `Tally`."""
        if self.top is not None:
            self.total = largest_losses(self.loss, np.concatenate(self.kept), self.top)
        mistakes = rows - int(self.correct.sum())
        there = self.counts > 0
        recall = _shares(self.correct, self.counts)
        precision = _shares(self.correct, self.guessed)
        f1 = _shares(2 * self.correct, self.counts + self.guessed)
        known = there | (self.guessed > 0)  # as scikit-learn has it: classes of labels or of predictions
        ranked = [ranking.figures(workers) for ranking in self.rankings]
        return {
            "rows": rows,
            "mistakes": mistakes,
            "accuracy": 1.0 - mistakes / rows,
            "error": mistakes / rows,
            "loss": None if self.loss is None else self.total / rows,
            "margin": self.smallest / self.length if self.smallest < math.inf and self.length > 0.0 else None,
            "per_class": [
                {"label": str(label), "rows": int(n), "correct": int(c), "predicted": int(g), "precision": float(p),
                 "recall": float(r), "f1": float(f)}
                for label, n, c, g, p, r, f in zip(self.classes.tolist(), self.counts, self.correct, self.guessed,
                                                   precision, recall, f1, strict=True)
            ],
            "balanced_accuracy": float(recall[there].mean()),
            **{f"macro_{name}": float(values[known].mean())
               for name, values in (("precision", precision), ("recall", recall), ("f1", f1))},
            "roc_auc": _mean([auc for auc, _ in ranked]),
            "average_precision": _mean([share for _, share in ranked]),
            "log_loss": None if self.probable is None else self.surprise / rows,
            "top_k": {str(n): seen / rows for n, seen in self.among.items()},
            "confusion": None if self.confusion is None else self.confusion.tolist(),
        }  # fmt: skip


def _shares(parts: np.ndarray, wholes: np.ndarray) -> np.ndarray:
    """parts / wholes, 0 where there is no whole."""
    return np.divide(parts, wholes, out=np.zeros(len(parts)), where=wholes > 0)


def _mean(values: list[float | None]) -> float | None:
    """The mean; None where one of them is missing, or there are none."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


class OfNumbers:
    """Errors of predicted numbers; loss: terms, or None; top: how many of the largest losses count, None for all."""

    squares: float
    sizes: float
    spread: float
    largest: float
    total: float
    loss: Any
    top: float | None
    mean: float
    seen: int

    def __init__(self, loss: Any, top: float | None) -> None:
        self.loss, self.top = loss, top
        self.kept: list[np.ndarray] = []  # residuals, where only the largest losses count
        self.squares, self.sizes, self.largest, self.total = 0.0, 0.0, 0.0, 0.0
        self.mean, self.spread, self.seen = 0.0, 0.0, 0  # of the numbers; spread: sum of squares about the mean

    def known(self, source: AnyRows, start: int, given: np.ndarray) -> np.ndarray:
        """See `Tally`: numbers (m,)."""
        why = f"{source.name}: the labels are no numbers, but the model predicts numbers"
        return number_values(given, why, shifted(source.label_place, start))

    def judged(self, labels: np.ndarray, scores: np.ndarray) -> OfNumbers:
        """See `Tally`: the figures of these rows alone."""
        from streammargin.compiled.predict import total_loss

        found = OfNumbers(self.loss, self.top)
        with np.errstate(over="ignore", invalid="ignore"):
            residuals = scores[:, :1] - labels[:, None]
            errors = np.abs(residuals[:, 0])
            found.squares, found.sizes, found.largest = float(errors @ errors), float(errors.sum()), float(errors.max())
            if self.top is not None:
                found.kept.append(residuals)
            elif self.loss is not None:
                found.total = float(total_loss(self.loss, residuals))
            found.seen, found.mean = len(labels), float(labels.mean(dtype=np.float64))
            found.spread = float(((labels - found.mean) ** 2).sum())
        return found

    def add(self, part: OfNumbers) -> None:
        """See `Tally`."""
        rows = self.seen + part.seen
        with np.errstate(over="ignore", invalid="ignore"):
            self.spread += part.spread + (part.mean - self.mean) ** 2 * self.seen * part.seen / rows
            self.squares, self.sizes, self.total = (
                self.squares + part.squares, self.sizes + part.sizes, self.total + part.total
            )  # fmt: skip
            self.largest = float(np.maximum(self.largest, part.largest))  # NaN stays
        self.mean, self.seen = self.mean + (part.mean - self.mean) * part.seen / rows, rows
        self.kept += part.kept

    def figures(self, rows: int, workers: Workers) -> dict[str, Any]:
        """See `Tally`."""
        if self.top is not None:
            self.total = largest_losses(self.loss, np.concatenate(self.kept), self.top)
        known = 0.0 < self.spread < math.inf and self.squares < math.inf
        return {
            "rows": rows,
            "loss": None if self.loss is None else self.total / rows,
            "mean_squared_error": self.squares / rows,
            "mean_absolute_error": self.sizes / rows,
            "largest_error": self.largest,
            "r2": 1.0 - self.squares / self.spread if known else None,
        }


class OfSeveral:
    """Figures of several labels or numbers of a row, (m, outputs): those of each, and their means."""

    def __init__(self, outputs: Sequence[str], each: Sequence[Tally], joint: Any = None) -> None:
        """joint: the loss of all numbers of a row together, or None."""
        self.outputs, self.each, self.joint, self.total = outputs, each, joint, 0.0
        self.right = 0  # rows of which all labels are right

    def known(self, source: AnyRows, start: int, given: np.ndarray) -> tuple[np.ndarray, list[Any]]:
        """See `Tally`: numbers (m, outputs), and what each output makes of its own."""
        why = f"{source.name}: the labels of several columns are no numbers, but the model predicts numbers"
        labels = given.reshape(len(given), -1)
        numbers = number_rows(labels, why, shifted(source.label_place, start), self.outputs)
        return numbers, [tally.known(source, start, numbers[:, k].copy()) for k, tally in enumerate(self.each)]

    def judged(self, labels: tuple[np.ndarray, list[Any]], scores: np.ndarray) -> tuple[list[Any], float, int]:
        """See `Tally`: what each output adds, the loss of all together, and rows of which all labels are right."""
        from streammargin.compiled.predict import total_of_residuals

        numbers, known = labels
        parts = [tally.judged(known[k], scores[:, k : k + 1].copy()) for k, tally in enumerate(self.each)]
        total = 0.0 if self.joint is None else total_of_residuals(self.joint, scores - numbers)
        return parts, total, int(np.count_nonzero(((scores > 0.0) == (numbers == 1.0)).all(axis=1)))

    def add(self, part: tuple[list[Any], float, int]) -> None:
        """See `Tally`."""
        for tally, one in zip(self.each, part[0], strict=True):
            tally.add(one)
        self.total, self.right = self.total + part[1], self.right + part[2]

    def figures(self, rows: int, workers: Workers) -> dict[str, Any]:
        """See `Tally`."""
        parts = [tally.figures(rows, workers) for tally in self.each]
        found: dict[str, Any] = {}
        for name, first in parts[0].items():
            values = [part[name] for part in parts]
            if name in ("mistakes", "largest_error"):
                found[name] = sum(values) if name == "mistakes" else max(values)
            elif first is None or isinstance(first, float):
                found[name] = _mean(values)
        if self.joint is not None:
            found["loss"] = self.total / rows
        if "mistakes" in found:
            found["subset_accuracy"] = self.right / rows
        named = [{"output": output, **part} for output, part in zip(self.outputs, parts, strict=True)]
        return {"rows": rows, **found, "per_output": named}
