"""Active rows, whose duals still move: they stay in memory and are visited again beside the blocks that come later."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streammargin.compiled.sleep import AWAKE
from streammargin.rows.blocks import Block, nbytes
from streammargin.solvers.base import Blocks
from streammargin.solvers.cache import rows as cache
from streammargin.solvers.cache.rows import RowCache
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import state

BUFFERS = 3 << 20  # bytes that buffers want at least
PARTS = 32  # pieces of the rows kept: what is copied at a time is one or two, so that little room waits for copies
BESIDE = 5  # so many pieces more: one while it is copied, and what pieces do not fill
FULL = 0.9375  # of the room is taken by the rows that stay: the rest is for those that come before others can go
NAMES = [f"rows {part}" for part in range(PARTS)]
BROUGHT = 0.75  # a piece is visited again each time blocks have brought 0.75 x its number of rows
A_ROW = 64  # bytes beside its values: its number, how far its duals moved, and what is sorted
Parts = Sequence[str]  # names of pieces: one that is held elsewhere stays in memory beside its next copy


@state
class ActiveRows:
    """The rows kept. brought: rows of blocks since the last visit of a piece; turn: the next piece to be visited;
    least: how far the duals of a row must move in a visit for it to stay.
    """

    rows: RowCache
    brought: float = 0.0
    turn: int = 0
    least: float = 0.0


def room(problem: Problem, state_bytes: int) -> int:
    """Bytes for rows kept, where not all of them are in memory; state_bytes: of the arrays of the state."""
    left = 0 if problem.resident else problem.budget - state_bytes
    most = cache.room(left, BUFFERS, problem.size + _beside(problem) * problem.rows)
    return max(0, min(most, (left - BUFFERS) * PARTS // (PARTS + BESIDE)))


def copies(room: int) -> int:
    """Bytes for the copy of a piece, and for what pieces do not fill."""
    return BESIDE * room // PARTS


def due(active: ActiveRows, blocks: Blocks) -> Parts:
    """The pieces of the rows kept whose turn it is: as many as these blocks have brought rows for.

    All of them at once, when enough came, would let the disk rest meanwhile: the buffers are full soon.
    """
    pieces, now = active.rows.pieces, []
    active.brought += sum(block.rows() for _, block in blocks)
    for name in NAMES[active.turn :] + NAMES[: active.turn]:
        if name in pieces:
            wanted = BROUGHT * pieces[name].ids.size
            if active.brought < wanted:
                break
            active.brought -= wanted
            now.append(name)
        active.turn = (NAMES.index(name) + 1) % PARTS
    else:
        active.brought = 0.0  # none is visited twice
    return now


def wake(sleep: np.ndarray, blocks: Blocks) -> None:
    """A row whose dual rests at a bound sleeps from visit to visit, but not through a read: reads are few.

    sleep (K, n) uint8.
    """
    for first, block in blocks:
        sleep[:, first : first + block.rows()] &= AWAKE


class Moves:
    """How far the duals alpha (K, n) of the rows of some blocks, and of pieces of those kept, move from here on."""

    def __init__(self, alpha: np.ndarray, active: ActiveRows, blocks: Blocks, parts: Parts) -> None:
        self.alpha = alpha
        self.rows: list[slice | np.ndarray] = [slice(first, first + block.rows()) for first, block in blocks]
        self.rows += [active.rows.pieces[name].ids for name in parts]
        self.before = [np.array(alpha[:, rows]) for rows in self.rows]

    def made(self) -> list[np.ndarray]:
        """Of the rows of each block, and of each piece (m,)."""
        pairs = zip(self.rows, self.before, strict=True)
        return [np.abs(self.alpha[:, rows] - before).sum(axis=0) for rows, before in pairs]


def keep_active(problem: Problem, active: ActiveRows, blocks: Blocks, parts: Parts, moves: Moves, room: int) -> None:
    """Keep those rows of the blocks and of those kept whose duals moved furthest, in so many bytes.

    How far is far enough is known, and rows can go, where rows kept were visited too (parts).
    """
    made, pieces = moves.made(), active.rows.pieces
    _forget_kept(active.rows, blocks, made)
    each = active.rows.sizes(_beside(problem))
    sizes = [nbytes(block) / block.rows() + _beside(problem) for _, block in blocks]
    if parts or not pieces:
        of_each = np.repeat(sizes + [each[name] for name in parts], [moved.size for moved in made])
        others = sum(each[name] * kept.ids.size for name, kept in pieces.items() if name not in parts)
        own = max(FULL * room - others, FULL * room * len(parts) / PARTS)
        active.least = _limit(np.concatenate(made), of_each, int(own))
    wanted = [np.flatnonzero(moved > active.least) for moved in made]
    staying = dict(zip(parts, wanted[len(blocks) :], strict=True))
    held = dict.fromkeys(NAMES, 0.0)
    held |= {name: each[name] * staying.get(name, kept.ids).size for name, kept in pieces.items()}
    coming: dict[str, list[tuple[int, Block, np.ndarray]]] = {name: [] for name in NAMES}
    if sum(held.values()) + sum(size * ids.size for size, ids in zip(sizes, wanted, strict=False)) <= room:
        for (first, block), size, ids in zip(blocks, sizes, wanted, strict=False):
            if ids.size:
                # one after the other while they are few: a piece takes calls, however small it is
                smallest = min(held, key=lambda name: max(held[name], room / (2 * PARTS)))
                coming[smallest].append((first, block, ids))
                held[smallest] += size * ids.size
    for name in NAMES:
        active.rows.change(name, staying.get(name), coming[name])


def _forget_kept(rows: RowCache, blocks: Blocks, made: list[np.ndarray]) -> None:
    """No row is kept twice: those of the blocks that are kept already count as unmoved there."""
    kept = rows.ids()
    for (first, block), moved in zip(blocks, made, strict=False):
        moved[kept[(kept >= first) & (kept < first + block.rows())] - first] = 0.0


def _limit(moved: np.ndarray, each: np.ndarray, room: int) -> float:
    """The largest move of a row that there is no room for, 0 if there is room for all that moved."""
    moving = np.flatnonzero(moved)  # most rows rest at a bound
    return max(0.0, -cache.threshold(-moved[moving], each[moving], room))


def _beside(problem: Problem) -> int:
    """Bytes of a row beside its values: its duals before and after a visit too."""
    return A_ROW + 2 * 8 * problem.count
