"""The base class of sources that wrap another source."""

from __future__ import annotations

from typing import Any

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

    whole: Any = _Forwarded()
    bounds: Any = _Forwarded()
    buffer_bytes: Any = _Forwarded()
    held_bytes: Any = _Forwarded()
    allocate: Any = _Forwarded()
    announce: Any = _Forwarded()
    read: Any = _Forwarded()
    place: Any = _Forwarded()
    label_place: Any = _Forwarded()
    has_labels: Any = _Forwarded()
    labels: Any = _Forwarded()
    outputs: Any = _Forwarded()
    label_column: Any = _Forwarded()
    column_bytes: Any = _Forwarded()
    rereads_labels: Any = _Forwarded()
    labels_as: Any = _Forwarded()
    sample_weight: Any = _Forwarded()
    numbers: Any = _Forwarded()
    queries: Any = _Forwarded()
    names_bytes: Any = _Forwarded()
    feature_names: Any = _Forwarded()
    schema: Any = _Forwarded()
    ranges: Any = _Forwarded()
    files: Any = _Forwarded()
    check_unchanged: Any = _Forwarded()
    fingerprint: Any = _Forwarded()
    layout: Any = _Forwarded()
    close: Any = _Forwarded()
