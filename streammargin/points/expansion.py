"""An expansion over rows: sum_j coef_j K(x, z_j) + b."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from streammargin.kernels import known_kernel
from streammargin.kernels.base import Kernel
from streammargin.kernels.plain import Linear
from streammargin.points.before import Before
from streammargin.rows.blocks import Block, CSRBlock, DenseBlock, alone, part, plain, taken, values_of

SUPPORT = 256  # support rows of a product
SCORED_ROWS = 1024  # at a time
PROBED, MOVED = 64, 3e-5  # support rows whose scores float32 may move by so much of the largest
TIED = 10.0 * MOVED  # of the largest: scores that are nearer to 0, or to each other, are computed in float64


class Expansion:
    """coef (K, m), constants (K,) and the m support rows, as trained on.

    numbers (m,) int64: of the support rows in the training. before: how rows become those of the training.
    """

    coef: np.ndarray
    constants: np.ndarray
    numbers: np.ndarray
    rows: Block
    kernel: Kernel

    def __init__(
        self, kernel: Kernel, coef: np.ndarray, constants: np.ndarray, numbers: np.ndarray, rows: Block,
        before: Before,
    ) -> None:  # fmt: skip
        self.kernel, self.coef, self.constants = kernel, coef, constants
        self.numbers, self.rows = numbers, rows._replace(bias=0.0)
        self.before = before
        self._tied: float | None = None

    @classmethod
    def restored(cls, arrays: Mapping[str, np.ndarray]) -> Expansion:
        word, values = str(arrays["kernel"]), arrays["values"]
        kernel = known_kernel(word)
        if (missing := kernel.unresolved) is not None:
            raise ValueError(f"its kernel {word} has {missing} in place of the number of the training")
        if kernel.of_numbers != (values.shape[1:] == (0,)):
            raise ValueError(f"its kernel {word} does not fit its support rows")
        before = Before(int(arrays["features"]), arrays["centers"], arrays["factors"])
        rows: Block = DenseBlock(np.ascontiguousarray(values), 0.0)
        if values.ndim == 1:
            indices, indptr = arrays["indices"].astype(np.uint32), arrays["indptr"].astype(np.int64)
            rows = CSRBlock(values, indices, indptr, before.features, 0.0)
        constants, numbers = arrays["intercept"].astype(np.float64), arrays["support"].astype(np.int64)
        return cls(kernel, arrays["dual_coef"], constants, numbers, rows, before)

    @property
    def outputs(self) -> int:
        return len(self.constants)

    @property
    def features(self) -> int:
        return self.before.features

    @property
    def zeros(self) -> np.ndarray:
        return np.zeros((self.outputs, self.features), bool)

    def score(self, block: Block, first: int, scores: np.ndarray) -> None:
        for low in range(0, len(scores), SCORED_ROWS):
            high = min(len(scores), low + SCORED_ROWS)
            rows = self.before.rows(alone(part(block, first + low, first + high)))
            narrow = values_of(rows).dtype == np.float32 and self.narrow
            scores[low:high] = self._decide_narrow(rows) if narrow else self.decide(rows)

    @property
    def narrow(self) -> bool:
        """Whether kernel values in float32 are enough for scores of float32 rows, as scores of support rows show."""
        if self._tied is None:
            single = self.kernel.by_products and self.numbers.size > 0 and values_of(self.rows).dtype == np.float32
            self._tied = self._probed() if single else 0.0
        return self._tied > 0.0

    def exactly(self) -> Expansion:
        """The same, whose scores are by kernel values in float64 alone."""
        found = self._with(self.coef, self.constants)
        found._tied = 0.0
        return found

    def _probed(self) -> float:
        """Which scores are tied, by the largest of some support rows; 0 if float32 moves them too far."""
        some = taken(self.rows, np.arange(0, self.numbers.size, -(-self.numbers.size // PROBED)))
        with np.errstate(all="ignore"):
            exact = self.decide(some)
            moved, largest = np.abs(self.decide(some, np.float32) - exact).max(), np.abs(exact).max()
            return float(TIED * largest) if moved <= MOVED * largest else 0.0

    def _decide_narrow(self, rows: Block) -> np.ndarray:
        """The scores by kernel values in float32, but those of rows that are nearly tied."""
        found = self.decide(rows, np.float32)
        apart = np.abs(found).min(axis=1)
        if self.outputs > 1:
            second, first = np.partition(found, -2, axis=1)[:, -2:].T
            apart = np.minimum(apart, first - second)
        if (tied := np.flatnonzero(apart <= self._tied)).size:
            found[tied] = self.decide(taken(rows, tied))
        return found

    def decide(self, rows: Block, dtype: Any = np.float64) -> np.ndarray:
        """The scores (m, K) float64 of rows as trained on, by kernel values of this type."""
        from streammargin.points.gram import RightRows  # which loads the compiler

        found = np.tile(self.constants, (rows.rows(), 1))
        for low in range(0, self.numbers.size, SUPPORT):
            high = min(self.numbers.size, low + SUPPORT)
            few = RightRows(self.kernel, self.numbers[low:high], part(self.rows, low, high), dtype)
            coef = self.coef[:, low:high].T
            for start, values in few.tiles(rows, 0, rows.rows()):
                found[start : start + len(values)] += values @ coef
        return found

    def weights(self) -> tuple[np.ndarray, np.ndarray] | None:
        """(weights (K, d), constants (K,)) with the same scores, of rows as stored; None but for the kernel linear."""
        if not all(isinstance(one, Linear) for one in self.kernel.parts):
            return None
        rows = self.rows
        w = np.zeros((self.outputs, rows.features()))
        for low in range(0, self.numbers.size, SUPPORT):
            high = min(self.numbers.size, low + SUPPORT)
            w += np.asarray((plain(part(rows, low, high)).T @ self.coef[:, low:high].T).T)
        w *= sum(one.weight for one in self.kernel.parts)
        center, factor = self.before.center, self.before.factor
        if not factor.size:
            return w, self.constants
        w *= factor
        return w, self.constants - w @ center

    def length(self, p: float) -> float:
        """||w|| of output 0, which is sqrt(coef.K coef)."""
        if self.kernel.of_numbers:
            return math.nan  # the values of the support rows are with the training rows
        total = 0.0
        for low in range(0, self.numbers.size, SCORED_ROWS):
            rows = part(self.rows, low, min(self.numbers.size, low + SCORED_ROWS))
            total += float((self.decide(rows)[:, 0] - self.constants[0]) @ self.coef[0, low : low + SCORED_ROWS])
        return math.sqrt(max(total, 0.0))

    def copy(self) -> Expansion:
        return self._with(self.coef.copy(), self.constants.copy())

    def _with(self, coef: np.ndarray, constants: np.ndarray) -> Expansion:
        return Expansion(self.kernel, coef, constants, self.numbers, self.rows, self.before)

    def finite(self) -> bool:
        return bool(np.isfinite(self.coef).all() and np.isfinite(self.constants).all())

    def nonzeros(self) -> int:
        return int(np.count_nonzero(self.coef))

    def chosen(self, outputs: slice) -> Expansion:
        return self._with(self.coef[outputs], self.constants[outputs])

    def with_constants(self, constants: np.ndarray) -> Expansion:
        return self._with(self.coef, np.asarray(constants, np.float64))

    def unscaled(self, center: np.ndarray | None, factor: np.ndarray | None, shift: float | np.ndarray) -> Expansion:
        found = self._with(self.coef, self.constants + shift).support_rows()
        if center is not None and factor is not None:
            found.before = found.before.scaled(center, factor)
        return found

    def for_columns(self, order: np.ndarray, features: int) -> Expansion:
        found = self._with(self.coef, self.constants)
        found.before = found.before._replace(columns=order, features=features)
        return found

    def support_rows(self) -> Expansion:
        """The same without the support rows whose coefficients are 0 in all outputs."""
        used = np.flatnonzero(self.coef.any(axis=0))
        if used.size == self.numbers.size:
            return self
        rows = taken(self.rows, used)
        coef = np.ascontiguousarray(self.coef[:, used])
        return Expansion(self.kernel, coef, self.constants, self.numbers[used], rows, self.before)

    def arrays(self) -> dict[str, np.ndarray]:
        rows = self.rows
        sparse = isinstance(rows, CSRBlock)
        return {
            "kernel": np.array(str(self.kernel)),
            "dual_coef": self.coef,
            "intercept": self.constants,
            "support": self.numbers,
            "values": rows.data if isinstance(rows, CSRBlock) else rows.X,
            "indices": rows.indices if isinstance(rows, CSRBlock) else np.empty(0, np.uint32),
            "indptr": rows.indptr if isinstance(rows, CSRBlock) else np.empty(0, np.int64),
            "features": np.array(self.features if not sparse else rows.features()),
            "centers": self.before.center,
            "factors": self.before.factor,
        }
