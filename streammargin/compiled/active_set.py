"""The exact maximum margin of a few rows: non-negative least squares on their Gram matrix."""

from __future__ import annotations

import numpy as np
from numba.extending import register_jitable

from streammargin.compiled import overloads  # noqa: F401
from streammargin.compiled.jit import kernel
from streammargin.compiled.samples import SampleBlock

DEPENDENT = 1e-11  # relative squared distance from the span of the other rows below which a row counts as dependent
ROUNDING = 4e-15  # rounding error of a margin, for rows of length 1
MOST_ENTERING = 32  # rows that may enter at once
STEPS_BETWEEN_CHECKS = 64  # steps after which the margin must have decreased
SOLVED, GAVE_UP = range(2)


@kernel
def gram_matrix(block, signs, size, gram):
    """gram (M, M) float64: s_i s_j x_i.x_j / size^2 for the M rows of the block."""
    buffer = np.zeros(block.features() + 1)
    for j in range(block.rows()):
        buffer[:] = 0.0
        block.add(j, 1.0 / size, buffer)
        for i in range(j + 1):
            value = signs[i] * signs[j] * (block.exact_dot(i, buffer) / size)
            gram[i, j] = value
            gram[j, i] = value


@kernel
def combine(block, coefficients, size, total):
    """total (d+1,) += sum_i coefficients_i x_i / size, float64."""
    for i in range(block.rows()):
        if coefficients[i] != 0.0:
            block.add(i, coefficients[i] / size, total)


@register_jitable
def _append(gram, members, count, new, factor, apart):
    """Append a column to R, where R^T R = G + 1 over the members; False if the new row depends on the others.

    apart: a known lower bound on its squared distance from their span; 0: none is known.
    """
    column = np.empty(count)
    for a in range(count):
        column[a] = gram[new, members[a]] + 1.0
    square = gram[new, new] + 1.0
    left = square
    for a in range(count):
        value = column[a] / factor[a, a]
        column[a] = value
        left -= value * value
        for b in range(a + 1, count):
            column[b] -= value * factor[a, b]
    if not left > DEPENDENT * square:
        if apart <= 0.0:
            return False
        left = max(left, apart)
    for a in range(count):
        factor[a, count] = column[a]
    factor[count, count] = np.sqrt(left)
    members[count] = new
    return True


@register_jitable
def _remove(members, count, place, factor):
    """Remove member number `place`: delete its column of R, and make R triangular again by Givens rotations."""
    for a in range(place + 1, count):
        members[a - 1] = members[a]
    for a in range(count):
        for b in range(max(place, a - 1), count - 1):
            factor[a, b] = factor[a, b + 1]
    for a in range(place, count - 1):
        length = np.hypot(factor[a, a], factor[a + 1, a])
        c, s = factor[a, a] / length, factor[a + 1, a] / length
        for b in range(a, count - 1):
            x, y = factor[a, b], factor[a + 1, b]
            factor[a, b] = c * x + s * y
            factor[a + 1, b] = c * y - s * x


@register_jitable
def _solve(factor, count, z):
    """Solve R^T R z = 1 for z (count,)."""
    z[:count] = 1.0
    for a in range(count):
        z[a] /= factor[a, a]
        for b in range(a + 1, count):
            z[b] -= z[a] * factor[a, b]
    for a in range(count - 1, -1, -1):
        for b in range(a + 1, count):
            z[a] -= factor[a, b] * z[b]
        z[a] /= factor[a, a]


@kernel
def nearest_point(gram, u, accuracy, most):
    """u >= 0 that minimises ||A^T u||^2 + (1 - sum u)^2, by the active-set method of Lawson and Hanson.

    u / sum u are the coefficients of the point of the rows' convex hull nearest to the origin. So the maximum
    margin is ||A^T u|| / sum u, with the direction A^T u. Several rows enter at a time; one whose coefficient
    would become negative leaves again before u changes, except the last of them, which cannot.

    gram (M, M): A A^T with rows of length at most about 1; u (M,): start, with a guess of the support;
    accuracy: slack of the margins of rows left out, relative to the margin; most: largest number of members, the
    rank of the rows plus one.
    Returns SOLVED, or GAVE_UP if ties or rounding prevent progress; u >= 0 in either case.
    """
    rows = u.size
    most = min(rows, most)
    members, count = np.empty(most, np.int64), 0
    factor = np.empty((most, most))
    inside = np.zeros(rows, np.bool_)
    barred = np.zeros(rows, np.bool_)
    z = np.empty(most)
    margins = np.empty(rows)
    for i in range(rows):
        if u[i] > 0.0 and count < most and _append(gram, members, count, i, factor, 0.0):
            inside[i] = True
            count += 1
        else:
            u[i] = 0.0
    steps, checked, before = 0, 0, np.inf
    while steps < 4 * rows + 100:
        # step towards the minimiser over the members, as far as u >= 0 allows; the blocking member leaves
        while count > 0:
            steps += 1
            _solve(factor, count, z)
            way, stopped = 1.0, -1
            for a in range(count):
                old = u[members[a]]
                if z[a] <= 0.0 and old <= way * (old - z[a]):
                    way, stopped = (old / (old - z[a]) if old > 0.0 else 0.0), a
            if way > 0.0:
                barred[:] = False
                for a in range(count):
                    i = members[a]
                    u[i] = z[a] if stopped < 0 else u[i] + way * (z[a] - u[i])
            if stopped < 0:
                break
            u[members[stopped]] = 0.0
            barred[members[stopped]] = way == 0.0
            for a in range(count - 1, -1, -1):
                i = members[a]
                if a == stopped or not (u[i] > 0.0 or z[a] > 0.0):
                    u[i] = 0.0
                    inside[i] = False
                    _remove(members, count, a, factor)
                    count -= 1
        total = 0.0
        margins[:] = 0.0
        for a in range(count):
            weight = u[members[a]]
            line = gram[members[a]]
            total += weight
            for i in range(rows):
                margins[i] += weight * line[i]
        square = 0.0
        worst, furthest = np.inf, -1
        for i in range(rows):
            if inside[i]:
                square += u[i] * margins[i]
            elif not barred[i] and margins[i] < worst:
                worst, furthest = margins[i], i
        least = square / total if total > 0.0 else 1.0  # a_i.v, the same for every member i, with v = A^T u
        enough = least - max(accuracy * least, ROUNDING * max(total, 1.0))
        if worst >= enough:
            return SOLVED
        if steps >= checked + STEPS_BETWEEN_CHECKS:
            if least > (1.0 - 0.1 * accuracy) * before:
                return GAVE_UP
            checked, before = steps, least
        # the most violating row enters, then rows that violate at least half as much. The first cannot be a combination
        # of the members, as these all have the margin `least`, which is larger beyond rounding
        apart = (least - worst) ** 2 / (square + least**2) if count > 0 else 0.0
        if count < most and _append(gram, members, count, furthest, factor, apart):
            inside[furthest] = True
            count += 1
        else:
            barred[furthest] = True
        entered = 1
        for i in range(rows):
            if inside[i] or barred[i] or margins[i] > worst + 0.5 * (enough - worst) or entered == MOST_ENTERING:
                continue
            if count < most and _append(gram, members, count, i, factor, 0.0):
                inside[i] = True
                count += 1
                entered += 1
            else:
                barred[i] = True
    return GAVE_UP


def warm(sample: SampleBlock) -> None:
    one = np.ones(2)
    gram_matrix(sample.block, one, 1.0, np.eye(2))
    combine(sample.block, one, 1.0, np.zeros(3))
    nearest_point(np.eye(2), np.zeros(2), 1e-6, 3)
