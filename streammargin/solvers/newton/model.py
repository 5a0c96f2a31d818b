"""The quadratic model of a Newton step: second derivatives that a read sums up, and the minimum with the penalty."""

from __future__ import annotations

import math

import numpy as np

from streammargin.compiled.quadratic import minimise_quadratic
from streammargin.losses.base import coupled, smooth
from streammargin.solvers.base import matrix_work
from streammargin.solvers.columns.gradients import direction
from streammargin.solvers.newton import curved_columns
from streammargin.solvers.newton.proximal_model import minimise_by_prox
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.sums import LookSums
from streammargin.solvers.roles import GROUPS, Axis, K, Sum, W, f8, of, state

SUBPROBLEM_ACCURACY = 1e-3  # accuracy of the quadratic subproblem, relative to its first change, or to its fall
ROUNDS = 200  # most rounds of the subproblem
ITERATIONS = 3000  # most iterations of it if the penalty is known by its prox alone
DENSE = 2000  # most entries of the weights of a group for a Hessian in one piece
MOST_MODEL_WORK = 3e10  # most multiplications of its Newton steps, or of its products with H, a second or two

# entries of the weights of a group, if the loss couples its lines
COUPLED = Axis(lambda problem: problem.lines * (problem.features + 1) if coupled(problem.loss) else 0, name="L(d+1)")
SOFT = K.where(lambda problem: not smooth(problem.loss))  # lines of a loss with kinks


@state
class Curved(LookSums):
    """The sums of a read, with second derivatives of the working columns, and at first the diagonal of all.

    active (K,): the number of rows with a second derivative; drift (K, d+1): as in compiled/look.py.
    """

    H: Sum[f8] = of(K, W, W, shrinks=True)
    diagonal: Sum[f8] = of(K, W)
    crossed: Sum[f8] = of(GROUPS, COUPLED, COUPLED)
    drift: Sum[f8] = of(SOFT, W)
    active: Sum[f8] = of(K)


class QuadraticModel:
    """The quadratic model of a group's smooth part, with a damped Hessian, plus its penalty.

    H (B, b, b): the blocks on the diagonal of the Hessian over `columns` of the weights, which alone move; work: the
    multiplications that its steps took.
    """

    def __init__(self, problem: Problem, read: Curved, k: int, columns: np.ndarray, damping: float) -> None:
        self.objective, self.plain, self.work = problem.objective, plain(problem), 0.0
        self.columns, self.H = columns, hessian(problem, read, k)
        on = np.arange(self.H.shape[1])
        diagonal = self.H[:, on, on] + damping
        self.H += np.triu(self.H, 1).swapaxes(1, 2)
        self.H[:, on, on] = diagonal
        self.ordered = self.objective.pieces(problem.of_group(read.diagonal, k).shape)
        if self.ordered is not None and problem.lines == 1:
            self.ordered = curved_columns.pieces_of(self.ordered, self.columns)

    def times(self, p: np.ndarray) -> np.ndarray:
        """H p."""
        found, part = np.zeros_like(p), p[..., self.columns]
        found[..., self.columns] = (self.H @ part.reshape(*self.H.shape[:2], 1)).reshape(part.shape)
        return found

    def step(self, slope: np.ndarray, w: np.ndarray) -> np.ndarray:
        """From w to the minimum of the model that has this slope there; both (d+1,) or (lines, d+1)."""
        if self.plain:
            self.work += matrix_work(w.size, 1, w.size)
            return direction(self.H[0].copy(), slope + w)
        found, slope, w = np.zeros_like(w), slope[..., self.columns], w[..., self.columns]
        if self.ordered is None or len(self.H) > 1:
            most = min(max(int(MOST_MODEL_WORK / self.H.size), ROUNDS), ITERATIONS)
            v, work = minimise_by_prox(self.H, slope.ravel(), self.objective, w, SUBPROBLEM_ACCURACY, most)
            self.work += work
            found[..., self.columns] = v - w
            return found
        order, pieces = self.ordered
        v, H = w.ravel()[order], self.H[0]
        if (np.diff(order) < 0).any():
            H = H[np.ix_(order, order)]
        rounds = minimise_quadratic(H, slope.ravel()[order], pieces, v, SUBPROBLEM_ACCURACY, ROUNDS, MOST_MODEL_WORK)
        # each round sweeps over the matrix, and factors its nonzero part
        self.work += rounds * matrix_work(int(np.count_nonzero(v)), 1, v.size)
        moved = np.empty(w.size)
        moved[order] = v
        found[..., self.columns] = moved.reshape(w.shape) - w
        return found


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


def plain(problem: Problem) -> bool:
    """Whether the penalty is the ridge of each line, constant included: w = 0 is never optimal, 1 + H is regular."""
    return problem.ridge and not (problem.free or problem.joint or problem.numeric)
