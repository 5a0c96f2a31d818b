"""A model: turns scores into labels or numbers. `scoring.py` finds the scores, and `evaluation.py` judges them."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np

from streammargin.errors import DataError, NoSuchRowsError, UsageError
from streammargin.files import as_path
from streammargin.kinds import threads_of
from streammargin.losses import make_loss
from streammargin.model.columns import ERROR
from streammargin.model.evaluation import Tally, judged, tally_of
from streammargin.model.file import FEATURE_NAMES, MOMENTS, write_model
from streammargin.model.rows import TABLE, AnyRows, TaskedRows
from streammargin.model.scoring import Scorer
from streammargin.ordered import columns_of, is_matrix, is_table
from streammargin.points.table import kind_of
from streammargin.reading.tasks import column_of, matched
from streammargin.report.page import Facts
from streammargin.report.page import brief as brief_page
from streammargin.saved.words import are_trained_on, held_out_rows
from streammargin.sizes import parse_size
from streammargin.sources.arrays import is_anndata
from streammargin.sources.base import Source
from streammargin.sources.kinds import is_zarr
from streammargin.sources.labels import TASKS
from streammargin.sources.names import ALL_COLUMNS, packed, packed_texts
from streammargin.sources.open import check_files, is_path, is_shards, name_of_labels, open_source, opened, paths_of
from streammargin.sources.schema import Schema
from streammargin.wording import brief, shown
from streammargin.workers import Workers


class Model(Scorer):
    """Predicts labels, or numbers for a regressor, from the scores of an answer (see `answer`).

    classes_ : (2,) or (k,) labels; (0,) for a regressor, whose scores are its predictions;
    outputs : names of the columns of the labels (n, outputs) that it predicts; None if rows have one label;
    tasks : names of the tasks, each with weights of its own; None if all rows have the same weights;
    header : dict of plain values: options, certificate, how training ended;
    feature_names_in_ : (d,) column names, objects of type str, or None;
    moments : means and standard deviations (d,) of the columns in the training rows, or None;
    steps : what rows go through before the answer (`transform`, and a scale that clips), or None;
    problem : arrays that, with the header's `problem`, define the objective (docs/model_file.md); {} if unknown;
    calibration : arrays that make probabilities of scores (docs/model_file.md); {} if the loss does, or nothing.

    If both rows and model have column names, columns are matched by name, otherwise by position.
    `missing_columns`: "zero" takes columns that the rows lack as 0, "error" refuses such rows. Columns unknown to the
    model are refused, but for a model of files whose columns differ, which leaves them out.
    """

    of_pairs: ClassVar[bool] = False  # it predicts the entries of a matrix
    moments: tuple[np.ndarray, np.ndarray] | None = None

    def __repr__(self) -> str:
        asked = {
            name: self.header.get(name) for name in ("transform", "kernel", "map", "loss", "penalty", "C", "converged")
        }
        return brief(self, **self._size(), **asked)

    def _repr_html_(self) -> str:
        """What notebooks show: whether it is proven, the first figures, and the columns that matter most."""
        return brief_page(Facts(self))

    def _size(self) -> dict[str, int | None]:
        """How many there are of what the model knows; None for what it has not."""
        counts = {"classes": self.classes_, "outputs": self.outputs or (), "tasks": self.tasks or ()}
        return {"features": self.header.get("features"), **{name: len(known) or None for name, known in counts.items()}}

    @property
    def held_out_rows(self) -> int | None:
        """How many rows of the training a share held out, such as `valid=20%`; None without one."""
        return held_out_rows(self.header.get("rows"), (self.header.get("problem") or {}).get("left_out"))

    def was_trained_on(self, figures: dict[str, Any], same_path: bool = False) -> bool | None:
        """Whether rows with these figures of `evaluate` are those of the training; None: they may be.

        same_path: the training read them from the same path; then it is enough that they are as many.
        """
        if same_path and figures and figures["rows"] == self.header.get("rows"):
            return True
        return are_trained_on(self.header, figures)

    @functools.cached_property
    def schema(self) -> Schema | None:
        """How the rows were made of a table; None for a model of other rows."""
        plain = self.header.get(TABLE)
        return None if plain is None else Schema.from_plain(plain)

    @contextlib.contextmanager
    def rows_of(self, data: Any, *, x: str | None = None, y: Any = None, mask: str | None = None,
                labelled: bool = False, unknown: str = ERROR, id: tuple[str, ...] = (), tasks: Any = None,
                memory: int | None = None, missing_columns: str = ERROR) -> Iterator[AnyRows]:  # fmt: skip
        """The rows to score: a source, or a table in order, as the model's schema makes them.

        `labelled`: with labels, in the column `y` of a table, by default the one of the training. `id`: columns of
        names of rows. `tasks`: the column of their tasks, or an array. `memory`: bytes for reading rows in order.
        `missing_columns`: whether columns that a table lacks are an "error" or "zero". For sources it is said later.
        """
        of_training, tasks = tasks is None, self.asked_tasks(tasks)
        schema, y = self.schema, columns_of(y) or y
        if mask is not None:
            check_files(data, y, tasks)
        of_table = is_table(data) and (schema is not None or isinstance(data, (str, os.PathLike, list)))
        if not of_table:
            x = self.rows_before(data, x)
            y = self._labels_before(data, x) if labelled and y is None else y
        if of_table or is_matrix(data):
            from streammargin.model.tables import WantedRows, in_order

            wanted = WantedRows(x, y, labelled, unknown, id, tasks, memory, missing_columns, mask)
            with in_order(data, self, schema, wanted) as rows:
                self.say_other_rows(x)
                yield rows
            return
        if unknown != ERROR:
            raise UsageError("`unknown` is for tables; leave it out")
        if labelled and y is None and schema is not None and (is_path(data) or is_shards(data)):
            y = name_of_labels(data, schema.labels)
        with contextlib.ExitStack() as stack:
            columns = self.shared(missing_columns)
            source = stack.enter_context(opened(data, x=x, y=y, mask=mask, columns=columns))
            source = self.with_columns(source, missing_columns, memory)
            names = [stack.enter_context(_names_of_rows(data, x, name, mask)) for name in id]
            numbers = None
            if tasks is not None:
                own = TASKS if of_training and schema is not None else tasks  # as rows of a table are written
                numbers = matched(column_of(stack, own, data, x, source), self.tasks or ())
            self.say_other_rows(x)
            yield TaskedRows(source, numbers, names) if names or tasks is not None else source

    def asked_tasks(self, tasks: Any) -> Any:
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

    @property
    def _rows_of_training(self) -> str | None:
        """The name of the rows of the training, as layers/counts; None for X, and if they had none."""
        found: str | None = (self.header.get("problem") or {}).get("names", {}).get("x")
        return found

    def say_other_rows(self, asked: str | None) -> None:
        """Warn of rows that are not called as those of the training, once they are found."""
        x = self._rows_of_training
        if x is not None and asked is not None and x.strip("/") != asked.strip("/"):
            self.say_once(f"the model was trained on {x}, and {asked} is scored")

    def rows_before(self, data: Any, asked: str | None) -> str | None:
        """The name that is asked for, or that of the rows of the training, as layers/counts.

        None for X, and for data without names of rows. Cells of anndata in memory or zarr must have rows of this name.
        In other files X is scored, and a warning says so.
        """
        x = self._rows_of_training
        if asked is not None:
            return asked
        if x is None or is_anndata(data):
            return x
        if not (is_path(data) or is_shards(data)):
            return None
        if is_matrix(data):
            from streammargin.model.tables import has_rows

            if has_rows(paths_of(data), x):
                return str(x)
        else:
            try:
                with opened(data, x=x, columns=ALL_COLUMNS):
                    return str(x)
            except NoSuchRowsError:
                pass
            except DataError:
                return str(x)  # the error comes again with the labels, whose names it tells
        told = ", ".join(paths_of(data))
        if _is_cells(data):
            raise DataError(f"the model's rows were {x}; {told} has no array or group {x}; name the rows with `x`")
        self.say_once(f"the model was trained on {x}, and {told} lacks it: X is scored instead")
        return None

    def _labels_before(self, data: Any, x: str | None) -> str | None:
        """The name of the labels of the training, beside the rows `x`; None if unknown, or that of another file.

        If a file has `y` but no labels of this name, such as a converted one, `y` is judged, with a message.
        """
        y = (self.header.get("problem") or {}).get("names", {}).get("y")
        if y is None or ":" in y or y.endswith(".npy") or not (_is_cells(data) or is_path(data) or is_shards(data)):
            return None
        if _is_cells(data) or is_matrix(data):
            return y if _is_cells(data) else None
        for name in (y, None):
            with contextlib.suppress(DataError), opened(data, x=x, y=name, columns=ALL_COLUMNS) as source:
                source.outputs()
                if name is None:
                    told = ", ".join(paths_of(data))
                    self.say_once(f"the model was trained on {y}, and {told} has no such labels: those of y are judged")
                return name
        return str(y)  # the error says what is there

    def decision_function(
        self, data: Any, *, tasks: Any = None, missing_columns: str = ERROR, unknown: str = "error",
        threads: int | str | None = None,
    ) -> np.ndarray:  # fmt: skip
        """Scores (n,), or (n, k) for several classes or outputs, float64; data as for `streammargin.train`, tables too.

        `tasks`: the task of each row, for a model with tasks: an array, or the name of a column, as in training.
        `unknown`: whether an unknown category of a table is an "error", or counts as zeros, "zero".
        `threads`: number of threads, or "all" cores. None: 1.
        """
        out = self._of_rows(data, np.asarray, threads, tasks=tasks, missing_columns=missing_columns, unknown=unknown)
        return out[:, 0] if out.shape[1] == 1 and self.outputs is None else out

    def predict(
        self, data: Any, *, tasks: Any = None, missing_columns: str = ERROR, unknown: str = "error",
        threads: int | str | None = None,
    ) -> np.ndarray:  # fmt: skip
        """Predicted labels, or numbers, (n,), or (n, outputs); arguments as for `decision_function`."""
        made = self.labels_of
        return self._of_rows(data, made, threads, tasks=tasks, missing_columns=missing_columns, unknown=unknown)

    def predict_proba(
        self, data: Any, *, tasks: Any = None, missing_columns: str = ERROR, unknown: str = "error",
        threads: int | str | None = None,
    ) -> np.ndarray:  # fmt: skip
        """Probabilities (n, k) of the classes in the order of `classes_`, float64: of the logistic loss, or calibrated.

        For two classes the second has 1 / (1 + exp(-score)). Several classes have the softmax of their scores; with
        `multiclass=ovr` each has the probability of its own score, divided by the row's sum, as in LIBLINEAR. For
        several outputs, (n, outputs): the probability that each label is 1. A calibrated model has the probability of
        each class against the rest, learned from held-out scores, divided by the row's sum. UsageError for others.
        """
        made = self.probabilities_of()
        return self._of_rows(data, made, threads, tasks=tasks, missing_columns=missing_columns, unknown=unknown)

    def _of_rows(
        self, data: Any, made: Callable[[np.ndarray], np.ndarray], threads: int | str | None = None, **asked: Any
    ) -> np.ndarray:
        """The results of `made` for the scores (m, k) of all rows, one after the other; asked: as for `rows_of`."""
        missing = asked.get("missing_columns", ERROR)
        with self.rows_of(data, **asked) as rows, contextlib.closing(Workers(threads_of(threads))) as workers:
            parts = (part.scores for part in self.score_blocks(rows, None, missing, workers, made))
            if not isinstance(rows, Source):
                return np.concatenate(list(parts) or [made(np.empty((0, self.answer.outputs)))])
            out: np.ndarray | None = None
            start = 0
            for part in parts:  # into one array: no second copy of all of them
                out = np.empty((rows.rows, *part.shape[1:]), part.dtype) if out is None else out
                out[start : start + len(part)] = part
                start += len(part)
            assert out is not None
            return out

    def evaluate(
        self, data: Any, *, x: str | None = None, y: Any = None, tasks: Any = None, memory: str | int | None = None,
        loss: Any = None, missing_columns: str = ERROR, unknown: str = "error", threads: int | str | None = None,
        mask: str | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Accuracy, mistakes, mean loss and smallest margin on labelled data, streamed.

        `memory`: bytes, or text like 512M, for the model and blocks of rows. None: 96 MiB beside the model.
        `mask`: COLUMN=VALUE, the rows of files that are judged.
        `loss`: the loss to average, its name or an object. By default it is that of the training.

        In the result, `loss` is the mean, summed over the classes; with the parameter top, the sum of the largest
        losses divided by all rows. It is None if the training had your own loss, or an epsilon for each row, and none
        is given. `margin` is the smallest y (x.w + b) / ||w||_p, None for several classes. The other figures are those
        of scikit-learn: precision, recall and F1 of each class and their means (macro), and balanced accuracy.
        `confusion` is the matrix of labels by predictions, None for more than 1,000 classes. `most_confused` has its
        ten pairs of a label and a wrong prediction with the most rows. ROC AUC and average precision are the mean over
        each class against the rest, for up to 20 classes. `log_loss` and `entropy`, the mean of the probabilities' own,
        are None without probabilities. `top_k` has the share of rows whose label is among the k largest scores. Raises
        DataError for unknown labels.

        For a regressor: rows, loss, mean_squared_error, mean_absolute_error, largest_error and r2, which is None if
        all targets are equal.

        For several outputs the figures are means over the outputs, each of which is in `per_output`. Mistakes are added
        up; `subset_accuracy` is the share of rows with all labels right.
        """
        tally = functools.partial(tally_of, self, self.trained_loss() if loss is None else make_loss(loss))
        return self._judged(
            data,
            tally,
            memory,
            threads,
            x=x,
            y=y,
            tasks=tasks,
            missing_columns=missing_columns,
            unknown=unknown,
            mask=mask,
        )

    def _judged(
        self, data: Any, tally: Callable[[int, Workers], Tally], memory: Any, threads: int | str | None, y: Any,
        missing_columns: str = ERROR, **asked: Any,
    ) -> dict[str, Any]:  # fmt: skip
        """The figures that `tally` sums up; the others are as for `evaluate`."""
        memory = None if memory is None else parse_size(memory)
        rows = self.rows_of(data, y=y, labelled=True, memory=memory, missing_columns=missing_columns, **asked)
        with rows as source, contextlib.closing(Workers(threads_of(threads))) as workers:
            return judged(self, source, y, tally, memory, missing_columns, workers)

    def save(self, path: str | os.PathLike[str], force: bool = False) -> None:
        """Write the model file; an existing one only with force. Raises OutputError, ReadWriteError."""
        answer = self.answer
        arrays = {**answer.arrays(), "classes": packed_texts(self.classes_), **self.problem, **self.calibration}
        arrays |= {} if self.steps is None else self.steps.arrays()
        arrays |= {name: packed(texts) for name, texts in self._names().items()}
        arrays |= dict(zip(MOMENTS, self.moments or (), strict=False))
        if not isinstance(force, (bool, np.bool_)):
            raise UsageError(f"force must be True or False, not {shown(force)}")
        write_model(as_path(path), kind_of(answer), arrays, self.header, bool(force))

    def to_sklearn(self) -> Any:
        """A fitted pipeline of scikit-learn that predicts the same: for programs without this package.

        Its steps are the columns of a table, the scale, the map, and an estimator of scikit-learn with these weights.
        Labels are equal, and scores up to rounding. Scores of a calibrated model are log odds, and the label is the
        most probable class. UsageError for a model that has none: kernel machines, tasks, dates, numbers with a unit,
        and some columns in front of a map. Without scikit-learn it is an error, too.
        """
        try:
            from streammargin.model.exports.pipeline import to_sklearn

            return to_sklearn(self)
        except ImportError as error:
            needed = "a pipeline needs scikit-learn, and for tables pandas; install them with"
            raise UsageError(f"{needed}: pip install 'streammargin[sklearn]' ({error})") from None

    def _names(self) -> dict[str, np.ndarray]:
        """Names, by those of their arrays in the model file."""
        return {} if self.feature_names_in_ is None else {FEATURE_NAMES: self.feature_names_in_}


def _is_cells(data: Any) -> bool:
    """Whether this is an AnnData object, or paths of stores of zarr."""
    return is_anndata(data) or ((is_path(data) or is_shards(data)) and all(map(is_zarr, paths_of(data))))


@contextlib.contextmanager
def _names_of_rows(data: Any, x: str | None, name: str, mask: str | None) -> Iterator[Source]:
    """The rows, with a column of their names as labels. Raises DataError, InputMissingError, UsageError."""
    with contextlib.closing(open_source(data, x=x, y=name, mask=mask, columns=ALL_COLUMNS)) as source:
        try:
            several = source.outputs() is not None
        except DataError as error:
            text = error.raw.replace("`y=", "`id=").replace("no labels under", "no names of rows under")
            raise type(error)(text.replace("; labels could be", "; names could be")) from error
        if several:
            raise DataError(f"{source.name}: {name} has several columns; name one of them with `id`")
        yield source
