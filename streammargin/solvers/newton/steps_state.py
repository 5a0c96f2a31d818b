"""The state of Newton steps on all rows, and operations on its per-row arrays that need no row values.

Their results are sums, so that the rows could be split over several processes.
"""

from __future__ import annotations

import numpy as np

from streammargin.compiled import newton as kernel
from streammargin.losses.base import smooth
from streammargin.solvers.newton.bound import Looking
from streammargin.solvers.newton.sample import Sample
from streammargin.solvers.newton.subproblem import Proximal
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import K, Lists, N, Rows, Scratch, Shared, f8, i8, of, state
from streammargin.solvers.state import labels_of

SAMPLE, STEP, LOOK = range(3)  # what comes next for a problem
SOFTNESS = 0.5  # the first 1 / sigma, relative to the caps: with 1/8 steps diverged, with 2 there are more steps

OF_PROXIMAL = "softness", "height", "steps", "made", "spared"


@state
class StepsState(Looking):
    """Weights w (K, d+1), and at w the sums `look`; norms (n,): of the rows.

    step (K,): what comes next, steps on the sample, with the centres `drawn` (K, m); steps on all rows, with the
    centres alpha (K, n); or a look. Those in OF_PROXIMAL (K,): of the proximal step, as in `Proximal`.
    """

    alpha: Rows[f8] = of(K, N.where(lambda problem: not smooth(problem.loss)))
    norms: Rows[f8] = of(N)
    softness: Shared[f8] = of(K)
    height: Shared[f8] = of(K)
    steps: Shared[i8] = of(K)
    made: Shared[i8] = of(K)
    spared: Shared[f8] = of(K)
    step: Shared[i8] = of(K, fill=STEP)
    drawn: Lists[f8]
    sample: Scratch[Sample | None] = None

    def proximal(self, k: int, centres: np.ndarray) -> Proximal:
        """The proximal step of problem k with these centres."""
        return Proximal(centres=centres, **{name: getattr(self, name)[k].item() for name in OF_PROXIMAL})

    def keep(self, k: int, now: Proximal) -> None:
        """Keep what changed in the proximal step of problem k."""
        for name in OF_PROXIMAL:
            getattr(self, name)[k] = getattr(now, name)


def middle_centres(problem: Problem, state: StepsState, k: int, part: float) -> None:
    """Set the centres to the midpoints of the feasible intervals, times `part`."""
    kernel.middle_centres(labels_of(problem, state), problem.loss, k, 0, part, state.alpha[k])
