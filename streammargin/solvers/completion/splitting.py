"""The solver splitting: Douglas-Rachford on dense matrices."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from scipy.linalg import eigh

from streammargin.compiled import ratings as kernel
from streammargin.rows.blocks import Block
from streammargin.solvers.base import Share
from streammargin.solvers.completion.matrix import (
    DENSE_ROWS,
    LOOK_TASK,
    LookedAtFactors,
    MatrixSolver,
    SplittingState,
    cost_of,
    pairs_of,
    short_side,
    size_of,
)
from streammargin.solvers.problem import Problem

STEP_TASK = "step"
RELAXED = 1.6
BALANCED = 64  # the last step after which the weight may change; it does at powers of 2
CENTRED_SOFTNESS = 1e30  # a softness with which duals are their centres
EVERY = 1.25  # ratio of the steps up to a look to those up to the one before
NOISE = 1e-12


class Splitting(MatrixSolver[SplittingState]):
    """Completes a matrix that is dense in memory: for any rank.

    M <- M + 1.6 (W - V). V has the singular values of M less 1/weight. W is 2 V - M, and at the entries the prox of
    C/weight l. A step is a read of the entries and an eigendecomposition of the shorter side.

    Source: Lions and Mercier 1979; Cai, Candes and Shen 2010.
    """

    name = "splitting"
    tasks: ClassVar[tuple[str, ...]] = (STEP_TASK,)

    def run_block(self, problem: Problem, state: SplittingState, active: np.ndarray, block: Block, first: int) -> Share:
        if state.task == LOOK_TASK:
            self.look_block(problem, state, block, first)
            return None
        pairs = pairs_of(block)
        values = state.labels.targets[state.labels.at(slice(first, first + len(pairs)))]
        size = cost_of(problem) / state.weight
        kernel.split(
            pairs, values, state.matrix, state.other, tuple(problem.loss), size, state.centres, first, state.sums
        )  # fmt: skip
        state.seen += len(pairs)
        return None

    def after(self, problem: Problem, state: SplittingState, seen: LookedAtFactors) -> bool:
        if not state.weight:
            if seen.spectrum.upper <= 1.0:
                return True  # X = 0 is optimal
            # 1/weight is a tenth of the trace norm that ratings of one size would have
            state.weight = 1.0 / (0.1 * size_of(problem, state) * math.sqrt(problem.sides[0] * problem.sides[1]))
        state.task, state.softness = STEP_TASK, CENTRED_SOFTNESS
        return False

    def raise_costs(self, problem: Problem, state: SplittingState, factor: float) -> None:
        super().raise_costs(problem, state, factor)
        state.made, state.next_look = 0, 4

    def end_step(self, problem: Problem, state: SplittingState) -> None:
        matrix, other = state.matrix, state.other  # W - V + M at the entries, V elsewhere
        for low in range(0, len(matrix), DENSE_ROWS):
            rows = slice(low, low + DENSE_ROWS)
            other[rows] -= matrix[rows]
            other[rows] *= RELAXED
            matrix[rows] += other[rows]
        state.made += 1
        values, vectors = self.shrink(problem, state)
        if state.made <= BALANCED and state.made & (state.made - 1) == 0 and state.made > 2:
            self.balance(state)
            values, vectors = self.shrink(problem, state)
        if state.made >= state.next_look:
            state.next_look = max(state.made + 4, int(EVERY * state.made))
            state.factors = self.factored(problem, state, values, vectors)
            state.task = LOOK_TASK

    def shrink(self, problem: Problem, state: SplittingState) -> tuple[np.ndarray, np.ndarray]:
        """V from M; its singular values (k,) above 0, and their vectors on the shorter side."""
        side = short_side(problem)
        M, V = (each if side == 0 else each.T for each in (state.matrix, state.other))
        squares, vectors = eigh(M @ M.T, overwrite_a=True, driver="evd")
        sizes = np.sqrt(np.maximum(squares, 0.0))
        kept = sizes > 1.0 / state.weight
        values, vectors = sizes[kept] - 1.0 / state.weight, vectors[:, kept]
        shrunk = vectors * (values / sizes[kept])
        half = vectors.T @ M
        for low in range(0, len(V), DENSE_ROWS):
            V[low : low + DENSE_ROWS] = shrunk[low : low + DENSE_ROWS] @ half
        return values, vectors

    def balance(self, state: SplittingState) -> None:
        """Choose the weight with which both sequences are of one size; M - V, the scaled duals, keep what they mean."""
        apart = float(np.linalg.norm(state.matrix - state.other))
        size = float(np.linalg.norm(state.other))
        if not (apart > 0.0 and size > 0.0):
            return
        share = min(max(apart / size, 0.1), 10.0)
        state.matrix -= state.other
        state.matrix *= 1.0 / share
        state.matrix += state.other
        state.weight *= share

    def factored(self, problem: Problem, state: SplittingState, values: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """The factors of V."""
        side = short_side(problem)
        V = state.other if side == 0 else state.other.T
        kept = values > NOISE * values.max(initial=0.0)
        roots, vectors = np.sqrt(values[kept]), vectors[:, kept]
        own, opposite = vectors * roots, V.T @ (vectors / roots)
        return np.vstack([own, opposite] if side == 0 else [opposite, own])
