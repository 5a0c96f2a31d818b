"""One projected gradient step on all duals, a block at a time (diagonal descent paper, Algorithms 1 and 2)."""

from __future__ import annotations

import numpy as np

from streammargin.compiled.chunks import chunk_add, chunk_look
from streammargin.compiled.jit import kernel
from streammargin.compiled.samples import ONE, Sample, counts, weights

# further columns of the figures
MASS, STEP, TURN, FIGURES = 2, 3, 4, 5


@kernel
def diagonal_block(
    block, numbers, labels, chunk, active, w, momentum, step, box, scale, beta, before, pull, figures, wrong,
):  # fmt: skip
    """beta_i <- clip(z_i + step (1 - a_i.w), 0, box) for every row of the block; z = beta + momentum (beta - before).

    block     rows of the data; numbers, labels: of these rows, and of all n;
    chunk     rows of a chunk;
    active    problems (int64) whose duals are updated; for the others only figures are computed;
    w         (K, d+1) float64, frozen: scale^2 A^T z; scale: factor of the rows, 1 / max ||a_i||;
    momentum  (K,), step (K,); box: the largest dual;
    beta      (K, n) duals; before (K, n) the previous ones, or (K, 0) without inertia;
    pull      (K, d+1), added to: scale A^T beta of the new duals;
    figures   (K, FIGURES), added to: min a_i.w (from inf); rows with a_i.w <= 0; sum of the new beta;
              ||beta - z||^2; (z - beta).(beta - before), which is positive when the inertia increases the objective;
    wrong     (1,) rows whose largest score is a wrong class's (K > 1)
    """
    K = w.shape[0]
    inertial = before.shape[1] > 0
    scores = np.empty((K, chunk))
    margins = np.empty((K, chunk))
    even = np.ones(K)
    for start in range(0, block.rows(), chunk):
        size = min(chunk, block.rows() - start)
        chunk_look(block, numbers, labels, start, size, False, w, even, scores, margins, figures, wrong)
        for k in active:
            length, rate = step[k], momentum[k]
            mass = moved = turn = 0.0
            for r in range(size):
                u = margins[k, r]
                margins[k, r] = 0.0
                if u == np.inf:
                    continue
                row = numbers.row(start + r)
                old = beta[k, row]
                z = old
                if inertial:
                    z += rate * (old - before[k, row])
                    before[k, row] = old
                new = min(max(z + length * (1.0 - u), 0.0), box)
                beta[k, row] = new
                moved += (new - z) * (new - z)
                turn += (z - new) * (new - old)
                mass += new
                margins[k, r] = labels.sign(k, row) * new * scale
            figures[k, MASS] += mass
            figures[k, STEP] += moved
            figures[k, TURN] += turn
        chunk_add(block, start, size, active, margins, pull)


def warm(sample: Sample) -> None:
    diagonal_block(
        *sample.rows, 2, ONE, weights(), np.zeros(1), np.ones(1), 1.0, 1.0, np.zeros((1, 2)), np.zeros((1, 0)),
        weights(), np.zeros((1, FIGURES)), counts(),
    )  # fmt: skip
