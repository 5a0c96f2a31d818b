"""Active rows, which coordinate ascent keeps in memory beside the blocks."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference.sources import CountingSource
from reference.training import binary

import streammargin as sm
from streammargin.reading import plan
from streammargin.rows.blocks import nbytes
from streammargin.solvers.cache import rows as store
from streammargin.solvers.cache.rows import Kept, RowCache
from streammargin.solvers.coordinate import active_rows, dual_ascent
from streammargin.solvers.coordinate.active_rows import ActiveRows


@pytest.fixture
def small_plans(monkeypatch):
    monkeypatch.setattr(plan, "SLACK_BYTES", 0)
    monkeypatch.setattr(plan, "LEAST_BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr("streammargin.solvers.cache.rows.BUFFERS", 1 << 14)


def text(n=3000, d=5000, nonzeros=20, seed=0):
    """More columns than rows, as text has."""
    random = np.random.default_rng(seed)
    columns = np.minimum(random.zipf(1.3, (n, nonzeros)) - 1, d - 1)
    X = sp.csr_matrix((np.ones(n * nonzeros), (np.repeat(np.arange(n), nonzeros), columns.ravel())), (n, d))
    X.data[:] = random.random(X.nnz)
    y = np.where(X @ random.standard_normal(d) + 0.3 * random.standard_normal(n) > 0, 1, -1)
    X = sp.csr_matrix(X.multiply(1.0 / np.sqrt(X.multiply(X).sum(axis=1))), dtype=np.float32)
    X.sort_indices()
    return X, y


def trained(X, y, share, **options):
    source = CountingSource(X, y, np.linspace(0, len(y), 41).astype(int))
    size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    with pytest.raises(sm.UsageError) as refused:
        sm.train(source, solver="sdca", memory=1, bias=0, **options)
    least = int(str(refused.value).split("needs ")[1].split("M")[0]) << 20
    return sm.train(source, solver="sdca", memory=least + int(share * size), bias=0, **options), source


def test_fewer_reads_than_without_them_and_the_same_optimum(small_plans, monkeypatch):
    reads = []
    for seed in range(3):
        X, y = text(seed=seed)
        result, source = trained(X, y, 0.3, C=3.0, tol=1e-3, passes=300)
        kept = [event["kept_rows"] for event in result.history if event["event"] == "pass_end"]
        assert result.converged and 0 < max(kept) < len(y)
        problem = binary(X, y, C=3.0)
        assert result.certificate.primal == pytest.approx(problem.primal(result.model.coef_[0]), rel=1e-6)
        reads.append(max(source.reads.values()))
    assert sum(reads) <= 3 * 15
    monkeypatch.setattr(store, "CACHE_BUDGET_SHARE", 0.0)
    without, _ = trained(X, y, 0.3, C=3.0, tol=1e-3, passes=2 * reads[-1])
    assert not without.converged
    assert result.certificate.dual <= without.certificate.primal
    assert without.certificate.dual <= result.certificate.primal


@pytest.mark.slow
def test_more_memory_never_means_that_no_rows_are_kept(small_plans):
    X, y = text(1000)
    with pytest.raises(sm.UsageError) as refused:
        sm.train(CountingSource(X, y, np.linspace(0, 1000, 101).astype(int)), solver="sdca", memory=1, bias=0)
    least = int(str(refused.value).split("needs ")[1].split("M")[0]) << 20
    kept = []
    for memory in range(least - (1 << 20), least, 1 << 12):
        source = CountingSource(X, y, np.linspace(0, 1000, 101).astype(int))
        try:
            result = sm.train(source, solver="sdca", C=3.0, memory=memory, bias=0, passes=1)
        except sm.UsageError:
            continue
        if max(source.reads.values()) > 1 or len(source.reads) > 1:  # not all of it in memory
            kept.append(max(event["kept_rows"] for event in result.history if event["event"] == "pass_end"))
    assert kept[0] == 0 < kept[-1] and len(kept) > 20
    assert 0 not in kept[kept.index(next(filter(None, kept))) :]


def test_in_a_pass_every_piece_has_its_turn_as_often_as_blocks_bring_rows_for_it():
    X, _ = text(200)
    block = sm.open_source((X, np.ones(200))).whole()
    active = ActiveRows(rows=RowCache())
    pieces = active.rows.pieces
    for part in range(0, active_rows.CACHE_PIECES, 4):  # some pieces may be empty
        ids = np.arange(part, part + 4 + part // 4)
        pieces[active_rows.PIECE_NAMES[part]] = Kept(ids, store.take(block, ids))
    kept, here = active.rows.count, [(0, store.take(block, np.arange(6)))]
    turns = [active_rows.due(active, here) for _ in range(60)]
    visits = [sum(name in parts for parts in turns) for name in pieces]
    rounds = 60 * 6 / (active_rows.BROUGHT * kept)
    assert max(map(len, turns)) <= 2 and max(visits) - min(visits) <= 1 and min(visits) <= rounds <= max(visits)
    assert sorted(active_rows.due(active, [(0, block)])) == sorted(pieces)  # each of them once


def test_what_is_kept_moved_furthest_fits_the_room_and_is_never_there_twice(small_plans, monkeypatch):
    looked, gone = [], []
    keep = active_rows.keep_active

    def checked(problem, active, blocks, parts, moves, room):
        numbers = [np.arange(problem.rows)[rows] for rows in moves.rows]
        made = dict(zip(np.concatenate(numbers), np.concatenate(moves.made()), strict=True))
        before = set(active.rows.ids().tolist())
        new = {row for first, block in blocks for row in range(first, first + block.rows())} - before
        keep(problem, active, blocks, parts, moves, room)
        ids = active.rows.ids().tolist()
        assert sum(nbytes(kept.rows) for kept in active.rows.pieces.values()) <= room
        assert len(set(ids)) == len(ids) and set(ids) <= before | new
        left = before - set(ids)
        assert parts or not left  # how far the others moved is not known
        stay = [made[row] for row in ids if row in new or (left and row in made)]
        assert min(stay, default=np.inf) >= max((made[row] for row in left), default=0.0)
        if parts:  # all of those that moved furthest: rows that moved less may stay while there is room
            assert min(stay, default=np.inf) >= max((made[row] for row in new - set(ids)), default=0.0)
        looked.append(len(ids))
        gone.append(len(left))

    monkeypatch.setattr(active_rows, "keep_active", checked)
    trained(*text(), 0.3, C=10.0, tol=1e-3, passes=4)
    assert max(looked) > 0 and max(gone) > 0


def test_copies_are_the_rows_themselves(small_plans):
    X, y = text(200)
    block = sm.open_source((X, y)).whole()
    alpha, active = np.zeros((1, 200)), ActiveRows(rows=RowCache())
    problem = type("Problem", (), {"count": 1})
    for first in range(0, 200, 50):
        here = [(first, store.take(block, np.arange(first, first + 50)))]
        parts = active_rows.due(active, here)
        moves = active_rows.Moves(alpha, active, here, parts)
        alpha[:, ::3] += 1.0
        active_rows.keep_active(problem, active, here, parts, moves, 1 << 20)
    assert active.rows.count == 67
    for kept in active.rows.pieces.values():
        assert isinstance(kept, Kept)
        assert np.array_equal(X[kept.ids].data, kept.rows.data) and np.array_equal(kept.ids % 3, 0 * kept.ids)


def test_rows_kept_make_room_for_held_out_rows(small_plans):
    X, y = text()
    held_out = CountingSource(X, y, np.linspace(0, len(y), 5).astype(int))  # its blocks are larger than the buffers
    assert trained(X, y, 0.5, tol=0.1, valid=held_out)[0].certificate["valid_error"] < 0.5


@pytest.mark.slow
def test_cached_rows_settle_before_the_next_read(small_plans, monkeypatch):
    """At a large C the rows that matter most need many visits, of which a read of all rows makes two."""
    X, y = text()
    settled, _ = trained(X, y, 0.8, C=30.0, tol=1e-3, passes=60)
    assert settled.converged
    problem = binary(X, y, C=30.0)
    assert settled.certificate.primal == pytest.approx(problem.primal(settled.model.coef_[0]), rel=1e-6)
    again, _ = trained(X, y, 0.8, C=30.0, tol=1e-3, passes=60)
    assert again.model.coef_.tobytes() == settled.model.coef_.tobytes()
    monkeypatch.setattr(dual_ascent, "SETTLING", 0)
    restless, _ = trained(X, y, 0.8, C=30.0, tol=1e-3, passes=2 * settled.passes)
    assert not restless.converged
    assert restless.certificate.dual <= settled.certificate.primal
