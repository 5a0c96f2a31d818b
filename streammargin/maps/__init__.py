"""Maps z(x) of rows, in front of any linear solver. A new map is one class, with a NumPy body.

A map is a subclass of `Map` (base.py) with typed parameters, `learn`, which gets some rows once, and `rows`, which maps
rows. A file here lists its classes in MAPS.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from streammargin.maps.base import Map as Map
from streammargin.maps.base import MapSums as MapSums
from streammargin.maps.base import product as product
from streammargin.maps.fitted import Fitted, restored
from streammargin.words import Family, called, classes_in

PEERS = {"nystrom": "nystroem", "nystroem_approximation": "nystroem", "rbf_sampler": "rff", "fourier": "rff"}


MAPS: dict[str, type[Map]] = {cls.name: cls for cls in classes_in(__name__, __path__, "MAPS")}
FAMILY = Family("map", "maps", Map, MAPS, PEERS)  # type: ignore[type-abstract]
make_map = FAMILY.of


def fitted_of(arrays: Mapping[str, np.ndarray]) -> Fitted:
    """The map of a model file, with what it learned. ValueError if that is damaged, UsageError, if unknown."""
    map = FAMILY.known(str(arrays["map"]))
    try:
        fitted = restored(map, str(arrays["dtype"]), arrays)
        if map.name not in MAPS:  # of ours the sizes of all arrays are known
            fitted.rows(np.zeros((1, int(arrays["features"])), fitted.dtype))
    except Exception as error:  # a map may be anybody's
        raise ValueError(f"the arrays of its map do not fit each other ({error})") from error
    return fitted


def __getattr__(name: str) -> Any:
    """The classes of all maps: `maps.Nystroem`."""
    return called(name, MAPS.values(), __name__)


def __dir__() -> list[str]:
    return sorted(["Map", "MapSums", "product", *(cls.__name__ for cls in MAPS.values())])
