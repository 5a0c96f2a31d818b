"""Steps on a weighted sample, out of core: what they certify, what the sample is, and when they are taken."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import slow
from reference.datasets import as_form
from reference.sources import CountingSource
from reference.stopped import check_every_pass

import streammargin as sm
from streammargin.compiled import products
from streammargin.rows.blocks import DenseBlock
from streammargin.solvers.base import row_bytes_of
from streammargin.solvers.cache.coded import LEVELS, Coding
from streammargin.solvers.newton import conjugate, sampled, truncated
from streammargin.solvers.newton.sampled import Sampled, SampledState


@pytest.fixture(autouse=True)
def always(monkeypatch):
    """Few columns and rows are enough; there is room for a third of the rows, as they are or in bytes."""
    monkeypatch.setattr(sampled, "WIDE_HESSIAN_COLUMNS", 0)
    monkeypatch.setattr(sampled, "LEAST_DRAWN_ROWS", 0)
    monkeypatch.setattr(sampled, "sample_bytes", lambda problem: int(problem.rows * sampled.row_bytes(problem)) // 3)


@pytest.fixture
def drawn(monkeypatch):
    """(Pass, the numbers of the rows, how many each stands for, whether they are in bytes) of every step."""
    found, held = [], Sampled._held

    def noted(problem, state):
        cache = state.drawn.rows
        chances = np.concatenate([cache.pieces[name].beside[1] for name in sorted(cache.pieces)])
        ids = np.concatenate([cache.pieces[name].ids for name in sorted(cache.pieces)])
        found.append((state.number, ids, 1 / np.minimum(1, state.drawn.limit * chances), cache.coding.low.size > 0))
        return held(problem, state)

    monkeypatch.setattr(Sampled, "_held", staticmethod(noted))
    return found


def classes(rows=600, features=12, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, features)) * rng.uniform(0.2, 2.0, features) + 0.5
    y = np.argmax(X[:, :3] * 2 + [1.0, 0.0, -1.0] + rng.gumbel(size=(rows, 3)), axis=1)
    return X, y, rng.choice([0.0, 1.0, 2.5], rows)


def source(X, y, weights=None, blocks=5):
    bounds = np.linspace(0, len(y), blocks + 1).astype(int) if isinstance(blocks, int) else blocks
    return CountingSource(X, y, bounds, weights)


def train(data, **options):
    return sm.train(data, **{"loss": "logistic", "solver": "newton", "tol": 1e-6, "passes": 300, **options})


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("bias", [0, 1.0, "free"])
@pytest.mark.parametrize("C", [0.01, 1.0, slow(100.0)])
def test_it_meets_steps_on_all_rows_in_memory(C, bias, form, drawn):
    """Neither objective is below the bound of the other; rows of weight 0 are absent."""
    X, y, weights = classes()
    given = {"C": C, "bias": bias, "class_weight": {0: 2.0}}
    known = sm.train((X, y), loss="logistic", tol=1e-9, sample_weight=weights, **given).certificate
    found = train(source(as_form(X, form), y, weights), **given)
    assert found.converged and drawn
    figures = found.certificate
    assert figures.dual <= known.primal * (1 + 1e-9) and known.dual <= figures.primal * (1 + 1e-9)
    assert figures.primal <= known.primal * (1 + 1e-6 + 1e-9)
    assert {coded for number, _, _, coded in drawn if number > 2} <= {form == "dense"}
    assert not any((weights[ids] == 0).any() for _, ids, _, _ in drawn)


def test_several_values_of_C_are_served_by_the_same_reads(drawn):
    X, y, _ = classes()
    data = source(X, y)
    train(data, C=[0.1, 1.0], valid=(X[:99], y[:99]))
    both = len({number for number, *_ in drawn})
    alone = [train(source(X, y), C=C).passes for C in (0.1, 1.0)]
    assert both <= max(alone) + 3


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_the_sample_does_not_depend_on_the_blocks(form, drawn):
    X, y, weights = classes()
    X, model = as_form(X, form), train((X, y), tol=1e-2).model
    for blocks in (2, 9, [0, 1, 200, 201, 600]):
        train(source(X, y, weights, blocks), passes=1, tol=1e-9, init=model)
    for _, ids, stands, _ in drawn[1:]:
        np.testing.assert_array_equal(ids, drawn[0][1])
        np.testing.assert_allclose(stands, drawn[0][2], rtol=1e-9)
    assert len(drawn) == 3 and 100 < len(drawn[0][1]) < 300


def test_rows_stand_for_all_rows(drawn):
    """Over many seeds sums over samples are those over all rows, and a row of a large chance is drawn more often."""
    X, y, _ = classes(200)
    X[:20] *= 5.0
    model = train((X, y), C=1e-3, tol=1e-3).model
    sums, often = [], np.zeros(200)
    for seed in range(120):
        drawn.clear()
        train(source(X, y), passes=1, init=model, seed=seed, C=1e-3, tol=1e-9)
        [(_, ids, stands, _)] = drawn
        sums.append([stands.sum(), stands @ X[ids, 0] ** 2])
        often[ids] += 1
    sums = np.array(sums)
    error = sums.std(axis=0) / np.sqrt(len(sums))
    assert (np.abs(sums.mean(axis=0) - [200.0, np.sum(X[:, 0] ** 2)]) < 4 * error).all()
    assert often[:20].mean() > 1.5 * often[20:].mean()


@pytest.mark.parametrize("column", [0.0, 1.5])
def test_bytes_serve_as_their_rows_do(column):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 6)) * [1.0, 1e-3, 100.0, 1.0, 1.0, 1.0] + [0.0, 5.0, -300.0, 0.0, 0.0, 0.0]
    X[:, 3] = 7.0
    coding = Coding.between(X.min(axis=0), X.max(axis=0))
    coded = coding.rows(DenseBlock(X, column))
    assert coded.X.dtype == np.uint8 and coded.X.max() == LEVELS
    read = coding.low + coding.step * coded.X
    assert (np.abs(read - X) <= np.ptp(X, axis=0) / LEVELS * 0.5 * (1 + 1e-9)).all()
    A = np.column_stack([read, np.full(40, column)])
    w, R = rng.standard_normal((3, 7)), rng.standard_normal((40, 3))
    scores, image = np.zeros((40, 3)), np.zeros((3, 7))
    products.add_scores(coded, coding.weights(w, column), scores)
    np.testing.assert_allclose(scores, A @ w.T, atol=1e-9)
    coded.add_pulls(0, 40, R, image)
    np.testing.assert_allclose(coding.sums(image, column), R.T @ A, atol=1e-8)
    Q = np.column_stack([coded.X, np.ones(40)])
    gram = np.triu(Q.T @ Q)
    coding.turn_gram(gram, column)
    np.testing.assert_allclose(np.triu(gram), np.triu(A.T @ A), rtol=1e-9, atol=1e-6)
    endless = Coding.between(np.array([-1e308]), np.array([1e308]))
    assert not endless.low.size  # as they are


def test_a_step_that_leads_up_is_shortened(monkeypatch):
    """A tiny sample of rows with large weights: objectives of accepted steps never rise."""
    X, y, _ = classes(400)
    monkeypatch.setattr(sampled, "sample_bytes", lambda problem: int(9 * sampled.row_bytes(problem)))
    objectives, judge, shortened = [], Sampled._judge, []

    def noted(solver, problem, state, active):
        before = state.objective[0]
        judge(solver, problem, state, active)
        shortened.append(not state.due[0])
        objectives.append((before, state.objective[0]))

    monkeypatch.setattr(Sampled, "_judge", noted)
    result = train(source(X, y), C=10.0, tol=1e-3, passes=400)
    assert all(after <= before for before, after in objectives)
    assert sum(shortened) > 1 and result.certificate.gap < 0.1


@pytest.mark.parametrize("bias", [1.0, "free"])
def test_it_goes_on_with_the_same_bits_after_any_unit(bias, monkeypatch, tmp_path):
    monkeypatch.setattr(truncated, "UNIT", 1.0)
    X, y, _ = classes()
    options = {"C": 10.0, "bias": bias, "tol": 1e-7}
    check_every_pass(partial(train, source(X, y), **options), tmp_path)


def test_the_first_sample_alone_is_certified_by_a_read():
    X, y, _ = classes()
    result = train(source(X, y), passes=1, tol=1e-9)
    gap = result.certificate
    assert result.passes == 1 and gap.dual <= gap.primal < len(y) * np.log(3)  # better than 0


@pytest.mark.parametrize("constant", [False, True])
def test_columns_without_a_range_and_rows_alike(constant):
    """Bytes have no levels if a column is constant; nor do conjugate gradients lose their way."""
    X, y, _ = classes()
    X[:, 4] = 3.0
    if constant:
        X[:] = 1.0
    assert train(source(X, y), tol=1e-4).converged


def test_auto_takes_it_for_a_wide_softmax_and_says_so():
    X, y, _ = classes(3_000, 8)
    result = sm.train(source(X, y), loss="logistic", tol=1e-3)
    start = result.history[0]
    assert "each read makes a step on a sample of some" in str(start) and result.model.header["solver"] == "newton"


@pytest.mark.parametrize("other", [{"penalty": "l1"}, {"loss": "hinge"}, {"multiclass": "ovr"}])
def test_others_take_other_ways(other, drawn):
    X, y, _ = classes(300)
    train(source(X, y), **{"passes": 3, "multiclass": "joint", **other})
    assert not drawn


def test_text_and_small_budgets_are_left_to_others(monkeypatch):
    """With more columns than the sample has rows, or eigenvectors that cost more than products."""
    monkeypatch.undo()
    X, y, _ = classes(2_000, 8)
    wide = sp.random(2_000, 9_000, 0.001, "csr", random_state=np.random.default_rng(0))
    result = sm.train(source(sp.hstack([sp.csr_matrix(X), wide]).tocsr(), y), loss="logistic", tol=1e-2)
    assert result.converged and result.model.header["solver"].startswith("ascent")


def test_the_state_keeps_no_number_of_all_rows():
    problem = conjugate_problem()
    assert row_bytes_of(Sampled(), problem) == 0 and SampledState is Sampled().state_class


def conjugate_problem():
    """The problem of a training, as a solver sees it."""
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conjugate, "supports", lambda problem: seen.append(problem) or True)
        patch.setattr(sampled, "supports", lambda problem: seen.append(problem) or True)
        X, y, _ = classes(60)
        train(source(X, y), passes=1)
    return replace(seen[-1], rows=1_000_000)
