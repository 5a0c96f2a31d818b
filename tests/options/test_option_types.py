"""Options of another type than they have: one sentence, and nothing is read."""

import math

import numpy as np
import pytest

import streammargin as sm
from streammargin.errors import UsageError

X, Y = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.5]]), np.array([1, -1, 1])
WRONG = [
    {"max_seconds": "3"}, {"memory": None}, {"memory": [1]}, {"loss": "smooth_hinge:x"},
    {"loss": sm.losses.SmoothHinge(None)},
    {"tol": "1e-3"},    {"tol": math.inf}, {"C": "much"}, {"classes": []}, {"classes": 5}, {"classes": "ab"},
    {"classes": [1]},
    {"classes": [1, -1, None]}, {"classes": [1, -1, math.nan]}, {"class_weight": {1: "a"}}, {"class_weight": [1, 2]},
    {"class_weight": 5}, {"solver": sm.solvers.Homotopic("never")},
    {"solver": sm.solvers.Homotopic(stochastic=math.nan)},
    {"solver": sm.solvers.Diagonal("5")}, {"solver": sm.solvers.Diagonal(decay=b"log")}, {"seed": "x"}, {"seed": 1.5},
    {"passes": True}, {"C": np.True_}, {"bias": True}, {"max_seconds": True},
]  # fmt: skip
STREAMED = [
    {"classes": [1, -1, None]}, {"seed": "x"}, {"memory": "junk"}, {"loss": sm.losses.SmoothHinge("x")},
    {"max_seconds": "a"},
]  # fmt: skip


@pytest.mark.parametrize("options", WRONG, ids=str)
def test_training(options):
    with pytest.raises(UsageError, match=r"must (be|name)|is none|is not a number"):
        sm.train((X, Y), **options)


@pytest.mark.parametrize("options", STREAMED, ids=str)
def test_streams(options):
    with pytest.raises(UsageError, match=r"must be|is none"):
        sm.train(iter([(X, Y)]), **{"solver": "perceptron", **options})


@pytest.mark.parametrize("C", [np.array(1.0), np.array([1.0]), np.float32(1.0)])
def test_one_number_in_any_shape(C):
    assert sm.train((X, Y), C=C).converged


@pytest.mark.parametrize("classes", [{1, -1}, np.array([1, -1]), (1, -1), ["1", "-1"], "generator"])
def test_labels_in_any_container(classes):
    chosen = (label for label in (1, -1)) if isinstance(classes, str) else classes
    assert sm.train((X, Y), classes=chosen).converged
