"""Copies of rows, in new arrays and where others stood."""

import numpy as np
import pytest
import scipy.sparse as sp

import streammargin as sm
from streammargin.rows.blocks import nbytes, part, values_of
from streammargin.solvers.cache import rows as store


def rows_of(block):
    """As a dense array, by scipy."""
    if hasattr(block, "X"):
        return block.X
    return sp.csr_matrix(
        (block.data, block.indices.view(np.int32), block.indptr), (block.rows(), block.width)
    ).toarray()


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_several_blocks_stand_one_after_the_other(kind, dtype):
    random = np.random.default_rng(0)
    X = (random.random((60, 7)) * (random.random((60, 7)) < 0.5)).astype(dtype)  # some rows are empty
    blocks = [sm.open_source((kind(part), np.ones(len(part)))).whole() for part in np.split(X, [10, 35])]
    for _ in range(20):
        chosen = [random.permutation(block.rows())[: random.integers(0, block.rows())] for block in blocks]
        got = store.gather(list(zip(blocks, chosen, strict=True)))
        assert values_of(got).dtype == dtype
        expected = np.concatenate([rows_of(block)[rows] for block, rows in zip(blocks, chosen, strict=True)])
        assert np.array_equal(rows_of(got), expected)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_rows_come_and_go_in_place_and_take_no_more_than_a_ninth_beside_themselves(kind):
    random = np.random.default_rng(0)
    X = random.random((400, 7)) * (random.random((400, 7)) < 0.8)
    whole = sm.open_source((kind(X), np.ones(400))).whole()
    ids = np.arange(100)
    piece, there = store.take(whole, ids), 0
    for _ in range(50):
        stay = np.flatnonzero(random.random(ids.size) < 0.9)
        new = random.permutation(400)[: max(0, 100 - stay.size + random.integers(-9, 9))]
        before = values_of(piece)
        piece = store.gather([(piece, stay), (whole, new)], piece)
        ids = np.concatenate([ids[stay], new])
        assert np.array_equal(rows_of(piece), X[ids])
        values = values_of(piece)
        there += np.shares_memory(values, before)
        assert (values if values.base is None else values.base).size <= values.size / store.FILLED
    assert 0 < there < 50


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_a_piece_that_followed_another_changes_in_place(kind):
    random = np.random.default_rng(0)
    X = random.random((60, 7)) * (random.random((60, 7)) < 0.8)
    whole = sm.open_source((kind(X), np.ones(60))).whole()
    kept, new = store.RowCache(), store.RowCache()
    for start in (0, 30):
        new.change("0", None, [store.Coming(0, whole, np.arange(start, start + 30))])
        kept.append("0", new)
        assert not new.count and np.array_equal(kept.ids_of("0"), np.arange(start + 30))
    stay = np.delete(np.arange(60), [3, 4, 40])
    kept.change("0", stay, ())
    assert np.array_equal(kept.ids_of("0"), stay) and not kept.ids_of("1").size
    assert np.array_equal(rows_of(kept.pieces["0"].rows), X[stay])


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_small_pieces_become_large_ones_in_their_order(kind, monkeypatch):
    monkeypatch.setattr(store, "JOINED_PIECE_BYTES", 3000)
    X = np.random.default_rng(0).random((400, 7))
    whole = sm.open_source((kind(X), np.ones(400))).whole()
    cache = store.RowCache()
    for first in range(0, 400, 10):
        cache.change(
            f"rows {first:03}", None, [store.Coming(first, part(whole, first, first + 10), np.arange(0, 10, 2))]
        )
        cache.pool()

    def check():
        assert np.array_equal(np.concatenate([rows_of(kept.rows) for kept in cache.pieces.values()]), X[cache.ids()])
        assert list(cache.pieces) == sorted(cache.pieces)
        return [nbytes(kept.rows) >= store.JOINED_PIECE_BYTES for kept in cache.pieces.values()]

    large = check()
    assert cache.ids().tolist() == list(range(0, 400, 2)) and sum(large) >= 3 and len(large) - sum(large) < 11
    cache.retain(lambda kept: kept.ids % 3 == 0)
    assert cache.ids().tolist() == list(range(0, 400, 6)) and 0 < sum(check()) < sum(large)
