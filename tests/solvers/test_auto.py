"""Which solver `auto` takes."""

import numpy as np
import pytest
from reference.datasets import noisy, separable

import streammargin as sm
from streammargin.solvers.auto import choose


@pytest.mark.parametrize(
    "hard, p, joint, name",
    [
        (True, 2.0, False, "active-set"),
        (True, 1.5, False, "asdca"),
        (False, 2.0, False, "sdca"),
        (False, 1.5, False, "sdca"),
        (True, 2.0, True, "dual-momentum"),
    ],
)
def test_choice(hard, p, joint, name):
    assert choose(hard, p, joint) == name


@pytest.mark.parametrize(
    "options, name",
    [
        ({}, "sdca"),
        ({"C": [0.1, 1.0], "valid": noisy()}, "sdca"),
        ({"C": np.inf}, "active-set"),
        ({"C": np.inf, "norm": "sparse"}, "asdca"),
        ({"C": np.inf, "norm": 1.5}, "asdca"),
        ({"multiclass": "joint"}, "dual-momentum"),
    ],
)
def test_the_model_names_the_solver_that_was_taken(options, name):
    X, y = separable()
    y = np.argmax(X[:, :3], axis=1) if "multiclass" in options else y
    result = sm.train((X, y), solver="auto", tol=0.1, passes=5, **options)
    assert result.model.header["solver"] == name
    assert result.history[0]["params"]["solver"] == name


def test_numbers_are_interpolated_by_a_solver_that_can():
    X, _ = separable(8, 12)
    result = sm.train((X, np.arange(8) * 0.5), solver="auto", loss="interpolate", tol=1e-6)
    assert result.model.header["solver"] == "sdca" and result.converged
