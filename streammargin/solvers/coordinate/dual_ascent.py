"""What the methods that step along one dual variable at a time have in common."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar

import numpy as np

from streammargin.compiled import sdca as kernel
from streammargin.compiled.order import permutation
from streammargin.errors import DataError, UsageError
from streammargin.rows.blocks import Block, values_of
from streammargin.rows.labels import RowNumbers, numbered_from
from streammargin.rows.visits import PLACES, Turns, all_at_once, take_turns, visit
from streammargin.solvers.base import UNIT, Blocks, Share, State, multiplications
from streammargin.solvers.coordinate import active_rows as restless
from streammargin.solvers.coordinate import slow_constant
from streammargin.solvers.old_state import Layout, Number, Room
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.objectives.base import Running
from streammargin.solvers.proof.old_sweep import CertifiedBySweep
from streammargin.solvers.proof.rounding import mean_rounding

FLOAT32_TOL = 1e-5  # weights of float32 move half the bytes, and their rounding bounds the gap that they can reach
FLOAT32_CURVATURE = 1e34  # beyond it, or below its inverse, duals of the size 1 / L are no float32
GROUP_BYTES = 16384  # a random run of neighbours costs one cache miss for so many bytes
GROUP_ROWS = 24  # of that at most: runs of many rows would slow convergence
TURNS = 64  # of several blocks at most, which take turns: one after the other they push the weights to and fro
TURN_ROWS = 512  # of a turn at least: a call of a kernel costs as much as some rows
VISITS = 2  # of each row while several blocks are there: a read costs more than a second visit
NO_ROOM = Room(0)
PIECE = 1 << 16  # rows of a vector of length n that are worked on at a time: no copy of length n
VISIT = 2  # multiplications of a value of a row that is visited


def group_of(block: Block) -> int:
    """How many consecutive rows a random visit takes together."""
    rows = block.rows()
    bytes_a_row = values_of(block).nbytes / rows
    return int(min(GROUP_ROWS, max(1, GROUP_BYTES // (bytes_a_row + 1)), max(1, rows // 256)))


NUMBERS: Layout = {
    "checked": Number(False), "visited": Number(0), "measured": Number(False), "mean": Number(0.0),
    "largest": Number(0.0), "empty": Number(False), "part": Number(0),
}  # fmt: skip


class DualAscent(CertifiedBySweep):
    """The state has curvatures (n,): L_i = (q-1) ||a_i||_q^2, 0 until first needed, inf where it overflowed.

    It has the figures of a pass too (K, FIGURES), the columns of compiled/sdca.py.
    """

    numeric = True
    together = PLACES
    vectors: ClassVar[int] = 1  # of length d + 1, that a row is multiplied with, and added to
    requires = ("step", "primal", "dual", "settled", "gap", "feasible", "slack", "missed", "has_hard_margin")

    def check(self, problem: Problem) -> None:
        super().check(problem)
        if problem.hard and not problem.loss.has_hard_margin():
            raise UsageError(
                f"C = inf is the hard margin, which the loss {type(problem.loss).__name__} has not; give a finite C, "
                f"or use `loss={self.default_loss}`"
            )

    def loop_dtype(self, problem: Problem) -> np.dtype:
        """float32 where the rows are and the tolerance allows it, now and before."""
        coarse = min(problem.tol, problem.least_tol) >= FLOAT32_TOL
        single = problem.dtype == np.float32 and coarse and problem.linear
        return np.dtype(np.float32 if single and not problem.objective.signed else np.float64)

    def estimate(self, problem: Problem, state: State, running: Running) -> float:
        """The relative gap that the sums of a pass speak for; 0 where they say that nothing separates the rows."""
        gap = problem.objective.estimate(running)
        if problem.objective.infeasible:
            crossed = running.slack <= 0.0 < running.alpha
            if crossed and running.size / running.alpha < self.smallest_margin(problem, state):
                return 0.0
            if self.has_empty_row(problem, state):
                return 0.0
        return gap

    def check_scale(self, problem: Problem, state: State) -> None:
        """DataError, after the first pass, for a row whose curvature leaves the range of numbers."""
        if state.numbers["checked"]:
            return
        state.numbers["checked"] = True
        for start in range(0, problem.rows, PIECE):
            L = state.arrays["curvature"][start : start + PIECE]
            wrong = np.isinf(L)
            if state.arrays["alpha"].dtype == np.float32:  # duals of the size 1/L are no float32 either
                wrong |= L > FLOAT32_CURVATURE
                if problem.objective.infeasible:
                    wrong |= (L > 0.0) & (L < 1.0 / FLOAT32_CURVATURE)
            if not wrong.any():
                continue
            row = start + int(np.argmax(wrong))
            raise DataError(
                f"the values of row {row} are too large or too small for the norm p = {problem.p!r}: the sum of "
                f"their powers {problem.q:.3g} leaves the range of numbers; "
                + ("divide the columns by their largest value (`scale=maxabs`) or " if problem.q < 100.0 else "")
                + "raise `norm`"
            )

    def begin_pass(self, problem: Problem, state: State, number: int) -> None:
        super().begin_pass(problem, state, number)
        state.numbers["part"] = 0
        figures = state.arrays["figures"]
        figures[:] = 0.0
        figures[:, kernel.MIN_MARGIN] = math.inf

    def order_of(self, problem: Problem, state: State, block: Block, *seeds: int) -> tuple[np.ndarray, int]:
        """A random order of the groups of rows of a block, and how many rows a group has."""
        group = group_of(block)
        return permutation(-(-block.rows() // group), problem.seed, state.numbers["pass"], *seeds), group

    @abstractmethod
    def visit_rows(self, problem: Problem, state: State, active: np.ndarray, turns: Turns, figures: np.ndarray) -> None:
        """One step for every row of these turns; figures (K, FIGURES) are added to."""

    def _visit(self, problem: Problem, state: State, active: np.ndarray, turns: Turns, figures: np.ndarray) -> None:
        """The same, counted: rows of the mean length, those visited and once more those that moved."""
        counts = figures[:, kernel.UPDATES :]  # and VISITS
        before = float(counts.sum())
        self.visit_rows(problem, state, active, turns, figures)
        state.multiplications += self.vectors * (float(counts.sum()) - before) * problem.values / problem.rows

    def run_block(self, problem: Problem, state: State, active: np.ndarray, block: Block, first: int) -> Share:
        return self.run_blocks(problem, state, active, [(first, block)])

    def run_blocks(self, problem: Problem, state: State, active: np.ndarray, blocks: Blocks) -> Share:
        slow_constant.damp(problem, state, blocks)
        if problem.resident and len(blocks) == 1:
            return self._visit_part(problem, state, active, *blocks[0])
        self._visited(state, active, blocks)
        figures = state.arrays["figures"]  # of the first visit of a row
        room = 0 if problem.resident else self.layout(problem).get("rows kept", NO_ROOM).bytes
        kept = restless.due(state, blocks) if room else ()
        if room:
            restless.wake(state, blocks)
        for again in range(VISITS if room or len(blocks) > 1 else 1):
            moves = restless.Moves(state, blocks, kept) if room else None  # of the last visit
            seen = figures if again == 0 else np.zeros_like(figures)
            self._take_turns(problem, state, active, blocks, kept, again, seen)
        if moves is not None:
            restless.keep_restless(problem, state, blocks, kept, moves, room)
        return None

    @staticmethod
    def _visited(state: State, active: np.ndarray, blocks: Blocks) -> None:
        """Count these rows as visited: until all are, a curvature of 0 may be one not yet needed."""
        state.numbers["visited"] += sum(block.rows() for _, block in blocks)
        state.multiplications -= multiplications(blocks, active.size)  # of rows that sleep: `_visit` counts the others

    def _visit_part(
        self, problem: Problem, state: State, active: np.ndarray, first: int, block: Block
    ) -> Share:  # fmt: skip
        """A unit of the visit of all rows in memory."""
        numbers = state.numbers
        order = self.order_of(problem, state, block, first)
        parts = max(1, min(order[0].size, math.ceil(VISIT * active.size * values_of(block).size / UNIT)))
        now = visit(slow_constant.shortened(block, state), numbered_from(first), *order)
        part = numbers["part"]
        self._visit(problem, state, active, take_turns([now], part, part + 1, parts), state.arrays["figures"])
        numbers["part"] = (part + 1) % parts
        if numbers["part"]:
            return float(numbers["part"] / parts)
        self._visited(state, active, [(first, block)])
        return None

    def _take_turns(
        self, problem: Problem, state: State, active: np.ndarray, blocks: Blocks, kept: restless.Parts, again: int,
        figures: np.ndarray,
    ) -> None:  # fmt: skip
        visits = [
            visit(
                slow_constant.shortened(block, state), numbered_from(first),
                *self.order_of(problem, state, block, first, *([again] if again else [])),
            )
            for first, block in blocks
        ]  # fmt: skip
        rows = sum(block.rows() for _, block in blocks)
        turns = min(TURNS, -(-rows // TURN_ROWS)) if len(blocks) > 1 or kept else 1
        mixed = self._kept_order(problem, state, kept, blocks[0][0], again, 1) if kept else None
        start = 0
        for turn in range(turns):
            names = kept[len(kept) * turn // turns : len(kept) * (turn + 1) // turns]
            if names or turn + 1 == turns:
                self._visit(problem, state, active, take_turns(visits, start, turn + 1, turns), figures)
                start = turn + 1
            if names and mixed is not None:
                self._visit_kept(problem, state, active, names, *mixed)

    def _kept_order(
        self, problem: Problem, state: State, kept: restless.Parts, *seeds: int
    ) -> tuple[np.ndarray, int]:  # fmt: skip
        """One order for all pieces of the rows kept."""
        largest = max((state.kept[name].rows for name in kept), key=lambda piece: piece.rows())
        return self.order_of(problem, state, largest, *seeds)

    def _visit_kept(
        self, problem: Problem, state: State, active: np.ndarray, kept: restless.Parts, mixed: np.ndarray, group: int
    ) -> None:
        aside = np.zeros_like(state.arrays["figures"])
        for name in kept:
            ids, block = state.kept[name]
            order = mixed[mixed < -(-block.rows() // group)]
            turns = all_at_once(slow_constant.shortened(block, state), RowNumbers(0, ids), order, group)
            self._visit(problem, state, active, turns, aside)

    def _measure(self, problem: Problem, state: State) -> None:
        """The norms of the rows, once: when all were visited, the curvatures are known and stay."""
        numbers = state.numbers
        if numbers["measured"] or numbers["visited"] < problem.rows:
            return
        total, largest, empty = 0.0, 0.0, False
        for start in range(0, problem.rows, PIECE):
            piece = slice(start, start + PIECE)
            curvature = state.arrays["curvature"][piece]
            sizes = np.sqrt(curvature) / math.sqrt(problem.q - 1.0)
            total, largest = total + float(sizes.sum()), max(largest, float(sizes.max()))
            empty = empty or bool(np.any((curvature == 0.0) & problem.there(piece)))
        numbers.update(measured=True, mean=total / max(1, problem.present), largest=largest, empty=empty)

    def mean_norm(self, problem: Problem, state: State) -> float:
        self._measure(problem, state)
        return state.numbers["mean"]

    def rounding(self, problem: Problem, state: State) -> float:
        self._measure(problem, state)
        # of the length itself, and what was added to it
        return mean_rounding(problem.present, state.numbers["largest"]) + state.numbers["largest blur"]

    def has_empty_row(self, problem: Problem, state: State) -> bool:
        self._measure(problem, state)
        return state.numbers["empty"]
