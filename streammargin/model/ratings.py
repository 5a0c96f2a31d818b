"""A matrix that was completed: predictions for pairs of a row and a column, and their figures."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from streammargin.errors import DataError, UsageError
from streammargin.losses.ratings import RATINGS, LevelHinge
from streammargin.model.base import Model
from streammargin.model.evaluation import OfNumbers, Tally
from streammargin.model.file import COLUMN_NAMES, ROW_NAMES
from streammargin.model.rows import AnyRows, ModelRows
from streammargin.points.factors import Factors
from streammargin.rows.blocks import DenseBlock
from streammargin.sources.batch import Batch, Ordered
from streammargin.tables.ratings.entries import Entries, Names

LEVELS = "levels"  # of the header: the different ratings of the training
TABLE_NAMES = "names"  # of the header: the columns of its table with rows, columns and ratings
MEMORY = 256 << 20  # bytes for reading pairs, if none are given


def pairs_of(entries: Entries, both: tuple[Names, Names]) -> Ordered:
    """Pairs of names in order, as places in a matrix; labels: their ratings, if the entries have them."""
    found = (Batch(pairs, None, None, None, values, None) for pairs, values in entries.places(both))
    return Ordered(found, False, 2, np.dtype(float), name=entries.name, matched=True, empty=not entries.paths)


class OfRatings(Tally):
    """Errors of predicted ratings; right: those whose nearest level is the rating."""

    def __init__(self, model: RatingsModel) -> None:
        self.model, self.numbers, self.right = model, OfNumbers(None, None), 0
        self.levels = np.union1d(model.levels, model.loss.levels)

    def known(self, source: AnyRows, piece: ModelRows, given: np.ndarray) -> np.ndarray:
        return given

    def judged(self, labels: np.ndarray, scores: np.ndarray) -> tuple[OfNumbers, int]:
        rated = self.model.labels_of(scores)
        found, right = OfNumbers(None, None).judged(labels, rated[:, None]), 0
        found.total = float(losses_of(self.model.loss, scores[:, 0], labels).sum())
        if self.levels.size:
            right = int(np.count_nonzero(nearest(self.levels, rated) == labels))
        return found, right

    def add(self, part: tuple[OfNumbers, int]) -> None:
        self.numbers.add(part[0])
        self.right += part[1]

    def figures(self, rows: int) -> dict[str, Any]:
        if not rows:
            raise DataError("there is no rating to evaluate; check the input")
        found = self.numbers
        return {
            "rows": rows, "rmse": math.sqrt(found.squares / rows), "mae": found.sizes / rows,
            "largest_error": found.largest, "accuracy": self.right / rows if self.levels.size else None,
            "loss": found.total / rows,
        }  # fmt: skip


class RatingsModel(Model):
    """The matrix left_ @ right_.T, with names of its rows and columns.

    left_ : (rows, rank); right_ : (columns, rank), float64: singular vectors times roots of singular values
    row_names_, column_names_ : lists of str

    header : dict of plain values: options, certificate, how training ended
    """

    of_pairs = True
    answer: Factors

    def __init__(self, answer: Factors, header: dict[str, Any], rows: list[str], columns: list[str]) -> None:
        super().__init__(answer, np.empty(0), header)
        self.left_, self.right_ = answer.left, answer.right
        self.row_names_, self.column_names_ = rows, columns
        self._both: tuple[Names, Names] | None = None

    def _size(self) -> dict[str, int | None]:
        """Rows, columns and rank."""
        return {"rows": len(self.row_names_), "columns": len(self.column_names_), "rank": self.rank}

    @property
    def rank(self) -> int:
        """The number of columns of the factors."""
        return self.answer.rank

    @property
    def loss(self) -> Any:
        """The numbers of the loss (losses/ratings.py)."""
        return RATINGS.of(str(self.header["loss"])).terms()

    @property
    def levels(self) -> np.ndarray:
        """The different ratings of the training, ascending; (0,) if they were very many."""
        return np.array(self.header.get(LEVELS) or (), np.float64)

    def labels_of(self, scores: np.ndarray) -> np.ndarray:
        """Predicted ratings (m,) of values (m, 1) of the matrix: these, or levels for the hinge."""
        levels = self.levels
        return self.loss.rated(scores[:, 0], float(levels[-1]) if levels.size else -math.inf)

    @contextlib.contextmanager
    def rows_of(
        self, data: Any, *, columns: Any = None, y: Any = None, labelled: bool = False, memory: int | None = None,
        **others: Any,
    ) -> Iterator[AnyRows]:  # fmt: skip
        """The pairs of a file, a table or arrays, as `Model.rows_of`; columns: the names of the two in a table."""
        given = [name for name, value in others.items() if value not in (None, "error", ())]
        if given:
            raise UsageError(f"`{given[0]}` is not for ratings; leave it out")
        self._both = self._both or (Names("row", self.row_names_), Names("column", self.column_names_))
        entries = Entries(data, columns, y, memory or MEMORY, labelled, self.header.get(TABLE_NAMES) or ())
        yield pairs_of(entries, self._both)

    def _overflow(self, source: AnyRows, rows: ModelRows, row: int) -> DataError:
        assert isinstance(rows.block, DenseBlock)
        i, j = rows.block.X[row].astype(int).tolist()
        place = f"row {self.row_names_[i]}, column {self.column_names_[j]}"
        return DataError(f"the value at {place} of the matrix overflows; train it again")

    def predict(self, data: Any, columns: Any = None, **others: Any) -> np.ndarray:
        """Predicted ratings (n,) for pairs: (rows, columns) as arrays of names, or a table or file with two columns.

        columns: the names of these two columns, by default those of the training. DataError for a row or column
        that had no rating there.
        """
        return self._of_rows(data, self.labels_of, columns=columns, **others)

    def decision_function(self, data: Any, columns: Any = None, **others: Any) -> np.ndarray:
        """Values of the matrix (n,) at pairs; as `predict`, but not rounded to levels."""
        return self._of_rows(data, np.asarray, columns=columns, **others)[:, 0]

    def evaluate(self, data: Any, *, columns: Any = None, y: Any = None, memory: str | int | None = None,
                 threads: int | str | None = None, **others: Any) -> dict[str, Any]:  # fmt: skip
        """Figures on ratings: rows, rmse, mae, largest_error, accuracy and loss (mean).

        accuracy: the share of ratings that are, of those of the training and the levels of the loss, the one nearest
        to the prediction; None if the training had very many different ratings.
        """
        return self._judged(data, lambda *_: OfRatings(self), memory, threads, y, columns=columns, **others)

    @property
    def nbytes(self) -> int:
        names = sum(map(len, self.row_names_)) + sum(map(len, self.column_names_))
        return self.left_.nbytes + self.right_.nbytes + names

    def _names(self) -> dict[str, np.ndarray]:
        return {ROW_NAMES: np.array(self.row_names_, object), COLUMN_NAMES: np.array(self.column_names_, object)}


def nearest(levels: np.ndarray, ratings: np.ndarray) -> np.ndarray:
    """The level (m,) nearest to each rating."""
    return levels[np.searchsorted((levels[1:] + levels[:-1]) / 2.0, ratings)]


def losses_of(loss: Any, scores: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The loss (m,) of each entry."""
    if loss.levels.size:
        signs = np.where(values[:, None] > loss.levels, 1.0, -1.0)
        return np.maximum(0.0, 1.0 - signs * (scores[:, None] - loss.at)).sum(axis=1)
    apart = scores - values
    return 0.5 * apart * apart if loss.bend > 0.0 else np.abs(apart)


def known_loss(loss: Any, levels: np.ndarray) -> Any:
    """The loss with levels that fit the ratings of a training. UsageError, DataError if they do not."""
    if not isinstance(loss, LevelHinge):
        return loss
    made = loss.known(levels.tolist())
    own = np.array(made.levels, np.float64)
    above = levels[levels > own[-1]]
    other = levels[(levels <= own[-1]) & ~np.isin(levels, own)]
    if other.size or above.size > 1 or not levels.size:
        bad = other[0] if other.size else above[-1] if above.size else math.inf
        said = ", ".join(f"{one:g}" for one in own)
        raise DataError(
            f"the rating {bad:g} is not a level of `loss=hinge`, whose levels are {said} and one number above; name "
            "all ratings but the highest in its parameter levels"
        )
    return made
