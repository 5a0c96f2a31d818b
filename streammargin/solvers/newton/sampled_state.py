"""The state of Newton steps on a sample of the rows, out of core."""

from __future__ import annotations

import math

from streammargin.solvers.cache.coded import CodedRows
from streammargin.solvers.newton.conjugate_state import ByProducts, Newton
from streammargin.solvers.proof.sums import LINES
from streammargin.solvers.roles import GROUPS, D, Shared, W, f4, f8, of, state

COLUMNS = D.where(lambda problem: not problem.sparse)


@state
class OnSample(Newton):
    """The step on a sample, whose preconditioner has half the bytes."""

    of_lines: Shared[f8] = of(LINES, LINES)
    of_columns: Shared[f4] = of(W, W)


@state
class Drawn:
    """The sample that a read draws: rows whose keys are below `limit`, which take `held` bytes.

    Beside a row lie its key, which is a hash over its chance, and its chance, class and weight. total: the sum of the
    chances in this read; mean: of all rows in the last one. low, high (d,): the range of each column so far; known: in
    all rows.
    """

    rows: CodedRows
    limit: float = math.inf
    held: int = 0
    mean: float = 0.0
    total: float = 0.0
    low: Shared[f8] = of(COLUMNS, fill=math.inf)
    high: Shared[f8] = of(COLUMNS, fill=-math.inf)
    known: bool = False


@state
class First:
    """The start: number of the cost factor; chosen (lines, d+1), what rows beside the sample's judge best so far."""

    factor: int = 0
    judged: float = math.inf
    chosen: Shared[f8] = of(LINES, W)


@state
class SampledState(ByProducts):
    """scores, bends, along: of the rows drawn, as one after the other, at the weights of the step and along it.

    others (lines, d+1): the gradient without the losses of the sample. ended: the sums of the read were used.

    begun (K, d+1): where the last step began. There `slope` is the gradient, height (groups,) the objective, and
    descent (groups,) minus the derivative along last_step.
    """

    newton: OnSample
    drawn: Drawn
    first: First
    scores: Shared[f8] = of(0, grows=True)
    bends: Shared[f8] = of(0, grows=True)
    along: Shared[f8] = of(0, grows=True)
    others: Shared[f8] = of(LINES, W)
    begun: Shared[f8]
    slope: Shared[f8]
    last_step: Shared[f8]
    height: Shared[f8] = of(GROUPS, fill=math.inf)
    descent: Shared[f8] = of(GROUPS)
    ended: bool = False
