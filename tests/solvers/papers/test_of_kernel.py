"""The papers' methods in the space of a kernel: against the linear forms, loops over the matrix, and the optimum."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import write_h5
from reference import kernel_papers, machines
from reference.datasets import as_form
from reference.sources import CountingSource

import streammargin as sm
from streammargin.kernels import make_kernel
from streammargin.rows.blocks import DenseBlock, taken
from streammargin.solvers.expansion.columns import Columns, HeldColumns, fill, multiply_unit, multiply_used
from streammargin.verification.verify import verify

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((80, 4))
Y = np.where(X[:, 0] * X[:, 1] > 0.0, 1, -1)
Y3 = np.argmax(X[:, :3], axis=1)
K = machines.matrix("rbf:0.3", X, X)
METHODS = (
    "dual-momentum", "normalized-gd", "normalized-gd:step=sqrt", "gd", "batch-perceptron",
    "batch-perceptron:average=no", "diagonal", "inertial-diagonal", "inertial-diagonal:gamma=fixed,restarts=no",
)  # fmt: skip
FIGURES = ("margin_lower", "margin_upper", "mistakes")


def roots(matrix):
    """Rows whose products are the matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def curve(data, passes=20, **options):
    """The certified figures (passes, 3) of all passes but the first, and the result."""
    result = sm.train(data, **{"C": math.inf, "tol": 1e-12, "passes": passes} | options)
    told = [event for event in result.history if event["event"] == "certificate"]
    assert [event["pass"] for event in told] == list(range(1, passes + 1))
    return np.array([[event[name] for name in FIGURES] for event in told])[1:], result


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("method", METHODS)
def test_each_pass_has_the_figures_of_the_linear_form(method, form):
    rows = as_form(X + 2.0 * Y[:, None], form)
    linear, of_weights = curve((rows, Y), solver=method, bias=0)
    found, result = curve((rows, Y), solver=method, kernel="linear")
    # a power iteration begins at another vector
    assert found == pytest.approx(linear, rel=1e-9 if "fixed" not in method else 0.05)
    if "fixed" not in method:
        w = result.model.answer.coef @ (X + 2.0 * Y[:, None])[result.model.answer.numbers]
        assert w == pytest.approx(of_weights.model.coef_, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("method, loss", [
    *((method, loss) for method in ("dual-momentum", "gd") for loss in ("exponential", "logistic")),
    ("batch-perceptron", "hinge"),
])  # fmt: skip
def test_a_joint_margin_is_that_of_rows_with_these_products(method, loss):
    options = {"solver": method, "loss": loss, "multiclass": "joint", "passes": 40}
    linear, _ = curve((roots(K), Y3), bias=0, **options)
    found, _ = curve((X, Y3), kernel="rbf:0.3", **options)
    assert found == pytest.approx(linear, rel=1e-6 if (method, loss) != ("gd", "logistic") else 0.05)


@pytest.mark.parametrize("method", ["dual-momentum", "normalized-gd:step=sqrt", "batch-perceptron"])
def test_iterates_are_those_of_the_paper_on_the_matrix(method):
    twin = getattr(kernel_papers, method.partition(":")[0].replace("-", "_"))(K, Y, 29)
    lower, upper = -math.inf, math.inf
    found, _ = curve((X, Y), solver=method, kernel="rbf:0.3", passes=30)
    for (c, bound), figures in zip(list(twin)[1:], found, strict=False):
        lower = max(lower, float(np.min(Y * (K @ c)) / kernel_papers.lengths(K, c)))
        upper = min(upper, float(bound))
        assert figures[0] >= lower - 1e-9 and figures[1] <= upper * (1 + 1e-9)
    assert figures[0] == pytest.approx(lower, rel=1e-6)


@pytest.mark.parametrize("inertia", [None, 3.0])
def test_diagonal_descent_on_4_17(inertia):
    """The step is 1 / (1.1 ||K||), as a power iteration of 8 products finds it."""
    method = "diagonal:gamma=fixed" if inertia is None else "inertial-diagonal:gamma=fixed,restarts=no"
    found, _ = curve((X, Y), solver=method, kernel="rbf:0.3", passes=60)
    v = np.random.default_rng(0).standard_normal(len(Y))
    for _ in range(7):
        before, v = kernel_papers.lengths(K, v), K @ v
        largest, v = kernel_papers.lengths(K, v) / before, v / np.abs(v).max()
    assert 0.9 < largest / np.linalg.eigvalsh(K)[-1] <= 1.0
    twin = list(kernel_papers.descend(K, Y, 59, 1.0 / (1.1 * largest), inertia))
    for pair, figures in zip(twin, found, strict=True):
        margin, bound = np.min(Y * (K @ pair[0])) / kernel_papers.lengths(K, pair[0]), pair[1]
        assert figures[0] >= margin - 1e-9 and figures[1] <= bound * (1 + 1e-9)
    best = max(np.min(Y * (K @ c)) / kernel_papers.lengths(K, c) for c, _ in twin)
    assert found[-1, 0] == pytest.approx(best, rel=1e-6) and found[-1, 1] == pytest.approx(bound, rel=0.05)


@pytest.mark.parametrize(
    "method, tol", [("dual-momentum", 0.02), ("inertial-diagonal", 1e-3), ("batch-perceptron", 0.2)]
)
def test_they_come_to_the_largest_margin(method, tol):
    best = sm.train((X, Y), kernel="rbf:0.3", C=math.inf, tol=1e-6).certificate
    result = sm.train((X, Y), kernel="rbf:0.3", solver=method, tol=tol, passes=3000)
    found = result.certificate
    assert result.converged and found.mistakes == 0 and found.margin_gap <= tol
    assert (1 - tol) * best.margin_lower <= found.margin_lower <= best.margin_upper <= found.margin_upper * (1 + 1e-9)
    scores = Y * result.model.decision_function(X)
    c = np.zeros(len(Y))
    c[result.model.answer.numbers] = result.model.answer.coef[0]
    assert scores.min() / kernel_papers.lengths(K, c) == pytest.approx(found.margin_lower, rel=1e-6)


def test_several_classes_are_verified(tmp_path):
    data = write_h5(tmp_path / "a.h5", X, Y3)
    for number, options in enumerate(({"multiclass": "joint"}, {"solver": "inertial-diagonal"})):
        result = sm.train(data, kernel="rbf:0.3", C=math.inf, tol=0.05, passes=2000, **options)
        assert result.converged and result.certificate.mistakes == 0
        result.model.save(str(tmp_path / f"{number}.npz"))
        assert not [check for check in verify(tmp_path / f"{number}.npz", data) if check.agrees is False]
    assert result.model.header["solver"].startswith("inertial-diagonal")


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("slots", [1, 30, 80])
def test_products_do_not_depend_on_how_many_columns_are_held(slots, form):
    from streammargin.sources.arrays import ArraySource

    block = ArraySource(as_form(X, form)).whole()
    columns = Columns(HeldColumns(**held()), make_kernel("rbf:0.3"), block, np.arange(80), slots, np.float64)
    while fill(columns):
        pass
    coefs = RANDOM.standard_normal((80, 3)) * (RANDOM.random((80, 1)) < 0.5)
    problem, found = SimpleNamespace(rows=80, values=X.size), []
    for low in (0, slots) if slots < 80 else (0,):
        found.append(multiply_unit(columns, problem, block, low, coefs)[0])
    assert np.concatenate(found) == pytest.approx(K @ coefs, abs=1e-12)
    assert isinstance(taken(block, np.arange(2)), type(block)) and (form == "csr") != isinstance(block, DenseBlock)


def held():
    empty = np.empty(0, np.int64)
    return {"rows": empty, "batch": empty, "used": empty, "batches": np.empty((2, 0), np.int64)}


@pytest.mark.parametrize("method", ["dual-momentum", "batch-perceptron", "inertial-diagonal:gamma=fixed"])
def test_a_matrix_on_disk_is_read_once_a_pass(method, tmp_path):
    source = CountingSource(K, Y, [0, 30, 60, 80])
    found, result = curve(source, solver=method, kernel="precomputed", passes=12)
    whole, _ = curve((K, Y), solver=method, kernel="precomputed", passes=12)
    assert found == pytest.approx(whole, rel=1e-9)
    reads = 12 + 2 + ("diagonal" not in method) + 8 * ("fixed" in method)
    assert set(source.reads.values()) == {reads}
    first = sm.train(source, solver=method, kernel="precomputed", tol=1e-12, passes=5, checkpoint=str(tmp_path))
    again = sm.train(source, solver=method, kernel="precomputed", tol=1e-12, passes=12, checkpoint=str(tmp_path))
    assert first.passes == 5 and again.passes == 12
    assert np.array_equal(again.model.answer.coef, result.model.answer.coef)


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("method", ["dual-momentum", "batch-perceptron", "diagonal"])
def test_a_stop_goes_on_to_the_same_bits(method, form, tmp_path):
    data = write_h5(tmp_path / "a.h5", X if form == "dense" else sp.csr_array(X), Y)
    options = {"kernel": "rbf:scale", "solver": method, "tol": 1e-12}
    straight = sm.train(data, passes=17, **options)
    sm.train(data, passes=9, checkpoint=str(tmp_path / "c"), **options)
    again = sm.train(data, passes=17, checkpoint=str(tmp_path / "c"), **options)
    ended = sm.train(data, passes=17, checkpoint=str(tmp_path / "c"), **options)  # without a read
    for result in (again, ended):
        for name, array in straight.model.answer.arrays().items():
            assert np.array_equal(result.model.answer.arrays()[name], array), name


def test_all_rows_must_fit(tmp_path):
    rows = RANDOM.standard_normal((20000, 100)).astype(np.float32)
    data = write_h5(tmp_path / "a.h5", rows, np.where(rows[:, 0] > 0, 1, -1))
    with pytest.raises(sm.UsageError, match="the smallest plan needs"):
        sm.train(data, kernel="rbf", solver="dual-momentum", memory="20M")


def test_that_nothing_separates():
    rows, y = np.vstack([X, X[:1]]), np.append(Y, -Y[0])
    result = sm.train((rows, y), kernel="rbf:0.3", solver="batch-perceptron")
    assert result.reason in ("small_margin", "not_separable") and not result.converged
    for form in (np.asarray, sp.csr_array):
        result = sm.train((form(rows[[0, -1]]), y[[0, -1]]), kernel="rbf:0.3", solver="dual-momentum")
        assert result.reason == "not_separable" and result.certificate.margin_upper == 0.0
    options = {"solver": "adaptive", "C": math.inf, "multiclass": "joint"}
    result = sm.train((rows[[0, -1, 1]], np.array([0, 1, 2])), kernel="rbf:0.3", **options)
    assert result.reason == "not_separable" and result.certificate.margin_upper == 0.0


def test_a_margin_that_rounding_hides_is_not_called_none():
    """Rows 1e-7 apart differ. K(x, x) of 1e-200 is 0 in floating point, though not in truth."""
    for rows, y, word in ([[[0.0], [1e-7]], [0, 1], "rbf:0.5"], [[[1e-200], [1.0], [-1.0]], [1, 1, 0], "linear"]):
        for method in ("batch-perceptron", "dual-momentum", "diagonal"):
            result = sm.train((np.array(rows), np.array(y)), kernel=word, solver=method, passes=200)
            assert result.reason in ("passes", "small_margin") and not result.converged
            assert -2.0 < result.certificate.margin_lower <= 1e-200 < result.certificate.margin_upper < 1e-3


@pytest.mark.parametrize(
    "method", ["diagonal", "inertial-diagonal", "batch-perceptron", "dual-momentum", "normalized-gd", "adaptive"]
)
@pytest.mark.parametrize("kernel", ["sigmoid:0.3,coef0=-1", "sigmoid:2,coef0=3"])
def test_no_margin_is_bounded_by_an_indefinite_kernel(method, kernel, caplog):
    result = sm.train((X, Y), kernel=kernel, solver=method, passes=30)
    assert "not positive semidefinite" in caplog.text
    assert result.reason == "passes" and not result.converged
    assert result.certificate.margin_upper == math.inf and not result.certificate.dual > 0.0


@pytest.mark.parametrize(
    "options, text",
    [
        ({"bias": "free"}, "diagonal finds margins without a constant"),
        ({"C": 1.0}, "without a constant|the maximum margin only"),
        ({"solver": "homotopic"}, "homotopic finds linear models"),
        ({"kernel": "precomputed"}, "takes the square matrix"),
        ({"multiclass": "joint"}, "does not find one hard margin of all classes"),
    ],
)
def test_what_it_refuses(options, text):
    with pytest.raises(sm.UsageError, match=text):
        sm.train((X, Y3 if "multiclass" in options else Y), **{"kernel": "rbf", "solver": "diagonal"} | options)


def test_scaled_rows_are_those_of_scaled_columns():
    rows = X * [1.0, 10.0, 100.0, 0.1] + [0.0, 5.0, 0.0, 1.0]
    ways = ((rows, "std"), ((rows - rows.mean(axis=0)) / rows.std(axis=0), "none"))
    one, other = (sm.train((X, Y), kernel="rbf", solver="diagonal", scale=scale, passes=30) for X, scale in ways)
    assert one.model.decision_function(rows) == pytest.approx(other.model.decision_function(ways[1][0]), rel=1e-6)


ADAPTIVE = ("adaptive", "adaptive:step=proven")


@pytest.mark.parametrize("multiclass", ["ovr", "joint"])
@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("method", ADAPTIVE)
def test_adaptive_draws_the_rows_of_the_linear_form(method, form, multiclass):
    y, rows = (Y3, X) if multiclass == "joint" else (Y, X + 2.0 * Y[:, None])
    options = {"solver": method, "C": math.inf, "tol": 1e-12, "passes": 7, "multiclass": multiclass}
    linear = sm.train((as_form(rows, form), y), bias=0, **options)
    found = sm.train((as_form(rows, form), y), kernel="linear", **options)
    ours, theirs = ([getattr(one.certificate, name) for name in FIGURES] for one in (found, linear))
    assert ours == pytest.approx(theirs, rel=1e-8)
    answer = found.model.answer
    assert answer.coef @ rows[answer.numbers] == pytest.approx(linear.model.coef_, rel=1e-8, abs=1e-10)


def test_adaptive_comes_to_the_largest_margin(tmp_path):
    best = sm.train((X, Y), kernel="rbf:0.3", C=math.inf, tol=1e-6).certificate
    for kernel, rows in (("rbf:0.3", X), ("precomputed", K)):
        found = sm.train((rows, Y), kernel=kernel, solver="adaptive", tol=0.02)
        assert found.converged and found.certificate.mistakes == 0
        margins = found.certificate.margin_lower, best.margin_lower, best.margin_upper, found.certificate.margin_upper
        assert list(margins) == sorted(margins) and margins[0] > 0.98 * margins[1]
    for word, method in (("precomputed", "adaptive"), ("rbf", "adaptive"), ("rbf", "diagonal")):
        with pytest.raises(sm.UsageError, match="all rows must be in memory at once"):
            sm.train(CountingSource(K, Y, [0, 30, 60, 80]), kernel=word, solver=method)
    data = write_h5(tmp_path / "a.h5", X, Y3)
    joint = sm.train(data, kernel="rbf:0.3", solver="adaptive", multiclass="joint", tol=0.05)
    joint.model.save(str(tmp_path / "m.npz"))
    assert joint.converged and not [one for one in verify(tmp_path / "m.npz", data) if one.agrees is False]
    exact, _ = curve((X, Y3), kernel="rbf:0.3", solver="dual-momentum", multiclass="joint", passes=500)
    assert exact[-1, 0] <= joint.certificate.margin_upper and joint.certificate.margin_lower <= exact[-1, 1]


@pytest.mark.parametrize("multiclass", ["ovr", "joint"])
@pytest.mark.parametrize("method", ADAPTIVE)
def test_steps_go_on_to_the_same_bits(method, multiclass, tmp_path):
    """Also if no column but the last one is held."""
    data = write_h5(tmp_path / "a.h5", X, Y3)
    options = {"kernel": "rbf:0.3", "solver": method, "tol": 1e-12, "multiclass": multiclass}
    straight = sm.train(data, passes=9, **options)
    sm.train(data, passes=4, checkpoint=str(tmp_path / "c"), **options)
    again = sm.train(data, passes=9, checkpoint=str(tmp_path / "c"), **options)
    assert np.array_equal(again.model.answer.coef, straight.model.answer.coef)
    assert again.certificate == straight.certificate


def test_columns_that_are_given_up_are_computed_again():
    block = DenseBlock(X, 0.0)
    columns = Columns(HeldColumns(**held()), make_kernel("rbf:0.3"), block, np.arange(80), 2, np.float64)
    for number, row in enumerate((5, 9, 5, 7, 9)):
        if columns.slot_of[row] < 0:
            columns.take_in(np.array([row]), np.empty(0, np.int64), number)
        assert columns.values[columns.of(np.array([row]), number)[0]] == pytest.approx(K[row], abs=1e-12)
    coefs = np.zeros((80, 2))
    coefs[[5, 7, 9, 11]] = RANDOM.standard_normal((4, 2))
    assert multiply_used(columns, block, 10, 50, coefs) == pytest.approx(K[10:50] @ coefs, abs=1e-12)
