"""A model: turns scores into labels or numbers, and evaluates them, block by block."""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import math
import os
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np

from streammargin.driver.plan import column_names, least_budget
from streammargin.driver.tasks import column_of, matched, numbers_of
from streammargin.errors import DataError, UsageError
from streammargin.files import as_path
from streammargin.kinds import threads_of
from streammargin.losses import is_numeric, make_loss
from streammargin.losses.base import Loss, called, coupled, has
from streammargin.model.columns import ERROR, checked, match, matched_order, matching_bytes, order_of
from streammargin.model.evaluation import OfClasses, OfNumbers, OfSeveral, Tally, rankings
from streammargin.model.file import NAMES, write_model
from streammargin.model.probability import METHOD, OF_ALL, able, of_labels, probabilities
from streammargin.model.ranking import rows_in
from streammargin.model.rows import TABLE, AnyRows, Ordered
from streammargin.model.tasked import Tasked
from streammargin.ordered import columns_of, is_matrix, is_table
from streammargin.points.base import Answer, answered
from streammargin.points.table import kind_of
from streammargin.points.tasks import own_scores
from streammargin.rows.blocks import Block, nbytes
from streammargin.rows.blocks import part as rows_of
from streammargin.sizes import parse_size
from streammargin.sources.arrays import as_array
from streammargin.sources.base import Source
from streammargin.sources.label_column import ATTRIBUTE
from streammargin.sources.labels import LabelCursor
from streammargin.sources.names import equal, held_bytes, listed, packed
from streammargin.sources.open import opened
from streammargin.sources.schema import Schema
from streammargin.wording import counted, shown
from streammargin.workers import ALONE, Workers

LOG = logging.getLogger("streammargin")
_BUDGET = 96 << 20  # for blocks of rows, where none is given
# least bytes for ranks, of those that a plan leaves free; where there is room, one of so many bytes of the budget
_RANKS, _RANKED = 4 << 20, 8
# of a piece of a block, which may be all rows: most rows, most bytes of its scores or labels, and of the rows
_PIECE_ROWS, _SCORES, _PIECE = 1 << 15, 1 << 18, 8 << 20


class Scored(NamedTuple):
    """Scores (m, k) of the rows from `start` on; of a table with labels (m,) and names of rows, if asked for."""

    start: int
    scores: np.ndarray
    labels: np.ndarray | None = None
    ids: np.ndarray | None = None


class Piece(NamedTuple):
    """Some rows of a block, to be scored: low .. high of those from `first` on; labels and names as of `Scored`.

    tasks (m,): the numbers of their tasks, whose lines alone score them; None for rows of no task.
    """

    block: Block
    first: int
    low: int
    high: int
    labels: np.ndarray | None
    ids: np.ndarray | None
    tasks: np.ndarray | None


class Model:
    """Predicts labels, or numbers for a regressor, from the scores of an answer (see `answer`).

    classes_ : (2,) or (k,) labels; (0,) for a regressor, whose scores are its predictions;
    outputs : names of the columns of the labels (n, outputs) that it predicts; None where rows have one label;
    tasks : names of the tasks, each with weights of its own; None where all rows have the same weights;
    header : dict of plain values: options, certificate, how training ended;
    feature_names_in_ : (d,) column names, objects of type str, or None;
    problem : arrays that, with the header's `problem`, define the objective (docs/format.md); {} where unknown

    Where both rows and model have column names, columns are matched by name; the logger "streammargin" reports it.
    missing_columns: "zero" treats columns that the rows lack as 0, "error" refuses such rows. Columns unknown to the
    model are always refused. Rows without names are matched by position.
    """

    of_pairs: ClassVar[bool] = False  # it predicts the entries of a matrix
    classes_: np.ndarray
    feature_names_in_: np.ndarray | None
    header: dict[str, Any]
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
        """Computes the scores: 1 per row for a regressor or two classes (above 0: classes_[1]), else k.

        With several outputs, each has one.
        """
        return self._answer

    @property
    def outputs(self) -> list[str] | None:
        """The names of the columns of the labels (n, outputs) that it predicts; None where rows have one label."""
        return self.header.get("outputs")

    @property
    def tasks(self) -> list[Any] | None:
        """The names of the tasks, whose weights are the rows of `coef_`; None where all rows have the same weights."""
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

    def _answer_by_name(self, rows: Ordered, missing_columns: str) -> Answer:
        """The answer with weights in the order of the columns of a file of numbers."""
        answer, known, given = self.answer, self.feature_names_in_, rows.names
        if known is not None and given is not None and not equal(known, given):
            order, unknown = order_of(known, given, rows.name)
            order, said = matched_order(known, order, unknown, rows.name, checked(missing_columns))
            self._say(said)
            return answer.for_columns(order, len(given))
        if rows.features != answer.features:
            raise DataError(
                f"{rows.name} has {rows.features} columns, but the model was trained on {answer.features}; give it the "
                "same columns"
            )
        return answer

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            LOG.warning(text, extra={"code": "columns"})

    @property
    def schema(self) -> Schema | None:
        """How the rows were made of a table; None for a model of other rows. Raises DataError for a damaged one."""
        plain = self.header.get(TABLE)
        if plain is None:
            return None
        try:
            schema = Schema.from_plain(plain)
            if schema.features != self.answer.features:
                raise ValueError("its schema has other columns than its weights")
            return schema
        except ValueError as fault:
            raise DataError(f"the model is damaged: {fault}; train it again, or restore a backup") from None

    @contextlib.contextmanager
    def rows_of(self, data: Any, *, x: str | None = None, y: Any = None, labelled: bool = False,
                unknown: str = ERROR, id: str = "", tasks: Any = None, memory: int | None = None
                ) -> Iterator[AnyRows]:  # fmt: skip
        """The rows to score: a source, or a table in order, as the model's schema makes them.

        labelled: with labels, in the column `y` of a table, by default the one of the training; id: the column of the
        names of rows; tasks: that of their tasks, or an array. memory: bytes for reading rows in order.
        """
        tasks = self._asked_tasks(tasks)
        schema, y = self.schema, columns_of(y) or y
        of_table = is_table(data) and (schema is not None or isinstance(data, (str, os.PathLike, list)))
        if of_table or is_matrix(data):
            from streammargin.model.tables import Known, Wanted, in_order

            label = self.header.get(ATTRIBUTE)
            known = Known(schema, self.feature_names_in_, self.answer.features, label, self.outputs or ())
            with in_order(data, known, Wanted(x, y, labelled, unknown, id, tasks, memory)) as rows:
                yield rows
            return
        if unknown != ERROR or id:
            raise UsageError("`unknown` and `id` are for tables; leave them out")
        with contextlib.ExitStack() as stack:
            source = stack.enter_context(opened(data, x=x, y=y))
            if tasks is None:
                yield source
                return
            yield Tasked(source, matched(column_of(stack, tasks, data, x, source), self.tasks or ()))

    def _asked_tasks(self, tasks: Any) -> Any:
        """The tasks of rows: as given, or in the column that had them in training. Raises UsageError without one."""
        if self.tasks is None:
            if tasks is not None:
                raise UsageError("all rows have the same weights in this model; leave out `tasks`")
            return None
        problem = self.header.get("problem") or {}
        tasks = problem.get("names", {}).get("tasks") if tasks is None else tasks
        if tasks is None:
            raise UsageError(
                f"the model has weights for each of {len(self.tasks)} tasks; give those of the rows with `tasks`"
            )
        return tasks

    def score_blocks(
        self, source: AnyRows, memory: int | None = None, missing_columns: str = ERROR, workers: Workers = ALONE
    ) -> Iterator[Scored]:
        """The scores over a source or a table, in order, within `memory` bytes, the model included.

        None: 96 MiB besides the model and the column names. Raises DataError when the columns are not the model's,
        UsageError for a budget that is too small.
        """
        for answer, pieces in self._pieces(source, memory, missing_columns, workers):
            yield from workers.each(functools.partial(self._scored, source, answer), pieces)

    def _pieces(
        self, source: AnyRows, memory: int | None, missing_columns: str, workers: Workers, beside: int = 0
    ) -> Iterator[tuple[Answer, list[Piece]]]:
        """What scores the rows, and a few pieces of them at a time; beside: further bytes of the budget."""
        if not isinstance(source, Source):
            answer = self.answer if source.matched else self._answer_by_name(source, missing_columns)
            for first, block, labels, ids, raw in source.blocks():
                tasks = None if raw is None else numbers_of(raw, self.tasks or (), source.name, source.place, first)
                yield from self._cut(answer, workers, first, block, (labels, ids, tasks))
            return
        from streammargin.driver.prefetch import read_blocks

        held = self.nbytes
        if memory is None:
            names = self.feature_names_in_
            memory = held + _BUDGET + (0 if names is None else matching_bytes(names, source))
        answer = self._answer_for(source, memory, held, checked(missing_columns))
        of = source.tasks if isinstance(source, Tasked) else None
        for first, stop, block in read_blocks(source, memory, held + beside, workers):
            tasks = None if of is None else of[first:stop]
            yield from self._cut(answer, workers, first, block, (None, None, tasks))

    def _cut(
        self, answer: Answer, workers: Workers, first: int, block: Block, beside: tuple[np.ndarray | None, ...]
    ) -> Iterator[tuple[Answer, list[Piece]]]:
        """The pieces of a block, which do not depend on the number of threads; beside: labels, names and tasks."""
        each = max(8 * answer.outputs, self.classes_.dtype.itemsize)
        most = min(_PIECE_ROWS, _SCORES // each, _PIECE * block.rows() // max(1, nbytes(block)))
        ends = [*range(0, block.rows(), max(1, most)), block.rows()]
        pieces = [
            Piece(block, first, low, high, *(None if one is None else one[low:high] for one in beside))
            for low, high in itertools.pairwise(ends)
        ]
        for start in range(0, len(pieces), 2 * workers.threads):
            yield answer, pieces[start : start + 2 * workers.threads]

    def _scored(self, source: AnyRows, answer: Answer, piece: Piece) -> Scored:
        scores = np.empty((piece.high - piece.low, answer.outputs if piece.tasks is None else 1))
        if piece.tasks is None:
            answer.score(piece.block, piece.low, scores)
        else:
            own_scores(answer, rows_of(piece.block, piece.low, piece.high), piece.tasks, answer.outputs, scores)
        bad = np.flatnonzero(~np.isfinite(scores).all(axis=1))
        if bad.size:
            where, row = source.place(piece.first + piece.low + int(bad[0]))
            raise DataError(f"{where}: the score of row {row} overflows; divide the rows by a constant")
        return Scored(piece.first + piece.low, scores, piece.labels, piece.ids)

    def labels_of(self, scores: np.ndarray) -> np.ndarray:
        """Labels (m,) for scores (m, k), or (m, outputs); for a regressor the scores."""
        if self.numeric:
            return scores[:, 0].copy() if self.outputs is None else scores.copy()
        if self.outputs is not None:
            return self.classes_[(scores > 0.0).astype(np.intp)]
        return self.classes_[answered(scores)]

    def decision_function(
        self, data: Any, *, tasks: Any = None, missing_columns: str = ERROR, unknown: str = "error",
        threads: int | str | None = None,
    ) -> np.ndarray:  # fmt: skip
        """Scores (n,), or (n, k) for several classes or outputs, float64; data as for `streammargin.train`, tables too.

        tasks: the task of each row, of a model with tasks: an array, or the name of a column, as in training.
        unknown: whether a word of a table that no row of the training had is an "error", or counts as none, "zero".
        threads: how many score rows at the same time, or "all" cores; None: 1.
        """
        out = self._of_rows(data, tasks, missing_columns, unknown, threads, lambda scores: scores)
        return out[:, 0] if out.shape[1] == 1 and self.outputs is None else out

    def predict(
        self, data: Any, *, tasks: Any = None, missing_columns: str = ERROR, unknown: str = "error",
        threads: int | str | None = None,
    ) -> np.ndarray:  # fmt: skip
        """Predicted labels, or numbers, (n,), or (n, outputs); arguments as for `decision_function`."""
        return self._of_rows(data, tasks, missing_columns, unknown, threads, self.labels_of)

    def predict_proba(
        self, data: Any, *, tasks: Any = None, missing_columns: str = ERROR, unknown: str = "error",
        threads: int | str | None = None,
    ) -> np.ndarray:  # fmt: skip
        """Probabilities (n, k) of the classes in the order of `classes_`, float64, for a model with the logistic loss.

        For two classes, that of the second is 1 / (1 + exp(-score)). For several it is the softmax of their scores;
        with `multiclass=ovr` that of its own score, divided by the row's sum, as in LIBLINEAR. With several outputs,
        (n, outputs): each label's own, of being 1. Raises UsageError where the model was trained with another loss.
        """
        return self._of_rows(data, tasks, missing_columns, unknown, threads, self.probabilities_of())

    def probabilities_of(self) -> Callable[[np.ndarray], np.ndarray]:
        """What makes probabilities of scores (m, k). Raises UsageError where the model has none."""
        loss = self.check_probabilities()
        return functools.partial(probabilities if self.outputs is None else of_labels, loss)

    def _of_rows(
        self, data: Any, tasks: Any, missing_columns: str, unknown: str, threads: int | str | None,
        made: Callable[[np.ndarray], np.ndarray],
    ) -> np.ndarray:  # fmt: skip
        """What is made of the scores (m, k) of all rows, one after the other."""
        with (
            self.rows_of(data, unknown=unknown, tasks=tasks) as rows,
            contextlib.closing(Workers(threads_of(threads))) as workers,
        ):
            scored = self.score_blocks(rows, None, missing_columns, workers)
            parts = (made(part.scores) for part in scored)
            if not isinstance(rows, Source):
                return np.concatenate(list(parts))
            out: np.ndarray | None = None
            start = 0
            for part in parts:  # into one array: no second copy of all of them
                out = np.empty((rows.rows, *part.shape[1:]), part.dtype) if out is None else out
                out[start : start + len(part)] = part
                start += len(part)
            assert out is not None
            return out

    def check_probabilities(self) -> Any:
        """The loss that turns scores into probabilities. Raises UsageError where the model's loss does not."""
        if self.numeric:
            raise UsageError("the model predicts numbers, and has no probabilities of classes; use predict")
        word = self._loss()
        loss = None if word is None else self._terms(word)
        known = has(loss, METHOD) or has(loss, OF_ALL)
        if not known or math.isinf(float(self.header.get("C", 1.0))):
            trained = "C = inf" if known else f"the loss {self.header.get('loss', 'hinge')}"
            raise UsageError(
                f"a model that was trained with {trained} has no probabilities; train with {able()} and a finite `C`, "
                "or calibrate its scores with CalibratedClassifierCV of scikit-learn"
            )
        return loss

    def evaluate(
        self, data: Any, *, x: str | None = None, y: Any = None, tasks: Any = None, memory: str | int | None = None,
        loss: Any = None, missing_columns: str = ERROR, unknown: str = "error", threads: int | str | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Accuracy, mistakes, mean loss and smallest margin on labelled data, streamed.

        memory: bytes, or text like 512M, for the model and blocks of rows; None: 96 MiB beside the model.
        loss: the loss to average, a word or an object; by default that of the training. In the result, `loss` is the
        mean, summed over the classes; with the field top, the sum of the largest losses divided by all rows. It is None
        where the model was trained with a user's own loss, or an epsilon for each row, and none is given. `margin` is
        the smallest y (x.w + b) / ||w||_p, None for several classes. The other figures are those of scikit-learn:
        precision, recall and F1 of each class and their means (macro), balanced accuracy, and the confusion matrix
        (labels by predictions). ROC AUC and average precision are, of up to 20 classes, the mean over each against the
        rest. `log_loss` is None without probabilities. `top_k` has the share of rows whose label is among the k largest
        scores. Raises DataError for unknown labels.
        For a regressor: rows, loss, mean_squared_error, mean_absolute_error, largest_error and r2. The last one is the
        explained share of the variance, None where all targets are equal.
        With several outputs the figures are means of those of each, in `per_output`; mistakes are added up, and
        `subset_accuracy` is the share of rows of which all labels are right.
        """
        word = self._loss() if loss is None else make_loss(loss)
        memory = None if memory is None else parse_size(memory)
        rows = 0
        with (
            self.rows_of(data, x=x, y=y, labelled=True, unknown=unknown, tasks=tasks, memory=memory) as source,
            contextlib.closing(Workers(threads_of(threads))) as workers,
        ):
            ranks = self._bytes_for_ranks(source, memory)
            tally = self._tally(word, ranks)
            stored = LabelCursor(source.labels()) if isinstance(source, Source) else None
            if not isinstance(source, Source) and y is not None and not isinstance(y, str) and not columns_of(y):
                stored = LabelCursor(iter([as_array(y, "y")]))

            def known(piece: Piece) -> Any:
                """The labels of the piece as the tally takes them; in order, as labels of files are."""
                labels = piece.labels if stored is None else stored.take(piece.high - piece.low)
                if labels is None:
                    raise DataError(f"{source.name} has no labels; name them with `y`")
                self._check_outputs(source, labels)
                return tally.known(source, piece.first + piece.low, labels)

            for answer, pieces in self._pieces(source, memory, missing_columns, workers, ranks - _RANKS):
                asked: list[Callable[[], Any]] = []
                for piece in pieces:
                    scored = functools.partial(self._scored, source, answer, piece)
                    try:
                        asked.append(functools.partial(_judged, tally, known(piece), scored))
                    except DataError as error:  # after those of the rows before
                        asked.append(functools.partial(_raise, error))
                        break
                for part in workers.each(lambda ask: ask(), asked):
                    tally.add(part)
                rows += pieces[-1].high - pieces[0].low
            return tally.figures(rows, workers)

    def _check_outputs(self, source: AnyRows, labels: np.ndarray) -> None:
        """DataError where labels (m,) or (m, outputs) are not as many as the model predicts."""
        given, own = labels.shape[1] if labels.ndim == 2 else 1, len(self.outputs or [""])
        if given != own:
            columns = f"{counted(own, 'column')} of labels" + (f" ({listed(self.outputs)})" if self.outputs else "")
            raise DataError(
                f"{source.name} has {counted(given, 'column')} of labels, but the model predicts {columns}; name those "
                "with `y`"
            )

    def _bytes_for_ranks(self, source: AnyRows, memory: int | None) -> int:
        """Bytes of ranks in memory, where the least blocks leave room for more than a few; arrays take no room."""
        share = (_BUDGET if memory is None else memory) // _RANKED
        if isinstance(source, Source):
            if memory is None and source.whole() is not None:
                share = _BUDGET // 2
            elif memory is not None:
                share = min(share, memory - least_budget(source, self.nbytes))
        return max(_RANKS, share)

    def _tally(self, word: Loss | None, memory: int) -> Tally:
        """An object that sums the figures, and this loss, with ranks in `memory` bytes.

        Raises UsageError for a loss of another kind.
        """
        from streammargin.compiled.overloads import expose

        loss, top = (None, None) if word is None else (self._terms(word), getattr(word, "top", None))
        if loss is not None and not (has(loss, "primal") or coupled(loss)):
            raise UsageError(f"the loss {called(loss)} has no method primal, so its mean cannot be computed")
        if loss is not None and is_numeric(loss) != self.numeric:
            raise UsageError(f"the model predicts {'numbers' if self.numeric else 'classes'}; give a loss for these")
        expose(type(loss))
        if self.outputs is not None:
            joint = loss if coupled(loss) else None
            if word is not None:
                loss = word.of_one()
                expose(type(loss))
            most = rows_in(memory, len(self.outputs))
            parts = [self._tally_of_one(loss, top, 0.0, most) for _ in self.outputs]
            return OfSeveral(self.outputs, parts, joint)
        length = 0.0 if self.tasks else self.answer.length(float(self.header.get("p", 2.0)))
        return self._tally_of_one(loss, top, length, rows_in(memory, rankings(len(self.classes_))))

    def _tally_of_one(self, loss: Any, top: float | None, length: float, most: int) -> Tally:
        """The figures of one label or number of a row; most: rows of a ranking in memory."""
        if self.numeric:
            return OfNumbers(loss, top)
        probable = None
        with contextlib.suppress(UsageError):
            probable = functools.partial(probabilities, self.check_probabilities())
        return OfClasses(self.classes_, self.header.get("positive"), loss, top, length, most, probable)

    def _terms(self, word: Loss) -> Any:
        """The terms of a loss: where all classes have one W, those of its form for all classes at once."""
        joint = word.joint() if self.header.get("multiclass") == "joint" and len(self.classes_) > 2 else None
        if joint is None:
            return word.of_one() if self.answer.outputs == 1 or self.tasks else word.terms()
        return joint

    def _loss(self) -> Loss | None:
        """The loss that the model was trained with; None for a user's own object, and for one of the training rows."""
        with contextlib.suppress(UsageError):
            loss = make_loss(self.header.get("loss", "hinge"))
            return loss if getattr(loss, "epsilons", None) is None else None
        return None

    def save(self, path: str | os.PathLike[str], force: bool = False) -> None:
        """Write the model file; an existing one only with force. Raises OutputError, ReadWriteError."""
        answer = self.answer
        arrays = {**answer.arrays(), "classes": self.classes_, **self.problem}
        if self.feature_names_in_ is not None:
            arrays[NAMES] = packed(self.feature_names_in_)
        if not isinstance(force, (bool, np.bool_)):
            raise UsageError(f"force must be True or False, not {shown(force)}")
        write_model(as_path(path), kind_of(answer), arrays, self.header, bool(force))


def _judged(tally: Tally, labels: Any, scored: Callable[[], Scored]) -> Any:
    return tally.judged(labels, scored().scores)


def _raise(error: DataError) -> None:
    raise error
