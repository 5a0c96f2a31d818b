"""Out of core: cache the rows near the margin and a sample of the others, and solve their problem between two reads.

The sample represents only the change of the other rows' gradient. At the weights and duals of the read the gradient is
exact, as in variance-reduced stochastic gradients (Johnson and Zhang 2013).
"""

from __future__ import annotations

import math

import numpy as np

from streammargin.compiled import newton as kernel
from streammargin.losses.base import smooth
from streammargin.rows.blocks import Block, nbytes
from streammargin.rows.labels import numbered_from
from streammargin.solvers.base import PassReport, Share
from streammargin.solvers.cache import rows as store
from streammargin.solvers.cache.rows import RowCache
from streammargin.solvers.newton.bound import Bound, Look, prove
from streammargin.solvers.newton.subproblem import Parts, Proximal, solve
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.best import best_figures
from streammargin.solvers.proof.rounding import blur
from streammargin.solvers.proof.sweep import Certified, CertifiedBySweep
from streammargin.solvers.roles import K, N, Rows, Shared, W, b1, clear, f4, f8, new, of, state
from streammargin.solvers.state import labels_of, labels_of_one

BUFFERS = 3 << 20  # least bytes of the buffers
NEAR = 0.7  # share of the cache for rows near the margin; the rest is for the sample
LEAST_ROWS = 60  # least cached rows, in multiples of the columns; with fewer there is no progress
STRETCHES = 16  # least number of parts of the file that the first sample is drawn from, as a file may be sorted
A_ROW = 72  # bytes per row besides its values: number, class, weight, dual, centre, margin, product, cap, slope
SOFTNESS = 0.25  # relative to the caps, at the first read with nonzero weights, which are near the optimum
FIRST_SOFTNESS = 2.0  # for the sample at w = 0: all rows have a positive slope
FIRST_GAP = 3e-3  # relative gap to which the first sample is solved; it differs more from all rows
WITHIN = 1e-3  # of tol: the gap to which the problem of the cached rows is solved


@state
class NearState(Certified):
    """alpha (K, n): proximal centres; key (n,): distance of a row from the margin; w (K, d+1), and its sums `look`.

    The cache has a piece per block and takes `held` bytes: rows with key <= `limit`, and a sample of the others. The
    first pass draws the sample from the share `drawn_from` of the blocks, where no weights are given. due: problems
    still to be solved, unit by unit; offset (d+1,): A^T a of all rows minus that of the cached ones; ended: the sums of
    the pass were used.
    """

    alpha: Rows[f8]
    key: Rows[f4] = of(N)
    w: Shared[f8]
    bound: Bound
    look: Look
    softness: Shared[f8] = of(K, fill=SOFTNESS)
    rows: RowCache
    held: int = 0
    limit: float = 2.0
    drawn_from: float = 0.0
    due: Shared[b1] = of(K)
    proximal: Proximal
    offset: Shared[f8] = of(W)
    part: int = 0
    ended: bool = False


class NearMargin(CertifiedBySweep[NearState]):
    """Solves the problem of the cached rows between two reads."""

    name = "near-margin rows"
    state_class = NearState

    def reserved_bytes(self, problem: Problem) -> int:
        width = problem.features + 1
        return cache_bytes(problem) + 8 * width * (width + 6)  # and the Hessian and vectors of its problem

    def kept_bytes(self, problem: Problem) -> int:
        return cache_bytes(problem)

    def begin_at(self, problem: Problem, state: NearState, w: np.ndarray) -> None:
        state.w[:] = w

    def order(self, problem: Problem, state: NearState, number: int, blocks: int) -> np.ndarray:
        """The first pass reads one block of every part of the file, for the first sample."""
        if not draws(problem, number):
            return super().order(problem, state, number, blocks)
        stretches = min(blocks, max(STRETCHES, math.ceil(blocks * capacity(problem) / problem.rows)))
        state.drawn_from = stretches / blocks
        ends = np.arange(stretches + 1) * blocks // stretches
        return np.random.default_rng(problem.seed).integers(ends[:-1], ends[1:])

    def begin_pass(self, problem: Problem, state: NearState, number: int) -> None:
        super().begin_pass(problem, state, number)
        clear(state.look)
        state.rows, state.held = RowCache(), 0
        state.limit, state.part, state.ended = -1.0 if draws(problem, number) else 2.0, 0, False
        state.due[:] = False

    def run_block(self, problem: Problem, state: NearState, active: np.ndarray, block: Block, first: int) -> Share:
        if not draws(problem, state.number):
            share = self._look(problem, state, active, block, first)
            if share is not None:
                return share
        state.look.seen += block.rows()
        rows = np.arange(first, first + block.rows())
        wanted = self._wanted(problem, state, rows)
        if state.held + wanted.sum() * (nbytes(block) / rows.size + A_ROW) > cache_bytes(problem):
            self._drop(problem, state)
            wanted = self._wanted(problem, state, rows)
        if wanted.any():
            name = f"rows {first}"
            state.rows.change(name, None, [(first, block, np.flatnonzero(wanted))])
            state.held += bytes_of(*state.rows.pieces[name])
            state.rows.pool()
        if state.held > cache_bytes(problem):
            self._drop(problem, state)
        return None

    def _look(self, problem: Problem, state: NearState, active: np.ndarray, block: Block, first: int) -> Share:
        """Add the sums of a unit of these rows at the current weights; their centres move at once."""
        none, look = np.zeros((problem.count, 0)), state.look
        start, stop = store.next_rows(state, block, store.LOOK * problem.count, active.size)
        kernel.newton_sums(
            store.part(block, start, stop), numbered_from(first + start), labels_of(problem, state), problem.loss,
            active, problem.trials, state.softness, state.w, blur(state.w), none[0], state.alpha, True, none, none[:0],
            state.key, look.image, np.zeros((0, 1, 1)), look.totals, look.wrong,
        )  # fmt: skip
        return stop / block.rows() if stop < block.rows() else None

    def _wanted(self, problem: Problem, state: NearState, rows: np.ndarray) -> np.ndarray:
        near = state.key[rows] <= state.limit
        return (near | self._sampled(problem, state, rows)) & state.labels.present(rows)

    def _sampled(self, problem: Problem, state: NearState, rows: np.ndarray) -> np.ndarray:
        """Which of these rows are in the sample: a hash, so the answer is the same throughout a pass."""
        share = capacity(problem) / problem.rows
        share *= 1.0 / state.drawn_from if draws(problem, state.number) else 1.0 - NEAR
        return hashed(rows, problem.seed, state.number) < 0.95 * share

    def _drop(self, problem: Problem, state: NearState) -> None:
        """Lower the limit until the rows near the margin fit, with some reserve."""
        ids, sizes = state.rows.ids(), state.rows.sizes(A_ROW)
        each = np.repeat(list(sizes.values()), [kept.ids.size for kept in state.rows.pieces.values()])
        drawn = self._sampled(problem, state, ids)
        # early in a pass keep a larger reserve for rows to come, as every drop copies the cache
        free = 0.98 * cache_bytes(problem) * max(0.75, state.look.seen / problem.rows) - float(each[drawn].sum())
        least = store.threshold(state.key[ids[~drawn]], each[~drawn], free)
        if least < math.inf:
            state.limit = float(np.nextafter(np.float32(least), np.float32(-1.0)))
        state.rows.retain(lambda kept: self._wanted(problem, state, kept))
        state.held = sum(bytes_of(*kept) for kept in state.rows.pieces.values())

    def end_pass(self, problem: Problem, state: NearState, active: np.ndarray) -> PassReport | float:
        first = draws(problem, state.number)
        if not state.ended:
            state.ended = True
            if first:
                state.due[active] = True
            elif state.look.seen == problem.rows:
                prove(problem, state, state.bound, state.look, state.w, active)
                gaps = np.array([f.gap for f in best_figures(problem, state.best)])
                state.due[active] = gaps[active] > problem.tol
            state.due &= state.rows.count > 0  # where no row that is present was read, w stays
        if state.due.any():
            self._solve(problem, state, int(np.argmax(state.due)))
            return 1.0 - float(state.due.sum()) / problem.count
        if first:
            return PassReport(np.ones(problem.count), 0, kept_rows=state.rows.count)
        figures = best_figures(problem, state.best)
        gaps, mistakes = np.array([f.gap for f in figures]), int(state.look.totals[:, kernel.MISTAKES].sum())
        return PassReport(gaps, mistakes, figures, state.look.wrong.copy(), kept_rows=state.rows.count)

    def skip_remaining(self, problem: Problem, state: NearState) -> None:
        state.due[:] = False
        state.ended = True

    def _solve(self, problem: Problem, state: NearState, k: int) -> None:
        """One unit of work on the problem of the cached rows, for problem k."""
        pieces = [state.rows.pieces[name] for name in sorted(state.rows.pieces)]
        ids = np.concatenate([kept.ids for kept in pieces])
        starts = np.cumsum([0, *(kept.ids.size for kept in pieces)])
        parts: Parts = [
            (numbered_from(int(start)), kept.rows) for start, kept in zip(starts[:-1], pieces, strict=True)
        ]  # fmt: skip
        near, first = state.key[ids] <= state.limit, draws(problem, state.number)
        stands = (problem.present - int(near.sum())) / max(1, int((~near).sum()))  # rows that a sampled row represents
        weights = state.labels.weights[ids] if state.labels.weights.size else np.ones(ids.size)
        weights[~near] *= stands
        labels = labels_of_one(problem, state, k)._replace(codes=state.labels.codes[ids], weights=weights)
        proximal, w = state.proximal, state.w[k]
        if not proximal.is_under_way(ids.size):
            self._begin(problem, state, k, ids)
            if not first:
                proximal.centres[~near] *= stands
                for numbers, block in parts:
                    kernel.subtract_image(block, numbers, labels, 0, proximal.centres, state.offset)
        enough = 0.0 if first else WITHIN * problem.tol * float(abs(state.best.primal[k]))
        done = solve(parts, labels, problem.loss, proximal, w, state.offset, enough, FIRST_GAP if first else 0.0)
        state.multiplications += proximal.multiplications
        proximal.multiplications = 0.0
        if done:
            state.due[k] = False
            if not first:
                state.alpha[k, ids[near]] = proximal.centres[near]
            state.proximal = new(Proximal, problem)

    def _begin(self, problem: Problem, state: NearState, k: int, ids: np.ndarray) -> None:
        """Set up the problem of the cached rows; in the first pass it is that of the sample, from w = 0."""
        proximal, w = state.proximal, state.w[k]
        proximal.centres, proximal.made = state.alpha[k, ids], 0
        if draws(problem, state.number):
            proximal.harder(0.0 if smooth(problem.loss) else FIRST_SOFTNESS, -math.inf)
            state.offset[:] = 0.0
            return
        image = state.look.image[k]
        proximal.harder(float(state.softness[k]), -math.inf)
        state.offset[:] = image
        if 0.5 * float(np.square(w - image).sum()) < 0.5 * state.look.totals[k, kernel.GAP]:
            state.softness[k] /= 2.0  # for the next read

    def frozen(self, problem: Problem, state: NearState, k: int) -> np.ndarray:
        return state.w[k]  # certificates are needed in the first pass only

    def bounds(self, problem: Problem, state: NearState, k: int, longest: float) -> tuple[float, float]:
        return 0.0, math.inf  # losses are >= 0

    def weights(self, problem: Problem, state: NearState) -> np.ndarray:
        return state.w.copy()


def draws(problem: Problem, number: int) -> bool:
    """Whether this pass draws the first sample; given weights take its place."""
    return number == 1 and not problem.from_weights


def bytes_of(ids: np.ndarray, rows: Block) -> int:
    """Bytes of cached rows, with the numbers beside them."""
    return nbytes(rows) + A_ROW * ids.size


def row_bytes(problem: Problem) -> float:
    """Mean bytes of a cached row, with the numbers beside it."""
    return problem.size / problem.rows + A_ROW


def cache_bytes(problem: Problem) -> int:
    """Bytes of the cache: a share of the budget after vectors, at most the bytes of all rows."""
    K, width = problem.count, problem.features + 1
    left = problem.budget - problem.rows * (8 * K + 4) - 8 * width * (width + 6 + 8 * K)
    return store.cache_budget(left, BUFFERS, int(problem.rows * row_bytes(problem)))


def capacity(problem: Problem) -> float:
    """The number of rows of mean length that fit."""
    return cache_bytes(problem) / row_bytes(problem)


def enough_rows_fit(problem: Problem, least: float = LEAST_ROWS) -> bool:
    """Whether enough rows fit into the cache for their problem to approximate that of all rows."""
    return capacity(problem) >= min(least * problem.features, 0.5 * problem.rows)


def hashed(rows: np.ndarray, seed: int, number: int) -> np.ndarray:
    """A pseudorandom number in [0, 1) for each row and pass (splitmix64)."""
    x = rows.astype(np.uint64) + np.uint64((seed * 1_000_003 + number) * 0x9E3779B97F4A7C15 % (1 << 64))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return (x ^ (x >> np.uint64(31))) / math.ldexp(1.0, 64)
