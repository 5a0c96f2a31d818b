"""Newton steps on all rows: semismooth Newton on the augmented Lagrangian (compiled/newton.py).

Each pass ends with a visit of all rows at frozen weights that certifies them ("look"). In memory, the steps of a pass
come before the look. Out of core, one step follows it, with the Hessian summed in the look; the next read shows whether
it was too long.
"""

from __future__ import annotations

import numpy as np

from streammargin.compiled import newton as kernel
from streammargin.losses.base import smooth
from streammargin.rows.blocks import GRAM_ROWS, Block
from streammargin.rows.labels import RowLabels, numbered_from
from streammargin.solvers.base import PassReport, Share, matrix_work
from streammargin.solvers.cache import rows as store
from streammargin.solvers.linear import LinearSolver
from streammargin.solvers.newton import sample
from streammargin.solvers.newton.bound import prove
from streammargin.solvers.newton.steps_state import (
    StepsState,
    add_slopes,
    middle_centres,
    move_centres,
    reverse_products,
)
from streammargin.solvers.newton.subproblem import LINE_SEARCH, QUICK, Proximal, direction, solve, step_work
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.best import best_figures
from streammargin.solvers.proof.rounding import blur
from streammargin.solvers.roles import new
from streammargin.solvers.state import labels_of, labels_of_one

OVERSHOT = 0.3  # a step is shortened if the slope at its end exceeds this times the initial descent
LIKELY = 0.9  # of tol: the gap that steps in memory aim at, so that the look proves tol
MOST_BETWEEN_LOOKS = 12  # most steps in memory between two looks
WORK = 2e10  # most multiplications between two looks over all classes, about a second
NO_KEYS = np.empty(0, np.float32)


class Steps(LinearSolver[StepsState]):
    """Newton steps on all rows; in memory, they start from a sample."""

    name = "newton's steps"
    state_class = StepsState

    def reserved_bytes(self, problem: Problem) -> int:
        if not problem.resident:
            return 0
        width = problem.features + 1
        of_one = 40 * problem.rows + 8 * width * (width + 6 + GRAM_ROWS)  # for the steps of one problem
        return of_one + (sample.sample_bytes(problem) if sample.samples(problem) else 0)

    def start(self, problem: Problem, labels: RowLabels) -> StepsState:
        state = super().start(problem, labels)
        if smooth(problem.loss):
            state.softness[:] = 0.0
        drawn = sample.takes_all(problem) or (sample.samples(problem) and not problem.from_weights)
        state.sampling = problem.resident and drawn
        return state

    def begin_at(self, problem: Problem, state: StepsState, w: np.ndarray) -> None:
        """As after a sample of all rows: steps first, from duals halfway where the weights do not give them."""
        state.w[:], state.due[:] = w, True
        if not smooth(problem.loss):
            for k in range(problem.count):
                middle_centres(problem, state, k, 1.0)

    def begin_pass(self, problem: Problem, state: StepsState, number: int) -> None:
        super().begin_pass(problem, state, number)
        state.look.seen = state.part = 0

    def run_block(self, problem: Problem, state: StepsState, active: np.ndarray, block: Block, first: int) -> Share:
        if state.sampling:
            return self._start_from_sample(problem, state, active, block)
        state.sample = None
        due = active[state.due[active]]
        if problem.resident and due.size:
            self._steps(problem, state, due[0], block, steps_between_looks(problem, active))
            return 1.0 - due.size / active.size
        if state.look.seen == 0:
            self.begin_look(problem, state, active)
        return self._look(problem, state, active, block, first)

    def _start_from_sample(self, problem: Problem, state: StepsState, active: np.ndarray, block: Block) -> float:
        """One unit of work on the sample, for the first problem that has not started; smooth losses have no centres."""
        drawn = state.sample = state.sample or sample.draw(problem, state.labels, block)
        left = active[~state.started[active]]
        k, proximal = left[0], state.proximal
        done = sample.start_from(problem, drawn, proximal, k, state.w[k])
        state.multiplications += proximal.multiplications
        proximal.multiplications = 0.0
        if done:
            if not smooth(problem.loss):
                part = sample.largest_share(problem, drawn.labels, k, proximal.centres)
                state.softness[k] *= 1.0 / part
                if drawn.rows.rows() == problem.rows:
                    state.alpha[k] = proximal.centres
                else:
                    middle_centres(problem, state, k, part)
            state.proximal = new(Proximal, problem)
            state.started[k] = True
            state.due[k] = not sample.takes_all(problem)  # certify only after steps on all rows
            state.sampling = left.size > 1
        return 1.0 - left.size / active.size

    def _steps(self, problem: Problem, state: StepsState, k: int, block: Block, most: int) -> None:
        """One unit of the steps of problem k, until a look is likely to prove the weights, or `most` steps are made."""
        proximal = Proximal(
            centres=state.alpha[k], softness=float(state.softness[k]), height=float(state.height[k]),
            steps=int(state.steps[k]), made=int(state.made[k]),
        )  # fmt: skip
        w = state.w[k]
        done = solve(
            [(numbered_from(0), block)], labels_of_one(problem, state, k), problem.loss, proximal, w, np.zeros_like(w),
            0.0, LIKELY * problem.tol, most, to_prove=True,
        )  # fmt: skip
        state.multiplications += proximal.multiplications
        state.softness[k], state.height[k], state.steps[k] = proximal.softness, proximal.height, proximal.steps
        state.made[k], state.due[k] = 0 if done else proximal.made, not done

    def begin_look(self, problem: Problem, state: StepsState, active: np.ndarray) -> None:
        """Reset the sums of the active problems.

        Problems that are done show their certified weights, as all classes share one count of mistakes.
        """
        certified = np.delete(np.arange(problem.count), active)
        state.w[certified] = state.best_w[certified]
        state.look.image[active] = 0.0
        state.look.totals[active] = 0.0
        state.look.wrong[:] = 0
        if not problem.resident:
            state.H[active] = 0.0

    def _look(self, problem: Problem, state: StepsState, active: np.ndarray, block: Block, first: int) -> Share:
        """Add the sums of a unit of these rows at the current weights."""
        work = problem.count * (store.LOOK + (0 if problem.resident else (problem.features + 1) / 2))
        start, stop = store.next_rows(state, block, work, active.size)
        look = state.look
        look.seen += stop - start
        kernel.newton_sums(
            store.part(block, start, stop), numbered_from(first + start), labels_of(problem, state), problem.loss,
            active, problem.trials, state.softness, state.w, blur(state.w), state.norms, state.alpha, False,
            state.margins, state.products, NO_KEYS, look.image, state.H, look.totals, look.wrong,
        )  # fmt: skip
        return stop / block.rows() if stop < block.rows() else None

    def end_pass(self, problem: Problem, state: StepsState, active: np.ndarray) -> PassReport:
        look = state.look
        if look.seen < problem.rows:  # interrupted
            figures = best_figures(problem, state.best)
            return PassReport(np.array([f.gap for f in figures]), 0, figures)
        prove(problem, state, state.bound, look, state.w, active)
        figures = best_figures(problem, state.best)
        gaps = np.array([f.gap for f in figures])
        for k in active:
            state.due[k] = gaps[k] > problem.tol
            if not problem.resident:
                self._move_centres(problem, state, k)
                if state.due[k]:
                    self._step(problem, state, k)
        return PassReport(gaps, int(look.totals[:, kernel.MISTAKES].sum()), figures, look.wrong.copy())

    def _move_centres(self, problem: Problem, state: StepsState, k: int) -> None:
        """End the proximal step once w is near A^T a and the dual objective no lower than at the centres."""
        total, image = state.look.totals[k], state.look.image[k]
        away = 0.5 * float(np.square(state.w[k] - image).sum())
        dual = total[kernel.DUAL] - 0.5 * float(image @ image)
        if state.softness[k] > 0.0 and away < 0.5 * total[kernel.GAP] and dual >= state.height[k]:
            state.height[k] = dual
            move_centres(problem, state, k)
            if state.steps[k] <= QUICK:
                state.softness[k] /= 4.0
            state.moved[k], state.steps[k] = True, 0

    def _step(self, problem: Problem, state: StepsState, k: int) -> None:
        """Make one Newton step of problem k, or shorten the last one if it was too long."""
        w, step = state.w[k], state.last_step[k]
        gradient = w - state.look.image[k]
        slope = float(gradient @ step)
        if slope > OVERSHOT * state.descent[k] and not state.moved[k]:
            w -= self._share_to_undo(problem, state, k, slope) * step
            step[:] = 0.0
            return
        state.multiplications += matrix_work(
            w.size, state.look.totals[k, kernel.ACTIVE], problem.values / problem.rows
        )  # fmt: skip
        step[:] = direction(state.H[k], gradient)
        state.descent[k] = -float(gradient @ step)
        w += step
        state.steps[k] += 1
        state.moved[k] = False

    def _share_to_undo(self, problem: Problem, state: StepsState, k: int, slope: float) -> float:
        """The share of the last step to undo, by a line search on the stored margins; slope > 0: at its end."""
        w, step, along = state.w[k], state.last_step[k], state.along[k]
        linear, square = -float(w @ step), float(step @ step)
        state.multiplications += LINE_SEARCH * problem.rows
        reverse_products(problem, state, k)
        low, high, t = 0.0, 1.0, 0.5
        for _ in range(kernel.SEARCH_STEPS):
            along[:] = linear + t * square, square
            add_slopes(problem, state, k, t)
            first, second = along.tolist()
            if abs(first) <= kernel.FLAT * slope:
                break
            low, high, t = kernel.narrowed(low, high, t, first, second)
        return t

    def weights(self, problem: Problem, state: StepsState) -> np.ndarray:
        return state.w.copy()


def steps_between_looks(problem: Problem, active: np.ndarray) -> int:
    """Steps in memory between two looks, limited by WORK."""
    return int(min(MOST_BETWEEN_LOOKS, max(1.0, WORK / (work_of_step(problem) * max(1, active.size)))))


def work_of_step(problem: Problem) -> float:
    """Multiplications of a Newton step of one problem."""
    return step_work(problem.values, problem.features + 1)
