"""A model: turns scores into labels or numbers, and evaluates them, block by block."""

from __future__ import annotations

import contextlib
import logging
import math
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from streammargin.driver.plan import column_names
from streammargin.errors import DataError, UsageError
from streammargin.files import as_path
from streammargin.losses import is_numeric, make_loss
from streammargin.losses.base import Loss, called, has
from streammargin.model.columns import ERROR, checked, match, matching_bytes
from streammargin.model.evaluation import OfClasses, OfNumbers, Tally
from streammargin.model.file import NAMES, write_model
from streammargin.model.probability import METHOD, able, probabilities
from streammargin.points.base import Answer, answered
from streammargin.points.table import kind_of
from streammargin.sizes import parse_size
from streammargin.sources.base import Source
from streammargin.sources.labels import LabelCursor
from streammargin.sources.names import equal, held_bytes, packed
from streammargin.sources.open import opened
from streammargin.wording import shown

LOG = logging.getLogger("streammargin")
_BUDGET = 96 << 20  # for blocks of rows, where none is given
_SCORES = 1 << 20  # bytes of scores, or of labels, at a time: a block in memory may be all rows


class Model:
    """Predicts labels, or numbers for a regressor, from the scores of an answer (see `answer`).

    classes_ : (2,) or (k,) labels; (0,) for a regressor, whose score is its prediction;
    header : dict of plain values: options, certificate, how training ended;
    feature_names_in_ : (d,) column names, objects of type str, or None;
    problem : arrays that, with the header's `problem`, define the objective (docs/format.md); {} where unknown

    Where both rows and model have column names, columns are matched by name; the logger "streammargin" reports it.
    missing_columns: "zero" treats columns that the rows lack as 0, "error" refuses such rows. Columns unknown to the
    model are always refused. Rows without names are matched by position.
    """

    _answer: Answer

    def __init__(
        self, answer: Answer, classes: np.ndarray, header: dict[str, Any], names: np.ndarray | None = None
    ) -> None:
        self._answer = answer
        self._keep(classes, header, names)

    def _keep(self, classes: np.ndarray, header: dict[str, Any], names: np.ndarray | None) -> None:
        self.classes_, self.header, self.feature_names_in_ = np.asarray(classes), header, names
        self.problem: dict[str, np.ndarray] = {}
        self._said: set[str] = set()  # warnings logged so far; each is logged once

    @property
    def answer(self) -> Answer:
        """Computes the scores: 1 per row for a regressor or two classes (above 0: classes_[1]), else k."""
        return self._answer

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

    def _answer_for(self, source: Source, memory: int, held: int, missing_columns: str) -> Answer:
        """The answer with weights in the order of the source's columns; held: bytes of the budget used already."""
        answer, known, given = self.answer, self.feature_names_in_, None
        if known is not None:
            given = column_names(source, memory, held)
        if known is not None and given is not None and not equal(known, given):
            order, said = match(known, given, source, memory, missing_columns, held)
            self._say(said)
            return answer.for_columns(order, len(given))
        if source.features != answer.features:
            raise DataError(
                f"{source.name} has {source.features} features but the model was trained on {answer.features}; "
                "give it the same columns, with: streammargin-data convert IN OUT.h5 --like MODEL"
            )
        if known is not None and given is None:
            self._say(f"{source.name} has no column names, though the model has: columns are matched by position")
        return answer

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            LOG.warning(text, extra={"code": "columns"})

    def score_blocks(
        self, source: Source, memory: int | None = None, missing_columns: str = ERROR
    ) -> Iterator[tuple[int, int, np.ndarray]]:
        """(start, stop, scores (stop - start, k)) over a source, in order, within `memory` bytes, the model included.

        None: 96 MiB besides the model and the column names. Raises DataError when the columns are not the model's,
        UsageError for a budget that is too small.
        """
        from streammargin.driver.prefetch import read_blocks

        held = self.nbytes
        if memory is None:
            names = self.feature_names_in_
            memory = held + _BUDGET + (0 if names is None else matching_bytes(names, source))
        answer = self._answer_for(source, memory, held, checked(missing_columns))
        rows = max(1, min(1 << 16, _SCORES // max(8 * answer.outputs, self.classes_.dtype.itemsize)))
        for start, stop, block in read_blocks(source, memory, held):
            for low in range(0, stop - start, rows):
                high = min(stop - start, low + rows)
                scores = np.empty((high - low, answer.outputs))
                answer.score(block, low, scores)
                bad = np.flatnonzero(~np.isfinite(scores).all(axis=1))
                if bad.size:
                    where, row = source.place(start + low + int(bad[0]))
                    raise DataError(f"{where}: the score of row {row} overflows; divide the rows by a constant")
                yield start + low, start + high, scores

    def labels_of(self, scores: np.ndarray) -> np.ndarray:
        """Labels (m,) for scores (m, k); for a regressor the scores."""
        if self.numeric:
            return scores[:, 0].copy()
        return self.classes_[answered(scores)]

    def decision_function(self, data: Any, *, missing_columns: str = ERROR) -> np.ndarray:
        """Scores (n,), or (n, k) for several classes, float64; data as for `streammargin.train`."""
        with opened(data) as source:
            out = np.empty((source.rows, self.answer.outputs))
            for start, stop, scores in self.score_blocks(source, missing_columns=missing_columns):
                out[start:stop] = scores
        return out[:, 0] if out.shape[1] == 1 else out

    def predict(self, data: Any, *, missing_columns: str = ERROR) -> np.ndarray:
        """Predicted labels, or numbers, (n,)."""
        with opened(data) as source:
            out = np.empty(source.rows, self.classes_.dtype)
            for start, stop, scores in self.score_blocks(source, missing_columns=missing_columns):
                out[start:stop] = self.labels_of(scores)
        return out

    def predict_proba(self, data: Any, *, missing_columns: str = ERROR) -> np.ndarray:
        """Probabilities (n, k) of the classes in the order of `classes_`, float64, for a model with the logistic loss.

        For two classes, that of the second is 1 / (1 + exp(-score)). For several, each is that of its own score,
        divided by the row's sum, as in LIBLINEAR. Raises UsageError where the model was trained with another loss.
        """
        loss = self.check_probabilities()
        with opened(data) as source:
            out = np.empty((source.rows, len(self.classes_)))
            for start, stop, scores in self.score_blocks(source, missing_columns=missing_columns):
                out[start:stop] = probabilities(loss, scores)
        return out

    def check_probabilities(self) -> Any:
        """The loss that turns scores into probabilities. Raises UsageError where the model's loss does not."""
        if self.numeric:
            raise UsageError("the model predicts numbers, and has no probabilities of classes; use predict")
        word = self._loss()
        loss = None if word is None else word.terms()
        known = has(loss, METHOD)
        if not known or math.isinf(float(self.header.get("C", 1.0))):
            trained = "C = inf" if known else f"the loss {self.header.get('loss', 'hinge')}"
            raise UsageError(
                f"a model that was trained with {trained} has no probabilities; train with {able()} and a finite `C`, "
                "or calibrate its scores with CalibratedClassifierCV of scikit-learn"
            )
        return loss

    def evaluate(
        self, data: Any, *, x: str | None = None, y: Any = None, memory: str | int | None = None, loss: Any = None,
        missing_columns: str = ERROR,
    ) -> dict[str, Any]:  # fmt: skip
        """Accuracy, mistakes, mean loss and smallest margin on labelled data, streamed.

        memory: bytes, or text like 512M, for the model and blocks of rows; None: 96 MiB beside the model.
        loss: the loss to average, a word or an object; by default that of the training. In the result, `loss` is the
        mean, summed over the classes; with the field top, the sum of the largest losses divided by all rows. It is None
        where the model was trained with a user's own loss, or an epsilon for each row, and none is given. `margin` is
        the smallest y (x.w + b) / ||w||_p, None for several classes. Raises DataError for unknown labels.
        For a regressor: rows, loss, mean_squared_error, mean_absolute_error, largest_error and r2, the explained share
        of the variance (None where all targets are equal).
        """
        word = self._loss() if loss is None else make_loss(loss)
        memory = None if memory is None else parse_size(memory)
        tally = self._tally(word)
        with opened(data, x=x, y=y) as source:
            labels = LabelCursor(source.labels())
            for start, stop, scores in self.score_blocks(source, memory, missing_columns):
                tally.add(source, start, labels.take(stop - start), scores)
            return tally.figures(source.rows)

    def _tally(self, word: Loss | None) -> Tally:
        """An object that sums the figures, and this loss. Raises UsageError for a loss of another kind."""
        from streammargin.compiled.overloads import expose

        loss, top = (None, None) if word is None else (word.terms(), getattr(word, "top", None))
        if loss is not None and not has(loss, "primal"):
            raise UsageError(f"the loss {called(loss)} has no method primal, so its mean cannot be computed")
        if loss is not None and is_numeric(loss) != self.numeric:
            raise UsageError(f"the model predicts {'numbers' if self.numeric else 'classes'}; give a loss for these")
        expose(type(loss))
        if self.numeric:
            return OfNumbers(loss, top)
        length = self.answer.length(float(self.header.get("p", 2.0)))
        return OfClasses(self.classes_, self.header.get("positive"), loss, top, length)

    def _loss(self) -> Loss | None:
        """The loss that the model was trained with; None for a user's own object, and for one of the training rows."""
        with contextlib.suppress(UsageError):
            loss = make_loss(self.header.get("loss", "hinge"))
            return loss if getattr(loss, "epsilons", None) is None else None
        return None

    def save(self, path: str | os.PathLike, force: bool = False) -> None:
        """Write the model file; an existing one only with force. Raises OutputError, ReadWriteError."""
        answer = self.answer
        arrays = {**answer.arrays(), "classes": self.classes_, **self.problem}
        if self.feature_names_in_ is not None:
            arrays[NAMES] = packed(self.feature_names_in_)
        if not isinstance(force, (bool, np.bool_)):
            raise UsageError(f"force must be True or False, not {shown(force)}")
        write_model(as_path(path), kind_of(answer), arrays, self.header, bool(force))
