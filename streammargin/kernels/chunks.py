"""Rows that stay in the cache while their scores, their margins and what follows from these are found.

Whole-pass kernels take a block in such chunks: the scores of all rows of a chunk do not wait for one another, as they
would if each row were added to a sum before the next one is looked at (a sixth of the time for sparse rows).
"""

from __future__ import annotations

import math

import numpy as np
from numba.extending import register_jitable

from streammargin.kernels import methods  # noqa: F401

# the first columns of the figures of a pass, one row per problem: min a_i.w (from inf), rows with a_i.w <= 0
SMALLEST, MISTAKES = 0, 1
ROOT = math.sqrt(0.5)


@register_jitable
def chunk_scores(block, start, codes, w, scores):
    """scores (K, m or more): x_i.w_k of the rows from start that have a class; codes (m,)."""
    for k in range(w.shape[0]):
        w_k = w[k]
        for r in range(codes.size):
            if codes[r] >= 0:
                if k == 0:
                    block.prefetch_row(start + r + 2)
                scores[k, r] = block.dot(start + r, w_k)


@register_jitable
def chunk_margins(codes, positive, caps, weights, joint, scores, margins, figures):
    """margins (K, m or more) from scores, inf where a row is absent; adds to SMALLEST and MISTAKES of the figures.

    weights (m,) or (0,). A joint row has the margins of its pseudo-rows x (e_own - e_k)/sqrt2, none for k = own.
    """
    for k in range(margins.shape[0]):
        smallest = np.inf
        mistakes = 0
        for r in range(codes.size):
            code = codes[r]
            u = np.inf
            if code >= 0 and caps[k, code] * (weights[r] if weights.size > 0 else 1.0) > 0.0:
                if not joint:
                    u = scores[k, r] if code == positive[k] else -scores[k, r]
                elif code != k:
                    u = (scores[code, r] - scores[k, r]) * ROOT
            margins[k, r] = u
            smallest = min(smallest, u)
            mistakes += u <= 0.0
        figures[k, SMALLEST] = min(figures[k, SMALLEST], smallest)
        figures[k, MISTAKES] += mistakes


@register_jitable
def chunk_wrong(codes, positive, weights, scale, scores):
    """Rows whose largest scale_k x.w_k is not their own class's."""
    wrong = 0
    for r in range(codes.size):
        if codes[r] >= 0 and (weights.size == 0 or weights[r] > 0.0):
            best = 0
            for k in range(1, positive.size):
                if scores[k, r] * scale[k] > scores[best, r] * scale[best]:
                    best = k
            wrong += codes[r] != positive[best]
    return wrong


@register_jitable
def chunk_look(block, start, codes, positive, caps, weights, joint, w, scale, scores, margins, figures, wrong):
    """Scores and margins of the rows from start, their figures, and of several problems the rows that are wrong.

    codes (m,) and weights (m,) or (0,) of these rows; wrong (1,), added to, or (0,).
    """
    chunk_scores(block, start, codes, w, scores)
    chunk_margins(codes, positive, caps, weights, joint, scores, margins, figures)
    if w.shape[0] > 1 and wrong.size > 0:
        wrong[0] += chunk_wrong(codes, positive, weights, scale, scores)


@register_jitable
def chunk_add(block, start, size, active, coefficients, pull):
    """pull_k += sum_r coefficients[k, r] x_r over the rows from start, for the problems k in active."""
    for k in active:
        pull_k = pull[k]
        for r in range(size):
            if coefficients[k, r] != 0.0:
                block.add(start + r, coefficients[k, r], pull_k)
