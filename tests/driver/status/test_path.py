"""A path over C: each value is solved as if it were the only one, and a stopped path resumes."""

import numpy as np
import pytest
from reference.datasets import noisy
from reference.sources import CountingSource
from reference.stopped import bits, stop_after

import streammargin as sm
from streammargin.driver.save.slots import SLOTS, read_slot, write_slot
from streammargin.driver.status.clock import Clock

X, Y = noisy(120)
NUMBERS = X @ np.arange(X.shape[1]) + Y + 3.0
Y = np.where(X[:, 0] > 0.8, 1, Y)  # one class is rarer
ROWS, VALID = (X[30:], Y[30:]), (X[:30], Y[:30])
GROUPS = np.arange(X.shape[1]) // 2


def train(count=5, **options):
    given = {"penalty": "l1", "tol": 1e-5, "passes": 5000, "valid": VALID, **options}
    ends = "".join(f",{name}={given.pop(name)}" for name in ("low", "high") if name in given)
    return sm.train(given.pop("rows", ROWS), C=f"path:{count}{ends}", **given)


@pytest.mark.parametrize("options", [
    {"loss": "logistic", "high": 3.0}, {"penalty": "elasticnet:0.7", "class_weight": "balanced"},
    {"penalty": sm.penalties.Group(GROUPS, 0.5), "scale": "std"},
    {"rows": (X, np.arange(120) % 3), "valid": (X[:30], np.arange(30) % 3)},
    {"rows": (X[30:], NUMBERS[30:]), "valid": (X[:30], NUMBERS[:30]), "loss": "squared_error"},
    {"rows": (X[30:], NUMBERS[30:]), "valid": (X[:30], NUMBERS[:30]), "loss": "absolute_error", "high": 10.0},
])  # fmt: skip
@pytest.mark.parametrize("solver", ["pdprox", "newton"])
def test_every_value_is_solved_as_if_it_stood_alone(solver, options):
    options = dict(options)
    result = train(solver=solver, **options)
    table = result.run_end["trials"]
    assert result.converged and result.model.header["solver"] == solver and len(table) == 5
    assert result.passes < 500  # steps on columns, from the weights of the value before
    assert np.allclose(np.diff(np.log([one["C"] for one in table]), n=2), 0.0)
    assert table[-1]["C"] == pytest.approx(options.pop("high", 1000.0 * table[0]["C"]))
    rows = options.pop("rows", ROWS)
    alone = {"penalty": "l1", "tol": 1e-6, "passes": 5000, "solver": "pdprox", **options, "valid": None}
    for one in table[::2]:
        best = sm.train(rows, **{**alone, "C": one["C"]})
        assert one["gap"] <= 1e-5 and one["primal"] == pytest.approx(best.certificate.primal, rel=2e-5)
    assert table[0]["nonzeros"] == 0 and table[0]["passes"] == 1 and max(one["nonzeros"] for one in table) > 0
    beyond = sm.train(rows, **{**alone, "C": 1.05 * table[0]["C"]})
    if options.get("loss") in ("logistic", "squared_error"):  # if the first value is exactly the last with w = 0
        assert beyond.model.coef_.any()
    errors = [one["valid_error"] for one in table]
    chosen = table[int(np.argmin(errors))]
    assert result.model.header["C"] == chosen["C"] == result.run_end["C"]
    assert np.count_nonzero(result.model.coef_) == chosen["nonzeros"]
    assert result.certificate.valid_error == min(errors) and result.certificate.primal == chosen["primal"]


@pytest.mark.parametrize("options", [
    {"penalty": "lp", "solver": "pdprox"}, {"penalty": sm.penalties.Exclusive(GROUPS)},
    {"penalty": "l2", "rows": (X[30:], NUMBERS[30:]), "valid": (X[:30], NUMBERS[:30]), "loss": "absolute_error"},
    {"penalty": "l1"}, {"penalty": "lp", "solver": "auto"},
])  # fmt: skip
def test_a_path_with_both_ends_needs_no_value_where_w_is_0(options):
    result = train(3, low=0.01, high=1.0, **options)
    table = result.run_end["trials"]
    assert result.converged and [one["C"] for one in table] == pytest.approx([0.01, 0.1, 1.0], rel=1e-12)
    given = {"penalty": "l1", "tol": 1e-6, "passes": 5000, "solver": "pdprox", **options, "valid": None}
    rows = given.pop("rows", ROWS)
    for one in table:
        best = sm.train(rows, C=one["C"], **given).certificate.primal
        assert one["gap"] <= 1e-5 and one["primal"] == pytest.approx(best, rel=2e-5)


def test_the_error_of_numbers_is_their_mean_loss():
    held_out = (X[:30], NUMBERS[:30])
    result = train(3, rows=(X[30:], NUMBERS[30:]), valid=held_out, loss="absolute_error")
    assert result.certificate.valid_error == pytest.approx(result.model.evaluate(held_out)["mean_absolute_error"])
    assert all(one["train_error"] is None for one in result.run_end["trials"])


@pytest.mark.parametrize("options", [
    {}, {"rows": (X[30:], NUMBERS[30:]), "valid": (X[:30], NUMBERS[:30]), "loss": "squared_error", "low": 0.01,
        "high": 9.0},
])  # fmt: skip
def test_a_path_that_is_stopped_again_and_again_ends_in_the_same_bits(tmp_path, options):
    straight, values = train(4, **options), set()
    options = {**options, "checkpoint": str(tmp_path)}
    result = train(4, should_stop=stop_after(1), **options)
    with pytest.raises(sm.UsageError, match=r"an unfinished training with C 'path:4.*', not 'path:5"):
        train(5, **options)
    while result.reason == "signal":
        result = train(4, should_stop=stop_after(5), **options)
        values.add(result.history[-1]["C"])
    assert len(values) > 2 and bits(result) == bits(straight)
    assert bits(train(4, **options)) == bits(straight)  # at once


def test_a_path_cut_short_keeps_the_best_so_far():
    whole = train(5)
    passes = whole.run_end["trials"][2]["passes"]
    between = train(5, passes=passes)
    assert between.reason == "passes" and between.run_end["trials"] == whole.run_end["trials"][:3]
    result = train(5, passes=passes + 1)
    assert result.reason == "passes" and not result.converged and len(result.run_end["trials"]) == 4
    assert result.run_end["trials"][:3] == whole.run_end["trials"][:3]
    assert result.model.header["C"] in [one["C"] for one in whole.run_end["trials"][:4]]


def told_by(caplog):
    return {record.code: record.getMessage() for record in caplog.records}


def test_the_reason_is_that_of_the_value_that_is_kept_and_a_warning_names_the_last_which_is_not_proven(caplog):
    whole = train(5)
    passes, [*_, last] = whole.passes - 1, whole.run_end["trials"]
    result = train(5, passes=passes)
    best = result.model.header["C"]
    assert result.converged and result.certificate.converged and result.certificate.gap <= 1e-5 and best < last["C"]
    assert result.reason == result.run_end["reason"] == result.model.header["reason"] == "tolerance"
    assert result.run_end["unproven"] == [last["C"]] and result.run_end["trials"][-1]["gap"] > 1e-5
    told = told_by(caplog)
    assert list(told) == ["unproven"]
    assert (
        told["unproven"]
        == f"not proven: C = {last['C']:g}; the model is that of C = {best:g}, which is proven; raise passes"
    )
    assert whole.run_end["unproven"] == []


def test_a_path_cut_short_names_the_value_that_is_not_proven(caplog):
    trials = train(5).run_end["trials"]
    result = train(5, passes=trials[2]["passes"] + 1)
    best = result.model.header["C"]
    assert not result.converged and result.reason == "passes" and best in [one["C"] for one in trials[:3]]
    assert result.run_end["unproven"] == [trials[3]["C"]]
    assert told_by(caplog)["not_converged"].startswith(
        f"not proven: C = {trials[3]['C']:g}; the model is that of C = {best:g}"
    )


def test_a_last_value_that_the_clock_ends_leaves_the_training_resumable(tmp_path, monkeypatch):
    last, ended = train(5).run_end["trials"][-1]["C"], []
    options = {"checkpoint": str(tmp_path), "listeners": [lambda event: ended.append(event.get("C") == last)]}
    monkeypatch.setattr(Clock, "up", lambda self, afterwards: afterwards is not None and any(ended))
    result = train(5, **options)
    assert result.converged and result.reason == "tolerance" and result.limit == "seconds" and result.resumable
    monkeypatch.undo()
    assert bits(train(5, checkpoint=str(tmp_path))) == bits(train(5))


@pytest.mark.parametrize("costs", [[0.01, 1e4], [1e4, 0.01]])
def test_of_several_values_the_reason_is_that_of_the_best(costs, caplog):
    valid = X[:30], sm.train(ROWS, C=0.01, tol=1e-6).model.predict(X[:30])
    result = sm.train(ROWS, C=costs, valid=valid, solver="sdca", passes=20, tol=1e-4)
    assert result.run_end["C"] == 0.01 and result.converged and result.reason == "tolerance"
    assert result.run_end["unproven"] == [1e4] and "not proven: C = 10000; the model is" in told_by(caplog)["unproven"]


def test_a_path_that_the_clock_ends_says_which_C_its_model_has(monkeypatch):
    """Where no time is left for held-out rows."""
    looks = []
    monkeypatch.setattr(Clock, "up", lambda self, afterwards: len(looks) > 3)
    result = train(5, tol=0.0, solver="pdprox", listeners=[lambda event: looks.append(event)])
    end, header = result.run_end, result.model.header
    assert end["C"] == header["C"] > 0.0 and result.certificate.primal is not None
    assert [one["C"] for one in end["trials"]] == [header["C"]]
    assert end["trials"][0]["primal"] == result.certificate.primal


def test_one_C_is_a_number():
    assert sm.train(*ROWS, C=0.5).run_end["C"] == 0.5 and sm.train(*ROWS).run_end["C"] == 1.0
    assert sm.train(ROWS, C=np.inf, passes=1).run_end["C"] == np.inf
    assert sm.train(iter([ROWS]), solver="pegasos").run_end["C"] == 1.0


@pytest.mark.parametrize("change", [
    {"number": 4}, {"number": -1}, {"number": 1}, {"best": -1}, {"best": 2}, {"first": 0.0}, {"first": float("nan")},
    {"first": None}, {"table": []}, {"table": [{}, {}]}, {"kind": "unknown"}, {"figures": []}, {"wrong": [1, 2]},
    {"path/coef": np.ones((1, 3))}, {"path/intercept": None},
])  # fmt: skip
def test_a_path_that_was_altered_is_refused(change, tmp_path):
    numbers = set()
    while 2 not in numbers:
        units = stop_after(60)
        assert train(4, should_stop=units, checkpoint=str(tmp_path)).reason == "signal"
        numbers |= {
            read_slot(str(tmp_path / name))[0]["path"]["number"] for name in SLOTS if (tmp_path / name).exists()
        }
    [name] = [name for name in SLOTS if read_slot(str(tmp_path / name))[0]["path"]["number"] == 2][:1]
    plain, arrays = read_slot(str(tmp_path / name))
    for each in SLOTS:
        (tmp_path / each).unlink(missing_ok=True)
    [(key, value)] = change.items()
    if "/" in key:
        arrays = {name: array for name, array in {**arrays, key: value}.items() if array is not None}
    else:
        plain["path"][key] = value
    write_slot(str(tmp_path / name), plain, arrays)
    with pytest.raises(sm.DataError, match="does not fit this training"):
        train(4, checkpoint=str(tmp_path))


def test_a_value_that_a_larger_tolerance_is_met_at_is_not_the_end(tmp_path):
    passes = train(tol=1e-3).run_end["trials"][2]["passes"]
    options = {"passes": passes, "checkpoint": str(tmp_path)}
    assert train(tol=1e-6, **options).reason == "passes"
    result = train(tol=0.5, **options)
    assert result.reason == "passes" and not result.converged and result.passes == passes


@pytest.mark.slow
def test_the_classes_that_are_predicted_are_those_of_the_value_that_is_kept():
    """Out of core they are known by the held-out errors, but only of the last value."""
    classes = np.arange(120) % 3
    rows, valid = (X[30:], classes[30:]), (X[:30], classes[:30])
    result = train(rows=CountingSource(*rows, [0, 20, 50, 90]), valid=CountingSource(*valid, [0, 10, 30]),
                   solver="pdprox", loss="hinge")  # fmt: skip
    errors = [one["valid_error"] for one in result.run_end["trials"]]
    assert int(np.argmin(errors)) < 4 and result.run_end["never_predicted"] == ["1"]
    assert set(result.model.predict(X[:30])) == {0, 2}


@pytest.mark.parametrize("options, told", [
    ({"valid": None}, "several values of C need held-out data in a file; give valid=.FILE.*streammargin-data split"),
    ({"low": 2.0, "high": 1.0}, "a path over C goes up: give a low end below the high one, not path:5,low=2,high=1"),
    ({"high": np.inf}, "the parameter high of path must be a positive finite number, not inf"),
    ({"solver": "active-set", "penalty": "l2"}, "active-set supports C = inf only, but a path has finite values"),
    ({"rows": (X[30:], np.ones(90)), "valid": (X[:30], np.ones(30)), "loss": "squared_error"},
     "w = 0 is optimal at every C "),
    ({"high": 1e-9}, r"w = 0 is optimal up to C = .*; end it at a larger C"), ({"count": 1}, "values of path must be"),
    ({"penalty": "l2", "solver": "pdprox"},
        "w = 0 is optimal at no C > 0 .*; name its ends, as in C=\"path:5,low=0.01,high=10\""),
    ({"penalty": "lp"}, "w = 0 is optimal at no C > 0 .*; name its ends"),
    ({"solver": "sdca", "bias": 0, "penalty": "elasticnet"}, "sdca does not support C=\"path:K\""),
])  # fmt: skip
def test_what_is_no_path_is_told_in_a_sentence(options, told):
    with pytest.raises(sm.UsageError, match=told):
        train(**options)


def test_a_signal_at_the_first_value_leaves_a_model_of_that_value():
    events = []

    def stop():  # in the read of held-out errors: what was certified stays
        return "signal" if events and events[-1].get("phase") == "held-out errors" else None

    valid = CountingSource(*VALID, [0, 10, 20, 30])
    result = train(valid=valid, should_stop=stop, listeners=[events.append])
    assert result.reason == "signal" and not result.converged and result.certificate.gap is not None
    told = [event["C"] for event in events if event["event"] == "certificate"]
    assert told[0] == result.model.header["C"] == result.model.problem["caps"][0]
