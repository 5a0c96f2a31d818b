"""Newton steps for nonsmooth penalties: proximal Newton, with an augmented Lagrangian for nonsmooth losses.

Lee, Sun and Saunders 2014 (SIAM J. Optim. 24) for smooth losses; Li, Sun and Toh 2018 for the others.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from streammargin.compiled import look as kernel
from streammargin.compiled.quadratic import minimise_quadratic
from streammargin.errors import DataError
from streammargin.losses.base import coupled, largest_bend, middle_share, smooth
from streammargin.penalties.base import Penalty, Pieces
from streammargin.penalties.lp import LpSquare
from streammargin.points.tasks import by_task
from streammargin.rows.blocks import Block
from streammargin.rows.labels import Labels, RowLabels, RowNumbers, numbered_from
from streammargin.solvers.base import FOLDS, NUMBERS, PATH, SEVERAL, TASKS, PassReport, matrix_work
from streammargin.solvers.cache import rows as store
from streammargin.solvers.columns import curved_columns
from streammargin.solvers.columns.constant import constants_alone
from streammargin.solvers.columns.proximal_model import minimise_by_prox
from streammargin.solvers.columns.screening import TOO_FAR, proven_zeros
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.bounds import Bounds, bounds_of_group
from streammargin.solvers.proof.look import CertifiedByLook, LookedAt
from streammargin.solvers.proof.objectives.base import Objective
from streammargin.solvers.proof.sums import LookSums
from streammargin.solvers.roles import GROUPS, Axis, K, N, Rows, Shared, Sum, W, b1, clear, f8, i8, of, state
from streammargin.solvers.softness import LEAST_FALL, may_soften, next_softness, share_of_softness
from streammargin.solvers.state import labels_for, labels_of, line_of
from streammargin.solvers.visits import Visit

SOFTNESS = 0.5  # the first 1 / sigma, relative to the caps, as in `newton`
MOST = 40  # most Newton steps in one proximal step
DAMPING = 1e-3  # first damping of the Hessian, relative to its largest possible diagonal
LEAST_DAMPING = 1e-14  # least damping: smaller ones are rounding
ENOUGH = 1e-4  # Armijo constant: a step is shortened if F falls by less than this share of the predicted fall
ROUNDING = 1e-13  # of the function's value, relative
PART = 1e-3  # accuracy of the quadratic subproblem, relative to its first change, or to its fall
ROUNDS = 200  # most rounds of the subproblem
ITERATIONS = 3000  # most iterations of it if the penalty is known by its prox alone
EIGEN = 6  # matrices of the size of the Hessian while its eigenvectors are computed
DENSE = 2000  # most entries of the weights of a group for a Hessian in one piece
WORK = 3e10  # most multiplications of its Newton steps, or of its products with H, a second or two


# entries of the weights of a group, if the loss couples its lines
COUPLED = Axis(lambda problem: problem.lines * (problem.features + 1) if coupled(problem.loss) else 0, name="L(d+1)")
# duals of a row: those of all lines, or of the line of its task for each value of C
A_ROW = Axis(lambda problem: problem.trials if problem.outputs.tasks else problem.count, name="trials or K")
ONE = np.zeros(1, np.int64)


@state
class Curved(LookSums):
    """The sums of a read, with second derivatives of the working columns, and at first the diagonal of all."""

    H: Sum[f8] = of(K, W, W, shrinks=True)
    diagonal: Sum[f8] = of(K, W)
    crossed: Sum[f8] = of(GROUPS, COUPLED, COUPLED)


@state
class Step:
    """The last step: from `start` along `direction`.

    height: F at its start, at most; fall: predicted change of F; count: steps since the centres moved; damping: added
    to the Hessian, relative to scale (K, d+1), its diagonal at the first read.
    """

    start: Shared[f8] = of(K, W)
    direction: Shared[f8] = of(K, W)
    scale: Shared[f8] = of(K, W)
    damping: Shared[f8] = of(GROUPS, fill=DAMPING)
    height: Shared[f8] = of(GROUPS)
    fall: Shared[f8] = of(GROUPS)
    count: Shared[i8] = of(GROUPS)


@state
class ProxNewton(LookedAt):
    """due: groups to step after this read; image (K, d+1): A^T alpha, scaled to be feasible for a free constant;
    columns (K, m): of H in this read. begun: whether there was a whole read. alpha, centres: in memory only, of a loss
    that is not smooth.
    """

    look: Curved
    alpha: Rows[f8] = of(A_ROW, N.where(lambda problem: problem.resident and not smooth(problem.loss)))
    centres: Rows[f8] = of(A_ROW, N.where(lambda problem: problem.resident and not smooth(problem.loss)))
    softness: Shared[f8] = of(GROUPS)
    step: Step
    image: Shared[f8] = of(K, W)
    zeros: Shared[b1] = of(K, W)
    columns: Shared[i8] = of(K, W, shrinks=True)
    due: Shared[b1] = of(GROUPS)
    begun: bool = False
    ended: bool = False


class ProximalNewton(CertifiedByLook[ProxNewton]):
    """Newton steps on F, the objective with softened losses, for centres c:

        F(w) = R(w) + sum_i M_i(w);
        M_i(w) = max over feasible a of dual_i(a) - a u_i - softness (a - c_i)^2 / (2 cap_i).

    The maximising a_i are the proximal steps of the losses (compiled/look.py). The smooth part of F has the gradient
    -A^T a. A^T diag(slope_i) A is a matrix of its generalised Hessian. Each read yields both at w, and certifies w and
    a. Between reads the quadratic model plus R is minimised. A step that made F larger is shortened at the next read.
    When the certificate proves that w is near the minimum of F, a becomes the centre, and the softness falls. Smooth
    losses have softness 0: F is the objective. Out of core no number is kept of a row. The centres stay at the
    midpoints of the feasible intervals, and the softness falls with the square root of the gap.

    The first read is at w = 0, with the best constant if it is not penalised. It computes the best duals for these
    weights. If they are optimal, so is w = 0. All rows count for its H, which is an upper bound.

    Where the penalty leaves most weights 0, the Hessian has some columns only, and a step moves these
    (curved_columns.py). In memory the first read finds them, and makes no step.
    """

    name = "proximal steps of newton"
    requires: ClassVar[tuple[str, ...]] = ("step", "primal", "dual", "gap", "slope")
    couples: ClassVar[tuple[str, ...]] = ("coupled_step", "coupled_slopes", "coupled_middle")
    takes: ClassVar[tuple[str, ...]] = (NUMBERS, SEVERAL, TASKS, PATH, FOLDS)
    state_class: ClassVar[type[ProxNewton]] = ProxNewton

    def lacks(self, penalty: Penalty, free: bool) -> str | None:
        able = penalty.proximal or isinstance(penalty, LpSquare)  # the exponent of lp is checked elsewhere
        return None if able else "newton needs the method prox of a penalty, and this one has none"

    def reserved_bytes(self, problem: Problem) -> int:
        shape = (problem.lines, problem.features + 1)[problem.lines == 1 :]  # as `of_group` gives it
        width = math.prod(shape)  # the Hessian, and its part for the nonzero columns, or its eigenvectors
        if by_blocks(problem):
            return 8 * width * (EIGEN * shape[-1] + 16)
        return 8 * width * ((2 if problem.objective.pieces(shape) is not None else EIGEN) * width + 16)

    def start(self, problem: Problem, labels: RowLabels) -> ProxNewton:
        state = super().start(problem, labels)
        state.softness[:] = self._softness(problem)
        self._first_constants(problem, state)
        state.columns = curved_columns.at_first(problem)
        return state

    def begin_at(self, problem: Problem, state: ProxNewton, w: np.ndarray) -> None:
        super().begin_at(problem, state, w)
        if state.columns.shape[1] == 1:
            state.columns = curved_columns.of_weights(w)

    @staticmethod
    def _choose_columns(problem: Problem, state: ProxNewton, active: np.ndarray) -> None:
        """Those of the next read, from the sums of this one."""
        if curved_columns.restricts(problem):
            pull = state.look.pull.sum(axis=1)
            state.columns = curved_columns.following(problem, active, state.w, pull, state.zeros)

    @staticmethod
    def _softness(problem: Problem) -> float:
        return 0.0 if smooth(problem.loss) else SOFTNESS

    def prologue_passes(self, problem: Problem) -> int:
        return 1 if problem.path else 0

    def prologue_visit(self, problem: Problem, state: ProxNewton, index: int) -> Visit:
        return self.visit(problem, state, np.arange(problem.groups))._replace(begin=self._begin_prologue)

    def _begin_prologue(self, problem: Problem, state: ProxNewton, active: np.ndarray) -> None:
        self._fit_columns(problem, state)
        clear(state.look)

    def zero_factor(self, problem: Problem, state: ProxNewton) -> float:
        self._choose_columns(problem, state, np.arange(problem.groups))
        found = [bounds_of_group(problem, k, state.w, state.look).theta for k in range(problem.groups)]
        return min(problem.objective.penalty.zero_factor(problem.objective.penalised(image)) for image in found)

    def raise_costs(self, problem: Problem, state: ProxNewton, factor: float) -> None:
        state.centres *= factor
        state.step.scale *= factor
        state.step.count[:] = 0
        state.zeros[:] = False
        state.softness[:] = self._softness(problem)
        state.best.primal[:], state.best.dual[:] = math.inf, -math.inf

    def begin_pass(self, problem: Problem, state: ProxNewton, active: np.ndarray) -> None:
        state.ended = False
        self._fit_columns(problem, state)
        self._first_constants(problem, state)
        super().begin_pass(problem, state, active)

    @staticmethod
    def _fit_columns(problem: Problem, state: ProxNewton) -> None:
        m = state.columns.shape[1]
        if state.look.H.shape[1] != m:
            state.look.H = np.zeros((problem.count, m, m))

    @staticmethod
    def _first_constants(problem: Problem, state: ProxNewton) -> None:
        """Before the first read a free constant is the best one beside weights of 0."""
        alone = problem.objective.free and not (problem.numeric or problem.from_weights)
        if not state.begun and alone and problem.column:
            for k in range(problem.groups):
                problem.view(state.w, k)[:, -1] = constants_alone(problem, k) / problem.column

    def visit(self, problem: Problem, state: ProxNewton, active: np.ndarray) -> Visit:
        m = state.columns.shape[1]
        cost = problem.count * (store.LOOK + self._apart(problem, state) * m * m / (2 * state.w.shape[1]))
        return super().visit(problem, state, active)._replace(square=m == state.w.shape[1], cost=cost)

    @staticmethod
    def _apart(problem: Problem, state: ProxNewton) -> int:
        """Lines with second derivatives across."""
        return problem.lines if state.look.crossed.size else 1

    def run_block(self, problem: Problem, state: ProxNewton, active: np.ndarray, block: Block, first: int) -> None:
        """Update the duals of these rows and add their sums; in the first pass the best duals, with all rows curved."""
        state.look.rows += block.rows()
        # counts all rows, though only those with a slope enter the Hessian
        part = state.columns.shape[1] / state.w.shape[1]
        each = matrix_work(0, block.rows(), part * problem.values / problem.rows)
        outputs, labels, lines = problem.outputs, labels_of(problem, state), problem.lines_of(active)
        if not outputs.tasks:
            state.multiplications += self._apart(problem, state) * lines.size * each
            self._look(problem, state, labels, lines, slice(0, problem.count), block, numbered_from(first))
            return
        state.multiplications += lines.size / outputs.tasks * each
        here = labels_for(state.labels.of(slice(first, first + block.rows())), outputs)
        for task, rows, at in by_task(block, outputs.tasks_of(here.classes_of(0))):
            numbers = numbered_from(first + at.start) if isinstance(at, slice) else RowNumbers(first, first + at)
            for line in lines[lines % outputs.tasks == task].tolist():
                self._look(problem, state, line_of(labels, line), ONE, slice(line, line + 1), rows, numbers)

    @staticmethod
    def _look(
        problem: Problem, state: ProxNewton, labels: Labels, lines: np.ndarray, at: slice, block: Block,
        numbers: RowNumbers,
    ) -> None:  # fmt: skip
        """Look at rows for the lines of `at`, of which these are active; labels: in the lines of `at`."""
        softness, steepest, read = problem.by_line(state.softness)[at], 0.0, state.look
        none, w, own = np.zeros(softness.size), state.w[at], at
        if problem.outputs.tasks:
            own = slice(at.start // problem.outputs.tasks, at.start // problem.outputs.tasks + 1)
        if not state.begun:
            if all_curved(problem):
                steepest = 1.0 / (float(state.softness.max(initial=0.0)) + 1.0 / largest_bend(problem.loss))
            softness = none
        step = kernel.Prox(
            state.centres[own], state.alpha[own], none, softness, steepest=steepest, midway=middle_share(problem.loss)
        )
        diagonal = kernel.NONE[:0] if state.begun else read.diagonal[at]
        H = kernel.Curvature(read.H[at], read.crossed, state.columns[at], diagonal)
        read.add(problem.loss, (block, numbers, labels), lines, w, step, H, at)

    def skip_remaining(self, problem: Problem, state: ProxNewton) -> None:
        state.due[:] = False

    def end_pass(self, problem: Problem, state: ProxNewton, active: np.ndarray) -> PassReport | float:
        if state.look.rows < problem.rows:  # interrupted: it proves nothing
            return self.report(problem, state)
        if not state.ended:
            state.ended = True
            self._judge(problem, state, active)
        if state.due.any():
            k = int(np.argmax(state.due))
            from_zero = not (state.begun or problem.from_weights)
            self._step(problem, state, k, state.image if from_zero else state.look.pull.sum(axis=1))
            if not state.begun and all_curved(problem):  # an upper bound: there is no predicted fall to check
                state.step.count[k] = 0
            state.due[k] = False
            return 1.0 - float(state.due.sum()) / problem.groups
        state.begun = True
        self._choose_columns(problem, state, active)
        return self.report(problem, state)

    def _judge(self, problem: Problem, state: ProxNewton, active: np.ndarray) -> None:
        """Compute what the pass proves, and which problems make a step."""
        for k, proof in self.prove(problem, state, active).items():
            problem.of_group(state.image, k)[:] = proof.theta
            state.due[k] = self._go_on(problem, state, k, proof.apart)
            self._find_zeros(problem, state, k, proof)

    def _go_on(self, problem: Problem, state: ProxNewton, k: int, apart: float) -> bool:
        """Shorten the last step of group k, or move its centres, or return True: a new step is due.

        apart: the objective minus its dual bound.
        """
        step, read = state.step, state.look
        gap, losses = (float(problem.view(read.weights, k)[:, name].sum()) for name in (kernel.GAP, kernel.LOSSES))
        moved = float(problem.view(read.duals, k)[..., kernel.MOVED].sum()) if state.softness[k] > 0.0 else 0.0
        height = problem.objective.regulariser(problem.of_group(state.w, k)) + losses - gap - 0.5 * moved
        if not state.begun:
            self._first_scale(problem, state, k)
            step.height[k] = height
            return state.columns.shape[1] > 1
        blurred = ROUNDING * abs(height)
        if step.count[k] > 0:
            above = height - step.height[k]
            if above > ENOUGH * step.fall[k] + blurred:
                part = min(max(-0.5 * step.fall[k] / (above - step.fall[k]), 0.1), 0.5)
                mine = problem.lines_of(k)
                step.direction[mine] *= part
                step.fall[k] *= part
                state.w[mine] = step.start[mine] + step.direction[mine]
                w = problem.of_group(state.w, k)
                w[:] = problem.objective.inside(w)
                step.damping[k] *= 4.0
                return False
            step.damping[k] = max(0.25 * step.damping[k], LEAST_DAMPING)
        step.height[k] = height
        near = may_soften(apart - gap, gap) or step.count[k] >= MOST
        if state.softness[k] > 0.0 and not problem.resident:
            if self._soften(problem, state, k, gap, near):
                step.height[k] = height + gap + 0.5 * moved  # the objective, as F is below it at any softness
                step.count[k] = 0
        elif state.softness[k] > 0.0 and near:
            self._move_centres(problem, state, k)
            return False
        return True

    @staticmethod
    def _soften(problem: Problem, state: ProxNewton, k: int, gap: float, near: bool) -> bool:
        """Lower the softness as the tolerance asks for, until steps become too long, or near the minimum of F."""
        left = share_of_softness(gap, problem.tol * float(abs(state.best.primal[k])), LEAST_FALL)
        falls = left < 1.0 and (near or state.step.damping[k] < DAMPING)
        if falls:
            state.softness[k] *= left
        return falls

    @staticmethod
    def _first_scale(problem: Problem, state: ProxNewton, k: int) -> None:
        """Set the scale from the first read: the Hessian's diagonal, with all rows curved if the loss has kinks."""
        H, scale, image = (problem.view(each, k) for each in (state.look.H, state.step.scale, state.image))
        scale[:] = problem.view(state.look.diagonal, k)
        if not (np.isfinite(image).all() and np.isfinite(H).all() and (scale > 0.0)[image != 0.0].all()):
            raise DataError(TOO_FAR)

    @staticmethod
    def _find_zeros(problem: Problem, state: ProxNewton, k: int, proof: Bounds) -> None:
        """Mark weights proven to be 0, for a loss of bounded curvature; `scale` bounds the Hessian's diagonal."""
        most = largest_bend(problem.loss)
        if most < math.inf and problem.lines == 1:
            bend = state.step.scale[k] * (1.0 if smooth(problem.loss) else 1.0 + SOFTNESS * most)
            state.zeros[k] |= proven_zeros(problem, k, state.best, proof, bend)

    def zeros(self, problem: Problem, state: ProxNewton) -> np.ndarray:
        return state.zeros[:, :-1]

    @staticmethod
    def _move_centres(problem: Problem, state: ProxNewton, k: int) -> None:
        own, tasks = problem.lines_of(k), problem.outputs.tasks
        if tasks and not problem.joint:
            here = problem.outputs.tasks_of(labels_of(problem, state).classes_of(0)) == k % tasks
            state.centres[k // tasks, here] = state.alpha[k // tasks, here]
        else:
            own = own[:1] // tasks if tasks else own
            state.centres[own] = state.alpha[own]
        state.softness[k] = next_softness(float(state.softness[k]), int(state.step.count[k]))
        state.step.count[k] = 0

    @staticmethod
    def _step(problem: Problem, state: ProxNewton, k: int, down: np.ndarray) -> None:
        """Move w to the minimum of R plus the quadratic model; down (K, d+1): minus the gradient of the smooth part.

        The weights of a line alone move at its columns only.
        """
        step, objective = state.step, problem.objective
        w, start, direction, down, scale, zeros = (
            problem.of_group(each, k) for each in (state.w, step.start, step.direction, down, step.scale, state.zeros)
        )
        H = hessian(problem, state.look, k)
        on = np.arange(H.shape[1])
        diagonal = H[:, on, on] + step.damping[k] * scale.max()
        H += np.triu(H, 1).swapaxes(1, 2)
        H[:, on, on] = diagonal
        start[:] = w
        at = state.columns[k] if problem.lines == 1 else slice(None)
        ordered = objective.pieces(w.shape)
        if ordered is not None and problem.lines == 1:
            ordered = curved_columns.pieces_of(ordered, state.columns[k])
        w[:] = start
        w[at], work = lowest(objective, ordered, H, -down[at], start[at], zeros[at])
        state.multiplications += work
        direction[:] = w - start
        grown = objective.regulariser(w) - objective.regulariser(start)
        step.fall[k] = grown - float(down.ravel() @ direction.ravel())
        step.count[k] += 1


def all_curved(problem: Problem) -> bool:
    """Whether the first read counts all rows with their largest curvature; else the Hessian is that at the weights."""
    return not (coupled(problem.loss) and smooth(problem.loss))


def by_blocks(problem: Problem) -> bool:
    """Whether the Hessian of a group of lines stays one for each line: no loss joins them, and steps go by the prox."""
    shape = problem.lines, problem.features + 1
    apart = problem.joint and not coupled(problem.loss)
    return apart and (math.prod(shape) > DENSE or problem.objective.pieces(shape) is None)


def hessian(problem: Problem, read: Curved, k: int) -> np.ndarray:
    """The Hessian of a group of lines, one after the other: the blocks (B, b, b) on its diagonal, upper triangles.

    They are views of the sums of the read, but for lines that are joined.
    """
    if problem.lines == 1 or by_blocks(problem):
        return problem.view(read.H, k)
    width = read.H.shape[1]
    H = np.zeros((problem.lines * width, problem.lines * width))
    for line, own in enumerate(problem.view(read.H, k)):
        at = slice(line * width, (line + 1) * width)
        H[at, at] = own
    if read.crossed.size:
        H -= read.crossed[k]
    return H[None]


def lowest(
    objective: Objective, ordered: tuple[np.ndarray, Pieces] | None, H: np.ndarray, slope: np.ndarray, w: np.ndarray,
    zeros: np.ndarray,
) -> tuple[np.ndarray, float]:  # fmt: skip
    """(the minimum of R plus the quadratic model with this slope at w, multiplications that it took).

    slope, w and zeros (weights that stay if they are 0): (m,) or (lines, d+1); H (B, b, b): the blocks on the
    diagonal, over the entries of w.ravel(). ordered: the pieces of the penalty for these entries, if it has some.
    """
    if ordered is None or len(H) > 1:
        most = min(max(int(WORK / H.size), ROUNDS), ITERATIONS)
        return minimise_by_prox(H, slope.ravel(), objective, w, PART, most)
    order, pieces = ordered
    v, H = w.ravel()[order], H[0]
    if (np.diff(order) < 0).any():
        H = H[np.ix_(order, order)]
    resting = zeros.ravel()[order] & (v == 0.0)
    rounds = minimise_quadratic(H, slope.ravel()[order], pieces, resting, v, PART, ROUNDS, WORK)
    found = np.empty(w.size)
    found[order] = v
    # each round sweeps over the matrix, and factors its nonzero part
    return found.reshape(w.shape), rounds * matrix_work(int(np.count_nonzero(v)), 1, v.size)
