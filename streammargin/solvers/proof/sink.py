"""Free constants of a loss whose duals add up to 0 over the lines of each row: softmax, Crammer-Singer.

The share p_ik of row i in line k has the dual p_ik - [k is own], and a constant that is not penalised asks for
sum_i cap_i p_ik = the caps of class k. Shares of lines above that are scaled by 1 - f_k. The lines below receive it, in
fixed proportions rho:

    p'_i = p_i (1 - f) + (p_i . f) rho

This is linear in p_i, so A^T alpha' follows from A^T alpha and the sum of the rows of each class. A line's part of the
dual, sum_i cap_i of_share(p_ik), becomes at most (1 - f_k) of what it was, or grows by at most what the line receives:
of_share is convex, of_share(0) = 0 and of_share'(p) <= 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streammargin.compiled.coupled import LONG, MASS, PART
from streammargin.solvers.proof.objectives.base import Sums
from streammargin.solvers.proof.rounding import EPS


def sunk(
    pull: np.ndarray, sides: Sequence[Sequence[Sums]], own: np.ndarray, parts: np.ndarray, present: int
) -> tuple[np.ndarray, Sums]:
    """(A^T alpha (lines, d+1), its sums) once free constants are balanced.

    pull (lines, 2, d+1), sides: of the duals of the line's own class, and of the others; own (lines, d+1), parts
    (lines, PARTS): of compiled/coupled.py.
    """
    taken, given = np.array([[side.alpha for side in line] for line in sides]).T
    mass = parts[:, MASS]
    excess = given - taken  # sum_i cap_i p_ik, minus the caps of class k
    held = np.maximum(mass + excess, 0.0)  # sum_i cap_i p_ik
    factor = np.divide(np.maximum(excess, 0.0), held, out=np.zeros_like(held), where=held > 0.0)
    lacking = np.maximum(-excess, 0.0)
    everything = own - pull.sum(axis=1)  # sum_i cap_i p_ik x_i
    received = np.outer(lacking / max(float(lacking.sum()), 1e-300), factor @ everything)
    theta = own - (everything * (1.0 - factor)[:, None] + received)
    theta[:, -1] = 0.0
    total = sides[0][0].part(0.0)
    for line in sides:
        total = total.plus(line[0]).plus(line[1])
    before = parts[:, PART]
    after = np.where(factor > 0.0, (1.0 - factor) * before, before + lacking)
    slip = (present + 8.0) * EPS * float(np.abs(before).sum() + mass.sum())
    lost = max(0.0, float((after - before).sum())) + slip
    return theta, total._replace(
        duals=total.duals - lost, summed=total.summed + lost, pulled=total.pulled + 2.0 * float(parts[:, LONG].sum())
    )
