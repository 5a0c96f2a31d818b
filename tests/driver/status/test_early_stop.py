"""The pass with the smallest held-out error is kept, and several passes without a smaller one end the training."""

import itertools
import json
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import write_h5
from reference.datasets import noisy
from reference.stopped import bits, until_done

import streammargin as sm
from streammargin.cli.main import main
from streammargin.driver.status import clock
from streammargin.solvers.registry import make_solver

IDENTIFIED = 2  # rows without files, trained on and held out, are read once before a training goes on
RANDOM = np.random.default_rng(3)
ROWS, COLUMNS = 160, 40
X = RANDOM.standard_normal((ROWS + 60, COLUMNS))
SCORES = X @ RANDOM.standard_normal((COLUMNS, 3))
TWO = np.where(SCORES[:, 0] + 6.0 * RANDOM.standard_normal(len(X)) > 0.0, 1, -1)
THREE = np.argmax(SCORES + 4.0 * RANDOM.standard_normal(SCORES.shape), axis=1)
NUMBERS = SCORES[:, 0] + 6.0 * RANDOM.standard_normal(len(X))


def parts(y):
    """Rows to train on, and held-out ones."""
    return (X[:ROWS], y[:ROWS]), (X[ROWS:], y[ROWS:])


def errors_of(result):
    return [event["valid_error"] for event in result.history if event["event"] == "pass_end"]


def stopped_after(number, data, **options):
    """The weights after so many passes, of a training that keeps nothing."""
    seen = []

    def listen(event):
        seen.extend([event] if event["event"] == "pass_end" else [])

    result = sm.train(
        data, listeners=[listen], should_stop=lambda: "signal" if len(seen) == number else None, **options
    )
    assert result.reason == "signal" and result.passes == number
    return result.model


def chosen(errors, patience):
    """(the pass that is kept, the passes that are made), by the rule as it is written down."""
    best = 0
    for number, error in enumerate(errors):
        if error < errors[best]:
            best = number
        if number - best == patience:
            return best + 1, number + 1
    return best + 1, len(errors)


def mean_absolute(model, held_out):
    return float(np.mean(np.abs(held_out[1] - model.predict(held_out[0]))))


def mean_quantile(model, held_out):
    """Of the quantile 0.3."""
    above = held_out[1] - model.predict(held_out[0])
    return float(np.mean(np.maximum(0.3 * above, -0.7 * above)))


def share_wrong(model, held_out):
    return float(np.mean(model.predict(held_out[0]) != held_out[1]))


CASES = {
    "two classes": (TWO, {"solver": "sdca", "C": 1.0}),
    "without duals": (TWO, {"solver": "pegasos", "C": 1.0}),
    "an average": (TWO, {"solver": "pegasos:average", "C": 1.0}),
    "passes that are certificates": (TWO, {"solver": "prox-newton", "C": 1.0, "loss": "logistic"}),
    "three classes": (THREE, {"solver": "sdca", "C": 0.3}),
    "a scale and a budget of columns": (TWO, {"solver": "asdca", "C": 1.0, "scale": "std", "penalty": "lp:1.5"}),
    "a hard margin": (TWO, {"solver": "perceptron"}),
    "a hard margin by whole passes": (TWO, {"solver": "diagonal"}),
    "three classes of one margin": (THREE, {"solver": "dual-momentum", "multiclass": "joint"}),
    "numbers": (NUMBERS, {"solver": "sdca", "C": 1.0, "loss": "absolute_error"}),
    "numbers with a free constant": (NUMBERS, {"solver": "pdprox", "C": 1.0, "loss": "quantile:0.3", "penalty": "l1"}),
}


@pytest.mark.parametrize("case", CASES)
def test_it_keeps_the_pass_that_a_twin_finds_which_trains_anew_for_every_pass(case):
    y, options = CASES[case]
    data, held_out = parts(y)
    options = {"tol": 0.0, **options}
    judge = {"absolute_error": mean_absolute, "quantile:0.3": mean_quantile}.get(options.get("loss"), share_wrong)
    result = sm.train(data, valid=held_out, early_stop=3, passes=40, **options)
    assert result.reason == "early_stop" and not result.converged
    models = [stopped_after(number + 1, data, **options) for number in range(result.passes)]
    errors = [judge(model, held_out) for model in models]
    np.testing.assert_allclose(errors_of(result), errors, rtol=1e-12)
    best, made = chosen(errors, 3)
    assert (result.run_end["pass"], result.passes) == (best, made)
    np.testing.assert_array_equal(result.model.coef_, models[best - 1].coef_)
    np.testing.assert_array_equal(result.model.intercept_, models[best - 1].intercept_)
    np.testing.assert_allclose([result.certificate.valid_error, judge(result.model, held_out)], errors[best - 1])


def test_the_earliest_of_equal_errors_is_kept():
    data, held_out = parts(TWO)
    result = sm.train(data, valid=held_out, early_stop=4, solver="gd", passes=40, tol=0.0)
    errors = errors_of(result)
    assert errors.count(min(errors)) > 1 and result.run_end["pass"] == 1 + int(np.argmin(errors))


@pytest.mark.parametrize("C", [[1e-4, 1.0, 30.0], "path:4"])
def test_each_C_counts_for_itself(C):
    data, held_out = parts(TWO)
    options = {"valid": held_out, "early_stop": 6, "passes": 200, "tol": 1e-3}
    solver = {"solver": "sdca", "bias": 0.0}
    if isinstance(C, str):  # no value ends by its tolerance before it ends early
        solver, options["tol"] = {"solver": "pdprox", "penalty": "l1"}, 0.0
    result = sm.train(data, C=C, **options, **solver)
    assert result.reason == "early_stop"
    trials = result.run_end["trials"]
    best = min(range(len(trials)), key=lambda k: (trials[k]["valid_error"], trials[k]["C"]))
    assert (result.run_end["C"], result.run_end["pass"]) == (trials[best]["C"], trials[best]["pass"])
    assert result.certificate.valid_error == share_wrong(result.model, held_out) == trials[best]["valid_error"]
    assert result.converged == (result.certificate.gap <= options["tol"])
    if not isinstance(C, str):
        alone = [sm.train(data, C=one, **options, **solver) for one in C]
        assert {one.reason for one in alone} == {"tolerance", "early_stop"}
        assert [one["pass"] for one in trials] == [one.run_end["pass"] for one in alone]
        assert [one["valid_error"] for one in trials] == [one.run_end["valid_error"] for one in alone]
        assert result.passes == max(one.passes for one in alone)


def test_a_C_that_has_converged_is_counted_no_more():
    data, held_out = parts(TWO)
    options = {"valid": held_out, "early_stop": 2, "tol": 1e-2, "solver": "pdprox", "loss": "logistic", "penalty": "l1"}
    results = [sm.train(data, C=C, **options) for C in ([1e-4, 1.0], 1e-4, 1.0)]
    assert [one.passes for one in results] == [3, 1, 3]
    assert {one.reason for one in results} == {"tolerance"}


def objective(model, C):
    """Of the hinge, in NumPy, for each class against the rest."""
    signs = np.where(THREE[:ROWS, None] == np.arange(3), 1.0, -1.0)
    weights = np.column_stack([model.coef_, model.intercept_])
    margins = signs * (X[:ROWS] @ model.coef_.T + model.intercept_)
    return 0.5 * np.sum(weights**2, axis=1) + C * np.maximum(0.0, 1.0 - margins).sum(axis=0), margins


@pytest.mark.parametrize("solver", ["sdca", "prox-newton"])
def test_the_certificate_is_that_of_the_weights_kept_by_the_best_bound_of_the_run(solver):
    data, held_out = parts(THREE)
    options = {"loss": "hinge", "solver": solver, "C": 1.0, "bias": 1.0}
    result = sm.train(data, valid=held_out, early_stop=3, tol=1e-7, **options)
    figures, (primal, margins) = result.certificate, objective(result.model, 1.0)
    np.testing.assert_allclose([one["primal"] for one in figures.per_class], primal, rtol=1e-12)
    np.testing.assert_allclose(figures.primal, primal.sum(), rtol=1e-12)
    assert [one["mistakes"] for one in figures.per_class] == np.sum(margins < 0.0, axis=0).tolist()
    assert figures.mistakes == np.count_nonzero(result.model.predict(data[0]) != data[1])
    optimum = sm.train(data, loss="hinge", tol=1e-9, solver="newton", C=1.0, bias=1.0).certificate
    assert all(each["dual"] <= best["primal"] for each, best in zip(figures.per_class, optimum.per_class, strict=True))
    earlier = [event for event in result.history if event["event"] == "certificate"][:-1]
    assert figures.dual >= max(event["dual"] for event in earlier) > -np.inf
    gaps = [(one["primal"] - one["dual"]) / max(one["primal"], abs(one["dual"])) for one in figures.per_class]
    np.testing.assert_allclose(figures.gap, max(gaps), rtol=1e-9)
    assert not result.converged and figures.gap > 1e-7


def test_a_hard_margin_is_that_of_the_weights_kept():
    data, held_out = parts(TWO)
    result = sm.train(data, valid=held_out, early_stop=3, solver="perceptron", tol=1e-9)
    margins = data[1] * result.model.decision_function(data[0]) / np.linalg.norm(result.model.coef_)
    np.testing.assert_allclose(result.certificate.margin_lower, margins.min(), rtol=1e-12)
    assert result.certificate.mistakes == np.count_nonzero(margins < 0.0)


def test_it_has_converged_where_the_weights_kept_are_within_the_tolerance():
    data, held_out = parts(TWO)
    result = sm.train(data, valid=held_out, early_stop=100, solver="newton", C=0.01, tol=0.5)
    assert result.converged == (result.certificate.gap <= 0.5) == (result.reason == "tolerance")
    loose = sm.train(data, valid=held_out, early_stop=100, solver="newton", C=0.01, tol=0.9)
    assert loose.converged and loose.reason == "tolerance"


@pytest.mark.parametrize("C", [1.0, [0.1, 1.0], "path:3,low=0.1,high=1"])
def test_a_pass_that_is_kept_has_no_reason_that_later_weights_earned(C):
    data, held_out = parts(TWO)
    options = {"valid": held_out, "early_stop": 1000, "tol": 1e-4, "solver": "newton"}
    plain = sm.train(data, C=C, **{**options, "early_stop": None})
    result = sm.train(data, C=C, **options)
    assert plain.reason == "tolerance" and result.passes == plain.passes > result.run_end["pass"]
    assert result.certificate.gap > 1e-4 and not result.converged
    assert (result.reason, result.run_end["reason"], result.model.header["reason"]) == ("early_stop",) * 3


def test_nor_are_rows_separated_that_the_pass_kept_does_not_separate():
    data, held_out = parts(TWO)
    data = (data[0][:30], data[1][:30])
    result = sm.train(data, valid=held_out, early_stop=1000, solver="perceptron")
    separated = result.certificate.margin_lower > 0.0
    assert result.run_end["pass"] < result.passes and not separated and result.reason == "early_stop"


@pytest.mark.parametrize("limit", ["passes", "signal"])
def test_other_ends_keep_the_best_pass_too(limit):
    data, held_out = parts(TWO)
    options = {"solver": "sdca", "C": 1.0, "tol": 0.0, "valid": held_out, "early_stop": 30}
    whole = errors_of(sm.train(data, passes=8, **options))
    assert int(np.argmin(whole)) < 7  # that it is not the last
    if limit == "passes":
        result = sm.train(data, passes=8, **options)
        assert result.reason == "passes" and result.certificate.gap < np.inf
        model = result.model
    else:
        model = stopped_after(8, data, **options)
        assert model.header["certificate"]["valid_error"] == min(whole) == share_wrong(model, held_out)
        assert model.header["certificate"]["gap"] is None
    twin = stopped_after(int(np.argmin(whole)) + 1, data, solver="sdca", C=1.0, tol=0.0)
    np.testing.assert_array_equal(model.coef_, twin.coef_)


@pytest.mark.parametrize("each", [0.01, 0.3])
def test_so_does_the_end_of_the_time(monkeypatch, each):
    data, held_out = parts(TWO)
    looks = itertools.count()  # each of them takes so long, by this clock
    monkeypatch.setattr(clock, "time", SimpleNamespace(perf_counter=lambda: each * next(looks)))
    options = {"solver": "sdca", "C": 1.0, "tol": 0.0, "valid": held_out}
    result = sm.train(data, early_stop=10**6, passes=10**6, max_seconds=10.0, **options)
    errors = [error for error in errors_of(result) if error is not None]
    assert result.reason == "seconds" and len(errors) > 2
    assert result.run_end["pass"] == 1 + int(np.argmin(errors))
    assert share_wrong(result.model, held_out) == min(errors)
    assert each * next(looks) <= 10.0 + clock.GRACE + 3 * each


@pytest.mark.parametrize("units", [IDENTIFIED + 1, IDENTIFIED + 3])
@pytest.mark.parametrize("options", [
    {"solver": "sdca", "C": [0.1, 3.0]}, {"solver": "prox-newton", "C": 1.0, "loss": "logistic"},
    {"solver": "pdprox", "penalty": "l1", "C": "path:3"}, {"solver": "diagonal"},
], ids=str)  # fmt: skip
def test_a_training_that_was_stopped_anywhere_goes_on_to_the_same_bits(tmp_path, options, units):
    data, held_out = parts(TWO)
    options = {"valid": held_out, "early_stop": 3, "passes": 60, "tol": 1e-4, **options}
    straight = sm.train(data, checkpoint=str(tmp_path / "straight"), **options)
    phases = set()
    options["listeners"] = [lambda event: phases.add(event.get("phase"))]
    result, _ = until_done(partial(sm.train, data, checkpoint=str(tmp_path / "stopped"), **options), units)
    assert phases >= {"held-out errors of the pass", "figures of the best pass"}
    assert bits(result) == bits(straight)


def test_a_training_that_ended_goes_on_for_more_passes(tmp_path):
    data, held_out = parts(TWO)
    options = {"solver": "sdca", "C": 1.0, "valid": held_out, "early_stop": 5, "tol": 1e-6}
    straight = sm.train(data, passes=60, **options)
    sm.train(data, passes=3, checkpoint=str(tmp_path), **options)
    result = sm.train(data, passes=60, checkpoint=str(tmp_path), **options)
    assert (result.reason, result.passes, result.run_end["pass"]) == (
        "early_stop", straight.passes, straight.run_end["pass"],
    )  # fmt: skip
    np.testing.assert_array_equal(result.model.coef_, straight.model.coef_)


@pytest.mark.parametrize("options, text", [
    ({"valid": None}, "held-out data; give `valid=DATA`"), ({"early_stop": 0}, "`early_stop` must be a whole number"),
    ({"bias": "midway", "C": np.inf}, "midway"), ({"loss": "hinge:top=5", "solver": "pdprox"}, "top"),
])  # fmt: skip
def test_what_cannot_be_is_refused(options, text):
    data, held_out = parts(TWO)
    with pytest.raises(sm.UsageError, match="early_stop") as error:
        sm.train(data, **{"valid": held_out, "early_stop": 2, **options})
    assert text in error.value.args[0] or text in str(error.value)


def test_a_stream_is_refused():
    data, _ = parts(TWO)
    with pytest.raises(sm.UsageError, match="early_stop"):
        sm.train(iter([data]), solver="pegasos", early_stop=2)


def test_two_copies_of_the_weights_are_planned():
    data, held_out = noisy(400), noisy(50)
    plans = []
    for early in (None, 2):
        seen = []
        sm.train(data, valid=held_out, early_stop=early, passes=1, solver="sdca", listeners=[seen.append])
        plans.append(next(event for event in seen if event["event"] == "run_start")["plan"]["memory_bytes"])
    assert plans[1] - plans[0] >= 2 * 8 * (data[0].shape[1] + 1)


def test_passes_have_no_error_without_it():
    data, held_out = parts(TWO)
    result = sm.train(data, valid=held_out, passes=2)
    assert set(errors_of(result)) == {None} and result.run_end["pass"] is None


def test_every_solver_takes_it():
    """Weights that are kept are those that predict, whatever the method certifies."""
    data, held_out = parts(TWO)
    for name in ("newton", "active-set", "homotopic", "adaptive", "mirror", "batch-perceptron", "normalized-gd"):
        C = 1.0 if make_solver(name).default_C == 1.0 else np.inf
        result = sm.train(data, solver=name, C=C, valid=held_out, early_stop=2, passes=20, tol=1e-9)
        assert result.certificate.valid_error == share_wrong(result.model, held_out) == min(errors_of(result))


def test_rows_in_blocks_are_scored_and_certified(tmp_path):
    X, y = noisy(20500, 60, seed=2, flips=0.3)
    rows, valid = (
        write_h5(tmp_path / "rows.h5", X[:20000], y[:20000]),
        write_h5(tmp_path / "valid.h5", X[20000:], y[20000:]),
    )
    options = {"valid": valid, "early_stop": 3, "solver": "sdca", "C": 1.0, "tol": 1e-6, "memory": "32M"}
    starts = []
    result = sm.train(rows, listeners=[starts.append], **options)
    assert starts[0]["plan"]["blocks"] > 1
    errors = errors_of(result)
    assert result.reason == "early_stop" and result.run_end["pass"] == 1 + int(np.argmin(errors))
    assert result.certificate.valid_error == min(errors) == share_wrong(result.model, (X[20000:], y[20000:]))
    w = np.append(result.model.coef_[0], result.model.intercept_[0])
    hinge = np.maximum(0.0, 1.0 - y[:20000] * (X[:20000] @ w[:-1] + w[-1])).sum()
    np.testing.assert_allclose(result.certificate.primal, 0.5 * w @ w + hinge, rtol=1e-12)


@pytest.mark.parametrize("more", [["--require-convergence"], []])
def test_the_command_takes_it_and_verify_agrees(tmp_path, capsys, more):
    data, held_out = parts(TWO)
    rows, valid = write_h5(tmp_path / "rows.h5", *data), write_h5(tmp_path / "valid.h5", *held_out)
    log, model = tmp_path / "log", tmp_path / "model.npz"
    command = ["train", rows, "-o", str(model), "--valid", valid, "--early-stop", "3", "--log-json", str(log)]
    code = main([*command, "--solver", "sdca", "--tol", "1e-9", *more])
    said = capsys.readouterr().err
    if more:
        assert code == 2 and "--early-stop" in said and "--require-convergence" in said and not model.exists()
        return
    assert code == 0 and "not converged: stopped" not in said
    *_, certificate, end = [json.loads(line) for line in log.read_text().splitlines()]
    assert end["reason"] == "early_stop" and f"pass {end['pass']} kept" in said
    assert certificate["pass"] == end["pass"] and certificate["valid_error"] == end["valid_error"]
    assert main(["verify", str(model), rows]) == 0
    assert main(["train", rows, "-o", str(tmp_path / "other"), "--early-stop", "3"]) == 2
    assert "give --valid DATA" in capsys.readouterr().err
