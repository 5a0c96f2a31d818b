"""The loss that is taken if none is given: hinge for two classes, logistic for more."""

import logging

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

import streammargin as sm

X, Y = load_iris(return_X_y=True)


def loss_of(result):
    return result.model.header["loss"], result.model.header["multiclass"]


def test_three_classes_take_one_softmax(caplog):
    """Its weights are those of scikit-learn's multinomial regression of the same objective."""
    with caplog.at_level(logging.INFO):
        result = sm.train(X, Y, tol=1e-8)
    assert loss_of(result) == ("logistic", "joint")
    assert '3 classes take loss="logistic"' in caplog.text and 'loss="hinge" separates each class' in caplog.text
    ones = np.column_stack([X, np.ones(len(X))])
    other = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=10_000).fit(ones, Y)
    assert np.allclose(np.column_stack([result.model.coef_, result.model.intercept_]), other.coef_, atol=1e-3)
    assert np.allclose(result.model.predict_proba(X).sum(axis=1), 1.0)


def test_two_classes_take_the_hinge(caplog):
    with caplog.at_level(logging.INFO):
        result = sm.train(X, Y == 0)
    assert loss_of(result) == ("hinge", "ovr")
    assert 'no loss was given: loss="hinge" is taken; loss="logistic" has probabilities' in caplog.text


@pytest.mark.parametrize(
    "given",
    [{"C": np.inf}, {"kernel": "rbf:0.5"}, {"solver": "mirror", "C": np.inf}, {"positive": 1}, {"loss": "hinge"}],
    ids=str,
)
def test_what_has_no_softmax_keeps_the_hinge(given):
    rows = np.abs(X - X.mean(axis=0)) if given.get("C") else X
    assert loss_of(sm.train(rows, Y, passes=3, **given))[0] == "hinge"


def test_auto_is_no_loss(caplog):
    assert loss_of(sm.train(X, Y, loss="auto")) == loss_of(sm.train(X, Y, loss=None)) == ("logistic", "joint")


def test_each_class_against_the_rest_takes_it_too():
    assert loss_of(sm.train(X, Y, multiclass="ovr")) == ("logistic", "ovr")


def test_several_values_of_C_share_the_loss():
    assert loss_of(sm.train(X, Y, C=[0.1, 1.0], valid=(X, Y))) == ("logistic", "joint")


def test_a_regressor_takes_its_own():
    assert sm.MarginRegressor(loss="auto").fit(X, X[:, 0]).certificate_.gap <= 1e-3


def test_an_estimator_has_probabilities_if_the_loss_that_was_taken_has():
    three, two = sm.MarginClassifier().fit(X, Y), sm.MarginClassifier().fit(X, Y == 0)
    assert np.allclose(three.predict_proba(X).sum(axis=1), 1.0)
    assert not hasattr(two, "predict_proba") and not hasattr(sm.MarginClassifier(), "predict_proba")
    with pytest.raises(AttributeError, match="the loss hinge has no probabilities; set loss to logistic"):
        two.predict_proba(X)
