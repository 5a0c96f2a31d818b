"""Rows whose duals still move: they stay in memory and are visited again beside the blocks that come later."""

from __future__ import annotations

import numpy as np

from streammargin.solvers import row_store as store
from streammargin.solvers.base import Blocks, Problem
from streammargin.solvers.state import Kept, Layout, Room, State, layout_bytes
from streammargin.specs.blocks import nbytes

BUFFERS = 3 << 20  # bytes that buffers want at least
PARTS = 32  # the rows kept lie in so many pieces: what is copied at a time is one of them
# Passes to a gap of 1e-3 on 400,000 x 200,000 rows of text (256 MB), C = 1, with a tenth and a fifth of the bytes for
# rows kept and buffers, and (all visits of rows, over the rows there are):
#   none kept, two visits   11 (22), 11 (22)
#   one visit                7 (23),  5 (25)
#   two visits               6 (43),  5 (41)
#   three visits                      4 (45)
MANY = 0.125  # more of the bytes than this, and there are three visits
A_ROW = 64  # bytes beside its values: its number, how far its duals moved, and what is sorted


def room_for_rows(problem: Problem, vectors: Layout) -> Layout:
    """Room for rows kept, where not all of them are in memory."""
    left = 0 if problem.resident else problem.budget - layout_bytes(vectors)
    room = store.room(left, BUFFERS, problem.size + _beside(problem) * problem.rows)
    return {"rows kept": Room(room), "the copy of a piece, and where its values stood": Room(3 * room // PARTS)}


def visits(problem: Problem, room: int) -> int:
    """How often rows that are there together are visited before the next ones come."""
    return 3 if room > MANY * problem.size else 1


def forget(state: State, blocks: Blocks) -> None:
    """Drop the rows that these blocks bring."""
    for name in sorted(state.kept):
        ids = state.kept[name].ids
        here = np.zeros(ids.size, bool)
        for first, block in blocks:
            here |= (ids >= first) & (ids < first + block.rows())
        _choose(state, name, ~here)


def kept_parts(state: State) -> list[tuple[str, Kept]]:
    """The rows kept, in their pieces."""
    return sorted(state.kept.items())


class Moves:
    """How far the duals of the rows of some blocks, and of those kept, move from here on."""

    def __init__(self, state: State, blocks: Blocks) -> None:
        self.numbers = [np.arange(first, first + block.rows()) for first, block in blocks]
        self.numbers += [kept.ids for _, kept in kept_parts(state)]
        self.before = self._duals(state)

    def _duals(self, state: State) -> list[np.ndarray]:
        return [state.arrays["alpha"][:, ids] for ids in self.numbers]

    def made(self, state: State) -> list[np.ndarray]:
        """Of the rows of each block, and of each piece of those kept (m,)."""
        pairs = zip(self._duals(state), self.before, strict=True)
        return [np.abs(after - before).sum(axis=0) for after, before in pairs]


def keep_restless(problem: Problem, state: State, blocks: Blocks, moves: Moves, room: int) -> None:
    """Keep those rows of the blocks and of those kept whose duals moved furthest, in so many bytes."""
    names, made = sorted(state.kept), moves.made(state)
    rows = [block for _, block in blocks] + [state.kept[name].rows for name in names]
    counts = np.array([block.rows() for block in rows])
    each = np.array([nbytes(block) for block in rows]) / counts + _beside(problem)
    del rows  # a piece goes as soon as its next copy is there
    least = _limit(np.concatenate(made), np.repeat(each, counts), room)
    for name, moved in zip(names, made[len(blocks) :], strict=True):
        _choose(state, name, moved > least)
    sizes = {f"rows {part}": 0 for part in range(PARTS)}
    sizes |= {name: nbytes(kept.rows) for name, kept in state.kept.items()}
    for (first, block), moved in zip(blocks, made, strict=False):
        new = np.flatnonzero(moved > least)
        if new.size:
            smallest = min(sizes, key=lambda name: sizes[name])
            state.kept[smallest] = store.add(state.kept.get(smallest), store.keep(block, first, first + new))
            sizes[smallest] = nbytes(state.kept[smallest].rows)


def _limit(moved: np.ndarray, each: np.ndarray, room: int) -> float:
    """The largest move of a row that there is no room for, 0 if there is room for all that moved."""
    furthest = np.argsort(-moved, kind="stable")
    last = int(np.searchsorted(np.cumsum(each[furthest]), room, side="right"))
    return float(moved[furthest[last]]) if last < moved.size else 0.0


def _beside(problem: Problem) -> int:
    """Bytes of a row beside its values: its duals before and after a visit too."""
    return A_ROW + 2 * 8 * problem.count


def _choose(state: State, name: str, wanted: np.ndarray) -> None:
    """Keep the rows wanted (m,) bool of this piece."""
    if not wanted.any():
        del state.kept[name]
    elif not wanted.all():
        state.kept[name] = store.choose(state.kept[name], np.flatnonzero(wanted))
