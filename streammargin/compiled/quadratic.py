"""Minimise a quadratic function plus a block-separable penalty, in memory."""

from __future__ import annotations

import math

import numpy as np
from numba.extending import register_jitable

from streammargin.compiled import overloads  # noqa: F401
from streammargin.compiled.jit import kernel
from streammargin.compiled.newton import descent, factor
from streammargin.compiled.samples import SampleBlock
from streammargin.penalties.base import Pieces

RIDGE = 1e-13  # added to a unit diagonal, so that a singular matrix can be factored
SWEEPS = 3  # rounds over the nonzero blocks before their Newton step
BACKTRACKS = 12  # most halvings of that step


@register_jitable
def _value(pieces, slope, bent, move, v):
    """slope.move + 1/2 move.bent plus the penalty of v."""
    total = 0.0
    for j in range(v.size):
        total += move[j] * (slope[j] + 0.5 * bent[j])
    for b in range(pieces.thresholds.size):
        square, size = 0.0, 0.0
        for j in range(pieces.starts[b], pieces.starts[b + 1]):
            square += v[j] * v[j]
            size += abs(v[j])
        total += pieces.thresholds[b] * math.sqrt(square) + pieces.cuts[b] * size + 0.5 * pieces.ridges[b] * square
    return total


@register_jitable
def _still(pieces, b, v):
    """Whether block b is 0, and has a threshold or cut > 0."""
    for j in range(pieces.starts[b], pieces.starts[b + 1]):
        if v[j] != 0.0:
            return False
    return pieces.thresholds[b] + pieces.cuts[b] > 0.0  # with `or` the sweeps take twice as long


@register_jitable
def _reached(cut, bound, slope, v):
    """The weight of a column after a proximal step of length 1 / bound, before the threshold of its block."""
    moved = v - slope / bound
    if cut > 0.0:
        moved = math.copysign(max(0.0, abs(moved) - cut / bound), moved)
    return moved


@register_jitable
def _sweep(H, pieces, bounds, slope, v, awake):
    """One proximal step on every block, or with `awake` on the nonzero ones; returns the largest scaled change.

    slope (d,), the gradient of the quadratic function at v, is kept up to date.
    """
    most = 0.0
    for b in range(pieces.thresholds.size):
        low, high = pieces.starts[b], pieces.starts[b + 1]
        bound = bounds[b]
        if not bound > 0.0 or (awake and _still(pieces, b, v)):
            continue
        square = 0.0
        for j in range(low, high):
            square += _reached(pieces.cuts[b], bound, slope[j], v[j]) ** 2
        factor = 0.0
        if square > 0.0:
            factor = max(0.0, 1.0 - pieces.thresholds[b] / (bound * math.sqrt(square)))
        factor /= 1.0 + pieces.ridges[b] / bound
        for j in range(low, high):
            new = factor * _reached(pieces.cuts[b], bound, slope[j], v[j])
            change = new - v[j]
            if change != 0.0:
                v[j] = new
                most = max(most, abs(change) * bound)
                row = H[j]
                for k in range(v.size):
                    slope[k] += change * row[k]
    return most


@register_jitable
def scaled_factor(F: np.ndarray) -> np.ndarray:
    """Factorise F (m, m), scaled to a unit diagonal, in place, in its upper triangle.

    Returns the square roots of the diagonal.
    """
    m = F.shape[0]
    roots = np.empty(m)
    for r in range(m):
        roots[r] = math.sqrt(F[r, r]) if F[r, r] > 0.0 else 1.0
    for r in range(m):
        for c in range(r, m):
            F[r, c] /= roots[r] * roots[c] * RIDGE
    factor(F, RIDGE)
    return roots


@register_jitable
def scaled_descent(U: np.ndarray, roots: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """-F^-1 gradient (m,) for a factored F."""
    size = roots.size
    scaled = np.empty(size)
    for r in range(size):  # a loop: array operations would take seconds to compile, and load 20 MB of scipy.linalg
        scaled[r] = gradient[r] / (roots[r] * RIDGE)
    found = descent(U, scaled)
    for r in range(size):
        found[r] /= roots[r]
    return found


@register_jitable
def scaled_direction(F: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """-F^-1 gradient (m,) from the upper triangle of F (m, m), scaled to a unit diagonal; F is overwritten."""
    roots = scaled_factor(F)
    return scaled_descent(F, roots, gradient)


@register_jitable
def _newton_step(H, pieces, bounds, slope, v):
    """(Newton step (d,) on the nonzero columns that no threshold or cut holds, number of these columns)."""
    columns, block = np.empty(v.size, np.int64), np.empty(v.size, np.int64)
    lengths = np.zeros(pieces.thresholds.size)
    m = 0
    for b in range(pieces.thresholds.size):
        if not bounds[b] > 0.0 or _still(pieces, b, v):
            continue
        square = 0.0
        for j in range(pieces.starts[b], pieces.starts[b + 1]):
            square += v[j] * v[j]
            if v[j] != 0.0 or pieces.cuts[b] == 0.0:
                columns[m], block[m] = j, b
                m += 1
        lengths[b] = math.sqrt(square)
    step = np.zeros(v.size)
    if m == 0:
        return step, m
    F, down = np.empty((m, m)), np.empty(m)
    for r in range(m):
        down[r] = slope[columns[r]]
        row = H[columns[r]]
        for c in range(r, m):
            F[r, c] = row[columns[c]]
    for r in range(m):
        b, value = block[r], v[columns[r]]
        down[r] += pieces.ridges[b] * value
        F[r, r] += pieces.ridges[b]
        if pieces.cuts[b] > 0.0:
            down[r] += math.copysign(pieces.cuts[b], value)
        if pieces.thresholds[b] > 0.0:
            pull = pieces.thresholds[b] / lengths[b]
            down[r] += pull * value
            if pieces.starts[b + 1] - pieces.starts[b] > 1:  # the length bends as well
                F[r, r] += pull
                for c in range(r, m):
                    if block[c] != b:
                        break
                    F[r, c] -= pull * (value / lengths[b]) * (v[columns[c]] / lengths[b])
    found = scaled_direction(F, down)
    for r in range(m):
        step[columns[r]] = found[r]
    return step, m


@kernel
def minimise_quadratic(H, slope, pieces, v, part, rounds, work):
    """v <- argmin of slope.(v - v0) + 1/2 (v - v0)^T H (v - v0) + the penalty of these `pieces` of v.

    `H`       (d, d) symmetric, positive semidefinite; a block with zeros on the diagonal stays fixed.
    `slope`   (d,) gradient at v0, overwritten; v (d,) v0 at first, overwritten.
    `part`    stop if the largest change has fallen to this share of the first one.
    `rounds`  stop after so many rounds; work: stop when the sum of the cubed sizes of the Newton steps exceeds it.

    Each round makes proximal steps on all blocks (Tseng 2001) and a Newton step on the nonzero ones. Returns the number
    of rounds.
    """
    bounds = np.zeros(pieces.thresholds.size)
    for b in range(bounds.size):  # Gershgorin bound on the largest eigenvalue
        low, high = pieces.starts[b], pieces.starts[b + 1]
        for j in range(low, high):
            total = 0.0
            for k in range(low, high):
                total += abs(H[j, k])
            bounds[b] = max(bounds[b], total)
    enough = 0.0
    bent, move, tried = np.empty(v.size), np.empty(v.size), np.empty(v.size)
    for number in range(rounds):
        most = _sweep(H, pieces, bounds, slope, v, False)
        if number == 0:
            enough = part * most
        if most <= enough:
            return number
        for _ in range(SWEEPS):
            _sweep(H, pieces, bounds, slope, v, True)
        step, moving = _newton_step(H, pieces, bounds, slope, v)
        bent[:] = 0.0
        move[:] = 0.0
        before = _value(pieces, slope, bent, move, v)
        length = 1.0
        for _ in range(BACKTRACKS):
            bent[:] = 0.0
            for b in range(bounds.size):
                low, high = pieces.starts[b], pieces.starts[b + 1]
                for j in range(low, high):
                    tried[j] = v[j] + length * step[j]
                    bends = pieces.cuts[b] > 0.0 or (high - low == 1 and pieces.thresholds[b] > 0.0)
                    if bends and tried[j] * v[j] < 0.0:
                        tried[j] = 0.0  # a kink of the penalty
            for j in range(v.size):
                move[j] = tried[j] - v[j]
                if move[j] != 0.0:
                    row = H[j]
                    for k in range(v.size):
                        bent[k] += move[j] * row[k]
            if _value(pieces, slope, bent, move, tried) < before:
                for k in range(v.size):
                    v[k] = tried[k]
                    slope[k] += bent[k]
                break
            length *= 0.5
        work -= float(moving) ** 3
        if work <= 0.0:
            return number + 1
    return rounds


def warm(sample: SampleBlock) -> None:
    pieces = Pieces(np.arange(4), np.ones(3), np.zeros(3), np.zeros(3))
    minimise_quadratic(np.eye(3), np.ones(3), pieces, np.zeros(3), 0.1, 1, 1.0)
