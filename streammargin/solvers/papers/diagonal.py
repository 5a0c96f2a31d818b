"""Diagonal descent on the dual of the hinge (diagonal descent paper, Algorithms 1 and 2, eq. (4.1)-(4.7)).

Step size. The paper asks for 1/gamma >= ||A A^T||. Its Lemma 5.3 uses only the descent inequality of the step d =
beta_new - z. As the dual is quadratic, it is 1/gamma >= ||A^T d||^2 / ||d||^2. The paper's rates are not proven for
such steps. The linear one (Proposition 5.1, Theorem 5.1) needs that I - gamma A A^T contracts. With A A^T = diag(100,
1) and d = (0.1, 1) the inequality allows gamma = 0.505, which makes d 4.95 times as long. The rate with inertia
(Proposition 5.2) needs a gamma that does not grow.

The quotient is known after every pass for nothing. A larger one raises 1/gamma to `safety` times the quotient.
Otherwise 1/gamma falls by the share `fall`, as the curvature among the few rows that matter is far below ||A A^T|| (3
to 5 times fewer passes). Every such failure makes the fall slower by `hindsight`, so that by pass T there are no more
than O(log T) of them. After each, all goes on from finite duals, a start the paper allows.

gamma=fixed is the paper's step. A power iteration of 8 reads finds ||A A^T||, and 1/gamma is 1.1 times it, or the
number of rows if this is less. The iteration comes from below. If a step proves 1/gamma too small, it is raised to the
quotient. It never falls.

Penalty. lambda0 is for the rows as given: the duals' box [0, 1/lambda_t] is that of C = 1/lambda_t. Without it
lambda_0 = R^2. On every data set tried, no other decay of the paper is faster than the default, 2^t. It is as safe as
the others, as the box is not what keeps the iteration stable.

If no hyperplane separates the rows, the sum of the duals grows without a bound, and ||A^T beta|| <= sqrt(2 sum beta).
So the upper bound falls like 1/t or faster. 1/gamma falls with it, to `SHORTEST`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from streammargin.compiled import row_norms as norms
from streammargin.kinds import Word
from streammargin.losses.base import POSITIVE
from streammargin.rows.blocks import Block
from streammargin.rows.labels import RowLabels
from streammargin.solvers.papers.hinge_pass import Hinge, HingePass, look
from streammargin.solvers.papers.of_kernel import PowerOfKernel, in_kernel
from streammargin.solvers.papers.power import PowerIteration
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.whole_pass import WholePass
from streammargin.solvers.roles import K, Rows, Shared, Sum, W, f8, of, state
from streammargin.words import entry

# divisors of lambda_0 in iteration t; beyond t = 1023 the power of two is inf, and duals are unbounded
DECAYS: dict[str, Callable[[int], float]] = {
    "log": math.log,
    "sqrt": math.sqrt,
    "linear": float,
    "square": lambda t: float(t) ** 2,
    "exponential": lambda t: math.ldexp(1.0, t) if t < 1024 else math.inf,
}
SHORTEST = 1e-8  # least 1/gamma, relative to its safe value: unbounded duals stay finite
# further columns of the figures: the sum of the new beta; ||beta - z||^2, z = beta + momentum (beta - before); and
# (z - beta).(beta - before), which is positive when the inertia increases the objective
SUM_OF_BETA, SQUARED_STEP, TURN = 2, 3, 4
NOISE = 1e-10  # a smaller relative change of A^T beta is rounding, and is not used to estimate the curvature


@state
class DiagonalState(Hinge):
    """The state of the iterations.

    `beta`                  duals in units of R^-2.
    `previous`              the ones before them, with inertia.
    `theta`                 A^T beta / R.
    `curvature`             1/gamma; 0 until a step was taken.
    `fall`                  its share that goes with a pass.
    `steps`                 t, since the last restart.
    `direction`, `product`  those of the power iteration for gamma=fixed.
    """

    beta: Rows[f8]
    previous: Rows[f8] = of(K, 0)
    theta: Shared[f8]
    curvature: Shared[f8] = of(K)
    fall: Shared[f8] = of(K)
    steps: Shared[f8] = of(K, fill=1.0)
    direction: Shared[f8] = of(W)
    product: Sum[f8] = of(W)


class Diagonal(PowerIteration[DiagonalState], HingePass[DiagonalState]):
    """Projected gradient steps on all duals of the hinge, in a box that grows; C = inf, l2; stops by the margin gap.

    Iteration t is one read. Its penalty is lambda_t = lambda0 / decay(t):
        beta_i <- clip(beta_i + gamma (1 - y_i x_i.w), 0, 1 / lambda_t);
        w <- sum_i beta_i y_i x_i.
    The step gamma follows the curvature of the last steps, with a safety margin. With gamma=fixed it is the
    paper's, below 1 / ||A A^T||, by a power iteration of 8 reads before the first pass.
    If rows can be separated, w approaches the maximum margin as lambda_t falls.
    The margin is at most ||w|| / sum_i beta_i.

    Source: diagonal descent paper, Algorithm 1, eq. (4.1)-(4.3).
    """

    name = "diagonal"
    lambda0: float | None = entry(
        None, POSITIVE, "what the decay divides; none: the square of the largest norm of a row"
    )
    decay: str = entry(
        "exponential", Word(tuple(DECAYS)), "the penalty of iteration t is lambda0 over log t, sqrt t, t, t^2 or 2^t",
        kw_only=True,
    )  # fmt: skip
    gamma: str = entry(
        "adaptive", Word(("adaptive", "fixed")), "adaptive: the step follows the curvature; fixed: that of the paper",
        kw_only=True,
    )  # fmt: skip
    safety: ClassVar[float] = 1.2
    fall: ClassVar[float] = 0.1
    hindsight: ClassVar[float] = 0.8

    @property
    def fixed(self) -> bool:
        """Whether gamma is that of the paper."""
        return self.gamma == "fixed"

    def of(self, problem: Problem) -> WholePass[Any]:
        return self if problem.kernel is None else in_kernel(self, PowerOfKernel)

    def start(self, problem: Problem, labels: RowLabels) -> DiagonalState:
        state = super().start(problem, labels)
        state.fall[:] = 0.0 if self.fixed else self.fall
        return state

    def iterates(self, problem: Problem) -> bool:
        return self.fixed

    def after_prologue(self, problem: Problem, state: DiagonalState) -> None:
        if self.fixed:
            state.curvature[:] = min(self.square_norm(state), self._safe(state)) or 1.0

    def box(self, state: DiagonalState) -> float:
        """The largest dual of this pass, 1/lambda_t, in units of R^-2."""
        t, R = state.number, self.largest_norm(state)
        grown = DECAYS[self.decay](t)
        return grown if self.lambda0 is None else R * (R * (grown / self.lambda0))

    def momentum(self, state: DiagonalState) -> np.ndarray:
        """The inertia (K,) of this pass; none here."""
        return np.zeros(len(state.steps))

    def starts_again(self, turn: float) -> bool:
        """Whether t goes back to 1; turn: above 0 if the inertia leads uphill."""
        return False

    def run_block(self, problem: Problem, state: DiagonalState, active: np.ndarray, block: Block, first: int) -> None:
        state.sums.seen += block.rows()
        # the rows have norm at most 1, so 1/gamma = n is safe for the first step
        known = np.where(state.curvature > 0.0, state.curvature, self._safe(state))
        momentum, box, scale = self.momentum(state), self.box(state), 1.0 / self.largest_norm(state)
        for seen, margins in look(problem, state, block, first):
            at = slice(seen.first, seen.first + seen.rows.rows())
            for k in active:
                u, figures, beta, previous = margins[k], state.sums.figures[k], state.beta[k, at], state.previous[k, at]
                there, moved = u < math.inf, momentum[k] * (beta - previous) if previous.size else 0.0
                z = beta + moved
                new = np.where(there, np.clip(z + (1.0 - u) / known[k], 0.0, box), 0.0)
                figures[SUM_OF_BETA] += new.sum()
                figures[SQUARED_STEP] += np.sum((new - z)[there] ** 2)
                figures[TURN] += np.sum(((z - new) * (new - beta))[there])
                if previous.size:
                    previous[there] = beta[there]
                beta[there] = new[there]
                seen.add(k, scale * new, state.sums.pull[k])

    def _safe(self, state: DiagonalState) -> float:
        return max(1.0, float(state.row_norms[norms.PRESENT_ROWS]))

    def move(self, problem: Problem, state: DiagonalState, active: np.ndarray) -> np.ndarray:
        sums = state.sums
        R, space = self.largest_norm(state), self.space
        upper = np.full(problem.count, math.inf)
        for k in active:
            figures, w, pull, theta = sums.figures[k], state.w[k], sums.pull[k], state.theta[k]
            length = space.length(pull)
            if figures[SUM_OF_BETA] > 0.0:
                upper[k] = R * (length / figures[SUM_OF_BETA])
            change = space.mix(R, w, -1.0, pull)
            if figures[SQUARED_STEP] > 0.0 and (change > NOISE * length or length == 0.0):
                self._adapt(state, k, change**2 / figures[SQUARED_STEP])
            state.steps[k] = 1.0 if self.starts_again(figures[TURN]) else state.steps[k] + 1.0
            momentum = float(self.momentum(state)[k])
            space.mix(-momentum / R, theta, (1.0 + momentum) / R, pull)
            w[:], theta[:] = theta, pull
        return upper

    def _adapt(self, state: DiagonalState, k: int, quotient: float) -> None:
        """1/gamma after a step with this Rayleigh quotient ||A^T d||^2 / ||d||^2."""
        known, safety = state.curvature[k], 1.0 if self.fixed else self.safety
        if quotient > known:
            if known > 0.0:
                state.fall[k] *= self.hindsight
            state.curvature[k] = safety * quotient
        else:
            slower = known * (1.0 - state.fall[k])
            state.curvature[k] = max(slower, safety * quotient, SHORTEST * self._safe(state))
