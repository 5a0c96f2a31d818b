"""Rows whose duals still move: they stay in memory and are visited again beside the blocks that come later."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streammargin.compiled.sleep import AWAKE
from streammargin.rows.blocks import Block, nbytes
from streammargin.solvers.base import Blocks
from streammargin.solvers.cache import rows as store
from streammargin.solvers.old_state import Kept, Layout, Number, Room, State, layout_bytes
from streammargin.solvers.problem import Problem

BUFFERS = 3 << 20  # bytes that buffers want at least
PARTS = 32  # pieces of the rows kept: what is copied at a time is one or two, so that little room waits for copies
BESIDE = 5  # so many pieces more: one while it is copied, and what pieces do not fill
FULL = 0.9375  # of the room is taken by the rows that stay: the rest is for those that come before others can go
NAMES = [f"rows {part}" for part in range(PARTS)]
BROUGHT = 0.75  # rows that blocks bring, over those of a piece, before its next visit beside them
A_ROW = 64  # bytes beside its values: its number, how far its duals moved, and what is sorted
Parts = Sequence[str]  # names in state.kept: a piece that is held elsewhere stays in memory beside its next copy


def room_for_rows(problem: Problem, vectors: Layout) -> Layout:
    """Room for rows kept, where not all of them are in memory."""
    left = 0 if problem.resident else problem.budget - layout_bytes(vectors)
    room = store.room(left, BUFFERS, problem.size + _beside(problem) * problem.rows)
    room = max(0, min(room, (left - BUFFERS) * PARTS // (PARTS + BESIDE)))
    return {
        "rows kept": Room(room),
        "the copy of a piece, and what pieces do not fill": Room(BESIDE * room // PARTS),
        "brought": Number(0.0),
        "turn": Number(0),
        "least": Number(0.0),
    }


def due(state: State, blocks: Blocks) -> Parts:
    """The pieces of the rows kept whose turn it is: as many as these blocks have brought rows for.

    All of them at once, when enough came, would let the disk rest meanwhile: the buffers are full soon.
    """
    numbers, now = state.numbers, []
    numbers["brought"] += sum(block.rows() for _, block in blocks)
    for name in NAMES[numbers["turn"] :] + NAMES[: numbers["turn"]]:
        if name in state.kept:
            wanted = BROUGHT * state.kept[name].ids.size
            if numbers["brought"] < wanted:
                break
            numbers["brought"] -= wanted
            now.append(name)
        numbers["turn"] = (NAMES.index(name) + 1) % PARTS
    else:
        numbers["brought"] = 0.0  # none is visited twice
    return now


def wake(state: State, blocks: Blocks) -> None:
    """A row whose dual rests at a bound sleeps from visit to visit, but not through a read: reads are few."""
    for first, block in blocks:
        state.arrays["sleep"][:, first : first + block.rows()] &= AWAKE


class Moves:
    """How far the duals of the rows of some blocks, and of pieces of those kept, move from here on."""

    def __init__(self, state: State, blocks: Blocks, parts: Parts) -> None:
        self.rows: list[slice | np.ndarray] = [slice(first, first + block.rows()) for first, block in blocks]
        self.rows += [state.kept[name].ids for name in parts]
        self.before = [np.array(state.arrays["alpha"][:, rows]) for rows in self.rows]

    def made(self, state: State) -> list[np.ndarray]:
        """Of the rows of each block, and of each piece (m,)."""
        pairs = zip(self.rows, self.before, strict=True)
        return [np.abs(state.arrays["alpha"][:, rows] - before).sum(axis=0) for rows, before in pairs]


def keep_restless(problem: Problem, state: State, blocks: Blocks, parts: Parts, moves: Moves, room: int) -> None:
    """Keep those rows of the blocks and of those kept whose duals moved furthest, in so many bytes.

    How far is far enough is known, and rows can go, where rows kept were visited too (parts).
    """
    made = moves.made(state)
    _forget_kept(state, blocks, made)
    each = {name: nbytes(kept.rows) / kept.ids.size + _beside(problem) for name, kept in state.kept.items()}
    sizes = [nbytes(block) / block.rows() + _beside(problem) for _, block in blocks]
    if parts or not state.kept:
        of_each = np.repeat(sizes + [each[name] for name in parts], [moved.size for moved in made])
        others = sum(each[name] * kept.ids.size for name, kept in state.kept.items() if name not in parts)
        own = max(FULL * room - others, FULL * room * len(parts) / PARTS)
        state.numbers["least"] = _limit(np.concatenate(made), of_each, int(own))
    least = state.numbers["least"]
    wanted = [np.flatnonzero(moved > least) for moved in made]
    staying = dict(zip(parts, wanted[len(blocks) :], strict=True))
    held = dict.fromkeys(NAMES, 0.0)
    held |= {name: each[name] * staying.get(name, kept.ids).size for name, kept in state.kept.items()}
    coming: dict[str, list[tuple[int, Block, np.ndarray]]] = {name: [] for name in NAMES}
    if sum(held.values()) + sum(size * ids.size for size, ids in zip(sizes, wanted, strict=False)) <= room:
        for (first, block), size, ids in zip(blocks, sizes, wanted, strict=False):
            if ids.size:
                # one after the other while they are few: a piece takes calls, however small it is
                smallest = min(held, key=lambda name: max(held[name], room / (2 * PARTS)))
                coming[smallest].append((first, block, ids))
                held[smallest] += size * ids.size
    for name in NAMES:
        _change(state, name, staying.get(name), coming[name])


def _change(
    state: State, name: str, staying: np.ndarray | None, coming: Sequence[tuple[int, Block, np.ndarray]]
) -> None:
    """Of this piece keep the rows at these positions, or all, and with them those of blocks: one copy of all of it."""
    kept = state.kept.get(name)
    if not coming and (kept is None or staying is None or staying.size == kept.ids.size):
        return
    ids = [first + positions for first, _, positions in coming]
    rows = [(block, positions) for _, block, positions in coming]
    if kept is not None and (staying is None or staying.size):
        staying = np.arange(kept.ids.size) if staying is None else staying
        ids, rows = [kept.ids[staying], *ids], [(kept.rows, staying), *rows]
    if rows:
        state.kept[name] = Kept(np.concatenate(ids), store.gather(rows, None if kept is None else kept.rows))
    else:
        del state.kept[name]


def _forget_kept(state: State, blocks: Blocks, made: list[np.ndarray]) -> None:
    """No row is kept twice: those of the blocks that are kept already count as unmoved there."""
    kept = np.concatenate([np.empty(0, np.int64), *(piece.ids for piece in state.kept.values())])
    for (first, block), moved in zip(blocks, made, strict=False):
        moved[kept[(kept >= first) & (kept < first + block.rows())] - first] = 0.0


def _limit(moved: np.ndarray, each: np.ndarray, room: int) -> float:
    """The largest move of a row that there is no room for, 0 if there is room for all that moved."""
    moving = np.flatnonzero(moved)  # most rows rest at a bound
    furthest = moving[np.argsort(-moved[moving])]
    last = int(np.searchsorted(np.cumsum(each[furthest]), room, side="right"))
    return float(moved[furthest[last]]) if last < furthest.size else 0.0


def _beside(problem: Problem) -> int:
    """Bytes of a row beside its values: its duals before and after a visit too."""
    return A_ROW + 2 * 8 * problem.count
