"""The Hessian of some columns: which they are, and that no proof and no optimum depends on them."""

from types import SimpleNamespace

import numpy as np
import pytest
from conftest import slow
from reference.datasets import as_form, noisy
from reference.sources import CountingSource

import streammargin as sm
from streammargin.compiled import look
from streammargin.penalties.base import Pieces
from streammargin.solvers.newton import curved_columns

X, Y = noisy(150, 24, seed=5)
GROUPS = sm.penalties.Group(np.arange(24) // 3)
SPARSE_GROUPS = sm.penalties.SparseGroup(np.arange(24) // 4, 0.5)


CLOSER = {"logistic": 2.0, "hinge": 1.0}


def problem_with(pieces, order, width, rows=1000, resident=True):
    """What the choice of columns asks of a problem."""
    objective = SimpleNamespace(pieces=lambda shape: (order, pieces))
    return SimpleNamespace(
        objective=objective, features=width - 1, rows=rows, values=rows * (width - 1), resident=resident, joint=False,
        count=1, path=False,
    )  # fmt: skip


def test_columns_with_weights_come_first_then_blocks_that_pull_most_and_always_the_constant(monkeypatch):
    monkeypatch.setattr(curved_columns, "FREE_CURVED_WORK", (0.0, 0.0))
    starts, limits = np.array([0, 2, 4, 6, 8, 9]), np.array([1.0, 1.0, 4.0, 1.0, 0.0])
    order = np.array([0, 5, 1, 6, 2, 7, 3, 4, 8])  # blocks {0, 5}, {1, 6}, {2, 7}, {3, 4} and the free constant
    problem = problem_with(Pieces(starts, limits, 0.0 * limits, 0.0 * limits), order, 9)
    w, pull = np.zeros((1, 9)), np.zeros((1, 9))
    w[0, 6] = 1.0
    pull[0, [2, 7, 3, 4]] = 1.5, 1.5, 1.0, 0.1
    chosen = curved_columns.following(problem, np.array([0]), w, pull)
    assert chosen.tolist() == [[1, 2, 3, 4, 6, 7, 8]]  # two times the three with weights, and blocks are whole
    w[0] = 1.0
    assert curved_columns.following(problem, np.array([0]), w, pull)[0].tolist() == list(range(9))


def test_pieces_of_some_columns_are_the_penalty_of_weights_that_are_0_elsewhere():
    rng = np.random.default_rng(0)
    starts = np.array([0, 3, 4, 7, 9, 10])
    pieces = Pieces(starts, *(rng.random(5) for _ in range(3)))
    order, columns = rng.permutation(10), np.array([0, 2, 3, 7, 9])
    w = np.zeros(10)
    w[columns] = rng.standard_normal(5)

    def value(order, pieces, w):
        blocks = [w[order[low:high]] for low, high in zip(pieces.starts[:-1], pieces.starts[1:], strict=True)]
        terms = zip(pieces.thresholds, pieces.ridges, pieces.cuts, blocks, strict=True)
        return sum(t * np.linalg.norm(b) + r / 2 * b @ b + c * np.abs(b).sum() for t, r, c, b in terms)

    few = curved_columns.pieces_of((order, pieces), columns)
    assert value(*few, w[columns]) == pytest.approx(value(order, pieces, w), rel=1e-14)
    assert np.all(np.diff(few[1].starts) > 0)


@pytest.fixture
def widths(monkeypatch):
    """The columns of each Hessian that is summed up."""
    found, own = [], look.look

    def spied(*given):
        found.append(given[-1].lines.shape[1])
        return own(*given)

    monkeypatch.setattr(look, "look", spied)
    return found


@pytest.mark.parametrize("form", ["dense", slow("csr")])
@pytest.mark.parametrize("loss", ["logistic", "hinge"])
@pytest.mark.parametrize("penalty", ["l1", "elasticnet", GROUPS, SPARSE_GROUPS], ids=str)
@pytest.mark.parametrize("places", ["in memory", "out of core"])
def test_the_optimum_is_that_of_all_columns(places, penalty, loss, form, widths, monkeypatch):
    rows, found = as_form(X, form, X.dtype), []
    source = (rows, Y) if places == "in memory" else CountingSource(rows, Y, (0, 40, 100, 150))
    for free in (np.inf, 0.1):
        monkeypatch.setattr(curved_columns, "FREE_CURVED_WORK", (free, free))
        monkeypatch.setattr(curved_columns, "CURVED_GROWTH", (2, 2))
        widths.clear()
        result = sm.train(
            source, solver="prox-newton", loss=loss, penalty=penalty, C=0.03 * CLOSER[loss], tol=1e-4, passes=200
        )
        assert result.converged
        found.append((result.certificate, max(widths[-3:]), result.passes))
    (whole, wide, reads), (some, narrow, more) = found
    assert some.dual <= whole.primal and whole.dual <= some.primal  # each proves its own optimum
    assert narrow < wide == 25
    assert more <= reads + 6


def test_given_weights_begin_with_their_columns(widths, monkeypatch):
    monkeypatch.setattr(curved_columns, "FREE_CURVED_WORK", (0.1, 0.1))
    options = {"solver": "prox-newton", "loss": "logistic", "penalty": "l1", "C": 0.05}
    first = sm.train((X, Y), tol=1e-3, passes=100, **options)
    support = np.count_nonzero(first.model.coef_) + 1
    assert 1 < support < 25
    widths.clear()
    again = sm.train((X, Y), tol=1e-6, passes=100, init=first.model, **options)
    assert again.converged and widths[0] == support


def test_a_path_sums_up_no_matrix_before_it_knows_the_gradient(widths, monkeypatch):
    monkeypatch.setattr(curved_columns, "FREE_CURVED_WORK", (0.1, 0.1))
    result = sm.train((X, Y), solver="prox-newton", loss="logistic", penalty="l1", C="path:4", valid=(X, Y), tol=1e-3)
    assert result.converged and widths[0] == 1 < widths[1] < 25


def test_lines_have_columns_of_their_own_and_as_many(widths, monkeypatch):
    labels = np.argmax(X[:, [0, 5, 9]], axis=1)
    found = []
    for free in (np.inf, 0.1):
        monkeypatch.setattr(curved_columns, "FREE_CURVED_WORK", (free, free))
        widths.clear()
        found.append(sm.train(
            (X, labels), solver="prox-newton", loss="logistic", penalty="l1", C=0.05, tol=1e-6, passes=100,
            multiclass="ovr",
        ))  # fmt: skip
        assert found[-1].converged
    assert widths[-1] < 25
    np.testing.assert_allclose(found[0].model.coef_, found[1].model.coef_, atol=2e-2)
    assert found[0].certificate.primal == pytest.approx(found[1].certificate.primal, rel=1e-5)
