"""Newton steps on gathered columns of several lines: against an interior-point method, and by what they promise."""

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import traced
from reference.sources import CountingSource
from reference.stopped import bits, check_every_pass, until_done

import streammargin as sm
from streammargin.reading import plan
from streammargin.rows.blocks import CSRBlock, DenseBlock, part
from streammargin.solvers import leaves, roles
from streammargin.solvers.columns import few_columns, gathered_steps
from streammargin.solvers.columns.gathered_steps import Gathered
from streammargin.sources.arrays import ArraySource

K, C = 4, 0.05
BOUNDS = (0, 50, 130, 200)
OPTIONS = {"loss": "logistic", "solver": "pdprox", "C": C}


def drawn(rows=200, columns=30, seed=0):
    """Counts of columns that are alike in all rows, four of which tell the class; and weights with some 0."""
    random = np.random.default_rng(seed)
    X = random.poisson(2.0 + random.gamma(2.0, 1.0, columns), (rows, columns)).astype(float)
    y = np.argmax(X[:, :K] + 2.0 * random.gumbel(size=(rows, K)), axis=1)
    return X, y, random.choice([0.5, 1.0, 2.0, 0.0], rows)


X, Y, WEIGHTS = drawn()


@pytest.fixture(autouse=True)
def several_pieces(monkeypatch):
    """Of 200 rows there are four."""
    monkeypatch.setattr(few_columns, "PRODUCT_ROWS", 64)


def objective(model, X, y, caps, dual_scale=None):
    """R(W) + the losses by their definition; or the dual at `dual_scale` times the softmax duals, without constants."""
    z = X @ model.coef_.T + model.intercept_
    level = np.logaddexp.reduce(z, axis=1)
    if dual_scale is None:
        return np.linalg.norm(model.coef_, axis=0).sum() + caps @ (level - z[np.arange(len(y)), y])
    own = np.eye(K)[y]
    q = (1.0 - dual_scale) * own + dual_scale * np.exp(z - level[:, None])
    return -caps @ np.where(q > 0.0, q * np.log(np.maximum(q, 1e-300)), 0.0).sum(axis=1)


def of_a_column(problem):
    """Bytes of a column without zeros."""
    return int(gathered_steps.bytes_of(problem, np.full(1, problem.rows))[0])


def pull(model, X, y, caps):
    """The largest length of a column of the gradient of the losses."""
    z = X @ model.coef_.T + model.intercept_
    p = np.exp(z - np.logaddexp.reduce(z, axis=1)[:, None])
    return np.linalg.norm(((p - np.eye(K)[y]) * caps[:, None]).T @ X, axis=0).max()


@pytest.mark.parametrize("penalty, name, r", [("l21", "l21", 1.0), ("l21:0.5", "l21", 0.5), ("l1", "l1", 1.0)])
@pytest.mark.parametrize("free", [True, False])
def test_the_optimum_is_that_of_the_interior_point_method(penalty, name, r, free):
    conic = pytest.importorskip("reference.conic_outputs", exc_type=ImportError)
    there = WEIGHTS > 0.0
    program = conic.Outputs(X[there], K, 1.0, free)
    program.softmax(Y[there], C * WEIGHTS[there])
    program.penalise(name, r)
    best = program.solve()[0]
    for rows in ((X, Y), (sp.csr_matrix(X), Y)):
        found = sm.train(
            rows, **OPTIONS, penalty=penalty, bias="free" if free else 1, tol=1e-7, sample_weight=WEIGHTS, passes=30
        )
        figures = found.certificate
        assert found.converged and found.passes <= 10
        assert figures.dual <= best * (1.0 + 1e-6) and figures.primal == pytest.approx(best, rel=1e-6)


def test_the_certificate_is_that_of_the_definition():
    found = sm.train((X, Y), **OPTIONS, penalty="l21", bias=0, tol=1e-5, sample_weight=WEIGHTS)
    caps, model, figures = C * WEIGHTS, found.model, found.certificate
    primal = objective(model, X, Y, caps)
    dual = objective(model, X, Y, caps, 1.0 / max(1.0, pull(model, X, Y, caps)))
    assert found.converged and figures.primal == pytest.approx(primal, rel=1e-12)
    assert primal - 1e-5 * primal <= figures.dual <= dual * (1.0 + 1e-12) <= primal * (1.0 + 1e-12)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("most", [100, 6, 2])
def test_columns_that_do_not_fit_take_turns(sparse, most, monkeypatch):
    """Of the 12 columns with weights all are gathered, or 6 a pass, or two."""
    best = sm.train((X, Y), **OPTIONS, penalty="l21", tol=1e-8)
    monkeypatch.setattr(gathered_steps, "room", lambda problem: most * of_a_column(problem))
    rows = sp.csr_matrix(X) if sparse else X
    for given in ((rows, Y), CountingSource(rows, Y, BOUNDS)):
        found = sm.train(given, **OPTIONS, penalty="l21", tol=1e-3, passes=2000)
        assert found.converged and found.passes <= {100: 2, 6: 12, 2: 36}[most]
        assert found.certificate.dual <= best.certificate.primal * (1.0 + 1e-12)
        assert best.certificate.dual <= found.certificate.primal * (1.0 + 1e-12)


@pytest.mark.parametrize("sparse, blocks, most", [(True, True, 6), (False, True, 9), (False, False, 9)])
def test_a_stopped_training_goes_on_to_the_same_bits(sparse, blocks, most, tmp_path, monkeypatch):
    monkeypatch.setattr(few_columns, "UNIT", 1e5)
    monkeypatch.setattr(gathered_steps, "UNIT", 0.0)
    monkeypatch.setattr(gathered_steps, "room", lambda problem: most * of_a_column(problem))
    rows = sp.csr_matrix(X) if sparse else X
    given = CountingSource(rows, Y, BOUNDS) if blocks else (rows, Y)

    def train(checkpoint, **more):
        return sm.train(given, **OPTIONS, penalty="l21", tol=1e-3, checkpoint=checkpoint, **more)

    if sparse:
        check_every_pass(lambda checkpoint, passes=200: train(checkpoint, passes=passes), tmp_path)
    whole = train(str(tmp_path / "one"))
    found, starts = until_done(lambda should_stop: train(str(tmp_path / "many"), should_stop=should_stop), 7)
    assert starts > 1 and bits(found)[0] == bits(whole)[0] and found.passes == whole.passes


def test_bits_do_not_depend_on_threads(monkeypatch):
    monkeypatch.setattr(leaves, "LEAF_BYTES", 64)
    monkeypatch.setattr(leaves, "MERGED", 1)
    pieces, own = [], leaves.summed

    def summed(problem, some, *given):
        pieces.append((problem.copies, len(some)))
        return own(problem, some, *given)

    monkeypatch.setattr(leaves, "summed", summed)
    found = [sm.train((X, Y), **OPTIONS, penalty="l21", tol=1e-5, threads=threads) for threads in (1, 2)]
    assert bits(found[0])[0] == bits(found[1])[0]
    assert {count for _, count in pieces} == {4} and min(copies for copies, _ in pieces) > 1


def stored_block(dense, sparse):
    if not sparse:
        return DenseBlock(dense, 1.0)
    stored = sp.csr_matrix(dense)
    return CSRBlock(stored.data, stored.indices.astype(np.uint32), stored.indptr.astype(np.int64), dense.shape[1], 1.0)


def opened(dense, chosen, sparse):
    """(Room for these columns of the rows, a problem with these rows)."""
    n, d = dense.shape
    problem = SimpleNamespace(rows=n, features=d, sparse=sparse, dtype=dense.dtype, column=1.0)
    found = roles.new(Gathered, problem, chosen=chosen)
    found.open(problem, np.count_nonzero(dense, axis=0) if sparse else np.full(d, n))
    return found, problem


@pytest.mark.parametrize("sparse", [False, True])
def test_columns_are_copied_a_piece_at_a_time(sparse, monkeypatch):
    """Also of a part whose entries do not begin at 0, with a row without entries, and of several blocks."""
    monkeypatch.setattr(gathered_steps, "COPIED_VALUES", 7)
    dense = np.where(X > 3.0, X, 0.0).astype(np.float32)
    dense[100], chosen = 0.0, np.arange(30) % 3 == 1
    for cuts in ((0, 200), (5, 101, 102, 170)):
        here = dense[cuts[0] : cuts[-1]]
        found, problem = opened(here, chosen, sparse)
        for first, stop in pairwise(cuts):
            found.copy(part(stored_block(dense, sparse), first, stop), first - cuts[0])
        block = found.block(problem)
        copied = block.X if not sparse else sp.csr_matrix(block[:3], (len(here), 10)).toarray()
        assert found.fits(problem)
        np.testing.assert_array_equal(copied, here[:, chosen])


@pytest.mark.parametrize("sparse", [False, True])
def test_a_copy_takes_no_more_memory_than_is_counted(sparse):
    dense, chosen = np.random.default_rng(0).standard_normal((20000, 40)).astype(np.float32), np.arange(40) % 2 == 0
    block, (found, _) = stored_block(dense, sparse), opened(dense, chosen, sparse)
    with traced() as allocated:
        found.copy(block, 0)
    counted = gathered_steps.COPIED * gathered_steps.COPIED_VALUES if sparse else 8 * few_columns.PRODUCT_ROWS * 20
    assert allocated.peak <= counted + 10000 and found.values.size == 20000 * 20


@pytest.mark.parametrize("sparse", [False, True])
def test_products_take_no_more_memory_than_is_counted(sparse, monkeypatch):
    monkeypatch.setattr(few_columns, "PRODUCT_ROWS", 512 // (1 + sparse))
    monkeypatch.setattr(leaves, "LEAF_BYTES", 1 << 14)
    random, found, own = np.random.default_rng(0), [], few_columns.minimise
    rows = random.standard_normal((4000, 60)).astype(np.float32)
    y = np.argmax(rows[:, :K] + random.gumbel(size=(4000, K)), axis=1)

    def measured(few, w, columns, at):
        problem, m = few.problem, np.count_nonzero(columns) - 1
        counted = few_columns.bytes_beside(problem) - few.bends.nbytes + m * few_columns.bytes_beside_column(problem)
        each = [lambda: few.gradient(w[:, columns]), few.diagonal, lambda: few.bent(w[:, columns])]
        for sums in each:
            list(sums())  # loads kernels
            with traced() as allocated:
                list(sums())
            found.append((allocated.peak, counted, problem.copies))
        return own(few, w, columns, at)

    monkeypatch.setattr(few_columns, "minimise", measured)
    given = sp.csr_matrix(rows) if sparse else rows
    sm.train((given, y), loss="logistic", solver="pdprox", penalty="l21", C=0.1, passes=2, threads=2)
    assert found and all(copies > 1 and 0 < peak <= counted for peak, counted, copies in found)


class ReadAtOnce(ArraySource):
    """Arrays that are read as a file is, but fit into memory."""

    def whole(self):
        return None


def full_and_sparse(n):
    """Sparse rows of 80 columns that matter, the first of them without zeros."""
    random = np.random.default_rng(0)
    dense = random.random((n, 80), np.float32) * (random.random((n, 80)) < 0.2)
    dense[:, 0] += 1.0
    scores = dense @ random.standard_normal((80, K)) + 3.0 * dense[:, :1] * (np.arange(K) == 1)
    return sp.csr_matrix(dense), np.argmax(scores + 0.2 * random.gumbel(size=(n, K)), axis=1)


def test_a_training_within_memory_takes_no_more(monkeypatch):
    """Eight values of C, columns that do not all fit, and one that is far fuller than the others."""
    monkeypatch.setattr(plan, "SLACK_BYTES", 0)
    monkeypatch.setattr(gathered_steps, "COPIED_VALUES", 1 << 10)
    opened, own, memory = [], Gathered.open, 7 * 10**6

    def kept(self, problem, sizes):
        taken = int(gathered_steps.bytes_of(problem, sizes)[self.chosen].sum())
        opened.append((problem, taken, np.count_nonzero(self.chosen)))
        return own(self, problem, sizes)

    monkeypatch.setattr(Gathered, "open", kept)
    Cs, valid = [0.05 * 1.2**i for i in range(8)], full_and_sparse(50)
    for n in (1000, 20000):  # the first one loads kernels
        rows, opened[:] = full_and_sparse(n), []
        with traced() as allocated:
            sm.train(
                ReadAtOnce(*rows), **{**OPTIONS, "C": Cs}, penalty="l21", valid=valid, tol=0.5, memory=memory, passes=1
            )
    assert allocated.peak <= memory and len(opened) == len(Cs)
    assert all(problem.resident and taken <= gathered_steps.room(problem) for problem, taken, _ in opened)
    assert max(count for *_, count in opened) < 80
    rooms = [gathered_steps.room(replace(opened[0][0], budget=size)) for size in range(0, memory, 20000)]
    assert 0 in rooms and min(filter(None, rooms)) >= of_a_column(opened[0][0])


def test_no_column_is_chosen_that_does_not_fit(monkeypatch):
    monkeypatch.setattr(gathered_steps, "room", lambda problem: of_a_column(problem) - 1)
    for given in ((X, Y), CountingSource(X, Y, BOUNDS)):
        found = sm.train(given, **OPTIONS, penalty="l21", tol=1e-3, passes=3)
        assert not found.converged and not found.model.coef_.any() and found.certificate.gap > 1e-3


@pytest.mark.parametrize("blocks", [False, True])
def test_given_weights_of_columns_without_values_go(blocks):
    dense = np.where(np.arange(30) == 7, 0.0, X)
    given = sm.train((X, Y), **OPTIONS, penalty="l21", tol=1e-3).model
    given.coef_[:] = np.arange(30) == 7
    rows = sp.csr_matrix(0.01 * dense)
    source = CountingSource(rows, Y, BOUNDS) if blocks else (rows, Y)
    found = sm.train(source, **OPTIONS, penalty="l21", tol=1e-3, init=given)
    assert found.converged and not found.model.coef_.any()


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_in_float32_and_folds(sparse):
    rows = sp.csr_matrix(X, dtype=np.float32) if sparse else X.astype(np.float32)
    whole = sm.train((X, Y), **OPTIONS, penalty="l21", tol=1e-6)
    single = sm.train((rows, Y), **OPTIONS, penalty="l21", tol=1e-6)
    assert single.converged and single.certificate.primal == pytest.approx(whole.certificate.primal, rel=2e-6)
    found = sm.train((rows, Y), **{**OPTIONS, "C": [0.02, 0.05]}, penalty="l21", tol=1e-3, cv=3)
    assert found.converged and found.passes <= 12


def test_values_of_c_and_a_path_take_few_passes():
    held_out = drawn(seed=1)[:2]
    rows = CountingSource(sp.csr_matrix(X), Y, BOUNDS)
    for Cs, most in (([0.01, 0.03, 0.05], 8), ("path:5", 25)):
        found = sm.train(rows, **{**OPTIONS, "C": Cs}, penalty="l21", tol=1e-3, valid=held_out)
        assert found.converged and found.passes <= most


def test_auto_takes_them_if_the_hessian_of_all_classes_is_too_wide():
    random = np.random.default_rng(0)
    wide = random.standard_normal((300, 1200))
    found = sm.train((wide, Y[np.arange(300) % 200]), loss="logistic", penalty="l21", C=0.02, tol=1e-3)
    assert found.converged and found.model.header["solver"].startswith("pdprox") and found.passes <= 8
