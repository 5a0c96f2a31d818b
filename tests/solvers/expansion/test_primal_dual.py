"""Pdprox with a kernel, eq. (18): against the paper's lines on the matrix, the linear form, and the optimum."""

import math

import numpy as np
import pytest
from conftest import write_h5
from reference import machines
from reference.datasets import as_form
from reference.sources import CountingSource

import streammargin as sm
from streammargin.verification.verify import verify

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((60, 4))
Y = np.where(X[:, 0] * X[:, 1] + 0.3 * RANDOM.standard_normal(60) > 0.0, 1, -1)
K = machines.matrix("rbf:0.5", X, X)


def algorithm_1(C, count):
    """Coefficients of g_T: Algorithm 1 with (18), for 1/2 ||g||^2 + C sum (1 - y g(x))_+, steps by Theorem 6."""
    gamma = 1.0 / math.sqrt(2.0 * len(Y) * K.diagonal().max())
    sigma, tau = gamma * C, gamma / C
    g, beta = np.zeros(len(Y)), np.zeros(len(Y))
    for _ in range(count):
        alpha = np.clip(beta + sigma * (1.0 - Y * (K @ g)), 0.0, C)
        g = (g + tau * Y * alpha) / (1.0 + tau)  # the prox of tau ||g||^2 / 2
        beta = np.clip(beta + sigma * (1.0 - Y * (K @ g)), 0.0, C)
    return g


def direction(model):
    c = np.zeros(len(Y))
    c[model.answer.numbers] = model.answer.coef[0]
    return c / np.linalg.norm(c)


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("passes", [1, 2, 17])
def test_iterates_are_those_of_the_paper(passes, form):
    """Up to the scale of the weights, which a certificate chooses."""
    options = {"kernel": "rbf:0.5", "solver": "pdprox", "C": 0.7, "bias": 0, "tol": 1e-12}
    found = direction(sm.train((as_form(X, form), Y), passes=passes, **options).model)
    g = algorithm_1(0.7, passes)
    assert found == pytest.approx(g / np.linalg.norm(g), rel=1e-9, abs=1e-12)


def test_with_the_linear_kernel_weights_are_those_of_the_linear_form():
    options = {"solver": "pdprox:dual,average=no", "C": 0.1, "bias": 0, "tol": 1e-12}
    ours = sm.train((X, Y), kernel="linear", passes=20, **options).model.answer
    w = (ours.coef @ X[ours.numbers])[0]
    v = sm.train((X, Y), passes=21, **options).model.coef_[0]  # whose first pass is at 0
    assert w / np.linalg.norm(w) == pytest.approx(v / np.linalg.norm(v), rel=1e-6)


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "epsilon_insensitive:0.1"])
def test_the_optimum_is_that_of_an_interior_point_method(loss, free):
    y = X[:, 0] ** 2 if "epsilon" in loss else Y
    name, _, number = loss.partition(":")
    caps = RANDOM.uniform(0.5, 1.5, len(y))
    best = machines.optimum(K, y, caps, name, float(number) if number else None, free)
    options = {"C": 1.0, "sample_weight": caps, "loss": loss} | ({} if free else {"bias": 0})
    result = sm.train((X, y), kernel="rbf:0.5", solver="pdprox", tol=2e-3, passes=4000, **options)
    found = result.certificate
    assert result.converged and found.dual <= best * (1 + 1e-6) <= found.primal * (1 + 2e-6) <= best * (1 + 2.1e-3)


def test_a_stop_goes_on_to_the_same_bits_and_the_model_is_verified(tmp_path):
    classes = np.argmax(X[:, :3], axis=1)
    data = write_h5(tmp_path / "a.h5", X, classes)
    options = {"kernel": "rbf:scale", "solver": "pdprox", "C": [0.1, 1.0], "valid": (X, classes), "tol": 1e-9}
    straight = sm.train(data, passes=13, **options)
    sm.train(data, passes=6, checkpoint=str(tmp_path / "c"), **options)
    again = sm.train(data, passes=13, checkpoint=str(tmp_path / "c"), **options)
    for name, array in straight.model.answer.arrays().items():
        assert np.array_equal(again.model.answer.arrays()[name], array), name
    straight.model.save(str(tmp_path / "m.npz"))
    assert not [check for check in verify(tmp_path / "m.npz", data) if check.agrees is False]
    whole = sm.train((K, Y), kernel="precomputed", solver="pdprox", tol=1e-2)
    assert whole.converged and whole.model.header["solver"] == "pdprox"


@pytest.mark.parametrize(
    "options, text",
    [
        ({"C": math.inf}, "pdprox needs a finite C"),
        ({"solver": "pdprox:primal"}, "pdprox is Algorithm 1 with its last iterate"),
        ({"solver": "pdprox:average"}, "pdprox is Algorithm 1 with its last iterate"),
        ({"loss": "logistic"}, "pdprox with a kernel takes the losses .*hinge.*, not logistic"),
    ],
)
def test_what_it_refuses(options, text):
    with pytest.raises(sm.UsageError, match=text):
        sm.train((X, Y), **{"kernel": "rbf", "solver": "pdprox"} | options)
    with pytest.raises(sm.UsageError, match="all rows must be in memory at once"):
        sm.train(CountingSource(X, Y, [0, 30, 60]), kernel="rbf", solver="pdprox")
