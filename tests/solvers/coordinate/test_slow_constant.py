"""The constant's weight follows slowly: the steps against a twin, the last weights against the optimum, and passes."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import slow
from reference.conic import solve
from reference.datasets import as_form

import streammargin as sm
from streammargin.compiled import sdca
from streammargin.compiled.sleep import AHEAD, LONGEST_SLEEP
from streammargin.losses import terms
from streammargin.penalties.mirror_maps import make_norm
from streammargin.rows.labels import Labels, RowLabels, numbered_from
from streammargin.rows.visits import all_at_once
from streammargin.solvers.coordinate.slow_constant import SlowConstant, damp
from streammargin.sources.arrays import ArraySource

ROWS, COLUMNS = 700, 40  # more rows than are looked at together, twice


def text(rows=ROWS, columns=COLUMNS, seed=0, noise=1.0):
    """Sparse rows of length 1, as of words, and labels of which more are 1."""
    random = np.random.default_rng(seed)
    X = random.random((rows, columns)) * (random.random((rows, columns)) < 0.2)
    X[:, 0] += 0.1
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    score = X @ random.standard_normal(columns)
    return X, np.where(score + noise * random.standard_normal(rows) * score.std() > -score.std(), 1, -1)


class Twin:
    """Every row's step of the problem with a proximal term about the centre, b formed anew each time.

    Momentum as the paper has it: alpha, and z, if the scores are taken; without it z is alpha.
    """

    def __init__(self, X, y, C, constant, damping, momentum):
        self.X, self.y, self.C, self.constant, self.damping = X, y, C, constant, damping
        self.alpha, self.z, self.v = (np.zeros(len(y)) for _ in range(3))
        self.centre, self.gamma, self.momentum = 0.0, 1 / len(y), momentum

    def weights(self, alpha):
        image = self.constant * (self.y @ alpha)
        return (self.y * alpha) @ self.X, self.centre + self.damping * (image - self.centre)

    def visit(self, order):
        n = len(self.y)
        for start in range(0, n, AHEAD):
            for i in order[start : start + AHEAD]:
                w, b = self.weights(self.z)
                u = self.y[i] * (self.X[i] @ w + self.constant * b)
                L = self.X[i] @ self.X[i] + self.damping * self.constant**2
                step = n * self.gamma if self.momentum else 1.0
                before = self.alpha.copy()
                self.alpha[i] = np.clip(self.alpha[i] + (1 - u) / (step * L), 0, self.C)
                if not self.momentum:
                    self.z = self.v = self.alpha
                    continue
                self.v = self.z + n * self.gamma * (self.alpha - before)
                self.gamma = (np.sqrt(self.gamma**4 + 4 * self.gamma**2) - self.gamma**2) / 2
                self.z = (1 - self.gamma) * self.v + self.gamma * self.alpha
            now = self.weights(self.v)[1]
            self.centre += min(1.0, len(order[start : start + AHEAD]) / AHEAD) * (now - self.centre)


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("momentum", [False, True])
def test_a_pass_equals_the_twin(form, momentum):
    X, y = text()
    C, constant, damping = 0.7, 1.5, 0.05
    twin = Twin(X, y, C, constant, damping, momentum)
    block = ArraySource(as_form(X, form)).whole()._replace(bias=constant * np.sqrt(damping))
    codes = ((y + 1) // 2).astype(np.int16)
    labels = Labels(codes, np.array([1]), np.full((1, 2), C), np.empty(0), np.empty(0))
    alpha, momenta = np.zeros((2, 1, ROWS))
    theta, drift = np.zeros((2, 1, COLUMNS + 1))
    centre, pace, curvature = np.zeros(1), np.zeros((1, sdca.PACE)), np.zeros(ROWS)
    pace[0, sdca.GAMMA] = 1 / ROWS
    figures = np.zeros((1, sdca.ASCENT_FIGURES))
    for number in range(3):
        order = np.random.default_rng(number).permutation(ROWS)
        start = (all_at_once(block, numbered_from(0), order, 1), labels, terms("hinge"), make_norm(2.0), np.array([0]))
        sleep = np.zeros((1, ROWS), np.uint8)
        ahead = sdca.Ahead(momenta, drift, np.array([float(ROWS)]), pace, 0.0) if momentum else None
        sdca.sdca_turns(
            *start, alpha, sleep, LONGEST_SLEEP, curvature, theta, theta, np.zeros(1), ahead, centre, damping, figures
        )
        twin.visit(order)
        np.testing.assert_allclose(alpha[0], twin.alpha, atol=1e-9)
        assert centre[0] == pytest.approx(twin.centre, abs=1e-9)
        image = theta[0] + pace[0, sdca.LAST] ** 2 * drift[0] if momentum else theta[0]
        exact = np.append((y * twin.v) @ X, constant * (y @ twin.v))
        np.testing.assert_allclose(image, exact, atol=1e-9)


@pytest.mark.parametrize("solver", ["sdca", slow("asdca"), "ascent"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
@pytest.mark.parametrize("C, constant", [(0.01, 1.0), (1.0, 1.0), (30.0, 1.0), (1.0, 10.0), (1.0, 0.01)])
def test_the_end_is_the_optimum(solver, loss, C, constant):
    X, y = text()
    result = sm.train((X, y), solver=solver, loss=loss, C=C, bias=constant, tol=1e-6, passes=20_000)
    assert result.converged
    exact, _, _ = solve(X, y, np.full(ROWS, C), "l2", loss, constant=constant, free=False)
    assert result.certificate.primal == pytest.approx(exact, rel=3e-6)


@pytest.mark.parametrize("solver", ["sdca", "asdca"])
def test_of_numbers_of_classes_and_with_weights(solver):
    X, y = text()
    weights = np.random.default_rng(1).choice([0.0, 0.5, 3.0], ROWS)
    result = sm.train((X, y), solver=solver, C=2.0, tol=1e-5, sample_weight=weights, passes=20_000)
    exact, _, _ = solve(X, y, 2.0 * weights, "l2", constant=1.0, free=False)
    assert result.certificate.primal == pytest.approx(exact, rel=3e-5)
    place = X @ np.arange(COLUMNS)
    three = np.digitize(place, np.quantile(place, [0.3, 0.6]))
    result = sm.train((X, three), loss="hinge", solver=solver, C=2.0, tol=1e-5, passes=20_000)
    for k, found in enumerate(result.certificate.per_class):
        exact, _, _ = solve(X, np.where(three == k, 1, -1), np.full(ROWS, 2.0), "l2", constant=1.0, free=False)
        assert found["primal"] == pytest.approx(exact, rel=3e-5)


def test_of_numbers():
    X, y = text()
    target = X @ np.arange(COLUMNS) / 10 + y
    result = sm.train((X, target), loss="absolute_error", solver="sdca", C=0.5, tol=1e-4, bias=1, passes=20_000)
    exact, _, _ = solve(
        X, target - np.median(target), np.full(ROWS, 0.5), "l2", "absolute_error", constant=1.0, free=False
    )
    assert result.converged and result.certificate.primal == pytest.approx(exact, rel=3e-4)


@pytest.mark.parametrize("solver, C", [("sdca", 1.0), ("sdca", 0.01), ("asdca", 10.0), ("auto", 100.0)])
def test_a_constant_column_costs_few_passes(solver, C, tmp_path):
    """Rows of the benchmark's set A took 57 passes for 11 at C = 1, and did not end with momentum at C = 10."""
    path = str(tmp_path / "A.h5")
    from streammargin.data_tools.generate import generate

    generate(path, rows=4000, features=47_000, sparse=True, nonzeros=75, noise=0.1, seed=1)
    without, beside = (sm.train(path, solver=solver, C=C, bias=bias, passes=400) for bias in (0, 1))
    assert without.converged and beside.converged
    assert beside.passes <= 1.5 * without.passes + 4


def test_out_of_core_as_well(tmp_path):
    from streammargin.data_tools.generate import generate

    path = str(tmp_path / "A.h5")
    generate(path, rows=20_000, features=47_000, sparse=True, nonzeros=75, noise=0.1, seed=1)
    without, beside = (sm.train(path, bias=bias, memory="19M", passes=60) for bias in (0, 1))
    assert beside.history[0]["plan"]["blocks"] > 1
    assert without.converged and beside.converged and beside.passes <= without.passes + 4


@pytest.mark.parametrize("rows", [ROWS, 4000])
@pytest.mark.parametrize("C", [0.2, 2.0, 20.0])
def test_momentum_ends_where_no_column_tells_the_classes_apart(rows, C):
    """With a centre that takes 20 passes to follow, b and the momentum pushed each other to and fro."""
    X, _ = text(rows)
    y = np.where(np.random.default_rng(0).random(rows) < 0.3, 1, -1)
    assert sm.train((X, y), solver="asdca", C=C, tol=1e-4, passes=60).converged


def damping(X=None, C=1.0, bias=1.0, **problem):
    """What is chosen for these rows."""
    X = text()[0] if X is None else X
    problem = SimpleNamespace(**{"linear": True, "hard": False, "rows": 10**6, "present": 10**6, **problem})
    problem.outputs = SimpleNamespace(caps=np.array([[C, C]]))
    labels = RowLabels(-(np.arange(len(text()[0])) % 2), np.empty(0), np.empty(0))
    constant = SlowConstant(centre=np.zeros(1))
    damp(problem, labels, constant, [(0, ArraySource(X).whole()._replace(bias=bias))])
    return constant.damping


def test_how_slow_it_is():
    X = text()[0]
    X[1::2] *= 100  # absent
    assert damping() == damping(sp.csr_matrix(X)) == pytest.approx(0.01)
    assert damping(3 * X, bias=3.0) == pytest.approx(0.01)
    assert damping(bias=100.0) == pytest.approx(32e-6)  # no slower, or it would follow in more than eight passes
    assert damping(C=1e-4) == pytest.approx(0.04)
    assert damping(rows=1000, present=1000) == pytest.approx(0.032)
    for other in ({"linear": False}, {"hard": True}, {"bias": 0.0}, {"bias": 1e-200}, {"bias": 1e200}, {"X": 10 * X}):
        assert damping(**other) == (1.0 if other != {"bias": 1e200} else pytest.approx(32e-6))


def test_sparse_and_dense_rows_are_damped_alike():
    X, y = text()
    found = [sm.train((rows, y), solver="sdca", C=1.0, tol=1e-4).model for rows in (X, sp.csr_matrix(X))]
    assert found[0].intercept_ == pytest.approx(found[1].intercept_, rel=1e-6)
