"""scikit-learn's callbacks: each pass is a task, certified ones have their gap, and a callback may end the fit."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer

import streammargin as sm

X, y = load_breast_cancer(return_X_y=True)
WITHOUT = """
import sys
import sklearn.model_selection, sklearn.preprocessing  # of 1.9, which take its own callbacks
sys.modules["sklearn.callback"] = None  # as below scikit-learn 1.9
import numpy as np
import streammargin as sm
model = sm.MarginClassifier().fit(np.eye(4), [0, 1, 0, 1])
assert not hasattr(model, "set_callbacks") and model.certificate_.converged
"""


class Told:
    """Keeps what it is told; asks to stop after so many passes."""

    def __init__(self, most=10**6):
        self.tasks, self.most = [], most

    def setup(self, estimator, context):
        self.tasks.append("setup")

    def teardown(self, estimator, context):
        self.tasks.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, metadata=None):
        self.tasks.append(metadata)
        return metadata is not None and metadata["pass"] >= self.most


def with_callbacks(estimator, *callbacks):
    if not hasattr(estimator, "set_callbacks"):
        pytest.skip("callbacks came with scikit-learn 1.9")
    return estimator.set_callbacks(*callbacks)


@pytest.mark.parametrize("estimator, target", [
    (sm.MarginClassifier(scale="std", solver="sdca", tol=1e-2), y),
    (sm.MarginRegressor(scale="std", loss="huber", solver="sdca", tol=1e-2), X[:, 0]),
], ids=["classes", "numbers"])  # fmt: skip
def test_every_pass_is_a_task_and_the_last_one_has_the_certified_gap(estimator, target):
    told = Told()
    fitted = with_callbacks(estimator, told).fit(X, target)
    first, *passes, fit, last = told.tasks
    assert (first, fit, last) == ("setup", None, "teardown")
    assert [one["pass"] for one in passes] == list(range(1, fitted.n_iter_ + 1))
    assert passes[-1]["gap"] == fitted.certificate_.gap <= 1e-2
    plain = clone(estimator).set_callbacks().fit(X, target)
    np.testing.assert_allclose(plain.coef_, fitted.coef_, rtol=1e-9)  # the first may have run without the compiler


def test_a_callback_ends_the_fit():
    fitted = with_callbacks(sm.MarginClassifier(scale="std", solver="sdca", tol=1e-9), Told(most=3)).fit(X, y)
    assert (
        not fitted.certificate_.converged and fitted.n_iter_ == 4
    )  # the pass after which the answer to the third is known
    assert fitted.score(X, y) > 0.9


def test_callbacks_are_taken_down_after_an_error(monkeypatch):
    told = Told()
    monkeypatch.setattr(told, "on_fit_task_end", lambda estimator, context: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        with_callbacks(sm.MarginClassifier(scale="std"), told).fit(X, y)
    assert told.tasks == ["setup", "teardown"]


def test_the_bar_of_scikit_learn_goes_with_it(capsys):
    pytest.importorskip("rich")
    callback = pytest.importorskip("sklearn.callback")
    sm.MarginClassifier(scale="std").set_callbacks(callback.ProgressBar()).fit(X, y)
    assert "MarginClassifier" in capsys.readouterr().out


def test_without_callbacks_in_scikit_learn_there_are_none_here():
    subprocess.run([sys.executable, "-c", WITHOUT], check=True, timeout=600)
