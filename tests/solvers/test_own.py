"""Losses and solvers that are handed over as objects."""

import inspect
from typing import NamedTuple

import numpy as np
import pytest
from conftest import slow
from reference import bare
from reference.datasets import as_form, noisy, separable
from reference.wide import WideHinge

import streammargin as sm
from streammargin.losses import terms
from streammargin.losses.logistic import LogisticTerms
from streammargin.solvers.newton.newton import Newton
from streammargin.solvers.streams.perceptron import Perceptron


@pytest.mark.parametrize("solver", ["sdca", "asdca"])
@pytest.mark.parametrize("form", ["dense", slow("csr")])
def test_a_loss_of_the_users_own(form, solver):
    """With w = width v the objective is width^2 times that of the hinge at C / width."""
    X, y = noisy()
    data = as_form(X, form), y
    own = sm.train(data, solver=solver, loss=WideHinge(2.0), C=0.2, tol=1e-7)
    hinge = sm.train(data, solver=solver, loss="hinge", C=0.1, tol=1e-7)
    assert own.converged
    assert own.certificate["primal"] == pytest.approx(4.0 * hinge.certificate["primal"], rel=1e-6)
    np.testing.assert_allclose(own.model.coef_, 2.0 * hinge.model.coef_, atol=1e-3)


def test_its_model_names_it_and_can_be_kept(tmp_path):
    data = noisy()
    result = sm.train(data, loss=WideHinge(2.0))
    assert result.history[0]["params"]["loss"] == "wide_hinge:2"
    result.model.save(tmp_path / "m.npz")
    model = sm.load_model(tmp_path / "m.npz")
    assert model.header["loss"] == "wide_hinge:2"
    assert model.evaluate(data)["loss"] is None
    margins = np.where(data[1] == model.classes_[1], 1.0, -1.0) * model.decision_function(data[0])
    mean = np.maximum(2.0 - margins, 0.0).mean()
    assert model.evaluate(data, loss=WideHinge(2.0))["loss"] == pytest.approx(mean)


def logistic_with(*names):
    """The logistic loss with more numbers of its own, which are called as methods of losses are."""
    own = NamedTuple("Own", [("tolerance", float), *((name, float) for name in names)])
    for name, method in inspect.getmembers(LogisticTerms, inspect.isfunction):
        if not name.startswith("_") and name not in names:
            setattr(own, name, method)
    return bare.own(own(terms("logistic").tolerance, *(1.0 for _ in names)))


@pytest.mark.parametrize("names", [["attained", "of_numbers"], slow(["distance"]), slow(["slope"])])
@pytest.mark.parametrize("solver", [slow("auto"), slow("newton"), "sdca"])
def test_numbers_of_a_loss_are_not_taken_for_methods(solver, names):
    loss, lacking = logistic_with(*names), [name for name in names if name in Newton.requires]
    if solver == "newton" and lacking:
        with pytest.raises(sm.UsageError, match=f"newton needs the method {lacking[0]} of a loss"):
            sm.train(noisy(), solver=solver, loss=loss)
        return
    own, known = (sm.train(noisy(), solver=solver, loss=one, tol=1e-6) for one in (loss, "logistic"))
    assert own.converged
    assert own.certificate["primal"] == pytest.approx(known.certificate["primal"], rel=2e-6)


class BareTerms(NamedTuple):
    width: float

    def primal(self, u, cap):
        return cap * max(self.width - u, 0.0)


def test_what_it_lacks_is_told():
    with pytest.raises(
        sm.UsageError, match=r"sdca needs .*step.* of a loss, which Bare lacks .these have it: .* hinge, logistic"
    ):
        sm.train(noisy(), loss=bare.own(BareTerms(1.0)))


def test_a_solver_of_the_users_own():
    class Mine(Perceptron):
        name = "mine"

    own, known = (sm.train(separable(), solver=solver) for solver in (Mine(), "perceptron"))
    assert own.model.header["solver"] == "mine:average=no"
    assert np.array_equal(own.model.coef_, known.model.coef_)
    stream = sm.train(iter([separable()]), solver=Mine())
    assert stream.model.header["solver"] == stream.history[0]["params"]["solver"] == "mine:average=no"
    with pytest.raises(
        sm.UsageError,
        match="must be a word, as auto, or an object of a subclass of",
    ):
        sm.train(separable(), solver=3)
