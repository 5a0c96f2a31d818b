"""Weights within a domain: six digits of an interior-point solution, never a weight outside, and what serves them."""

import math

import numpy as np
import pytest
from conftest import write_h5
from reference.datasets import as_form, noisy
from reference.sources import CountingSource

import streammargin as sm
from streammargin.verification.verify import verify

conic = pytest.importorskip("reference.conic", reason="the interior-point method is clarabel's", exc_type=ImportError)

X, Y = noisy(60, 6, seed=5)
CLASSES = (X[:, 0] > 0) + 2 * (X[:, 1] > 0.5)
NUMBERS = X @ np.array([3.0, 0.0, 0.5, 1.0, 0.0, -2.0]) + Y + 1.0
PHI = {
    "hinge": lambda u: np.maximum(0.0, 1.0 - u), "logistic": lambda u: np.logaddexp(0.0, -u),
    "squared_error": lambda u: u * u / 2.0,
}  # fmt: skip
DOMAINS = {  # r, and the domain
    "l2:low=0": (0.0, {"low": 0.0}), "l2:low=-0.1,high=0.25": (0.0, {"low": -0.1, "high": 0.25}),
    "l1:low=0,high=1": (1.0, {"low": 0.0, "high": 1.0}), "l1:high=0.1": (1.0, {"high": 0.1}),
    "elasticnet:0.3,low=0": (0.3, {"low": 0.0}), "elasticnet:0.7,low=-0.2,high=0.2": (0.7, {"low": -0.2, "high": 0.2}),
    "l2:radius=0.3": (0.0, {"radius": 0.3}), "l2:radius=30": (0.0, {"radius": 30.0}),
}  # fmt: skip
WAYS = [("dense", "memory"), ("csr", "memory"), ("csr", "file"), ("dense", "blocks")]
CONSTANTS = ("free", 0.0, 2.0)
CASES = [
    (word, loss, bias, *WAYS[number % 4])
    for number, (word, loss, bias) in enumerate((w, phi, b) for w in DOMAINS for phi in PHI for b in CONSTANTS)
]


def outside(w, low=-math.inf, high=math.inf, radius=math.inf):
    return bool(w.min() < low or w.max() > high or np.linalg.norm(w) > radius * (1 + 1e-15))


@pytest.mark.parametrize("word, loss, bias, form, place", CASES)
def test_six_digits_of_the_interior_point_solution(word, loss, bias, form, place, tmp_path):
    (r, domain), C = DOMAINS[word], 0.25
    labels = NUMBERS - NUMBERS.mean() if loss == "squared_error" else Y  # so that a penalised constant is about 0
    rows = as_form(X, form, np.float64)
    data = {
        "file": lambda: write_h5(tmp_path / "rows.h5", rows, labels), "memory": lambda: (rows, labels),
        "blocks": lambda: CountingSource(X, labels, (0, 25, 60)),
    }[place]()  # fmt: skip
    result = sm.train(data, penalty=word, loss=loss, C=C, bias=bias, tol=1e-7, passes=50000)
    figures, model = result.certificate, result.model
    best, w, _ = conic.solve(
        X, labels, np.full(60, C), "elasticnet", loss, r=r, constant=2.0 if bias == 2.0 else float(bias == "free"),
        free=bias != 2.0, domain=domain,
    )  # fmt: skip
    assert model.header["solver"] == "newton" and model.header["penalty"] == word
    assert result.converged and best * (1 - 1e-6) <= figures.primal <= best * (1 + 1e-6)
    assert figures.primal * (1 - 1e-7) <= figures.dual <= best * (1 + 1e-7)
    weights, constant = model.coef_[0], model.intercept_[0]
    assert not outside(weights, **domain)
    parts = np.append(weights, constant / 2.0) if bias == 2.0 else weights
    scores = X @ weights + constant
    losses = PHI[loss](scores - labels if loss == "squared_error" else labels * scores).sum()
    value = r * np.abs(parts).sum() + (1 - r) / 2 * parts @ parts
    assert value + C * losses == pytest.approx(figures.primal, rel=1e-12)
    np.testing.assert_allclose(weights, w, atol=5e-3)  # of the hinge many constants may serve
    path = str(tmp_path / "model.npz")
    model.save(path)
    assert np.array_equal(sm.load_model(path).coef_, model.coef_)
    if place == "file":
        assert all(check.agrees is not False for check in verify(path, data))


def gap_by_hand(w, b, word, C, free):
    """The relative gap of the logistic loss, its duals made of the weights alone, as far as they fit the constant."""
    r, domain = DOMAINS[word]
    low, high, radius = (
        domain.get(name, end) for name, end in (("low", -math.inf), ("high", math.inf), ("radius", math.inf))
    )
    u = Y * (X @ w + b)
    alpha = C / (1.0 + np.exp(u))
    if free:
        up, down = alpha[Y > 0].sum(), alpha[Y < 0].sum()
        alpha = alpha * np.where(Y > 0, min(1.0, down / up), min(1.0, up / down))
    theta = X.T @ (Y * alpha)
    share = alpha / C
    gain = -C * np.sum(share * np.log(share) + (1 - share) * np.log1p(-share))
    if "radius" in domain:
        size, radius = np.linalg.norm(theta), domain["radius"]
        conjugate = size**2 / 2 if size <= radius else radius * size - radius**2 / 2
    elif r == 1.0:
        assert high < math.inf and low > -math.inf
        conjugate = np.sum(high * np.maximum(theta - 1, 0) - low * np.maximum(-theta - 1, 0))
    else:
        best = np.clip(np.sign(theta) * np.maximum(np.abs(theta) - r, 0) / (1 - r), low, high)
        conjugate = theta @ best - r * np.abs(best).sum() - (1 - r) / 2 * best @ best
    primal = r * np.abs(w).sum() + (1 - r) / 2 * w @ w + C * np.logaddexp(0, -u).sum()
    return (primal - gain + conjugate) / primal


@pytest.mark.parametrize("bias", ["free", 0.0])
@pytest.mark.parametrize("word", [word for word in DOMAINS if word != "l1:high=0.1"])
def test_the_gap_is_found_again_from_the_weights_and_the_rows(word, bias):
    result = sm.train((X, Y), penalty=word, loss="logistic", C=0.25, bias=bias, tol=1e-11, passes=50000)
    w, b = result.model.coef_[0], result.model.intercept_[0]
    assert result.converged and -1e-12 < gap_by_hand(w, b, word, 0.25, bias == "free") < 1e-5


@pytest.mark.parametrize("loss", PHI)
@pytest.mark.parametrize("word", ["l2:low=0,high=0", "l1:low=0,high=0", "l2:radius=0"])
def test_a_domain_of_0_alone_leaves_the_constant(word, loss):
    labels = NUMBERS if loss == "squared_error" else np.where(np.arange(60) % 3 == 0, 1, -1)
    result = sm.train((X, labels), penalty=word, loss=loss, C=0.7, tol=1e-9, passes=20000)
    assert result.converged and not result.model.coef_.any()
    expected = {"hinge": -1.0, "logistic": math.log(0.5), "squared_error": NUMBERS.mean()}[loss]
    assert result.model.intercept_[0] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("word", ["l2:radius=1e-9", "l2:low=-1e-12,high=1e-9", "l1:high=1e-300", "l2:radius=1e-200"])
def test_tiny_domains(word):
    for loss in ("hinge", "logistic"):
        result = sm.train((X, Y), penalty=word, loss=loss, C=0.7, tol=1e-9, passes=20000)
        assert result.converged
        assert result.model.coef_.max() <= 1e-9


def test_a_step_of_0_lowers_the_softness(tmp_path):
    """Compiled kernels, which a checkpoint takes, came to a step of 0 here, and then stood at a gap of 1.2e-9."""
    options = {"penalty": "l1:high=1e-300", "loss": "hinge", "C": 0.7, "tol": 1e-9, "passes": 300}
    assert sm.train((X, Y), **options, checkpoint=str(tmp_path)).converged


def test_no_bounds_at_all_are_the_penalty_itself():
    for word, plain in (("l2:high=inf", "l2"), ("l1:low=-inf,high=inf", "l1"), ("l2:radius=inf", "l2")):
        one, other = (sm.train((X, Y), penalty=each, C=0.3, tol=1e-6) for each in (word, plain))
        assert one.model.header["solver"] == other.model.header["solver"] == "newton"
        assert np.array_equal(one.model.coef_, other.model.coef_) and one.certificate == other.certificate


@pytest.mark.parametrize("word", ["l2:low=-0.1,high=0.3", "l1:low=-0.1,high=0.7", "l2:radius=0.1", "elasticnet:low=0"])
@pytest.mark.parametrize("options", [
    {"C": [0.01, 1.0, 100.0], "valid": (X, CLASSES)}, {"loss": "hinge:top=20"}, {"loss": "logistic", "bias": 1.0},
    {"loss": "squared_hinge", "class_weight": "balanced", "solver": "pdprox:primal"},
])  # fmt: skip
def test_weights_never_leave_the_domain_however_early_a_training_ends(word, options):
    """The mean of weights at 0.3 is another number at times: it lies within, too."""
    fields = word.partition(":")[2].split(",")
    domain = {name: float(end) for name, _, end in (field.partition("=") for field in fields)}
    for passes in (1, 2, 3, 7, 20, 60):
        options = {"C": 1.0, "solver": "pdprox", "multiclass": "ovr", **options}
        result = sm.train((X, CLASSES), penalty=word, passes=passes, tol=1e-12, **options)
        assert not any(outside(line, **domain) for line in result.model.coef_)
        assert math.isfinite(result.certificate.primal) and result.certificate.dual <= result.certificate.primal


def test_the_domain_is_that_of_scaled_columns():
    scaled = X * np.geomspace(0.1, 10.0, 6)
    result = sm.train((scaled, Y), penalty="l2:low=-0.1,high=0.25", C=0.25, scale="std", tol=1e-8)
    w = result.model.coef_[0] * scaled.std(axis=0)
    assert result.converged and w.min() == pytest.approx(-0.1, rel=1e-12) and w.max() == pytest.approx(0.25, rel=1e-12)


def test_a_path_over_C():
    result = sm.train((X, Y), penalty="l1:low=0", loss="logistic", C="path:4", valid=(X, Y), tol=1e-6, passes=20000)
    nonzeros = [line["nonzeros"] for line in result.run_end["trials"]]
    assert result.converged and nonzeros[0] <= 1 < nonzeros[-1] and result.model.coef_.min() >= 0.0
    best, _, _ = conic.solve(X, Y, np.full(60, result.model.header["C"]), "l1", "logistic", domain={"low": 0.0})
    assert result.certificate.primal == pytest.approx(best, rel=2e-6)


@pytest.mark.parametrize("solver", ["sdca", "asdca", "ascent", "pegasos"])
@pytest.mark.parametrize("word", ["l2:low=0", "elasticnet:0.5,high=2", "l2:radius=3"])
def test_other_solvers_name_the_one_that_serves_it(solver, word):
    with pytest.raises(sm.UsageError, match=f'does not take penalty="{word}".*; use solver="newton"$'):
        sm.train((X, Y), solver=solver, penalty=word, C=1.0, bias=1)


def test_what_has_no_domain():
    with pytest.raises(sm.UsageError, match=r"l2 and lp, not for .*low=0.*; give a finite C, or use"):
        sm.train((X, Y), penalty="l2:low=0", C=math.inf)
    with pytest.raises(sm.UsageError, match='does not take penalty="l2:low=0"'):
        sm.MarginClassifier(penalty="l2:low=0", solver="pegasos", C=1.0).partial_fit(X, Y, classes=[-1, 1])


def test_an_estimator_sets_the_fields():
    model = sm.MarginClassifier(penalty="l2:low=0", C=1.0).fit(X, Y)
    assert model.coef_.min() >= 0.0
    model.set_params(penalty__low=None, penalty__high=0.1)
    assert str(model.penalty) == "l2:high=0.1" and model.get_params()["penalty__high"] == 0.1
    assert model.fit(X, Y).coef_.max() <= 0.1 and model.coef_.min() < 0.0
