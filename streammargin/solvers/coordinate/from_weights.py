"""Coordinate ascent that begins from given weights w, under l2 or lp, at a finite C.

The first pass is a read at w, which certifies them: each row takes the dual of its loss at its score. Let v be the
image of w, of which w is the mirror; for l2 it is w itself. At the optimum A^T alpha = v. But an error of w moves the
duals of all rows. So near the optimum A^T alpha may be a hundred times as far away, and steps from there lose w.

So steps begin at v instead, as if A^T alpha had the rest r = v - A^T alpha, too. The second pass subtracts r in many
small parts, and rows make their steps in between. They make up for each part, so the weights stay near the optimum. At
its end nothing is left of r, and the weights are those of A^T alpha. A group that is done makes no steps, but loses r,
too: another pass may need it again.

Passes from the model of 95% of the rows, measured with a damped constant that began near 0. On a9a at C = 0.1 the
squared hinge takes 5, and 46 from 0. It takes 44 if steps begin at A^T alpha, scaled by the factor in (0, 1] that is
best for the dual. On rcv1sub at C = 1 the hinge takes 15, 19 and 25.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np

from streammargin.compiled.look import SUM_OF_MISTAKES, Prox
from streammargin.losses.base import largest_bend, middle_share
from streammargin.penalties.mirror_maps import mirror
from streammargin.rows.blocks import Block, values_of
from streammargin.rows.labels import numbered_from
from streammargin.rows.visits import VISITS_PER_CALL, Turns, take_turns
from streammargin.rows.visits import Visit as OneVisit
from streammargin.solvers.base import UNIT, VISIT, Blocks, PassReport, Share
from streammargin.solvers.linear import LinearSolver
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.best import gaps_of
from streammargin.solvers.proof.sweep import Certified
from streammargin.solvers.state import labels_of
from streammargin.solvers.visits import Visit

READS, RETURNS = 1, 2  # the passes
FLOAT32_TOL = 1e-5  # smallest tolerance for float32 weights, whose rounding limits the gap
SOFT = 0.05  # the softness of a hinge: a margin this far from 1, times 1/2, has its dual at a bound
LEAST_PARTS_OF_R, MOST_PARTS_OF_R = 16, 4096  # between: as many as cost what a product with all rows does
B = TypeVar("B", bound=Certified)


class BeginsAtWeights(LinearSolver[B]):
    """A solver with duals of rows that may begin from weights."""

    blocks_per_step = VISITS_PER_CALL

    @staticmethod
    @abstractmethod
    def in_lines(problem: Problem, state: B) -> tuple[np.ndarray, np.ndarray]:
        """Views of the duals (K, n), and of the images (K, d+1) of the weights."""

    def place(self, problem: Problem, state: B, k: int, image: np.ndarray) -> None:
        """Set the image (d+1,) of line k, and what steps keep beside it; default: nothing."""
        self.in_lines(problem, state)[1][k] = image

    def dtype(self, problem: Problem) -> np.dtype:
        """float32 if the rows are float32 and the tolerance, now and before a resume, allows it."""
        single = problem.dtype == np.float32 and min(problem.asked, problem.least_tol) >= FLOAT32_TOL
        return np.dtype(np.float32 if single and not problem.objective.signed else np.float64)

    def visit(self, problem: Problem, state: B, active: np.ndarray) -> Visit:
        if self.reads_weights(problem, state):
            return self.read_of_weights(problem, active)
        return super().visit(problem, state, active)._replace(each=self.run_blocks, together=True)

    @abstractmethod
    def run_blocks(self, problem: Problem, state: B, active: np.ndarray, blocks: Blocks) -> Share:
        """Visit the rows of several blocks, as `run_block` does those of one."""

    @abstractmethod
    def _visit(self, problem: Problem, state: B, active: np.ndarray, turns: Turns, figures: np.ndarray) -> None:
        """Make the steps of these turns, add to the figures of the pass, and count their multiplications."""

    def visit_part(self, problem: Problem, state: Any, active: np.ndarray, block: Block, now: OneVisit) -> Share:
        """One unit of a visit of all rows in memory."""
        work = VISIT * active.size * problem.lines * values_of(block).size
        parts = max(1, min(now[3].size, math.ceil(work / UNIT)))
        for turns in self.returning(problem, state, take_turns([now], state.part, state.part + 1, parts)):
            self._visit(problem, state, active, turns, state.figures)
        state.part = (state.part + 1) % parts
        return state.part / parts if state.part else None

    def begin_at(self, problem: Problem, state: B, w: np.ndarray) -> None:
        state.sweep.frozen[:] = w
        self.set_out(problem, state, w)

    def set_out(self, problem: Problem, state: B, w: np.ndarray) -> None:
        """Let steps begin at w (K, d+1)."""
        for k, line in enumerate(w):
            self.place(problem, state, k, mirror(line, problem.p))

    def reads_weights(self, problem: Problem, state: B) -> bool:
        """Whether this pass is the read at the given weights."""
        return problem.from_weights and state.number == READS

    def read_of_weights(self, problem: Problem, active: np.ndarray) -> Visit:
        """The read at the given weights, as a pass."""
        return Visit(
            "pass", self._read, (active,), ("sweep",), lines=problem.count, begin=self._begin_read, end=self._end_read
        )

    @staticmethod
    def _begin_read(problem: Problem, state: B, active: np.ndarray) -> None:
        state.sweep.begin()

    def _read(self, problem: Problem, state: B, active: np.ndarray, block: Block, first: int) -> None:
        """Set the duals of these rows, and add the sums that certify them and the weights."""
        sweep, rows, K = state.sweep, block.rows(), problem.count
        alpha, soft = np.zeros((K, rows)), SOFT if largest_bend(problem.loss) == np.inf else 0.0
        rule = Prox(
            np.zeros((K, 0)), alpha, np.zeros(K), np.full(K, soft), midway=middle_share(problem.loss), base=first
        )
        given = block, numbered_from(first), labels_of(problem, state)
        sweep.add(problem.loss, given, np.arange(K), sweep.frozen, rule)
        sweep.rows += rows
        self.in_lines(problem, state)[0][:, first : first + rows] = alpha

    def _end_read(self, problem: Problem, state: B, active: np.ndarray) -> PassReport:
        """The certificate, and in place of A^T alpha the rest r; without them if not all rows were read."""
        sweep = state.sweep
        several = problem.compared and problem.joint
        mistakes = int((sweep.wrong if several else sweep.weights[:, SUM_OF_MISTAKES]).sum())
        if sweep.rows < problem.rows:
            return PassReport(np.full(problem.groups, np.inf), mistakes)
        (alpha, images), pull = self.in_lines(problem, state), sweep.pull[:, 0]
        lost = ~(np.abs(pull).sum(axis=1) < np.finfo(alpha.dtype).max)  # or nan: the duals of its group begin at 0
        lost = problem.by_line(problem.by_group(lost).max(axis=1))
        alpha[lost], pull[lost], sweep.duals[lost] = 0.0, 0.0, 0.0
        visit = self.certificate(problem, state, active)
        figures, wrong = visit.end(problem, state, *visit.arguments)
        self.set_out(problem, state, state.best_w)
        for image, line in zip(images, pull, strict=True):
            np.subtract(image, line, out=line)
        return PassReport(gaps_of(figures), mistakes, figures, wrong)

    def returning(self, problem: Problem, state: B, turns: Turns) -> Iterator[Turns]:
        """Split the first visit of these rows into turns, before some of which a part of r is subtracted."""
        sweep = state.sweep
        # a certificate after a read of some rows has set the images to A^T alpha, and `rows` to 0
        if not (problem.from_weights and state.number == RETURNS and sweep.rows == problem.rows):
            yield turns
            return
        visits, start, stop, whole = turns
        share = sum(block.rows() for block, _, _, order, _ in visits if order.size) / problem.rows / whole
        wanted = share * np.clip(
            problem.values / (problem.features + 1), LEAST_PARTS_OF_R, MOST_PARTS_OF_R
        )  # parts of r per turn
        parts, step = max(1, round(wanted)), max(1, round(1.0 / wanted))  # of a turn, or turns of a part
        turn, last, images = start * parts, stop * parts, self.in_lines(problem, state)[1]
        while turn < last:
            if turn % step == 0:
                part = min(step, whole * parts - turn) * share / parts
                for k, rest in enumerate(sweep.pull[:, 0]):
                    self.place(problem, state, k, images[k] - part * rest)
            after = min(turn - turn % step + step, last)
            yield visits, turn, after, whole * parts
            turn = after
