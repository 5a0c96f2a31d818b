"""The constant column: 1 if C is finite, none for the hard margin, and whatever was given instead."""

import math

import numpy as np
import pytest
from conftest import write_h5

import streammargin as sm
from streammargin.cli.main import main


def shifted(gap=0.5):
    """Rows that no line through 0 tells apart."""
    X = np.random.default_rng(0).standard_normal((60, 2))
    y = np.where(X[:, 0] > 0, 1, -1)
    X[:, 0] += gap * y + 4.0
    return X, y


@pytest.mark.parametrize("solver", ["sdca", "asdca", "pegasos", "auto"])
def test_a_column_of_1_where_C_is_finite(solver):
    X, y = shifted()
    options = {"solver": solver, "C": 0.1, "passes": 50}
    default, given = sm.train(X, y, **options), sm.train(np.column_stack([X, np.ones(60)]), y, bias=0, **options)
    np.testing.assert_allclose(
        np.append(default.model.coef_, default.model.intercept_), given.model.coef_[0], rtol=1e-7
    )
    assert default.model.header["bias"] == 1.0 and default.model.intercept_[0] != 0.0
    assert given.model.intercept_[0] == 0.0 and given.model.header["bias"] == 0.0


def test_none_for_the_hard_margin_and_for_numbers():
    X, y = shifted()
    for options in ({"C": math.inf}, {"solver": "mirror"}, {"solver": "auto", "C": math.inf}):
        result = sm.train(X, y, passes=3, **options)
        assert result.model.intercept_[0] == 0.0 and result.history[0]["params"]["bias"] == 0.0
    assert sm.train(X[:2], y[:2], loss="interpolate").model.intercept_[0] == 0.0


def test_streams_alike():
    X, y = shifted()
    assert sm.train([(X, y)], solver="pegasos").model.intercept_[0] != 0.0
    assert sm.train([(X, y)], solver="pegasos", bias=0).model.intercept_[0] == 0.0
    assert sm.train([(X, y)], solver="perceptron").model.intercept_[0] == 0.0


def test_the_shell_alike(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_h5(tmp_path / "a.h5", *shifted())
    for name, more in (("default", []), ("none", ["--bias", "0"]), ("hard", ["-c", "inf", "--passes", "5"])):
        assert main(["train", "a.h5", "-q", "-o", f"{name}.npz", *more]) == 0
        assert (sm.load_model(f"{name}.npz").intercept_[0] != 0.0) == (name == "default")


def test_the_estimators_have_one_at_any_C_unless_told_otherwise():
    X, y = shifted()
    for C in (1.0, math.inf):
        with_one = sm.MarginClassifier(C=C, solver="auto").fit(X, y)
        assert with_one.intercept_[0] != 0.0 and with_one.score(X, y) == 1.0
        assert sm.MarginClassifier(C=1.0, fit_intercept=False).fit(X, y).intercept_[0] == 0.0
    assert sm.InterpolatingRegressor().fit(np.eye(2), [1.0, 2.0]).intercept_ != 0.0
