"""Coordinate ascent on rows in several places: at home by each holder, and in one place for the rows that matter.

A read is a round. From the weights of all, each holder makes two passes over its rows at home. Their changes are added
up. The rows whose duals are between their bounds, or have just moved, go to one place, as far as memory allows. There
they are visited until their own gap is small: the few rows that matter are worked on together, whoever has the others.
The read is the certificate of the weights that it began with, too.

The sum of all moves may overshoot, as no holder knows of the others. So a share gamma of it is taken. The dual
objective is concave, and its lower bound is raised most by gamma = clip((gained - v.moved) / ||moved||^2, 0, 1), for v
= A^T alpha.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from streammargin.compiled import coupled_ascent, sdca
from streammargin.compiled.duals import dual_sums
from streammargin.compiled.order import permutation
from streammargin.rows.blocks import Block, nbytes
from streammargin.rows.labels import RowNumbers, numbered_from
from streammargin.rows.visits import all_at_once, group_of, take_turns
from streammargin.solvers.base import PassReport, Share, Solver
from streammargin.solvers.cache import rows as store
from streammargin.solvers.cache.rows import Coming, RowCache
from streammargin.solvers.cache.rows import Kept as Piece
from streammargin.solvers.coordinate import active_rows, slow_constant
from streammargin.solvers.coordinate.active_rows import ActiveRows
from streammargin.solvers.coordinate.coupled import INNER_AXIS, OUTER_AXIS, Coupled, CoupledAscent
from streammargin.solvers.coordinate.dual_ascent import SETTLED, SETTLING, VISITS, Ascent, DualAscent
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.best import best_figures
from streammargin.solvers.roles import GROUPS, K, Kept, N, Role, Rows, Sum, Total, f8, of, state, state_bytes, u1
from streammargin.solvers.state import labels_for, labels_of
from streammargin.solvers.visits import Visit

ASLEEP = 255  # a counter that no visit of a read wakes
ROW_COPIES = 3  # of rows in one place: those that come, and all of them anew, lie beside them for a while
LEAST_ROOM = 4 << 20  # bytes of rows in one place; with less, rounds do little
COARSE, LEAST_OWN_GAP = 0.3, 0.3  # own gap: a share of the gap of all, at most COARSE; at least LEAST_OWN_GAP of tol


@state
class Places:
    """The state of rounds on the rows in one place.

    `away`     (n,): rows that are in one place, `active.rows`.
    `began`    (K, n): the duals at the start of the round.
    `gained`   (groups,): what the rows at home add to their shares of the dual.
    `squares`  the sum of squared norms of all rows, for the single step.
    `coming`   rows on their way to the one place.
    `merged`   the round's sums were used.
    """

    began: Kept[f8] = of(K, N)
    away: Rows[u1] = of(N)
    gained: Sum[f8] = of(GROUPS)
    squares: Total = 0.0
    coming: Annotated[RowCache, Role.SUM]
    merged: bool = False


@state
class ApartAscent(Ascent):
    """moved (K, d+1): what the rows at home add to A^T alpha."""

    sleep: Annotated[NDArray[u1], Role.KEPT] = of(K, N)
    curvature: Annotated[NDArray[f8], Role.KEPT] = of(N)
    places: Places
    moved: Sum[f8]


@state
class ApartCoupled(CoupledAscent):
    """moved: what the rows at home add to A^T alpha, laid out as W."""

    places: Places
    active: ActiveRows
    moved: Sum[f8] = of(OUTER_AXIS, INNER_AXIS)


P = TypeVar("P", ApartAscent, ApartCoupled)


class Apart(Solver[P]):
    """Ascent at home, and together in one place; subclasses make the steps."""

    blocks_per_step = 1
    mapped = True

    @staticmethod
    @abstractmethod
    def by_line(state: P) -> tuple[np.ndarray, np.ndarray]:
        """Views of the duals (K, n), and of the sleep counters (K or groups, n)."""

    @abstractmethod
    def steps(
        self, problem: Problem, state: P, active: np.ndarray, piece: Piece, order: tuple[np.ndarray, int],
        figures: np.ndarray,
    ) -> None:  # fmt: skip
        """Make a step for each of these rows in one place, in this order."""

    @abstractmethod
    def at_home(self, problem: Problem, state: P, active: np.ndarray, block: Block, first: int) -> None:
        """Make the passes over the rows of a block that are at home; add to `moved` and `gained`."""

    @abstractmethod
    def merge(self, problem: Problem, state: P, active: np.ndarray) -> None:
        """Take a share of the moves at home, once the certificate is known."""

    def behind(self, problem: Problem, state: P) -> float | np.ndarray:
        """The part of the gap (groups,) that no row in one place has; default: none."""
        return 0.0

    def dtype(self, problem: Problem) -> np.dtype:
        return np.dtype(np.float64)

    def kept_bytes(self, problem: Problem) -> int:
        left = problem.budget - state_bytes(self.state_class, problem)
        everything = problem.size + active_rows.ACTIVE_ROW_BYTES * problem.rows
        return min(max(LEAST_ROOM, (left - store.EVEN_BUFFERS) // ROW_COPIES), everything)

    def reserved_bytes(self, problem: Problem) -> int:
        return super().reserved_bytes(problem) + ROW_COPIES * self.kept_bytes(problem)

    def scratch(self, problem: Problem, rows: int, size: int, sparse: bool) -> int:
        # weights; duals before and after, caps and moves of a block, sleep and curvatures of its shard; sizes and order
        return problem.count * (8 * (problem.features + 1) + 60 * rows) + 80 * rows

    def visit(self, problem: Problem, state: Any, active: np.ndarray) -> Visit:
        return super().visit(problem, state, active)._replace(each=self.run_block, together=False, leaves=False)

    def begin_pass(self, problem: Problem, state: P, active: np.ndarray) -> None:
        self.begin_certificate(problem, state, active)
        places, state.active.settling, state.moved[:] = state.places, 0, 0.0
        places.gained[:], places.squares, places.merged = 0.0, 0.0, False
        places.began[:] = self.by_line(state)[0]

    def run_block(self, problem: Problem, state: P, active: np.ndarray, block: Block, first: int) -> None:
        """Certify, make the passes over these rows, and choose those that go to the one place, or stay there."""
        self.certify_block(problem, state, block, first)
        rows, places = slice(first, first + block.rows()), state.places
        alpha = self.by_line(state)[0][:, rows]
        before, away = alpha.copy(), places.away[rows] > 0
        self.at_home(problem, state, active, block, first)
        if state.number > 1:
            moved = np.abs(alpha - before).sum(axis=0)
            free = ((alpha != 0.0) & (np.abs(alpha) != self._caps(problem, state, rows))).any(axis=0)
            wanted = self._wanted(problem, block, free, away, moved)
            new = np.flatnonzero(wanted & ~away)
            if new.size:
                number = state.origin + first
                places.coming.change(str(number), None, [Coming(number, block, new)])
            places.away[rows] = wanted

    def _wanted(
        self, problem: Problem, block: Block, free: np.ndarray, away: np.ndarray, moved: np.ndarray
    ) -> np.ndarray:
        """Which of these rows should be in the one place, (m,) bool; as many as their share of its memory has room for.

        Rows with a dual between its bounds come first, then those that moved most, then those that are there.
        """
        matters = np.flatnonzero(free | away | (moved > 0.0))
        order = matters[np.lexsort((-moved[matters], ~free[matters]))]
        taken = np.cumsum(store.sizes_of(block)[order] + active_rows.ACTIVE_ROW_BYTES)
        wanted = np.zeros(block.rows(), bool)
        wanted[order[taken <= self.kept_bytes(problem) * nbytes(block) / problem.size]] = True
        return wanted

    @staticmethod
    def _caps(problem: Problem, state: P, rows: slice) -> np.ndarray:
        """The largest duals (K, m) of these rows."""
        known = labels_for(state.labels.of(rows), problem.outputs)
        return np.stack([known.caps_of(k) for k in range(problem.count)])

    def end_pass(self, problem: Problem, state: P, active: np.ndarray) -> PassReport | float:
        if not state.places.merged:
            state.places.merged = True
            self.end_certificate(problem, state)
            self.merge(problem, state, active)
            self._take(state)
        if (share := self.settle(problem, state, active)) is not None:
            return share
        figures = best_figures(problem, state.best)
        gaps = np.array([each.gap for each in figures])
        mistakes = int(sum(each.mistakes for each in figures))
        return PassReport(gaps, mistakes, figures, state.sweep.wrong.copy(), kept_rows=state.active.rows.count)

    def _take(self, state: P) -> None:
        """Drop the rows that went home, and add those that came; all are one piece, for one random order."""
        active: ActiveRows = state.active
        places: Places = state.places
        pieces = [*active.rows.pieces.values(), *places.coming.pieces.values()]
        staying = [np.flatnonzero(places.away[kept.ids]) for kept in pieces]
        active.rows = RowCache()
        places.coming = RowCache()
        if sum(map(len, staying)):
            ids = np.concatenate([kept.ids[here] for kept, here in zip(pieces, staying, strict=True)])
            found = store.gather([(kept.rows, here) for kept, here in zip(pieces, staying, strict=True)])
            active.rows.pieces["rows"] = Piece(ids, found)

    def settle(self, problem: Problem, state: P, active: np.ndarray) -> Share:
        """Visit the rows in one place until their own gaps are small: beside those of all rows, and the tolerance."""
        cached = state.active
        if not cached.rows.pieces or cached.settling >= SETTLING:
            return None
        if cached.settling == 0:
            active_rows.wake_rows(self.by_line(state)[1], cached)
        cached.settling += 1
        [piece] = cached.rows.pieces.values()
        group, found = group_of(piece.rows), np.zeros_like(state.figures)
        order = permutation(-(-piece.rows.rows() // group), problem.seed, state.number, 0, cached.settling, 2)
        self.steps(problem, state, active, piece, (order, group), found)
        known = np.minimum(np.array([each.gap for each in best_figures(problem, state.best)], np.float64), COARSE)
        goal = np.maximum(LEAST_OWN_GAP * problem.tol, SETTLED * known) * np.abs(state.best.primal)
        if (found[:, coupled_ascent.PASS_GAP] + self.behind(problem, state) <= goal)[active].all():
            self.skip_remaining(problem, state)
        return None if cached.settling >= SETTLING else cached.settling / SETTLING

    def skip_remaining(self, problem: Problem, state: P) -> None:
        state.active.settling = SETTLING


class ApartRows(Apart[ApartAscent], DualAscent[ApartAscent]):
    """A step for one dual after the other."""

    name = "ascent in several places"

    @staticmethod
    def by_line(state: ApartAscent) -> tuple[np.ndarray, np.ndarray]:
        return state.alpha, state.sleep

    def at_home(self, problem: Problem, state: ApartAscent, active: np.ndarray, block: Block, first: int) -> None:
        rows = slice(first, first + block.rows())
        own = labels_for(state.labels.cut(first, first + block.rows()), problem.outputs)
        before = state.alpha[:, rows].copy()
        self._pass(problem, state, active, block, first)
        for k in active:
            now, then = state.alpha[k, rows], before[k]
            state.places.gained[k] += dual_sums(own, problem.loss, k, now, now, 0.0)[0]
            state.places.gained[k] -= dual_sums(own, problem.loss, k, then, then, 0.0)[0]

    def _pass(self, problem: Problem, state: ApartAscent, active: np.ndarray, block: Block, first: int) -> None:
        sleep, curvature = np.zeros(state.alpha.shape, np.uint8), np.zeros(state.alpha.shape[1])
        sleep[:, state.places.away > 0] = ASLEEP
        constant = slow_constant.SlowConstant(centre=state.constant.centre.copy(), damping=state.constant.damping)
        slow_constant.damp(problem, state.labels, constant, [(first, block)])  # in the first round each for itself
        theta = state.theta + state.moved
        for again in range(VISITS):
            order = self.order_of(problem, state, block, first, again)
            turns = all_at_once(slow_constant.shortened(block, constant), numbered_from(first), *order)
            sdca.sdca_turns(
                turns, labels_of(problem, state), problem.loss, problem.norm, active, state.alpha, sleep, 0, curvature,
                theta, theta, np.zeros(problem.count), None, constant.centre, constant.damping,
                np.zeros_like(state.figures),
            )  # fmt: skip
        state.moved[active] = (theta - state.theta)[active]
        state.places.squares += float(curvature.sum())

    def merge(self, problem: Problem, state: ApartAscent, active: np.ndarray) -> None:
        if state.number == 1:
            slow_constant.damp_by(problem, state.constant, state.places.squares / problem.present, problem.column**2)
        rho, places = state.constant.damping or 1.0, state.places
        for k in active:
            moved, v = state.moved[k], slow_constant.seen(state.constant, k, state.theta[k].copy())
            square = float(moved @ moved) - (1.0 - rho) * float(moved[-1]) ** 2
            gamma = _share(places.gained[k] - float(v @ moved), square)
            state.alpha[k] = places.began[k] + gamma * (state.alpha[k] - places.began[k])
            state.theta[k] += gamma * moved

    def steps(
        self, problem: Problem, state: ApartAscent, active: np.ndarray, piece: Piece, order: tuple[np.ndarray, int],
        figures: np.ndarray,
    ) -> None:  # fmt: skip
        block = slow_constant.shortened(piece.rows, state.constant)
        self._visit(problem, state, active, all_at_once(block, RowNumbers(0, piece.ids), *order), figures)

    def behind(self, problem: Problem, state: ApartAscent) -> np.ndarray:
        return np.array([slow_constant.behind(state.constant, k, theta) for k, theta in enumerate(state.theta)])

    def weights(self, problem: Problem, state: ApartAscent) -> np.ndarray:
        return np.stack([self.frozen(problem, state, k) for k in range(problem.count)])

    def frozen(self, problem: Problem, state: ApartAscent, k: int) -> np.ndarray:
        return slow_constant.seen(state.constant, k, state.theta[k].copy())

    def duals(self, problem: Problem, state: ApartAscent) -> tuple[np.ndarray, np.ndarray]:
        return state.alpha, np.zeros((problem.count, 0), np.uint8)

    def rebuilt(self, problem: Problem, state: ApartAscent, k: int, theta: np.ndarray) -> None:
        state.theta[k] = theta


class ApartLines(Apart[ApartCoupled], Coupled[ApartCoupled]):
    """A step for all duals of one row after the other."""

    name = "coupled ascent in several places"

    @staticmethod
    def by_line(state: ApartCoupled) -> tuple[np.ndarray, np.ndarray]:
        return state.alpha.T, state.sleep.T

    def at_home(self, problem: Problem, state: ApartCoupled, active: np.ndarray, block: Block, first: int) -> None:
        rows, gained = slice(first, first + block.rows()), state.places.gained
        before, image = state.alpha[rows].copy(), state.W + state.moved
        asleep = np.full(state.sleep.shape, ASLEEP, np.uint8)
        sleep = np.where(state.places.away[:, None] > 0, asleep, np.uint8(0))
        for again in range(VISITS + 1):  # at the end all sleep, and their shares of the dual are summed up
            figures = np.zeros_like(state.figures)
            turns = take_turns([self._visit_of(problem, state, block, first, again)], 0, 1, 1)
            coupled_ascent.row_steps(
                turns, labels_of(problem, state), problem.loss, active, problem.lines, 0, state.alpha,
                sleep if again < VISITS else asleep, state.squares, image, figures,
            )  # fmt: skip
            gained += figures[:, coupled_ascent.PASS_DUAL_SHARE] * ((again == VISITS) - float(again == 0))
        state.moved[...] = image - state.W
        targets = state.labels.of(rows)
        for line in problem.lines_of(active) if targets.targets.size else ():
            change = state.alpha[rows, line] - before[:, line]
            gained[line // problem.lines] += float(change @ targets.targets_of(line))

    def merge(self, problem: Problem, state: ApartCoupled, active: np.ndarray) -> None:
        self.check_scale(problem, state)
        places, alpha = state.places, state.alpha.T
        for group in active:
            moved, v = (self._lines(problem, image, group) for image in (state.moved, state.W))
            gamma = _share(places.gained[group] - float((v * moved).sum()), float(np.square(moved).sum()))
            lines = problem.lines_of(group)
            alpha[lines] = places.began[lines] + gamma * (alpha[lines] - places.began[lines])
            v += gamma * moved

    def steps(
        self, problem: Problem, state: ApartCoupled, active: np.ndarray, piece: Piece, order: tuple[np.ndarray, int],
        figures: np.ndarray,
    ) -> None:  # fmt: skip
        self._visit(problem, state, active, all_at_once(piece.rows, RowNumbers(0, piece.ids), *order), figures)


def _share(gained: float, square: float) -> float:
    """The share of the moves at home that raises the dual most; square: of their sum's norm."""
    return min(max(gained / square, 0.0), 1.0) if square > 0.0 else 0.0
