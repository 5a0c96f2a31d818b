"""The labels of a table, and the weights beside them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streammargin.errors import DataError
from streammargin.tables.readers.base import Reader
from streammargin.tables.tally import decoded, kind_of, numbers_of


@dataclass(frozen=True)
class Labelling:
    """How the labels and weights of a table are read."""

    reader: Reader

    def values(self, labels: pa.Array, first: int) -> np.ndarray:
        """The labels (m,) of a batch: numbers, booleans or text as it is. Raises DataError for a missing label."""
        labels = decoded(labels, self.reader.gaps[:1])
        gap = np.flatnonzero(labels.is_null().to_numpy(zero_copy_only=False))
        if gap.size:
            where = self.reader.place(first + int(gap[0]))
            raise DataError(f"{self.reader.name}, {where}: the label is missing; drop the row or give it a label")
        kind = kind_of(labels.type)
        if kind == "words" and (bad := np.flatnonzero(pc.match_substring(labels, "\0").to_numpy(False))).size:
            where = self.reader.place(first + int(bad[0]))
            raise DataError(f"{self.reader.name}, {where}: the label has a NUL character; remove it from the table")
        if kind in ("words", "number"):
            return np.asarray(labels.to_numpy(zero_copy_only=False))
        raise DataError(f"{self.reader.name}: the labels are of type {labels.type}; labels must be numbers or text")

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
