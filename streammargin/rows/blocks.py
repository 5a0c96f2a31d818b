"""Blocks of consecutive rows: what a source yields and a kernel consumes.

Both kinds have the same methods, so one kernel source works for dense and sparse rows. A weight
vector has length d + 1: the last entry belongs to the constant column of value `bias` (0: none).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

GRAM_TILE_COLUMNS = 256  # columns of the Gram matrix updated at a time, and
GRAM_ROWS = 32  # rows added to it at a time: both fit into a cache
LINE = 16  # values of 4 bytes in a cache line
# Bytes of weights from which prefetching those of the next row is faster. Seconds of a pass over 40,000 rows of hashed
# n-grams, 23 million values, without and with prefetching: 2^20 columns in float32 0.057 and 0.060, in float64 0.088
# and 0.069; 2^22 columns 0.115 and 0.081, 0.149 and 0.108.
PREFETCH_BYTES = 6 << 20
# Unsigned steps keep LLVM from unrolling a loop over a sparse row into two or three loops. At the end of each loop the
# branch is mispredicted, as rows have different lengths, at the cost of some 15 iterations. Unsigned indices also need
# no check for negative positions.
ONE, TWO, THREE, FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


def prefetch(array: np.ndarray, index: int) -> None:
    """Prefetch array[index] into the cache; does nothing without the JIT."""


def prefetch_outer(array: np.ndarray, index: int) -> None:
    """The same into the L2 cache, which allows more requests at a time than L1."""


def dense_dot(x: np.ndarray, w: np.ndarray) -> float:
    """sum_j x_j w_j over the entries of x, in the precision of w."""
    total = w.dtype.type(0)
    for j in range(x.size):
        total += x[j] * w[j]
    return total


def squares(x: np.ndarray) -> float:
    """sum_j x_j^2 over the entries of x, in float64."""
    total = 0.0
    for j in range(x.size):
        total += np.float64(x[j]) * np.float64(x[j])
    return total


def dense_exact_dot(x: np.ndarray, w: np.ndarray) -> float:
    """sum_j x_j w_j over the entries of x, in float64."""
    total = 0.0
    for j in range(x.size):
        total += np.float64(x[j]) * np.float64(w[j])
    return total


def beyond(x: float, r: float) -> float:
    """sign(x) (|x| - r)_+, without a branch, which would often be mispredicted."""
    return x - min(max(x, -r), r)


def dense_shrunk_dot(x: np.ndarray, theta: np.ndarray, r: float) -> float:
    """sum_j x_j sign(theta_j) (|theta_j| - r)_+ over the entries of x."""
    total = 0.0
    for j in range(x.size):
        total += x[j] * beyond(theta[j], r)
    return total


def power_sum(x: np.ndarray, bias: float, q: float) -> float:
    """sum_j |x_j|^q over the entries of x and the constant, in float64."""
    total = 0.0
    if q == 2.0:
        total = squares(x)
    else:
        for j in range(x.size):
            if x[j] != 0:
                total += abs(np.float64(x[j])) ** q
    if bias != 0.0:
        total += abs(bias) ** q
    return total


def add_outer_products(rows: np.ndarray, t: float, H: np.ndarray, first: int) -> None:
    """H[j, k] += t sum_r rows[r, j] rows[r, k] for first <= j <= k; the number of rows is a multiple of 8."""
    width = H.shape[0]
    for low in range(first, width, GRAM_TILE_COLUMNS):
        high = min(low + GRAM_TILE_COLUMNS, width)
        for r in range(0, rows.shape[0], 8):
            for j in range(first, high):
                # slices: indices from 0 are known not to be negative, so LLVM vectorises the loop
                start = max(j, low)
                h = H[j, start:high]
                f0, f1, f2, f3 = t * rows[r, j], t * rows[r + 1, j], t * rows[r + 2, j], t * rows[r + 3, j]
                f4, f5, f6, f7 = t * rows[r + 4, j], t * rows[r + 5, j], t * rows[r + 6, j], t * rows[r + 7, j]
                x0, x1, x2, x3 = (
                    rows[r, start:high], rows[r + 1, start:high], rows[r + 2, start:high], rows[r + 3, start:high],
                )  # fmt: skip
                x4, x5, x6, x7 = (
                    rows[r + 4, start:high], rows[r + 5, start:high], rows[r + 6, start:high], rows[r + 7, start:high],
                )  # fmt: skip
                for k in range(h.size):
                    h[k] += ((f0 * x0[k] + f1 * x1[k]) + (f2 * x2[k] + f3 * x3[k])) + (
                        (f4 * x4[k] + f5 * x5[k]) + (f6 * x6[k] + f7 * x7[k])
                    )


def add_multiples(X: np.ndarray, rows: np.ndarray, factors: np.ndarray, w: np.ndarray) -> None:
    """w[j] += sum_r factors_r X[i, j] over the listed rows i, four rows at a time."""
    d = X.shape[1]
    w = w[:d]
    fours = rows.size >> 2
    for r in range(0, 4 * fours, 4):
        x0, x1, x2, x3 = X[rows[r]], X[rows[r + 1]], X[rows[r + 2]], X[rows[r + 3]]
        f0, f1, f2, f3 = factors[r], factors[r + 1], factors[r + 2], factors[r + 3]
        for j in range(w.size):
            w[j] += (f0 * x0[j] + f1 * x1[j]) + (f2 * x2[j] + f3 * x3[j])
    for r in range(4 * fours, rows.size):
        x = X[rows[r]]
        for j in range(w.size):
            w[j] += factors[r] * x[j]


def add_dense_scores(X: np.ndarray, V: np.ndarray, Z: np.ndarray) -> None:
    """Z[r, g] += sum_j X[r, j] V[g, j], in float64: eight sums at a time, over GRAM_TILE_COLUMNS columns.

    They are those of two rows and four lines, or of eight rows if fewer lines are left.
    """
    m, d, lines = X.shape[0], X.shape[1], V.shape[0]
    fours, eights = lines // 4 * 4, m // 8 * 8
    for low in range(0, d, GRAM_TILE_COLUMNS):
        high = min(low + GRAM_TILE_COLUMNS, d)
        for r in range(0, m if fours > 0 else 0, 2):
            last = min(r + 1, m - 1)  # of an odd number of rows, the last one stands alone
            x, y = X[r, low:high], X[last, low:high]
            for g in range(0, fours, 4):
                v0, v1, v2, v3 = V[g, low:high], V[g + 1, low:high], V[g + 2, low:high], V[g + 3, low:high]
                s0 = s1 = s2 = s3 = t0 = t1 = t2 = t3 = 0.0
                for j in range(x.size):
                    a, b = np.float64(x[j]), np.float64(y[j])
                    s0 += a * v0[j]
                    s1 += a * v1[j]
                    s2 += a * v2[j]
                    s3 += a * v3[j]
                    t0 += b * v0[j]
                    t1 += b * v1[j]
                    t2 += b * v2[j]
                    t3 += b * v3[j]
                out = Z[r, g : g + 4]
                out[0] += s0
                out[1] += s1
                out[2] += s2
                out[3] += s3
                if last > r:
                    out = Z[last, g : g + 4]
                    out[0] += t0
                    out[1] += t1
                    out[2] += t2
                    out[3] += t3
        for g in range(fours, lines):
            v = V[g, low:high]
            for r in range(0, eights, 8):
                x0, x1, x2, x3 = X[r, low:high], X[r + 1, low:high], X[r + 2, low:high], X[r + 3, low:high]
                x4, x5, x6, x7 = X[r + 4, low:high], X[r + 5, low:high], X[r + 6, low:high], X[r + 7, low:high]
                s0 = s1 = s2 = s3 = t0 = t1 = t2 = t3 = 0.0
                for j in range(v.size):
                    s0 += x0[j] * v[j]
                    s1 += x1[j] * v[j]
                    s2 += x2[j] * v[j]
                    s3 += x3[j] * v[j]
                    t0 += x4[j] * v[j]
                    t1 += x5[j] * v[j]
                    t2 += x6[j] * v[j]
                    t3 += x7[j] * v[j]
                Z[r, g] += s0
                Z[r + 1, g] += s1
                Z[r + 2, g] += s2
                Z[r + 3, g] += s3
                Z[r + 4, g] += t0
                Z[r + 5, g] += t1
                Z[r + 6, g] += t2
                Z[r + 7, g] += t3
            for r in range(eights, m):
                x, total = X[r, low:high], 0.0
                for j in range(v.size):
                    total += x[j] * v[j]
                Z[r, g] += total


def add_dense_pulls(X: np.ndarray, R: np.ndarray, G: np.ndarray) -> None:
    """G[g, j] += sum_r R[r, g] X[r, j], in float64: eight rows at a time, GRAM_TILE_COLUMNS columns at a time."""
    m, d = X.shape
    eights = m // 8 * 8
    for low in range(0, d, GRAM_TILE_COLUMNS):
        high = min(low + GRAM_TILE_COLUMNS, d)
        for r in range(0, eights, 8):
            x0, x1, x2, x3 = X[r, low:high], X[r + 1, low:high], X[r + 2, low:high], X[r + 3, low:high]
            x4, x5, x6, x7 = X[r + 4, low:high], X[r + 5, low:high], X[r + 6, low:high], X[r + 7, low:high]
            for g in range(G.shape[0]):
                f0, f1, f2, f3 = R[r, g], R[r + 1, g], R[r + 2, g], R[r + 3, g]
                f4, f5, f6, f7 = R[r + 4, g], R[r + 5, g], R[r + 6, g], R[r + 7, g]
                out = G[g, low:high]
                for j in range(out.size):
                    out[j] += ((f0 * x0[j] + f1 * x1[j]) + (f2 * x2[j] + f3 * x3[j])) + (
                        (f4 * x4[j] + f5 * x5[j]) + (f6 * x6[j] + f7 * x7[j])
                    )
        for r in range(eights, m):
            x = X[r, low:high]
            for g in range(G.shape[0]):
                out = G[g, low:high]
                for j in range(out.size):
                    out[j] += R[r, g] * x[j]


class DenseBlock(NamedTuple):
    """Rows of a C-contiguous array X, shape (m, d), float32 or float64, writable (never written)."""

    X: np.ndarray
    bias: float

    def rows(self) -> int:
        """Number of rows m."""
        return self.X.shape[0]

    def features(self) -> int:
        """Number of columns d, the constant column not counted."""
        return self.X.shape[1]

    def dot(self, i: int, w: np.ndarray) -> float:
        """x_i . w, summed in the precision of w."""
        x = self.X[i]
        return dense_dot(x, w) + w.dtype.type(self.bias) * w[x.size]

    def exact_dot(self, i: int, w: np.ndarray) -> float:
        """x_i . w, summed in float64 even if w is float32."""
        x = self.X[i]
        return dense_exact_dot(x, w) + np.float64(self.bias) * np.float64(w[x.size])

    def dot_and_square(self, i: int, w: np.ndarray) -> tuple[float, float]:
        """(exact_dot, ||x_i||_2^2), summed in float64; the square may under- or overflow."""
        return self.exact_dot(i, w), self.sum_powers(i, 2.0)

    def add(self, i: int, t: float, w: np.ndarray) -> None:
        """w += t x_i."""
        x = self.X[i]
        t = w.dtype.type(t)
        for j in range(x.size):
            w[j] += t * x[j]
        w[x.size] += t * w.dtype.type(self.bias)

    def add_rows(self, rows: np.ndarray, factors: np.ndarray, w: np.ndarray) -> None:
        """w += sum_r factors_r x_i over the listed rows i."""
        add_multiples(self.X, rows, factors, w)
        for r in range(rows.size):
            w[self.X.shape[1]] += factors[r] * self.bias

    def sum_powers(self, i: int, q: float) -> float:
        """sum_j |x_ij|^q, in float64."""
        return power_sum(self.X[i], self.bias, q)

    def shrunk_dot(self, i: int, theta: np.ndarray, r: float) -> float:
        """sum_j x_ij sign(theta_j) (|theta_j| - r)_+."""
        x = self.X[i]
        return dense_shrunk_dot(x, theta, r) + self.bias * beyond(theta[x.size], r)

    def entries(self, i: int) -> int:
        """Number of stored values of row i."""
        return self.X.shape[1]

    def column(self, i: int, k: int) -> int:
        """The column of stored value k of row i; after the last one comes the constant."""
        return k

    def value(self, i: int, k: int) -> float:
        """The value there."""
        return self.X[i, k] if k < self.X.shape[1] else self.bias

    def add_gram(self, rows: np.ndarray, factors: np.ndarray, few: np.ndarray, H: np.ndarray) -> None:
        """H (d+1, d+1) += sum_r factors_r x_i x_i^T over the listed rows i, upper triangle only; factors >= 0.

        few (GRAM_ROWS, d+1): scratch memory, as a method of a block cannot allocate.
        """
        d = self.X.shape[1]
        for start in range(0, rows.size, GRAM_ROWS):
            size = min(GRAM_ROWS, rows.size - start)
            for r in range(size):
                root = np.sqrt(factors[start + r])
                x = self.X[rows[start + r]]
                out = few[r]
                for j in range(d):
                    out[j] = root * x[j]
                out[d] = root * self.bias
            up = (size + 7) // 8 * 8
            few[size:up] = 0.0
            add_outer_products(few[:up], 1.0, H, 0)

    def add_gram_of(
        self, rows: np.ndarray, factors: np.ndarray, columns: np.ndarray, places: np.ndarray, few: np.ndarray,
        H: np.ndarray,
    ) -> None:  # fmt: skip
        """`add_gram` of m columns alone: H (m, m), few (GRAM_ROWS, m).

        columns (m,): ascending, the constant last; places (d+1,): of each column, its place there, or -1.
        """
        last = columns.size - 1
        for start in range(0, rows.size, GRAM_ROWS):
            size = min(GRAM_ROWS, rows.size - start)
            for r in range(size):
                root = np.sqrt(factors[start + r])
                x = self.X[rows[start + r]]
                out = few[r]
                for j in range(last):
                    out[j] = root * x[columns[j]]
                out[last] = root * self.bias
            up = (size + 7) // 8 * 8
            few[size:up] = 0.0
            add_outer_products(few[:up], 1.0, H, 0)

    def line_scores(self, i: int, W: np.ndarray, first: int, out: np.ndarray) -> None:
        """out[g] = x_i . W_g for the lines first, first + 1, ... of W (K, d+1), summed in the precision of `out`."""
        for g in range(out.size):
            out[g] = self.exact_dot(i, W[first + g]) if out.itemsize == 8 else self.dot(i, W[first + g])

    def add_to_lines(self, i: int, factors: np.ndarray, W: np.ndarray, first: int) -> None:
        """W_g += factors[g] x_i for the lines first, first + 1, ... of W (K, d+1)."""
        for g in range(factors.size):
            if factors[g] != 0.0:
                self.add(i, factors[g], W[first + g])

    def scores_of(self, start: int, stop: int, V: np.ndarray, Z: np.ndarray) -> None:
        """Z[i - start, g] = x_i . V_g for start <= i < stop and all lines g of V (lines, d+1), in float64."""
        d = self.X.shape[1]
        for r in range(stop - start):
            for g in range(V.shape[0]):
                Z[r, g] = self.bias * V[g, d]
        add_dense_scores(self.X[start:stop], V, Z)

    def add_pulls(self, start: int, stop: int, R: np.ndarray, G: np.ndarray) -> None:
        """G_g += sum_i R[i - start, g] x_i over start <= i < stop, for all lines g of G (lines, d+1)."""
        d = self.X.shape[1]
        add_dense_pulls(self.X[start:stop], R, G)
        for r in range(stop - start):
            for g in range(G.shape[0]):
                G[g, d] += R[r, g] * self.bias

    def add_squares(self, i: int, t: float, w: np.ndarray) -> None:
        """w_j += t x_ij^2 (d+1,)."""
        x = self.X[i]
        for j in range(x.size):
            w[j] += t * (np.float64(x[j]) * np.float64(x[j]))
        w[x.size] += t * self.bias * self.bias

    def prefetch_row(self, i: int) -> None:
        """Prefetch the beginning of row i; the hardware prefetches the rest of a dense row."""
        if i < self.X.shape[0]:
            prefetch(self.X, i * self.X.shape[1])

    def prefetch_weights(self, i: int, w: np.ndarray) -> None:
        """Do nothing: a dense row uses all weights in order, which the hardware prefetches."""


class CSRBlock(NamedTuple):
    """Sparse rows: data (nnz,), indices (nnz,) uint32 sorted within a row, indptr (m+1,) int64 from 0."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    width: int
    bias: float

    def rows(self) -> int:
        """Number of rows m."""
        return self.indptr.size - 1

    def features(self) -> int:
        """Number of columns d, the constant column not counted."""
        return self.width

    def dot(self, i: int, w: np.ndarray) -> float:
        """x_i . w, summed in the precision of w."""
        data, indices = self.data, self.indices
        k, stop = np.uint64(self.indptr[i]), np.uint64(self.indptr[i + 1])
        fours = stop - (stop - k) % FOUR
        # four sums hide the latency of the additions; a gather instruction would be slower
        s0 = s1 = s2 = s3 = w.dtype.type(0)
        while k < fours:
            s0 += data[k] * w[indices[k]]
            s1 += data[k + ONE] * w[indices[k + ONE]]
            s2 += data[k + TWO] * w[indices[k + TWO]]
            s3 += data[k + THREE] * w[indices[k + THREE]]
            k += FOUR
        while k < stop:
            s0 += data[k] * w[indices[k]]
            k += ONE
        return (s0 + s1) + (s2 + s3) + w.dtype.type(self.bias) * w[self.width]

    def exact_dot(self, i: int, w: np.ndarray) -> float:
        """x_i . w, summed in float64 even if w is float32."""
        return self.dot_and_square(i, w)[0]  # the compiler leaves out the square

    def dot_and_square(self, i: int, w: np.ndarray) -> tuple[float, float]:
        """(exact_dot, ||x_i||_2^2), summed in float64, in one loop; the square may under- or overflow."""
        data, indices = self.data, self.indices
        k, stop = np.uint64(self.indptr[i]), np.uint64(self.indptr[i + 1])
        fours = stop - (stop - k) % FOUR
        s0 = s1 = s2 = s3 = q0 = q1 = 0.0
        while k < fours:
            x0, x1 = np.float64(data[k]), np.float64(data[k + ONE])
            x2, x3 = np.float64(data[k + TWO]), np.float64(data[k + THREE])
            s0 += x0 * np.float64(w[indices[k]])
            s1 += x1 * np.float64(w[indices[k + ONE]])
            s2 += x2 * np.float64(w[indices[k + TWO]])
            s3 += x3 * np.float64(w[indices[k + THREE]])
            q0 += x0 * x0 + x1 * x1
            q1 += x2 * x2 + x3 * x3
            k += FOUR
        while k < stop:
            x0 = np.float64(data[k])
            s0 += x0 * np.float64(w[indices[k]])
            q0 += x0 * x0
            k += ONE
        score = (s0 + s1) + (s2 + s3) + np.float64(self.bias) * np.float64(w[self.width])
        return score, q0 + q1 + self.bias * self.bias

    def add(self, i: int, t: float, w: np.ndarray) -> None:
        """w += t x_i."""
        data, indices = self.data, self.indices
        k, stop = np.uint64(self.indptr[i]), np.uint64(self.indptr[i + 1])
        t = w.dtype.type(t)
        while k < stop:
            w[indices[k]] += t * data[k]
            k += ONE
        w[self.width] += t * w.dtype.type(self.bias)

    def add_rows(self, rows: np.ndarray, factors: np.ndarray, w: np.ndarray) -> None:
        """w += sum_r factors_r x_i over the listed rows i."""
        for r in range(rows.size):
            if r + 2 < rows.size:
                self.prefetch_row(rows[r + 2])
            self.add(rows[r], factors[r], w)

    def sum_powers(self, i: int, q: float) -> float:
        """sum_j |x_ij|^q, in float64."""
        return power_sum(self.data[self.indptr[i] : self.indptr[i + 1]], self.bias, q)

    def shrunk_dot(self, i: int, theta: np.ndarray, r: float) -> float:
        """sum_j x_ij sign(theta_j) (|theta_j| - r)_+."""
        data, indices = self.data, self.indices
        k, stop = np.uint64(self.indptr[i]), np.uint64(self.indptr[i + 1])
        fours = stop - (stop - k) % FOUR
        s0 = s1 = s2 = s3 = 0.0
        while k < fours:
            s0 += data[k] * beyond(theta[indices[k]], r)
            s1 += data[k + ONE] * beyond(theta[indices[k + ONE]], r)
            s2 += data[k + TWO] * beyond(theta[indices[k + TWO]], r)
            s3 += data[k + THREE] * beyond(theta[indices[k + THREE]], r)
            k += FOUR
        while k < stop:
            s0 += data[k] * beyond(theta[indices[k]], r)
            k += ONE
        return (s0 + s1) + (s2 + s3) + self.bias * beyond(theta[self.width], r)

    def entries(self, i: int) -> int:
        """Number of stored values of row i."""
        return self.indptr[i + 1] - self.indptr[i]

    def column(self, i: int, k: int) -> np.int64:
        """The column of stored value k of row i; after the last one comes the constant."""
        return np.int64(self.indices[self.indptr[i] + k]) if k < self.entries(i) else np.int64(self.width)

    def value(self, i: int, k: int) -> float:
        """The value there."""
        return self.data[self.indptr[i] + k] if k < self.entries(i) else self.bias

    def add_gram(self, rows: np.ndarray, factors: np.ndarray, few: np.ndarray, H: np.ndarray) -> None:
        """H (d+1, d+1) += sum_r factors_r x_i x_i^T over the listed rows i, upper triangle only; factors >= 0.

        few (GRAM_ROWS, d+1): scratch memory, as a method of a block cannot allocate.
        """
        for r in range(rows.size):
            start = self.indptr[rows[r]]
            data = self.data[start : self.indptr[rows[r] + 1]]
            indices = self.indices[start : self.indptr[rows[r] + 1]]
            for k in range(data.size):
                h = H[indices[k]]
                t = factors[r] * data[k]
                for m in range(k, data.size):
                    h[indices[m]] += t * data[m]
                h[self.width] += t * self.bias
            H[self.width, self.width] += factors[r] * self.bias * self.bias

    def add_gram_of(
        self, rows: np.ndarray, factors: np.ndarray, columns: np.ndarray, places: np.ndarray, few: np.ndarray,
        H: np.ndarray,
    ) -> None:  # fmt: skip
        """`add_gram` of m columns alone: H (m, m), few (GRAM_ROWS, m).

        columns (m,): ascending, the constant last; places (d+1,): of each column, its place there, or -1.
        """
        last, listed, values = columns.size - 1, few[0], few[1]
        for r in range(rows.size):
            count = 0
            for k in range(self.indptr[rows[r]], self.indptr[rows[r] + 1]):
                place = places[self.indices[k]]
                # always written, and counted if it is there: faster than a branch
                listed[count], values[count] = place, self.data[k]
                count += place >= 0
            for k in range(count):
                h = H[np.int64(listed[k])]
                t = factors[r] * values[k]
                for m in range(k, count):
                    h[np.int64(listed[m])] += t * values[m]
                h[last] += t * self.bias
            H[last, last] += factors[r] * self.bias * self.bias

    def line_scores(self, i: int, W: np.ndarray, first: int, out: np.ndarray) -> None:
        """out[g] = x_i . W_g for the lines first, first + 1, ... of W, summed in the precision of `out`.

        W (d+1, K), as the weights of a column are then neighbours.
        """
        kind = out.dtype.type
        last = W[self.width]
        for g in range(out.size):
            out[g] = kind(self.bias) * last[first + g]
        data, indices = self.data, self.indices
        k, stop = np.uint64(self.indptr[i]), np.uint64(self.indptr[i + 1])
        fours = stop - (stop - k) % FOUR
        while k < fours:
            w0, w1, w2, w3 = W[indices[k]], W[indices[k + ONE]], W[indices[k + TWO]], W[indices[k + THREE]]
            w0, w1, w2, w3 = w0[first:], w1[first:], w2[first:], w3[first:]
            x0, x1, x2, x3 = kind(data[k]), kind(data[k + ONE]), kind(data[k + TWO]), kind(data[k + THREE])
            for g in range(out.size):
                out[g] += (x0 * w0[g] + x1 * w1[g]) + (x2 * w2[g] + x3 * w3[g])
            k += FOUR
        while k < stop:
            x, w = kind(data[k]), W[indices[k]][first:]
            for g in range(out.size):
                out[g] += x * w[g]
            k += ONE

    def add_to_lines(self, i: int, factors: np.ndarray, W: np.ndarray, first: int) -> None:
        """W_g += factors[g] x_i for the lines first, first + 1, ... of W (d+1, K)."""
        kind = W.dtype.type
        last = W[self.width]
        for g in range(factors.size):
            last[first + g] += kind(factors[g] * self.bias)
        k, stop = np.uint64(self.indptr[i]), np.uint64(self.indptr[i + 1])
        while k < stop:
            x, w = kind(self.data[k]), W[self.indices[k]][first:]
            for g in range(factors.size):
                w[g] += x * factors[g]
            k += ONE

    def scores_of(self, start: int, stop: int, V: np.ndarray, Z: np.ndarray) -> None:
        """Z[i - start, g] = x_i . V_g for start <= i < stop and all lines g of V (d+1, lines), in float64."""
        flat = V.reshape(V.size)
        for i in range(start, stop):
            self.prefetch_row(i + 2)
            if Z.shape[1] == 1:
                Z[i - start, 0] = self.exact_dot(i, flat)
            else:
                self.line_scores(i, V, 0, Z[i - start])

    def add_pulls(self, start: int, stop: int, R: np.ndarray, G: np.ndarray) -> None:
        """G_g += sum_i R[i - start, g] x_i over start <= i < stop, for all lines g of G (d+1, lines)."""
        flat = G.reshape(G.size)
        for i in range(start, stop):
            if R.shape[1] > 1:
                self.add_to_lines(i, R[i - start], G, 0)
            elif R[i - start, 0] != 0.0:
                self.add(i, R[i - start, 0], flat)

    def add_squares(self, i: int, t: float, w: np.ndarray) -> None:
        """w_j += t x_ij^2 (d+1,)."""
        for k in range(self.indptr[i], self.indptr[i + 1]):
            w[self.indices[k]] += t * (np.float64(self.data[k]) * np.float64(self.data[k]))
        w[self.width] += t * self.bias * self.bias

    def prefetch_row(self, i: int) -> None:
        """Prefetch row i."""
        rows = self.indptr.size - 1
        if i < rows:
            # the average length of a row, in 4-byte values; the hardware prefetches what follows
            for line in range(self.data.size // (LINE * rows) + 1):
                prefetch(self.data, self.indptr[i] + LINE * line)
                prefetch(self.indices, self.indptr[i] + LINE * line)

    def prefetch_weights(self, i: int, w: np.ndarray) -> None:
        """Prefetch the entries of w at the columns of row i, if w has more than PREFETCH_BYTES."""
        if i + 1 < self.indptr.size and w.size * w.itemsize > PREFETCH_BYTES:
            start = self.indptr[i]
            indices = self.indices[start : self.indptr[i + 1]]
            for k in range(indices.size):
                prefetch_outer(w, indices[k])


Block = DenseBlock | CSRBlock


def add_mirrored(block: Block, i: int, t: float, theta: np.ndarray, powers: np.ndarray, q: float) -> float:
    """theta += t x_i and powers = sign(theta) |theta|^(q-1); returns the change of sum |theta|^q."""
    change = 0.0
    for k in range(block.entries(i) + 1):
        j, step = block.column(i, k), t * block.value(i, k)
        if step != 0.0:
            change -= theta[j] * powers[j]
            theta[j] += step
            powers[j] = np.sign(theta[j]) * abs(theta[j]) ** (q - 1.0)
            change += theta[j] * powers[j]
    return change


def combined_dot(
    block: Block, i: int, theta: np.ndarray, drift: np.ndarray, share: float, q: float, length: float
) -> float:
    """x_i . w for w = mirror(v), v = theta + share drift and ||v||_q = length, in float64."""
    total = 0.0
    for k in range(block.entries(i) + 1):
        j, value = block.column(i, k), block.value(i, k)
        if value != 0.0:
            v = theta[j] + share * drift[j]
            total += value * np.sign(v) * min(abs(v) / length, 1.0) ** (q - 1.0)
    return length * total


def grouped_dot(
    block: Block, i: int, theta: np.ndarray, squares: np.ndarray, of: np.ndarray, roots: np.ndarray, r: float
) -> float:
    """sum_j x_ij theta_j (1 - r roots_g / ||theta_g||)_+ with g = of_j and squares_g = ||theta_g||^2."""
    total = 0.0
    for k in range(block.entries(i) + 1):
        j, value = block.column(i, k), block.value(i, k)
        by, square = r * roots[of[j]], squares[of[j]]
        if value != 0.0 and square > by * by:
            total += value * theta[j] * (1.0 - by / np.sqrt(square))
    return total


def add_grouped(block: Block, i: int, t: float, theta: np.ndarray, squares: np.ndarray, of: np.ndarray) -> None:
    """theta += t x_i, and squares_g = ||theta_g||^2 accordingly."""
    for k in range(block.entries(i) + 1):
        j, step = block.column(i, k), t * block.value(i, k)
        squares[of[j]] = max(squares[of[j]] + step * (2.0 * theta[j] + step), 0.0)
        theta[j] += step


def values_of(block: Block) -> np.ndarray:
    """The values that a block stores."""
    return block.X if isinstance(block, DenseBlock) else block.data


def part(block: Block, start: int, stop: int) -> Block:
    """These rows of the block, in place."""
    if isinstance(block, DenseBlock):
        return block._replace(X=block.X[start:stop])
    return block._replace(indptr=block.indptr[start : stop + 1])


def alone(block: Block) -> Block:
    """The same rows; of a part of a sparse block, without the values of other rows."""
    if isinstance(block, DenseBlock):
        return block
    first = block.indptr[0]
    own = slice(first, block.indptr[-1])
    return block._replace(data=block.data[own], indices=block.indices[own], indptr=block.indptr - first)


def taken(block: Block, rows: np.ndarray) -> Block:
    """A copy of these rows (m,), in this order; without the compiler, unlike those of solvers/cache/rows.py."""
    if isinstance(block, DenseBlock):
        return block._replace(X=block.X[rows])
    at, indptr = entries_of(block.indptr, rows)
    return block._replace(data=block.data[at], indices=block.indices[at], indptr=indptr)


def entries_of(indptr: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the entries of these CSR rows are, one row after the other, and the `indptr` of a copy of them."""
    lengths = np.diff(indptr)[rows]
    ends = np.append(0, np.cumsum(lengths))
    return np.arange(ends[-1]) + np.repeat(indptr[rows] - ends[:-1], lengths), ends


def stored(block: Block) -> int:
    """How many values its rows have; a part of a sparse block shares the arrays of the whole block."""
    return int(block.indptr[-1] - block.indptr[0]) if isinstance(block, CSRBlock) else values_of(block).size


def nbytes(block: Block) -> int:
    """Bytes of the arrays of a block."""
    return sum(array.nbytes for array in block if isinstance(array, np.ndarray))


def plain(block: Block) -> Any:
    """The rows as an array of float64, or as a csr_array of SciPy."""
    if isinstance(block, CSRBlock):
        import scipy.sparse as sp

        first, last = block.indptr[0], block.indptr[-1]
        data, indices = block.data[first:last], block.indices[first:last].astype(np.int32)
        return sp.csr_array((data.astype(np.float64), indices, block.indptr - first), (block.rows(), block.width))
    return block.X.astype(np.float64)
