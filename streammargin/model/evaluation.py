"""Figures of scores on labelled rows, added up block by block: of classes, and of numbers."""

from __future__ import annotations

import contextlib
import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from streammargin.errors import DataError, UsageError
from streammargin.losses import is_numeric
from streammargin.losses.base import Loss, called, coupled, has, lifted, margin_shift
from streammargin.matching import Codes
from streammargin.model.ranking import Ranking, ranked, rows_in
from streammargin.model.rows import AnyRows, ModelRows, told_row
from streammargin.model.scoring import BUDGET, Scorer
from streammargin.points.base import Answer, answered, exact
from streammargin.reading.plan import least_budget
from streammargin.sources.base import Source
from streammargin.sources.labels import LabelCursor, class_values, distinct, number_rows, number_values, shifted
from streammargin.sources.names import listed
from streammargin.wording import counted, short
from streammargin.workers import Workers

MOST_CONFUSED, MOST_RANKED = 1000, 20  # most classes of a confusion matrix, and of AUC and average precision
PAIRS = 10  # classes that are taken for another, in `most_confused`
AMONG = (2, 3, 5, 10)  # the label is among so many classes of the largest scores
# least bytes for ranks, of those that a plan leaves free; if there is room, one of so many bytes of the budget
_RANKS, _RANKED = 4 << 20, 8
_FLAT, _THIRDS = 50.0, 120  # margins from which a loss is 0; steps of a search for a minimum


class Tally(ABC):
    """Takes the rows of a source, some at a time, and tells their figures. `judged` runs on several cores at once."""

    @abstractmethod
    def known(self, source: AnyRows, piece: ModelRows, given: np.ndarray) -> Any:
        """Labels (m,) as they are stored, of these rows, as `judged` takes them. Raises DataError."""

    @abstractmethod
    def judged(self, labels: Any, scores: np.ndarray) -> Any:
        """The sums that some rows with scores (m, k) add to the figures; changes nothing."""

    @abstractmethod
    def add(self, part: Any) -> None:
        """Add what `judged` found; in the order of the rows."""

    @abstractmethod
    def figures(self, rows: int) -> dict[str, Any]:
        """The figures of `Model.evaluate` for this many rows."""


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


class JudgedRows(NamedTuple):
    """Some rows: their classes and the predicted ones (m,), the smallest margin, sums, margins if kept, and ranks."""

    codes: np.ndarray
    guess: np.ndarray
    smallest: float
    total: float
    margins: np.ndarray | None
    ranks: list[np.ndarray]
    among: list[int]
    surprise: tuple[float, float]


@dataclass
class OfClasses(Tally):
    """Mistakes, losses and the smallest margin of labels.

    classes: (k,) labels; rest: the label that was told from all others, or None; loss: terms, or None; top: how many
    of the largest losses count, None for all; length: of the weights of two classes, in the norm of the penalty; most:
    rows of each ranking in memory; workers: who sorts them. kept: margins, if only the largest losses count.
    """

    classes: np.ndarray
    rest: Any
    loss: Any
    top: float | None
    length: float
    most: int
    workers: Workers
    probable: Callable[[np.ndarray], np.ndarray] | None
    smallest: float = math.inf
    total: float = 0.0
    surprise: float = 0.0
    doubt: float = 0.0
    kept: list[np.ndarray] = field(default_factory=list)

    def __post_init__(self) -> None:
        k = len(self.classes)
        self.confusion = np.zeros((k, k), np.int64) if k <= MOST_CONFUSED else None
        self.rankings: list[Ranking] = [Ranking(self.most, self.workers) for _ in range(rankings(k))]
        self.among: dict[int, int] = {n: 0 for n in AMONG if n < k}
        self.codes: Codes = Codes(self.classes, self.rest, "the evaluated rows")
        self.counts: np.ndarray = np.zeros(k, np.int64)
        self.correct: np.ndarray = np.zeros(k, np.int64)
        self.guessed: np.ndarray = np.zeros(k, np.int64)

    def known(self, source: AnyRows, piece: ModelRows, given: np.ndarray) -> np.ndarray:
        """Numbers of the classes of these rows (m,). Raises DataError for a label that the model does not know."""
        raw = class_values(given, source.name, shifted(source.label_place, piece.first))
        values, inverse = distinct(raw)
        codes = np.array(self.codes.of(values), np.intp)[inverse]
        if np.any(codes < 0):
            bad = int(np.flatnonzero(codes < 0)[0])
            raise DataError(
                f"{told_row(source, piece.first + bad)} has the label {short(raw[bad])}, unknown to the model; "
                f"its labels are {self.codes.matcher.listed()}; correct the label, or leave such rows out"
            )
        return codes

    def judged(self, labels: np.ndarray, scores: np.ndarray) -> JudgedRows:
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
        return JudgedRows(codes, answered(scores), smallest, total, kept, ranks, among, surprise)

    def _among(self, codes: np.ndarray, scores: np.ndarray) -> list[int]:
        """How many labels are among the classes of the largest scores; ties count against it, as in scikit-learn."""
        if not self.among:
            return []
        own = np.take_along_axis(scores, codes[:, None], axis=1)
        ahead = np.arange(scores.shape[1]) > codes[:, None]
        larger = (scores > own).sum(axis=1) + ((scores == own) & ahead).sum(axis=1)
        return [int(np.count_nonzero(larger < n)) for n in self.among]

    def _surprise(self, codes: np.ndarray, scores: np.ndarray) -> tuple[float, float]:
        """Minus the sum of the logarithms of the probabilities of the labels, and of the mean by the probabilities."""
        if self.probable is None:
            return 0.0, 0.0
        p = np.clip(self.probable(scores), np.finfo(np.float64).eps, 1.0 - np.finfo(np.float64).eps)
        told = -np.log(p)
        return float(np.take_along_axis(told, codes[:, None], axis=1).sum()), float(np.sum(p * told))

    def add(self, part: JudgedRows) -> None:
        codes, guess, size = part.codes, part.guess, len(self.counts)
        self.smallest, self.total = min(self.smallest, part.smallest), self.total + part.total
        self.surprise, self.doubt = self.surprise + part.surprise[0], self.doubt + part.surprise[1]
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

    def figures(self, rows: int) -> dict[str, Any]:
        if self.top is not None:
            self.total = largest_losses(self.loss, np.concatenate(self.kept), self.top)
        mistakes = rows - int(self.correct.sum())
        there = self.counts > 0
        recall = _shares(self.correct, self.counts)
        precision = _shares(self.correct, self.guessed)
        f1 = _shares(2 * self.correct, self.counts + self.guessed)
        known = there | (self.guessed > 0)  # as scikit-learn has it: classes of labels or of predictions
        ranked = [ranking.figures() for ranking in self.rankings]
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
            "entropy": None if self.probable is None else self.doubt / rows,
            "top_k": {str(n): seen / rows for n, seen in self.among.items()},
            "confusion": None if self.confusion is None else self.confusion.tolist(),
            "most_confused": None if self.confusion is None else most_confused(self.classes, self.confusion),
        }  # fmt: skip


def most_confused(classes: np.ndarray, confusion: np.ndarray) -> list[dict[str, Any]]:
    """The PAIRS of a label and a wrong prediction with the most rows, of a confusion matrix (k, k); no empty ones."""
    wrong = np.where(np.eye(len(confusion), dtype=bool), 0, confusion)
    order = np.argsort(-wrong, axis=None, kind="stable")[:PAIRS]
    pairs = zip(*np.unravel_index(order[wrong.flat[order] > 0], wrong.shape), strict=True)
    return [{"label": str(classes[i]), "predicted": str(classes[j]), "rows": int(wrong[i, j])} for i, j in pairs]


def _shares(parts: np.ndarray, wholes: np.ndarray) -> np.ndarray:
    """parts / wholes, 0 if there is no whole."""
    return np.divide(parts, wholes, out=np.zeros(len(parts)), where=wholes > 0)


def _mean(values: list[float | None]) -> float | None:
    """The mean; None if one of them is missing, or there are none."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


@dataclass
class OfNumbers(Tally):
    """Errors of predicted numbers; loss: terms, or None; top: how many of the largest losses count, None for all.

    mean, spread: of the numbers, the sum of squares about the mean; kept: residuals, if the largest losses count.
    """

    loss: Any
    top: float | None
    squares: float = 0.0
    sizes: float = 0.0
    largest: float = 0.0
    total: float = 0.0
    mean: float = 0.0
    spread: float = 0.0
    seen: int = 0
    kept: list[np.ndarray] = field(default_factory=list)

    def known(self, source: AnyRows, piece: ModelRows, given: np.ndarray) -> np.ndarray:
        """Numbers (m,)."""
        why = f"{source.name}: the labels are not numbers, but the model predicts numbers"
        return number_values(given, why, shifted(source.label_place, piece.first))

    def judged(self, labels: np.ndarray, scores: np.ndarray) -> OfNumbers:
        """The figures of these rows alone."""
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
        rows = self.seen + part.seen
        with np.errstate(over="ignore", invalid="ignore"):
            self.spread += part.spread + (part.mean - self.mean) ** 2 * self.seen * part.seen / rows
            self.squares, self.sizes = self.squares + part.squares, self.sizes + part.sizes
            self.total += part.total
            self.largest = float(np.maximum(self.largest, part.largest))  # NaN stays
        self.mean, self.seen = self.mean + (part.mean - self.mean) * part.seen / rows, rows
        self.kept += part.kept

    def figures(self, rows: int) -> dict[str, Any]:
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


@dataclass
class OfSeveral(Tally):
    """Figures of several labels or numbers of a row, (m, outputs): those of each, and their means.

    joint: the loss of all numbers of a row together, or None. right: rows of which all labels are right.
    """

    outputs: Sequence[str]
    each: Sequence[Tally]
    joint: Any = None
    total: float = 0.0
    right: int = 0

    def known(self, source: AnyRows, piece: ModelRows, given: np.ndarray) -> tuple[np.ndarray, list[Any]]:
        """Numbers (m, outputs), and what each output makes of its own."""
        why = f"{source.name}: the labels of several columns are not numbers, but the model predicts numbers"
        labels = given.reshape(len(given), -1)
        numbers = number_rows(labels, why, shifted(source.label_place, piece.first), self.outputs)
        return numbers, [tally.known(source, piece, numbers[:, k].copy()) for k, tally in enumerate(self.each)]

    def judged(self, labels: tuple[np.ndarray, list[Any]], scores: np.ndarray) -> tuple[list[Any], float, int]:
        """The sums of each output, the loss of all together, and the rows whose labels are all right."""
        from streammargin.compiled.predict import total_of_residuals

        numbers, known = labels
        parts = [tally.judged(known[k], scores[:, k : k + 1].copy()) for k, tally in enumerate(self.each)]
        total = 0.0 if self.joint is None else total_of_residuals(self.joint, scores - numbers)
        return parts, total, int(np.count_nonzero(((scores > 0.0) == (numbers == 1.0)).all(axis=1)))

    def add(self, part: tuple[list[Any], float, int]) -> None:
        for tally, one in zip(self.each, part[0], strict=True):
            tally.add(one)
        self.total, self.right = self.total + part[1], self.right + part[2]

    def figures(self, rows: int) -> dict[str, Any]:
        parts = [tally.figures(rows) for tally in self.each]
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


@np.errstate(all="ignore")  # figures may overflow, and say so
def judged(
    model: Scorer,
    source: AnyRows,
    y: Any,
    made: Callable[[int, Workers], Tally],
    memory: int | None,
    missing_columns: str,
    workers: Workers,
) -> dict[str, Any]:
    """The figures of `Model.evaluate` on these rows; made: of bytes for ranks, what sums them; others are as there."""
    rows = 0
    ranks = _bytes_for_ranks(model, source, memory)
    tally = made(ranks, workers)
    stored = LabelCursor(source.labels()) if isinstance(source, Source) else None

    def labelled(pieces: list[ModelRows]) -> Iterator[tuple[ModelRows, Any]]:
        """The pieces with their labels as the tally takes them; in order, as labels of files are."""
        nonlocal rows
        for piece in pieces:
            labels = piece.labels if stored is None else stored.take(piece.block.rows())
            if labels is None:
                raise DataError(f"{source.name} has no labels; name them with `y`, or use predict, which needs none")
            _check_outputs(model, source, labels)
            yield piece, tally.known(source, piece, labels)
            rows += piece.block.rows()

    for answer, pieces in model.pieces(source, memory, missing_columns, workers, ranks - _RANKS):
        for part in workers.each(functools.partial(_judged, model, tally, source, exact(answer)), labelled(pieces)):
            tally.add(part)
    return tally.figures(rows)


def _check_outputs(model: Scorer, source: AnyRows, labels: np.ndarray) -> None:
    """DataError if labels (m,) or (m, outputs) are not as many as the model predicts."""
    given, own = labels.shape[1] if labels.ndim == 2 else 1, len(model.outputs or [""])
    if given != own:
        columns = f"{counted(own, 'column')} of labels" + (f" ({listed(model.outputs)})" if model.outputs else "")
        raise DataError(
            f"{source.name} has {counted(given, 'column')} of labels, but the model predicts {columns}; name those "
            "with `y`"
        )


def _bytes_for_ranks(model: Scorer, source: AnyRows, memory: int | None) -> int:
    """Bytes of ranks in memory, if the least blocks leave room for more than a few; arrays take no room."""
    share = (BUDGET if memory is None else memory) // _RANKED
    if isinstance(source, Source):
        if memory is None and source.whole() is not None:
            share = BUDGET // 2
        elif memory is not None:
            share = min(share, memory - least_budget(source, model.nbytes))
    return max(_RANKS, share)


def tally_of(model: Scorer, word: Loss | None, memory: int, workers: Workers) -> Tally:
    """An object that sums the figures, and this loss, with ranks in `memory` bytes.

    Raises UsageError for a loss of another kind.
    """
    from streammargin.compiled.overloads import expose

    loss, top = (None, None) if word is None else (model.terms_of(word), getattr(word, "top", None))
    if loss is not None and not (has(loss, "primal") or coupled(loss)):
        raise UsageError(f"the loss {called(loss)} has no method primal, so its mean cannot be computed")
    if loss is not None and is_numeric(loss) != model.numeric:
        raise UsageError(f"the model predicts {'numbers' if model.numeric else 'classes'}; give a loss for these")
    expose(type(loss))
    if model.outputs is not None:
        joint = loss if coupled(loss) else None
        if word is not None:
            loss = word.of_one()
            expose(type(loss))
        most = rows_in(memory, len(model.outputs))
        parts = [_tally_of_one(model, loss, top, 0.0, most, workers) for _ in model.outputs]
        return OfSeveral(model.outputs, parts, joint)
    length = 0.0 if model.tasks else model.answer.length(float(model.header.get("p", 2.0)))
    return _tally_of_one(model, loss, top, length, rows_in(memory, rankings(len(model.classes_))), workers)


def _tally_of_one(model: Scorer, loss: Any, top: float | None, length: float, most: int, workers: Workers) -> Tally:
    """The figures of one label or number of a row; most: rows of a ranking in memory."""
    if model.numeric:
        return OfNumbers(loss, top)
    probable = None
    with contextlib.suppress(UsageError):
        probable = model.probabilities_of(each=True)
    return OfClasses(model.classes_, model.header.get("positive"), loss, top, length, most, workers, probable)


@np.errstate(all="ignore")  # on another thread
def _judged(model: Scorer, tally: Tally, source: AnyRows, answer: Answer, asked: tuple[ModelRows, Any]) -> Any:
    piece, labels = asked
    return tally.judged(labels, model.scored(source, answer, piece).scores)
