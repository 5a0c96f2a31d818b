"""Maximum margin by an active set: a few hundred rows solved exactly, then one read that checks all rows."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from streammargin.compiled import active_set as kernel
from streammargin.compiled import row_norms as norms
from streammargin.compiled.margins import margins_block
from streammargin.penalties.mirror_maps import lp_norm
from streammargin.rows.blocks import Block
from streammargin.rows.labels import numbered_from
from streammargin.solvers.base import PassReport, Share, State
from streammargin.solvers.cache import rows as store
from streammargin.solvers.coordinate import asdca
from streammargin.solvers.newton.subproblem import matrix_work
from streammargin.solvers.old_state import Array, Layout, Number, Room
from streammargin.solvers.papers.whole_pass import WholePass
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.figures import Figures

SIDE = 128  # rows of each sign that a pass adds, and rows kept beside the support: without them passes go in circles
LIMIT = 1536  # rows of the largest small problem; more are the business of coordinate ascent
LEAST = 128  # the small problems may have so many rows, whatever the budget
SHARE = 2  # the small problems may take this part of the budget, or what the duals of the ascent would, or LEAST rows
ENTRIES = 6 << 20  # entries that the small problems of all classes may hold, 48 MB
# a Gram matrix that takes as many multiplications as so many passes costs more than what coordinate ascent has left
# to do, which needs more passes the smaller the tolerance (times its decimal places, squared)
WORK = 11
FEW = LIMIT // 4  # columns: with no more of them the support is never too large
EXACT = 1e-13  # a margin this small, relative to the mean norm of the rows, is 0
PIECE = 1 << 16  # rows looked at together when the first ones are drawn


class Ascent(asdca.Method):
    """Takes over where the support is too large; in float64, so that weights keep their certificates."""

    name = "active-set"


ASCENT = Ascent()


class Method(WholePass):
    """State per problem k: the rows kept of its small problem (`rows k`), their signs (`signs k`) and weights (`u k`).

    Every pass checks all rows with w frozen, so it is the certificate of w; it collects the rows with the
    smallest margins. The maximum margin over these rows and the ones kept (the support so far, and what comes next to
    it), found exactly, bounds the one over all rows from above and yields the next w. The first pass has no w yet and
    takes rows at random.
    """

    name = "active-set"
    summary = "exact solutions of small problems"
    prologue = 0
    requires = Ascent.requires

    def check(self, problem: Problem) -> None:
        super().check(problem)
        ASCENT.check(problem)

    def layout(self, problem: Problem) -> Layout:
        K, width = problem.count, problem.features + 1
        layout = super().layout(problem) | {
            "smallest": Array((K,)),
            "mistakes": Array((K,), np.int64),
            "wrong": Array((1,), np.int64),
            "filled": Array((2 * K,), np.int64),
            "keys": Array((2 * K, 0), grows=True),
            "heap_ids": Array((2 * K, 0), np.int64, grows=True),
            "upper": Array((K,)),
            "following": Array((K, width)),
            "due": Array((K,), bool),
            "ended": Number(False),
            "progress": Number(False),
            "ascent": Number(False),
            "full": Number(False),
            "entries": Number(0),
            "combined": Number(0),
        }
        for k in range(K):
            layout[f"drawn {k}"] = Array((0,), np.int64, grows=True)
            layout |= {f"{name} {k}": Array((0,), grows=True) for name in ("signs", "u")}
        # the small problems are gone before the duals of the ascent come
        largest = max(_small_bytes(problem, _most_rows(problem)), ASCENT.memory(_double(problem)))
        layout["rows that a pass adds"] = Room(K * 2 * SIDE * 16)
        layout["small problems, then the ascent"] = Room(largest)
        return layout

    def layout_now(self, problem: Problem, state: State) -> Layout:
        if not state.numbers["ascent"]:
            return self.layout(problem)
        numbers: Layout = {"ascent": Number(True), "combined": Number(0), "seen": Number(0)}
        return ASCENT.layout(_double(problem)) | {"row_norms": Array((norms.ROW_FIGURES,)), **numbers}

    def fits(self, problem: Problem, state: State) -> bool:
        if state.numbers["ascent"]:
            return True
        a, room = state.arrays, state.arrays["keys"].shape[1]
        heaps = a["heap_ids"].shape[1] == room and bool(np.all((a["filled"] >= 0) & (a["filled"] <= room)))
        sizes = ({a[f"signs {k}"].size, a[f"u {k}"].size, _ids(state, k).size} for k in range(problem.count))
        return heaps and all(len(same) == 1 for same in sizes)

    def begin_pass(self, problem: Problem, state: State, number: int) -> None:
        super().begin_pass(problem, state, number)
        if state.numbers["ascent"]:
            ASCENT.begin_pass(_double(problem), state, number)
            return
        a, K = state.arrays, problem.count
        a["smallest"][:], a["mistakes"][:], a["wrong"][:], a["filled"][:] = math.inf, 0, 0, 0
        a["due"][:], state.numbers["ended"] = False, False
        # a large support is still far from complete: as many again, where there is room
        support = max(int(np.count_nonzero(a[f"u {k}"])) for k in range(K))
        free = _limit(problem) - max(a[f"u {k}"].size for k in range(K))
        room = max(1, min(max(SIDE, support), free // 2)) if number > 1 else 0
        a["keys"], a["heap_ids"] = np.zeros((2 * K, room)), np.zeros((2 * K, room), np.int64)
        for k in range(K):
            state.kept.pop(f"new {k}", None)
            if number == 1:
                a[f"drawn {k}"] = np.sort(np.concatenate([_draw(problem, k, side) for side in (True, False)]))

    def run_block(self, problem: Problem, state: State, active: np.ndarray, block: Block, first: int) -> Share:
        a = state.arrays
        if state.numbers["ascent"]:
            return ASCENT.run_block(_double(problem), state, active, block, first)
        self.saw(problem, state, active, block)
        drawing, numbers = state.numbers["pass"] == 1, numbered_from(first)
        if drawing:
            state.numbers["entries"] += store.entries(block)
            norms.row_norms(block, numbers, problem.labels, 2.0, a["row_norms"])
        margins_block(
            block, numbers, problem.labels, False, a["w"], a["smallest"], a["mistakes"], a["wrong"], a["keys"],
            a["heap_ids"], a["filled"],
        )  # fmt: skip
        for k in active:
            if drawing:
                wanted = a[f"drawn {k}"]
            else:
                heaps = [a["heap_ids"][line, : a["filled"][line]] for line in (2 * k, 2 * k + 1)]
                wanted = np.setdiff1d(np.concatenate(heaps), _ids(state, k))
            self._collect(problem, state, k, block, first, wanted)
        return None

    def _collect(self, problem: Problem, state: State, k: int, block: Block, first: int, wanted: np.ndarray) -> None:
        """Copy the rows wanted out of the block; of the earlier ones keep those that still are."""
        here = wanted[(wanted >= first) & (wanted < first + block.rows())]
        new = state.kept.get(f"new {k}")
        if new is not None:
            still = np.flatnonzero(np.isin(new.ids, wanted))
            if not here.size and still.size == new.ids.size:
                return
            new = store.choose(new, still)
        elif not here.size:
            return
        new = store.add(new, store.keep(block, first, here))
        if store.entries(new.rows) > _most_entries(problem):
            state.numbers["full"] = True
        else:
            state.kept[f"new {k}"] = new

    def leave_out(self, problem: Problem, state: State) -> None:
        if not state.numbers["ascent"]:
            self._list(state, np.empty(0, np.int64))

    def _list(self, state: State, problems: np.ndarray) -> None:
        """The small problems that are to be solved, before the pass is reported; where it began, all of them."""
        a, numbers = state.arrays, state.numbers
        if not numbers["ended"]:
            numbers["ended"] = numbers["progress"] = True
            a["upper"][:], a["following"][:] = math.inf, a["w"]
        a["due"][:] = False
        a["due"][problems] = True

    def end_pass(self, problem: Problem, state: State, active: np.ndarray) -> PassReport | float:
        if state.numbers["ascent"]:
            return ASCENT.end_pass(_double(problem), state, active)
        a, numbers = state.arrays, state.numbers
        if not numbers["ended"]:
            if numbers["pass"] == 1:
                self.check_scale(state)
            self._list(state, active)
        if a["due"].any():
            k = int(np.argmax(a["due"]))
            self._improve(problem, state, k)
            a["due"][k] = False
            return 1.0 - float(a["due"].sum()) / problem.count
        wrong = a["wrong"].copy() if problem.count > 1 else None
        report = self.report(problem, state, a["w"], a["smallest"], a["upper"], a["mistakes"], wrong)
        a["w"] = a["following"].copy()
        if not numbers["progress"]:
            self._hand_over(problem, state)
        return report

    def _improve(self, problem: Problem, state: State, k: int) -> None:
        """A better bound and the next weights of problem k, if it is not within the tolerance."""
        a = state.arrays
        size = lp_norm(a["w"][k], 2.0)
        lower = a["smallest"][k] / size if size > 0.0 else -math.inf
        if problem.count == 1:
            lower = max(lower, float(a["best_lower"][k]))
        if lower >= (1.0 - min(problem.tol, 1.0)) * a["best_upper"][k] or a["row_norms"][norms.EMPTY] > 0.0:
            return
        # the row that is furthest off must be new, and must bring the bound down: if not, rounding rules
        if self._worst(state, k) in _ids(state, k) or not self._extend(problem, state, k):
            state.numbers["progress"] = False
            return
        a["upper"][k], a["following"][k] = self._solve(problem, state, k)
        state.numbers["progress"] &= bool(a["upper"][k] < (1.0 - 1e-3 * problem.tol) * a["best_upper"][k])

    def smallest_margin(self, problem: Problem, state: State) -> float:
        # exact solutions come to 0 at once where nothing separates the rows: until the ascent takes over, no margin
        # above rounding need be given up
        if not state.numbers["ascent"]:
            problem = replace(problem, tol=min(problem.tol, EXACT))
        return super().smallest_margin(problem, state)

    def terms(self, problem: Problem, state: State) -> float:
        return state.numbers["combined"]

    def _worst(self, state: State, k: int) -> int:
        """The row with the smallest margin; -1 in the first pass, which has none."""
        a = state.arrays
        keys, ids, filled = (a[name][2 * k : 2 * k + 2] for name in ("keys", "heap_ids", "filled"))
        found = [(keys[side, place], ids[side, place]) for side in (0, 1) for place in range(filled[side])]
        return int(min(found)[1]) if found else -1

    def _extend(self, problem: Problem, state: State, k: int) -> bool:
        """The rows kept, and the new ones; False if there are none, or no room for them."""
        a = state.arrays
        new = state.kept.get(f"new {k}")
        if new is None or not new.ids.size or state.numbers["full"]:
            return False
        both = store.add(state.kept.get(f"rows {k}"), new)
        rows = both.rows
        worth = WORK * math.log10(min(max(problem.tol, 1e-16), 0.1)) ** 2 * state.numbers["entries"]
        # coordinate ascent has squares of the norms, which must be numbers
        fit = 1e-100 < self.largest_norm(state) < 1e100
        # no support has more rows than d + 1: of few columns it will soon be complete
        large = problem.rows > LIMIT and problem.features > FEW
        too_much = fit and large and store.entries(rows) * rows.rows() > worth
        if too_much or rows.rows() > _limit(problem) or store.entries(rows) > _most_entries(problem):
            return False
        signs = np.where(problem.codes[new.ids] == problem.positive[k], 1.0, -1.0)
        for name, values in (("signs", signs), ("u", np.zeros(new.ids.size))):
            a[f"{name} {k}"] = np.concatenate([a[f"{name} {k}"], values])
        state.kept[f"rows {k}"] = both
        del state.kept[f"new {k}"]
        return True

    def _solve(self, problem: Problem, state: State, k: int) -> tuple[float, np.ndarray]:
        """A bound of the margin of problem k from its rows, and weights: both exact but for rounding."""
        a = state.arrays
        rows, signs, u = state.kept[f"rows {k}"].rows, a[f"signs {k}"], a[f"u {k}"]
        R = self.largest_norm(state)
        state.numbers["combined"] = max(state.numbers["combined"], u.size)
        gram = np.empty((u.size, u.size))
        kernel.gram_matrix(rows, signs, R, gram)
        kernel.nearest_point(gram, u, 0.1 * problem.tol, problem.features + 2)
        state.multiplications += store.entries(rows) * u.size / 2 + matrix_work(u.size, 0.0, 0.0)
        v = np.zeros(problem.features + 1)
        kernel.combine(rows, signs * u, R, v)
        self._prune(problem, state, k, gram @ u)
        size, total = lp_norm(v, 2.0), float(u.sum())
        if size > 0.0:
            v /= size
            v /= size / total * R  # the margins of the support become 1
        return (size / total * R if total > 0.0 else math.inf), v

    def _prune(self, problem: Problem, state: State, k: int, margins: np.ndarray) -> None:
        """Keep the support, and of the other rows those with the smallest margins (M,)."""
        a = state.arrays
        support = a[f"u {k}"] > 0.0
        more = min(SIDE, (_limit(problem) - int(support.sum())) // 4)
        order = np.argsort(np.where(support, -math.inf, margins), kind="stable")
        kept = np.sort(order[: int(support.sum()) + max(0, more)])
        state.kept[f"rows {k}"] = store.choose(state.kept[f"rows {k}"], kept)
        for name in ("signs", "u"):
            a[f"{name} {k}"] = a[f"{name} {k}"][kept]

    def _hand_over(self, problem: Problem, state: State) -> None:
        """From here on coordinate ascent, from the duals of the small problems; bounds and best weights stay."""
        a = state.arrays
        ids = [_ids(state, k) for k in range(problem.count)]
        state.kept.clear()
        ascent = ASCENT.start(_double(problem))
        for k in range(problem.count):
            u = a[f"u {k}"]
            size = lp_norm(a["w"][k], 2.0)
            total = float(u.sum())
            if size > 0.0 and total > 0.0:
                # w = sum alpha_i a_i, of length 1 / margin, while u belongs to rows divided by R
                ascent.arrays["alpha"][k, ids[k]] = u / total * size * size
                ascent.arrays["theta"][k] = a["w"][k]
        kept = ("best", "best_lower", "best_upper", "best_mistakes", "row_norms")
        state.arrays = {**ascent.arrays, **{name: a[name].copy() for name in kept}}  # that ascent writes
        numbers = {name: state.numbers[name] for name in ("pass", "combined", "seen")}
        state.numbers = {**ascent.numbers, **numbers, "ascent": True}

    def begin_certificate(self, problem: Problem, state: State, active: np.ndarray) -> None:
        ASCENT.begin_certificate(_double(problem), state, active)

    def certify_block(self, problem: Problem, state: State, block: Block, first: int) -> None:
        ASCENT.certify_block(_double(problem), state, block, first)

    def end_certificate(self, problem: Problem, state: State) -> tuple[list[Figures], np.ndarray]:
        return ASCENT.end_certificate(_double(problem), state)

    def weights(self, problem: Problem, state: State) -> np.ndarray:
        return ASCENT.weights(problem, state) if state.numbers["ascent"] else super().weights(problem, state)


def _ids(state: State, k: int) -> np.ndarray:
    """Numbers of the rows of the small problem k."""
    kept = state.kept.get(f"rows {k}")
    return np.empty(0, np.int64) if kept is None else kept.ids


def _double(problem: Problem) -> Problem:
    return replace(problem, dtype=np.dtype(np.float64))


def _limit(problem: Problem) -> int:
    """Rows of the largest small problem."""
    limit = LIMIT
    room = max(problem.budget // SHARE, ASCENT.memory(_double(problem)))
    while limit > LEAST and _small_bytes(problem, limit) > room:
        limit = max(LEAST, limit * 7 // 8)
    return limit


def _small_bytes(problem: Problem, rows: int) -> int:
    """What small problems of so many rows take: the rows, twice where old and new ones are joined, and products."""
    held = 2 * _entries(problem, rows) * (max(4, problem.dtype.itemsize) + 4) + rows * 64
    return problem.count * held + 2 * 8 * rows * rows


def _entries(problem: Problem, rows: int) -> int:
    # sparse rows: the ones that matter may be longer than the others
    stored = 2 * rows * problem.entries // problem.rows + problem.features if problem.entries else ENTRIES
    return min(rows * problem.features, stored, ENTRIES // problem.count)


def _most_rows(problem: Problem) -> int:
    return min(problem.rows, _limit(problem))


def _most_entries(problem: Problem) -> int:
    return _entries(problem, _most_rows(problem))


def _draw(problem: Problem, k: int, positive: bool) -> np.ndarray:
    """At most SIDE rows at random of those present with this sign in problem k."""
    most = min(SIDE, _limit(problem) // 2)
    random = np.random.default_rng((problem.seed, k, int(positive)))
    keys, ids = np.empty(0), np.empty(0, np.int64)
    for first in range(0, problem.rows, PIECE):
        piece = slice(first, first + PIECE)
        here = np.flatnonzero(problem.there(piece) & ((problem.codes[piece] == problem.positive[k]) == positive))
        keys, ids = np.concatenate([keys, random.random(here.size)]), np.concatenate([ids, first + here])
        if keys.size > most:
            chosen = np.argpartition(keys, most)[:most]
            keys, ids = keys[chosen], ids[chosen]
    return ids
