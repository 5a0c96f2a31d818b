"""What is certified is what is saved: figures are recomputed from the model and the rows as they are stored."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import write_h5
from reference.drive import of_codes, problem_of

import streammargin as sm
from streammargin.driver.learn.steps import Moments, Scaling
from streammargin.errors import DataError
from streammargin.reading.labels import KeptLabels
from streammargin.solvers.roles import new


def near_a_thousand(form, classes=2, rows=600):
    """Rows (n, 6) float32 with two columns near 1000, and labels."""
    random = np.random.default_rng(3)
    X = random.standard_normal((rows, 6))
    X[:, :2] = 1000.0 + 30.0 * X[:, :2]
    if form.startswith("csr"):
        X[:, 2:] *= random.random((rows, 4)) < 0.5
    X = X.astype(np.float32)
    z = (X[:, 0] - 1000.0) / 30.0 + X[:, 3] + 2.0 * random.standard_normal(rows)
    y = np.digitize(z, np.quantile(z, np.arange(1, classes) / classes))
    return (sp.csr_matrix(X) if form.startswith("csr") else X), y


def scale_of(X, kind):
    """Center and factor (d,) of rows (n, d), by NumPy."""
    if kind == "maxabs":
        return np.zeros(X.shape[1]), 1.0 / np.abs(X).max(axis=0)
    return X.mean(axis=0), 1.0 / X.std(axis=0)


def recomputed(model, X, y, center, factor, loss, C, penalised=True):
    """(primal, mistakes) of the saved weights on the rows as they are, the penalty that of the weights as scaled."""
    scores = X @ model.coef_.T + model.intercept_
    constant = model.intercept_ + model.coef_ @ center
    w = model.coef_ / factor
    if model.numeric:
        losses, mistakes = loss(scores[:, 0] - y)[:, None], None
    elif len(w) == 1:
        sign = np.where(y == model.classes_[1], 1.0, -1.0)
        losses, mistakes = loss(sign[:, None] * scores), np.count_nonzero((scores[:, 0] > 0.0) != (sign > 0.0))
    else:
        losses = loss(np.where(y[:, None] == model.classes_, scores, -scores))
        mistakes = np.count_nonzero(model.classes_[scores.argmax(axis=1)] != y)
    size = (w**2).sum() + (constant**2).sum() * penalised
    return 0.5 * size + C * math.fsum(losses.ravel().tolist()), mistakes


def hinge(u):
    return np.maximum(1.0 - u, 0.0)


@pytest.mark.parametrize("kind", ["maxabs", "std"])
@pytest.mark.parametrize("form", ["dense", "csr", "dense file", "csr file", "csr shards"])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_certificate_is_of_the_saved_weights_on_the_rows_as_stored(form, kind, classes, tmp_path):
    rows, y = near_a_thousand(form, classes)
    data = (rows, y)
    if "shards" in form:
        data = [write_h5(tmp_path / f"{k}.h5", rows[k::2], y[k::2]) for k in range(2)]
    elif "file" in form:
        data = write_h5(tmp_path / "a.h5", rows, y)
    result = sm.train(data, loss="hinge", scale=kind, C=1.0, solver="sdca", valid=data)
    X = (rows.toarray() if sp.issparse(rows) else rows).astype(float)
    center, factor = scale_of(X, kind)
    if sp.issparse(rows):
        center = np.zeros(6)
    primal, mistakes = recomputed(result.model, X, y, center, factor, hinge, 1.0)
    assert result.certificate.primal == pytest.approx(primal, rel=1e-12)
    assert result.certificate.mistakes == mistakes == result.model.evaluate((rows, y))["mistakes"]
    assert result.certificate.valid_error == mistakes / len(y)


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_scaled_rows_out_of_core_fit_their_plan(form, tmp_path):
    random = np.random.default_rng(0)
    X = random.standard_normal((60_000, 40)).astype(np.float32)
    X[:, 0] += 1000.0
    y = (X[:, 1] + random.standard_normal(60_000) > 0.0).astype(int)
    if form == "csr":
        X[random.random(X.shape) < 0.5] = 0.0
    path = write_h5(tmp_path / "a.h5", sp.csr_matrix(X) if form == "csr" else X, y)
    result = sm.train(path, scale="maxabs", C=1e-3, memory="20M", passes=2, solver="sdca")
    plan = result.history[0]["plan"]
    assert plan["blocks"] > 1
    with sm.open_source(path) as source:
        scaled = Scaling(source, "maxabs", KeptLabels(of_codes(np.zeros(60_000))), 20 << 20).taken(source)
        bounds = scaled.bounds(1 << 20)
        assert scaled.allocate(bounds).nbytes <= scaled.buffer_bytes(bounds) <= 1 << 20
    rows = X.astype(float)
    primal, mistakes = recomputed(result.model, rows, y, *(np.zeros(40), scale_of(rows, "maxabs")[1]), hinge, 1e-3)
    assert result.certificate.primal == pytest.approx(primal, rel=1e-12)
    assert result.certificate.mistakes == mistakes


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_the_spread_of_a_column_far_from_0(form):
    """Its squares, and the square of its mean, agree in all digits."""
    random = np.random.default_rng(0)
    X = 1e6 + 0.01 * random.standard_normal((500, 2))
    X[::5, 1] = 0.0  # one that is not always stored
    X[:, 0] -= 1e6 - 1e4 if form is np.asarray else 0.0
    scaling = Scaling(sm.open_source((form(X), np.zeros(500))), "std", KeptLabels(of_codes(np.zeros(500))), 1 << 24)
    problem = problem_of(X)
    for [(start, _, block, labels)] in scaling.reader.groups(np.arange(1), 1):
        moments = new(Moments, problem, labels=labels)
        scaling.add(problem, moments, block, start)
    scaling.finish(moments)
    np.testing.assert_allclose(1.0 / scaling.factor, X.std(axis=0), rtol=1e-9)


def test_a_dense_column_too_far_from_0_to_be_centred_is_refused_by_name():
    """Its weights could not be saved: they would lose what tells rows apart. Up to there they are right."""
    random = np.random.default_rng(1)
    X = random.standard_normal((50, 3))
    y = (X[:, 1] + 0.5 * random.standard_normal(50) > 0.0).astype(int)
    X[:, 1] += 1e15
    with pytest.raises(DataError, match=r"X: column 1 is 1e\+15 \+- .*; subtract .*scale=.maxabs"):
        sm.train((X, y), scale="std")
    X[:, 1] += 2e6 - 1e15
    result = sm.train((X, y), scale="std", solver="sdca")
    primal, mistakes = recomputed(result.model, X, y, *scale_of(X, "std"), hinge, 1.0)
    assert result.certificate.primal == pytest.approx(primal, rel=1e-9)
    assert result.certificate.mistakes == mistakes


@pytest.mark.parametrize("last", [0.0, 5e-17])
def test_a_constant_column_is_no_column_too_far_from_0(last):
    random = np.random.default_rng(1)
    X = random.standard_normal((50, 3))
    y = (X[:, 1] > 0.3).astype(int)
    X[:, 2] = 0.3
    X[::2, 2] += last  # but for its last digit
    model = sm.train((X, y), scale="std").model
    assert model.coef_[0, 2] == 0.0 and model.coef_[0, 1] > 0.0


@pytest.mark.parametrize("solver", ["auto", "sdca"])
@pytest.mark.parametrize("loss", [{"loss": "squared_error"}, {"loss": "quantile:0.9"}])
def test_numbers_too_far_from_0_are_refused(loss, solver):
    random = np.random.default_rng(1)
    X = random.standard_normal((50, 3))
    noise = X[:, 1] + random.standard_normal(50)
    with pytest.raises(DataError, match=r"its labels are 1e\+13 \+- .*; subtract"):
        sm.train((X, 1e13 + noise), solver=solver, **loss)
    far = 1e6 + noise
    result = sm.train((X, far), solver=solver, **loss)
    shift = far.mean() if loss["loss"] == "squared_error" else np.quantile(far, 0.9, method="averaged_inverted_cdf")
    penalised = result.model.header["bias"] != "free"
    assert penalised == (solver == "sdca")
    function = {"squared_error": lambda u: 0.5 * u * u, "quantile": lambda u: np.maximum(-0.9 * u, 0.1 * u)}
    primal, _ = recomputed(
        result.model, X, far, np.zeros(3), np.ones(3), function[loss["loss"].partition(":")[0]], 1.0, penalised=False
    )
    primal += 0.5 * (result.model.intercept_[0] - shift) ** 2 * penalised
    assert result.certificate.primal == pytest.approx(primal, rel=1e-9)
