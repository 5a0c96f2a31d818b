"""Kernel machines against an interior-point method, scikit-learn, and definitions in NumPy."""

import itertools
import math
import re

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from conftest import slow, write_h5
from reference import machines
from reference.sources import CountingSource
from reference.stopped import stop_after

import streammargin as sm
from examples.tangent_kernel import Tangent
from streammargin.errors import DataError, UsageError
from streammargin.points.expansion import Expansion
from streammargin.solvers.expansion import matrices
from streammargin.solvers.expansion.certificate import Left, exact
from streammargin.solvers.expansion.form import Form
from streammargin.verification.verify import verify

KERNELS = ("rbf:0.5", "poly:2,gamma=0.3,coef0=1", "linear", "rbf:0.1+linear")
LOSSES = ("hinge", "squared_hinge", "epsilon_insensitive:0.1", "quantile:0.8", "squared_error")
COSTS = (1e-3, 1e-1, 10.0, 1e4)


def rows(n=40, d=3, seed=0):
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d))
    numbers = np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 - 1.0 + 0.3 * random.standard_normal(n)
    return X, numbers, np.where(numbers > 0.0, 1, -1), random.uniform(0.5, 2.0, n)


def expanded(result, n):
    """The coefficients (n,) of all rows, and the constant."""
    arrays = result.model.answer.arrays()
    coef = np.zeros(n)
    coef[arrays["support"]] = arrays["dual_coef"][0]
    return coef, float(arrays["intercept"][0])


MACHINES = list(itertools.product(KERNELS, LOSSES, COSTS))


@pytest.mark.parametrize(
    "kernel, loss, C", [slow(*each) if each[0] != KERNELS[0] and each[2] == COSTS[-1] else each for each in MACHINES]
)
def test_the_optimum_is_that_of_an_interior_point_method(kernel, loss, C):
    X, numbers, signs, weights = rows(seed=len(kernel) + len(loss))
    name, _, number = loss.partition(":")
    number = float(number) if number else None
    classes = name in ("hinge", "squared_hinge")
    y, K = (signs if classes else numbers), machines.matrix(kernel, X, X)
    for free, weighted in ((True, True), (False, False)):
        given = weights if weighted else None
        caps = C * (weights if weighted else np.ones(len(X)))
        result = sm.train(
            (X, y), loss=loss, kernel=kernel, C=C, tol=1e-7, sample_weight=given, bias=None if free else 0, passes=300
        )
        certificate, (coef, constant) = result.certificate, expanded(result, len(X))
        best = machines.optimum(K, y, caps, name, number, free)
        size = max(abs(best), 1e-9)
        assert certificate["primal"] == pytest.approx(
            machines.primal(K, coef, constant, y, caps, name, number), rel=1e-9
        )
        assert certificate["primal"] <= best + 1e-6 * size and certificate["dual"] <= best + 2e-7 * size
        assert certificate["primal"] >= best - 2e-7 * size
        assert result.converged or certificate["gap"] <= 1e-6
        if not free:
            assert constant == 0.0 or not classes


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_scores_are_those_of_scikit_learn(C):
    from sklearn.svm import SVC, SVR

    X, numbers, signs, _ = rows(300)
    peer = SVC(C=C, kernel="rbf", tol=1e-8).fit(X, signs)  # gamma="scale"
    ours = sm.train((X, signs), kernel="rbf", C=C, tol=1e-9).model
    assert np.allclose(ours.decision_function(X), peer.decision_function(X), atol=1e-3)
    assert ours.header["kernel"] == f"rbf:{float(peer._gamma)!r},weight=1"[:12] or "rbf:" in ours.header["kernel"]
    peer = SVR(C=C, kernel="poly", degree=3, coef0=1.0, epsilon=0.1, tol=1e-8).fit(X, numbers)
    ours = sm.train((X, numbers), loss="epsilon_insensitive:0.1", kernel="poly:3,coef0=1", C=C, tol=1e-9).model
    assert np.allclose(ours.predict(X), peer.predict(X), atol=1e-2)


@pytest.mark.parametrize("C", [10.0, 100.0])
def test_rounds_do_not_undo_each_other(C, monkeypatch):
    """Rows with few steps a round: most wrong labels are at their bound, and far more rows violate than a round has."""
    from streammargin.solvers.expansion import rounds

    monkeypatch.setattr(rounds, "MOST_ROUND_ROWS", 64)
    monkeypatch.setattr(rounds, "NEW", 16)
    made, solve = [], rounds.smo.solve
    monkeypatch.setattr(rounds.smo, "solve", lambda *given: made.append(0) or solve(*given))
    random = np.random.default_rng(0)
    cluster = random.integers(10, size=1000)
    X = 2.0 * random.standard_normal((10, 3))[cluster] + 0.3 * random.standard_normal((1000, 3))
    y = np.where((random.random(10) < 0.5)[cluster] ^ (random.random(1000) < 0.1), 1, -1)
    assert sm.train((X, y), kernel="rbf:0.5", C=C).converged and len(made) < 400


def test_sparse_rows_and_precomputed_values_give_the_same():
    X, _, signs, _ = rows(200, 6)
    X = np.where(np.abs(X) > 0.7, X, 0.0)
    K = machines.matrix("rbf:0.3", X, X)
    ways = [(X, "rbf:0.3"), (sp.csr_array(X), "rbf:0.3"), (X.astype(np.float32), "rbf:0.3"), (K, "precomputed")]
    models = [sm.train((data, signs), kernel=kernel, tol=1e-8).model for data, kernel in ways]
    first = models[0].decision_function(X)
    for (data, _), model in zip(ways, models, strict=True):
        assert np.allclose(model.decision_function(data), first, atol=1e-4)
    assert np.array_equal(models[0].decision_function(X[50:60]), models[0].decision_function(X)[50:60]) or np.allclose(
        models[0].decision_function(X[50:60]), first[50:60], rtol=1e-13
    )


def test_several_classes_share_columns_and_predict():
    X, numbers, _, _ = rows(300)
    y = np.digitize(numbers, [-0.5, 0.5])
    result = sm.train((X, y), kernel="rbf:0.5", C=3.0, tol=1e-4)
    assert result.converged and len(result.certificate["per_class"]) == 3
    assert result.certificate["mistakes"] == np.sum(result.model.predict(X) != y)
    arrays = result.model.answer.arrays()
    for label, figures in enumerate(result.certificate["per_class"]):
        alone = sm.train((X, np.where(y == label, 1, -1)), kernel="rbf:0.5", C=3.0, tol=1e-6).certificate
        assert alone["dual"] <= figures["primal"] * (1 + 1e-9) and figures["dual"] <= alone["primal"] * (1 + 1e-9)
    assert arrays["dual_coef"].shape == (3, arrays["support"].size)


def test_several_values_of_C_and_class_weights():
    X, _, signs, _ = rows(300)
    several = sm.train((X[:200], signs[:200]), kernel="rbf:0.5", C=[0.01, 1.0, 100.0], valid=(X[200:], signs[200:]))
    errors = []
    for C in (0.01, 1.0, 100.0):
        model = sm.train((X[:200], signs[:200]), kernel="rbf:0.5", C=C).model
        errors.append(np.mean(model.predict(X[200:]) != signs[200:]))
    assert several.certificate["valid_error"] == pytest.approx(min(errors), abs=0.011)
    heavy = sm.train((X, signs), kernel="rbf:0.5", class_weight={1: 9.0}, tol=1e-6)
    weights = np.where(signs == 1, 9.0, 1.0)
    same = sm.train((X, signs), kernel="rbf:0.5", sample_weight=weights, tol=1e-6)
    assert heavy.certificate["primal"] == pytest.approx(same.certificate["primal"], rel=1e-5)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    X = np.random.default_rng(3).standard_normal((12000, 300))
    X[:, 2:] *= 0.02
    signs = np.where(X[:, 0] + X[:, 1] ** 2 > 1.0, 1, -1)
    path = str(tmp_path_factory.mktemp("smo") / "rows.h5")
    sm.write_hdf5([(X.astype(np.float32), signs)], path)
    return path, X.astype(np.float32), signs


def test_rows_on_disk_take_part_as_far_as_they_matter(large, monkeypatch):
    from streammargin.reading import plan

    monkeypatch.setattr(plan, "LEAST_BLOCK_BYTES", 1 << 16)
    path, X, y = large
    outside = sm.train(path, kernel="rbf:0.5", C=2.0, tol=1e-2, memory="40M")
    inside = sm.train((X, y), kernel="rbf:0.5", C=2.0, tol=1e-3)
    planned = outside.history[0]["plan"]
    assert planned["blocks"] > 1 and planned["memory_bytes"] <= 40 << 20
    assert outside.converged and outside.passes <= 12
    assert outside.certificate["primal"] >= inside.certificate["dual"]
    assert outside.certificate["dual"] <= inside.certificate["primal"]


def test_a_row_on_disk_that_the_best_constant_hides_joins_those_in_memory(tmp_path):
    random = np.random.default_rng(191)
    classes = np.repeat([1, 0], [1200, 1300])
    rows = 0.2 * random.standard_normal((2500, 500)) + np.where(classes == 1, 2.0, -2.0)[:, None]
    classes[0] = 0  # the only row on the wrong side
    order = random.permutation(2500)
    path = write_h5(tmp_path / "rows.h5", rows[order], classes[order])
    found = sm.train(path, kernel="linear", C=0.1, memory="40M", passes=12)
    inside = sm.train((rows, classes), kernel="linear", C=0.1, tol=1e-5)
    assert found.converged and found.certificate["dual"] <= inside.certificate["primal"]
    assert found.certificate["primal"] == pytest.approx(inside.certificate["primal"], rel=1e-3)


@pytest.mark.parametrize("kernel", ["rbf:0.3", "sigmoid:0.3,coef0=-0.5"])
@pytest.mark.parametrize("passes", [1, 2])
def test_certified_is_the_expansion_that_is_returned(passes, kernel, tmp_path):
    """The first read certifies weights of 0, and later steps on some rows may have larger losses on all."""
    random = np.random.default_rng(1)
    X, y = random.standard_normal((40, 4)), random.integers(2, size=40)
    result = sm.train(CountingSource(X, y, np.array([0, 20, 40])), kernel=kernel, C=100.0, passes=passes)
    result.model.save(tmp_path / "m.npz")
    data = write_h5(tmp_path / "a.h5", X, y)
    assert not [check for check in verify(tmp_path / "m.npz", data) if check.agrees is False]
    if kernel != "rbf:0.3" and passes > 1:
        assert result.certificate.dual == -math.inf and result.model.header["support"] > 0


def test_a_read_that_moved_coefficients_is_not_the_last():
    """Steps on rows in memory may end at the optimum of all rows, and the read has certified the steps before."""
    random = np.random.default_rng(5)
    X = random.standard_normal((150, 3))
    signs = np.where(np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * random.standard_normal(150) > 0.0, 1, -1)
    source = CountingSource(X[50:], signs[50:], np.array([0, 40, 70, 100]))
    assert sm.train(source, C=0.05, kernel="rbf:0.5", tol=1e-3).converged


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_of_a_chunked_file_stay_in_memory_beside_as_many_columns_as_fit(sparse, tmp_path):
    """Room for columns is what the rows and what reading them takes leave over, to the byte."""
    X = np.random.default_rng(0).standard_normal((4000, 5)).astype(np.float32)
    path, y = str(tmp_path / "a.h5"), np.where(X[:, 0] > 0.0, 1, -1)
    if sparse:
        sm.write_hdf5([(sp.csr_array(X), y)], path)
    else:
        with h5py.File(path, "w") as file:
            file.create_dataset("X", data=X, chunks=(512, 5))
            file["y"] = y
    planned = sm.train(path, kernel="rbf:0.5", memory="60M", passes=1, tol=0.5).history[0]["plan"]
    assert planned["blocks"] == 1 and planned["memory_bytes"] > 55 << 20


@pytest.mark.parametrize("n", [2, 3])
def test_a_few_rows_of_a_source_that_is_read_are_enough(n):
    X, y = np.array([[0.0, 1.0], [1.0, 2.0], [3.0, 0.0]])[:n], np.array([0.5, 1.0, -1.0])[:n]
    source = CountingSource(X, y, np.array([0, 1, n]), None)
    result = sm.train(source, kernel="rbf:0.5", loss="squared_error", C=10.0, tol=1e-6)
    assert result.converged and result.certificate.gap <= 1e-6


def test_more_support_rows_than_the_budget_holds_is_said(large, monkeypatch):
    path, _, _ = large
    with pytest.raises(UsageError, match=r"the expansion has .* support rows so far.*raise memory by \d+M") as refused:
        sm.train(path, kernel="rbf:5", C=10.0, memory="28M")
    support, held = map(int, re.findall(r"\d+(?= support rows)|(?<=holds )\d+", str(refused.value)))
    assert 0 < support <= held  # of more nobody knows


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_scores_of_float32_rows_are_near_those_of_float64(form):
    """Kernel values in float32 make them, unless the scores of support rows move too far by these."""
    X, _, signs, _ = rows(300)
    X = X.astype(np.float32)
    for gamma, C, narrow in ((0.5, 1.0, True), (0.005, 1e6, False)):
        model = sm.train((form(X), signs), kernel=f"rbf:{gamma}", C=C, tol=1e-2).model
        exact = model.decision_function(form(X.astype(np.float64)))
        apart = np.abs(model.decision_function(form(X)) - exact).max() / np.abs(exact).max()
        assert model.answer.narrow is narrow and (0.0 < apart < 1e-4 if narrow else apart == 0.0)


@pytest.mark.parametrize("classes", [2, 4])
def test_rows_that_are_nearly_tied_are_scored_in_float64(classes):
    """Rows between the classes: pairs of scores are nearer to each other than float32 moves them."""
    X, _, signs, _ = rows(300)
    X = X.astype(np.float32)
    y = signs if classes == 2 else np.arange(len(X)) % classes
    model = sm.train((X, y), kernel="rbf:0.5", C=1.0, tol=1e-2).model
    assert model.answer.narrow
    left, right = X[:-1].copy(), X[1:].copy()
    for _ in range(30):  # bisection between rows of different classes
        middle = (left + right) / np.float32(2)
        first = model.predict(middle.astype(np.float64)) == model.predict(left.astype(np.float64))
        left, right = np.where(first[:, None], middle, left), np.where(first[:, None], right, middle)
    assert np.array_equal(model.predict(left), model.predict(left.astype(np.float64)))


def test_a_model_file_keeps_the_expansion(tmp_path):
    X, _, signs, _ = rows(100, 5)
    for data in (X.astype(np.float32), sp.csr_array(np.where(np.abs(X) > 1, X, 0.0))):
        for scale in ("none", "maxabs"):
            model = sm.train((data, signs), kernel="rbf+linear", scale=scale).model
            path = tmp_path / "m.npz"
            model.save(path, force=True)
            loaded = sm.load_model(path)
            assert isinstance(loaded.answer, Expansion)
            assert np.array_equal(loaded.decision_function(data), model.decision_function(data))
            assert loaded.header["support"] == loaded.answer.numbers.size <= len(signs)


@pytest.mark.parametrize(
    "kernel", ["rbf:0.5", "poly:2,gamma=0.5", "rbf:0.1+linear", "precomputed", Tangent(8)], ids=str
)
def test_rows_of_either_form_are_predicted_by_support_rows_of_either(kernel, tmp_path):
    X, _, signs, _ = rows(80, 5)
    X[:, 3:] = 0.0  # of a sparse training no column is kept that no support row has
    X[np.random.default_rng(0).random(X.shape) < 0.4] = 0.0
    train = X @ X.T if kernel == "precomputed" else X
    others = train[:20] if kernel == "precomputed" else np.random.default_rng(1).standard_normal((20, 5))
    expected = sm.train((train, signs), kernel=kernel, tol=1e-6).model.decision_function(others)
    for form in (np.asarray, sp.csr_array):
        if kernel == "precomputed" and form is sp.csr_array:
            continue  # refused
        model = sm.train((form(train), signs), kernel=kernel, tol=1e-6).model
        for other in (np.asarray, sp.csr_array):
            np.testing.assert_allclose(model.decision_function(other(others)), expected, atol=1e-2)
            data = write_h5(tmp_path / "a.h5", other(train), signs)
            model.save(str(tmp_path / "m.npz"), force=True)
            assert sm.load_model(str(tmp_path / "m.npz")).evaluate(data)["accuracy"] > 0.5
            assert not [check for check in verify(str(tmp_path / "m.npz"), data) if check.agrees is False]


def test_scaled_rows_are_those_of_scaled_columns():
    X, _, signs, _ = rows(100, 4)
    X = X * [1.0, 10.0, 100.0, 0.1] + [0.0, 5.0, 0.0, 1.0]
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    ways = (((X, signs), "std"), ((scaled, signs), "none"))
    one, other = (sm.train(data, kernel="rbf", scale=scale, tol=1e-7) for data, scale in ways)
    assert np.allclose(one.model.decision_function(X), other.model.decision_function(scaled), atol=1e-3)


@pytest.mark.parametrize(
    "gram, message",
    [
        (lambda X, Z: X @ X.T, r"shape \(3, 3\) for 3 and 2 rows; its"),
        (lambda X, Z: X @ Z.T + X[:, :1], "not symmetric: K"),
        (lambda X, Z: X @ Z.T * np.nan, "the value NaN"),
    ],
)
def test_a_wrong_kernel_of_your_own_is_one_sentence(gram, message):
    X, _, signs, _ = rows()
    kernel = type("Wrong", (sm.kernels.Kernel,), {"__doc__": "wrong", "gram": staticmethod(gram)})()
    with pytest.raises((UsageError, DataError), match=message):
        sm.train((X, signs), kernel=kernel)


@pytest.mark.parametrize("kernel", ["sigmoid:1,coef0=-1", "sigmoid", "sigmoid:0.1,coef0=-1"])
def test_a_kernel_that_is_not_definite_certifies_nothing_and_ends(kernel, caplog):
    X, _, signs, _ = rows(100)
    result = sm.train((X, signs), kernel=kernel, C=10.0)
    assert not result.converged and result.certificate["gap"] in (None, math.inf) and result.passes < 10
    assert "not positive semidefinite" in caplog.text and "helps any more; use a kernel that is" in caplog.text
    assert np.isfinite(result.model.decision_function(X)).all()


def test_a_matrix_on_disk_that_is_not_definite_is_found(caplog):
    _, _, signs, _ = rows(60)
    K = np.eye(60) - 0.5  # each step on two coefficients has a curvature above 0
    result = sm.train(CountingSource(K, signs, np.array([0, 20, 40, 60])), kernel="precomputed", C=1.0)
    assert not result.converged and result.certificate.dual == -math.inf
    assert "not positive semidefinite" in caplog.text


def test_what_was_tested_is_said_if_it_is_not_all(monkeypatch, caplog):
    X, _, signs, _ = rows(60)
    K = machines.matrix("rbf:0.5", X, X)
    every = sm.train((K, signs), kernel="precomputed")
    assert every.converged and not caplog.text
    monkeypatch.setattr(matrices, "TESTED", 10)
    some = sm.train((K, signs), kernel="precomputed")
    assert some.converged and "semidefinite on 10 of 60 rows; the bounds assume that it is on all" in caplog.text
    assert len(caplog.records) == 1 and some.model.header["support"] > 10


@pytest.mark.parametrize("C", [1.0, math.inf])
@pytest.mark.parametrize("disk", [False, True])
@pytest.mark.parametrize("bias", [0, None])
def test_an_eigenvalue_below_0_is_found_beyond_the_support_rows(C, disk, bias, caplog):
    v = np.append(1.0, 3.0 + 0.01 * np.arange(19))
    v = np.append(v, -v)
    K = np.outer(v, v)
    K[[1, 2, 21, 22], [2, 1, 22, 21]] = 30.0  # of rows that are far from the margin
    data = CountingSource(K, np.sign(v), np.array([0, 20, 40])) if disk else (K, np.sign(v))
    result = sm.train(data, kernel="precomputed", C=C, bias=bias)
    assert not result.converged and result.certificate["gap"] in (None, math.inf)
    assert "not positive semidefinite" in caplog.text


@pytest.mark.parametrize("solver", ["smo", "dual-momentum"])
def test_a_matrix_on_disk_that_is_not_symmetric_is_refused(solver):
    X, _, signs, _ = rows(120)
    K = machines.matrix("rbf:0.5", X, X)
    C = math.inf if solver == "dual-momentum" else 1.0
    blocks = np.array([0, 40, 80, 120])
    sm.train(CountingSource(K, signs, blocks), kernel="precomputed", C=C, solver=solver, passes=2)
    K[3, 90] += 0.5  # beside the squares of blocks
    with pytest.raises(DataError, match="precomputed matrix is not symmetric; give"):
        sm.train(CountingSource(K, signs, blocks), kernel="precomputed", C=C, solver=solver, passes=2)


@pytest.mark.parametrize("least", [1e-5, 0.0, -1e-9, -1e-5, -1.0])
def test_an_eigenvalue_below_0_is_found(least):
    random = np.random.default_rng(3)
    basis = np.linalg.qr(random.standard_normal((50, 50)))[0]
    values = np.append(random.uniform(1.0, 2.0, 48), [10.0, 10.0 * least])
    assert matrices.negative(basis * values @ basis.T) is (least < -1e-7)


@pytest.mark.parametrize("C", [0.001, 1.0, 100.0, math.inf])
@pytest.mark.parametrize("bias", [0, None])
def test_a_number_added_to_a_matrix_hides_no_eigenvalue(C, bias, caplog):
    random = np.random.default_rng(3)
    half, signs = random.integers(-1, 2, (60, 60)), np.where(random.random(60) > 0.5, 1, -1)
    result = sm.train((half + half.T + 1e9, signs), kernel="precomputed", C=C, bias=bias, passes=20)
    assert not result.converged and result.reason == "passes" and "not positive semidefinite" in caplog.text
    assert result.certificate.dual == -math.inf or result.certificate.margin_upper == math.inf


def test_a_number_added_to_a_kernel_hides_no_eigenvalue(caplog):
    X = np.random.default_rng(0).standard_normal((100, 3))
    result = sm.train((X, X[:, 0] > 0.0), kernel="sigmoid:0.4+poly:1,gamma=1e-12,coef0=1e9", passes=20)
    assert not result.converged and "not positive semidefinite" in caplog.text


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("added", [0.0, 8.0, 1000.0])
def test_rounding_of_a_stored_matrix_is_no_eigenvalue_below_0(dtype, added, caplog):
    X, _, signs, _ = rows(100)
    K = machines.matrix("rbf:0.01", X, X) + added
    result = sm.train((K.astype(dtype), signs), kernel="precomputed", tol=0.1, passes=50)
    assert result.certificate.dual > 0.0 and "semidefinite" not in caplog.text


@pytest.mark.parametrize("loss", ["squared_hinge", "squared_error"])
@pytest.mark.parametrize("free", [True, False])
def test_a_kernel_without_an_optimum_ends_with_finite_scores(loss, free, caplog):
    """The sum of losses without a kink bounds no coefficient, and an eigenvalue below 0 lets each grow without end."""
    X, _, signs, _ = rows(60)
    K = np.eye(60) - 0.5  # each step on two coefficients has a curvature above 0, and the matrix an eigenvalue below
    y = signs if loss == "squared_hinge" else X[:, 0]
    result = sm.train((K, y), kernel="precomputed", loss=loss, C=1e3, bias=None if free else 0)
    assert not result.converged and "not positive semidefinite" in caplog.text
    assert np.isfinite(result.model.decision_function(K)).all()


@pytest.mark.parametrize(
    "options, message",
    [
        ({"kernel": "gauss"}, "unknown kernel"),
        ({"kernel": "rbf:-1"}, "gamma of rbf"),
        ({"kernel": "rbf:nan"}, "nan"),
        ({"kernel": "rbf:0.5,weight=0"}, "weight of rbf"),
        ({"kernel": "precomputed+linear"}, "cannot be combined"),
        ({"kernel": "precomputed"}, "square matrix"),
        ({"kernel": "precomputed", "scale": "std"}, "are its values; leave it out"),
        ({"kernel": "rbf", "gamma": 0.5}, r"there is no gamma here.*rbf:0.5"),
        ({"kernel": "rbf", "penalty": "l1"}, "penalty l2"),
        ({"kernel": "rbf", "bias": 1.0}, "constant of a kernel machine"),
        ({"kernel": "rbf", "C": math.inf, "loss": "interpolate"}, "does not apply to the regression loss interpolate"),
        ({"kernel": "rbf", "C": math.inf, "bias": "midway"}, "constant of a kernel machine"),
        ({"kernel": "rbf", "bias": "midway"}, "leave out bias, or give bias=0"),
        ({"kernel": "rbf", "loss": "logistic"}, "takes the losses hinge, smooth_hinge, squared_hinge, not logistic"),
        ({"kernel": "rbf", "solver": "newton"}, "solver"),
        ({"solver": "smo"}, "kernel"),
        ({"kernel": "rbf", "init": "model.npz"}, "init keeps weights of columns"),
        ({"kernel": 3}, "must be a name"),
    ],
)  # fmt: skip
def test_what_is_refused(options, message):
    X, _, signs, _ = rows()
    with pytest.raises(UsageError, match=message):
        sm.train((X, signs), **options)


def test_bad_values_are_one_sentence():
    X, _, signs, _ = rows()
    K = X @ X.T
    K[3, 5] += 1.0
    with pytest.raises(DataError, match="not symmetric: row"):
        sm.train((K, signs), kernel="precomputed")
    with pytest.raises(DataError, match="too large to compute with"):
        sm.train((1e30 * X, signs), kernel="poly:3,gamma=1")
    with pytest.raises(DataError, match="is NaN"):
        sm.train((np.where(X[2, 1] == X, np.nan, X), signs), kernel="rbf")
    for method in ("smo", "diagonal", "adaptive"):
        with pytest.raises(DataError, match="may be rounding alone; subtract the mean"):
            sm.train((X + 1e9, signs), kernel="rbf:0.5", C=math.inf, solver=method)
    with pytest.raises(DataError, match="rounding alone"):
        sm.train((X, signs), kernel="rbf:1e20")
    with pytest.raises(UsageError, match="dense matrix"):
        sm.train((sp.csr_array(X @ X.T), signs), kernel="precomputed")


@pytest.mark.parametrize("form", [np.asarray, np.float32, sp.csr_array])
@pytest.mark.parametrize("gamma", [1e6, 1e9, 1e13])
def test_a_gamma_that_makes_all_rows_strangers_is_trained_as_it_is(form, gamma):
    """Products of rows know ||x - z||^2 to some 1e-16 of ||x||^2 only, which gamma makes large."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    X[1] = X[0]
    X[3] = X[2] * (1.0 + 1e-7)
    y = rng.integers(0, 3, 60) > 0
    y[0], y[2], y[1], y[3] = True, True, False, False
    X = form(X)
    rows = (X.toarray() if sp.issparse(X) else X).astype(np.float64)
    K = np.exp(-gamma * np.square(rows[:, None] - rows[None]).sum(axis=2))
    found = sm.train((X, y), kernel=f"rbf:{gamma}", tol=1e-5, passes=20)
    twin = sm.train((K, y), kernel="precomputed", tol=1e-5)
    assert found.converged and found.certificate.primal == pytest.approx(twin.certificate.primal, rel=2e-5)
    assert found.certificate.mistakes == twin.certificate.mistakes
    np.testing.assert_allclose(found.model.decision_function(X), twin.model.decision_function(K), atol=1e-2)


def test_columns_far_from_0_have_the_kernel_of_their_differences():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((80, 2))
    y, X = np.square(Z).sum(axis=1) > 1.3, 1e6 + Z
    found = sm.train((X, y), kernel="rbf:0.5", C=10.0, tol=1e-5)
    assert found.converged and found.certificate.primal == pytest.approx(
        sm.train((X - 1e6, y), kernel="rbf:0.5", C=10.0, tol=1e-5).certificate.primal, rel=2e-5
    )


class Histogram(sm.kernels.Kernel):
    """sum_j min(x_j, z_j): a kernel of a user's own, with a NumPy body."""

    definite = True

    def gram(self, X, Z):
        X, Z = (one.toarray() if sp.issparse(one) else one for one in (X, Z))
        return np.minimum(X[:, None], Z[None]).sum(axis=2)


def test_a_kernel_of_your_own_is_one_class(tmp_path):
    X, _, signs, _ = rows(80)
    X = np.abs(X)
    K = np.minimum(X[:, None], X[None]).sum(axis=2)
    ours, known = (
        sm.train((X, signs), kernel=Histogram(), tol=1e-7),
        sm.train((K, signs), kernel="precomputed", tol=1e-7),
    )
    assert ours.certificate["primal"] == pytest.approx(known.certificate["primal"], rel=1e-6)
    sparse = sm.train((sp.csr_array(X), signs), kernel=Histogram(weight=2.0), tol=1e-7)
    twice = sm.train((2.0 * K, signs), kernel="precomputed", tol=1e-7)
    assert sparse.certificate["primal"] == pytest.approx(twice.certificate["primal"], rel=1e-6)
    ours.model.save(tmp_path / "m.npz")
    assert np.allclose(sm.load_model(tmp_path / "m.npz").decision_function(X), ours.model.decision_function(X))


GIVEN = {
    "a list": (lambda K: K.tolist(), "a list; .* a NumPy array of real numbers"),
    "matrix": (lambda K: K.view(np.matrix), "a matrix; .* a NumPy array of real numbers"),
    "sparse": (sp.csr_array, "a csr_array; .* a NumPy array of real numbers"),
    "complex": (lambda K: K + 0j, "values of the type complex128; .* real numbers"),
    "objects": (lambda K: K.astype(object), "values of the type object; .* real numbers"),
    "halves": (lambda K: K.astype(np.float16), "values of the type float16; .* real numbers"),
    "a column": (lambda K: K[:, :1], r"values of the shape \(3, 1\) for 3 and 2 rows; .* a column for each of Z"),
    "flat": (lambda K: K.ravel(), r"values of the shape \(6,\) for 3 and 2 rows"),
    "turned": (lambda K: K.T, r"values of the shape \(2, 3\) for 3 and 2 rows"),
}


@pytest.mark.parametrize("solver", ["smo", "pdprox"])
@pytest.mark.parametrize("give", GIVEN)
def test_what_gram_may_not_give_is_told(give, solver):
    change, message = GIVEN[give]

    class Wrong(Histogram):
        def gram(self, X, Z):
            return change(super().gram(X, Z))

    X, _, signs, _ = rows(20)
    for kernel in (Wrong(), sm.kernels.Linear() + Wrong()):
        with pytest.raises(UsageError, match=rf"the kernel wrong:weight=1 gives {message}"):
            sm.train((X, signs), kernel=kernel, solver=solver)


def test_values_of_gram_are_judged_without_a_gamma_that_the_kernel_lacks():
    class Undefined(Histogram):
        def gram(self, X, Z):
            return np.nan * super().gram(X, Z)

    class Large(Histogram):
        def gram(self, X, Z):
            return 1e99 * super().gram(X, Z)

    class Whole(Histogram):
        def gram(self, X, Z):
            return super().gram(X, Z).astype(np.int64)

    X, _, signs, _ = rows(20)
    with pytest.raises(DataError, match="undefined:weight=1 has the value NaN on these rows; its method gram must"):
        sm.train((X, signs), kernel=Undefined())
    with pytest.raises(DataError, match=r"too large to compute with; use .* or a smaller weight$"):
        sm.train((np.abs(X), signs), kernel=Large())
    assert sm.train((np.round(np.abs(9 * X)), signs), kernel=Whole()).certificate.primal is not None


@pytest.mark.parametrize("memory", ["1G", "40M"])
def test_a_training_that_was_stopped_goes_on_in_the_same_bits(large, tmp_path, memory, monkeypatch):
    from streammargin.reading import plan

    monkeypatch.setattr(plan, "LEAST_BLOCK_BYTES", 1 << 16)
    path, _, _ = large
    options = {"kernel": "rbf:0.5", "C": 2.0, "tol": 1e-2, "memory": memory}
    whole = sm.train(path, **options)
    for stop in (3, 40):
        folder = str(tmp_path / f"{memory}{stop}")
        sm.train(path, **options, checkpoint=folder, should_stop=stop_after(stop))
        resumed = sm.train(path, **options, checkpoint=folder)
        for name, array in whole.model.answer.arrays().items():
            assert np.array_equal(array, resumed.model.answer.arrays()[name]), (stop, name)


def test_verify_recomputes_the_figures_from_the_support_rows(tmp_path):
    from streammargin.verification.verify import verify

    X, numbers, signs, _ = rows(150, 5)
    ways = [
        (X, signs, {"kernel": "rbf:0.3,weight=2+poly:2,coef0=1"}),
        (X, numbers, {"kernel": "rbf", "loss": "epsilon_insensitive:0.1", "scale": "std"}),
        (sp.csr_array(np.where(np.abs(X) > 1, X, 0.0)), np.digitize(numbers, [0, 1]), {"kernel": "linear"}),
    ]
    for number, (data, y, options) in enumerate(ways):
        path, model = str(tmp_path / f"{number}.h5"), str(tmp_path / f"{number}.npz")
        sm.write_hdf5([(data, y)], path)
        sm.train(path, **options).model.save(model)
        checks = {check.name: check for check in verify(model, path)}
        assert checks["primal"].agrees and all(check.agrees is not False for check in checks.values())
    damaged = dict(np.load(model))
    damaged["dual_coef"] = 1.001 * damaged["dual_coef"]
    np.savez(model, **damaged)
    assert not all(check.agrees is not False for check in verify(model, path))
    damaged["dual_coef"] = damaged["dual_coef"][:, 1:]
    np.savez(model, **damaged)
    with pytest.raises(sm.DataError, match="its array support has the shape"):
        verify(model, path)


@pytest.mark.parametrize("early", [None, 2])
@pytest.mark.parametrize("seed, classes", [(0, 2), (3, 2), (1, 3)])  # of 3 the dual is above -primal
def test_the_gap_is_that_of_the_primal_and_the_dual_where_rounding_is_most_of_it(seed, classes, early):
    """The bound on the rounding of the primal was in the gap alone: .58 beside figures 42% apart."""
    random = np.random.default_rng(seed)
    X = random.standard_normal((80, 3))
    y = (random.random(80) * classes).astype(int)
    given = {} if early is None else {"early_stop": early, "valid": (X[:20], y[:20])}
    result = sm.train((X, y), kernel="poly:20", **given)
    for event in [one for one in result.history if one["event"] == "certificate"]:
        for one in event["per_class"]:
            size, apart = max(one["primal"], -one["dual"]), one["primal"] - one["dual"]
            assert one["gap"] == pytest.approx(apart / size, rel=1e-12)
            assert one["mean_gap"] == pytest.approx(apart / 80.0, rel=1e-12)
        assert event["dual"] == sum(one["dual"] for one in event["per_class"])


WIDE, NUMBERS, _, _ = rows(60)
SINGLE = WIDE.astype(np.float32)
HELD_OUT = [
    *[("rbf", loss, SINGLE) for loss in ("squared_error", "huber", "quantile", "absolute_error")],
    *[(kernel, "epsilon_insensitive:0.1", SINGLE) for kernel in ("linear", "poly:2,coef0=1", "rbf:0.3+linear")],
    ("rbf", "huber", sp.csr_array(np.where(SINGLE > 0, SINGLE, np.float32(0)))),
]


@pytest.mark.parametrize("kernel, loss, X", HELD_OUT)
def test_verify_finds_the_held_out_loss_of_float32_rows(kernel, loss, X, tmp_path):
    """It was that of predictions, with kernel values in float32: 3e-7 of it beside what `verify` found."""
    data, held_out, model = (str(tmp_path / name) for name in ("data.h5", "valid.h5", "model.npz"))
    for path, some in ((data, slice(0, 60)), (held_out, slice(0, 20))):
        sm.write_hdf5([(X[some], NUMBERS[some])], path)
    result = sm.train(data, kernel=kernel, loss=loss, valid=held_out)
    result.model.save(model)
    assert result.model.answer.narrow and all(check.agrees is not False for check in verify(model, data, held_out))
    error = result.certificate.valid_error
    assert result.model.evaluate(held_out)["loss"] == pytest.approx(error, rel=1e-12)
    result.model.header["certificate"]["valid_error"] = error * (1.0 + 1e-8)
    result.model.save(model, force=True)
    assert [check.name for check in verify(model, data, held_out) if check.agrees is False] == ["valid error"]
    result.model.header["certificate"]["valid_error"] = error
    result.model.answer.coef[0, 0] *= 1.0 + 1e-4
    result.model.save(model, force=True)
    assert "valid error" in [check.name for check in verify(model, data, held_out) if check.agrees is False]


def test_verify_finds_the_held_out_mistakes_of_float32_rows(tmp_path):
    """Support rows do not show how far float32 moves rows between the classes that are a thousand times as long."""
    random = np.random.default_rng(0)
    X = random.standard_normal((200, 5)).astype(np.float32)
    y = (X[:, 0] + 0.5 * random.standard_normal(200) > 0).astype(int)
    model = sm.train((X, y), kernel="linear").model
    far = (1e3 * random.standard_normal((4000, 5))).astype(np.float32)
    classes = model.predict(far.astype(np.float64))
    count = min(np.count_nonzero(classes), np.count_nonzero(classes == 0))
    left, right = far[classes == 1][:count].copy(), far[classes == 0][:count].copy()
    for _ in range(20):  # bisection between rows of different classes
        middle = (left + right) / np.float32(2)
        first = model.predict(middle.astype(np.float64))[:, None] == 1
        left, right = np.where(first, middle, left), np.where(first, right, middle)
    assert model.answer.narrow and (model.predict(left) != 1).any()
    data, held_out, path = (str(tmp_path / name) for name in ("data.h5", "valid.h5", "model.npz"))
    sm.write_hdf5([(X, y)], data)
    sm.write_hdf5([(left, np.ones(count, int))], held_out)
    result = sm.train(data, kernel="linear", valid=held_out)
    result.model.save(path)
    assert all(check.agrees is not False for check in verify(path, data, held_out))
    assert result.certificate.valid_error == result.model.evaluate(held_out)["mistakes"] / count == 0.0


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("C", [1e6, 1e8])
def test_rounding_of_losses_is_weighed_in_the_choice_of_a_scale(free, C):
    """Rows at the edge of a loss may have C times the rounding of a score; a scale of 1 + 1e-5 clears them."""
    random = np.random.default_rng(0)
    X, y = random.standard_normal((150, 3)), random.integers(0, 2, 150)
    result = sm.train((X, y), kernel="rbf:50", C=C, bias="free" if free else 0, passes=200)
    assert result.converged and result.certificate.mistakes == 0
    K = machines.matrix("rbf:50", X, X)
    answer = result.model.answer
    b = np.zeros(150)
    b[answer.numbers] = answer.coef[0]
    losses = np.maximum(0.0, 1.0 - np.where(y == 1, 1.0, -1.0) * (K @ b + answer.constants[0]))
    found = 0.5 * b @ K @ b + C * losses.sum()
    assert result.certificate.dual <= found <= result.certificate.dual * (1.0 + 1.2e-3)


def test_rows_that_a_certificate_leaves_out_surely_have_no_loss(monkeypatch):
    """Its figures are those of exact scores of all rows, though scores of these are wrong by as much as is allowed."""
    X, _, signs, _ = rows(300)
    K, left_out = machines.matrix("rbf:0.5", X, X), []
    honest = Left.clear

    def spoilt(self, scale, constant):
        left_out.append(self.f.size)
        self.f[:] += self.wander * np.resize([1.0, -1.0], self.f.size)
        return honest(self, scale, constant)

    monkeypatch.setattr(Left, "clear", spoilt)
    for C in (0.1, 1.0, 100.0):
        result = sm.train((X, signs), kernel="rbf:0.5", C=C)
        coef, constant = expanded(result, 300)
        u = signs * (K @ coef + constant)
        primal = 0.5 * coef @ K @ coef + C * np.maximum(0.0, 1.0 - u).sum()
        assert result.certificate.primal == pytest.approx(primal, rel=1e-12)
        assert result.certificate.mistakes == np.count_nonzero(u < 0.0)
    assert max(left_out) > 100


def test_a_row_left_out_that_may_have_a_loss_holds_the_constant():
    """At the best scale and constant it may have one, so these are 1 and those at which it has none."""
    X, _, signs, _ = rows(60)
    K = machines.matrix("rbf:0.5", X, X)
    found = sm.train((X, signs), kernel="rbf:0.5", tol=1e-8)
    coef, constant = expanded(found, 60)
    problem = Form(signs, 0.0 * signs, np.ones(60), 1.0 * signs, np.minimum(0.0, signs), np.maximum(0.0, signs),
                   np.zeros(60), 0.0, 0.0, False)  # fmt: skip
    f, clear = K @ coef, np.flatnonzero(coef == 0.0)
    used = np.flatnonzero(coef)
    for wander, at in ((0.0, constant), (1e3, constant - 0.25)):
        left = Left(problem.at(clear), f[clear], wander, at)
        some = exact(problem.at(used), sm.losses.Hinge().terms(), True, f[used], coef[used], 1e-12, 1.0, left)
        assert (some.scale, some.constant) == (1.0, pytest.approx(at, abs=1e-6))
