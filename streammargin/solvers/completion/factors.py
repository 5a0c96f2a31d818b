"""The solver factors: X = U V^T of growing rank, by a limited-memory method on the factors."""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import numpy as np

from streammargin.compiled import ratings as kernel
from streammargin.rows.blocks import Block
from streammargin.solvers.base import Share
from streammargin.solvers.completion.matrix import (
    HARD,
    LOOK_TASK,
    FactorsState,
    LookedAtFactors,
    MatrixSolver,
    cost_of,
    factors_of,
    pairs_of,
    short_side,
    size_of,
    terms,
)  # fmt: skip
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import state_bytes
from streammargin.wording import warn

GROW_TASK, STEP_TASK = "grow", "step"
BEYOND = 0.3  # directions with a singular value above 1 + BEYOND gap are added
AMOUNT, FIRST_DIRECTION_SIZE = 0.3, 0.1  # a direction's weight: of the mean singular value, or of the ratings' size
NOISE = 1e-6  # singular values below this share of the largest are dropped if the factors grow
LEFT_GAP_SHARE = 0.05  # of the gap that the steps between two looks may leave
STRICTER, STRICTEST = 0.1, 1e-9  # of what steps may leave, if they came to nothing
PATIENT = 0.5  # the same if no column has room, and centres of softened losses move
MOST_FACTOR_STEPS, AFTER_GROWTH = 100, 12  # between two looks, and least after the factors have grown
OUTER = 0.2  # share of a gap that soft losses make, from which on their centres move
EASY, LABORIOUS = 25, 80  # steps between two looks: with fewer the losses become harder, with more softer
ARMIJO, SMALLEST_STEP_LENGTH = 1e-4, 1e-10
OTHER_VECTORS = 10  # vectors of a column of the factors, beside pairs of steps
PAIRS, FEW_PAIRS = 10, 3  # of steps of the limited-memory method
MANY_PAIRS_RANK, LEAST_RANK = 20, 4  # columns of the factors with which there are many pairs; that must have room
FACTOR_MEMORY_SHARE = 0.7  # of what is left by all else


class Factors(MatrixSolver[FactorsState]):
    """Completes a matrix by factors that grow: for low rank r; memory for (rows + columns) r numbers.

    U, V <- steps of L-BFGS on ||U||^2/2 + ||V||^2/2 + C sum_e l(u_i.v_j), one read each. Losses with kinks are softened
    (proximal point method on the duals). A certificate read of U V^T follows after some steps. If a singular
    value of T is above 1, its vectors become columns of U and V.

    Source: Burer and Monteiro 2003; Rockafellar 1976; Liu and Nocedal 1989.
    """

    name = "factors"
    tasks: ClassVar[tuple[str, ...]] = (GROW_TASK, STEP_TASK)

    def reserved_bytes(self, problem: Problem) -> int:
        return FactorRoom.of(problem).bytes

    def run_block(self, problem: Problem, state: FactorsState, active: np.ndarray, block: Block, first: int) -> Share:
        pairs, side = pairs_of(block), short_side(problem)
        if state.task == LOOK_TASK:
            self.look_block(problem, state, block, first)
        elif state.task == GROW_TASK:
            found = cost_of(problem) * self.duals(problem, state, pairs, first)
            views = state.vectors[: problem.sides[0]], state.vectors[problem.sides[0] :]
            kernel.add_products(pairs, found, side, views[side], views[1 - side])
        else:
            if not state.seen:
                state.gradient[:] = state.factors
            found = self.duals(problem, state, pairs, first, state.before)
            kernel.add_gradient(pairs, found, state.factors, problem.sides[0], cost_of(problem), state.gradient)
        return None

    # after a look

    def after(self, problem: Problem, state: FactorsState, seen: LookedAtFactors) -> bool:
        state.before, made = -1.0, state.made
        gap = max(seen.primal - seen.dual, 0.0)
        spectrum, rank = seen.spectrum, state.factors.shape[1]
        beyond = np.flatnonzero(spectrum.values > 1.0 + BEYOND * min(state.gap, 1.0))
        room = FactorRoom.of(problem).rank - rank
        moves = terms(problem) > 0 and rank > 0 and seen.outer > OUTER * gap
        if terms(problem) and state.softness == HARD:
            state.softness = 0.5 * size_of(problem, state)
        if moves:
            state.before = state.softness
            if not state.grown and not beyond.size:
                state.softness *= 0.5 if state.made <= EASY else 1.5 if state.made >= LABORIOUS else 1.0
        state.grown, state.made, state.tried = bool(beyond.size) and room > 0, 0, False
        short = bool(beyond.size) and room <= 0 and rank < min(problem.sides)  # of memory for more columns
        if short:  # centres that move may yet need no more columns
            state.strict *= PATIENT if moves else STRICTER
        else:
            idle = made <= 1 and not state.grown and not moves and state.pairs
            state.strict = state.strict * STRICTER if idle else 1.0
        state.wanted = LEFT_GAP_SHARE * state.strict * state.gap * max(abs(seen.primal), abs(seen.dual))
        if state.grown:
            self.choose(problem, state, spectrum.vectors[:, beyond[:room]], spectrum.values[beyond[:room]])
            state.task = GROW_TASK
            return False
        if not rank:
            return True  # X = 0 is optimal
        if state.strict < STRICTEST:
            return self.say_full(problem, rank) if short else True
        state.task = STEP_TASK
        return False

    def say_full(self, problem: Problem, rank: int) -> bool:
        """Say that there is no memory for more columns; returns that nothing more can be done."""
        pairs = FactorRoom.of(problem).pairs
        more = (problem.budget + rank * column_bytes(problem, pairs) + (32 << 20)) >> 20
        text = (
            f"the matrix needs factors of more than {rank} columns, and the memory is full; use `memory={more}M` or "
            "more, or a smaller `C`"
        )
        warn(text, "memory")
        return True

    def choose(self, problem: Problem, state: FactorsState, vectors: np.ndarray, values: np.ndarray) -> None:
        """Note the directions that the factors are to grow in, with their sizes; the other side's are read."""
        rows, side = problem.sides[0], short_side(problem)
        state.vectors = np.zeros((sum(problem.sides), values.size))
        (state.vectors[:rows] if side == 0 else state.vectors[rows:])[:] = vectors
        if state.factors.shape[1]:
            mean = factors_of(problem, state.factors).norm() / state.factors.shape[1]
            state.weights = AMOUNT * mean * np.minimum(values - 1.0, 1.0)
        else:
            whole = math.sqrt(problem.sides[0] * problem.sides[1])
            state.weights = FIRST_DIRECTION_SIZE * size_of(problem, state) * whole * np.minimum(values - 1.0, 1.0)

    # the factors grow

    def grow(self, problem: Problem, state: FactorsState) -> None:
        """Add the columns that were read, against the gradient."""
        rows, side = problem.sides[0], short_side(problem)
        vectors = state.vectors
        other = vectors[rows:] if side == 0 else vectors[:rows]
        other /= -np.maximum(np.linalg.norm(other, axis=0), 1e-300)
        kept = factors_of(problem, state.factors).balanced(NOISE)
        state.factors = np.hstack([np.vstack([kept.left, kept.right]), vectors * np.sqrt(state.weights)])
        state.vectors, state.weights = vectors[:, :0], state.weights[:0]
        self.forget(problem, state)
        state.task = STEP_TASK

    def forget(self, problem: Problem, state: FactorsState) -> None:
        """Begin anew with steps at the factors."""
        count, size = FactorRoom.of(problem).pairs, state.factors.size
        state.moves, state.changes, state.pairs = np.zeros(count * size), np.zeros(count * size), 0
        state.start, state.slopes, state.direction = (np.zeros_like(state.factors) for _ in range(3))
        state.gradient, state.tried = np.zeros_like(state.factors), False

    def raise_costs(self, problem: Problem, state: FactorsState, factor: float) -> None:
        super().raise_costs(problem, state, factor)
        state.made, state.grown = 0, False
        if state.best_factors.size:
            state.factors = state.best_factors.copy()
        self.forget(problem, state)

    # steps

    def end_step(self, problem: Problem, state: FactorsState) -> None:
        if state.task == GROW_TASK:
            self.grow(problem, state)
            return
        state.before = -1.0
        factors = state.factors.ravel()
        goal = 0.5 * float(kernel.dot(factors, factors)) + cost_of(problem) * float(state.sums[kernel.SOFT])
        if state.tried and not goal <= state.goal + ARMIJO * state.length * state.slope:
            self.shorten(state, goal)
            return
        if state.tried:
            self.remember(problem, state)
            state.made += 1
        state.start[:], state.slopes[:], state.goal = state.factors, state.gradient, goal
        self.turn(state)
        least = AFTER_GROWTH if state.grown else 1
        worth = -0.5 * state.slope > state.wanted * (1.0 if state.pairs else 1e-3)
        if (not worth and state.made >= least) or state.made >= MOST_FACTOR_STEPS or state.slope >= 0.0:
            state.task = LOOK_TASK
            return
        state.length, state.tried = 1.0, True
        state.factors = state.start + state.direction

    def shorten(self, state: FactorsState, goal: float) -> None:
        """Try a shorter step: that of the parabola through what is known."""
        rise = goal - state.goal - state.length * state.slope
        share = -0.5 * state.slope * state.length / rise if math.isfinite(rise) else 0.0
        state.length *= min(max(share, 0.1), 0.5)
        if state.length < SMALLEST_STEP_LENGTH:
            state.pairs, state.task, state.tried = 0, LOOK_TASK, False
            state.factors = state.start.copy()
            return
        state.factors = state.start + state.length * state.direction

    def remember(self, problem: Problem, state: FactorsState) -> None:
        """Keep the last step, and how the gradient has changed, if the objective curves upwards along it."""
        move, change = (state.factors - state.start).ravel(), (state.gradient - state.slopes).ravel()
        if kernel.dot(move, change) <= 1e-12 * kernel.dot(change, change):
            return
        moves, changes = (each.reshape(-1, move.size) for each in (state.moves, state.changes))
        for each, new in ((moves, move), (changes, change)):
            each[:-1] = each[1:]
            each[-1] = new
        state.pairs = min(state.pairs + 1, len(moves))

    def turn(self, state: FactorsState) -> None:
        """The direction of the next step (Nocedal's two loops)."""
        q = state.slopes.ravel().copy()
        moves, changes = (each.reshape(-1, q.size) for each in (state.moves, state.changes))
        start, size = state.start.ravel(), math.sqrt(kernel.dot(q, q))
        scale = min(1.0, FIRST_DIRECTION_SIZE * math.sqrt(kernel.dot(start, start)) / size) if size > 0.0 else 0.0
        kernel.two_loops(moves, changes, state.pairs, scale, q)
        state.direction[:] = -q.reshape(state.direction.shape)
        state.slope = float(kernel.dot(state.direction.ravel(), state.slopes.ravel()))


class FactorRoom(NamedTuple):
    """rank: most columns of the factors; pairs: of steps; bytes: of all of it, beside the state."""

    rank: int
    pairs: int
    bytes: int

    @classmethod
    def of(cls, problem: Problem) -> FactorRoom:
        """The room in a problem's budget."""
        rows = problem.size + 10 * problem.rows if problem.resident else 0
        left = FACTOR_MEMORY_SHARE * (problem.budget - state_bytes(FactorsState, problem) - rows)
        most = min(problem.sides)
        pairs = PAIRS if left >= column_bytes(problem, PAIRS) * min(most, MANY_PAIRS_RANK) else FEW_PAIRS
        rank = max(min(most, LEAST_RANK), min(most, int(max(0.0, left) / column_bytes(problem, pairs))))
        return cls(rank, pairs, rank * column_bytes(problem, pairs))


def column_bytes(problem: Problem, pairs: int) -> int:
    """Bytes of a column of the factors, with all vectors of its length."""
    return 8 * sum(problem.sides) * (2 * pairs + OTHER_VECTORS)
