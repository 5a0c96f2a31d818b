"""Rows in memory that steps by products are made on: all rows, or a weighted sample, perhaps in bytes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import NamedTuple

import numpy as np

from streammargin.compiled import products as kernel
from streammargin.compiled.judged import judge_of
from streammargin.rows.blocks import Block, part, stored
from streammargin.rows.labels import Labels
from streammargin.solvers import leaves, loops
from streammargin.solvers.base import UNIT, VISIT
from streammargin.solvers.cache.coded import PLAIN_CODING, Coding
from streammargin.solvers.problem import Problem

STRIDE = 8  # one row of so many counts for the diagonal, if there are enough of them


class HeldPart(NamedTuple):
    """The rows start .. stop of those held, with their labels, numbered from 0."""

    rows: Block
    labels: Labels
    start: int
    stop: int

    def pieces(self, problem: Problem) -> Iterator[HeldPart]:
        """These rows by leaves, of which as many as there are copies of sums are at most a unit of work.

        Each has whole chunks of the kernels.
        """
        chunk = STRIDE * kernel.chunk_of(problem.features + 1, 1)
        each = max(1.0, VISIT * problem.lines * stored(self.rows) / max(1, self.stop - self.start))
        most = min(UNIT / each / max(1, problem.copies), leaves.bounds(problem, self.rows, False)[1])
        size = max(1, int(most) // chunk) * chunk
        for low in range(0, self.stop - self.start, size):
            high = min(low + size, self.stop - self.start)
            labels = self.labels._replace(first=self.labels.first - low)
            yield HeldPart(part(self.rows, low, high), labels, self.start + low, self.start + high)


class Held(NamedTuple):
    """Rows in parts, and the labels of all; scores (m, lines), curvatures and along: as in compiled/products.py.

    What visits the rows is a generator: it yields the multiplications of some parts, and returns what it found. Threads
    share these parts. Each has sums of its own, which are added in order.
    """

    parts: list[HeldPart]
    labels: Labels
    scores: np.ndarray
    curvatures: np.ndarray
    along: np.ndarray
    coding: Coding = PLAIN_CODING

    @property
    def values(self) -> int:
        """Stored values of these rows."""
        return sum(stored(part.rows) for part in self.parts)

    def _visit(
        self, problem: Problem, visit: Callable[[HeldPart, np.ndarray], float | None], sums: np.ndarray, visits: int = 1
    ) -> Generator[float, None, float]:
        """Call visit(part, sums) for all parts; returns the sum of the results. visits: multiplications of a value."""
        total, most = 0.0, max(1, problem.copies)
        for low in range(0, len(self.parts), most):
            some = self.parts[low : low + most]
            total += leaves.summed(problem, some, visit, sums)
            yield float(visits * self.scores.shape[1] * sum(stored(part.rows) for part in some))
        return total

    def score(self, problem: Problem, w: np.ndarray, scores: np.ndarray) -> Iterator[float]:
        """Set scores (m, lines) to those at w (lines, d+1)."""
        laid_out = laid(problem, self.coding.weights(w, problem.column))
        yield from self._visit(
            problem,
            lambda part, _: loops.products(problem).add_scores(part.rows, laid_out, scores[part.start : part.stop]),
            np.empty(0),
        )

    def pull(self, problem: Problem, k: int) -> Generator[float, None, tuple[float, np.ndarray]]:
        """(The sum of the losses of group k, what their duals pull, (lines, d+1)); fills `curvatures`."""
        pull = laid(problem, np.zeros((problem.lines, problem.features + 1)))

        def visit(part: HeldPart, sums: np.ndarray) -> float:
            here = slice(part.start, part.stop)
            given = part.labels, judge_of(problem.loss), k * problem.lines
            return float(
                loops.products(problem).add_gradient(part.rows, *given, self.scores[here], self.curvatures[here], sums)
            )

        losses = yield from self._visit(problem, visit, pull)
        return losses, self.coding.sums(laid(problem, pull), problem.column)

    def product(self, problem: Problem, v: np.ndarray, scores: np.ndarray) -> Generator[float, None, np.ndarray]:
        """The product (lines, d+1) of v and the Hessian, with the ridge's; sets scores (m, lines) to those of v."""
        coded = self.coding.low.size > 0
        product = laid(problem, np.zeros_like(v) if coded else ridge(problem, v))
        laid_out = laid(problem, self.coding.weights(v, problem.column))

        def visit(part: HeldPart, sums: np.ndarray) -> None:
            here = slice(part.start, part.stop)
            loops.products(problem).add_curved(part.rows, self.curvatures[here], laid_out, scores[here], sums)

        yield from self._visit(problem, visit, product, VISIT)
        product = laid(problem, product)
        return ridge(problem, v) + self.coding.sums(product, problem.column) if coded else product

    def add_factors(self, problem: Problem, stride: int, of_lines: np.ndarray, of_columns: np.ndarray) -> None:
        """Add the factors of a Kronecker product near the Hessian, from one row of `stride`; upper triangles."""
        lines, found = problem.lines, []
        for rows, _, start, stop in self.parts:
            curvatures, own = self.curvatures[start:stop], np.zeros_like(of_lines)
            loops.products(problem).add_factors(rows, curvatures, stride, own, of_columns)
            found.append((own, float((curvatures[::stride, :lines] - curvatures[::stride, lines:] ** 2).sum())))
        total = sum(trace for _, trace in found)
        for own, trace in found:
            if trace > 0.0:
                of_lines += (trace / total) * own
        self.coding.turn_gram(of_columns, problem.column)


def ridge(problem: Problem, v: np.ndarray) -> np.ndarray:
    """v (..., d+1) with 0 for a constant that is not penalised, a new array: the gradient of 1/2 ||w||^2."""
    found = v.copy()
    if problem.free:
        found[..., -1] = 0.0
    return found


def laid(problem: Problem, v: np.ndarray) -> np.ndarray:
    """An array (lines, d+1) as rows read it, or the other way round."""
    return np.ascontiguousarray(v.T) if problem.sparse else v
