"""A Newton step a read: no number of a row, duals that are a function of the weights, and steps that are shortened."""

import copy

import h5py
import numpy as np
import pytest
from conftest import slow
from reference import words
from reference.datasets import WEIGHTINGS, as_form, noisy, separable
from reference.optimum import solve
from reference.sources import CountingSource
from reference.training import binary, check_certificate
from reference.words import loss_word

import streammargin as sm
from streammargin.compiled import look as kernel
from streammargin.data_tools.generate import generate
from streammargin.solvers.newton import newton
from streammargin.solvers.newton.prox_newton import ProximalNewton, share_left
from streammargin.solvers.roles import Role, entries


@pytest.fixture
def only_reads(monkeypatch):
    """No row is cached, after the sample."""
    monkeypatch.setattr(newton, "enough_rows_fit", lambda problem: False)


def overlapping(rows=3000, features=8, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, features))
    return X, np.where(X @ rng.standard_normal(features) + 2 * rng.standard_normal(rows) > 0, 1, -1)


def in_blocks(X, y, weights=None, blocks=5, **options):
    source = CountingSource(X, y, np.linspace(0, len(y), blocks + 1).astype(int), weights)
    return sm.train(source, **{"solver": "newton", "tol": 1e-4, "passes": 200, "bias": 0, **options})


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("C", [0.01, 1.0, slow(100.0)])
@pytest.mark.parametrize("loss", words.LOSSES)
def test_what_it_certifies_is_the_interior_point_optimum(loss, C, weighting, only_reads):
    X, y = noisy()
    weights = WEIGHTINGS[weighting]
    problem, tol = binary(X, y, loss=loss, width=0.05, C=C, **weights), 1e-3
    others = dict(weights)
    result = in_blocks(
        as_form(X, "csr"), y, others.pop("sample_weight", None), loss=loss_word(loss, 0.05), C=C, tol=tol, passes=400,
        **others,
    )  # fmt: skip
    exact = solve(problem, loss, 0.05)
    check_certificate(result, problem, exact, result.model.coef_[0], tol)
    for event in result.history:
        if event["event"] == "certificate":
            assert event["per_class"][0]["dual"] <= exact.primal * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_the_duals_are_feasible_and_their_gap_is_exact(seed, only_reads, monkeypatch):
    """Random problems: a_i = clip(c/2 + c (1 - u_i) / s, 0, c) from the weights and the softness of each read alone."""
    rng = np.random.default_rng(seed)
    X, y = overlapping(int(rng.integers(200, 2000)), int(rng.integers(1, 12)), seed)
    weights = rng.choice([0.0, 0.2, 1.0, 5.0], y.size)
    C, met, step = 10.0 ** rng.uniform(-2, 2), [], ProximalNewton._step

    def seen(self, problem, state, k):
        met.append((state.w[k].copy(), float(state.softness[k]), copy.deepcopy(state.sums)))
        step(self, problem, state, k)

    monkeypatch.setattr(ProximalNewton, "_step", seen)
    result = in_blocks(X, y, weights, C=C, tol=1e-3)
    assert result.converged and met
    A, caps = y[:, None] * np.column_stack([X, np.zeros(y.size)]), C * weights
    for w, softness, sums in met:
        u = A @ w
        a = np.clip(0.5 * caps + caps * (1.0 - u) / softness, 0.0, caps)
        assert np.all((a >= 0.0) & (a <= caps))
        assert sums.pull[0, 0] == pytest.approx(A.T @ a, rel=1e-9, abs=1e-9 * np.abs(A.T @ a).max())
        assert sums.duals[0, 0, kernel.DUAL] == pytest.approx(a.sum(), rel=1e-11)
        assert sums.weights[0, kernel.SUM_OF_LOSSES] == pytest.approx(caps @ np.maximum(0.0, 1.0 - u), rel=1e-11)


@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared_hinge"])
@pytest.mark.parametrize("C", [0.01, 1.0, 1000.0])
def test_a_handful_of_reads_at_any_C(loss, C, only_reads):
    X, y = overlapping()
    result = in_blocks(X, y, loss=loss, C=C, tol=1e-3)
    assert result.converged and result.passes <= 12
    assert result.certificate.primal == pytest.approx(binary(X, y, loss=loss, C=C).primal(result.model.coef_[0]))


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("rows", ["alike", "wide", "twice"])
def test_least_squares_under_the_ridge_take_one_step(rows, C, monkeypatch):
    """As the Hessian is the same everywhere; in memory the read after it does without one.

    Columns are alike, too many, or there twice.
    """
    curved, begin = [], ProximalNewton.begin_pass
    monkeypatch.setattr(ProximalNewton, "begin_pass", lambda self, problem, state, active: (
        begin(self, problem, state, active), curved.append(state.sums.H.shape[1])))  # fmt: skip
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 60) if rows == "wide" else (2000, 12))
    if rows == "alike":
        X = X[:, :3] @ rng.standard_normal((3, 12)) + 0.05 * X
    elif rows == "twice":
        X = np.hstack([X, X, 1e3 * X[:, :1]])
    z = X[:, :9] @ rng.standard_normal(9) + rng.standard_normal(len(X))
    for bias in (0, 1, "free"):
        result = in_blocks(X, z, loss="squared_error", C=C, bias=bias)
        assert result.converged and result.passes <= 3
        curved.clear()
        whole = sm.train((X, z), loss="squared_error", C=C, bias=bias, solver="newton")
        assert whole.converged and whole.passes <= 3 and curved == [X.shape[1] + 1, 1, X.shape[1] + 1][: whole.passes]
        if bias == 0:
            w, exact = result.model.coef_[0], np.linalg.solve(np.eye(X.shape[1]) + C * X.T @ X, C * X.T @ z)
            least = 0.5 * exact @ exact + 0.5 * C * np.sum((X @ exact - z) ** 2)
            found = 0.5 * w @ w + 0.5 * C * np.sum((X @ w - z) ** 2)
            assert result.certificate.primal == pytest.approx(found, rel=1e-9)
            assert least <= found * (1 + 1e-9) and result.certificate.dual <= least * (1 + 1e-9)
            assert found <= least * (1 + 1e-4)


@pytest.mark.parametrize("C", [0.01, 1.0])
def test_separable_rows(C, only_reads):
    X, y = separable(600, 12)
    result = in_blocks(X, y, C=C, tol=1e-3, passes=300)
    exact = solve(binary(X, y, C=C), "hinge")
    assert result.converged and exact.dual * (1 - 1e-9) <= result.certificate["primal"] <= exact.primal * (1 + 1e-3)


@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, 1e3])
def test_it_gets_there_from_any_weights(scale, only_reads):
    """Also if no row is near its margin, so that the matrix says nothing."""
    X, y = overlapping()
    earlier = in_blocks(X, y, tol=0.3).model
    earlier.coef_ *= scale
    result = in_blocks(X, y, init=earlier, tol=1e-3)
    assert result.converged and result.passes <= 30


def test_no_array_has_an_entry_for_each_row(only_reads):
    [state] = {
        stage.solver.state_class
        for stage in newton.Newton().stages().values()
        if stage.solver.name == ProximalNewton.name
    }
    assert not [entry for entry in entries(state) if entry.role is Role.ROWS]


def test_the_share_of_a_step_that_is_left_ends_where_the_slope_is_0():
    # slopes of t^3 - 1/8 - ..: the cubic is exact for f(t) = -1 + t + 3 t^3 with f'(0) = 1
    root = share_left(1.0, 3.0, 10.0)
    assert -1 + root + 3 * root**3 == pytest.approx(0.0, abs=1e-9)
    assert share_left(1.0, 1e9, 1e9) == 0.1


def generated(path, **kind):
    generate(str(path), rows=60_000, **kind)
    with h5py.File(path) as file:
        return file["X"][:], file["y"][:]


def test_rows_that_nearly_all_lie_at_the_bend(only_reads, tmp_path):
    """A rare class that is hard to tell from the others: at the optimum most rows have the margin 1.

    With every other softness they have another one, so that the weights have to follow it.
    """
    X, y = generated(tmp_path / "a.h5", features=30, classes=10, noise=0.3)
    assert in_blocks(X, np.where(y == 0, 1, -1), bias=1, tol=1e-3, passes=20).converged


@pytest.mark.parametrize("C", [1.0, 100.0, 1000.0])
def test_thousands_of_rows_with_the_same_margin(C, only_reads, tmp_path):
    """Separable rows that were pushed apart: 14,000 of them have the margin 1 at the optimum."""
    X, y = generated(tmp_path / "a.h5", features=5, separable=0.3)
    assert in_blocks(X, y, bias=1, C=C, tol=1e-3, passes=40).converged


@pytest.mark.parametrize("seed, C", [(0, 100.0), (2, 1.0), (3, 1.0)])
def test_a_step_that_is_too_long_is_taken_back_while_the_softness_falls(seed, C, only_reads):
    """Categories, two of 40 in a row: the first steps lead far away. Each once took over 100 reads."""
    rng, rows, features = np.random.default_rng(seed), 6000, 40
    X = np.eye(features)[rng.integers(0, features, rows)] + np.eye(features)[rng.integers(0, features, rows)]
    X[:, 0] = rng.random(rows)
    score = X @ (rng.standard_normal(features) / np.abs(X).mean(axis=0))
    score -= np.median(score)
    y = np.where(score + 0.7 * score.std() * rng.standard_normal(rows) > 0, 1, -1)
    assert in_blocks(X, y, C=C, tol=1e-3, passes=50).converged
