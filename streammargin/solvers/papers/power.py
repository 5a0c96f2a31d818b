"""The largest eigenvalue of A^T A by a power iteration of `POWER_READS` reads before the first pass."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, TypeVar

import numpy as np

from streammargin.compiled.gram import gram_product
from streammargin.rows.blocks import Block
from streammargin.rows.labels import numbered_from
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.whole_pass import Whole, WholePass
from streammargin.solvers.state import labels_of
from streammargin.solvers.visits import Visit

POWER_READS = 8  # iterations of the power method, one read each
SAFETY = 1.1  # the power method underestimates

P = TypeVar("P", bound=Whole)


class PowerIteration(WholePass[P]):
    """A whole-pass method that may need ||A||; its state has the vectors `direction` and `product` (d+1,) for it."""

    @abstractmethod
    def iterates(self, problem: Problem) -> bool:
        """Whether ||A|| is needed."""

    def prologue_passes(self, problem: Problem) -> int:
        return self.prologue + (POWER_READS if self.iterates(problem) else 0)

    def prologue_visit(self, problem: Problem, state: Any, index: int) -> Visit:
        if index < self.prologue:
            return super().prologue_visit(problem, state, index)
        begin = self.draw if index == self.prologue else self.turn
        return Visit("prologue", self.multiply, (), ("product",), lines=problem.count, begin=begin)

    def draw(self, problem: Problem, state: Any) -> None:
        """Begin the first iteration."""
        state.product[:] = np.random.default_rng(problem.seed).standard_normal(state.product.size)
        self.turn(problem, state)

    def turn(self, problem: Problem, state: Any) -> None:
        """Begin the next iteration in the direction of the last product."""
        v = state.product
        # of norm 1 / R, so that products with rows do not overflow
        state.direction[:] = v / (self.space.length(v) or 1.0) / self.largest_norm(state)
        v[:] = 0.0

    @staticmethod
    def multiply(problem: Problem, state: Any, block: Block, first: int) -> None:
        """Add A^T A times the direction."""
        gram_product(block, numbered_from(first), labels_of(problem, state), state.direction, state.product)

    def square_norm(self, state: Any) -> float:
        """||A / R||^2 times SAFETY, after all reads; R: the largest norm of a row."""
        return SAFETY * (self.space.length(state.product) / self.largest_norm(state))
