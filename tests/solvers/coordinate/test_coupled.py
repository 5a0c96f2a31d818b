"""Steps on all duals of a row at once: the same as the slow twin's, and certified at the optimum of NumPy's figures."""

import math

import numpy as np
import pytest
from conftest import slow
from reference.conic import Program
from reference.coordinate import coupled_passes
from reference.datasets import as_form
from reference.joint_losses import TWINS, Row
from reference.sources import CountingSource
from scipy.optimize import minimize

import streammargin as sm
from streammargin.compiled import look
from streammargin.driver.loop import runs
from streammargin.errors import DataError, UsageError
from streammargin.solvers import problem
from streammargin.solvers.coordinate import coupled
from streammargin.sources.arrays import ArraySource

NAMES = {"logistic": "softmax", "hinge": "crammer_singer"}
CLASSES = 4


def classes(rows=120, columns=6, seed=0, spread=1.0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, rows)
    return rng.standard_normal((CLASSES, columns))[y] * spread + rng.standard_normal((rows, columns)), y


def train(*data, **options):
    return sm.train(*data, **{"solver": "ascent", "multiclass": "joint", "bias": 1.0, "C": 0.1, **options})


def objective(loss, X, y, W, caps):
    """The objective of W (K, d+1) by its definition."""
    Z = np.column_stack([X, np.ones(len(X))]) @ W.T
    return 0.5 * np.sum(W**2) + sum(
        TWINS[NAMES[loss]].primal(Row(z, own, cap)) for z, own, cap in zip(Z, y, caps, strict=True)
    )


def weights_of(result):
    return np.column_stack([result.model.coef_, result.model.intercept_])


@pytest.mark.parametrize("loss", NAMES)
@pytest.mark.parametrize("form", ["dense", slow("csr")])
def test_two_passes_are_those_of_the_slow_twin(loss, form):
    X, y = classes()
    X[np.abs(X) < 0.3] = 0.0
    result = train((as_form(X, form), y), loss=loss, passes=2, tol=1e-12, seed=3)
    twin, alpha = coupled_passes(NAMES[loss], X, y, 0.1, passes=2, seed=3)
    np.testing.assert_allclose(weights_of(result), twin, rtol=1e-9, atol=1e-12)
    rows = [Row(np.zeros(CLASSES), own, 0.1) for own in y]
    dual = sum(TWINS[NAMES[loss]].dual(*pair) for pair in zip(rows, alpha, strict=True)) - 0.5 * np.sum(twin**2)
    assert result.certificate["dual"] == pytest.approx(dual, rel=1e-9)
    assert result.certificate["primal"] == pytest.approx(objective(loss, X, y, twin, np.full(120, 0.1)), rel=1e-9)


@pytest.mark.parametrize("blocks", [False, True])
def test_products_of_matrices_make_the_same_steps(monkeypatch, blocks):
    X, y = classes(2000)
    weights = np.where(np.arange(2000) % 5, 1.0, 0.0)
    kind = CountingSource if blocks else ArraySource
    data = kind(X, y, *[range(0, 2001, 100)] * blocks, sample_weight=weights)
    by_rows = train(data, loss="logistic", passes=2, tol=1e-12)
    for module in (problem, look, runs):
        monkeypatch.setattr(module, "MANY_LINES", CLASSES)
    for module in (coupled, look):
        monkeypatch.setattr(module, "AHEAD", 70)
    found = train(data, loss="logistic", passes=2, tol=1e-12)
    np.testing.assert_allclose(weights_of(found), weights_of(by_rows), rtol=1e-9, atol=1e-12)
    for name in ("primal", "dual", "mistakes"):
        assert found.certificate[name] == pytest.approx(by_rows.certificate[name], rel=1e-9)


def optimum(loss, X, y, caps):
    """The least objective, by L-BFGS or an interior-point method."""
    A, K = np.column_stack([X, np.ones(len(X))]), CLASSES
    if loss == "logistic":

        def value(w):
            W = w.reshape(K, -1)
            Z = A @ W.T
            P = np.exp(Z - Z.max(axis=1, keepdims=True))
            P /= P.sum(axis=1, keepdims=True)
            P[np.arange(len(y)), y] -= 1.0
            return objective(loss, X, y, W, caps), (W + (caps[:, None] * P).T @ A).ravel()

        found = minimize(value, np.zeros(K * A.shape[1]), jac=True, options={"maxiter": 5000, "gtol": 1e-9})
        return found.fun
    program = Program()
    w = program.variables(K * A.shape[1], square=1.0)
    worst = program.variables(len(y), cost=caps)  # at least z_k + [k is another] - z_own
    for k in range(K):
        scores = np.zeros((len(y), w.size))
        for i, own in enumerate(y):
            scores[i, own * A.shape[1] : (own + 1) * A.shape[1]] += A[i]
            scores[i, k * A.shape[1] : (k + 1) * A.shape[1]] -= A[i]
        program.inside("nonnegative", -1.0 * (y != k), [(worst, np.eye(len(y))), (w, scores)])
    return program.solve()[0]


@pytest.mark.parametrize("loss", NAMES)
def test_certified_at_the_optimum_with_weights_of_rows_and_classes(loss):
    X, y = classes(80, 4)
    sample_weight = 0.5 + np.arange(80) % 3
    factors = {0: 2.0, 1: 1.0, 2: 0.5, 3: 1.0}
    result = sm.train(
        (X, y), sample_weight=sample_weight, class_weight=factors, solver="ascent", multiclass="joint", bias=1.0,
        C=0.2, loss=loss, tol=1e-5, passes=2000,
    )  # fmt: skip
    caps = 0.2 * sample_weight * np.array([factors[own] for own in y])
    best = optimum(loss, X, y, caps)
    assert result.converged
    assert result.certificate["dual"] <= best * (1 + 2e-6)
    assert best * (1 - 2e-6) <= result.certificate["primal"] <= best * (1 + 1.2e-5)
    assert result.certificate["primal"] == pytest.approx(objective(loss, X, y, weights_of(result), caps), rel=1e-9)
    wrong = np.argmax(X @ result.model.coef_.T + result.model.intercept_, axis=1) != y
    assert result.certificate["mistakes"] == wrong.sum()


@pytest.mark.parametrize("loss", NAMES)
@pytest.mark.parametrize("form", ["dense", slow("csr")])
def test_out_of_core_each_value_of_C_is_certified(loss, form):
    X, y = classes(4000, 30, spread=0.5)
    X[np.abs(X) < 0.5] = 0.0
    source = CountingSource(as_form(X, form, np.float32), y, np.linspace(0, 4000, 21).astype(int), None)
    costs = [1e-3, 1e-2]
    result = train(source, loss=loss, C=costs, tol=1e-3, valid=(X[::3], y[::3]), passes=60)
    proven = [event for event in result.history if event["event"] == "certificate"]
    for C in costs:
        mine = [event for event in proven if event["C"] == C]
        assert mine[-1]["gap"] <= 1e-3 and len(mine) <= 20
    best = next(event for event in result.history if event["event"] == "run_end")["C"]
    found = objective(loss, X.astype(np.float32).astype(float), y, weights_of(result), np.full(len(y), best))
    assert result.certificate["primal"] == pytest.approx(found, rel=1e-6)


@pytest.mark.parametrize("C, fewer", [(1.0, 0.6), (1e-5, 1.0)])
def test_blocks_at_hand_are_visited_until_their_rows_settle(C, fewer, monkeypatch):
    """At a large C a read is used for more visits; at a small one rows settle in two."""
    X, y = classes(2000, 60, spread=0.3)

    def reads():
        source = CountingSource(X.astype(np.float32), y, np.linspace(0, 2000, 21).astype(int), None)
        return train(source, loss="logistic", C=C, tol=1e-3, passes=200)

    found = reads()
    monkeypatch.setattr(coupled, "MOST_VISITS", 2)
    twice = reads()
    assert found.converged and twice.converged and found.passes <= fewer * twice.passes


@pytest.mark.parametrize("loss", NAMES)
def test_rows_that_do_not_move_are_skipped_and_woken(loss, monkeypatch):
    """The hinge leaves most rows of separate classes alone; the answer is as near as without a rest."""
    X, y = classes(400, 8, spread=4.0)
    result = train((X, y), loss=loss, C=1.0, tol=1e-6, passes=3000)
    monkeypatch.setattr(coupled, "LONGEST_SLEEP", 0)
    restless = train((X, y), loss=loss, C=1.0, tol=1e-6, passes=3000)
    assert result.converged and restless.converged
    assert result.certificate["primal"] == pytest.approx(restless.certificate["primal"], rel=2e-6)
    work = [max(e.get("multiplications") or 0 for e in r.history) for r in (result, restless)]
    assert work[0] < (0.8 if loss == "hinge" else 1.01) * work[1]


def test_float32_rows_have_float32_duals_down_to_a_tolerance_that_allows_it():
    X, y = classes()
    loose, tight = (train((X.astype(np.float32), y), tol=tol, loss="logistic") for tol in (1e-4, 1e-7))
    assert loose.converged and tight.converged
    assert loose.certificate["primal"] == pytest.approx(tight.certificate["primal"], rel=1e-4)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"solver": "asdca"}, "has neither momentum nor rows drawn with replacement"),
        ({"solver": "ascent:order=uniform"}, "has neither momentum nor rows drawn with replacement"),
        ({"penalty": "lp:1.5"}, "at once ascent takes the penalty l2 alone; use multiclass"),
        ({"penalty": "elasticnet"}, "at once ascent takes the penalty l2 alone; use"),
        ({"penalty": "l1"}, "ascent does not take penalty=\"l1\""),
        ({"bias": "free"}, "needs the constant column to be penalised"),
    ],
)  # fmt: skip
def test_what_it_does_not_serve_is_said(options, message):
    with pytest.raises(UsageError, match=message):
        train(classes(), **options)


def test_values_whose_squares_overflow_are_said():
    X, y = classes()
    X[7, 2] = 1e200
    with pytest.raises(DataError, match="the values of row 7 are too large"):
        train((X, y), loss="logistic", scale="none")


def test_rows_of_zeros_and_one_row_of_a_class():
    X, y = classes(60, 3)
    X[5] = 0.0
    y[y == 2] = 1
    y[11] = 2
    for loss in NAMES:
        for bias in (0, 1.0):
            result = train((X, y), loss=loss, bias=bias, tol=1e-5, passes=3000)
            assert result.converged and math.isfinite(result.certificate["primal"])


@pytest.mark.parametrize("loss", NAMES)
@pytest.mark.parametrize("C, alone", [(1e-3, True), (30.0, False)])
def test_newton_begins_with_them_and_goes_on_where_many_passes_are_left(loss, C, alone, monkeypatch):
    X, y = classes(300, 8, spread=0.7)
    made = []
    begin = coupled.Coupled.begin_pass
    monkeypatch.setattr(coupled.Coupled, "begin_pass", lambda *given: made.append(1) or begin(*given))
    result = train((X, y), loss=loss, C=C, tol=1e-5, solver="newton", passes=400)
    assert result.converged and made
    assert alone or len(made) < result.passes
    source = CountingSource(X, y, np.array([0, 150, 300]), None)  # out of core newton has no duals
    other = train(source, loss=loss, C=C, tol=1e-5, solver="newton", passes=400)
    assert len(made) < result.passes + other.passes
    assert result.certificate["dual"] <= other.certificate["primal"] * (1 + 1e-12)
    assert other.certificate["dual"] <= result.certificate["primal"] * (1 + 1e-12)
