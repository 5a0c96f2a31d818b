"""The multiplications in events, against a count by hand."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference.sources import CountingSource
from reference.whole_pass import make_problem

import streammargin as sm
from streammargin.rows.blocks import DenseBlock
from streammargin.rows.labels import Labels, numbered_from
from streammargin.solvers import base
from streammargin.solvers.cache import rows as row_store
from streammargin.solvers.coordinate import from_weights
from streammargin.solvers.newton import subproblem as descent
from streammargin.solvers.newton.subproblem import LINE_SEARCH, Goal, Proximal, solve


def take_units(monkeypatch, size):
    for module in (base, descent, from_weights, row_store):
        monkeypatch.setattr(module, "UNIT", size)


@pytest.fixture(params=[None, 300.0], ids=["a unit", "many units"])
def unit(request, monkeypatch):
    """What is one unit else is many of them."""
    if request.param:
        take_units(monkeypatch, request.param)
    return request.param


def told(result, kind="pass_end"):
    return [event["multiplications"] for event in result.history if event["event"] == kind]


def overlapping(rows=60, features=5):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((rows, features))
    return X, np.where(X[:, 0] + rng.standard_normal(rows) > 0, 1, -1)


@pytest.mark.parametrize("classes", [2, 3])
def test_methods_of_whole_passes_count_every_value_twice_for_each_class(classes):
    X, y = overlapping()
    y = y if classes == 2 else np.arange(60) % 3
    result = sm.train((X, y), solver="diagonal", C=np.inf, tol=1e-9, passes=3, bias=0)
    lines = 1 if classes == 2 else 3
    assert told(result) == [2 * lines * X.size * (1 + number) for number in (1, 2, 3)]  # one pass finds the norms


@pytest.mark.parametrize("momentum", [False, True])
def test_coordinate_ascent_counts_rows_that_are_awake_and_their_moves(momentum, unit):
    """Orthogonal rows: each is at its bound after one visit, does not move in two more, and sleeps for a pass then."""
    X, y = np.eye(40), np.arange(40) % 2
    solver, vectors = ("asdca", 2) if momentum else ("sdca", 1)
    result = sm.train((X, y), solver=solver, C=0.8, tol=0, passes=1, bias=0)
    assert told(result) == [vectors * 2 * X.size]
    assert told(result, "certificate") == [vectors * 2 * X.size + 2 * X.size]
    if not momentum:
        longer = sm.train((X, y), solver=solver, C=0.8, tol=0, passes=4, bias=0)
        counted = [event for event in longer.history if "multiplications" in event]
        added = np.diff([0, *(event["multiplications"] for event in counted)])
        passes = [by for event, by in zip(counted, added, strict=True) if event["event"] == "pass_end"]
        assert passes == [2 * X.size, X.size, X.size, 0]


def test_newton_steps_in_memory_count_their_matrices(unit):
    X, y = overlapping()
    n, d = X.shape
    labels = Labels((y > 0).astype(np.int16), np.array([1]), np.ones((1, 2)), np.empty(0), np.empty(0))
    proximal, w = Proximal(centres=np.zeros(n)), np.zeros(d + 1)
    problem = make_problem(X, y > 0, loss="logistic")
    given = problem, [(numbered_from(0), DenseBlock(X, 1.0))], labels, proximal, w
    units = 1
    while not solve(*given, np.zeros(d + 1), Goal(share=1e-9)):
        units += 1
    made = proximal.made
    assert units == (made if unit else 1)
    # margins once; A^T a before each step and after the last; and the step: its matrix, its factor, products, a search.
    # A unit begins with both anew
    looks = X.size * (1 + made + 1) + 2 * X.size * (units - 1)
    step = n * d * d / 2 + (d + 1) ** 3 / 6 + X.size + LINE_SEARCH * n
    assert made > 2 and proximal.multiplications == pytest.approx(looks + made * step)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_the_two_weights_of_primal_dual_steps_count_both(form, unit):
    X, y = overlapping()
    result = sm.train((form(X), y), solver="pdprox:dual", tol=1e-12, passes=4, bias=0)
    assert told(result) == [X.size * (2 + looks) for looks in (2, 4, 7, 10)]  # the mean of one is that one


CASES = {
    "sdca": {"solver": "sdca"},
    "asdca": {"solver": "asdca"},
    "ascent": {"solver": "ascent", "C": 10.0},
    "newton": {"solver": "newton"},
    "newton, smooth": {"solver": "newton", "loss": "logistic"},
    "active-set": {"solver": "active-set", "C": np.inf},
    "prox-newton": {"solver": "prox-newton", "penalty": "l1", "loss": "logistic"},
    "pdprox": {"solver": "pdprox", "penalty": "l1"},
    "pegasos": {"solver": "pegasos"},
}


# steps in memory look again at the beginning of a unit; and the rounding of momentum depends on which rows are together
UNITED = [case for case in CASES if case not in ("newton", "newton, smooth", "asdca")]


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("blocks", [0, 3])
@pytest.mark.parametrize("case", UNITED)
def test_many_units_count_what_one_counts(case, blocks, form, monkeypatch):
    X, y = overlapping()
    if CASES[case].get("C") == np.inf:
        X[:, 0] += 5 * y
    counts = []
    for size in (1e9, 300.0):
        take_units(monkeypatch, size)
        source = CountingSource(form(X), y, np.linspace(0, 60, blocks + 1).astype(int)) if blocks else (form(X), y)
        result = sm.train(source, tol=1e-6, passes=6, bias=1.0, **CASES[case])
        counts.append([event["multiplications"] for event in result.history if "multiplications" in event])
    assert counts[0] == counts[1]


@pytest.mark.parametrize("blocks", [0, 3])
@pytest.mark.parametrize("case", CASES)
def test_dense_and_sparse_rows_of_the_same_values_count_alike(case, blocks, unit):
    if blocks and case == "pdprox":
        pytest.skip("columns are kept of sparse rows alone")
    X, y = overlapping()
    if CASES[case].get("C") == np.inf:
        X[:, 0] += 5 * y
    counts = []
    for rows in (X, sp.csr_matrix(X)):
        source = CountingSource(rows, y, np.linspace(0, 60, blocks + 1).astype(int)) if blocks else (rows, y)
        result = sm.train(source, tol=1e-6, passes=6, bias=1.0, **CASES[case])
        counts.append([event["multiplications"] for event in result.history if "multiplications" in event])
    dense, sparse = counts
    assert dense[0] >= X.size and np.all(np.diff(dense) >= 0)
    assert len(dense) == len(sparse)
    np.testing.assert_allclose(dense, sparse, rtol=0.02)  # the last bits of sums differ, and what follows from them
