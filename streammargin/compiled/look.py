"""For frozen weights, block by block: the exact sums that certify them, and a step of the duals.

Rows are processed in chunks that stay in the cache. First all scores are computed. Then the quantities of a chunk's
rows are stored in columns, so that losses are vectorised over rows. The combinations of rows are added last.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple, cast

import numpy as np
from numba.extending import register_jitable

from streammargin.compiled.careful import carried_sum, margin_rounding
from streammargin.compiled.classes import count_confused
from streammargin.compiled.jit import kernel
from streammargin.compiled.judged import (
    APART,
    CAPS,
    CENTRES,
    CHUNK_GAPS,
    DUAL_SHARES,
    EPSILONS,
    EXTRA,
    FIELDS,
    KEPT_DUALS,
    MARGINS,
    OFF,
    SAID,
    SIGNS,
    SIZES,
    SLACK,
    SLIPPED,
    SURELY,
    TARGETS,
    VALUE,
    A,
    StepAsked,
    frozen_judge_of,
    judge_of,
)  # fmt: skip
from streammargin.compiled.overloads import ALONG, REORDERED, along
from streammargin.compiled.row_norms import length_of
from streammargin.compiled.samples import ONLY_PROBLEM, SampleBlock, counts, weights
from streammargin.losses.base import coupled, has
from streammargin.rows.blocks import GRAM_ROWS, Block, DenseBlock, add_outer_products
from streammargin.rows.labels import Labels, RowNumbers
from streammargin.rows.products import AHEAD, MANY_LINES, add_pulls, in_float64, lengths, scores

# columns of the sums of the weights, and of those of the duals; compensation terms are last.
# SUM_OF_GAPS: of the losses' gaps; ADDED: number of additions in an entry of `pull`, without those within a chunk
SUM_OF_LOSSES, SUM_OF_MISTAKES, ROUNDING, SUM_OF_GAPS, LOSS_CARRY, LOSS_SUMS = range(6)
DUAL, ALPHA, SUMMED, PULLED, MOVED, ADDED, CARRY = range(7)
DUAL_SUMS = CARRY + 2
LOSS_CARRIED, DUAL_CARRIED = ((SUM_OF_LOSSES, LOSS_CARRY),), ((DUAL, CARRY), (ALPHA, CARRY + 1))
CHUNK_ROWS = 512  # at most
MOST_CHUNK_VALUES = 1 << 16  # roughly: half a megabyte
EMPTY_LINE, NOWHERE, NO_COLUMNS = np.zeros((1, 0)), np.zeros((1, 1, 0)), np.zeros((1, 0), np.int64)
NO_NORMS, NO_KEYS = np.zeros(0), np.zeros(0, np.float32)
BOTH_SIDES = -1  # in place of a side
# sums of a line: cap of_share(p) over all rows (losses/__init__.py); cap and cap ||x_i|| over the rows of its class
SUM_OF_PARTS, SUM_OF_CAPS, SUM_OF_LENGTHS, PART_SUMS = range(4)
# of frozen duals: the smallest slack of a row, a margin or minus a violation; SAFE_SLACK: the same at the worst margins
# that rounding leaves open; LARGEST_ROW_NORM: the largest ||x_i||_2
LEAST_SLACK, SAFE_SLACK, LARGEST_ROW_NORM, EXTREMES = range(4)


class Frozen(NamedTuple):
    """Weights w (V, K, d+1): the duals use the margins of the first; for the others only figures are computed.

    `multiplier`  (V, K): of the bound on the duals' sum. It is added to the margins of classes, and changes the loss of
                  numbers (`lifted`).
    `blur`        (V, K): eps times the norms of the weights.
    `norms`       (n,): of the rows, 0 until first needed. (0,): not kept.
    """

    w: np.ndarray
    multiplier: np.ndarray
    blur: np.ndarray
    norms: np.ndarray = NO_NORMS


class Prox(NamedTuple):
    """a_i = argmax over feasible a of dual_i(a) - a u_i - L_i/2 (a - centre_i)^2, L_i = curvature + softness / cap_i.

    `curvatures`  (K,), inf: duals that stay; softness (K,); both 0: the duals that are best for the margins as they
                  are.
    `centres`     (K, n), or (K, 0): `midway` times the caps; alpha (K, n) out, may be the centres, or (K, 0): not
                  wanted.
    `twice`       alpha makes the step, and what is pulled extrapolates from there (the Pdprox paper's Algorithm 1).
    `total`       (K, n), or (K, 0): the duals are added to it.
    `steepest`    if above 0, the slope of every row is this times its cap.
    `crisp`       (K,): a centre that is nan is a step from the midpoint with this softness; or (0,): none is nan.
    `base`        the number of the row that the first centre, dual, margin and key belong to.
    `gaps`        whether SUM_OF_GAPS is wanted; with second derivatives it is.
    """

    centres: np.ndarray
    alpha: np.ndarray
    curvatures: np.ndarray
    softness: np.ndarray
    twice: bool = False
    total: np.ndarray = EMPTY_LINE
    steepest: float = 0.0
    midway: float = 0.0
    crisp: np.ndarray = NO_NORMS
    base: int = 0
    gaps: bool = False


class Looked(NamedTuple):
    """The sums that `look` adds to.

    `losses`      (V, K, LOSS_SUMS): of all weights.
    `duals`       (K, S, DUAL_SUMS). ALPHA: sum of |a_i|. MOVED: sum of softness / cap_i (alpha_i - centre_i)^2; without
                  softness, of these squares alone. With S = 2 the second sums are of the duals that decrease the
                  constant.
    `pull`        (K, S, d+1): sum_i a_i x_i.
    `confused`    (V, trials): for several classes, rows whose class is not the one with the largest score.
    `margins`     (V, K, n), or (V, K, 0): set to the margins of the rows, without a multiplier.
    `keys`        (n,) float32, or (0,): set to t / (1 + t), the smallest of all lines. Here t is the distance of u from
                  the curved part of the loss.
    `class_sums`  (K, d+1), or (0, ...): of a coupled loss whose duals add up to 0 over the lines.
    `parts`       (K, PART_SUMS), or (0, ...): of the same loss.
    `extremes`    (K, EXTREMES), or (0, ...): of the first weights and frozen duals, from (inf, inf, 0).

    With S = 0 no duals are wanted.
    """

    losses: np.ndarray
    duals: np.ndarray
    pull: np.ndarray
    confused: np.ndarray
    margins: np.ndarray = NOWHERE
    class_sums: np.ndarray = EMPTY_LINE[:0]
    parts: np.ndarray = EMPTY_LINE[:0]
    keys: np.ndarray = NO_KEYS
    extremes: np.ndarray = EMPTY_LINE[:0]


class Curvature(NamedTuple):
    """Second derivatives that `look` adds to: upper triangles of A^T diag(slope_i) A.

    `lines`     (K, m, m): of the m working columns of each line, with slopes of its own.
    `crossed`   (groups, L (d+1), L (d+1)), for a coupled loss of L lines. It is sum_i (c_i x x_i) (c_i x x_i)^T,
                x: Kronecker product, and is subtracted from the lines' matrices. (0, 0, 0) for other losses.
    `columns`   (K, m): these columns, ascending, the constant last; (1, 0): all, and m = d+1.
    `diagonal`  (K, d+1): out, of all columns; (0, 0): not wanted.
    `places`    (K, d+1): of each column, its place in `columns`, or -1; `look` sets it.
    `drift`     (K, d+1): minus the derivative of `pull` by the logarithm of the softness; (0, 0): not wanted.
    `active`    (K,): the number of rows with a positive slope is added to it; (0,): not wanted.
    """

    lines: np.ndarray
    crossed: np.ndarray = NOWHERE[:0]
    columns: np.ndarray = NO_COLUMNS
    diagonal: np.ndarray = EMPTY_LINE[:0]
    places: np.ndarray = NO_COLUMNS
    drift: np.ndarray = EMPTY_LINE[:0]
    active: np.ndarray = NO_NORMS

    def placed(self, width: int) -> Curvature:
        """The same with `places`, or with no columns if they are all; width: d+1."""
        lines, m = self.columns.shape
        if m in (0, width):
            return self._replace(columns=NO_COLUMNS)
        places = np.full((lines, width), -1)
        places[np.arange(lines)[:, None], self.columns] = np.arange(m)
        return self._replace(places=places)


class Scratch(NamedTuple):
    """Temporary arrays for a chunk, whose rows are numbers within the block.

    `columns`, `slopes`  (FIELDS, lines, CHUNK_ROWS) and (2 lines, CHUNK_ROWS), as in judged.py. lines: rows of weights
                         that a loss couples, or 1.
    `said`               (SAID,), as in judged.py.
    `shift`              (V, K): added to the margins.
    `lengths`            (CHUNK_ROWS,): norms of the chunk's rows.
    `mine`               (lines, CHUNK_ROWS): the rows that a line has.
    `listed`, `factors`  (CHUNK_ROWS,): rows that are added up.
    `scores`             (V, K, CHUNK_ROWS).
    `few`, `part`        (GRAM_ROWS, m) and (d+1,).
    `pulled`             (K, CHUNK_ROWS): how much each row pulls, to be added later. Scores and lengths are then known.
                         (0, 0): each row pulls at once.
    """

    columns: np.ndarray
    slopes: np.ndarray
    said: np.ndarray
    shift: np.ndarray
    lengths: np.ndarray
    mine: np.ndarray
    listed: np.ndarray
    factors: np.ndarray
    scores: np.ndarray
    few: np.ndarray
    part: np.ndarray
    pulled: np.ndarray


def look(
    block: Block, numbers: RowNumbers, labels: Labels, loss: Any, problems: np.ndarray, point: Frozen, rule: Prox,
    found: Looked, H: Curvature | None = None, frozen: bool = False,
) -> None:  # fmt: skip
    """Add the sums of the block's rows at a Point to Found, and update their duals by a Prox rule.

    `problems`  indices k of the active problems; k belongs to the value of C with index k // (K // trials). A loss that
                couples rows of weights needs all classes of a value of C, in consecutive rows.
    `H`         is added to, if it is given.
    `frozen`    the duals are the centres, made feasible; `alpha` gets where a step would lead (solvers/proof/sweep.py).
    """
    V, K, width = point.w.shape
    lines = K // found.confused.shape[1] if coupled(loss) else 1
    shift = np.zeros((V, K)) if has(loss, "lifted") else point.multiplier
    few = np.zeros((GRAM_ROWS, 0 if H is None else H.lines.shape[2]))
    plain = V == 1 and H is None and found.pull.shape[1] <= 1 and not found.class_sums.size
    many = plain and lines >= MANY_LINES and isinstance(block, DenseBlock)
    size = AHEAD if many else CHUNK_ROWS
    columns, slopes = np.zeros((FIELDS, lines, size + APART)), np.empty((2 * lines, size + APART))
    scratch = Scratch(
        columns, slopes, np.empty(SAID), shift, np.empty(size),
        np.empty((lines, size), np.int64), np.empty(size, np.int64), np.empty(size), np.empty((V, K, size)), few,
        np.empty(width), np.empty((K, size) if many else (0, 0)),
    )  # fmt: skip
    H = None if H is None else H.placed(width)
    judge = (frozen_judge_of if frozen else judge_of)(loss)
    chunks = _by_products(cast(DenseBlock, block), numbers, point, found, scratch) if many else [(block, numbers)]
    for some, its in chunks:
        look_block(some, its, labels, judge, problems, point, rule, found, H, scratch)


def _by_products(
    block: DenseBlock, numbers: RowNumbers, point: Frozen, found: Looked, scratch: Scratch
) -> Iterator[tuple[DenseBlock, RowNumbers]]:
    """Chunks of dense rows, whose scores products of matrices find; these add what the rows pull, too."""
    w = point.w[0].astype(np.float64, copy=False)
    for low in range(0, block.rows(), AHEAD):
        few = block._replace(X=block.X[low : low + AHEAD])
        wide, m = in_float64(few), few.rows()
        scratch.scores[0, :, :m], scratch.lengths[:m], scratch.pulled[:] = scores(wide, w), lengths(wide), 0.0
        yield few, RowNumbers(numbers.first + low, numbers.listed[low : low + AHEAD])
        if found.pull.shape[1]:
            add_pulls(wide, scratch.pulled[:, :m], found.pull[:, 0])


@kernel
def look_block(block, numbers, labels, judge, problems, point, rule, found, H, scratch):
    """`look` with its scratch arrays; parts for arguments that are None are not compiled."""
    lines, width = scratch.mine.shape[0], point.w.shape[2]
    whole, stop = H is not None or scratch.pulled.shape[0] > 0, 0
    while stop < block.rows():
        start, values = stop, 0
        # with H chunks are whole, too: adding rows to it is what costs, and costs as much for one row as for GRAM_ROWS
        while stop < block.rows() and stop - start < CHUNK_ROWS and (whole or values < MOST_CHUNK_VALUES):
            values += block.entries(stop)
            stop += 1
        _score_chunk(block, numbers, labels, problems, point, found.confused, start, stop, scratch)
        # sum a chunk separately, which rounds less, if d + 1 additions are less work than its rows
        at_once = values >= width
        for at in range(0, problems.size, lines):
            k = problems[at]
            rows = start, stop, H is not None
            size = _judge_chunk(block, numbers, labels, judge, k, rows, point, rule, found, scratch)
            for g in range(lines):
                _keep_rows(numbers, k + g, g, size, at > 0 or g > 0, rule, found, scratch)
                _pull_rows(block, k + g, g, size, at_once, rule, found, scratch)
                if found.class_sums.size > 0:
                    _add_own(block, g, size, scratch, found.class_sums[k + g], found.parts[k + g])
            if H is not None:
                _bend_chunk(block, k, size, rule, H, scratch)


@register_jitable
def _score_chunk(block, numbers, labels, problems, point, confused, start, stop, scratch):
    """Scores of the chunk's rows by the problems, or by all classes, whose confused rows are counted; their lengths."""
    several, w, norms, lengths = confused.shape[1] < point.w.shape[1], point.w, point.norms, scratch.lengths
    known = scratch.pulled.shape[0] > 0
    for v in range(0 if known else w.shape[0]):
        for at in range(w.shape[1] if several else problems.size):
            k = at if several else problems[at]
            line, scores = w[v, k], scratch.scores[v, k]
            if v == 0 and at == 0:
                _score_and_measure(block, numbers, start, stop, line, scores, norms, lengths)
            else:
                for i in range(start, stop):
                    block.prefetch_weights(i + 1, line)
                    scores[i - start] = block.exact_dot(i, line)
    for v in range(w.shape[0] if several else 0):
        count_confused(numbers, labels, range(start, stop), scratch.scores[v], confused[v])


@register_jitable
def _score_and_measure(block, numbers, start, stop, line, scores, norms, lengths):
    """Fill scores of rows start .. stop and their lengths, which come from `norms` if they are kept there."""
    for i in range(start, stop):
        row = numbers.row(i) if norms.size > 0 else 0
        block.prefetch_weights(i + 1, line)
        if norms.size > 0 and norms[row] > 0.0:
            scores[i - start], lengths[i - start] = block.exact_dot(i, line), norms[row]
        else:
            score, square = block.dot_and_square(i, line)
            scores[i - start], lengths[i - start] = score, length_of(block, i, np.sqrt(square))
            if norms.size > 0:
                norms[row] = lengths[i - start]


@register_jitable
def _judge_chunk(block, numbers, labels, judge, k, rows, point, rule, found, scratch):
    """Add the losses of problem k at all weights, and take the duals' step at the first; returns the rows it has.

    A coupled loss does it for the lines from k on. The first weights are last: their columns are used afterwards.
    rows: where the chunk starts and stops, and whether second derivatives are wanted.
    """
    start, stop, bent = rows
    size, lines = 0, scratch.mine.shape[0]
    for v in range(point.w.shape[0] - 1, -1, -1):
        for g in range(lines):
            size = _gather(block, numbers, labels, k + g, g, v, start, stop, point.blur[v, k + g], rule, found, scratch)
        extra = v == 0 and (found.keys.size > 0 or found.class_sums.size > 0)
        crisp = rule.crisp[k] if rule.crisp.size > 0 else 0.0
        asked = StepAsked(
            point.multiplier[v, k], rule.curvatures[k], rule.softness[k], crisp, rule.midway, rule.twice,
            v == 0 and found.pull.shape[1] > 0, bent, bent or rule.gaps, extra,
            lines > 1 and rule.centres.shape[1] == 0,
        )  # fmt: skip
        judge.call(asked, scratch.columns, scratch.slopes, size, scratch.said)
        sums = found.losses[v, k]
        sums[SUM_OF_LOSSES], sums[LOSS_CARRY] = carried_sum(sums[SUM_OF_LOSSES], sums[LOSS_CARRY], scratch.said[VALUE])
        sums[ROUNDING] += scratch.said[SLIPPED]
        sums[SUM_OF_GAPS] += scratch.said[CHUNK_GAPS]
    if found.extremes.shape[0] > 0:
        most, sizes = found.extremes[k], scratch.columns[SIZES, 0]
        most[LEAST_SLACK] = min(most[LEAST_SLACK], scratch.said[SLACK])
        most[SAFE_SLACK] = min(most[SAFE_SLACK], scratch.said[SURELY])
        for r in range(size):
            most[LARGEST_ROW_NORM] = max(most[LARGEST_ROW_NORM], sizes[r])
    return size


@along
def _gather(block, numbers, labels, k, g, v, start, stop, blur, rule, found, scratch):
    """Fill line g of the columns with the rows that problem k has, and count its mistakes; returns their number."""
    m, c, mine = stop - start, scratch.columns, scratch.mine[g]
    scores, lengths = scratch.scores[v, k], scratch.lengths
    caps, margins, signs, targets = c[CAPS, g], c[MARGINS, g], c[SIGNS, g], c[TARGETS, g]
    centres, off, sizes, epsilons = c[CENTRES, g], c[OFF, g], c[SIZES, g], c[EPSILONS, g]
    told_of_rows(labels, numbers, k, start, m, caps, signs, targets)
    for r in range(m if labels.epsilons.size > 0 else 0):
        epsilons[r] = labels.epsilon(numbers.row(start + r))
    shift, size, mistakes = scratch.shift[v, k], 0, 0
    for r in range(m):
        margin = signs[r] * scores[r] - targets[r]
        wrong = margin < 0.0 or (margin == 0.0 and signs[r] > 0.0)
        mistakes += wrong and caps[r] > 0.0
        size += caps[r] > 0.0
        margins[r], sizes[r] = margin, lengths[r]
    for r in range(m):
        off[r] = margin_rounding(block.entries(start + r) + 1, lengths[r], blur)
    found.losses[v, k, SUM_OF_MISTAKES] += mistakes
    for r in range(m):
        mine[r] = start + r
    if size < m:
        size = 0
        for r in range(m):
            # always written, and counted if present: faster than a branch
            mine[size], caps[size], signs[size], targets[size] = start + r, caps[r], signs[r], targets[r]
            margins[size], off[size], sizes[size], epsilons[size] = margins[r], off[r], sizes[r], epsilons[r]
            size += caps[r] > 0.0
    for r in range(size if found.margins.shape[2] > 0 else 0):
        found.margins[v, k, numbers.row(mine[r]) - rule.base] = margins[r]
    for r in range(size):
        margins[r] += shift
    if rule.centres.shape[1] > 0:
        for r in range(size):
            centres[r] = rule.centres[k, numbers.row(mine[r]) - rule.base]
    else:
        for r in range(size):
            centres[r] = rule.midway * caps[r]
    return size


@along
def told_of_rows(
    labels: Labels, numbers: RowNumbers, k: int, start: int, m: int, caps: np.ndarray, signs: np.ndarray,
    targets: np.ndarray,
) -> None:  # fmt: skip
    """Fill caps, signs and targets of m rows of a block from `start` on in problem k."""
    if numbers.listed.size > 0 or labels.codes_a_row != 1 or labels.targets_a_row != 1:
        for r in range(m):
            row = numbers.row(start + r)
            caps[r], signs[r], targets[r] = labels.cap(k, row), labels.sign(k, row), labels.target(k, row)
        return
    # loops that LLVM vectorises
    low = numbers.first + start - labels.first
    codes, most, own = labels.codes[low : low + m], labels.caps[k], labels.positive[k]
    for r in range(m):
        code = np.int64(codes[r])
        known = code if code >= 0 else np.int64(0)
        signs[r] = 1.0 if code & labels.low == own else -1.0
        caps[r] = most[known & labels.low] if code >= 0 else 0.0
    for r in range(m if labels.without.shape[0] > 0 else 0):
        caps[r] = 0.0 if labels.left_out(k, codes[r]) else caps[r]
    if labels.weights.size > 0:
        weights = labels.weights[low : low + m]
        for r in range(m):
            caps[r] = caps[r] * weights[r] if weights[r] > 0.0 else 0.0
    if labels.targets.size > 0:
        numbers_of = labels.targets[low : low + m]
        for r in range(m):
            targets[r] = numbers_of[r]
    else:
        targets[:m] = 0.0


@along
def _keep_rows(numbers, k, g, size, again, rule, found, scratch):
    """Store what is wanted of the chunk's rows: duals, their total, keys; again: a line before has set the keys."""
    mine, kept = scratch.mine[g], scratch.columns[KEPT_DUALS, g]
    a, extra = scratch.columns[A, g], scratch.columns[EXTRA, g]
    if rule.alpha.shape[1] > 0:
        for r in range(size):
            rule.alpha[k, numbers.row(mine[r]) - rule.base] = kept[r]
    if rule.total.shape[1] > 0:
        for r in range(size):
            rule.total[k, numbers.row(mine[r]) - rule.base] += a[r]
    if found.keys.size > 0:
        for r in range(size):
            at, key = numbers.row(mine[r]) - rule.base, extra[r] / (1.0 + extra[r])
            found.keys[at] = min(found.keys[at], key) if again else key


@along
def _pull_rows(block, k, g, size, at_once, rule, found, scratch):
    """Add the duals of the chunk's rows to the sums of problem k, and the combination of these rows to its pull."""
    mine, signs, a = scratch.mine[g], scratch.columns[SIGNS, g], scratch.columns[A, g]
    listed, factors, apart, pull = scratch.listed, scratch.factors, scratch.part, found.pull
    for side in range(pull.shape[1]):
        only = side if pull.shape[1] > 1 else BOTH_SIDES
        count = 0
        for r in range(size):
            factor = signs[r] * a[r]
            listed[count], factors[count] = mine[r], factor
            count += factor != 0.0 and (only == BOTH_SIDES or (factor < 0.0) == (only == 1))
        evaluated = rule.alpha.shape[1] > 0 or rule.softness[k] > 0.0 or rule.curvatures[k] == np.inf
        _add_duals(found.duals[k, side], only, rule.softness[k], evaluated, scratch.columns, g, size)
        if scratch.pulled.shape[0] > 0:
            for r in range(count):
                scratch.pulled[k, listed[r]] = factors[r]
            found.duals[k, side, ADDED] += 1
            continue
        pulls = apart if at_once else pull[k, side]
        if at_once:
            apart[:] = 0.0
        block.add_rows(listed[:count], factors[:count], pulls)
        for j in range(apart.size if at_once else 0):
            pull[k, side, j] += apart[j]
        found.duals[k, side, ADDED] += 1 if at_once else count


@along
def _add_own(block, g, size, scratch, own, parts):
    """own (d+1,) += sum of cap x_i over the rows of the own class of line g, and `parts` of a chunk."""
    listed, factors, c, count = scratch.listed, scratch.factors, scratch.columns, 0
    for r in range(size):
        cap = c[CAPS, g, r]
        parts[SUM_OF_PARTS] += c[EXTRA, g, r]
        listed[count], factors[count] = scratch.mine[g, r], cap
        if c[SIGNS, g, r] > 0.0:
            count += 1
            parts[SUM_OF_CAPS] += cap
            parts[SUM_OF_LENGTHS] += cap * c[SIZES, g, r]
    block.add_rows(listed[:count], factors[:count], own)


@register_jitable
def _bend_chunk(block, k, size, rule, H, scratch):
    """Add the second derivatives of the chunk's rows to the matrices of problem k, or of the lines from k on."""
    listed, slopes, lines = scratch.listed, scratch.slopes, scratch.mine.shape[0]
    for g in range(lines):
        if H.drift.shape[0] > 0 and rule.softness[k] > 0.0:
            _add_drift(block, g, size, rule.softness[k], scratch, H.drift[k + g])
        count = 0
        for r in range(size):
            slope = rule.steepest * scratch.columns[CAPS, g, r] if rule.steepest > 0.0 else slopes[g, r]
            listed[count], slopes[g, count] = scratch.mine[g, r], slope
            count += slope > 0.0
        if H.active.size > 0:
            H.active[k + g] += count
        if H.columns.shape[1] > 0:
            block.add_gram_of(
                listed[:count], slopes[g, :count], H.columns[k + g], H.places[k + g], scratch.few, H.lines[k + g]
            )  # fmt: skip
        else:
            block.add_gram(listed[:count], slopes[g, :count], scratch.few, H.lines[k + g])
        for r in range(count if H.diagonal.shape[0] > 0 else 0):
            block.add_squares(listed[r], slopes[g, r], H.diagonal[k + g])
    if H.crossed.size > 0 and rule.steepest == 0.0:
        add_crossed(block, scratch.mine[0, :size], slopes[lines:, :size], H.crossed[k // lines])


@register_jitable
def _add_drift(block, g, size, softness, scratch, drift):
    """Add minus the derivative of what the chunk's rows pull, by the logarithm of the softness, to drift (d+1,)."""
    c, slopes, factors, lines = scratch.columns, scratch.slopes, scratch.factors, scratch.mine.shape[0]
    for r in range(size):
        bent = slopes[g, r] * _moved(c, g, r)
        for h in range(lines if lines > 1 else 0):
            bent -= slopes[lines + g, r] * slopes[lines + h, r] * _moved(c, h, r)
        factors[r] = bent * (softness / c[CAPS, g, r])
    block.add_rows(scratch.mine[g, :size], factors[:size], drift)


@register_jitable
def _moved(c, g, r):
    """How far the pull of row r in line g is from that of its centre."""
    return c[SIGNS, g, r] * (c[A, g, r] - c[CENTRES, g, r])


@register_jitable(fastmath=REORDERED, **ALONG)
def _add_duals(sums, side, softness, evaluated, c, g, size):
    """Add a chunk's duals to the sums: those that increase the constant (side 0), decrease it (1), or BOTH_SIDES.

    evaluated: whether shares are those of the rounded duals. Else these are off, too, and the derivative of a share is
    at most |u|.
    """
    own = 0.0 if evaluated else 1.0
    caps, signs, targets, centres, margins = c[CAPS, g], c[SIGNS, g], c[TARGETS, g], c[CENTRES, g], c[MARGINS, g]
    sizes, a, kept, shares = c[SIZES, g], c[A, g], c[KEPT_DUALS, g], c[DUAL_SHARES, g]
    dual, mass, summed, pulled, moved = 0.0, 0.0, 0.0, 0.0, 0.0
    for r in range(size):
        if side == BOTH_SIDES or (signs[r] * a[r] < 0.0) == (side == 1):
            met, change = a[r] * targets[r], kept[r] - centres[r]
            dual += shares[r] + met
            mass += abs(a[r])
            summed += abs(shares[r]) + abs(met) + (2.0 + own * abs(margins[r])) * abs(a[r])
            pulled += abs(a[r]) * sizes[r]
            moved += (softness / caps[r] if softness > 0.0 else 1.0) * change * change
    sums[DUAL], sums[CARRY] = carried_sum(sums[DUAL], sums[CARRY], dual)
    sums[ALPHA], sums[CARRY + 1] = carried_sum(sums[ALPHA], sums[CARRY + 1], mass)
    sums[SUMMED] += summed
    sums[PULLED] += pulled
    sums[MOVED] += moved


@register_jitable
def add_crossed(block: Block, rows: np.ndarray, crossed: np.ndarray, H: np.ndarray) -> None:
    """H (L (d+1), L (d+1)) += sum_r (c_r x x_r) (c_r x x_r)^T, upper triangle, over the listed rows; crossed (L, m)."""
    lines = crossed.shape[0]
    width = H.shape[0] // lines
    few = np.empty((GRAM_ROWS, H.shape[0]))
    count = 0
    for r in range(rows.size):
        largest = 0.0
        for g in range(lines):
            largest = max(largest, abs(crossed[g, r]))
        if largest > 0.0:
            few[count] = 0.0
            for g in range(lines):
                if crossed[g, r] != 0.0:
                    block.add(rows[r], crossed[g, r], few[count, g * width : (g + 1) * width])
            count += 1
        if count == GRAM_ROWS or (r + 1 == rows.size and count > 0):
            up = (count + 7) // 8 * 8
            few[count:up] = 0.0
            add_outer_products(few[:up], 1.0, H, 0)
            count = 0


def warm(sample: SampleBlock) -> None:
    """All kinds of rows: the losses of all scores differ from others in their address alone."""
    none, pair, lines = np.zeros((2, 1)), np.zeros((1, 2)), np.zeros((1, 2))
    singles = {np.dtype(np.float64), sample.dtype}  # of the weights, of which only the certificate has some in float32
    for H, dtype in product((None, Curvature(np.zeros((1, 3, 3)))), singles):
        for loss in sample.losses("step") if H is None or dtype == np.float64 else ():
            found = Looked(
                np.zeros((2, 1, LOSS_SUMS)), np.zeros((1, 1, DUAL_SUMS)), weights()[None], counts(2)[:, None]
            )
            rule = Prox(pair, pair.copy(), np.ones(1), np.ones(1))
            for frozen in (False, True):
                point = Frozen(np.zeros((2, 1, 3), dtype), none, none)
                look(*sample.rows, loss, ONLY_PROBLEM, point, rule, found, H, frozen)
    block, numbers, _ = sample.rows
    for loss in sample.joint_losses():
        point = Frozen(np.zeros((1, 2, 3)), lines, lines)
        found = Looked(
            np.zeros((1, 2, LOSS_SUMS)), np.zeros((2, 1, DUAL_SUMS)), np.zeros((2, 1, 3)), counts()[:, None],
            class_sums=np.zeros((2, 3)), parts=np.zeros((2, PART_SUMS)),
        )  # fmt: skip
        rule = Prox(np.zeros((2, 2)), np.zeros((2, 2)), np.ones(2), np.ones(2))
        for frozen in (False, True):
            look(block, numbers, sample.joint_labels, loss, np.array([0, 1]), point, rule, found, None, frozen)
