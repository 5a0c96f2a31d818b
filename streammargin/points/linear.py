"""The linear point: x . w + b."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from streammargin.penalties.mirror_maps import lp_norm
from streammargin.rows.blocks import Block


class LinearPoint:
    """Weights w (K, d+1) float64; the last one belongs to a constant column of value `bias`, 0 for none.

    zeros (K, d) bool: the weights that are proven to be 0 in every solution; default: none.
    """

    bias: float
    w: np.ndarray

    def __init__(self, w: np.ndarray, bias: float, zeros: np.ndarray | None = None) -> None:
        self.w, self.bias = w, bias
        self._zeros = zeros

    @classmethod
    def restored(cls, arrays: Mapping[str, np.ndarray]) -> LinearPoint:
        return cls.of(arrays["coef"], arrays["intercept"])

    @classmethod
    def of(cls, coef: np.ndarray, intercept: np.ndarray) -> LinearPoint:
        """x . coef + intercept, of coef (K, d) and intercept (K,)."""
        return cls(np.column_stack([coef, intercept]).astype(np.float64, copy=False), 1.0)

    @property
    def outputs(self) -> int:
        return len(self.w)

    @property
    def features(self) -> int:
        return self.w.shape[1] - 1

    @property
    def zeros(self) -> np.ndarray:
        return np.zeros((self.outputs, self.features), bool) if self._zeros is None else self._zeros

    @staticmethod
    def nbytes(outputs: int, features: int) -> int:
        """Bytes of a point with this many outputs."""
        return 8 * outputs * (features + 1)

    def score(self, block: Block, first: int, scores: np.ndarray) -> None:
        from streammargin.compiled.predict import decide_block

        decide_block(block._replace(bias=self.bias), self.w, first, scores)

    def length(self, p: float) -> float:
        """||w||_p of output 0 without the weight of the constant."""
        return lp_norm(self.w[0, :-1], p)

    def copy(self) -> LinearPoint:
        return LinearPoint(self.w.copy(), self.bias, None if self._zeros is None else self._zeros.copy())

    def finite(self) -> bool:
        return bool(np.isfinite(self.w).all())

    def nonzeros(self) -> int:
        return int(np.count_nonzero(self.w[:, :-1]))

    def chosen(self, outputs: slice) -> LinearPoint:
        return LinearPoint(self.w[outputs], self.bias, None if self._zeros is None else self._zeros[outputs])

    def with_constants(self, constants: np.ndarray) -> LinearPoint:
        return LinearPoint.of(self.w[:, :-1], constants)

    def unscaled(self, center: np.ndarray | None, factor: np.ndarray | None, shift: float | np.ndarray) -> LinearPoint:
        coef, constants = self.w[:, :-1], self.w[:, -1] * self.bias + shift
        if factor is not None:
            coef = coef * factor
        if center is not None:
            constants -= coef @ center
        return LinearPoint.of(coef, constants)

    def scaled(self, center: np.ndarray | None, factor: np.ndarray | None, bias: float) -> LinearPoint:
        w = self.w.copy()
        w[:, -1] *= self.bias
        if center is not None:
            w[:, -1] += w[:, :-1] @ center
        if factor is not None:
            np.divide(w[:, :-1], factor, out=w[:, :-1], where=factor != 0.0)  # a column of zeros needs no weight
        w[:, -1] = w[:, -1] / bias if bias else 0.0
        return LinearPoint(w, bias)

    def for_columns(self, order: np.ndarray, features: int) -> LinearPoint:
        w = np.zeros((self.outputs, features + 1))
        present = np.flatnonzero(order >= 0)
        w[:, order[present]], w[:, -1] = self.w[:, present], self.w[:, -1]
        return LinearPoint(w, self.bias)

    def arrays(self) -> dict[str, np.ndarray]:
        return {"coef": np.ascontiguousarray(self.w[:, :-1]), "intercept": self.w[:, -1] * self.bias}
