"""What a training returns and says."""

import dataclasses
import itertools
import logging
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import write_h5
from reference.datasets import separable
from reference.sources import CountingSource
from sklearn.metrics import log_loss

import streammargin as sm
from streammargin.driver.status import clock
from streammargin.result import remarks
from streammargin.saved.words import left_out


def noisy(classes=2, rows=80):
    rng = np.random.default_rng(0)
    return rng.standard_normal((rows, 4)), rng.integers(0, classes, rows)


def test_the_certificate_is_a_frozen_table_of_figures():
    result = sm.train(*noisy(3))
    certificate = result.certificate
    assert certificate.converged and 0.0 <= certificate.gap <= 1e-3 and certificate.margin_upper is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        certificate.gap = 0.0
    events = [event for event in result.history if event["event"] == "certificate"]
    figures = certificate.to_dict()
    assert certificate["gap"] == certificate.gap and "gap" in certificate and "step" not in certificate
    assert figures == result.model.header["certificate"]
    assert {key: events[-1][key] for key in figures if key != "converged"} == {
        key: figures[key] for key in figures if key != "converged"
    }


def test_a_result_fits_on_a_screen():
    text = repr(sm.train(*noisy(40), passes=200))
    assert len(text) < 1000 and "gap=" in text and "reason=" in text


def test_what_it_is_fits_on_a_line(tmp_path, monkeypatch):
    X, y = noisy(3)
    result = sm.train(X, y)
    certificate, proven = result.certificate, f"gap={result.certificate.gap:.4g}"
    start = f"TrainResult(model='LinearModel', reason='tolerance', converged=True, passes={result.passes}, seconds="
    assert repr(result).startswith(start) and repr(result).endswith(f", {proven})") and "\n" not in repr(result)
    assert (
        repr(result.model) == "LinearModel(features=4, classes=3, loss='logistic', penalty='l2', C=1, converged=True)"
    )
    mistakes = f"mistakes={certificate.mistakes}, train_error={certificate.train_error:.4g}, converged=True)"
    assert repr(certificate).startswith("Certificate(primal=") and repr(certificate).endswith(mistakes)
    assert f", {proven}, " in repr(certificate) and "None" not in repr(certificate)
    hard = sm.train(*separable(20, 3, 0), C=np.inf)
    assert f"margin_gap={hard.certificate.margin_gap:.4g})" in repr(hard) and "C=inf" in repr(hard.model)
    bent, numbers = sm.train(X, y, kernel="rbf").model, sm.train(X, X[:, 0], loss="squared_error").model
    assert repr(bent).startswith("Model(features=4, classes=3, kernel='rbf:") and "classes" not in repr(numbers)
    ratings = sm.complete((np.arange(30) % 5, np.arange(30) % 6, np.arange(30.0))).model
    assert repr(ratings).startswith(f"RatingsModel(rows=5, columns=6, rank={ratings.rank}, loss='absolute_error'")
    monkeypatch.chdir(tmp_path)
    write_h5("a\nb.h5", X, y)
    with sm.open_source("a\nb.h5") as source:
        assert repr(source) == r"DenseHDF5Source(name='a\nb.h5', rows=80, features=4, nnz=320, dtype='float64')"


def test_what_did_not_converge_is_told_as_python_spells_it(caplog):
    with caplog.at_level(logging.WARNING, "streammargin"):
        sm.train(*noisy())
        assert not caplog.records
        sm.train(*noisy(rows=3000), passes=1, tol=1e-9)
    (record,) = caplog.records
    assert (
        "not converged: stopped after 1 pass " in record.getMessage() and "raise passes or tol" in record.getMessage()
    )
    assert "--" not in record.getMessage()


def test_a_signal_is_no_news(caplog):
    result = sm.train(*noisy(), should_stop=lambda: "signal")
    assert result.reason == "signal" and not caplog.records


def several(costs, caplog):
    """The result of several values of C, and the codes and texts of what was warned of."""
    X, y = noisy()
    caplog.clear()
    with caplog.at_level(logging.WARNING, "streammargin"):
        result = sm.train((X[:60], y[:60]), C=costs, valid=(X[60:], y[60:]))
    return result, {record.code: record.getMessage() for record in caplog.records}


def test_of_several_C_each_has_its_figures(caplog):
    costs = [10.0, 0.01, 0.1]
    result, _ = several(costs, caplog)
    exact = [event for event in result.history if event["event"] == "certificate"]
    for C, one in zip(costs, result.run_end["trials"], strict=True):
        last = [event for event in exact if event["C"] == C][-1]
        assert one["C"] == C and 0.0 <= one["gap"] <= 1e-3 and one["gap"] == last["gap"]
        assert one["train_error"] == last["train_error"] and 0.0 <= one["valid_error"] <= 1.0
    best = result.run_end["C"]
    assert min(one["valid_error"] for one in result.run_end["trials"]) == result.certificate.valid_error
    assert sm.train(*noisy()).run_end["trials"] is None and best == result.model.header["C"]


def test_a_best_C_at_the_edge_of_the_grid_is_said_to_be_there(caplog):
    result, _ = several([0.001, 0.01, 0.1, 1.0, 10.0], caplog)
    best = result.run_end["C"]
    errors = {one["C"]: one["valid_error"] for one in result.run_end["trials"]}
    worst = max(errors, key=errors.get)
    assert errors[worst] > errors[best]
    low, told = several(sorted([best, worst]), caplog)
    assert low.run_end["C"] == best
    size = "smallest" if best < worst else "largest"
    assert told["edge"].startswith(f"the best C, {best:g}, is the {size} of those tried")
    inner = sorted([best / 1.0001, best, worst, 1e-7])
    low, told = several(inner, caplog)
    errors, C = {one["C"]: one["valid_error"] for one in low.run_end["trials"]}, low.run_end["C"]
    beside = {inner[0]: inner[1], inner[-1]: inner[-2]}.get(C, C)
    assert ("edge" in told) == (
        errors[beside] > errors[C]
    )  # of equal errors the smallest C is taken, which says little


@pytest.mark.parametrize("options", [{"valid": 0.2}, {"cv": 2}])
def test_no_edge_is_told_where_no_row_is_wrong(options, caplog):
    X = np.random.default_rng(0).normal(size=(60, 3))
    X[:, 0] = np.where(np.arange(60) % 2, 9.0, -9.0)
    result = sm.train((X, X[:, 0] > 0), C=[1.0, 10.0, 100.0], **options)
    assert result.run_end["C"] == 1.0 and "of those tried" not in caplog.text


def test_the_edge_of_a_grid_is_told_by_folds_too(caplog):
    random = np.random.default_rng(0)
    X, w = random.normal(size=(2000, 20)), random.normal(size=20)
    X, y = X * np.logspace(-3, 3, 20), X @ w + 0.2 * random.normal(size=2000) > 0
    found = sm.train((X, y.astype(int)), cv=5, C=[1e-9, 1e-8, 1e-6])
    assert found.cross_validation.best == 2 and np.all(np.diff(found.cross_validation.mean) < -0.02)
    assert caplog.text.count("the best C, 1e-06, is the largest of those tried") == 1


@pytest.mark.parametrize(
    "options, named, spared",
    [
        ({"C": 1e4, "passes": 2, "solver": "sdca"}, ["far from", "use a smaller C", "solver=\"auto\""], []),
        ({"C": 1e4, "passes": 1, "solver": "newton", "tol": 1e-9}, ["use a smaller C"], ["solver="]),
    ],
)  # fmt: skip
def test_the_advice_fits(options, named, spared, caplog):
    with caplog.at_level(logging.WARNING, "streammargin"):
        result = sm.train(*noisy(rows=3000), **options)
    assert not result.converged
    (record,) = caplog.records
    text = record.getMessage()
    assert all(part in text for part in named) and not any(part in text for part in spared), text


def test_a_gap_near_the_tolerance_takes_more_passes_and_no_smaller_C(caplog):
    options = {"C": 100.0, "passes": 3, "solver": "sdca"}
    gap = sm.train(*noisy(), **options, tol=1e-12).certificate.gap
    caplog.clear()
    sm.train(*noisy(), **options, tol=gap / 2)
    text = caplog.records[-1].getMessage()
    assert "near the tolerance" in text and "raise passes" in text and "smaller" not in text


@pytest.mark.parametrize("compiling, hint", [
    (8.0, "run it again, as most seconds went into compiling, which is kept, or raise `max_seconds` or `tol`"),
    (1.0, "use a smaller `C`, raise `max_seconds` or `tol`"),
])  # fmt: skip
def test_seconds_that_went_into_compiling_are_no_reason_for_another_C(compiling, hint):
    result = sm.train(*noisy(rows=3000), C=1e4, passes=2, solver="sdca")
    assert not result.converged
    result = dataclasses.replace(result, reason="seconds", seconds=10.0, better=False)
    result.run_end["compile_seconds"] = compiling
    assert dict(remarks(result))["not_converged"].endswith(hint)


@pytest.mark.parametrize("penalty", ["linf", "exclusive"])
def test_where_passes_are_all_that_is_missing_they_are_named(penalty, caplog):
    X, y = noisy()
    word = sm.penalties.Exclusive([0, 0, 1, 1]) if penalty == "exclusive" else penalty
    sm.train(X, y, penalty=word, C=50.0, passes=3)
    assert "raise passes" in caplog.records[0].getMessage()


def test_a_tolerance_of_0_is_neither_near_nor_far(caplog):
    sm.train(*noisy(), C=1.0, passes=3, solver="sdca", tol=0)
    text = caplog.records[-1].getMessage()
    assert ", and a gap of exactly 0 is rarely reached; " in text and "far" not in text


@pytest.mark.parametrize("solver", ["perceptron", "mirror"])
def test_separated_rows_are_no_proof_of_their_margin(solver, caplog):
    X, y = separable(rows=200, margin=2.0)
    result = sm.train(X, y, solver=solver, tol=0.1, passes=5000)
    assert result.certificate.margin_gap > 0.1 and result.certificate.mistakes == 0
    assert result.reason == "separated" and not result.converged and not result.certificate.converged
    (record,) = caplog.records
    text = record.getMessage()
    assert "the rows are separated" in text and 'solver="auto"' in text and "passes" not in text


def test_separated_goes_on_from_a_checkpoint_as_it_ended(tmp_path):
    X, y = separable(rows=200, margin=0.5)
    options = {"solver": "perceptron", "tol": 1e-3, "checkpoint": str(tmp_path)}
    assert sm.train(X, y, **options).reason == "separated"
    again = sm.train(X, y, **options)
    assert again.reason == "separated" and not again.converged
    proven = sm.train(X, y, **{**options, "tol": 0.999})
    assert proven.reason == "tolerance" and proven.converged


@pytest.mark.parametrize("solver", ["auto", "sdca", "dual-momentum", "newton"])
def test_joint_at_a_finite_C_needs_a_solver_and_a_loss_that_can(solver):
    with pytest.raises(sm.UsageError, match=r"no form for all classes at once|one class against the rest|maximum marg"):
        sm.train(*noisy(3), solver=solver, C=1.0, multiclass="joint", loss="squared_hinge")


def rare(classes, n=400):
    """Rows of 3 columns that say nothing of their classes; the last ones are rare."""
    random = np.random.default_rng(2)
    y = np.minimum(random.integers(0, 40, n), 39 - random.integers(0, 2, n)) // (40 // classes)
    y = np.where(random.random(n) < 0.9, y % 2 if classes > 2 else 0, y)
    return random.standard_normal((n, 3)), np.array([f"class {k}" for k in y])


@pytest.mark.parametrize("form", ["arrays", "float32", "csr", "file", "held out", "share"])
@pytest.mark.parametrize("classes", [2, 8])
def test_classes_that_are_never_predicted_are_named(classes, form, caplog, tmp_path):
    X, y = rare(classes)
    options = {}
    data = (X, y)
    if form in ("file", "held out"):
        data = write_h5(tmp_path / "a.h5", X, y.astype("S"))
        X = X.astype(np.float64)
    if form == "held out":
        options = {"valid": (X[:100], y[:100])}
    elif form == "share":
        options = {"valid": 0.2}
    elif form == "csr":
        data = (sp.csr_matrix(X), y)
    elif form == "float32":
        data = (X.astype(np.float32), y)
    with caplog.at_level(logging.WARNING, "streammargin"):
        result = sm.train(data, C=0.01, **options)
    never = sorted(set(y) - set(result.model.predict(X)))
    assert never and result.run_end["never_predicted"] == never
    (text,) = [record.getMessage() for record in caplog.records if record.code == "never_predicted"]
    count = "1 class" if len(never) == 1 else f"{len(never)} classes"
    assert text == f'never predicted: {count} ({", ".join(never)}); try class_weight="balanced" or a larger C'
    figures = result.model.evaluate((X, y))["per_class"]
    assert [one["label"] for one in figures if not one["predicted"]] == never


def test_rows_out_of_core_are_read_until_each_class_was_predicted(tmp_path, monkeypatch):
    X, y = rare(8, 40_000)
    path = write_h5(tmp_path / "a.h5", np.tile(X, 20), y.astype("S"))
    options = {"loss": "hinge", "C": 1e-6, "solver": "sdca", "memory": "20M", "passes": 2}
    alone = sm.train(path, **options)
    assert alone.history[0]["plan"]["blocks"] > 1
    never = sorted(set(y) - set(alone.model.predict(np.tile(X, 20))))
    assert never and alone.run_end["never_predicted"] == never
    looks = itertools.count()  # each of them takes a hundredth of a second, by this clock
    with monkeypatch.context() as patched:
        patched.setattr(clock, "time", SimpleNamespace(perf_counter=lambda: 0.01 * next(looks)))
        hurried = sm.train(path, **{**options, "passes": 1000}, tol=1e-15, max_seconds=0.5)
    assert hurried.reason == "seconds" and hurried.run_end["never_predicted"] is None
    held = sm.train(path, **options, valid=(np.tile(X[:300], 20), y[:300]))
    assert held.run_end["never_predicted"] == sorted(set(y) - set(held.model.predict(np.tile(X[:300], 20))))


def rated(y, predicted):
    """The classes predicted never, and for less than a tenth of their number."""
    counts = {label: (np.count_nonzero(predicted == label), np.count_nonzero(y == label)) for label in sorted(set(y))}
    return [k for k, (n, _) in counts.items() if not n], [k for k, (n, of) in counts.items() if 0 < 10 * n < of]


@pytest.mark.parametrize("way", ["memory", "blocks", "held out", "held out at the end"])
def test_classes_that_are_rarely_predicted_are_named(way, caplog):
    y = np.array(["far"] * 8 + ["few"] * 5 + ["many"] * 20 + ["alone"])[np.arange(1000) % 34]
    X = 0.3 * np.random.default_rng(1).standard_normal((1000, 2))
    X[y == "far", 0] += 4.0
    X[np.flatnonzero(y == "few")[::20], 1] += 40.0
    options = {"solver": "sdca", "C": 0.01}
    if way.startswith("held out"):
        options |= {"valid": (X[:700], y[:700]), "early_stop": 3 if way.endswith("end") else None}
    data = (X, y) if way == "memory" else CountingSource(X, y, np.linspace(0, 1000, 9).astype(int))
    with caplog.at_level(logging.WARNING, "streammargin"):
        result = sm.train(data, **options)
    rows = slice(700 if "valid" in options else 1000)
    never, rarely = rated(y[rows], result.model.predict(X)[rows])
    assert (never, rarely) == (["alone"], ["few"])
    assert (result.run_end["never_predicted"], result.run_end["rarely_predicted"]) == (never, rarely)
    (text,) = [record.getMessage() for record in caplog.records if record.code == "rarely_predicted"]
    said = "rarely predicted: 1 class (few), less than a tenth as often as in the rows"
    assert text == f'{said}; try class_weight="balanced" or a larger C'


def test_classes_that_are_all_predicted_are_no_news(caplog):
    with caplog.at_level(logging.WARNING, "streammargin"):
        result = sm.train(*noisy(3), class_weight="balanced", tol=1e-6)
    assert result.run_end["never_predicted"] == result.run_end["rarely_predicted"] == [] and not caplog.records


@pytest.mark.parametrize("loss, hint", [("hinge", "`loss=logistic`"), ("logistic", "a larger `C`")])
@pytest.mark.parametrize("held", [{"cv": 3}, {"valid": 0.2}, {"valid": "rows"}])
def test_values_of_c_that_err_alike_are_told(held, loss, hint):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((600, 4)), np.arange(600) % 20 == 0
    held = {"valid": (X[:200], y[:200])} if "rows" in held.values() else held
    found = dict(remarks(sm.train((X, y), C=[0.001, 0.01, 0.1], loss=loss, **held)))
    assert list(found) == ["never_predicted"]
    assert "all values of `C` have the same held-out error, so the smallest is taken" in found["never_predicted"]
    assert found["never_predicted"].endswith(f"try `class_weight=balanced` or {hint}")


@pytest.mark.parametrize("options, said", [
    ({"class_weight": "balanced", "cv": 3, "C": [0.1, 1.0]}, 1), ({"class_weight": "balanced"}, 0),
    ({"class_weight": {0: 2.0}, "valid": 0.2, "C": [0.1, 1.0]}, 1), ({"cv": 3, "C": [0.1, 1.0]}, 0),
])  # fmt: skip
def test_held_out_errors_that_choose_C_without_the_weights_of_classes_are_told(options, said, caplog):
    with caplog.at_level(logging.INFO, "streammargin"):
        sm.train(noisy(), **options)
    assert caplog.text.count("count each row once, without class_weight, and so hardly a rare class") == said


@pytest.mark.parametrize("change, size", [
    ({}, "smallest"), ({"C": 2.0}, "largest"), ({"never_predicted": ["a"]}, None), ({"rarely_predicted": ["a"]}, None),
    ({"C": 2.0, "never_predicted": ["a"]}, "largest"), ({"errors": [0.1, 0.1, 0.2]}, None), ({"empty": True}, None),
    ({"errors": [None] * 3}, None),
])  # fmt: skip
def test_a_smaller_C_is_advised_only_if_it_may_help(change, size):
    result = sm.train(*noisy())
    C = change.get("C", 0.5)
    errors = change.get("errors", [0.1, 0.2, 0.3] if C == 0.5 else [0.3, 0.2, 0.1])
    trials = [{"C": one, "valid_error": error} for one, error in zip([0.5, 1.0, 2.0], errors, strict=True)]
    result.run_end.update({"trials": trials, "C": C}, **{k: v for k, v in change.items() if k.endswith("predicted")})
    if change.get("empty"):
        result.model.coef_ *= 0.0
    told = dict(remarks(result)).get("edge", "")
    assert told.startswith(f"the best C, {C:g}, is the {size} of those tried") if size else not told


@pytest.mark.parametrize("kinds", [2, 3])
@pytest.mark.parametrize(
    "options, worse",
    [
        ({}, True),
        ({"bias": "free"}, False),
        ({"C": 1.0}, False),
        ({"calibrate": "sigmoid", "cv": 3}, False),
        ({"valid": 0.2}, True),
        ({"loss": "hinge"}, False),
    ],
)
def test_probabilities_worse_than_the_shares_of_the_classes_are_told(kinds, options, worse, caplog):
    """A small C with a penalised constant leaves them near 1/2, and folds that count mistakes may choose it."""
    random = np.random.default_rng(0)
    X = random.standard_normal((400, 3))
    y = np.digitize(X[:, 0], [0.7] if kinds == 2 else [-0.6, 0.6])
    result = sm.train((X, y), **{"loss": "logistic", "C": 1e-4, **options})
    kept = left_out(0, 400, 5, 0) == 0 if "valid" in options else slice(None)
    shares = np.bincount(y[kept]) / len(y[kept])
    entropy = -float(shares @ np.log(shares))
    told = [record.getMessage() for record in caplog.records if record.code == "probabilities"]
    assert len(told) == worse and all(f"and {entropy:.4g} for the shares alone; use bias=" in text for text in told)
    known = result.run_end["shares_loss"]
    assert (known is None) == ("calibrate" in options or options.get("loss") == "hinge")
    assert known is None or known == pytest.approx(entropy)
    if worse:
        assert log_loss(y, result.model.predict_proba(X)) > entropy
