"""Measurements of a kernel on the rows: its numbers, how large its values are, and how exact."""

from __future__ import annotations

import math

import numpy as np

from streammargin.compiled import gram as sums
from streammargin.errors import DataError, UsageError
from streammargin.kernels.base import Kernel
from streammargin.points import gram
from streammargin.rows.blocks import Block, CSRBlock, DenseBlock, part
from streammargin.rows.labels import RowLabels
from streammargin.solvers.base import MarginSizes
from streammargin.solvers.expansion.matrices import SYMMETRIC, add_skew
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.inseparable import empty
from streammargin.solvers.proof.rounding import EPS
from streammargin.solvers.roles import Shared, f8, i8, of, state

LARGEST_VALUE = 1e60
NEARLY = 1e-7  # of the mean length of a row: a hard margin below this is given up


@state
class Measured:
    """moments: of compiled/gram.py; largest: K(x, x) of any row; entries: the most nonzero ones of a row.

    All three are of present rows; the moments weigh them. zeros: rows of a hard margin that are all 0. skew: of a
    precomputed matrix, see `add_skew`.
    """

    moments: Shared[f8] = of(sums.MOMENTS)
    largest: Shared[f8] = of(1)
    entries: Shared[i8] = of(1)
    zeros: Shared[i8] = of(1)
    skew: Shared[f8] = of(3)

    @property
    def longest(self) -> float:
        """The largest ||x||^2 of a present row."""
        return float(self.moments[sums.LARGEST_SQUARED_NORM])


def given(problem: Problem) -> Kernel:
    """The kernel as it was given."""
    assert problem.kernel is not None
    return problem.kernel


def check_rows(problem: Problem) -> None:
    """UsageError if rows are no matrix of values, and the kernel is precomputed."""
    if not given(problem).of_numbers:
        return
    if problem.sparse:
        raise UsageError("a precomputed kernel is a dense matrix, and these rows are sparse; give an array")
    if problem.rows != problem.features:
        raise UsageError(
            f"`kernel=precomputed` takes the square matrix of all training rows, and this one is {problem.rows} x "
            f"{problem.features}; give K(X, X)"
        )


def measure(problem: Problem, measured: Measured, labels: RowLabels, block: Block, first: int) -> None:
    """Add a block of the first read; labels: of all rows."""
    if given(problem).of_numbers:
        assert isinstance(block, DenseBlock)
        add_skew(block.X, first, measured.skew)
        return
    own = labels.cut(first, first + block.rows())
    there = own.present(slice(0, block.rows()))
    measured.entries[0] = max(measured.entries[0], _most_entries(block, there))
    measured.zeros[0] += int(np.count_nonzero(empty(block) & there)) if problem.hard else 0
    sums.add_moments(block._replace(bias=0.0), own.codes_of(0), own.weights, measured.moments)


def of_length_zero(problem: Problem, measured: Measured) -> bool:
    """Whether a row is the point 0 in the space of the kernel. It has no margin without a constant."""
    if not measured.zeros[0] or problem.free:
        return False
    zero = np.zeros((1, problem.features))
    return all(float(one.gram(zero, zero)[0, 0]) == 0.0 for one in kernel_of(problem, measured).parts)


def _most_entries(block: Block, there: np.ndarray) -> int:
    """The most entries of a row that is there (m,) bool that are not 0: products with others are exact."""
    if isinstance(block, CSRBlock):
        return int(np.diff(block.indptr).max(initial=0, where=there))
    tiles = (slice(low, low + 1024) for low in range(0, block.rows(), 1024))
    most = (np.count_nonzero(block.X[tile], axis=1).max(initial=0, where=there[tile]) for tile in tiles)
    return max(map(int, most), default=0)


def squares_of(problem: Problem, measured: Measured, labels: RowLabels, block: Block, first: int) -> np.ndarray:
    """K(x, x) of the rows of a block of a second read, of which the largest is kept; 0 for absent rows."""
    kernel = kernel_of(problem, measured)
    if not (kernel.by_products or kernel.of_numbers):
        _check_gram(kernel, block)
    there = labels.present(slice(first, first + block.rows()))
    own = np.where(there, gram.diagonal(kernel, block, first), 0.0)
    measured.largest[0] = np.maximum(measured.largest[0], np.abs(own).max(initial=0.0))  # keeps NaN
    return own


def _check_gram(kernel: Kernel, block: Block) -> None:
    """UsageError if a kernel gives no real values (3, 2) for three rows of the block and the first two of these."""
    few = gram.plain(part(block, 0, min(3, block.rows())))[np.arange(3) % block.rows()]
    for one in kernel.parts:
        values = one.gram(few, few[:2])
        if not isinstance(values, np.ndarray) or isinstance(values, np.matrix):
            found = f"a {type(values).__name__}"
        elif values.dtype not in (np.float64, np.float32) and values.dtype.kind not in "biu":  # whole ones are exact
            found = f"values of the type {values.dtype}"
        elif values.shape != (3, 2):
            raise UsageError(
                f"the kernel {one} gives values of the shape {values.shape} for 3 and 2 rows; its method gram must "
                "give a row for each row of X, and a column for each of Z"
            )
        else:
            continue
        raise UsageError(f"the kernel {one} gives {found}; its method gram must give a NumPy array of real numbers")


def kernel_of(problem: Problem, measured: Measured) -> Kernel:
    """The kernel with numbers in place of words; known after the first read."""
    return given(problem).resolved(problem.features, sums.variance_of(measured.moments, problem.features))


def largest_value(problem: Problem, measured: Measured) -> float:
    """The largest |K(x, x)|, or a bound on it. DataError if values overflow."""
    kernel, value = kernel_of(problem, measured), float(measured.largest[0])
    if kernel.by_products:
        squares = np.array([0.0, measured.longest])
        with np.errstate(all="ignore"):
            value = float(np.abs(kernel.of_products(squares.copy(), squares, squares)).max())
    if math.isnan(value) and not kernel.by_products:
        raise DataError(
            f"the kernel {kernel} has the value NaN on these rows; its method gram must give finite numbers"
        )
    if not value <= LARGEST_VALUE:
        smaller = "gamma or weight" if any(hasattr(one, "gamma") for one in kernel.parts) else "weight"
        raise DataError(
            f"the kernel {kernel} has values of {value:.3g}, too large to compute with; use `scale=std`, or a "
            f"smaller {smaller}"
        )
    return value


def blur(problem: Problem, measured: Measured, terms: int, eps: float = EPS) -> float:
    """A bound on the rounding error of a score, for coefficients whose sizes add up to 1; eps: of an operation."""
    value = largest_value(problem, measured)
    of_value = kernel_of(problem, measured).careful_blur(measured.longest, value, entries_of(problem, measured))
    return eps * (of_value + value * (terms + 8.0))


def entries_of(problem: Problem, measured: Measured) -> int:
    """The most terms of a product of two rows."""
    return int(measured.entries[0]) if given(problem).by_products else problem.features


def check_skew(problem: Problem, measured: Measured) -> None:
    """DataError if a precomputed matrix on disk is not symmetric; one in memory is compared value by value."""
    x, y, value = measured.skew.tolist()
    if not problem.resident and abs(x - y) > SYMMETRIC * value * problem.rows:
        raise DataError("the precomputed matrix is not symmetric; give K(X, X), where K(x, z) and K(z, x) are equal")


def check_values(problem: Problem, measured: Measured) -> None:
    """DataError if values overflow, may have no correct digit, or are not symmetric."""
    check_skew(problem, measured)
    value, entries = largest_value(problem, measured), entries_of(problem, measured)
    if EPS * kernel_of(problem, measured).blur(measured.longest, value, entries) > value:
        raise DataError(
            f"values of the kernel {kernel_of(problem, measured)} on these rows may be rounding alone; "
            "subtract the mean of a column that is far from 0, use `scale=std`, or another gamma"
        )


def margin_sizes(problem: Problem, mean: float, hidden: float) -> MarginSizes:
    """What a hard margin is compared with; mean: the mean length of a row, of which margins are often a small part."""
    return MarginSizes(mean, 0.0, max(min(problem.tol, NEARLY) * mean, hidden))
