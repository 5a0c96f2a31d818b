"""Steps on a working set of cached columns: coordinate descent, and Newton steps on the nonzero weights.

They minimise, with frozen centres alpha and margins z = A w (Li, Sun and Toh 2018; Yen et al. 2015):

    f(w) = sum_g roots_g ||w_g||_2 + sum_j squares_j w_j^2 / 2 + ridge/2 ||w - centre||^2 + sum_i M_i(z_i);
    M_i(z) = max over feasible a of dual_i(a) - a z - softness/2 (a - alpha_i)^2, attained at a_i.

Arguments are grouped into named tuples.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from streammargin.compiled.by_address import COLUMN_TYPE, NUMBER, by_address
from streammargin.compiled.jit import kernel
from streammargin.compiled.samples import SampleBlock
from streammargin.rows.blocks import Block, DenseBlock

TRIES = 30  # most backtracking steps
BACK = 0.4  # backtracking factor of a Newton step
LEAST_COLUMN_CURVATURE = 1e-3  # relative to its largest possible one


class SignedColumns(NamedTuple):
    """The signed columns of A: `starts` and `ends` (m,) of each in `rows` and `values`."""

    starts: np.ndarray
    ends: np.ndarray
    rows: np.ndarray
    values: np.ndarray


class Centred(NamedTuple):
    """The proximal terms of the rows: centres alpha (n,), caps (n,), 0 for absent rows, targets (n,) or (0,)."""

    softness: float
    targets: np.ndarray
    caps: np.ndarray
    alpha: np.ndarray


class Answers(NamedTuple):
    """Per row (n,): margins z, duals a, and the slopes -da/dz."""

    margins: np.ndarray
    duals: np.ndarray
    slopes: np.ndarray


class Terms(NamedTuple):
    """The terms of f without rows; group g has the columns first[g] .. first[g+1]."""

    first: np.ndarray
    roots: np.ndarray
    squares: np.ndarray
    ridge: float
    centre: np.ndarray


@kernel
def gather(block, first, labels, k, place, starts, rows, values):
    """Append the values of the chosen columns in a block with the rows first .. first + m to a column-wise cache.

    place (d+1,) int32: index 0 .. count - 1 of a chosen column, `count` for others; starts (count+1,): next free entry
    of each column, updated, and the end. Rows absent in problem k are skipped, and so are zeros. With empty rows and
    values it only counts. What is not wanted is written to a dummy entry, which is faster than a branch.
    """
    last = starts.size - 1
    for i in range(block.rows()):
        if not labels.cap(k, first + i) > 0.0:
            continue
        sign = labels.sign(k, first + i)
        for e in range(block.entries(i) + 1):
            value = block.value(i, e)
            p = place[block.column(i, e)] if value != 0.0 else last
            at = starts[p]
            starts[p] = at + (p < last)
            if rows.size > 0:
                rows[at] = first + i
                values[at] = sign * value


@kernel
def _count(indices, counts):
    """Add the number of occurrences of each column to counts (d,)."""
    for e in range(indices.size):
        counts[indices[e]] += 1


def sizes(block: Block) -> np.ndarray:
    """The number of stored values in each column (d+1,) of a block, the constant one included."""
    stored = np.full(block.features() + 1, block.rows())
    if not isinstance(block, DenseBlock):
        stored[:-1] = 0
        _count(block.indices, stored[:-1])
    return stored


@by_address(NUMBER, COLUMN_TYPE, COLUMN_TYPE, COLUMN_TYPE, COLUMN_TYPE, COLUMN_TYPE, COLUMN_TYPE)
def responses(
    loss: Any, softness: float, caps: np.ndarray, centres: np.ndarray, margins: np.ndarray, duals: np.ndarray,
    slopes: np.ndarray, total: np.ndarray,
) -> None:  # fmt: skip
    """Update the duals and slopes of rows from their margins, and add sum_i M_i to total (1,)."""
    for i in range(caps.size):
        cap, centre, u = caps[i], centres[i], margins[i]
        if cap > 0.0:
            a = loss.step(centre, u, softness, cap)
            duals[i], slopes[i] = a, loss.slope(a, softness, cap)
            total[0] += loss.dual(a, cap) - a * u - 0.5 * softness * (a - centre) * (a - centre)


@kernel
def _respond(answer, softness, caps, centres, margins, duals, slopes, total):
    answer.call(softness, caps, centres, margins, duals, slopes, total)


@kernel
def add_images(columns, w, out):
    """out (n,) += A w."""
    starts, ends, rows, values = columns
    for j in range(w.size):
        if w[j] != 0.0:
            for e in range(starts[j], ends[j]):
                out[rows[e]] += values[e] * w[j]


@kernel
def pulls(columns, duals, out):
    """out (m,) = A^T a."""
    for j in range(out.size):
        out[j] = _pull(columns, j, duals)


def meet(loss: Any, centred: Centred, columns: SignedColumns, w: np.ndarray, answers: Answers) -> float:
    """Update margins, duals and slopes for w; returns sum_i M_i."""
    margins, total = answers.margins, np.zeros(1)
    margins[:] = -centred.targets if centred.targets.size else 0.0
    add_images(columns, w, margins)
    _respond(responses.of(loss), centred.softness, centred.caps, centred.alpha, *answers, total)
    return float(total[0])


@register_jitable
def length(w: np.ndarray, low: int, high: int) -> float:
    """||w_g||_2 over the columns low .. high."""
    total = 0.0
    for j in range(low, high):
        total += w[j] * w[j]
    return np.sqrt(total)


def sizes_of(terms: Terms, w: np.ndarray) -> np.ndarray:
    """||w_g||_2 of each group."""
    found: np.ndarray = np.sqrt(np.add.reduceat(w * w, terms.first[:-1]))
    return found


def penalty(terms: Terms, w: np.ndarray) -> float:
    """The value of the terms of f without rows."""
    away = w - terms.centre
    return float(terms.roots @ sizes_of(terms, w) + 0.5 * (terms.squares @ (w * w) + terms.ridge * (away @ away)))


@register_jitable
def _bend(low, high, columns, slopes, least):
    """The largest curvature of the columns low .. high; each counts at least `least` times its sum of squares."""
    starts, ends, rows, values = columns
    bend = 0.0
    for j in range(low, high):
        curved, square = 0.0, 0.0
        for e in range(starts[j], ends[j]):
            x = values[e]
            curved += x * x * slopes[rows[e]]
            square += x * x
        bend = max(bend, curved, least * square)
    return bend


@register_jitable
def _pull(columns, j, duals):
    """A_j . a."""
    starts, ends, rows, values = columns
    total = 0.0
    for e in range(starts[j], ends[j]):
        total += values[e] * duals[rows[e]]
    return total


@register_jitable
def _gradient(g, columns, terms, w, duals, gradient):
    """Fill in the smooth part's gradient of group g; returns how far 0 is from all subgradients, and own curvature."""
    first, roots, squares, ridge, centre = terms
    low, high = first[g], first[g + 1]
    root, size = roots[g], length(w, low, high)
    own, violation = 0.0, 0.0
    for j in range(low, high):
        gradient[j - low] = squares[j] * w[j] + ridge * (w[j] - centre[j]) - _pull(columns, j, duals)
        own = max(own, squares[j] + ridge)
        along = gradient[j - low] + (root * w[j] / size if size > 0.0 else 0.0)
        violation += along * along
    return np.sqrt(violation) - (root if size == 0.0 else 0.0), own


@register_jitable
def _step(low, high, root, bend, w, gradient, change, columns, answers):
    """Change the weights low .. high by the proximal step of this curvature, and their duals from those of `change`."""
    starts, ends, rows, values = columns
    duals, slopes = answers.duals, answers.slopes
    reached = 0.0
    for j in range(low, high):
        moved = w[j] - gradient[j - low] / bend
        reached += moved * moved
    factor = max(0.0, 1.0 - root / (bend * np.sqrt(reached))) if reached > 0.0 else 0.0
    for j in range(low, high):
        step = factor * (w[j] - gradient[j - low] / bend) - w[j]
        by = step - change[j - low]
        change[j - low] = step
        if by != 0.0:
            for e in range(starts[j], ends[j]):
                duals[rows[e]] -= slopes[rows[e]] * values[e] * by


@register_jitable
def _bent_by(low, high, columns, terms, w, duals, gradient, change):
    """The squared length of a step, and its product with the change of the gradient."""
    _, _, squares, ridge, centre = terms
    before, after, square = 0.0, 0.0, 0.0
    for j in range(low, high):
        step = change[j - low]
        new = w[j] + step
        before += gradient[j - low] * step
        after += (squares[j] * new + ridge * (new - centre[j]) - _pull(columns, j, duals)) * step
        square += step * step
    return square, after - before


@kernel
def sweep(most, bends, columns, terms, order, w, answers):
    """A proximal step on the quadratic model of f for each group in this order, with a curvature that ensures descent.

    Slopes are frozen; duals follow linearly. bends (groups,): cached curvatures; < 0: not computed yet.
    most: largest possible slope. Returns the sum of the violations found, and the largest one relative to its root,
    over groups with a root > 0.
    """
    first, roots = terms.first, terms.roots
    widest = 0
    for g in range(roots.size):
        widest = max(widest, first[g + 1] - first[g])
    gradient, change = np.empty(widest), np.empty(widest)
    total, worst = 0.0, 0.0
    for g in order:
        low, high, root = first[g], first[g + 1], roots[g]
        violation, own = _gradient(g, columns, terms, w, answers.duals, gradient)
        if not violation > 0.0:
            continue
        if bends[g] < 0.0:
            bends[g] = _bend(low, high, columns, answers.slopes, LEAST_COLUMN_CURVATURE * most)
        if bends[g] == 0.0:
            continue
        bend = bends[g] + own
        total += violation
        if root > 0.0:
            worst = max(worst, violation / root)
        change[: high - low] = 0.0
        for _ in range(TRIES):
            _step(low, high, root, bend, w, gradient, change, columns, answers)
            if high - low == 1:  # for one column the step is the exact minimum of the model
                break
            square, bent = _bent_by(low, high, columns, terms, w, answers.duals, gradient, change)
            if bent <= 1.0001 * bend * square:  # enough curvature along the step for descent
                break
            bend *= min(10.0, max(2.0, bent / (bend * square)))
        for j in range(low, high):
            w[j] += change[j - low]
    return total, worst


@kernel
def pull_in(lowest, highest, columns, roots, over, bends, duals, slopes, sweeps):
    """Make duals nearly feasible, |A_j.a| <= roots_j, by projections on one column after the other.

    The metric is that of the slopes.

    Each is a relaxed projection, by the factor `over` in [1, 2]; on columns with root 0 the factor is 1. Duals stay
    between `lowest` and `highest` (n,). Rows with slope 0 do not move. bends (m,): cached curvatures; < 0: not
    computed yet.
    Returns the largest |A_j.a| / roots_j found in the last sweep.
    """
    starts, ends, rows, values = columns
    largest = 0.0
    for _ in range(sweeps):
        largest = 0.0
        for j in range(roots.size):
            pulled = _pull(columns, j, duals)
            if roots[j] > 0.0:
                largest = max(largest, abs(pulled) / roots[j])
            if abs(pulled) <= roots[j]:
                continue
            if bends[j] < 0.0:
                bends[j] = _bend(j, j + 1, columns, slopes, 0.0)
            if bends[j] == 0.0:
                continue
            share = over if roots[j] > 0.0 else 1.0
            by = share * np.sign(pulled) * (abs(pulled) - roots[j]) / bends[j]
            for e in range(starts[j], ends[j]):
                i = rows[e]
                duals[i] = min(max(duals[i] - by * slopes[i] * values[e], lowest[i]), highest[i])
    return largest


def dual_value(loss: Any, targets: np.ndarray, caps: np.ndarray, duals: np.ndarray) -> float:
    """The rows' part of the dual objective."""
    here = caps > 0.0
    total = float(np.sum(loss.dual(duals[here], caps[here])))
    return total + float(duals @ targets) if targets.size else total


@kernel
def bent_columns(face, columns, slopes):
    """The columns of the face, times the roots of the slopes: starts (m+1,), rows, and values other than 0."""
    starts, ends, rows, values = columns
    stiff, stored = np.sqrt(slopes), 1
    for j in face:
        stored += ends[j] - starts[j]
    from_, on, bent, kept = np.zeros(face.size + 1, np.int64), np.empty(stored, np.int32), np.empty(stored), 0
    for q in range(face.size):
        for e in range(starts[face[q]], ends[face[q]]):
            i = rows[e]
            on[kept], bent[kept] = i, stiff[i] * values[e]
            kept += stiff[i] > 0.0  # always written, and counted if wanted: faster than a branch
        from_[q + 1] = kept
    return from_, on, bent


def warm(sample: SampleBlock) -> None:
    n, d, columns = sample.block.rows(), 2, SignedColumns(*sample.columns)
    place, ends = np.array([0, 1, 2], np.int32), np.append(0, np.cumsum(sizes(sample.block)[:2]))
    gather(sample.block, 0, sample.labels, 0, place, ends, np.zeros(5, np.int32), np.zeros(5, sample.dtype))
    one, w, none = np.ones(d), np.zeros(d), np.empty(0)
    centred, answers = Centred(1.0, none, np.ones(n), np.zeros(n)), Answers(np.zeros(n), np.zeros(n), np.zeros(n))
    terms = Terms(np.arange(d + 1), one, one, 0.0, w.copy())
    for loss in sample.losses("slope"):
        meet(loss, centred, columns, w, answers)
    bent = bent_columns(np.arange(d), columns, answers.slopes)
    for matrix in (columns, SignedColumns(bent[0][:-1], bent[0][1:], *bent[1:])):
        add_images(matrix, w, np.zeros(n))
        pulls(matrix, answers.duals, w.copy())
    pull_in(w, w, columns, one, 1.0, -one, answers.duals, answers.slopes, 1)
    sweep(1.0, -one, columns, terms, np.arange(d), w, answers)
