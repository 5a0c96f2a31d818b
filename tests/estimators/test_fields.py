"""Estimators list and set the fields of loss and penalty, and replace the objects, which others may share."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

from reference.datasets import noisy, separable
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import streammargin as sm
from streammargin.penalties import ElasticNet, Group

X, Y = noisy(120, 6)


@pytest.mark.parametrize("penalty", ["elasticnet:0.3", "elasticnet:l1_ratio=0.30", ElasticNet(0.3)], ids=str)
def test_fields_are_parameters(penalty):
    model = sm.MarginClassifier(penalty=penalty)
    assert model.get_params()["penalty__l1_ratio"] == 0.3 and "penalty__l1_ratio" not in model.get_params(deep=False)
    assert model.set_params(penalty__l1_ratio=0.7, C=2.0) is model
    assert model.penalty == ElasticNet(0.7) and model.C == 2.0
    assert penalty in ("elasticnet:0.3", "elasticnet:l1_ratio=0.30") or penalty == ElasticNet(0.3), "it is shared"
    model.set_params(penalty="lp", penalty__p=1.5)
    assert str(model.penalty) == "lp:1.5"
    with pytest.raises(ValueError, match="lp has no parameter l1_ratio"):
        model.set_params(penalty__l1_ratio=0.1)


def test_values_are_kept_as_given_and_checked_in_fit():
    model = sm.MarginClassifier(penalty="elasticnet:7", loss=3)
    assert model.get_params()["penalty"] == "elasticnet:7"  # which never raises
    with pytest.raises(sm.UsageError, match="the parameter l1_ratio of elasticnet must be a number from 0 to 1"):
        sm.MarginClassifier(penalty="elasticnet:7").fit(X, Y)
    with pytest.raises(sm.UsageError, match="the parameter l1_ratio of elasticnet"):
        sm.MarginClassifier(penalty=ElasticNet(1)).set_params(penalty__l1_ratio="much").fit(X, Y)


def test_clones_share_no_object():
    penalty = Group(np.arange(6) // 2, 0.5)
    model = sm.MarginClassifier(penalty=penalty, loss=sm.losses.SmoothHinge(0.5))
    other = clone(model)
    assert other.penalty == penalty and other.penalty is not penalty and other.loss == model.loss
    fitted = [one.fit(X, Y).coef_ for one in (model, other)]
    assert np.array_equal(*fitted) and repr(model) and model.penalty is penalty


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_grid_over_a_field(jobs):
    ratios = [0.1, 0.5, 0.9]
    search = GridSearchCV(
        make_pipeline(StandardScaler(), sm.MarginClassifier(penalty="elasticnet")),
        {"marginclassifier__penalty__l1_ratio": ratios, "marginclassifier__C": [0.01, 0.1]}, cv=2, n_jobs=jobs,
    ).fit(X, Y)  # fmt: skip
    best = search.best_estimator_[-1]
    assert best.penalty.l1_ratio == search.best_params_["marginclassifier__penalty__l1_ratio"]
    scores = {}
    for params, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True):
        plain = sm.MarginClassifier(
            penalty=ElasticNet(params["marginclassifier__penalty__l1_ratio"]), C=params["marginclassifier__C"]
        )
        halves = GridSearchCV(make_pipeline(StandardScaler(), plain), {}, cv=2).fit(X, Y)
        scores[str(params)] = (score, halves.best_score_)
    assert all(one == other for one, other in scores.values())


def test_a_random_search_and_an_estimator_inside_another():
    shared = ElasticNet(0.5)
    search = RandomizedSearchCV(
        sm.MarginRegressor(penalty=shared), {"penalty__l1_ratio": [0.2, 0.4, 0.6, 0.8]}, n_iter=3, cv=2, random_state=0
    ).fit(X, X[:, 0] + 0.1 * X[:, 1])
    assert search.best_estimator_.penalty.l1_ratio == search.best_params_["penalty__l1_ratio"]
    assert shared.l1_ratio == 0.5
    several = OneVsRestClassifier(sm.MarginClassifier(penalty=shared)).set_params(estimator__penalty__l1_ratio=0.25)
    assert several.estimator.penalty == ElasticNet(0.25) and shared.l1_ratio == 0.5
    several.fit(X, np.arange(len(Y)) % 3)


def test_one_C_and_no_checkpoint():
    for C in ([0.1, 1.0], (1.0,), np.array([1.0, 2.0]), "path:5", "0.1,1"):
        with pytest.raises(sm.UsageError, match="an estimator takes one C; choose among several with GridSearchCV"):
            sm.MarginClassifier(C=C).fit(X, Y)
    assert "checkpoint" not in sm.MarginClassifier().get_params()
    for name in ("l1_ratio", "max_iter", "alpha"):
        with pytest.raises(sm.UsageError, match=f"there is no {name} here; give"):
            sm.MarginClassifier(**{name: 0.5})
    with pytest.raises(sm.UsageError, match=r"there is no transform here.*; give transforms"):
        sm.MarginRegressor(transform="unit")
    assert sm.InterpolatingRegressor(epsilon=0.1).get_params()["epsilon"] == 0.1


def test_an_object_of_the_logistic_loss_has_probabilities_as_its_word_has():
    word, thing = (sm.MarginClassifier(loss=loss).fit(X, Y) for loss in ("logistic", sm.losses.Logistic()))
    np.testing.assert_array_equal(thing.predict_proba(X), word.predict_proba(X))
    assert not hasattr(sm.MarginClassifier(loss=sm.losses.SmoothHinge()), "predict_proba")
    assert not hasattr(sm.MarginClassifier(loss="no loss"), "predict_proba")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_solvers_have_fields_as_penalties_do():
    shared = sm.solvers.Ascent()
    model = sm.MarginClassifier(solver=shared)
    assert model.get_params()["solver__momentum"] == "auto" and "solver__momentum" not in model.get_params(deep=False)
    other = clone(model).set_params(solver__momentum="yes")
    assert other.solver == sm.solvers.Ascent(momentum="yes") and shared.momentum == "auto" and model.solver is shared
    assert other.fit(X, Y)._header["solver"] == "ascent:momentum=yes,order=permutation"
    word = sm.MarginClassifier(solver="sdca")
    assert word.get_params()["solver__momentum"] == "no"
    assert word.set_params(solver__momentum="auto").solver == shared
    with pytest.raises(ValueError, match="ascent has no parameter average"):
        word.set_params(solver__average=True)
    for wrong in ("magic", "sdca:momentum=yes", 3, sm.solvers.Ascent):
        assert sm.MarginClassifier(solver=wrong).get_params()["solver"] is wrong
    search = GridSearchCV(sm.MarginClassifier(solver="perceptron"), {"solver__average": [True, False]}, cv=2)
    found = search.fit(*separable(80, 4, margin=1.0)).best_estimator_.solver
    assert type(found) is sm.solvers.Perceptron and found.average == search.best_params_["solver__average"]


@pytest.mark.parametrize("word", ["map", "penalty"])
def test_fields_of_none_are_told(word):
    with pytest.raises(sm.UsageError, match=f"{word} is None, which has no parameters; set {word} itself first"):
        sm.MarginClassifier().set_params(**{f"{word}__columns": 7, word: None})
