"""A matrix as the product of two factors: the value at (i, j) is left_i . right_j."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from streammargin.rows.blocks import Block, DenseBlock

FACTOR_PRODUCTS = 1 << 20  # at a time
PROOF = ("proof.places", "proof.duals")
Proof = tuple[np.ndarray, np.ndarray]


class Factors:
    """left (rows, r), right (columns, r) float64. A row of the data is a pair of places, (i, j).

    proof: places i columns + j of entries (k,), and their duals (k,), if these do not follow from the loss at X.
    """

    features = 2
    outputs = 1

    def __init__(self, left: np.ndarray, right: np.ndarray, proof: Proof | None = None) -> None:
        self.left, self.right, self.proof = left, right, proof

    @classmethod
    def restored(cls, arrays: Mapping[str, np.ndarray]) -> Factors:
        left, right = (np.ascontiguousarray(arrays[name], np.float64) for name in ("left", "right"))
        proof = [arrays[name] for name in PROOF if name in arrays]
        return cls(left, right, (proof[0].astype(np.int64), proof[1]) if proof else None)

    @property
    def rank(self) -> int:
        """The number of columns of the factors."""
        return self.left.shape[1]

    @property
    def zeros(self) -> np.ndarray:
        return np.zeros((1, 2), bool)

    def at(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """The values (m,) at these places; inf or nan if they overflow."""
        found = np.zeros(rows.size)
        size = max(1, FACTOR_PRODUCTS // max(1, self.rank))
        for low in range(0, rows.size, size):
            here = slice(low, low + size)
            found[here] = np.einsum("ek,ek->e", self.left[rows[here]], self.right[columns[here]])
        return found

    def score(self, block: Block, first: int, scores: np.ndarray) -> None:
        assert isinstance(block, DenseBlock)
        pairs = block.X[first : first + len(scores)].astype(np.int64)
        scores[:, 0] = self.at(pairs[:, 0], pairs[:, 1])

    def norm(self) -> float:
        """The trace norm of the matrix."""
        return float(np.linalg.svd(self._core()[2], compute_uv=False).sum()) if self.rank else 0.0

    def _core(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(Q, P, small) with orthonormal columns, of the matrix Q small P^T."""
        (left, up), (right, down) = np.linalg.qr(self.left), np.linalg.qr(self.right)
        return left, right, up @ down.T

    def balanced(self, least: float = 0.0) -> Factors:
        """The same matrix by its singular vectors, each times the root of its singular value, in descending order.

        Singular values of at most `least` times the largest are left out.
        """
        if not self.rank:
            return self
        left, right, core = self._core()
        before, values, after = np.linalg.svd(core)
        kept = values > least * values[0]
        root = np.sqrt(values[kept])
        return Factors(left @ (before[:, kept] * root), right @ (after[kept].T * root), self.proof)

    def length(self, p: float) -> float:
        return math.nan

    def copy(self) -> Factors:
        proof = self.proof and (self.proof[0].copy(), self.proof[1].copy())
        return Factors(self.left.copy(), self.right.copy(), proof)

    def finite(self) -> bool:
        return bool(np.isfinite(self.left).all() and np.isfinite(self.right).all())

    def nonzeros(self) -> int:
        """The rank, for a path."""
        return self.rank

    def chosen(self, outputs: slice) -> Factors:
        return self

    def with_constants(self, constants: np.ndarray) -> Factors:
        raise AssertionError("a matrix has no constants")

    def unscaled(self, center: np.ndarray | None, factor: np.ndarray | None, shift: float | np.ndarray) -> Factors:
        return self

    def for_columns(self, order: np.ndarray, features: int) -> Factors:
        return self

    def arrays(self) -> dict[str, np.ndarray]:
        return {"left": self.left, "right": self.right} | dict(zip(PROOF, self.proof or (), strict=False))
