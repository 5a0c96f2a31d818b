"""The labels of a table, and the weights beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streammargin.errors import DataError
from streammargin.tables.header import is_number
from streammargin.tables.readers.base import Reader
from streammargin.tables.tally import decoded, kind_of, no_label, numbers_of
from streammargin.tables.textfile import SHOWN


@dataclass(frozen=True)
class Labelling:
    """How the labels and weights of a table are read."""

    reader: Reader

    def tasks(self, tasks: pa.Array, first: int) -> np.ndarray:
        """The tasks (m,) of a batch, as a label is read. Raises DataError for a row without one."""
        return self._values(tasks, first, "task")

    def values(self, labels: Sequence[pa.Array], first: int) -> np.ndarray:
        """The labels (m,) of a batch: numbers, booleans or text as it is; of several columns numbers (m, columns).

        Raises DataError for a missing label.
        """
        if len(labels) == 1:
            return self._values(labels[0], first)
        return np.stack([self._numbers(column, first) for column in labels], axis=1)

    def _values(self, labels: pa.Array, first: int, noun: str = "label") -> np.ndarray:
        labels = decoded(labels, self.reader.gaps[:1])
        gap = np.flatnonzero(labels.is_null().to_numpy(zero_copy_only=False))
        if gap.size:
            raise no_label(self.reader.name, self.reader.place(first + int(gap[0])), noun=noun)
        kind = kind_of(labels.type)
        if kind == "words" and (bad := np.flatnonzero(pc.match_substring(labels, "\0").to_numpy(False))).size:
            where = self.reader.place(first + int(bad[0]))
            raise DataError(f"{self.reader.name}, {where}: the {noun} has a NUL character; remove it from the table")
        if kind in ("words", "number"):
            return np.asarray(labels.to_numpy(zero_copy_only=False))
        raise DataError(f"{self.reader.name}: the {noun}s are of type {labels.type}; {noun}s must be numbers or text")

    def _numbers(self, labels: pa.Array, first: int) -> np.ndarray:
        """One of several columns (m,) float64."""
        values = self._values(labels, first)
        if kind_of(decoded(labels).type) == "number":
            return values.astype(np.float64)
        bad = next((row for row, text in enumerate(values.tolist()) if not is_number(text)), None)
        if bad is not None:
            raise DataError(
                f"{self.reader.name}, {self.reader.place(first + bad)}: {str(values[bad])[:SHOWN]!r} is one of several "
                "labels, and no number; name one column with `y`, or write numbers"
            )
        return np.array([float(text) for text in values.tolist()])

    def weights(self, weights: pa.Array, first: int) -> np.ndarray:
        """Sample weights (m,) float64. Raises DataError for one that is no finite number or negative."""
        weights = decoded(weights)
        found = numbers_of(weights) if kind_of(weights.type) == "number" else np.full(len(weights), np.nan)
        bad = np.flatnonzero(~(np.isfinite(found) & (found >= 0.0)))
        if bad.size:
            raise DataError(
                f"{self.reader.name}, {self.reader.place(first + int(bad[0]))}: the sample weight is "
                f"{weights[int(bad[0])]}; weights must be finite and not negative"
            )
        return found
