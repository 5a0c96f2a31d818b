"""Newton's descent on one problem whose rows are in memory: a direction, an exact search along it, step after step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streammargin.compiled import newton as kernel
from streammargin.losses.base import largest_bend
from streammargin.rows.blocks import Block, values_of
from streammargin.rows.labels import Labels, RowNumbers
from streammargin.solvers.base import UNIT
from streammargin.solvers.old_state import Array, Layout, State

PIVOT = 1e-13  # a pivot this small, relative to its diagonal entry, is rounding
STEPS = 80  # of a problem that is solved to the end: more would mean that rounding leaves none
QUICK = 3  # steps that tell that the softness may fall faster
FREE = 10  # rows that bend, in multiples of the columns, left where the softness falls before a step is done
WORTH = 0.7  # of the softness: a fall to less is worth that, as the centres stay behind
FALLEN = 1e-6  # of the largest squared norm that the weights had: margins that were moved keep its rounding
LINE_SEARCH = 10  # multiplications of a row in a search along a step, about: its trials are not counted
SMOOTH = 2.0  # a loss whose second derivative is no larger is taken as it is: plain Newton steps serve it


def smooth(loss: Any) -> bool:
    """Whether plain Newton steps serve a loss: softness 0."""
    return largest_bend(loss) <= SMOOTH


def matrix_work(width: int, rows: float, values: float) -> float:
    """Multiplications of a second-order step: a matrix of so many rows with so many values each, and its factor."""
    return rows * values * values / 2 + width**3 / 6


def direction(H: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """-(I + H)^-1 gradient, (d+1,); of H (d+1, d+1) the upper triangle counts, and is overwritten.

    The gradient itself, downhill, where rounding left no way down.
    """
    found, _ = kernel.newton_direction(H, gradient, PIVOT)
    return found if -math.inf < found @ gradient < 0.0 else -gradient  # nor where that is no number


@dataclass
class Proximal:
    """How soft a proximal step is, relative to the caps, the dual objective at its centres, and steps made in it.

    made: steps of all proximal steps so far. multiplications: of the units that this object was there for.
    """

    softness: float
    height: float = -math.inf
    steps: int = 0
    made: int = 0
    multiplications: float = 0.0

    def harder(self, softness: float, height: float) -> None:
        self.softness, self.height, self.steps = softness, height, 0


# centres and proximal step of a problem that is solved in units, while they are not all made
UNDER_WAY: Layout = {"centres": Array((0,), grows=True), "proximal": Array((4,))}


def under_way(state: State, rows: int) -> Proximal | None:
    """The proximal step where a problem of so many rows is left half solved; its centres are in the state too."""
    softness, height, *counts = state.arrays["proximal"].tolist()
    known = counts[1] and state.arrays["centres"].size == rows
    return Proximal(softness, height, *map(int, counts)) if known else None


def leave(state: State, proximal: Proximal, centres: np.ndarray, done: bool) -> None:
    """Keep what the next unit goes on from, or nothing where the problem is done."""
    kept = (proximal.softness, proximal.height, proximal.steps, proximal.made)
    state.arrays["proximal"][:] = 0.0 if done else kept
    state.arrays["centres"] = np.empty(0) if done else centres


def step_work(values: int, width: int) -> float:
    """Multiplications of a step of one problem, whose rows hold so many values: a matrix of them, and its factors."""
    return width**3 / 3 + values * (20 + width / 4)


def solve(
    parts: Sequence[tuple[RowNumbers, Block]], labels: Labels, loss: Any, proximal: Proximal, alpha: np.ndarray,
    w: np.ndarray, offset: np.ndarray, enough: float, part: float, most: int = STEPS, to_prove: bool = False,
) -> bool:  # fmt: skip
    """Minimise 1/2 ||w||^2 - offset.w + the losses of rows in memory, by semismooth Newton steps, a unit of them.

    Returns whether it is done; if not, it goes on from what it has changed. labels: of these m rows and one problem.
    alpha (m,), the centres, w (d+1,) and the proximal step are changed in place. Ends where the gap is below `enough`,
    or below this part of the primal objective, after one step at least; the duals that have it are the centres then.
    Without softness it ends with the step before which the quadratic model was so near to its minimum. If the gap is
    `to_prove` it is the gap alone that counts, and the centres stay. most: steps of all units.
    """
    values = sum(values_of(block).size for _, block in parts)
    unit = max(1, int(UNIT / step_work(values, w.size)))
    margins, products, caps, a, slopes = (np.zeros(alpha.size or labels.codes.size) for _ in range(5))
    image, H, totals = np.zeros(w.size), np.zeros((w.size, w.size)), np.zeros(kernel.SUMS)
    begun, longest, rows = proximal.made, math.nan, margins.size
    while True:
        length = float(w @ w)  # squared
        if not length >= FALLEN * longest:  # or at first; margins that were moved keep the rounding of larger ones
            for numbers, block in parts:
                kernel.signed_products(block, numbers, labels, 0, w, margins)
            proximal.multiplications += values
            kernel.row_caps(labels, 0, 0, margins, caps)
            longest = length
        longest = max(longest, length)
        change = np.negative(a, out=products)
        kernel.attain(loss, proximal.softness, caps, alpha, margins, a, slopes, totals)
        change += a
        if np.count_nonzero(change != 0.0) >= np.count_nonzero(a != 0.0):
            # a sum afresh costs no more, and has no rounding of the larger duals before, as those of a large C are
            image[:], change[:] = 0.0, a
        for numbers, block in parts:
            kernel.add_image(block, numbers, labels, 0, change, image)
        proximal.multiplications += values * np.count_nonzero(change) / rows
        theta = offset + image
        gradient = w - theta
        away, gap = 0.5 * float(gradient @ gradient), float(totals[kernel.GAP])
        primal = totals[kernel.PRIMAL] + 0.5 * length - float(offset @ w)
        goal = max(enough, part * abs(primal))
        done = proximal.made > 0 and gap + away <= goal
        if proximal.made >= most or (done and to_prove):
            return True
        dual = float(totals[kernel.DUAL]) - 0.5 * float(theta @ theta)
        soft = proximal.softness > 0.0 and proximal.steps > 0
        if done or (soft and away < 0.5 * gap and dual >= proximal.height):
            # the proximal step is done: w is near A^T a, and the dual no worse than at the centres
            alpha[:] = a[: alpha.size]
            proximal.harder(proximal.softness / (4.0 if proximal.steps <= QUICK else 2.0), dual)
            if done:
                return True
            continue
        lower = proximal.softness * max(0.25, math.sqrt(0.5 * goal / gap) if gap > 0.5 * goal else 1.0)
        left = totals[kernel.FREE] * lower
        if soft and lower <= WORTH * proximal.softness and left >= FREE * w.size * proximal.softness:
            # the gap falls with the square of the softness, and w, not at the minimum yet, is as near to the next one;
            # but where few rows bend the model of a step holds for a little way only
            proximal.harder(lower, proximal.height)
            continue
        if proximal.made - begun == unit:
            return False
        H[:] = 0.0
        for numbers, block in parts:
            kernel.add_matrix(block, numbers, slopes, H)
        p = direction(H, gradient)
        for numbers, block in parts:
            kernel.signed_products(block, numbers, labels, 0, p, products)
        slope = float(gradient @ p)
        t = kernel.lowest(
            labels, loss, 0, proximal.softness, caps, alpha, margins, products, float((w - offset) @ p), float(p @ p),
            slope, math.inf,
        )  # fmt: skip
        proximal.multiplications += matrix_work(w.size, totals[kernel.FREE], values / rows)
        proximal.multiplications += values + LINE_SEARCH * rows
        w += t * p
        margins += t * products
        proximal.made += 1
        proximal.steps += 1
        if not to_prove and proximal.softness == 0.0 and -0.5 * slope <= goal:
            return True


def raise_bound(image: np.ndarray, gain: float, new_image: np.ndarray, new_gain: float) -> float:
    """The best dual bound on the segment between two; `image` becomes its A^T a, its gain is returned.

    A bound is gain - 1/2 ||A^T a||^2, and the gain of a mean of duals is at least the mean of theirs.
    """
    towards = new_image - image
    length = float(towards @ towards)
    along = new_gain - gain - float(image @ towards)
    t = min(max(along / length, 0.0), 1.0) if length > 0.0 else float(along > 0.0)
    image += t * towards
    return gain + t * (new_gain - gain)
