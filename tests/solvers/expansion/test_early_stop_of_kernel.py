"""Early stopping of kernel machines: the pass with the smallest held-out error is kept, and its figures are its own."""

import math

import numpy as np
import pytest
from reference.sources import CountingSource
from reference.stopped import bits, until_done

import streammargin as sm
from streammargin.driver.loop import phases
from streammargin.solvers.expansion import smo

RANDOM = np.random.default_rng(5)
X = RANDOM.standard_normal((150, 3))
SCORES = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.8 * RANDOM.standard_normal(150)
TWO, THREE = np.where(SCORES > 0.0, 1, -1), np.digitize(SCORES, [-0.5, 0.5])
GAMMA, EPSILON, HELD = 0.5, 0.1, 60
K = np.exp(-GAMMA * np.square(X[:, None] - X).sum(axis=2))


def parts(y, way):
    """Rows to train on, and held-out ones."""
    if way == "matrix":
        return (K[HELD:, HELD:].copy(), y[HELD:]), (K[:HELD, HELD:].copy(), y[:HELD])
    rows = X[HELD:], y[HELD:]
    data = CountingSource(*rows, np.array([0, 20, 45, 90])) if way == "disk" else rows
    return data, (X[:HELD], y[:HELD])


CASES = {
    "smo": (TWO, "memory", {"C": 1e4}),
    "several C of three classes": (THREE, "memory", {"C": [0.01, 1e3], "loss": "squared_hinge"}),
    "rows on disk": (THREE, "disk", {"C": 100.0}),
    "numbers on disk": (SCORES, "disk", {"C": 10.0, "loss": f"epsilon_insensitive:{EPSILON}"}),
    "a hard margin": (TWO, "memory", {"C": math.inf, "bias": "free"}),
    "pdprox": (TWO, "memory", {"C": 100.0, "solver": "pdprox:scale=4"}),
    "dual-momentum": (TWO, "memory", {"C": math.inf, "solver": "dual-momentum"}),
    "three classes of one margin": (THREE, "memory", {"C": math.inf, "solver": "gd", "multiclass": "joint"}),
    "adaptive, of a matrix": (TWO, "matrix", {"C": math.inf, "solver": "adaptive"}),
}


@pytest.fixture
def short_passes(monkeypatch):
    """Of one round for each line, so that few rows take several passes."""
    monkeypatch.setattr(smo, "PASS_ROUNDS", 1)
    monkeypatch.setattr(smo, "HARD_ROUNDS", 1)


def expand(numbers, coef, constants):
    """(scores of the rows to train on (n, K), of the held-out ones), in NumPy."""
    used = HELD + numbers
    return K[HELD:, used] @ coef.T + constants, K[:HELD, used] @ coef.T + constants


def errors_of(scores, y, options):
    """The held-out error of each value of C, from scores (m, K)."""
    each = np.split(scores, len(options["C"]) if isinstance(options["C"], list) else 1, axis=1)
    if y is SCORES:
        return [float(np.maximum(0.0, np.abs(one[:, 0] - y[:HELD]) - EPSILON).mean()) for one in each]
    found = [np.argmax(one, axis=1) if one.shape[1] > 1 else np.where(one[:, 0] > 0.0, 1, -1) for one in each]
    return [float(np.mean(one != y[:HELD])) for one in found]


def signed(scores, y):
    """The margins (n, K) of rows to train on."""
    return scores * (np.where(y[HELD:, None] == np.arange(3), 1.0, -1.0) if y is THREE else y[HELD:, None])


def check_figures(result, y, options):
    """The certificate against the saved expansion, in NumPy; its bounds against a training to the end."""
    found, answer, C = result.certificate, result.model.answer, result.run_end["C"]
    numbers, coef = answer.numbers, answer.coef
    scores, _ = expand(numbers, coef, answer.constants)
    squares = np.einsum("ki,ij,kj->k", coef, K[HELD + numbers][:, HELD + numbers], coef)
    rest = {name: options[name] for name in ("loss", "bias", "multiclass") if name in options}
    rest["tol"] = 0.05 if "multiclass" in rest else 1e-7
    best = sm.train((X[HELD:], y[HELD:]), kernel=f"rbf:{GAMMA}", C=C, passes=100, **rest).certificate
    if math.isinf(C):
        margins = signed(scores, y)
        if "multiclass" in rest:
            own = np.arange(3) == y[HELD:, None]
            margins = (scores[own] - np.where(own, -np.inf, scores).max(axis=1))[:, None]
        margin = margins.min() / math.sqrt(squares.sum())
        assert found.margin_lower == pytest.approx(margin, rel=1e-9) and found.margin_lower <= margin + 1e-15
        assert found.margin_upper >= best.margin_lower and found.mistakes == np.sum(margins <= 0.0)
        return
    if y is SCORES:
        losses = np.maximum(0.0, np.abs(scores[:, 0] - y[HELD:]) - EPSILON)[:, None]
    else:
        losses = np.maximum(0.0, 1.0 - signed(scores, y)) ** (2 if options.get("loss") == "squared_hinge" else 1)
        assert found.mistakes == np.count_nonzero(result.model.predict(X[HELD:]) != y[HELD:])
    primals = 0.5 * squares + C * losses.sum(axis=0)
    np.testing.assert_allclose([one["primal"] for one in found.per_class], primals, rtol=1e-9)
    for one, other in zip(found.per_class, best.per_class, strict=True):
        assert one["dual"] <= other["primal"] <= one["primal"] * (1.0 + 1e-7)
        assert 0.0 <= one["gap"] - (one["primal"] - one["dual"]) / one["primal"] <= 1e-6


@pytest.mark.parametrize("case", CASES)
def test_the_pass_with_the_smallest_error_is_kept_and_certified(case, short_passes, monkeypatch):
    y, way, options = CASES[case]
    data, held_out = parts(y, way)
    points, given = [], phases.held_out_errors

    def noted(course, point):
        points.append((point.numbers.copy(), point.coef.copy(), point.constants.copy()))
        return given(course, point)

    monkeypatch.setattr(phases, "held_out_errors", noted)
    options = {"kernel": "precomputed" if way == "matrix" else f"rbf:{GAMMA}", "tol": 1e-6, **options}
    result = sm.train(data, valid=held_out, early_stop=4, passes=30, **options)
    assert len(points) == result.passes > 2
    costs = options["C"] if isinstance(options["C"], list) else [options["C"]]
    trial, number = costs.index(result.run_end["C"]), result.run_end["pass"]
    lines = slice(trial * len(points[0][2]) // len(costs), (trial + 1) * len(points[0][2]) // len(costs))
    (numbers, coef, constants), answer = points[number - 1], result.model.answer
    shift = answer.constants - constants if y is SCORES else 0.0  # of numbers, which a training centres
    errors = np.array([errors_of(expand(*point)[1] + shift, y, options) for point in points])
    told = [event["valid_error"] for event in result.history if event["event"] == "pass_end"]
    np.testing.assert_allclose(told, errors.min(axis=1), rtol=1e-9)
    assert number == 1 + np.argmin(errors[:, trial]) or len(costs) > 1
    assert result.certificate.valid_error == pytest.approx(errors[number - 1, trial], rel=1e-9)
    kept = np.zeros((len(coef[lines]), len(y)))
    kept[:, numbers] = coef[lines]
    np.testing.assert_array_equal(answer.coef, kept[:, answer.numbers])
    assert np.count_nonzero(kept) == np.count_nonzero(answer.coef)
    np.testing.assert_array_equal(answer.constants, constants[lines] + shift)
    monkeypatch.undo()
    check_figures(result, y, options)
    assert any(np.any(one[2] != points[0][2]) or np.any(one[1].sum() != points[0][1].sum()) for one in points[1:])


@pytest.mark.parametrize("case", ["smo", "rows on disk", "pdprox", "dual-momentum"])
def test_a_training_that_is_stopped_anywhere_goes_on_in_the_same_bits(case, short_passes, tmp_path):
    y, way, options = CASES[case]
    options = {"kernel": f"rbf:{GAMMA}", "tol": 1e-6, "early_stop": 2, "passes": 6, **options}
    held_out = parts(y, way)[1]
    straight = sm.train(parts(y, way)[0], valid=held_out, **options)
    told = set()

    def go_on(should_stop):
        return sm.train(
            parts(y, way)[0], valid=held_out, checkpoint=str(tmp_path), should_stop=should_stop, **options,
            listeners=[lambda event: told.add(event.get("phase"))],
        )  # fmt: skip

    assert bits(until_done(go_on, 7)[0]) == bits(straight)
    assert told >= {"held-out errors of the pass", "figures of the best pass"}


def test_each_value_of_a_path_keeps_its_own_pass(short_passes, monkeypatch):
    data, held_out = parts(TWO, "memory")
    options = {"kernel": f"rbf:{GAMMA}", "tol": 1e-3, "C": "path:3,low=1,high=1000"}
    result = sm.train(data, valid=held_out, early_stop=2, **options)
    assert all(1 <= one["pass"] <= one["passes"] for one in result.run_end["trials"])
    monkeypatch.undo()
    check_figures(result, TWO, options)


def test_what_is_kept_is_counted_in_the_plan():
    data, held_out = parts(TWO, "memory")
    options = {"kernel": f"rbf:{GAMMA}", "valid": held_out, "C": 1.0}
    plans = [sm.train(data, early_stop=stop, **options).history[0]["plan"]["memory_bytes"] for stop in (None, 2)]
    assert plans[1] - plans[0] >= (len(TWO) - HELD) * 8 * (4 + 3)
