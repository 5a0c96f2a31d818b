"""Kernel machines as formulas, by NumPy and SciPy alone: what `verification.py` asks of an expansion."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import scipy.sparse as sp

PIECE = 256  # rows at a time
BLUR = 1e-12  # rounding of a value, relative to the largest


def value(word: str, products: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """K from x.z (m, s), ||x||^2 (m, 1) and ||z||^2 (1, s); word: with all its numbers. ValueError for another one."""
    name, _, rest = word.partition(":")
    named = dict(re.findall(r"(\w+)=([^,]+)", rest))
    first = rest.partition(",")[0]
    gamma = float(named["gamma"] if name == "poly" else first) if name in ("rbf", "poly", "sigmoid") else 1.0
    scaled = gamma * products + float(named.get("coef0", 0.0))
    values = {
        "rbf": lambda: np.exp(-gamma * np.maximum(left + right - 2.0 * products, 0.0)),
        "poly": lambda: scaled ** int(first), "sigmoid": lambda: np.tanh(scaled), "linear": lambda: products,
    }  # fmt: skip
    if name not in values:
        raise ValueError(word)
    found: np.ndarray = float(named.get("weight", 1.0)) * values[name]()
    return found


class Expansion:
    """sum_j coef_j K(x, z_j) of a saved model, for rows as stored. ValueError for a kernel without a formula here."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self.words = re.split(r"\+(?=[^\d])", str(arrays["kernel"]))
        self.coef, values, indptr = arrays["dual_coef"], arrays["values"], arrays["indptr"]
        self.width, self.center, self.factor = int(arrays["features"]), arrays["centers"], arrays["factors"]
        shape = (arrays["support"].size, self.width)
        self.rows: Any = values.astype(np.float64)
        if indptr.size:
            self.rows = sp.csr_array((values.astype(np.float64), arrays["indices"].astype(np.int64), indptr), shape)
        if self.words[0].startswith("precomputed"):
            raise ValueError(self.words[0])
        self.squares = np.asarray((self.rows * self.rows).sum(axis=1)).ravel()
        own = self._scores(self.rows)
        self.penalties = 0.5 * np.sum(own * self.coef.T, axis=0)
        largest = max(float(np.abs(self._values(self.rows[:PIECE], self.rows[:PIECE])).max(initial=0.0)), 1.0)
        self.blur = BLUR * largest * np.abs(self.coef).sum(axis=1)

    def _values(self, X: Any, Z: Any) -> np.ndarray:
        products = X @ Z.T
        dense = products.toarray() if sp.issparse(products) else np.asarray(products)
        left, right = (np.asarray((one * one).sum(axis=1)).reshape(-1) for one in (X, Z))
        return np.sum([value(word, dense, left[:, None], right[None]) for word in self.words], axis=0)

    def _scores(self, X: Any) -> np.ndarray:
        found = np.zeros((X.shape[0], len(self.coef)))
        for low in range(0, self.rows.shape[0], PIECE):
            few = slice(low, low + PIECE)
            found += self._values(X, self.rows[few]) @ self.coef[:, few].T
        return found

    def scores(self, X: Any) -> np.ndarray:
        """The scores (m, K) of rows as stored, without constants."""
        if self.factor.size and sp.issparse(X):
            X = X @ sp.diags_array(self.factor)
        elif self.factor.size:
            X = (X - self.center) * self.factor
        return self._scores(sp.csr_array(X) if sp.issparse(X) else X)
