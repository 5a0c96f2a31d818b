"""Steps that rows take, one by one, in front of scale and map. A new step is one class, with a NumPy body.

A step is a subclass of `Transform` (base.py) with typed parameters and a method `values`. A file here lists its classes
in TRANSFORMS.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from streammargin.transforms.base import RowFault as RowFault
from streammargin.transforms.base import Stored as Stored
from streammargin.transforms.base import Transform as Transform
from streammargin.transforms.base import TransformSums as TransformSums
from streammargin.transforms.chain import NAME, Chain, restored
from streammargin.transforms.clipped import Clipped
from streammargin.words import Family, called, classes_in

PEERS = {"normalize_total": "total:10000", "normalize": "unit", "l2": "unit", "log": "log1p", "idf": "tfidf"}

TRANSFORMS: dict[str, type[Transform]] = {cls.name: cls for cls in classes_in(__name__, __path__, "TRANSFORMS")}
FAMILY = Family("transform", "transforms", Transform, TRANSFORMS, PEERS)  # type: ignore[type-abstract]


def chain_of(arrays: Mapping[str, np.ndarray], features: int) -> Chain | None:
    """The steps of a model file, or None. ValueError if they are damaged, UsageError for one that is not known."""
    known = replace(FAMILY, classes={**TRANSFORMS, Clipped.name: Clipped})
    return restored(arrays, features, known) if NAME in arrays else None


def __getattr__(name: str) -> Any:
    """The classes of all steps: `transforms.Total`."""
    return called(name, TRANSFORMS.values(), __name__)


def __dir__() -> list[str]:
    return sorted(["RowFault", "Stored", "Transform", "TransformSums", *(cls.__name__ for cls in TRANSFORMS.values())])
