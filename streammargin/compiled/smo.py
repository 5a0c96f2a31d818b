"""Sequential minimal optimisation: steps on two coefficients of an expansion at a time.

Coefficients b are signed, f = K b. The dual objective is the sum of t b - (under or over) |b| - bend b^2 / 2 over the
rows, minus b.f / 2, for low <= b <= high. A free constant makes the coefficients add up to 0.

Source: Platt 1998; the second row of a step by second-order information: Fan, Chen and Lin 2005.
"""

from __future__ import annotations

import math

import numpy as np

from streammargin.compiled import overloads
from streammargin.compiled.jit import kernel
from streammargin.compiled.samples import SampleBlock

TINY = 1e-12  # least curvature of a step, relative to that of its two rows
along = overloads.along


@along
def rise(b: float, slope: float, over: float, under: float) -> float:
    """The derivative of the dual along a growing b; slope: t - f - bend b."""
    return slope - under if b >= 0.0 else slope + over


@along
def fall(b: float, slope: float, over: float, under: float) -> float:
    """The derivative if b falls, from the other side: the dual grows along it if this is below 0."""
    return slope - under if b > 0.0 else slope + over


@along
def _room(b, step, low, high, kinked):
    """How far b may move along this direction before it meets a bound or a kink."""
    if step > 0.0:
        return -b if kinked and b < 0.0 else high - b
    return b if kinked and b > 0.0 else b - low


@along
def _moved(b, by, room, low, high):
    """b after a move; at the end of its room it is exactly at 0 or at the bound."""
    if abs(by) < room:
        return b + by
    if by > 0.0:
        return 0.0 if b < 0.0 and room == -b else high
    return 0.0 if b > 0.0 and room == b else low


@along
def _bent(K, i, j, diagonal, bend):
    """The curvature of a step that moves the rows i and j of a matrix with the line K of i the opposite ways."""
    return diagonal[i] + diagonal[j] - 2.0 * K[j] + bend[i] + bend[j]


@along
def _first(f, b, t, low, high, bend, over, under, free):
    """(the row that gains most by a step of its own, that gain, the direction of the step)."""
    i, best, sign = -1, -math.inf if free else 0.0, 1.0
    for r in range(b.size):
        slope = t[r] - f[r] - bend[r] * b[r]
        if b[r] < high[r]:
            up = rise(b[r], slope, over, under)
            if up > best:
                i, best, sign = r, up, 1.0
        if not free and b[r] > low[r]:
            down = -fall(b[r], slope, over, under)
            if down > best:
                i, best, sign = r, down, -1.0
    return i, best, sign


@along
def _second(K, diagonal, i, best, f, b, t, low, high, bend, over, under):
    """(the row that falls if row i rises, with the largest gain, and the smallest fall of any row)."""
    j, gain, worst = -1, 0.0, math.inf
    for r in range(b.size):
        if b[r] > low[r]:
            down = fall(b[r], t[r] - f[r] - bend[r] * b[r], over, under)
            worst = min(worst, down)
            if down < best and r != i:
                bent = max(_bent(K, i, r, diagonal, bend), TINY * (abs(diagonal[i]) + abs(diagonal[r])) + 1e-300)
                gained = (best - down) * (best - down) / bent
                if gained > gain:
                    j, gain = r, gained
    return j, worst


@along
def _line(columns, slots, rows, i, out):
    """out[r] = K(i, r) of the rows of a round."""
    column = columns[slots[i]]
    for r in range(rows.size):
        out[r] = column[rows[r]]


@kernel
def solve(columns, slots, rows, f, b, t, low, high, bend, over, under, free, tol, most):
    """Steps on the coefficients b (m,) of a few rows, whose columns are in these slots, until none violates by tol.

    f (m,) and b are kept up to date. Returns (steps, the smallest curvature that was met).
    """
    kinked, m = over + under != 0.0, rows.size
    diagonal, own, other = np.empty(m), np.empty(m), np.empty(m)
    for r in range(m):
        diagonal[r] = columns[slots[r], rows[r]]
    steps, smallest = 0, math.inf
    while steps < most:
        i, best, sign = _first(f, b, t, low, high, bend, over, under, free)
        if i < 0:
            break
        _line(columns, slots, rows, i, own)
        if not free:
            bent = diagonal[i] + bend[i]
            smallest = min(smallest, bent)
            room = _room(b[i], sign, low[i], high[i], kinked)
            step = room if bent <= TINY * abs(diagonal[i]) else min(best / bent, room)
            if best <= tol or not 0.0 < step < math.inf:
                break
            new = _moved(b[i], sign * step, room, low[i], high[i])
            by, b[i] = new - b[i], new
            for r in range(m):
                f[r] += by * own[r]
            steps += 1
            continue
        j, worst = _second(own, diagonal, i, best, f, b, t, low, high, bend, over, under)
        if j < 0 or best - worst <= tol:
            break
        down = fall(b[j], t[j] - f[j] - bend[j] * b[j], over, under)
        bent = _bent(own, i, j, diagonal, bend)
        smallest = min(smallest, bent)
        bent = max(bent, TINY * (abs(diagonal[i]) + abs(diagonal[j])) + 1e-300)
        left, right = _room(b[i], 1.0, low[i], high[i], kinked), _room(b[j], -1.0, low[j], high[j], kinked)
        step = min((best - down) / bent, left, right)
        if not 0.0 < step < math.inf:
            break
        new, following = _moved(b[i], step, left, low[i], high[i]), _moved(b[j], -step, right, low[j], high[j])
        by, away = new - b[i], following - b[j]
        b[i], b[j] = new, following
        _line(columns, slots, rows, j, other)
        for r in range(m):
            f[r] += by * own[r] + away * other[r]
        steps += 1
    return steps, smallest


@kernel
def add_columns(columns, slots, steps, f):
    """f += sum_k steps_k columns[slots_k], in float64; columns (slots, n)."""
    for low in range(0, f.size, 2048):
        out = f[low : low + 2048]
        for k in range(slots.size):
            by, column = steps[k], columns[slots[k], low : low + 2048]
            for i in range(out.size):
                out[i] += by * column[i]


@kernel
def losses_at(loss, f, scale, constant, sign, target, caps, off):
    """(sum of cap phi, how far it may grow, rows missed) at the scores scale f + constant, wrong by at most `off`."""
    total = carry = slip = 0.0
    missed = 0
    for i in range(f.size):
        if caps[i] > 0.0:
            u = sign[i] * (scale * f[i] + constant) - target[i]
            value = loss.primal(u, caps[i])
            term = value - carry
            new = total + term
            carry, total = (new - total) - term, new
            if off > 0.0:
                slip += max(loss.primal(u - off, caps[i]), loss.primal(u + off, caps[i])) - value
            missed += u < 0.0 or (u == 0.0 and sign[i] > 0.0)
    return total, slip, missed


def warm(sample: SampleBlock) -> None:
    each = [np.zeros(2) for _ in range(6)]
    f, b, t, low, high, bend = each
    for dtype in (np.float32, np.float64):
        K = np.eye(2, dtype=dtype)
        solve(K, np.arange(2), np.arange(2), f, b, t, low, high, bend, 0.0, 0.0, True, 1.0, 1)
        add_columns(K, np.zeros(1, np.int64), np.ones(1), f)
    for loss in sample.losses("dual_form"):
        losses_at(loss, f, 1.0, 0.0, np.ones(2), f, np.ones(2), 0.0)
