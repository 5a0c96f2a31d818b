"""Exact margins of one block for frozen weights, and the rows with the smallest ones."""

from __future__ import annotations

import numpy as np

from streammargin.compiled.classes import own_is_largest
from streammargin.compiled.jit import kernel
from streammargin.compiled.samples import Sample, counts, weights
from streammargin.rows.blocks import Block
from streammargin.rows.labels import Labels, RowNumbers


@kernel
def margins_block(block, numbers, labels, joint, w, smallest, mistakes, wrong, keys, ids, filled):
    """Add the block to the figures of K hard-margin problems.

    block     rows of the data; numbers, labels: of these rows, and of all n;
    joint     whether the K problems are the classes of one joint margin, x.w_c - max over the other classes;
    w         (K, d+1) float64;
    smallest  (K,) min_i a_i.w, from inf; mistakes (K,) misclassified rows; wrong (1,) rows whose largest score
              is not that of their class (K > 1);
    keys      (2 K, M) and ids (2 K, M): max-heaps of the M rows with the smallest margins. Row 2k has the
              negative rows of problem k and 2k+1 its positive ones; filled (2 K,): their numbers of entries
    """
    K = w.shape[0]
    capacity = keys.shape[1]
    scores = np.empty(K)
    for i in range(block.rows()):
        row = numbers.row(i)
        if not labels.weight(row) > 0.0:
            continue
        block.prefetch_row(i + 2)
        for k in range(K):
            scores[k] = block.exact_dot(i, w[k])
        if K > 1 and not own_is_largest(labels, 0, row, scores):
            wrong[0] += 1
        for k in range(K):
            if not labels.cap(k, row) > 0.0:
                continue
            side = 1 if labels.own(k, row) else 0
            u = scores[k] if side == 1 else -scores[k]
            if joint:
                if side == 0:
                    continue
                u = np.inf
                for other in range(K):
                    if other != k:
                        u = min(u, scores[k] - scores[other])
            smallest[k] = min(smallest[k], u)
            if labels.wrong(k, row, u):
                mistakes[k] += 1
            if capacity == 0:
                continue
            heap, names, size = keys[2 * k + side], ids[2 * k + side], filled[2 * k + side]
            if size < capacity:  # sift up from the end
                place = size
                filled[2 * k + side] = size + 1
                while place > 0 and heap[(place - 1) >> 1] < u:
                    heap[place], names[place] = heap[(place - 1) >> 1], names[(place - 1) >> 1]
                    place = (place - 1) >> 1
            elif u < heap[0]:  # replace the root: sift down
                place = 0
                while 2 * place + 1 < capacity:
                    child = 2 * place + 1
                    if child + 1 < capacity and heap[child + 1] > heap[child]:
                        child += 1
                    if not heap[child] > u:
                        break
                    heap[place], names[place] = heap[child], names[child]
                    place = child
            else:
                continue
            heap[place], names[place] = u, row


def sum_margins(
    block: Block, numbers: RowNumbers, labels: Labels, joint: bool, w: np.ndarray, smallest: np.ndarray,
    mistakes: np.ndarray, wrong: np.ndarray,
) -> None:  # fmt: skip
    """`margins_block` without the rows that have the smallest margins."""
    heaps = np.zeros((2 * len(w), 0)), np.zeros((2 * len(w), 0), np.int64), np.zeros(2 * len(w), np.int64)
    margins_block(block, numbers, labels, joint, w, smallest, mistakes, wrong, *heaps)


def warm(sample: Sample) -> None:
    keys, ids = np.zeros((2, 1)), np.zeros((2, 1), np.int64)
    margins_block(*sample.rows, False, weights(), np.ones(1), counts(), counts(), keys, ids, counts(2))
