"""A matrix that was completed: predictions for pairs of a row and a column, and their figures."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np

from streammargin.errors import DataError, UsageError
from streammargin.files import as_path
from streammargin.losses.ratings import RATINGS, LevelHinge
from streammargin.model.base import Model
from streammargin.model.file import COLUMN_NAMES, ROW_NAMES, write_model
from streammargin.points.factors import Factors
from streammargin.points.table import kind_of
from streammargin.sizes import parse_size
from streammargin.sources.names import packed
from streammargin.tables.ratings.entries import Entries
from streammargin.tables.ratings.names import Names

LEVELS = "levels"  # of the header: the different ratings of the training
NAMES = "names"  # of the header: the columns of its table with rows, columns and ratings


class Predicted(NamedTuple):
    """Predictions (m,) of some pairs, in order: names of rows and columns, values of the matrix, ratings; what is."""

    rows: list[Any]
    columns: list[Any]
    scores: np.ndarray
    ratings: np.ndarray
    known: np.ndarray | None


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
        self._names: tuple[Names, Names] | None = None

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

    def rated(self, scores: np.ndarray) -> np.ndarray:
        """Predicted ratings (m,) of values of the matrix: these, or levels for the hinge."""
        levels = self.levels
        return self.loss.rated(scores, float(levels[-1]) if levels.size else -math.inf)

    def _coders(self) -> tuple[Names, Names]:
        if self._names is None:
            self._names = Names("row", self.row_names_), Names("column", self.column_names_)
        return self._names

    def pairs(
        self, data: Any, columns: Any = None, y: str | None = None, values: bool = False, memory: int | None = None
    ) -> Iterator[Predicted]:  # fmt: skip
        """Predictions for the pairs of a file, a table or arrays, some thousand at a time."""
        entries = Entries(data, columns, y, memory or 256 << 20, values, self.header.get(NAMES) or ())
        rows, others = self._coders()
        count = 0
        with ExitStack() as stack:
            for part in entries.parts(stack):
                count += len(part.rows)
                i, j = rows.known(part.rows, entries.name), others.known(part.columns, entries.name)
                scores = self.answer.at(i, j)
                if not np.isfinite(scores).all():
                    row, column = part.rows[(bad := int(np.argmin(np.isfinite(scores))))], part.columns[bad]
                    raise DataError(f"the value at row {row}, column {column} of the matrix overflows; train it again")
                yield Predicted(
                    part.rows.to_pylist(), part.columns.to_pylist(), scores, self.rated(scores), part.values
                )
        if not count and entries.paths:
            raise DataError(f"{entries.name} has no rows; check the input")

    def predict(self, data: Any, columns: Any = None, **others: Any) -> np.ndarray:
        """Predicted ratings (n,) for pairs: (rows, columns) as arrays of names, or a table or file with two columns.

        columns: the names of these two columns, by default those of the training. DataError for a row or column
        that had no rating there.
        """
        self._refuse(others)
        return np.concatenate([np.empty(0), *(part.ratings for part in self.pairs(data, columns))])

    def decision_function(self, data: Any, columns: Any = None, **others: Any) -> np.ndarray:
        """Values of the matrix (n,) at pairs; as `predict`, but not rounded to levels."""
        self._refuse(others)
        return np.concatenate([np.empty(0), *(part.scores for part in self.pairs(data, columns))])

    @np.errstate(all="ignore")  # figures may overflow, and say so
    def evaluate(self, data: Any, *, columns: Any = None, y: Any = None, memory: str | int | None = None,
                 **others: Any) -> dict[str, Any]:  # fmt: skip
        """Figures on ratings: rows, rmse, mae, largest_error, accuracy and loss (mean).

        accuracy: the share of ratings that are, of those of the training and the levels of the loss, the one nearest
        to the prediction; None if the training had very many different ratings.
        """
        self._refuse(others)
        levels, n = np.union1d(self.levels, self.loss.levels), 0
        squares = sizes = largest = losses = 0.0
        right = 0
        for part in self.pairs(data, columns, y, True, None if memory is None else parse_size(memory)):
            assert part.known is not None
            apart = np.abs(part.ratings - part.known)
            squares, sizes, n = squares + float(apart @ apart), sizes + float(apart.sum()), n + apart.size
            largest = max(largest, float(apart.max(initial=0.0)))
            losses += float(losses_of(self.loss, part.scores, part.known).sum())
            if levels.size:
                right += int(np.count_nonzero(nearest(levels, part.ratings) == part.known))
        if not n:
            raise DataError("there is no rating to evaluate; check the input")
        return {
            "rows": n, "rmse": math.sqrt(squares / n), "mae": sizes / n, "largest_error": largest,
            "accuracy": right / n if levels.size else None, "loss": losses / n,
        }  # fmt: skip

    def _refuse(self, others: dict[str, Any]) -> None:
        given = [name for name, value in others.items() if value not in (None, "error", "all")]
        if given:
            raise UsageError(f"`{given[0]}` is not for ratings; leave it out")

    @property
    def nbytes(self) -> int:
        names = sum(map(len, self.row_names_)) + sum(map(len, self.column_names_))
        return self.left_.nbytes + self.right_.nbytes + names

    def save(self, path: str | os.PathLike[str], force: bool = False) -> None:
        """Write the model file; an existing one only with force. Raises OutputError, ReadWriteError."""
        arrays = self.answer.arrays() | {"classes": self.classes_}
        for name, names in ((ROW_NAMES, self.row_names_), (COLUMN_NAMES, self.column_names_)):
            arrays[name] = packed(np.array(names, object))
        write_model(as_path(path), kind_of(self.answer), arrays, self.header, bool(force))


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
            f"the rating {bad:g} is no level of `loss=hinge`, whose levels are {said} and one number above; name all "
            "ratings but the highest in its field levels"
        )
    return made
