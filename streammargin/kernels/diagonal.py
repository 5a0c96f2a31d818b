"""One projected gradient step on all duals, a block at a time (diagonal descent paper, Algorithms 1 and 2)."""

from __future__ import annotations

from streammargin.kernels import methods  # noqa: F401
from streammargin.kernels.jit import kernel

# columns of the figures of a pass, one row per problem
SMALLEST, MISTAKES, MASS, STEP, TURN, FIGURES = 0, 1, 2, 3, 4, 5


@kernel
def diagonal_block(
    block, first, codes, positive, caps, weights, moving, w, momentum, step, box, scale,
    beta, before, pull, figures, wrong,
):  # fmt: skip
    """beta_i <- clip(z_i + step (1 - a_i.w), 0, box) for every row of the block, z = beta + momentum (beta - before).

    block     rows first .. first + m of the data
    codes     (n,) class of each row, -1: absent; positive (K,) the class with sign +1 in problem k
    caps      (K, classes): a class of cap 0 is absent; weights (n,) or (0,) sample weights
    moving    (K,) bool: the problems whose duals move; the others are only looked at
    w         (K, d+1) float64, frozen: scale^2 A^T z; scale: what the rows are multiplied by, 1 / max ||a_i||
    momentum  (K,), step (K,); box: the largest dual
    beta      (K, n) duals; before (K, n) the ones before them, or (K, 0) without inertia
    pull      (K, d+1), added to: scale A^T beta of the new duals
    figures   (K, FIGURES), added to: min a_i.w (from inf), rows with a_i.w <= 0, sum of the new beta,
              ||beta - z||^2, and (z - beta).(beta - before), which is positive when the inertia leads uphill
    wrong     (1,) rows whose largest score is a wrong class's (K > 1)
    """
    weighted = weights.size > 0
    inertial = before.shape[1] > 0
    K = w.shape[0]
    for i in range(block.rows()):
        row = first + i
        code = codes[row]
        if code < 0 or (weighted and not weights[row] > 0.0):
            continue
        block.prefetch_row(i + 2)
        best = 0
        top = 0.0
        for k in range(K):
            score = block.exact_dot(i, w[k])
            if k == 0 or score > top:
                best = k
                top = score
            if not caps[k, code] > 0.0:
                continue
            sign = 1.0 if code == positive[k] else -1.0
            u = sign * score
            figures[k, SMALLEST] = min(figures[k, SMALLEST], u)
            if u <= 0.0:
                figures[k, MISTAKES] += 1.0
            if not moving[k]:
                continue
            old = beta[k, row]
            z = old
            if inertial:
                z += momentum[k] * (old - before[k, row])
                before[k, row] = old
            new = min(max(z + step[k] * (1.0 - u), 0.0), box)
            beta[k, row] = new
            figures[k, STEP] += (new - z) * (new - z)
            figures[k, TURN] += (z - new) * (new - old)
            if new != 0.0:
                figures[k, MASS] += new
                block.add(i, sign * new * scale, pull[k])
        if K > 1 and positive[best] != code:
            wrong[0] += 1
