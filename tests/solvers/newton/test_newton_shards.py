"""Newton's steps on rows split over three holders: all results pass through sums, and nothing else reads rows."""

from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pytest
from conftest import slow
from reference.datasets import as_form
from reference.sources import CountingSource

import streammargin as sm
from streammargin.rows import blocks
from streammargin.solvers import roles
from streammargin.solvers.newton import newton, steps
from streammargin.solvers.newton.prox_newton import ProximalNewton
from streammargin.solvers.newton.steps import Steps

ROWS, CUTS = 1200, (0, 310, 311, 1200)  # blocks end elsewhere


class Absent:
    """Replaces an array of all rows, and raises on every access."""

    def __getattr__(self, name):
        raise AssertionError(f"{name} of an array of all rows")

    __getitem__ = __len__ = __array__ = __getattr__


class Apart:
    """The driver's state has no rows; they are there while three holders work on theirs."""

    def __init__(self):
        self.rows = {}

    def start(self, problem, labels):
        return self.take_rows(super().start(problem, labels))

    def take_rows(self, state):
        names = [entry.name for entry in roles.entries(type(state)) if entry.role is roles.Role.ROWS]
        self.rows = {name: getattr(state, name) for name in [*names, "labels"]}
        self._put(state, dict.fromkeys(self.rows, Absent()))
        return state

    @staticmethod
    def _put(state, arrays):
        for name, array in arrays.items():
            setattr(state, name, array)

    @contextmanager
    def holders(self, state):
        """A state for each; what they have summed up is added to that of the driver."""
        self._put(state, self.rows)
        parts = [roles.cut(state, *ends) for ends in pairwise(CUTS)]
        self._put(state, dict.fromkeys(self.rows, Absent()))
        yield zip(CUTS, CUTS[1:], parts, strict=False)
        for part in parts:
            roles.merge(state, part)

    def map(self, name, work):
        def over_holders(problem, state, *given):
            with self.holders(state) as holders:
                for _, _, part in holders:
                    work(problem, part, *given)

        return over_holders


class StepsInThree(Apart, Steps):
    pass


class ReadsInThree(Apart, ProximalNewton):
    def run_block(self, problem, state, active, block, first):
        with self.holders(state) as holders:
            for low, high, part in holders:
                start, stop = max(first, low), min(first + block.rows(), high)
                if start < stop:
                    super().run_block(
                        problem, part, active, blocks.part(block, start - first, stop - first), start - low
                    )


def data(form, classes, rows=ROWS, features=8):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((rows, features)) * 10.0 ** rng.uniform(-1, 1, features)
    y = np.argmax(X[:, :classes] + 5 * rng.standard_normal((rows, classes)), axis=1)
    return as_form(X, form), y


@pytest.mark.parametrize("form, classes", [("dense", 2), ("csr", 2), ("dense", 3)])
@pytest.mark.parametrize("loss", ["hinge", slow("squared_hinge"), slow("logistic")])
def test_three_holders_of_rows_make_the_same_steps(loss, form, classes, monkeypatch):
    """The same gaps in the digits that are printed, and the same weights but for the order of sums."""
    X, y = data(form, classes)
    weights = np.arange(ROWS) % 4 / 2
    monkeypatch.setattr(newton, "enough_rows_fit", lambda *given: False)  # steps from the first read on

    def train():
        source = CountingSource(X, y, np.linspace(0, ROWS, 6).astype(int), weights)
        return sm.train(source, solver="newton", loss=loss, C=0.1, tol=1e-3 if loss == "hinge" else 1e-6, passes=60)

    alone = train()
    monkeypatch.setattr(newton, "PROXIMAL", ReadsInThree())
    result = train()
    assert alone.converged and alone.passes > 3 and result.passes == alone.passes
    assert [f"{gap:.3g}" for gap in gaps(result)] == [f"{gap:.3g}" for gap in gaps(alone)]
    w = alone.model.coef_
    np.testing.assert_allclose(result.model.coef_, w, rtol=0, atol=1e-12 * np.abs(w).max())


def gaps(result):
    """Down to what rounding is of the objective."""
    certificates = [event for event in result.history if event["event"] == "certificate"]
    return [figures["gap"] for event in certificates for figures in event["per_class"] if figures["gap"] > 1e-10]


def test_centres_may_be_moved_by_three_holders(monkeypatch):
    met, run_block = [], Steps.run_block
    monkeypatch.setattr(Steps, "run_block", lambda *call: (met.append(call[1:3]), run_block(*call))[1])
    sm.train(data("dense", 2), solver="newton", passes=1, tol=0.5)
    (problem, state), in_three = met[0], StepsInThree()
    alpha, work, random = state.alpha, steps.middle_centres, np.random.default_rng(2).random(state.alpha.shape)
    found = []
    for holders in (work, in_three.map("middle_centres", work)):
        alpha[:] = random
        roles.clear(state)
        if holders is not work:
            in_three.take_rows(state)
        holders(problem, state, 0, 0.5)
        found.append(alpha.copy())
    assert np.array_equal(*found) and np.any(alpha != random)
