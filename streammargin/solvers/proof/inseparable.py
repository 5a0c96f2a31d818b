"""Rows that nothing separates: proofs that rounding cannot touch.

Two rows of different sides are equal; or 0 is in the convex hull of a few rows, so no plane through 0 has them all on
one side. A hull that is near 0 but for rounding proves nothing, as a plane may separate rows by less. Two proofs do: if
the hull has an interior, an error bound shows that 0 is there; else whole numbers show that positive multiples of the
rows add up to 0.

Source: Rump, Verification methods: rigorous results using floating-point arithmetic, 2010, section 10; Bareiss 1968.
"""

from __future__ import annotations

import sys

import numpy as np

from streammargin.kernels.base import Kernel
from streammargin.rows.blocks import Block, CSRBlock, DenseBlock, alone, part, taken, values_of
from streammargin.solvers.proof.rounding import EPS

HASHED_ROWS = 1024  # at a time
MULTIPLIERS = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9], np.uint64)  # odd numbers without a pattern
SHIFT = np.uint64(29)
ENTRIES = 1 << 18  # most whole numbers
MOST_DIGITS = 1e9  # of them that may be computed, about: a second or two


def inseparable(kernel: Kernel | None, rows: Block, sides: np.ndarray) -> bool:
    """Whether two equal rows are on different sides (m,) int; 0 is none.

    The margin of an expansion is the root of a sum. If a bound on it is 0 up to rounding, it may still be 1e-8 of the
    longest row, so the bound proves little. The rows of precomputed values are not known.
    """
    if kernel is not None and kernel.of_numbers:
        return False
    own = np.flatnonzero(sides)
    hashes = np.concatenate(
        [hashes_of(part(rows, low, low + HASHED_ROWS)) for low in range(0, rows.rows(), HASHED_ROWS)] or [own]
    )
    own = own[np.lexsort((sides[own], hashes[own]))]
    first, second = own[:-1], own[1:]
    pairs = np.flatnonzero((hashes[first] == hashes[second]) & (sides[first] != sides[second]))
    return any(_equal(taken(rows, own[at : at + 2])) for at in pairs.tolist())


def empty(rows: Block) -> np.ndarray:
    """Which rows (m,) are all 0. If K(x, x) of another row is 0, it has underflowed."""
    if isinstance(rows, CSRBlock):
        return np.diff(np.append(0, np.cumsum(rows.data != 0.0))[rows.indptr]) == 0
    found: np.ndarray = ~np.any(rows.X, axis=1)
    return found


def hashes_of(rows: Block) -> np.ndarray:
    """A number (m,) uint64 for each row; equal rows have equal ones."""
    rows = alone(rows)
    values = values_of(rows) + 0.0  # -0.0 is 0.0
    bits = values.view(np.uint32 if values.dtype.itemsize == 4 else np.uint64).astype(np.uint64)
    if isinstance(rows, DenseBlock):
        return bits @ _mixed(np.arange(rows.X.shape[1]))
    sums = np.cumsum(np.concatenate([np.zeros(1, np.uint64), bits * _mixed(rows.indices)]))  # overflows, as it may
    found: np.ndarray = np.diff(sums[rows.indptr])
    return found


def _mixed(columns: np.ndarray) -> np.ndarray:
    found = (columns.astype(np.uint64) + np.uint64(1)) * MULTIPLIERS[0]
    found ^= found >> SHIFT
    mixed: np.ndarray = found * MULTIPLIERS[1] | np.uint64(1)
    return mixed


def _equal(two: Block) -> bool:
    if isinstance(two, DenseBlock):
        return bool(np.array_equal(two.X[0], two.X[1]))
    there, second = two.data != 0.0, np.arange(two.data.size) >= two.indptr[1]
    return all(np.array_equal(one[there & ~second], one[there & second]) for one in (two.indices, two.data))


def encloses(rows: np.ndarray, u: np.ndarray, error: float) -> bool:
    """Whether 0 is certainly a convex combination of these rows (s, c), of which none can be left out.

    u (s,): about its coefficients, > 0. error: bound on the relative error of a value; 0: they are exact.
    """
    there = rows.any(axis=0)
    if error > 0.0 and not there.all():  # a column of zeros may have lost its values
        return False
    found = _scaled(rows[:, there])
    return found is not None and (_inside(found, u, error) or (error == 0.0 and _cancel(found)))


def _scaled(rows: np.ndarray) -> np.ndarray | None:
    """Rows, then columns, times powers of two that bring their largest value to about 1; None if a value is lost."""
    found = rows
    for axis in (1, 0):
        powers = -np.frexp(np.abs(found).max(axis=axis, initial=0.0, keepdims=True))[1]
        scaled = np.ldexp(found, powers)
        if not np.array_equal(np.ldexp(scaled, -powers), found):
            return None
        found = scaled
    return found


def _inside(A: np.ndarray, u: np.ndarray, error: float) -> bool:
    """Whether 0 is inside the hull of the rows A (s, c): B x = e for an x > 0, with B = (A^T; 1) and e = (0; 1).

    If R is about a right inverse of B, the solution R (B R)^-1 e differs from R e by a bound.
    """
    s, c = A.shape
    if s <= c:
        return False
    B, root = np.vstack([A.T, np.ones(s)]), np.sqrt(u / u.max())
    Q, T = np.linalg.qr((B * root).T)
    try:
        R = root[:, None] * (Q @ np.linalg.inv(T).T)
    except np.linalg.LinAlgError:
        return False
    off = np.abs(np.eye(c + 1) - B @ R)  # and its rounding, for any order of the sums
    off += (2.0 * (s + 4) * EPS + error) * (np.abs(B) @ np.abs(R)) + s * sys.float_info.min
    size, rest = off.sum(axis=1).max(), off[:, -1].max()
    if not size < 0.5:
        return False
    return bool((R[:, -1] > 2.0 * (1.0 + s * EPS) / (1.0 - size) * rest * np.abs(R).sum(axis=1)).all())


def _cancel(A: np.ndarray) -> bool:
    """Whether positive multiples of the rows A (s, c), any s - 1 of which are independent, add up to exactly 0."""
    from scipy.linalg import qr

    s, c = A.shape
    if not 2 <= s <= c + 1 or A.size > ENTRIES:
        return False
    exponents = np.frexp(np.where(A == 0.0, 1.0, A))[1]
    whole = np.ldexp(np.frexp(A)[0], 53).astype(np.int64).astype(object)
    whole <<= np.where(A == 0.0, 0, exponents - exponents.min(axis=0)).astype(object)
    whole //= np.gcd.reduce(whole, axis=0)
    bits = max(int(value).bit_length() for value in whole.flat)
    if s**3 * (s * (bits + 3) + 200) > MOST_DIGITS:
        return False
    x = _null(whole[:, np.sort(qr(A, mode="r", pivoting=True)[1][: s - 1])].T)
    return x is not None and bool((x > 0).all()) and not (x @ whole).any()


def _null(M: np.ndarray) -> np.ndarray | None:
    """The whole numbers x (s,) with M x = 0, for whole numbers M (s-1, s), by elimination without fractions."""
    M, before = M.copy(), 1
    for k in range(len(M)):
        others = np.flatnonzero(M[k:, k]) + k
        if not others.size:
            return None
        M[[k, others[0]]] = M[[others[0], k]]
        rest = np.arange(len(M)) != k
        M[rest] = (M[k, k] * M[rest] - M[rest, k][:, None] * M[k]) // before
        before = M[k, k]
    x = np.append(-M[:, -1], before)
    return x if before > 0 else -x
