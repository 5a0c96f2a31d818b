"""Kernel machines and maps by NumPy and SciPy alone: what `verification/verify.py` asks of them.

Kernels of ours have formulas of their own here. A user's kernel, and each map, is what its class says.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

MACHINE_ROWS = 256  # at a time
FORMULAS = ("rbf", "poly", "sigmoid", "linear")
BLUR = 1e-12  # rounding of a value, relative to the largest
EPS = float(np.finfo(np.float64).eps)


def words_in(kernel: str) -> list[str]:
    """The words of the kernels that a kernel is the sum of."""
    return re.split(r"\+(?=[^\d])", kernel)


def fields_of(word: str) -> tuple[str, float, float, int, float]:
    """(name, gamma, coef0, degree, weight) of a word of FORMULAS with all its numbers; 1 and 0 if it has none."""
    name, _, rest = word.partition(":")
    named = dict(re.findall(r"(\w+)=([^,]+)", rest))
    first = rest.partition(",")[0]
    gamma = float(named["gamma"] if name == "poly" else first) if name in ("rbf", "poly", "sigmoid") else 1.0
    degree = int(first) if name == "poly" else 1
    return name, gamma, float(named.get("coef0", 0.0)), degree, float(named.get("weight", 1.0))


def kernel_values(word: str, products: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """K from x.z (m, s), ||x||^2 (m, 1) and ||z||^2 (1, s); word: of FORMULAS, with all its numbers."""
    name, gamma, coef0, degree, weight = fields_of(word)
    if name == "rbf":
        return weight * np.exp(-gamma * np.maximum(left + right - 2.0 * products, 0.0))
    found = gamma * products + coef0
    return np.asarray(weight * (np.tanh(found) if name == "sigmoid" else found**degree))


def rounding(word: str, longest: float, columns: int, terms: int) -> float:
    """A bound on the error of a mean of so many values of a word of FORMULAS. longest: ||x||^2 of any row."""
    name, gamma, coef0, degree, weight = fields_of(word)
    size = gamma * longest + abs(coef0) if name in ("poly", "linear") else 1.0
    of_products = (4.0 if name == "rbf" else degree) * (columns + 8.0)
    steps = of_products * gamma * longest if name in ("rbf", "sigmoid") else of_products
    return EPS * weight * size**degree * (steps + terms + 16.0)


def as_array(X: Any) -> np.ndarray:
    """The rows, dense."""
    return np.asarray(X.toarray() if sp.issparse(X) else X)


class MachineRows:
    """Rows as stored, scaled as those of the training were."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self.features, self.center, self.factor = int(arrays["features"]), arrays["centers"], arrays["factors"]

    def scaled(self, X: Any) -> Any:
        """The rows (m, d), an array or a csr_array."""
        if self.factor.size:  # sparse rows are not centred
            X = X.multiply(self.factor) if sp.issparse(X) else (X - self.center) * self.factor
        return sp.csr_array(X) if sp.issparse(X) else X


class MappedRows(MachineRows):
    """Rows as stored become those of a map, to the bits of the training."""

    def __init__(self, arrays: dict[str, np.ndarray], fitted: Any) -> None:
        super().__init__(arrays)
        self.fitted = fitted

    def mapped(self, X: Any) -> np.ndarray:
        """The mapped rows (m, width) float64."""
        return self.fitted.rows(self.scaled(X)).astype(np.float64)


class Values:
    """sum_j coef_j K(x, z_j) if the columns of a row are its values against the rows of the training."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self.coef, self.support, self.width = arrays["dual_coef"], arrays["support"], int(arrays["features"])
        weight = re.search(r"weight=([^,]+)", str(arrays["kernel"]))
        self.weight = 1.0 if weight is None else float(weight[1])
        self.penalties, self.largest = np.zeros(len(self.coef)), 0.0

    @property
    def unit(self) -> float:
        """A bound on the error of a score, for coefficients whose sizes add up to 1."""
        return EPS * self.largest * (self.support.size + 16.0)

    def scores(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """(scores (m, K) without constants, bounds on their rounding) of rows as stored."""
        values = self.weight * as_array(X[:, self.support])
        self.largest = max(self.largest, float(np.abs(values).max(initial=0.0)))
        return values @ self.coef.T, BLUR * (np.abs(values) @ np.abs(self.coef).T)

    def meet(self, first: int, scores: np.ndarray) -> None:
        """Rows of the training from `first` on have these scores: 1/2 coef.K coef grows by those of support rows."""
        here = np.flatnonzero((self.support >= first) & (self.support < first + len(scores)))
        self.penalties += 0.5 * np.sum(scores[self.support[here] - first] * self.coef[:, here].T, axis=0)


class SavedExpansion(MachineRows):
    """sum_j coef_j K(x, z_j) of a saved model, for rows as stored; known: the kernel of a user's word."""

    def __init__(self, arrays: dict[str, np.ndarray], known: Callable[[str], Any]) -> None:
        self.known = known
        self.words = words_in(str(arrays["kernel"]))
        super().__init__(arrays)
        self.coef, values, indptr, self.width = arrays["dual_coef"], arrays["values"], arrays["indptr"], self.features
        shape = (arrays["support"].size, self.width)
        self.rows: Any = values.astype(np.float64)
        if indptr.size:
            self.rows = sp.csr_array((values.astype(np.float64), arrays["indices"].astype(np.int64), indptr), shape)
        self.squares = np.asarray((self.rows * self.rows).sum(axis=1)).ravel()
        self.longest = 0.0  # ||x||^2 of the rows that were scored
        own = self._scores(self.rows)
        self.penalties = 0.5 * np.sum(own * self.coef.T, axis=0)
        self.largest = max(
            float(np.abs(self._values(self.rows[:MACHINE_ROWS], self.rows[:MACHINE_ROWS])).max(initial=0.0)), 1.0
        )

    @property
    def unit(self) -> float:
        """A bound on the error of a score, for coefficients whose sizes add up to 1."""
        own = [word for word in self.words if word.partition(":")[0] in FORMULAS]
        terms = self.squares.size + len(self.words)
        found = sum(rounding(word, self.longest, self.width, terms) for word in own)
        return found if len(own) == len(self.words) else found + EPS * self.largest * (self.width + terms + 16.0)

    def _values(self, X: Any, Z: Any) -> np.ndarray:
        products = X @ Z.T
        dense = products.toarray() if sp.issparse(products) else np.asarray(products)
        left, right = (np.asarray((one * one).sum(axis=1)).reshape(-1) for one in (X, Z))
        self.longest = max(self.longest, float(left.max(initial=0.0)))
        found = np.zeros(dense.shape)
        for word in self.words:
            if word.partition(":")[0] in FORMULAS:
                found += kernel_values(word, dense, left[:, None], right[None])
            else:
                kernel = self.known(word)
                both = (X, Z) if sp.issparse(X) == sp.issparse(Z) else (as_array(X), as_array(Z))
                found += kernel.weight * kernel.gram(*both)
        return found

    def _scores(self, X: Any) -> np.ndarray:
        found = np.zeros((X.shape[0], len(self.coef)))
        for low in range(0, self.rows.shape[0], MACHINE_ROWS):
            few = slice(low, low + MACHINE_ROWS)
            found += self._values(X, self.rows[few]) @ self.coef[:, few].T
        return found

    def scores(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """(scores (m, K) without constants, bounds on their rounding) of rows as stored."""
        found = self._scores(self.scaled(X))
        return found, max(BLUR * self.largest, self.unit) * np.abs(self.coef).sum(axis=1)

    def meet(self, first: int, scores: np.ndarray) -> None:
        """Its penalties are known from the support rows."""


def margins(
    machine: SavedExpansion | Values, joint: bool, smallest: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(margins (K,) of rows whose smallest scores are these, bounds on their rounding, whether it hides them).

    joint: of all lines together. If w makes mistakes, the bound is -inf: the figure need only be below the margin.
    If rounding hides the sign of a margin, or the length of w, no figure of at most 0 can be told from it.
    """
    masses, squares = np.abs(machine.coef).sum(axis=1), 2.0 * np.maximum(machine.penalties, 0.0)
    unit = 4.0 * machine.unit
    error, off = unit * masses * masses, 2.0 * unit * masses
    if joint:
        squares, error, off = (np.full(len(one), one.sum()) for one in (squares, error, off))
    with np.errstate(all="ignore"):
        found = np.where(squares > 0.0, smallest / np.sqrt(squares), -np.inf)
        sure = smallest - off
        least = sure / np.sqrt(np.where(sure > 0.0, squares + error, squares - error))
    blur = np.where(np.isnan(least), found, found - least)
    return found, np.where(smallest < 0.0, -np.inf, blur), np.where(smallest < 0.0, squares <= error, sure <= 0.0)


def machine_of(arrays: dict[str, np.ndarray], known: Callable[[str], Any]) -> SavedExpansion | Values | None:
    """The kernel machine of a model file; None for another model. known: see `Expansion`."""
    if "dual_coef" not in arrays:
        return None
    return Values(arrays) if str(arrays["kernel"]).startswith("precomputed") else SavedExpansion(arrays, known)


def mapped_of(arrays: dict[str, np.ndarray], fitted_of: Callable[[Any], Any]) -> MappedRows | None:
    """The map of a model file; None for a model without one. fitted_of: what maps rows, from its arrays."""
    return MappedRows(arrays, fitted_of(arrays)) if "map" in arrays else None
