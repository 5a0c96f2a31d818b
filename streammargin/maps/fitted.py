"""A map that has learned: what rows go through, in training, prediction and verification."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from streammargin.maps.base import MAPPED_ROWS, Arrays, Map, tiles
from streammargin.rows.blocks import Block, part, plain

SOME = 8 * MAPPED_ROWS  # rows of a block that are taken out of it at a time
PREFIX = "map."  # of its arrays in a model file
CSR_PARTS = ("data", "indices", "indptr", "shape")


class Fitted:
    """A map with its arrays; `learned` is set when a read of the rows has ended.

    dtype: of mapped rows; they are computed in float64.
    """

    def __init__(self, map: Map, dtype: Any, learned: Arrays | None = None) -> None:
        self.map: Map = map
        self.dtype: np.dtype = np.dtype(dtype)
        self.learned: Arrays = {} if learned is None else learned

    def fill(self, block: Block, out: np.ndarray) -> None:
        """out (m, width) = the mapped rows of a block."""
        for low in range(0, len(out), SOME):
            high = min(len(out), low + SOME)
            self._fill(plain(part(block, low, high)), out[low:high])

    def rows(self, X: Any) -> np.ndarray:
        """The mapped rows (m, width) of X (m, d), an array or a csr_array."""
        found = np.empty((X.shape[0], self.map.width), self.dtype)
        self._fill(X, found)
        return found

    def _fill(self, X: Any, out: np.ndarray) -> None:
        low = 0
        with np.errstate(over="ignore", invalid="ignore"):  # whoever reads says where
            for tile, count in tiles(X):
                out[low : low + count] = self.map.rows(tile, self.learned)[:count]
                low += count

    def arrays(self) -> dict[str, np.ndarray]:
        """Its arrays by their names in a model file; `restored` is the inverse."""
        found = {"map": np.array(str(self.map)), "dtype": np.array(self.dtype.name)}
        for name, array in self.learned.items():
            if isinstance(array, np.ndarray):
                found[PREFIX + name] = array
            else:
                found |= {f"{PREFIX}{name}.{part}": np.asarray(getattr(array, part)) for part in CSR_PARTS}
        return found


def restored(map: Map, dtype: str, arrays: Mapping[str, np.ndarray]) -> Fitted:
    """A map with the arrays of a model file. ValueError if weights or sparse arrays do not fit it."""
    named = {name.removeprefix(PREFIX): array for name, array in arrays.items() if name.startswith(PREFIX)}
    if (width := arrays["coef"].shape[1]) != map.width:
        raise ValueError(f"it has weights for {width} columns, and its map makes {map.width}")
    return Fitted(map, dtype, dict(_joined(named)))


def _joined(named: dict[str, np.ndarray]) -> Iterator[tuple[str, Any]]:
    for name, array in named.items():
        whole, _, part = name.rpartition(".")
        if part == "data" and whole:
            import scipy.sparse as sp

            if missing := [one for one in CSR_PARTS if f"{whole}.{one}" not in named]:
                raise ValueError(f"its map lacks {whole}.{missing[0]}")
            data, indices, indptr, shape = (named[f"{whole}.{one}"] for one in CSR_PARTS)
            made = sp.csr_array((data, indices, indptr), tuple(shape.tolist()))
            made.check_format(full_check=True)
            yield whole, made
        elif not (whole and part in CSR_PARTS):
            yield name, array
