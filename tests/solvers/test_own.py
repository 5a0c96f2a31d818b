"""Losses and solvers that are handed over as objects."""

import inspect
from typing import NamedTuple

import numpy as np
import pytest
from conftest import slow
from reference import bare
from reference.datasets import as_form, noisy, separable
from reference.sources import CountingSource
from reference.wide import WideHinge

import streammargin as sm
from streammargin.losses import terms
from streammargin.losses.logistic import LogisticTerms
from streammargin.solvers.base import PassReport
from streammargin.solvers.newton.newton import Newton
from streammargin.solvers.proof.sweep import Certified, CertifiedBySweep
from streammargin.solvers.roles import Shared, Sum, f8, state
from streammargin.solvers.streams.perceptron import Perceptron
from streammargin.solvers.visits import Visit


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
    with pytest.raises(sm.UsageError, match="must be a name, as auto, or an object of a subclass of"):
        sm.train(separable(), solver=3)


@state
class DescentState(Certified):
    """w: the weights; pull: the sum of the rows inside the margin."""

    w: Shared[f8]
    pull: Sum[f8]


class Descent(CertifiedBySweep[DescentState]):
    """A step along the subgradient of the hinge and the ridge, written as visits alone."""

    name = "descent"
    state_class = DescentState
    mapped = True

    def visit(self, problem, state, active):
        return Visit("pass", self.add, (active,), ("pull",), lines=1, begin=self.begin, end=self.end)

    @staticmethod
    def begin(problem, state, active):
        state.pull[:] = 0.0

    @staticmethod
    def add(problem, state, active, block, first):
        y = np.where(state.labels.cut(first, first + block.rows()).codes == 1, 1.0, -1.0)
        inside = y * (block.X @ state.w[0, :-1]) < 1.0
        state.pull[0, :-1] += (y * inside) @ block.X

    @staticmethod
    def end(problem, state, active):
        state.w += (state.pull - state.w) / (10.0 + state.number)
        return PassReport(np.ones(1), 0)

    def frozen(self, problem, state, k):
        return state.w[k]

    def weights(self, problem, state):
        return state.w.copy()


def test_a_solver_that_is_visits_reads_rows_in_memory_and_block_by_block():
    X, y = noisy()
    w = np.zeros(X.shape[1])
    for number in range(1, 16):
        w += (((y * (X @ w) < 1.0) * y) @ X - w) / (10.0 + number)
    for data in ((X, y), CountingSource(X, y, bounds=range(0, 61, 12))):
        ours = sm.train(data, solver=Descent(), C=1.0, bias=0, passes=15)
        np.testing.assert_allclose(ours.model.coef_[0], w, rtol=1e-10)
        primal = 0.5 * w @ w + np.maximum(0.0, 1.0 - y * (X @ w)).sum()
        assert ours.certificate["primal"] == pytest.approx(primal, rel=1e-10) and not ours.converged
