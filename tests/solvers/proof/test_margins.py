"""Margins of rows in blocks, and the rows that have the smallest ones, against all rows at once."""

import itertools

import numpy as np
import pytest
from reference.datasets import as_form
from reference.whole_pass import make_problem, pseudo_rows

from streammargin.rows.labels import Labels, RowLabels
from streammargin.solvers.margin.active_set import Heaps
from streammargin.solvers.proof import margins
from streammargin.solvers.proof.margins import margins_of_pairs, pieces, sum_margins
from streammargin.sources.arrays import ArraySource


def figures(X, codes, positive, weights, w, capacity, form="dense", joint=False, cuts=(0, None), bias=0.0):
    K, problem = len(positive), make_problem(X, codes, classes=3, joint=joint)
    smallest, mistakes, wrong = np.full(K, np.inf), np.zeros(K, np.int64), np.zeros(1, np.int64)
    heaps = Heaps(
        keys=np.zeros((2 * K, capacity)), ids=np.zeros((2 * K, capacity), np.int64), filled=np.zeros(2 * K, np.int64)
    )
    for start, stop in itertools.pairwise(cuts):
        block = ArraySource(as_form(X[start:stop], form)).whole()._replace(bias=bias)
        for seen in pieces(RowLabels(codes, weights, np.empty(0)), problem.outputs, block, start):
            found = sum_margins(problem, seen.labels, seen.scores(w), smallest, mistakes, wrong)
            for k, u in enumerate(found if capacity else ()):
                for side in (0, 1):
                    heaps.take(2 * k + side, np.where(seen.labels.own_of(k) == side, u, np.inf), seen.first)
    return smallest, mistakes, wrong, heaps.keys, heaps.ids, heaps.filled


@pytest.mark.parametrize("capacity", [1, 2, 7, 30, 500])
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_the_rows_with_the_smallest_margins(form, capacity, monkeypatch):
    monkeypatch.setattr(margins, "MARGIN_ROWS", 64)
    rng = np.random.default_rng(capacity)
    X, w = rng.standard_normal((400, 6)), rng.standard_normal((3, 7))
    codes, weights = rng.integers(-1, 3, 400).astype(np.int16), (rng.random(400) < 0.8) * 2.0
    positive = np.arange(3)
    found = figures(X, codes, positive, weights, w, capacity, form, cuts=(0, 1, 150, 400), bias=0.7)
    smallest, mistakes, wrong, keys, ids, filled = found
    scores = X @ w[:, :-1].T + 0.7 * w[:, -1]
    there = (codes >= 0) & (weights > 0)
    for k in range(3):
        u = np.where(codes == k, 1, -1) * scores[:, k]
        assert smallest[k] == pytest.approx(u[there].min(), rel=1e-12)
        assert mistakes[k] == np.count_nonzero(u[there] <= 0)
        for side in (0, 1):
            mine = np.flatnonzero(there & ((codes == k) == side))
            count = filled[2 * k + side]
            assert count == min(capacity, mine.size)
            chosen = mine[np.argpartition(u[mine], count - 1)[:count]]
            assert sorted(ids[2 * k + side, :count]) == sorted(chosen)
            np.testing.assert_allclose(keys[2 * k + side, :count], u[ids[2 * k + side, :count]], rtol=1e-12)
    assert wrong[0] == np.count_nonzero(np.argmax(scores, axis=1)[there] != codes[there])


def test_joint_margins():
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((200, 6)), rng.standard_normal((3, 7))
    codes = rng.integers(0, 3, 200).astype(np.int16)
    smallest, mistakes, wrong, *_ = figures(X, codes, np.arange(3), np.empty(0), w, 0, joint=True)
    scores = X @ w[:, :-1].T
    own = scores[np.arange(200), codes]
    scores[np.arange(200), codes] = -np.inf
    u = own - scores.max(axis=1)
    assert smallest.min() == pytest.approx(u.min(), rel=1e-12)
    assert mistakes.sum() == wrong[0] == np.count_nonzero(u <= 0)


def test_pairs_have_the_margins_of_pseudo_rows():
    rng = np.random.default_rng(0)
    X, w, codes = rng.standard_normal((50, 4)), rng.standard_normal((3, 4)), rng.integers(-1, 3, 50).astype(np.int16)
    labels = Labels(codes, np.arange(3), np.full((3, 3), np.inf), np.empty(0), np.empty(0))
    found = margins_of_pairs(labels, w @ X.T).T
    known = pseudo_rows(X[codes >= 0], codes[codes >= 0], 3) @ w.ravel()
    np.testing.assert_allclose(found[found < np.inf], known, rtol=1e-12)
    assert np.count_nonzero(found == np.inf) == 50 + 2 * np.count_nonzero(codes < 0)
