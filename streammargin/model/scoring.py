"""Score the rows of a source or a table, piece by piece, on several cores at once; the meaning of scores."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import numpy as np

from streammargin.errors import DataError, UsageError
from streammargin.losses import losses_with, make_loss
from streammargin.losses.base import Loss, has
from streammargin.model.columns import ERROR, ZERO, checked, matching_bytes, order_of
from streammargin.model.rows import AnyRows, ModelRows, TaskedRows, rows_of
from streammargin.numpy_model import log_odds
from streammargin.points.base import Answer, answered
from streammargin.points.linear import LinearPoint
from streammargin.points.tasks import own_scores
from streammargin.points.transformed import Transformed
from streammargin.reading.tasks import numbers_of
from streammargin.rows.blocks import nbytes
from streammargin.sources.base import Source
from streammargin.sources.checks import check_block
from streammargin.sources.columns import R, reordered
from streammargin.sources.labels import LabelCursor
from streammargin.sources.names import ALL_COLUMNS, COMMON, held_bytes
from streammargin.transforms.base import RowFault
from streammargin.transforms.chain import Chain
from streammargin.wording import warn
from streammargin.workers import ALONE, Workers

BUDGET = 96 << 20  # bytes for blocks of rows, if none are given
# of a piece of a block, which may be all rows: most rows, most bytes of its scores or labels, and of the rows
_PIECE_ROWS, _SCORES, _PIECE_BYTES = 1 << 15, 1 << 18, 8 << 20
METHOD = "log_likelihood"  # the method of a loss whose scores give probabilities, of a binary problem each
OF_ALL = "log_likelihoods"  # the same of a loss of all scores of a row


class ScoredRows(NamedTuple):
    """Scores (m, k) of the rows from `start` on, and names of rows, if asked for."""

    start: int
    scores: np.ndarray
    ids: tuple[np.ndarray, ...] = ()


class Scorer:
    """An answer with its labels: what scores rows, and says what scores mean. Its attributes are those of `Model`."""

    def __init__(
        self, answer: Answer, classes: np.ndarray, header: dict[str, Any], names: np.ndarray | None = None
    ) -> None:
        self._answer: Answer = answer
        self._keep(classes, header, names)

    def _keep(self, classes: np.ndarray, header: dict[str, Any], names: np.ndarray | None) -> None:
        self.classes_: np.ndarray = np.asarray(classes)
        self.header: dict[str, Any] = header
        self.feature_names_in_: np.ndarray | None = names
        self.problem: dict[str, np.ndarray] = {}
        self.calibration: dict[str, np.ndarray] = {}  # what makes probabilities of scores, if the loss does not
        self.steps: Chain | None = None  # that rows take before the answer
        self._said: set[str] = set()  # warnings logged so far; each is logged once

    @property
    def answer(self) -> Answer:
        """Computes the scores: 1 per row for a regressor or two classes (above 0: classes_[1]), else k.

        With several outputs, each has one.
        """
        return self._answer

    @property
    def outputs(self) -> list[str] | None:
        """The names of the columns of the labels (n, outputs) that it predicts; None if rows have one label."""
        return self.header.get("outputs")

    @property
    def tasks(self) -> list[Any] | None:
        """The names of the tasks, whose weights are the rows of `coef_`; None if all rows have the same weights."""
        return self.header.get("tasks")

    @property
    def numeric(self) -> bool:
        """Whether it is a regressor."""
        return len(self.classes_) == 0

    @property
    def nbytes(self) -> int:
        """Bytes of the model in memory while scoring."""
        return sum(array.nbytes for array in self.answer.arrays().values()) + self.classes_.nbytes + self._names_bytes

    @property
    def _names_bytes(self) -> int:
        return 0 if self.feature_names_in_ is None else held_bytes(self.feature_names_in_)

    def say_once(self, text: str) -> None:
        """Log a warning about columns, each once."""
        if text not in self._said:
            self._said.add(text)
            warn(text, "columns")

    @property
    def of_files(self) -> str | None:
        """COMMON or ALL_COLUMNS, if the files of the training had other columns than each other, and it took them."""
        return (self.header.get("problem") or {}).get("names", {}).get("columns")

    def shared(self, missing_columns: str) -> str | None:
        """The columns to take of several files to score, whose columns differ; None if they may not."""
        every = self.of_files == ALL_COLUMNS or checked(missing_columns) == ZERO
        return None if self.of_files is None else ALL_COLUMNS if every else COMMON

    def with_columns(self, rows: R, missing_columns: str, memory: int | None) -> R:
        """The rows with the columns of the model alone, if the files of the training had other ones than each other."""
        known = self.feature_names_in_
        if self.of_files is None or known is None:
            return rows
        if memory is None:
            memory = self.nbytes + BUDGET + (matching_bytes(known, rows) if isinstance(rows, Source) else 0)
        order, said = order_of(known, rows, memory, checked(missing_columns), self.nbytes, self.of_files)
        if said:
            self.say_once(said)
        return rows if order is None else reordered(rows, order, known)

    def _answer_for(self, rows: AnyRows, missing_columns: str, memory: int = 0, held: int = 0) -> Answer:
        """The answer with weights in the order of these rows' columns.

        memory: most bytes for the names of a source; held: those used already.
        """
        answer = self.answer
        order, said = order_of(self.feature_names_in_, rows, memory, missing_columns, held)
        if order is None and rows.features != answer.features:
            stored = isinstance(rows, Source)
            hint = ", with: streammargin-data convert IN OUT.h5 --like MODEL" if stored else ""
            raise DataError(
                f"{rows.name} has {rows.features} {'features' if stored else 'columns,'} but the model was trained on "
                f"{answer.features}; give it the same columns{hint}"
            )
        if said:
            self.say_once(said)
        if self.steps is not None:
            return self._behind_steps(answer, rows.features, order)
        return answer if order is None else answer.for_columns(order, rows.features)

    def _behind_steps(self, answer: Answer, features: int, order: np.ndarray | None) -> Answer:
        """The answer for rows as stored, with these columns."""
        return answer if self.steps is None else cast(Any, Transformed(answer, self.steps, features, order))

    def score_blocks(
        self, source: AnyRows, memory: int | None = None, missing_columns: str = ERROR, workers: Workers = ALONE,
        made: Callable[[np.ndarray], np.ndarray] = np.asarray,
    ) -> Iterator[ScoredRows]:  # fmt: skip
        """The scores over a source or a table, in order, within `memory` bytes, the model included.

        None: 96 MiB besides the model and the column names. made: of the scores, what takes their place. Raises
        DataError when the columns are not the model's, UsageError for a budget that is too small.
        """
        for answer, pieces in self.pieces(source, memory, missing_columns, workers):

            def scored(piece: ModelRows, answer: Answer = answer) -> ScoredRows:
                found = self.scored(source, answer, piece)
                return found._replace(scores=made(found.scores))

            yield from workers.each(scored, pieces)

    def pieces(
        self, source: AnyRows, memory: int | None, missing_columns: str, workers: Workers, beside: int = 0
    ) -> Iterator[tuple[Answer, list[ModelRows]]]:
        """The scorer of the rows, and the pieces of each block; beside: further bytes of the budget."""
        if not isinstance(source, Source):
            answer = self.answer if source.matched else self._answer_for(source, checked(missing_columns))
            answer = self._behind_steps(answer, source.features, None) if source.matched else answer
            for rows in rows_of(source):
                raw, place = rows.tasks, source.place
                tasks = None if raw is None else numbers_of(raw, self.tasks or (), source.name, place, rows.first)
                yield answer, self._cut(answer, rows._replace(tasks=tasks))
            return
        from streammargin.reading.prefetch import read_blocks

        held = self.nbytes
        if memory is None:
            names = self.feature_names_in_
            memory = held + BUDGET + (0 if names is None else matching_bytes(names, source))
        answer = self._answer_for(source, checked(missing_columns), memory, held)
        of = source.tasks if isinstance(source, TaskedRows) else None
        cursors = [LabelCursor(each.labels()) for each in source.names] if isinstance(source, TaskedRows) else []
        checks = source.sparse or of is not None or not isinstance(answer, LinearPoint)  # else scores show faults
        for first, stop, block in read_blocks(source, memory, held + beside, workers, checks):
            tasks = None if of is None else of[first:stop]
            ids = tuple(cursor.take(stop - first) for cursor in cursors)
            yield answer, self._cut(answer, ModelRows(first, block, None, ids, tasks))

    def _cut(self, answer: Answer, rows: ModelRows) -> list[ModelRows]:
        """The rows in pieces, which do not depend on the number of threads; their tasks are numbers."""
        count, each = rows.block.rows(), max(8 * answer.outputs, self.classes_.dtype.itemsize)
        most = min(_PIECE_ROWS, _SCORES // each, _PIECE_BYTES * count // max(1, nbytes(rows.block)))
        ends = [*range(0, count, max(1, most)), count]
        return [rows.part(low, high) for low, high in itertools.pairwise(ends)]

    @np.errstate(all="ignore")  # what overflows is told
    def scored(self, source: AnyRows, answer: Answer, rows: ModelRows) -> ScoredRows:
        """The scores of some rows. Raises DataError if one overflows."""
        scores = np.empty((rows.block.rows(), answer.outputs if rows.tasks is None else 1))
        try:
            if rows.tasks is None:
                answer.score(rows.block, 0, scores)
            elif isinstance(answer, Transformed):
                own_scores(answer.answer, answer.rows(rows.block), rows.tasks, answer.outputs, scores)
            else:
                own_scores(answer, rows.block, rows.tasks, answer.outputs, scores)
        except RowFault as fault:
            raise DataError(f"{source.told(rows.first + fault.row)}{fault.told(self.feature_names_in_)}") from None
        bad = np.flatnonzero(~np.isfinite(scores).all(axis=1))
        if bad.size:
            if isinstance(source, Source):
                check_block(source, rows.block, rows.first)
            raise self._overflow(source, rows, int(bad[0]))
        return ScoredRows(rows.first, scores, rows.ids)

    def _overflow(self, source: AnyRows, rows: ModelRows, row: int) -> DataError:
        where, place = source.place(rows.first + row)
        return DataError(f"{where}: the score of row {place} overflows; divide the rows by a constant")

    def labels_of(self, scores: np.ndarray) -> np.ndarray:
        """Labels (m,) for scores (m, k), or (m, outputs); for a regressor the scores."""
        if self.numeric:
            return scores[:, 0].copy() if self.outputs is None else scores.copy()
        if self.outputs is not None:
            return self.classes_[(scores > 0.0).astype(np.intp)]
        return self.classes_[self.places_of(scores)]

    def places_of(self, scores: np.ndarray) -> np.ndarray:
        """The places (m,) in `classes_` of the labels for scores (m, k)."""
        return answered(scores)

    def probabilities_of(self, each: bool = False) -> Callable[[np.ndarray], np.ndarray]:
        """The function from scores (m, k) to probabilities; each: from those of one of several outputs.

        Raises UsageError if the model has none.
        """
        if self.calibration and not self.numeric and self.outputs is None:
            return self._calibrated
        loss = self._probable_loss()
        return functools.partial(probabilities if self.outputs is None or each else of_labels, loss)

    def _calibrated(self, scores: np.ndarray) -> np.ndarray:
        """Probabilities (m, k) by calibration: each class against the rest, divided by the row's sum."""
        return probabilities(make_loss("logistic").of_one(), log_odds(scores, self.calibration))

    def _probable_loss(self) -> Any:
        """The loss that turns scores into probabilities. Raises UsageError if the model's loss does not."""
        if self.numeric:
            raise UsageError("the model predicts numbers, and has no probabilities of classes; use predict")
        word = self.trained_loss()
        loss = None if word is None else self.terms_of(word)
        known = has(loss, METHOD) or has(loss, OF_ALL)
        if not known or math.isinf(float(self.header.get("C", 1.0))):
            trained = "C = inf" if known else f"the loss {self.header.get('loss', 'hinge')}"
            raise UsageError(
                f"a model that was trained with {trained} has no probabilities; train with {able()} and a finite `C`, "
                "or with `calibrate=sigmoid` and `cv=5`, as CalibratedClassifierCV of scikit-learn does"
            )
        return loss

    def terms_of(self, word: Loss) -> Any:
        """The terms of a loss: if all classes have one W, those of its form for all classes at once."""
        joint = word.joint() if self.header.get("multiclass") == "joint" and len(self.classes_) > 2 else None
        if joint is None:
            return word.of_one() if self.answer.outputs == 1 or self.tasks else word.terms()
        return joint

    def trained_loss(self) -> Loss | None:
        """The loss that the model was trained with; None for a user's own object, and for one of the training rows."""
        with contextlib.suppress(UsageError):
            loss = make_loss(self.header.get("loss", "hinge"))
            return loss if getattr(loss, "epsilons", None) is None else None
        return None


def of_labels(loss: Any, scores: np.ndarray) -> np.ndarray:
    """Probabilities (m, outputs) that labels are 1, from scores (m, outputs), each by itself."""
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + np.exp(loss.log_likelihood(-scores) - loss.log_likelihood(scores)))


def probabilities(loss: Any, scores: np.ndarray) -> np.ndarray:
    """Probabilities (m, k) of k classes from scores (m, 1) of two classes or (m, k) of several; rows sum to 1.

    For several classes trained one against the rest, each probability is that of the class's own score, divided by the
    row's sum. The division is done in logarithms, as all probabilities of a row may underflow.
    """
    if has(loss, OF_ALL):
        return np.exp(loss.log_likelihoods(scores))
    found = loss.log_likelihood(np.hstack([-scores, scores]) if scores.shape[1] == 1 else scores)
    found = np.exp(found - found.max(axis=1, keepdims=True))
    return found / found.sum(axis=1, keepdims=True)


def able() -> str:
    """The losses whose scores give probabilities, for messages."""
    return " or ".join(f"`loss={name}`" for name in losses_with([METHOD]))
