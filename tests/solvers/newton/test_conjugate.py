"""Newton steps by products: what they certify, beside an interior-point method; hostile data; when they are taken."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import slow
from reference.datasets import WEIGHTINGS, as_form, noisy
from reference.optimum import solve
from reference.stopped import check_every_pass
from reference.training import binary, check_certificate
from reference.words import loss_word
from sklearn.linear_model import LogisticRegression, Ridge

import streammargin as sm
from streammargin.solvers.coordinate.coupled import Coupled
from streammargin.solvers.newton import conjugate, truncated
from streammargin.solvers.newton.newton import CHEAP_STEP_COLUMNS

SMOOTH = ["squared_hinge", "smooth_hinge", "logistic"]


@pytest.fixture
def always(monkeypatch):
    """Few columns are enough."""
    monkeypatch.setattr(conjugate, "ASSUMED_PRODUCTS", 0)


@pytest.fixture
def steps(monkeypatch):
    """The groups that steps are made for, from here on."""
    seen, one = [], conjugate.Conjugate._steps

    def noted(solver, problem, state, held):
        seen.append(state.newton.group)
        return one(solver, problem, state, held)

    monkeypatch.setattr(conjugate.Conjugate, "_steps", noted)
    return seen


def wide(rows=300, features=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, features)) * rng.uniform(0.1, 3.0, features)
    return X, np.where(X[:, :9] @ rng.standard_normal(9) + 3.0 * rng.standard_normal(rows) > 0, 1, -1)


def train(X, y, **options):
    return sm.train((X, y), **{"solver": "newton", "tol": 1e-5, **options})


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("loss", SMOOTH)
def test_objective_equals_the_interior_point_optimum(loss, C, form, weighting, always, steps):
    X, y = noisy()
    problem = binary(X, y, loss=loss, width=0.5, C=C, **WEIGHTINGS[weighting])
    result = train(as_form(X, form), y, loss=loss_word(loss, 0.5), C=C, bias=0, **WEIGHTINGS[weighting])
    check_certificate(result, problem, solve(problem, loss, 0.5), result.model.coef_[0], 1e-5)
    assert steps


@pytest.mark.parametrize("tol", [1e-3, 1e-7])
@pytest.mark.parametrize("C", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("loss", SMOOTH)
def test_many_columns_and_a_free_constant(loss, C, tol, steps):
    """Beside steps with a Hessian: neither objective is below the bound of the other."""
    X, y = wide()
    result = train(X + 0.5, y, loss=loss, C=C, tol=tol, bias="free")
    assert result.converged and steps
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conjugate, "ASSUMED_PRODUCTS", np.inf)
        other = train(X + 0.5, y, loss=loss, C=C, tol=1e-7, bias="free", passes=500)
    figures, known = result.certificate, other.certificate
    assert figures.dual <= known.primal * (1 + 1e-9) and known.dual <= figures.primal * (1 + 1e-9)
    assert figures.primal <= known.primal * (1 + tol + 1e-7)


@pytest.mark.parametrize("C", [0.1, 100.0])
def test_as_scikit_learn_does(C, steps):
    X, y = wide()
    ours = train(X, y, loss="logistic", C=C, tol=1e-9, bias="free")
    theirs = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-10, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(ours.model.coef_, theirs.coef_, atol=2e-4)
    numbers = X[:, :4].sum(axis=1) + 7.0
    ours = train(X, numbers, loss="squared_error", C=C, tol=1e-10, bias="free")
    theirs = Ridge(alpha=1.0 / C).fit(X, numbers)
    np.testing.assert_allclose(ours.model.coef_[0], theirs.coef_, atol=1e-4)
    assert ours.model.intercept_ == pytest.approx(theirs.intercept_, abs=1e-4) and len(set(steps)) == 1


def hostile():
    X, y = wide()
    holes = X * (np.arange(300) % 3 > 0)[:, None]
    rng = np.random.default_rng(3)
    return {
        "duplicates": (np.repeat(X[:30], 10, 0), np.repeat(y[:30], 10)),
        "contradictions": (np.repeat(X[:150], 2, 0), np.tile([1, -1], 150)),
        "rows of zeros": (holes, y),
        "nothing but zeros": (np.zeros((150, 150)), np.tile([1, -1], 75)),
        "collinear columns": (np.hstack([X, X, 2.0 * X[:, :3]]), y),
        "columns of all sizes": (X * 10.0 ** rng.uniform(-4, 4, 150), y),
        "one row of a class": (X, np.where(np.arange(300) == 3, 1, -1)),
        "fewer rows than columns": (X[:40], np.tile([1, -1], 20)),
        "separable": (X + np.outer(5.0 * y, X[0] / np.linalg.norm(X[0])), y),
    }


@pytest.mark.parametrize("C", [1e-6, 1.0, 100.0, 1e8])
@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
@pytest.mark.parametrize("case", hostile())
def test_hostile_data_end_with_a_proof(case, loss, C, always, steps):
    X, y = hostile()[case]
    result = train(X, y, loss=loss, C=C, tol=1e-3, bias=0, passes=500)
    problem = binary(X, y, loss=loss, C=C)
    assert result.converged and steps, result.reason
    figures = result.certificate
    assert figures.primal == pytest.approx(problem.primal(result.model.coef_[0]), rel=1e-6)
    assert figures.primal - figures.dual <= 1e-3 * max(abs(figures.primal), abs(figures.dual))


def test_several_classes_stop_one_by_one(steps):
    X, y = wide()
    y = np.where(X[:, 0] > 2.0, 2, y)
    several = train(X, y, loss="logistic", multiclass="ovr", tol=1e-6)
    assert several.converged and set(steps) == {0, 1, 2}
    [last] = [event for event in several.history if event["event"] == "certificate"][-1:]
    for figures, label in zip(last["per_class"], (-1, 1, 2), strict=True):
        alone = train(X, np.where(y == label, 1, -1), loss="logistic", tol=1e-6)
        assert figures["primal"] == pytest.approx(alone.certificate.primal, rel=1e-6)


@pytest.mark.parametrize("bias", [1.0, "free"])
def test_stopped_after_any_unit_it_goes_on_with_the_same_bits(bias, monkeypatch, tmp_path):
    """A unit is a product or two, and a pass a few units."""
    monkeypatch.setattr(truncated, "UNIT", 1.0)
    monkeypatch.setattr(conjugate, "MOST_CONJUGATE_WORK", 1e6)
    X, y = wide()
    options = {"loss": "logistic", "C": 10.0, "bias": bias, "tol": 1e-7}
    check_every_pass(partial(train, X, y, **options), tmp_path)


def test_it_begins_from_given_weights(steps):
    X, y = wide()
    first = train(X, y, loss="logistic", C=10.0, tol=1e-6)
    before = len(steps)
    again = train(X, y, loss="logistic", C=10.0, tol=1e-3, init=first.model)
    assert again.converged and again.certificate.primal == pytest.approx(first.certificate.primal, rel=1e-6)
    assert len(steps) - before <= before


def test_steps_that_lead_nowhere_are_followed_by_others(monkeypatch):
    """Where products tell nothing, the steps with a Hessian take over."""
    monkeypatch.setattr(truncated, "MOST_STEPS", 0)
    X, y = wide()
    result = train(X, y, loss="logistic", tol=1e-6)
    assert result.converged and result.passes > 8


def classes(rows=300, features=150, seed=0):
    """Rows of three classes of different sizes, their labels, and weights of the rows."""
    X, _ = wide(rows, features, seed)
    rng = np.random.default_rng(seed + 1)
    scores = X[:, :9] @ rng.standard_normal((9, 3)) + [1.0, 0.0, -1.0] + 3.0 * rng.gumbel(size=(rows, 3))
    return X, np.argmax(scores, axis=1), rng.choice([0.0, 1.0, 2.5], rows)


@pytest.fixture
def wholes(monkeypatch):
    """`best(...)` trains with steps with a Hessian, to 1e-9."""

    def best(X, y, **options):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(conjugate, "ASSUMED_PRODUCTS", np.inf)
            return train(X, y, **(options | {"tol": 1e-9, "passes": 500})).certificate

    return best


@pytest.mark.parametrize("form", ["dense", slow("csr")])
@pytest.mark.parametrize("bias", [0, 1.0, "free"])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_the_softmax_meets_steps_with_a_hessian(C, bias, form, steps, wholes):
    """Neither objective is below the bound of the other; rows of weight 0 are absent."""
    X, y, weights = classes(features=40)
    given = {"loss": "logistic", "C": C, "bias": bias, "sample_weight": weights, "class_weight": {0: 2.0}}
    known = wholes(as_form(X + 0.5, form), y, **given)
    assert not steps
    for tol in (1e-3, 1e-7):
        result = train(as_form(X + 0.5, form), y, tol=tol, **given)
        assert result.converged and set(steps) == {0} and len(result.certificate.per_class) == 1
        figures = result.certificate
        assert figures.dual <= known.primal * (1 + 1e-9) and known.dual <= figures.primal * (1 + 1e-9)
        assert figures.primal <= known.primal * (1 + tol + 1e-9)


def test_the_softmax_is_that_of_scikit_learn(steps):
    X, y, weights = classes()
    ours = train(X, y, loss="logistic", tol=1e-9, bias="free", sample_weight=weights)
    theirs = LogisticRegression(solver="newton-cholesky", tol=1e-10, max_iter=1000).fit(X, y, weights)
    assert steps
    np.testing.assert_allclose(ours.model.coef_, theirs.coef_, atol=2e-4)
    np.testing.assert_allclose(ours.model.predict_proba(X), theirs.predict_proba(X), atol=1e-3)


@pytest.mark.parametrize("C", [1e-6, 1.0, 1e4])
@pytest.mark.parametrize("case", hostile())
def test_the_softmax_of_hostile_data_ends_with_a_proof(case, C, always, steps):
    X, y = hostile()[case]
    y = np.where(np.arange(len(y)) % 7 == 0, 2, y)
    result = train(X, y, loss="logistic", C=C, tol=1e-3, passes=500)
    assert result.converged, result.reason
    assert steps or (X.shape[1] > CHEAP_STEP_COLUMNS and C < 1.0)  # then steps on rows are enough


@pytest.mark.parametrize("bias", [1.0, "free"])
def test_the_softmax_goes_on_with_the_same_bits_after_any_unit(bias, monkeypatch, tmp_path):
    monkeypatch.setattr(truncated, "UNIT", 1.0)
    monkeypatch.setattr(conjugate, "MOST_CONJUGATE_WORK", 3e6)
    X, y, _ = classes()
    options = {"loss": "logistic", "C": 10.0, "bias": bias, "tol": 1e-7}
    check_every_pass(partial(train, X, y, **options), tmp_path)


@pytest.mark.parametrize("C", [1e-4, 10.0])
def test_with_many_columns_steps_on_rows_come_first(C, steps, monkeypatch):
    """Products follow if these would take too many passes."""
    made, begin = [], Coupled.begin_pass
    monkeypatch.setattr(Coupled, "begin_pass", lambda *given: made.append(1) or begin(*given))
    X, y, _ = classes(features=220)
    result = train(X, y, loss="logistic", C=C, tol=1e-6)
    assert result.converged and made and bool(steps) == (C > 1.0)


def test_a_dear_step_of_the_softmax_is_followed_by_a_hessian(monkeypatch, steps):
    monkeypatch.setattr(conjugate, "DEAR", 0.0)
    X, y, _ = classes(features=40)
    result = train(X, y, loss="logistic", C=10.0, tol=1e-7)
    assert result.converged and len(set(steps)) == 1 and result.passes > 3


def test_auto_takes_products_for_the_softmax_where_a_hessian_is_large():
    X, y, _ = classes(rows=3_000)
    y = (y + 3 * (np.arange(3_000) % 30)) % 60
    assert sm.train((X, y), loss="logistic", tol=1e-2).model.header["solver"] == "newton"


@pytest.mark.parametrize("taken, options, form", [
    (True, {"loss": "logistic"}, "dense"), (True, {"loss": "squared_hinge", "bias": "free"}, "dense"),
    (False, {"loss": "hinge"}, "dense"), (False, {"loss": "logistic", "penalty": "l1"}, "dense"),
    (False, {"loss": "logistic"}, "few columns"), (False, {"loss": "logistic"}, "few values"),
])  # fmt: skip
def test_it_is_taken_where_hessians_cost_more(taken, options, form, steps):
    X, y = wide()
    if form == "few columns":
        X = X[:, :40]
    if form == "few values":
        X, y = np.repeat(X, 20, 0), np.repeat(y, 20)
        X = sp.csr_matrix(X * (np.random.default_rng(0).random(X.shape) < 0.02))
    assert train(X, y, tol=1e-2, **options).converged and bool(steps) == taken
