"""Newton steps on all rows in memory: semismooth Newton on the augmented Lagrangian (compiled/newton.py).

Each pass makes some steps, and ends with a visit of all rows at frozen weights that certifies them.
"""

from __future__ import annotations

import numpy as np

from streammargin.losses.base import middle_share, smooth
from streammargin.rows.blocks import GRAM_ROWS, Block
from streammargin.rows.labels import RowLabels, numbered_from
from streammargin.solvers import leaves
from streammargin.solvers.base import PassReport, Share
from streammargin.solvers.newton import sample
from streammargin.solvers.newton.subproblem import Goal, Proximal, soft_step, solve, step_work
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.certified_read import LIKELY, CertifiedByRead, CertifiedState
from streammargin.solvers.roles import K, Lists, N, Rows, Scratch, Shared, W, f8, i8, of, state
from streammargin.solvers.softness import AT_WEIGHTS, SAMPLE_SOFTNESS
from streammargin.solvers.state import labels_of, line_of
from streammargin.solvers.visits import Visit

MOST_BETWEEN = 12  # most steps in memory between two certificates
MOST_STEPS_WORK = 2e10  # most multiplications between two certificates over all classes, about a second
NO_NUMBERS = np.empty(0)
SAMPLE, TAKE_STEP, FOLLOW, CERTIFY = range(4)  # what comes next for a problem
OF_PROXIMAL = "softness", "dual", "steps", "made", "spared"


@state
class StepsState(CertifiedState):
    """Weights w (K, d+1), and `sums` at w; norms (n,): of the rows.

    step (K,): what comes next, steps on the sample, with the centres `drawn` (K, m); steps on all rows, with the
    centres alpha (K, n); for a fold, to begin at the weights of all rows; or a certificate. Those in OF_PROXIMAL (K,):
    of the proximal step, as in `Proximal`.
    """

    summed = of(W), of(W, W)  # gradient and second derivatives
    alpha: Rows[f8] = of(K, N.where(lambda problem: not smooth(problem.loss)))
    norms: Rows[f8] = of(N)
    softness: Shared[f8] = of(K)
    dual: Shared[f8] = of(K)
    steps: Shared[i8] = of(K)
    made: Shared[i8] = of(K)
    spared: Shared[f8] = of(K)
    step: Shared[i8] = of(K, fill=TAKE_STEP)
    drawn: Lists[f8]
    sample: Scratch[sample.Sample | None] = None

    def proximal(self, k: int, centres: np.ndarray) -> Proximal:
        """The proximal step of problem k with these centres."""
        return Proximal(centres=centres, **{name: getattr(self, name)[k].item() for name in OF_PROXIMAL})

    def keep(self, k: int, now: Proximal) -> None:
        """Keep what changed in the proximal step of problem k."""
        for name in OF_PROXIMAL:
            getattr(self, name)[k] = getattr(now, name)


class Steps(CertifiedByRead[StepsState]):
    """Newton steps on all rows in memory, which start from a sample."""

    name = "newton's steps"

    def reserved_bytes(self, problem: Problem) -> int:
        return _of_one(problem) + (sample.sample_bytes(problem) if sample.samples(problem) else 0)

    def start(self, problem: Problem, labels: RowLabels) -> StepsState:
        state = super().start(problem, labels)
        state.softness[:] = 0.0 if smooth(problem.loss) else SAMPLE_SOFTNESS
        lines = np.arange(problem.count)
        fold = problem.of_all_rows(lines) != lines
        state.step[fold] = FOLLOW
        if sample.takes_all(problem) or (sample.samples(problem) and not problem.from_weights):
            state.step[~fold] = SAMPLE
        return state

    def begin_at(self, problem: Problem, state: StepsState, w: np.ndarray) -> None:
        """Like after a sample of all rows: steps first, from duals halfway if the weights do not give them."""
        state.w[:], state.step[state.step == CERTIFY] = w, TAKE_STEP
        if not smooth(problem.loss):
            state.softness[:] = AT_WEIGHTS
            for k in range(problem.count):
                middle_centres(problem, state, k, 1.0)

    def visit(self, problem: Problem, state: StepsState, active: np.ndarray) -> Visit:
        return super().visit(problem, state, active)._replace(prepare=self.move)

    def move(self, problem: Problem, state: StepsState, active: np.ndarray, block: Block) -> Share:
        """One unit of the steps, from the sample or on all rows."""
        steps = state.step[active]
        if (now := steps.min()) == CERTIFY:
            return None
        left = active[steps == now]
        if now == FOLLOW:
            _follow_all_rows(problem, state, left)
        self._at_once(problem, state, left, block, steps_between_certificates(problem, active))
        if (state.step[active] != SAMPLE).all():
            state.sample = None
        return float((steps == CERTIFY).mean())

    def _at_once(self, problem: Problem, state: StepsState, left: np.ndarray, block: Block, most: int) -> None:
        """One unit of the first of these problems; of several on as many cores, as each has arrays of its own."""
        together = left[: problem.workers.threads]
        if together.size > 1:
            spare = problem.budget - problem.size - self.memory(problem)
            together = together[: 1 + max(0, spare // _of_one(problem))]
        if state.step[left[0]] == SAMPLE and state.sample is None:
            state.sample = sample.draw(problem, state.labels, block)

        def unit(k: int) -> float:
            if state.sample is not None:
                return self._start_from_sample(problem, state, k, state.sample)
            return self._steps(problem, state, k, block, most)

        for made in problem.workers.each(unit, together.tolist()):
            state.multiplications += made

    def _start_from_sample(self, problem: Problem, state: StepsState, k: int, drawn: sample.Sample) -> float:
        """One unit of work on the sample for problem k, in multiplications; smooth losses have no centres."""
        now = state.proximal(k, state.drawn[k])
        done = sample.start_from(problem, drawn, now, k, state.w[k])
        state.drawn[k] = now.centres
        if done:
            share = 1.0
            if not smooth(problem.loss):
                share = sample.largest_share(drawn.labels, k, now.centres)
                if drawn.rows.rows() == problem.rows:
                    state.alpha[k] = now.centres
                else:
                    middle_centres(problem, state, k, share)
            state.drawn[k] = NO_NUMBERS
            state.keep(
                k, Proximal(centres=NO_NUMBERS, softness=0.0 if smooth(problem.loss) else AT_WEIGHTS / share, dual=0.0)
            )
            state.step[k] = CERTIFY if sample.takes_all(problem) else TAKE_STEP  # certify only after steps on all rows
        else:
            state.keep(k, now)
        return now.multiplications

    def _steps(self, problem: Problem, state: StepsState, k: int, block: Block, most: int) -> float:
        """One unit of the steps of problem k, until a proof is likely, or `most` steps are made."""
        now, w, labels = state.proximal(k, state.alpha[k]), state.w[k], line_of(labels_of(problem, state), k)
        goal = Goal(share=LIKELY * problem.tol, most=most, to_prove=True)
        done = solve(problem, leaves.parts(problem, block), labels, now, w, np.zeros_like(w), goal)
        now.made = 0 if done else now.made
        state.keep(k, now)
        state.step[k] = CERTIFY if done else TAKE_STEP
        return now.multiplications

    def run_block(self, problem: Problem, state: StepsState, active: np.ndarray, block: Block, first: int) -> None:
        """Add the sums of these rows at the current weights."""
        state.sums.rows += block.rows()
        rows = block, numbered_from(first), labels_of(problem, state)
        step = soft_step(problem, state.softness, state.alpha)
        state.sums.add(problem.loss, rows, active, state.w, step, norms=state.norms)

    def end_pass(self, problem: Problem, state: StepsState, active: np.ndarray) -> PassReport:
        if state.sums.rows == problem.rows:
            self.prove(problem, state, active)
        report = self.report(problem, state)
        if state.sums.rows == problem.rows:
            state.step[active] = np.where(report.estimate[active] > problem.tol, TAKE_STEP, CERTIFY)
        return report


def _follow_all_rows(problem: Problem, state: StepsState, folds: np.ndarray) -> None:
    """Begin these folds at the weights and centres of all rows."""
    of_all = problem.of_all_rows(folds)
    state.w[folds], state.softness[folds], state.step[folds] = state.w[of_all], state.softness[of_all], TAKE_STEP
    if not smooth(problem.loss):
        for k, known in zip(folds, of_all, strict=True):
            state.alpha[k] = np.where(labels_of(problem, state).present_of(k), state.alpha[known], 0.0)


def _of_one(problem: Problem) -> int:
    """Bytes for the steps of one problem."""
    width = problem.features + 1
    return 40 * problem.rows + 8 * width * (width + 6 + GRAM_ROWS)


def steps_between_certificates(problem: Problem, active: np.ndarray) -> int:
    """Steps in memory between two certificates, limited by MOST_STEPS_WORK."""
    return int(min(MOST_BETWEEN, max(1.0, MOST_STEPS_WORK / (work_of_step(problem) * max(1, active.size)))))


def work_of_step(problem: Problem) -> float:
    """Multiplications of a Newton step of one problem."""
    return step_work(problem.values, problem.features + 1)


def middle_centres(problem: Problem, state: StepsState, k: int, part: float) -> None:
    """Set the centres to the midpoints of the feasible intervals, times `part`."""
    state.alpha[k] = part * middle_share(problem.loss) * labels_of(problem, state).caps_of(k)
