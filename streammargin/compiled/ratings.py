"""Entries (i, j, value) of a matrix, at the product of two factors: losses, duals, gradients, and products of duals.

The loss of an entry is a sum of terms, each the largest u (x - z) - bend u^2 / 2 over low <= u <= high. One term has
z = value. With thresholds there is a term for each: a value above levels[t] wants x >= at[t] + 1, another one
x <= at[t] - 1. With a softness above 0, (softness / 2) (u - centre)^2 is taken off as well (the proximal point method
on the duals u).
"""

from __future__ import annotations

import numpy as np
from numba.extending import register_jitable

from streammargin.compiled.jit import kernel
from streammargin.compiled.overloads import REORDERED
from streammargin.compiled.samples import SampleBlock
from streammargin.rows.blocks import DenseBlock

# sums over the entries: soft losses; losses; u z and bend u^2 / 2 of the duals u; what these attain of the losses;
# terms whose dual is at no bound; the sizes of what the others add up
SOFT, ENTRY_LOSSES, LINEAR, SQUARE, ATTAINED, FREE_TERMS, SIZE, SUMS = range(8)


@register_jitable
def _clipped(value, low, high):
    """The nearest number of [low, high]."""
    return min(max(value, low), high)


@register_jitable
def _term_of(t, value, levels, at, low, high):
    """(z, low, high) of term t of an entry with this value."""
    if levels.size == 0:
        return value, low, high
    if value > levels[t]:
        return at[t] + 1.0, -1.0, 0.0
    return at[t] - 1.0, 0.0, 1.0


@kernel
def product(factors, i, j):
    """x_ij = u_i.v_j."""
    total = 0.0
    for k in range(factors.shape[1]):
        total += factors[i, k] * factors[j, k]
    return total


@kernel
def duals_at(pairs, values, factors, rows, loss, centres, first, softness, before, sums, found):
    """Duals of entries at the factors (rows + columns, r), into found (m,), added up over terms; adds to the sums.

    pairs (m, 2): i, j; loss: (levels, at, low, high, bend); centres (terms, n), of which the entries are from `first`
    on; or (terms, 0) for zeros. before: the softness of the last step if the centres are to move to its duals
    first, else -1.
    """
    levels, at, low, high, bend = loss
    for e in range(values.size):
        x = product(factors, int(pairs[e, 0]), rows + int(pairs[e, 1]))
        total = 0.0
        for t in range(max(1, levels.size)):
            z, least, most = _term_of(t, values[e], levels, at, low, high)
            d, centre = x - z, 0.0
            if centres.size > 0:
                centre = centres[t, first + e]
                if before >= 0.0:
                    centre = _clipped((d + before * centre) / (bend + before), least, most)
                    centres[t, first + e] = centre
            u = _clipped((d + softness * centre) / (bend + softness), least, most)
            got = u * d - 0.5 * bend * u * u
            sums[SOFT] += got - 0.5 * softness * (u - centre) * (u - centre)
            sums[ATTAINED] += got
            best = _clipped(d / bend, least, most) if bend > 0.0 else (most if d > 0.0 else least)
            sums[ENTRY_LOSSES] += best * d - 0.5 * bend * best * best
            sums[LINEAR] += u * z
            sums[SQUARE] += 0.5 * bend * u * u
            sums[SIZE] += abs(u * z) + abs(u * d)
            sums[FREE_TERMS] += 1.0 if least < u < most else 0.0
            total += u
        found[e] = total


@kernel
def add_gradient(pairs, duals, factors, rows, cost, gradient):
    """gradient (rows + columns, r) += that of cost sum_e u_e x_e at the factors."""
    for e in range(duals.size):
        i, j, u = int(pairs[e, 0]), rows + int(pairs[e, 1]), cost * duals[e]
        if u != 0.0:
            for k in range(factors.shape[1]):
                gradient[i, k] += u * factors[j, k]
                gradient[j, k] += u * factors[i, k]


@kernel
def add_products(pairs, duals, side, vectors, out):
    """out[b] += u_e vectors[a] for each entry, a its place on this side, b on the other."""
    for e in range(duals.size):
        a, b, u = int(pairs[e, side]), int(pairs[e, 1 - side]), duals[e]
        for k in range(vectors.shape[1]):
            out[b, k] += u * vectors[a, k]


@kernel
def add_gram(places, duals, gram):
    """gram[a, b] += u u' for all pairs a >= b of entries on one line; places (m,): of the entries, ascending."""
    for p in range(places.size):
        u, a = duals[p], int(places[p])
        if u != 0.0:
            line = gram[a]
            for q in range(p + 1):
                line[int(places[q])] += u * duals[q]


@kernel
def add_lines(pairs, duals, side, ends, gram):
    """`add_gram` for each of the lines of entries ends[k] .. ends[k + 1]; side: the short one."""
    for k in range(ends.size - 1):
        low, high = ends[k], ends[k + 1]
        add_gram(pairs[low:high, side], duals[low:high], gram)


@kernel
def split(pairs, values, matrix, other, loss, size, centres, first, sums):
    """W of a step of Douglas-Rachford at entries: the prox of `size` times the loss at 2 V - M; and its duals.

    other (rows, columns): V, which becomes W - V + M at the entries; matrix: M. sums[SOFT] += (W - V)^2.
    """
    levels, at, low, high, bend = loss
    for e in range(values.size):
        i, j = int(pairs[e, 0]), int(pairs[e, 1])
        v, m = other[i, j], matrix[i, j]
        target = 2.0 * v - m
        if levels.size == 0:
            u = _clipped((target - values[e]) / (bend + size), low, high)
            w = target - size * u
            if centres.size > 0:
                centres[0, first + e] = u
        else:
            w = _hinge_prox(target, values[e], levels, at, size)
            left = (target - w) / size
            for t in range(levels.size):
                z, least, most = _term_of(t, values[e], levels, at, low, high)
                left -= least if z >= w else most
            for t in range(levels.size):
                z, least, most = _term_of(t, values[e], levels, at, low, high)
                u = least if z >= w else most
                if z == w:
                    more = _clipped(left, 0.0, most - least)
                    u, left = u + more, left - more
                centres[t, first + e] = _clipped(u, least, most)
        sums[SOFT] += (w - v) * (w - v)
        other[i, j] = w - v + m


@register_jitable
def _hinge_prox(target, value, levels, at, size):
    """argmin over x of size (the sum of the hinges at x) + (x - target)^2 / 2."""
    slope = 0.0
    for t in range(levels.size):
        z, _, _ = _term_of(t, value, levels, at, 0.0, 0.0)
        under, over = 0.0, 0.0  # slopes of the sum on both sides of z
        for r in range(levels.size):
            other, least, most = _term_of(r, value, levels, at, 0.0, 0.0)
            under += most if other < z else least
            over += most if other <= z else least
        if size * under <= target - z <= size * over:
            return z
        _, least, most = _term_of(t, value, levels, at, 0.0, 0.0)
        slope += most if target > z + size * over else least
    return target - size * slope


@kernel(wide_sums=True)
def dot(a, b):
    """a.b of vectors, on one core."""
    total = 0.0
    for k in range(a.size):
        total += a[k] * b[k]
    return total


@register_jitable(fastmath=REORDERED)
def _add_times(factor, a, out):
    """out += factor a."""
    for k in range(a.size):
        out[k] += factor * a[k]


@kernel
def two_loops(moves, changes, known, scale, q):
    """q <- the inverse Hessian of the last `known` pairs times q (Nocedal 1980); scale: without a pair."""
    last = len(moves)
    shares = np.zeros(last)
    for k in range(last - 1, last - known - 1, -1):
        shares[k] = dot(moves[k], q) / dot(moves[k], changes[k])
        _add_times(-shares[k], changes[k], q)
    if known > 0:
        scale = dot(moves[last - 1], changes[last - 1]) / dot(changes[last - 1], changes[last - 1])
    for k in range(q.size):
        q[k] *= scale
    for k in range(last - known, last):
        _add_times(shares[k] - dot(changes[k], q) / dot(moves[k], changes[k]), moves[k], q)


def warm(sample: SampleBlock) -> None:
    if not isinstance(sample.block, DenseBlock):
        return
    pairs, values, one = sample.block.X, np.ones(2), np.ones((4, 1))
    loss, sums = (np.zeros(0), np.zeros(0), -1.0, 1.0, 0.0), np.zeros(SUMS)
    duals_at(pairs, values, one, 2, loss, np.zeros((1, 2)), 0, 1.0, -1.0, sums, np.zeros(2))
    add_gradient(pairs, values, one, 2, 1.0, np.zeros((4, 1)))
    add_products(pairs, values, 0, np.zeros((2, 1)), np.zeros((2, 1)))
    add_lines(pairs, values, 0, np.array([0, 1, 2]), np.zeros((2, 2)))
    add_gram(pairs[:, 0], values, np.zeros((2, 2)))
    two_loops(np.ones((2, 4)), np.ones((2, 4)), 1, 1.0, np.ones(4))
    dot(values, values)
    split(pairs, values, np.ones((2, 2)), np.ones((2, 2)), loss, 1.0, np.zeros((1, 2)), 0, sums)
