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

from streammargin.compiled import overloads  # noqa: F401
from streammargin.compiled.jit import kernel
from streammargin.compiled.quadratic import scaled_direction
from streammargin.compiled.samples import Sample
from streammargin.rows.blocks import Block, DenseBlock
from streammargin.rows.labels import Labels

TRIES = 30  # most backtracking steps
BACK = 0.4  # backtracking factor of a Newton step
LEAST = 1e-3  # least curvature of a column, relative to its largest possible one


class Columns(NamedTuple):
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
def dense_chosen(X, bias, row, labels, k, place, starts, rows, values):
    """`gather` for dense rows; row: number of the first."""
    d, last = X.shape[1], starts.size - 1
    for i in range(X.shape[0]):
        if not labels.cap(k, row + i) > 0.0:
            continue
        sign = labels.sign(k, row + i)
        for j in range(d + 1):
            value = X[i, j] if j < d else bias
            if place[j] < last and value != 0.0:
                at = starts[place[j]]
                starts[place[j]] = at + 1
                if rows.size > 0:
                    rows[at] = row + i
                    values[at] = sign * value


@kernel
def sparse_chosen(data, indices, indptr, bias, row, labels, k, place, starts, rows, values):
    """`gather` for sparse rows. Values without a place are written to a dummy entry, which is faster than a branch."""
    last = starts.size - 1
    for i in range(indptr.size - 1):
        if not labels.cap(k, row + i) > 0.0:
            continue
        sign = labels.sign(k, row + i)
        for e in range(indptr[i], indptr[i + 1]):
            p = place[indices[e]]
            at = starts[p]
            starts[p] = at + (p < last)
            if rows.size > 0:
                rows[at] = row + i
                values[at] = sign * data[e]
        p = place[place.size - 1]
        if p < last and bias != 0.0:
            at = starts[p]
            starts[p] = at + 1
            if rows.size > 0:
                rows[at] = row + i
                values[at] = sign * bias


def gather(
    block: Block, first: int, labels: Labels, k: int, place: np.ndarray, starts: np.ndarray, rows: np.ndarray,
    values: np.ndarray,
) -> None:  # fmt: skip
    """Append the values of the chosen columns in a block with the rows first .. first + m to a column-wise cache.

    place (d+1,) int32: index 0 .. count - 1 of a chosen column, `count` for others; starts (count+1,): next free entry
    of each column, updated, and the end. Rows absent in problem k are skipped. With empty rows and values it only
    counts.
    """
    if isinstance(block, DenseBlock):
        dense_chosen(block.X, block.bias, first, labels, k, place, starts, rows, values)
    else:
        sparse_chosen(
            block.data, block.indices, block.indptr, block.bias, first, labels, k, place, starts, rows, values
        )


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


@register_jitable
def respond(loss: Any, centred: Centred, i: int, answers: Answers) -> float:
    """Update dual and slope of row i from its margin; returns M_i."""
    softness, cap, centre, margin = centred.softness, centred.caps[i], centred.alpha[i], answers.margins[i]
    a = loss.step(centre, margin, softness, cap)
    answers.duals[i] = a
    answers.slopes[i] = loss.slope(a, softness, cap)
    return loss.dual(a, cap) - a * margin - 0.5 * softness * (a - centre) * (a - centre)


@register_jitable
def _respond_all(loss, centred, answers, total):
    """Update duals and slopes from the margins; returns total + sum_i M_i."""
    for i in range(answers.margins.size):
        if centred.caps[i] > 0.0:
            total += respond(loss, centred, i, answers)
    return total


@kernel
def meet(loss, centred, columns, w, answers):
    """Update margins, duals and slopes for w; returns sum_i M_i."""
    starts, ends, rows, values = columns
    targets, margins = centred.targets, answers.margins
    for i in range(margins.size):
        margins[i] = -targets[i] if targets.size > 0 else 0.0
    for j in range(w.size):
        if w[j] != 0.0:
            for e in range(starts[j], ends[j]):
                margins[rows[e]] += values[e] * w[j]
    return _respond_all(loss, centred, answers, 0.0)


@register_jitable
def length(w: np.ndarray, low: int, high: int) -> float:
    """||w_g||_2 over the columns low .. high."""
    total = 0.0
    for j in range(low, high):
        total += w[j] * w[j]
    return np.sqrt(total)


@kernel
def penalty(terms, w):
    """The value of the terms of f without rows."""
    first, roots, squares, ridge, centre = terms
    total = 0.0
    for g in range(roots.size):
        total += roots[g] * length(w, first[g], first[g + 1])
    for j in range(w.size):
        total += 0.5 * (squares[j] * w[j] * w[j] + ridge * (w[j] - centre[j]) * (w[j] - centre[j]))
    return total


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
            bends[g] = _bend(low, high, columns, answers.slopes, LEAST * most)
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
def pull_in(loss, caps, columns, roots, over, bends, duals, slopes, sweeps):
    """Make duals nearly feasible, |A_j.a| <= roots_j, by projections on one column after the other.

    The metric is that of the slopes.

    Each is a relaxed projection, by the factor `over` in [1, 2]; on columns with root 0 the factor is 1. Rows with
    slope 0 do not move. bends (m,): cached curvatures; < 0: not computed yet.
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
                duals[i] = loss.feasible(duals[i] - by * slopes[i] * values[e], caps[i])
    return largest


@kernel
def mean_square(columns):
    """The mean of ||A_j||^2 over the columns j."""
    starts, ends, _, values = columns
    total = 0.0
    for j in range(starts.size):
        for e in range(starts[j], ends[j]):
            total += values[e] * values[e]
    return total / max(1, starts.size)


@kernel
def dual_value(loss, targets, caps, duals):
    """The rows' part of the dual objective."""
    total = 0.0
    for i in range(duals.size):
        if caps[i] > 0.0:
            total += loss.dual(duals[i], caps[i]) + (duals[i] * targets[i] if targets.size > 0 else 0.0)
    return total


@register_jitable
def diagonal_matrix(values: np.ndarray) -> np.ndarray:
    """The matrix (m, m) with these values (m,) on its diagonal."""
    H = np.zeros((values.size, values.size))
    for q in range(values.size):
        H[q, q] = values[q]
    return H


@register_jitable
def add_products(starts: np.ndarray, rows: np.ndarray, values: np.ndarray, n: int, H: np.ndarray) -> None:
    """Add A^T A to the upper triangle of H (m, m); A (n, m): starts (m+1,), rows and values."""
    ends = np.zeros(n + 1, np.int64)
    for e in range(starts[-1]):
        ends[rows[e] + 1] += 1
    for i in range(n):
        ends[i + 1] += ends[i]
    columns, across = np.empty(starts[-1], np.int32), np.empty(starts[-1])  # row by row
    for q in range(starts.size - 1):
        for e in range(starts[q], starts[q + 1]):
            columns[ends[rows[e]]], across[ends[rows[e]]] = q, values[e]
            ends[rows[e]] += 1
    start = 0
    for i in range(n):
        for e in range(start, ends[i]):
            line = H[columns[e]]
            for f in range(e, ends[i]):
                line[columns[f]] += across[e] * across[f]
        start = ends[i]


@register_jitable
def _factored(starts, rows, values, n, group, added, leaning, down):
    """Solve the system of `_by_gradients` by Cholesky factorisation."""
    H = diagonal_matrix(added)
    add_products(starts, rows, values, n, H)
    for q in range(down.size):
        for r in range(q, down.size):
            if group[r] != group[q]:
                break
            H[q, r] -= leaning[q] * leaning[r]
    for q in range(down.size):
        down[q] = -down[q]
    return scaled_direction(H, down)


@register_jitable
def _by_gradients(starts, rows, values, n, group, added, leaning, down, tolerance, most):
    """Solve (A^T A + diag(added) - sum_g leaning_g leaning_g^T) p = down for p (m,) by conjugate gradients.

    At most `most` iterations, to this relative tolerance. A (n, m): starts (m+1,), rows and values; group (m,): sorted;
    leaning_g: the entries of leaning (m,) in group g.
    """
    m = down.size
    diagonal = np.empty(m)
    for q in range(m):
        diagonal[q] = added[q] - leaning[q] * leaning[q]
        for e in range(starts[q], starts[q + 1]):
            diagonal[q] += values[e] * values[e]
    p, r, s, product = np.zeros(m), np.empty(m), np.empty(m), np.empty(m)
    image, inner = np.zeros(n), np.zeros(group[-1] + 1)
    scaled, enough = 0.0, 0.0
    for q in range(m):
        r[q], s[q] = down[q], down[q] / diagonal[q]
        scaled += r[q] * s[q]
        enough += tolerance * tolerance * down[q] * down[q]
    for _ in range(most):
        image[:] = 0.0
        inner[:] = 0.0
        for q in range(m):
            for e in range(starts[q], starts[q + 1]):
                image[rows[e]] += values[e] * s[q]
            inner[group[q]] += leaning[q] * s[q]
        curved = 0.0
        for q in range(m):
            total = added[q] * s[q] - leaning[q] * inner[group[q]]
            for e in range(starts[q], starts[q + 1]):
                total += values[e] * image[rows[e]]
            product[q] = total
            curved += s[q] * total
        if not curved > 0.0:
            break
        left, ahead = 0.0, 0.0
        for q in range(m):
            p[q] += scaled / curved * s[q]
            r[q] -= scaled / curved * product[q]
            left += r[q] * r[q]
            ahead += r[q] * r[q] / diagonal[q]
        if left <= enough:
            break
        for q in range(m):
            s[q] = r[q] / diagonal[q] + ahead / scaled * s[q]
        scaled = ahead
    return p


@register_jitable
def _face(first, roots, w):
    """The columns that a Newton step changes, their groups, and the norm of each group's weights."""
    face, group, count = np.empty(w.size, np.int64), np.empty(w.size, np.int64), 0
    sizes = np.zeros(roots.size)
    for g in range(roots.size):
        sizes[g] = length(w, first[g], first[g + 1])
        if sizes[g] > 0.0 or roots[g] == 0.0:
            for j in range(first[g], first[g + 1]):
                face[count], group[count] = j, g
                count += 1
    return face[:count], group[:count], sizes


@register_jitable
def _bent_columns(face, columns, slopes):
    """The columns of the face, times the roots of the slopes: starts (m+1,), rows, and values other than 0."""
    starts, ends, rows, values = columns
    stiff, stored = np.empty(slopes.size), 1
    for i in range(slopes.size):
        stiff[i] = np.sqrt(slopes[i])
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


@register_jitable
def _downhill(face, group, sizes, columns, terms, w, duals):
    """Minus the gradient on the face; the curvature that the terms add to the diagonal, and the one that they lack."""
    first, roots, squares, ridge, centre = terms
    down, added, leaning = np.empty(face.size), np.empty(face.size), np.zeros(face.size)
    for q in range(face.size):
        j, g = face[q], group[q]
        pressed = roots[g] / sizes[g] if sizes[g] > 0.0 else 0.0
        down[q] = _pull(columns, j, duals) - squares[j] * w[j] - ridge * (w[j] - centre[j]) - pressed * w[j]
        added[q] = squares[j] + ridge
        if first[g + 1] - first[g] > 1 and sizes[g] > 0.0:  # the norm of a group has curvature too
            added[q] += pressed
            leaning[q] = np.sqrt(pressed) * (w[j] / sizes[g])
    return down, added, leaning


@register_jitable
def _made_regular(from_, bent, added):
    """Add to the diagonal what keeps the matrix regular if columns are equal."""
    largest = 0.0
    for q in range(added.size):
        curved = 0.0
        for e in range(from_[q], from_[q + 1]):
            curved += bent[e] * bent[e]
        largest = max(largest, curved + added[q])
    for q in range(added.size):
        added[q] += 1e-9 * largest + 1e-300


@kernel
def newton(loss, centred, columns, terms, w, answers, few, tolerance, most):
    """A Newton step on the nonzero weights; weights that would change sign become 0.

    Up to `few` columns the system is factored; otherwise at most `most` conjugate gradient steps are made. Returns
    (norm of the gradient, whether f decreased, f).
    """
    first, roots = terms.first, terms.roots
    face, group, sizes = _face(first, roots, w)
    from_, on, bent = _bent_columns(face, columns, answers.slopes)
    down, added, leaning = _downhill(face, group, sizes, columns, terms, w, answers.duals)
    slope = length(down, 0, down.size)
    value = _respond_all(loss, centred, answers, penalty(terms, w))
    if not slope > 0.0:
        return 0.0, False, value
    _made_regular(from_, bent, added)
    system = (from_, on, bent, answers.duals.size, group, added, leaning, down)
    p = _factored(*system) if down.size <= few else _by_gradients(*system, tolerance, most)
    old, share = w.copy(), 1.0
    for _ in range(TRIES):
        for q in range(p.size):
            j, g = face[q], group[q]
            w[j] = old[j] + share * p[q]
            if first[g + 1] - first[g] == 1 and roots[g] > 0.0 and w[j] * old[j] < 0.0:
                w[j] = 0.0
        new = meet(loss, centred, columns, w, answers) + penalty(terms, w)
        if new < value:
            return slope, True, new
        share *= BACK
    for j in range(w.size):
        w[j] = old[j]
    meet(loss, centred, columns, w, answers)
    return slope, False, value


def warm(sample: Sample) -> None:
    n, d, columns = sample.block.rows(), 2, Columns(*sample.columns)
    place, ends = np.array([0, 1, 2], np.int32), np.append(0, np.cumsum(sizes(sample.block)[:2]))
    gather(sample.block, 0, sample.labels, 0, place, ends, np.zeros(5, np.int32), np.zeros(5, sample.dtype))
    one, w, none = np.ones(d), np.zeros(d), np.empty(0)
    centred, answers = Centred(1.0, none, np.ones(n), np.zeros(n)), Answers(np.zeros(n), np.zeros(n), np.zeros(n))
    terms = Terms(np.arange(d + 1), one, one, 0.0, w.copy())
    for loss in sample.losses("slope"):
        meet(loss, centred, columns, w, answers)
        newton(loss, centred, columns, terms, w, answers, 1, 0.1, 2)
        pull_in(loss, centred.caps, columns, one, 1.0, -one, answers.duals, answers.slopes, 1)
        dual_value(loss, none, centred.caps, answers.duals)
    mean_square(columns)
    penalty(terms, w)
    sweep(1.0, -one, columns, terms, np.arange(d), w, answers)
