"""Second-order steps: what training certifies, against an interior-point method; few passes at any C; hostile data."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from conftest import slow
from reference import words
from reference.datasets import WEIGHTINGS, as_form, noisy, separable
from reference.optimum import solve
from reference.sources import CountingSource
from reference.stopped import check_every_pass
from reference.training import binary, check_certificate
from reference.words import loss_word

import streammargin as sm
from streammargin.driver.loop.run import PHASES
from streammargin.errors import UsageError
from streammargin.solvers.coordinate import ascent
from streammargin.solvers.newton import newton, steps, subproblem

TOL = 1e-5


def train(X, y, **options):
    return sm.train((X, y), **{"solver": "newton", "tol": TOL, "passes": 500, "bias": 0, **options})


def in_blocks(X, y, blocks=4, sample_weight=None, **options):
    """From a source that must be read in blocks; and the source, which counts the reads."""
    source = CountingSource(X, y, np.linspace(0, len(y), blocks + 1).astype(int), sample_weight)
    result = sm.train(source, solver="newton", **{"tol": TOL, "passes": 500, "bias": 0, **options})
    assert result.history[0]["plan"]["blocks"] == blocks
    return result, source


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("loss", words.LOSSES)
def test_objective_equals_the_interior_point_optimum(loss, C, form, weighting):
    X, y = noisy()
    problem = binary(X, y, loss=loss, width=0.05, C=C, **WEIGHTINGS[weighting])
    exact = solve(problem, loss, 0.05)
    for result in (
        train(as_form(X, form), y, loss=loss_word(loss, 0.05), C=C, **WEIGHTINGS[weighting]),
        in_blocks(as_form(X, form), y, loss=loss_word(loss, 0.05), C=C, **WEIGHTINGS[weighting])[0],
    ):
        check_certificate(result, problem, exact, result.model.coef_[0], TOL)


def test_it_can_end_after_any_pass():
    X, y = noisy()
    for passes in range(1, 20):
        result = train(X, y, passes=passes, tol=1e-15)
        problem, w = binary(X, y), result.model.coef_[0]
        assert result.passes == passes and result.certificate.primal == pytest.approx(problem.primal(w), rel=1e-10)


def overlapping(rows=400, features=10, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, features))
    return X, np.where(X @ rng.standard_normal(features) + 2 * rng.standard_normal(rows) > 0, 1, -1)


def hostile():
    X, y = overlapping()
    holes = X * (np.arange(400) % 3 > 0)[:, None]
    order = np.argsort(y, kind="stable")
    wide = np.random.default_rng(2).standard_normal((120, 100))
    return {
        "duplicates": (np.repeat(X[:40], 10, 0), np.repeat(y[:40], 10)),
        "contradictions": (np.repeat(X[:40], 2, 0), np.tile([1, -1], 40)),
        "rows of zeros": (holes, y),
        "nothing but zeros": (np.zeros((20, 3)), np.tile([1, -1], 10)),
        "one column": (X[:, :1], y),
        "collinear columns": (np.hstack([X, X, 2 * X[:, :3]]), y),
        "one row of a class": (X, np.where(np.arange(400) == 3, 1, -1)),
        "sorted by label": (X[order], y[order]),
        "fewer rows than columns": (wide[:40], np.tile([1, -1], 20)),
        "as many rows as columns": (wide, np.where(wide[:, 0] + wide[:, 1] > 0, 1, -1)),
        "separable": separable(200, 12),
    }


@pytest.mark.parametrize("C", [1e-6, 1.0, 100.0, 1e8])
@pytest.mark.parametrize("loss", [*words.LOSSES, slow("generalized_hinge")])
@pytest.mark.parametrize("case", hostile())
def test_hostile_data_end_with_a_proof(case, loss, C):
    X, y = hostile()[case]
    result = train(X, y, loss=loss, C=C, tol=1e-3)
    problem = binary(X, y, loss=loss, C=C)
    assert result.converged, result.reason
    figures = result.certificate
    assert figures["primal"] == pytest.approx(problem.primal(result.model.coef_[0]), rel=1e-6)
    assert figures["primal"] - figures["dual"] <= 1e-3 * max(abs(figures["primal"]), abs(figures["dual"]))


@pytest.mark.parametrize("loss", words.DUAL_LOSSES)
def test_a_weight_is_so_many_repetitions(loss):
    X, y = overlapping(60, 4)
    counts = np.random.default_rng(3).integers(0, 6, 60)
    weighted = train(X, y, loss=loss, sample_weight=counts.astype(float), tol=1e-9)
    repeated = train(np.repeat(X, counts, 0), np.repeat(y, counts), loss=loss, tol=1e-9)
    assert weighted.certificate["primal"] == pytest.approx(repeated.certificate["primal"], rel=1e-8)
    assert weighted.model.coef_ == pytest.approx(repeated.model.coef_, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("loss", words.DUAL_LOSSES)
def test_weights_over_six_orders_of_magnitude(loss):
    X, y = overlapping(300, 6)
    weights = 10.0 ** np.random.default_rng(4).uniform(-3, 3, 300)
    problem = binary(X, y, loss=loss, sample_weight=weights)
    result = train(X, y, loss=loss, sample_weight=weights, tol=1e-6)
    assert result.converged
    assert result.certificate["primal"] == pytest.approx(problem.primal(result.model.coef_[0]), rel=1e-10)
    other = sm.train((X, y), solver="sdca", loss=loss, sample_weight=weights, tol=1e-6, passes=20_000, bias=0)
    assert other.certificate["dual"] <= result.certificate["primal"] * (1 + 1e-9)
    assert result.certificate["dual"] <= other.certificate["primal"] * (1 + 1e-9)


@pytest.mark.parametrize("loss", words.DUAL_LOSSES)
def test_classes_and_values_of_C_share_each_read(loss):
    X, _ = overlapping(300, 6)
    y = np.argmax(X[:, :3] + 0.7 * np.random.default_rng(5).standard_normal((300, 3)), axis=1)
    for result in (
        train(X, y, loss=loss, multiclass="ovr", C=[0.01, 1.0, 100.0], tol=1e-4, valid=(X, y)),
        in_blocks(X, y, loss=loss, multiclass="ovr", C=[0.01, 1.0, 100.0], tol=1e-4, valid=(X, y))[0],
    ):
        assert result.converged
        last = [event for event in result.history if event["event"] == "certificate"][-3:]
        for event, C in zip(last, [0.01, 1.0, 100.0], strict=True):
            for k, figures in enumerate(event["per_class"]):
                alone = train(X, np.where(y == k, 1, -1), loss=loss, C=C, tol=1e-6)
                assert figures["primal"] == pytest.approx(alone.certificate["primal"], rel=2e-4)
                assert figures["dual"] <= alone.certificate["primal"] * (1 + 1e-9)
        scores = X @ result.model.coef_.T
        assert result.certificate["mistakes"] == np.sum(np.argmax(scores, axis=1) != y)


def test_a_large_C_takes_little_longer():
    X, y = overlapping(2000, 20)
    passes = {C: train(X, y, C=C, tol=1e-3).passes for C in (1.0, 1e4)}
    assert passes[1e4] <= 2 * passes[1.0] <= 80
    assert sm.train((X, y), solver="sdca", C=1e4, tol=1e-3, passes=500, bias=0).reason == "passes"


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_duals_and_margins_that_fall_far_leave_no_rounding_behind(loss):
    """Of separable rows duals at w = 0 are C and more, those at the end a few, and none feels a larger C."""
    X, y = separable()
    exact = solve(binary(X, y, C=1e4, bias=1.0), "hinge")
    assert exact.alpha.max() < 50.0  # so that a larger C has the same optimum, but for 1e-6 if the loss is squared
    for C in (1e8, 1e10):
        result = train(X, y, loss=loss, C=C, bias=1.0, tol=1e-3)
        assert result.converged and result.passes <= 2
        assert exact.dual * (1 - 1e-6) <= result.certificate["primal"] <= exact.primal * (1 + 1e-3)
        assert result.certificate["dual"] <= exact.primal * (1 + 1e-9)


@pytest.mark.parametrize("tol", [1e-2, 1e-5])
@pytest.mark.parametrize("C", [100.0, 1e4])
def test_steps_in_memory_go_on_until_the_gap_is_closed(C, tol):
    """The gap of a smooth loss is larger than what the next step still gains."""
    X, y = overlapping(2000, 20)
    result, problem = train(X + 5, y, loss="squared_hinge", C=C, tol=tol), binary(X + 5, y, loss="squared_hinge", C=C)
    w = result.model.coef_[0]
    assert result.converged and result.passes == 1
    assert problem.gap(w, 2 * C * np.maximum(1 - problem.A @ w, 0)) <= tol


@pytest.mark.slow
def test_short_passes_are_given_more_of_them(monkeypatch):
    """Of many columns a pass is one step: gaps that stay for 8 of these are no sign that the steps lead nowhere."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((400, 40))
    y = np.where(X @ rng.standard_normal(40) + 0.3 * np.sqrt(40) * rng.standard_normal(400) > 0, 1, -1)
    problem = binary(X, y, C=100.0)
    monkeypatch.setattr(steps, "MOST_STEPS_WORK", 1.0)
    result = train(X, y, C=100.0, tol=1e-4)
    check_certificate(result, problem, solve(problem, "hinge"), result.model.coef_[0], 1e-4)
    assert result.passes <= 100


@pytest.mark.parametrize("loss, most", [("hinge", 30), ("squared_hinge", 6), ("logistic", 6)])
def test_each_read_is_its_own_certificate(loss, most):
    X, y = overlapping(2000, 20)
    result, source = in_blocks(X, y, loss=loss, tol=1e-3 if loss == "hinge" else 1e-6)
    assert result.converged and result.passes <= most
    assert set(source.reads.values()) == {result.passes}
    certified = [event["pass"] for event in result.history if event["event"] == "certificate"]
    assert certified == list(range(2, result.passes + 1))  # the first pass takes a sample to start from


@pytest.mark.parametrize("loss", ["hinge", slow("logistic")])
def test_stopped_after_any_pass_in_memory_it_goes_on_with_the_same_bits(loss, monkeypatch, tmp_path):
    monkeypatch.setattr(steps, "MOST_STEPS_WORK", 1.0)  # one step a pass
    X, y = overlapping(2000, 10)
    y = np.where(X[:, 0] > 1, 2, y)
    check_every_pass(partial(train, X, y, loss=loss, C=100.0, bias=1.0), tmp_path)


def stages_of_passes(monkeypatch):
    """The stage that each pass ended in, from here on."""
    stages, phase = [], PHASES["pass"]

    def noted(course):
        stage = course.progress.stage
        share = phase.end(course)
        stages.extend([stage] if share is None else [])
        return share

    monkeypatch.setitem(PHASES, "pass", replace(phase, end=noted))
    return stages


@pytest.mark.parametrize("rows", [300, 700])
@pytest.mark.parametrize("most, left, way", [
    (1e3, 0.0, ["ascent"]), (4.0, 0.0, ["ascent", "steps"]), (4.0, 1e9, ["ascent", "steps"]),
])  # fmt: skip
@pytest.mark.parametrize("loss, classes", [("hinge", 2), ("hinge", 3)])
def test_ascent_starts_it_where_columns_are_many(rows, most, left, way, loss, classes, monkeypatch, tmp_path):
    """Until it took as long as steps, or is known to take longer; without a sample not before some passes."""
    for name in ("TAKEN", "TAKEN_WITH_SAMPLE"):
        monkeypatch.setattr(newton, name, most)
    monkeypatch.setattr(newton, "CHEAP_STEP_COLUMNS", 19)
    monkeypatch.setattr(ascent, "passes_left", lambda *given: left)
    phases = stages_of_passes(monkeypatch)
    X, y = overlapping(rows, 20)
    y = np.where((X[:, 0] > 1) & (classes == 3), 2, y)
    options = {"loss": loss, "tol": 1e-4, "bias": 1.0, "passes": 5000}
    whole = train(X, y, **options)
    assert whole.converged and list(dict.fromkeys(phases)) == way
    assert phases.count("ascent") >= (newton.FIRST_ASCENT_PASSES if rows == 300 else 1)
    for passes in {phases.index(phase) + more for phase in way[1:] for more in (0, 1)} - {whole.passes}:
        there = {"checkpoint": str(tmp_path / str(passes)), **options}
        train(X, y, **(there | {"passes": passes}))
        other = train(X, y, **there)
        assert other.passes == whole.passes and other.model.coef_.tobytes() == whole.model.coef_.tobytes()
    [last] = [event for event in whole.history if event["event"] == "certificate"][-1:]
    figures_of = last["per_class"] if classes == 3 else [last]
    for figures, positive in zip(figures_of, np.unique(y)[-len(figures_of) :], strict=True):
        known = train(X, np.where(y == positive, 1, -1), solver="asdca", **options).certificate
        assert known.dual <= figures["primal"] * (1 + 1e-9) <= known.primal * (1 + 2e-4)
        assert figures["dual"] <= known.primal * (1 + 1e-9)


@pytest.mark.slow
def test_a_class_that_ascent_has_certified_is_counted_with_its_weights(monkeypatch):
    monkeypatch.setattr(newton, "CHEAP_STEP_COLUMNS", 19)
    monkeypatch.setattr(newton, "newton_is_cheaper", lambda problem, watch, number, estimate: number >= 100)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3600, 20)).astype(np.float32)
    y = (X @ rng.standard_normal((20, 3)) / 4 + 0.3 * rng.standard_normal((3600, 3))).argmax(axis=1)
    easy = rng.random(3600) < 0.3
    X[:, 0] += np.where(easy, 8, -8)
    y[easy] = 3
    result = train(X, y, bias=1.0, loss="hinge", multiclass="ovr")
    certificates = [event for event in result.history if event["event"] == "certificate"]
    done = {event["pass"]: sum(figures["gap"] <= TOL for figures in event["per_class"]) for event in certificates}
    assert any(number < 100 and 0 < count < 4 for number, count in done.items()), done
    assert result.passes > 100 and done[result.passes] == 4
    assert result.certificate.mistakes == np.count_nonzero(result.model.predict(X) != y)


def test_smooth_losses_are_not_stuck_while_the_objective_falls():
    """Separable rows at a large C: until it is near, nothing else does."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((5000, 250))
    y = np.sign(X @ rng.standard_normal(250))
    result = train(X, y, loss="squared_hinge", C=1e4, bias=5.0, tol=1e-3)
    assert result.converged and result.passes < 200
    known = train(X, y, solver="active-set", C=np.inf, bias=5.0, tol=1e-3).certificate
    assert 0.9 * known.primal <= result.certificate.primal <= known.primal


@pytest.mark.slow
def test_ascent_leaves_the_steps_some_of_the_passes():
    """As many passes as steps cost are more than 1000 here: ascent with momentum alone came to 4e-3 in these."""
    rng = np.random.default_rng(3)
    X = rng.poisson(0.3, (1600, 1200)).astype(np.float32)
    scores = X @ rng.standard_normal(1200)
    y = np.where(scores - np.median(scores) + scores.std() * rng.standard_normal(1600) > 0, 1, -1)
    result = sm.train((X, y), C=100.0, tol=1e-4)
    assert result.model.header["solver"] == "newton" and result.converged
    assert result.passes <= newton.MOST_ASCENT_PASSES + 100


def test_a_gap_that_stands_while_the_softness_falls_is_not_stuck():
    """Half of the rows are zeros, whose labels the constant cannot tell apart; the others are separable: C = 1e8."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 300))
    y = np.where(X[:, 0] + rng.standard_normal(1000) > 0, 1, -1)
    X[::2] = 0.0
    result = train(X, y, C=1e8, bias=1.0, tol=1e-3)
    assert result.converged and result.passes < 100
    fewer = min(np.count_nonzero(y[::2] == label) for label in (-1, 1))
    assert result.certificate.primal == pytest.approx(2e8 * fewer, rel=1e-3)


@pytest.mark.parametrize("options, part", [
    ({"C": np.inf}, "finite C"), ({"penalty": "lp:1.5"}, "p = 2"), ({"loss": "exponential"}, "exponential|Exponential"),
])  # fmt: skip
def test_what_it_does_not_serve_is_refused(options, part):
    with pytest.raises(UsageError, match=part):
        train(*overlapping(20, 3), **options)


def test_a_matrix_that_the_budget_has_no_room_for_is_refused():
    rng = np.random.default_rng(0)
    X, y = as_form(rng.standard_normal((20, 3000)) * (rng.random((20, 3000)) < 0.01), "csr"), np.tile([1, -1], 10)
    with pytest.raises(UsageError, match="use memory="):
        train(X, y, memory="32M")


def test_threads_get_copies_of_no_more_sums_than_a_training_can_come_to():
    """A read of ten classes would sum up ten matrices, but no read makes a step if rows are in memory."""
    X = np.random.default_rng(0).standard_normal((4000, 100)).astype(np.float32)
    result = train(X, np.arange(4000) % 10, multiclass="ovr", C=1e-3, memory="4M", passes=1)
    assert result.history[0]["plan"]["most_threads"] == 16


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_directions_of_wide_rows_by_products_save_matrices(form, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((1200, 240)), rng.choice([-1, 1], 1200)
    problem, work, primal = binary(X, y, C=100.0), [], []
    for most in (subproblem.MOST_GRADIENT_PRODUCTS, 0):
        monkeypatch.setattr(subproblem, "MOST_GRADIENT_PRODUCTS", most)
        result = train(as_form(X, form), y, C=100.0, tol=1e-3)
        assert result.converged
        assert result.certificate.primal == pytest.approx(problem.primal(result.model.coef_[0]), rel=1e-10)
        primal.append(result.certificate.primal)
        work.append(next(event["multiplications"] for event in result.history[::-1] if "multiplications" in event))
        assert result.certificate.dual <= min(primal) * (1 + 1e-9)
    assert primal[0] == pytest.approx(primal[1], rel=1e-3) and work[0] < 0.9 * work[1]
