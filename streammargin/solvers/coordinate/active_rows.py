"""A cache of active rows, whose duals still change, for data out of core; they are revisited besides later blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from streammargin.compiled.sleep import AWAKE
from streammargin.rows.blocks import nbytes
from streammargin.solvers.base import Blocks
from streammargin.solvers.cache import rows as cache
from streammargin.solvers.cache.rows import Coming, RowCache
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import Role, state

CACHE_PIECES = 32  # pieces of the cache; one or two are copied at a time, so copies need little memory
BESIDE = 5  # additional memory in pieces: copies, and unfilled parts of pieces
STAYING_ROWS_SHARE = 0.9375  # share of the cache filled by rows that stay; the rest is for new rows
PIECE_NAMES = [f"rows {part}" for part in range(CACHE_PIECES)]
BROUGHT = 0.75  # a piece is visited again each time blocks have brought 0.75 x its number of rows
ACTIVE_ROW_BYTES = 64  # bytes per row besides its values: its number, the change of its duals, and sorting
Parts = Sequence[str]  # names of pieces; a reference to a piece itself would keep it in memory besides its copy


@state
class ActiveRows:
    """The cache. brought: rows of blocks read since the last visit of a piece; turn: the next piece to visit;
    least: the change of its duals in a visit that a row must exceed to stay; settling: visits of all pieces since the
    last block of a pass.
    """

    rows: Annotated[RowCache, Role.KEPT]
    settling: int = 0
    brought: float = 0.0
    turn: int = 0
    least: float = 0.0


def cache_bytes(problem: Problem, state_bytes: int) -> int:
    """Bytes for the cache, 0 for rows in memory; state_bytes: of the state's arrays."""
    left = 0 if problem.resident else problem.budget - state_bytes
    most = cache.cache_budget(left, problem.size + _beside(problem) * problem.rows)
    return max(0, min(most, (left - cache.BUFFERS) * CACHE_PIECES // (CACHE_PIECES + BESIDE)))


def copies(budget: int) -> int:
    """Bytes for copies of pieces, and for their unfilled parts."""
    return BESIDE * budget // CACHE_PIECES


def due(active: ActiveRows, blocks: Blocks) -> Parts:
    """The cached pieces to visit now, in proportion to the rows that these blocks brought.

    Visiting all pieces at once would leave the disk idle meanwhile.
    """
    pieces, now = active.rows.pieces, []
    active.brought += sum(block.rows() for _, block in blocks)
    for name in PIECE_NAMES[active.turn :] + PIECE_NAMES[: active.turn]:
        if name in pieces:
            wanted = BROUGHT * pieces[name].ids.size
            if active.brought < wanted:
                break
            active.brought -= wanted
            now.append(name)
        active.turn = (PIECE_NAMES.index(name) + 1) % CACHE_PIECES
    else:
        active.brought = 0.0  # no piece is visited twice
    return now


def wake_rows(sleep: np.ndarray, active: ActiveRows) -> None:
    """Wake the cached rows. sleep (K, n) uint8."""
    for kept in active.rows.pieces.values():
        sleep[:, kept.ids] &= AWAKE


class Moves:
    """Measures the change of the duals alpha (K, n) of the rows of some blocks and cached pieces."""

    def __init__(self, alpha: np.ndarray, active: ActiveRows, blocks: Blocks, parts: Parts) -> None:
        self.alpha = alpha
        self.rows: list[slice | np.ndarray] = [slice(first, first + block.rows()) for first, block in blocks]
        self.rows += [active.rows.pieces[name].ids for name in parts]
        self.before: list[np.ndarray] = [np.array(alpha[:, rows]) for rows in self.rows]

    def made(self) -> list[np.ndarray]:
        """The changes since then, (m,) for each block and piece."""
        pairs = zip(self.rows, self.before, strict=True)
        return [np.abs(self.alpha[:, rows] - before).sum(axis=0) for rows, before in pairs]


def keep_active(problem: Problem, active: ActiveRows, blocks: Blocks, parts: Parts, moves: Moves, budget: int) -> None:
    """Keep the rows of the blocks and the cache whose duals changed most, in `budget` bytes.

    The threshold is updated, and rows are dropped, only when cached pieces (parts) were visited too.
    """
    made, pieces = moves.made(), active.rows.pieces
    _forget_kept(active.rows, blocks, made)
    each = active.rows.sizes(_beside(problem))
    sizes = [nbytes(block) / block.rows() + _beside(problem) for _, block in blocks]
    if parts or not pieces:
        of_each = np.repeat(sizes + [each[name] for name in parts], [moved.size for moved in made])
        others = sum(each[name] * kept.ids.size for name, kept in pieces.items() if name not in parts)
        own = max(STAYING_ROWS_SHARE * budget - others, STAYING_ROWS_SHARE * budget * len(parts) / CACHE_PIECES)
        moved = np.concatenate(made)
        moving = np.flatnonzero(moved)  # most duals stay at a bound
        active.least = max(0.0, -cache.threshold(-moved[moving], of_each[moving], int(own)))
    wanted = [np.flatnonzero(moved > active.least) for moved in made]
    staying = dict(zip(parts, wanted[len(blocks) :], strict=True))
    held = dict.fromkeys(PIECE_NAMES, 0.0)
    held |= {name: each[name] * staying.get(name, kept.ids).size for name, kept in pieces.items()}
    coming: dict[str, list[Coming]] = {name: [] for name in PIECE_NAMES}
    if sum(held.values()) + sum(size * ids.size for size, ids in zip(sizes, wanted, strict=False)) <= budget:
        for (first, block), size, ids in zip(blocks, sizes, wanted, strict=False):
            if ids.size:
                # fill pieces one after the other: each piece costs kernel calls
                smallest = min(held, key=lambda name: max(held[name], budget / (2 * CACHE_PIECES)))
                coming[smallest].append(Coming(first, block, ids))
                held[smallest] += size * ids.size
    for name in PIECE_NAMES:
        active.rows.change(name, staying.get(name), coming[name])


def _forget_kept(rows: RowCache, blocks: Blocks, made: list[np.ndarray]) -> None:
    """Set the change of rows that are cached already to 0 in the blocks, so that none is cached twice."""
    kept = rows.ids()
    for (first, block), moved in zip(blocks, made, strict=False):
        moved[kept[(kept >= first) & (kept < first + block.rows())] - first] = 0.0


def _beside(problem: Problem) -> int:
    """Bytes per row besides its values, including its duals before and after a visit."""
    return ACTIVE_ROW_BYTES + 2 * 8 * problem.count
