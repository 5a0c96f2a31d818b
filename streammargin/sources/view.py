"""The base class of sources that wrap another source."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from streammargin.sources.base import Source


class _Forwarded:
    """A method that is that of the wrapped source."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, view: Any, owner: type) -> Any:
        return self if view is None else getattr(view.source, self.name)


class View(Source):
    """Forwards everything to the wrapped source; subclasses override parts."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.name: str = source.name
        self.rows: int = source.rows
        self.features: int = source.features
        self.nnz: int = source.nnz
        self.dtype: np.dtype = source.dtype
        self.sparse: bool = source.sparse

    (whole, bounds, buffer_bytes, held_bytes, allocate, announce, read, place, label_place, has_labels, labels,
     outputs, label_column, column_bytes, rereads_labels, labels_as, sample_weight, numbers, queries, names_bytes,
     feature_names, schema, ranges, files, check_unchanged, fingerprint, layout, close) = cast(
        Any, [_Forwarded() for _ in range(28)])  # fmt: skip
