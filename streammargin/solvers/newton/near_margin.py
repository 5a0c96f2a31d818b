"""Out of core: cache the rows near the margin and a sample of the others, and solve their problem between two reads.

The sample represents only the change of the other rows' gradient. At the weights and duals of the read the gradient is
exact, as in variance-reduced stochastic gradients (Johnson and Zhang 2013).

No number belongs to a row that is not cached. Cached rows near the margin keep the duals that their problem ended with
as centres of the next read. The others are farther from the margin, so that their duals are at a bound.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from streammargin.compiled.look import SUM_OF_GAPS
from streammargin.compiled.newton import add_image
from streammargin.losses.base import middle_share, smooth
from streammargin.rows.blocks import Block, nbytes
from streammargin.rows.labels import RowLabels, numbered_from
from streammargin.solvers import leaves
from streammargin.solvers.base import PassReport
from streammargin.solvers.cache import rows as store
from streammargin.solvers.cache.rows import Coming, Kept, RowCache
from streammargin.solvers.newton.subproblem import Goal, Parts, Proximal, soft_step, solve
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.best import best_figures, gaps_of
from streammargin.solvers.proof.certified_read import CertifiedByRead, CertifiedState
from streammargin.solvers.proof.figures import Figures
from streammargin.solvers.proof.sums import LookSums
from streammargin.solvers.roles import Count, K, Shared, W, f8, i8, new, of, state, u1
from streammargin.solvers.softness import AFTER_SAMPLE, SAMPLE_SOFTNESS, may_soften, next_softness
from streammargin.solvers.state import DONE, OWN_STEPS, READ, labels_for, labels_of, line_of
from streammargin.solvers.visits import Visit

# keys are below 1 if any dual of the row may change; limits of keys: no row is near the margin, or every one
NONE_NEAR, ALL_NEAR = -1.0, 2.0
MEAN = 0.95  # of the share that fits: rows that are drawn on average, as their number varies
FILLED_LATE, FILLED_EARLY = 0.98, 0.75  # share of the cache left when rows are dropped: late, and early in a pass
NEAR_ROWS_SHARE = 0.7  # of the cache; the rest is for the sample
VIOLATING = 0.5  # share of the rows that fit: if fewer have a loss, as separable rows do, all of these are near
LEAST_CACHED_ROWS = 60  # in multiples of the columns; with fewer there is no progress
LEAST_SAMPLE = 5  # least rows of the first sample, in multiples of the columns
# how far from the margin cached rows should reach: with less, a step a read takes fewer reads; FINE: for a smaller tol
COARSE_REACH, FINE_REACH, FINE = 0.07, 0.03, 1e-3
STRETCHES = 16  # least number of parts of the file that the first sample is drawn from, as a file may be sorted
# bytes per row besides its values: number, class, weight, key; of its problem: weight, dual, centre, margin, product,
# cap, slope; its number after the read
NEAR_ROW_BYTES = 8 + 2 + 8 + 4 + 7 * 8 + 8
OF_ONE = 16  # and for each problem: its dual, and the same after the read
FIRST_GAP = 3e-3  # relative gap to which the first sample is solved; it differs more from all rows
WITHIN = 1e-3  # of tol: the gap to which the problem of the cached rows is solved


class Beside(NamedTuple):
    """Numbers of m cached rows: keys (m,) float32, duals (m, K), codes (m,) int16, weights (m,)."""

    keys: np.ndarray
    duals: np.ndarray
    codes: np.ndarray
    weights: np.ndarray


@state
class NearState(CertifiedState):
    """w (K, d+1), and `sums` at them. known (m,): the rows whose duals (K, m) the next read starts from, in order.

    `softness`         (K,): of these rows.
    `crisp`            (K,): of the others.

    The cache has a piece per block and takes `held` bytes. It has the rows with key <= `limit`, the distance from the
    margin, and a sample of the others. The first pass draws it from the share `drawn_from` of the blocks, if no weights
    are given.

    `step`             READ, then OWN_STEPS while the problem of the cached rows is to be solved, then DONE.
    `offset`           (d+1,): A^T a of all rows minus that of the cached ones.
    `violating`        rows with a loss in this read.
    `keeps_violating`  all of these are cached, however far from the margin. They are few if rows are separable. The
                       dual of another one would stay at its cap, and drive w away at a large C.
    """

    summed = of(W), of(W, W)  # gradient and second derivatives of the cached rows
    softness: Shared[f8] = of(K, fill=AFTER_SAMPLE)
    crisp: Shared[f8] = of(K, fill=AFTER_SAMPLE)
    rows: RowCache
    known: Shared[i8] = of(0, grows=True)
    duals: Shared[f8] = of(K, 0, grows=True)
    held: int = 0
    limit: float = ALL_NEAR
    drawn_from: float = 0.0
    step: Shared[u1] = of(K, fill=DONE)
    proximal: Proximal
    offset: Shared[f8] = of(W)
    violating: Count = 0
    keeps_violating: bool = False


class NearMargin(CertifiedByRead[NearState]):
    """Solves the problem of the cached rows between two reads."""

    name = "near-margin rows"
    mapped = False
    adds = ()

    def all_labels(self, problem: Problem) -> bool:
        return False  # those of cached rows lie beside them

    def reserved_bytes(self, problem: Problem) -> int:
        return cache_bytes(problem) + _vectors(problem)

    def kept_bytes(self, problem: Problem) -> int:
        return cache_bytes(problem)

    def scratch(self, problem: Problem, rows: int, size: int, sparse: bool) -> int:
        return rows * (4 + 8 + 24 * problem.count)  # keys, numbers, duals and margins of the rows at hand

    def fits(self, problem: Problem, state: NearState) -> bool:
        labels = (problem.count,) if problem.outputs.several else ()
        kinds = [(np.float32, ()), (np.float64, (problem.count,)), (np.int16, labels), (np.float64, ())]
        for kept in state.rows.pieces.values():
            if [(one.dtype, one.shape[1:]) for one in kept.beside] != kinds:
                return False
            if not problem.outputs.knows(kept.beside[Beside._fields.index("codes")]):
                return False
        return state.duals.shape[1] == state.known.size and bool(np.all(np.diff(state.known) > 0))

    def visit(self, problem: Problem, state: NearState, active: np.ndarray) -> Visit:
        order = self.first_blocks if draws(problem, state.number) else None
        return super().visit(problem, state, active)._replace(order=order)

    @staticmethod
    def first_blocks(problem: Problem, state: NearState, blocks: int) -> np.ndarray:
        """One block of every part of the file, for the first sample."""
        found = some_blocks(problem, blocks, capacity(problem))
        state.drawn_from = found.size / blocks
        return found

    def begin_pass(self, problem: Problem, state: NearState, active: np.ndarray) -> None:
        super().begin_pass(problem, state, active)
        if state.number > 1:
            self._forget(problem, state)
        state.rows, state.held, state.violating = RowCache(), 0, 0
        state.limit = NONE_NEAR if draws(problem, state.number) else ALL_NEAR
        state.step[:] = READ

    @staticmethod
    def _forget(problem: Problem, state: NearState) -> None:
        """Keep the duals of the cached rows near the margin, without the rows."""
        near = [kept.beside[0] <= state.limit for kept in state.rows.pieces.values()]
        ids = [kept.ids[here] for kept, here in zip(state.rows.pieces.values(), near, strict=True)]
        duals = [kept.beside[1][here] for kept, here in zip(state.rows.pieces.values(), near, strict=True)]
        state.known = np.concatenate([np.empty(0, np.int64), *ids])
        order = np.argsort(state.known)
        state.known = state.known[order]
        state.duals = np.concatenate([np.empty((0, problem.count)), *duals])[order].T.copy()

    def run_block(self, problem: Problem, state: NearState, active: np.ndarray, block: Block, first: int) -> None:
        numbers = np.arange(first, first + block.rows())
        keys, duals = self._add_sums(problem, state, active, block, first)
        state.sums.rows += numbers.size
        wanted = self._wanted(problem, state, numbers, keys) & state.labels.present(numbers)
        each = nbytes(block) / numbers.size + row_beside(problem)
        if state.held + wanted.sum() * each > cache_bytes(problem):
            self._drop(problem, state)
            wanted &= self._wanted(problem, state, numbers, keys)
        if wanted.any():
            here = np.flatnonzero(wanted)
            known = state.labels.of(numbers[here])
            weights = known.weights if known.weights.size else np.ones(here.size)
            beside = Beside(keys[here], duals[:, here].T.copy(), known.codes, weights)
            name = f"rows {first}"
            state.rows.change(name, None, [Coming(first, block, here, tuple(beside))])
            state.held += bytes_of(problem, state.rows.pieces[name])
            state.rows.pool()
        if state.held > cache_bytes(problem):
            self._drop(problem, state)

    def _add_sums(
        self, problem: Problem, state: NearState, active: np.ndarray, block: Block, first: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Add the sums of these rows at the current weights; returns their keys (m,) and duals (K, m).

        The first sample has no weights yet: no row counts as near, and duals are 0.
        """
        keys = np.full(block.rows(), ALL_NEAR, np.float32)
        if draws(problem, state.number):
            return keys, np.zeros((problem.count, keys.size))
        labels, duals = labels_of(problem, state), self._centres(problem, state, first, keys.size)
        margins = np.full(duals.shape, math.inf)

        def add(own: NearState, rows: Block, number: int) -> None:
            step = soft_step(problem, own.softness, duals, alpha=duals, crisp=own.crisp, base=first)
            here = rows, numbered_from(number), labels
            own.sums.add(problem.loss, here, active, own.w, step, margins=margins[None], keys=keys)

        leaves.over(problem, state, block, first, add)
        violating = (margins < 1.0).any(axis=0)
        state.violating += int(violating.sum())
        if state.keeps_violating and few_violate(problem, state.violating):
            keys[violating] = 0.0
        return keys, duals

    @staticmethod
    def _centres(problem: Problem, state: NearState, first: int, rows: int) -> np.ndarray:
        """Where the duals (K, m) of rows step from: known ones, else the midpoints, or nan for a step that is crisp."""
        centres = np.zeros((problem.count, rows))
        # what is not cached was visited before, or is far from the margin
        crisp = not smooth(problem.loss) and (state.keeps_violating or state.number > 1 + (not problem.from_weights))
        part = math.nan if crisp else 1.0
        labels = labels_for(state.labels.cut(first, first + rows), problem.outputs)
        share = middle_share(problem.loss)
        for k, own in enumerate(centres):
            own[:] = part * share * labels.caps_of(k)
        low, high = np.searchsorted(state.known, [first, first + rows])
        centres[:, state.known[low:high] - first] = state.duals[:, low:high]
        return centres

    def _wanted(self, problem: Problem, state: NearState, rows: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Which of these rows are near the margin, or in the sample."""
        return (keys <= state.limit) | self._sampled(problem, state, rows)

    def _sampled(self, problem: Problem, state: NearState, rows: np.ndarray) -> np.ndarray:
        """Which of these rows are in the sample: a hash, so the answer is the same throughout a pass."""
        share = capacity(problem) / problem.rows
        share *= 1.0 / state.drawn_from if draws(problem, state.number) else 1.0 - NEAR_ROWS_SHARE
        return pseudorandom(rows, problem.seed, state.number) < MEAN * share

    def _drop(self, problem: Problem, state: NearState) -> None:
        """Lower the limit until the rows near the margin fit, with some reserve."""
        if not state.rows.count:
            return
        least = self._first_beyond(problem, state)
        if least < math.inf:
            state.limit = float(np.nextafter(np.float32(least), np.float32(-1.0)))
        state.rows.retain(lambda kept: self._wanted(problem, state, kept.ids, kept.beside[0]))
        state.held = sum(bytes_of(problem, kept) for kept in state.rows.pieces.values())

    def _first_beyond(self, problem: Problem, state: NearState) -> float:
        """The least key that does not fit beside the sample; inf if all fit."""
        ids, sizes = state.rows.ids(), state.rows.sizes(row_beside(problem))
        each = np.repeat(list(sizes.values()), [kept.ids.size for kept in state.rows.pieces.values()])
        drawn, keys = self._sampled(problem, state, ids), state.rows.beside(0)
        # early in a pass keep a larger reserve for rows to come, as every drop copies the cache
        filled = FILLED_LATE * max(FILLED_EARLY, state.sums.rows / problem.rows)
        free = filled * cache_bytes(problem) - float(each[drawn].sum())
        return store.threshold(keys[~drawn], each[~drawn], free)

    def end_pass(self, problem: Problem, state: NearState, active: np.ndarray) -> PassReport | float:
        first = draws(problem, state.number)
        if READ in state.step:
            state.step[:] = DONE
            left = active if first else self._unproven(problem, state, active)
            if state.rows.count:  # else no row that is present was read, and w stays
                state.step[left] = OWN_STEPS
        if OWN_STEPS in state.step:
            self._solve(problem, state, state.step.tolist().index(OWN_STEPS))
            return 1.0 - float(np.mean(state.step == OWN_STEPS))
        if first:
            self._expect(problem, state)
            return PassReport(np.ones(problem.count), 0, kept_rows=state.rows.count)
        report = self.report(problem, state)
        report.kept_rows = state.rows.count
        return report

    def _unproven(self, problem: Problem, state: NearState, active: np.ndarray) -> np.ndarray:
        """The problems whose weights this read, if it saw all rows, has not proven."""
        if state.sums.rows < problem.rows:
            return active[:0]
        self.prove(problem, state, active)
        state.keeps_violating = few_violate(problem, state.violating)
        return active[gaps_of(best_figures(problem, state.best))[active] > problem.tol]

    def skip_remaining(self, problem: Problem, state: NearState) -> None:
        state.step[:] = DONE

    def _solve(self, problem: Problem, state: NearState, k: int) -> None:
        """One unit of work on the problem of the cached rows, for problem k."""
        pieces = [state.rows.pieces[name] for name in sorted(state.rows.pieces)]
        starts = np.cumsum([0, *(kept.ids.size for kept in pieces)])
        parts: Parts = [(numbered_from(int(start)), kept.rows) for start, kept in zip(starts[:-1], pieces, strict=True)]
        keys, codes, weights = (np.concatenate([kept.beside[at] for kept in pieces]) for at in (0, 2, 3))
        near, first = keys <= state.limit, draws(problem, state.number)
        stands = (problem.present - int(near.sum())) / max(1, int((~near).sum()))  # rows that a sampled row represents
        weights[~near] *= stands
        labels = line_of(labels_for(RowLabels(codes, weights, np.empty(0)), problem.outputs), k)
        proximal, w = state.proximal, state.w[k]
        if not proximal.is_under_way(len(codes)):
            proximal.centres = np.concatenate([kept.beside[1][:, k] for kept in pieces])
            self._begin(problem, state, k)
            if not first:
                proximal.centres[~near] *= stands
                for numbers, block in parts:
                    add_image(block, numbers, labels, 0, -proximal.centres, state.offset)
        goal = Goal(share=FIRST_GAP) if first else Goal(WITHIN * problem.tol * float(abs(state.best.primal[k])))
        done = solve(problem, parts, labels, proximal, w, state.offset, goal)
        state.multiplications += proximal.multiplications
        proximal.multiplications = 0.0
        if done:
            state.step[k] = DONE
            for start, kept in zip(starts[:-1], () if first else pieces, strict=False):
                kept.beside[1][:, k] = proximal.centres[start : start + kept.ids.size]
            state.proximal = new(Proximal, problem)

    @staticmethod
    def _expect(problem: Problem, state: NearState) -> None:
        """Set the limit that the first read of all rows is expected to have, by the rows of the sample."""
        every, found, violating = np.arange(problem.count), [np.ones(1, np.float32)], 0
        for kept in state.rows.pieces.values():
            keys = np.ones(kept.ids.size, np.float32)
            labels = labels_for(RowLabels(kept.beside[2], kept.beside[3], np.empty(0)), problem.outputs)
            sums, margins = new(LookSums, problem), np.full((problem.count, keys.size), math.inf)
            rows, step = (kept.rows, numbered_from(0), labels), soft_step(problem, state.softness)
            sums.add(problem.loss, rows, every, state.w, step, margins=margins[None], keys=keys)
            violating += int((margins < 1.0).any(axis=0).sum())
            found.append(keys)
        state.keeps_violating = few_violate(problem, violating * problem.rows / max(1, state.rows.count))
        fit = NEAR_ROWS_SHARE * capacity(problem) / problem.rows
        state.limit = float(np.quantile(np.concatenate(found), fit)) if fit < 1.0 else ALL_NEAR
        if state.keeps_violating:
            state.crisp = np.minimum(state.softness, reach(state))

    def _begin(self, problem: Problem, state: NearState, k: int) -> None:
        """Set up the problem of the cached rows; in the first pass it is that of the sample, from w = 0."""
        proximal, w = state.proximal, state.w[k]
        proximal.made = 0
        if draws(problem, state.number):
            proximal.harder(0.0 if smooth(problem.loss) else SAMPLE_SOFTNESS, -math.inf)
            state.offset[:] = 0.0
            return
        pull = state.sums.pull[k, 0]
        state.crisp[k] = min(state.softness[k], reach(state))  # for the next read, as the softness below
        proximal.harder(float(state.softness[k]), -math.inf)
        state.offset[:] = pull
        if may_soften(0.5 * float(np.square(w - pull).sum()), float(state.sums.weights[k, SUM_OF_GAPS])):
            state.softness[k] = next_softness(float(state.softness[k]))

    def begin_certificate(self, problem: Problem, state: NearState, active: np.ndarray) -> None:
        super().begin_pass(problem, state, active)  # after the first pass alone, which proves nothing

    def certify_block(self, problem: Problem, state: NearState, block: Block, first: int) -> None:
        rows, every = (block, numbered_from(first), labels_of(problem, state)), np.arange(problem.count)
        state.sums.rows += block.rows()
        state.sums.add(problem.loss, rows, every, state.w, soft_step(problem, state.softness))

    def end_certificate(self, problem: Problem, state: NearState) -> tuple[list[Figures], np.ndarray]:
        self.prove(problem, state, np.arange(problem.count))
        return best_figures(problem, state.best), state.sums.wrong.copy()


def some_blocks(problem: Problem, blocks: int, rows: float) -> np.ndarray:
    """Blocks for a sample of so many rows, one of every part of the file."""
    stretches = min(blocks, max(STRETCHES, math.ceil(blocks * rows / problem.rows)))
    ends = np.arange(stretches + 1) * blocks // stretches
    return np.random.default_rng(problem.seed).integers(ends[:-1], ends[1:])


def draws(problem: Problem, number: int) -> bool:
    """Whether this pass draws the first sample; given weights take its place."""
    return number == 1 and not problem.from_weights


def bytes_of(problem: Problem, kept: Kept) -> int:
    """Bytes of cached rows, with the numbers beside them."""
    return nbytes(kept.rows) + row_beside(problem) * kept.ids.size


def row_beside(problem: Problem) -> int:
    """Bytes of a cached row besides its values."""
    return NEAR_ROW_BYTES + OF_ONE * problem.count + 2 * problem.count * problem.outputs.several


def row_bytes(problem: Problem) -> float:
    """Mean bytes of a cached row, with the numbers beside it."""
    return problem.size / problem.rows + row_beside(problem)


def _vectors(problem: Problem) -> int:
    """Bytes of the Hessian and the vectors of the cached rows' problem."""
    width = problem.features + 1
    return 8 * width * (width + 6)


def cache_bytes(problem: Problem) -> int:
    """Bytes of the cache: a share of the budget after vectors, at most the bytes of all rows."""
    left = problem.budget - _vectors(problem) - 64 * problem.count * (problem.features + 1)
    return store.cache_budget(left, int(problem.rows * row_bytes(problem)))


def capacity(problem: Problem) -> float:
    """The number of rows of mean length that fit."""
    return cache_bytes(problem) / row_bytes(problem)


def sample_fits(problem: Problem) -> bool:
    """Whether enough rows fit into the cache for their solution to be a start."""
    return capacity(problem) >= min(LEAST_SAMPLE * problem.features, 0.5 * problem.rows)


def enough_rows_fit(problem: Problem) -> bool:
    """Whether enough rows fit into the cache for their problem to approximate that of all rows."""
    return capacity(problem) >= min(LEAST_CACHED_ROWS * problem.features, 0.5 * problem.rows)


def few_violate(problem: Problem, violating: float) -> bool:
    """Whether all of so many rows with a loss fit into the cache, beside others near the margin."""
    return violating <= VIOLATING * capacity(problem)


def reach(state: NearState) -> float:
    """How far from the margin the cached rows reach."""
    return state.limit / (1.0 - state.limit) if 0.0 < state.limit < 1.0 else math.inf


def reaches_far(problem: Problem, state: NearState) -> bool:
    """Whether the rows near the margin that fit reach far enough from it, after the sample or a read.

    If all rows with a loss fit, others have duals 0, and any reach is enough.
    """
    return state.keeps_violating or reach(state) >= (FINE_REACH if problem.tol < FINE else COARSE_REACH)


def pseudorandom(rows: np.ndarray, seed: int, number: int) -> np.ndarray:
    """A pseudorandom number in [0, 1) for each row and pass (splitmix64)."""
    x = rows.astype(np.uint64) + np.uint64((seed * 1_000_003 + number) * 0x9E3779B97F4A7C15 % (1 << 64))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return (x ^ (x >> np.uint64(31))) / math.ldexp(1.0, 64)
