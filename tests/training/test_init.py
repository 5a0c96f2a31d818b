"""A training that begins from an earlier model ends where one that begins from 0 does, and sooner."""

import logging
import math
from functools import partial

import h5py
import numpy as np
import pytest
from conftest import slow, write_h5
from reference.datasets import as_form, noisy
from reference.sources import CountingSource
from reference.stopped import bits, until_done

import streammargin as sm
from streammargin.cli.main import main
from streammargin.model.linear import LinearModel
from streammargin.solvers.registry import SOLVER_CLASSES, make_solver
from streammargin.sources.hdf5.columns import write_names
from streammargin.sources.open import open_source
from streammargin.training.fitting import keeps_weights
from streammargin.training.setup import Target
from streammargin.training.start import start_of

RANDOM = np.random.default_rng(5)
ROWS, COLUMNS = 240, 8
X = RANDOM.standard_normal((ROWS, COLUMNS)) * np.geomspace(0.3, 3.0, COLUMNS) + 0.5
SCORES = X @ RANDOM.standard_normal((COLUMNS, 3)) + 2.0 * RANDOM.standard_normal((ROWS, 3))
TWO = np.where(SCORES[:, 0] > np.median(SCORES[:, 0]), 1, -1)
THREE = np.array(["a", "b", "c"])[np.argmax(SCORES, axis=1)]
NUMBERS = SCORES[:, 0] + 40.0


def multiplications(result):
    return max(event["multiplications"] for event in result.history if event.get("multiplications"))


def worth(result):
    return result.certificate.primal


# the same optimum

PROBLEMS = {
    "newton, hinge": (TWO, {"solver": "newton"}),
    "newton, smooth": (TWO, {"solver": "newton", "loss": "logistic"}),
    "newton, three classes": (THREE, {"solver": "newton", "loss": "squared_hinge"}),
    "newton, a constant that is free": (TWO, {"solver": "newton", "bias": "free"}),
    "newton, columns dropped": (THREE, {"solver": "newton", "penalty": "l1", "loss": "logistic"}),
    "newton, a kink in loss and penalty": (TWO, {"solver": "newton", "penalty": "elasticnet:0.5"}),
    "newton, numbers": (NUMBERS, {"solver": "newton", "loss": "huber:1"}),
    "pdprox, hinge": (TWO, {"solver": "pdprox"}),
    "pdprox, three classes": (THREE, {"solver": "pdprox", "loss": "logistic", "multiclass": "ovr"}),
    "pdprox, a constant that is free": (TWO, {"solver": "pdprox", "bias": "free", "loss": "smooth_hinge:0.5"}),
    "pdprox, steps on columns": (TWO, {"solver": "pdprox", "penalty": "l1"}),
    "pdprox, steps on columns, smooth": (THREE, {"solver": "pdprox", "penalty": "l1", "loss": "squared_hinge"}),
    "pdprox, weights in a ball": (TWO, {"solver": "pdprox", "penalty": "l2:radius=0.2"}),
    "pdprox, weights in a box": (TWO, {"solver": "pdprox", "penalty": "l1:low=-0.1,high=0.1"}),
    "pdprox, numbers": (NUMBERS, {"solver": "pdprox", "loss": "squared_error"}),
    "pdprox, the largest losses": (TWO, {"solver": "pdprox", "loss": "hinge:top=40"}),
    "ascent, hinge": (TWO, {"solver": "ascent"}),
    "ascent, smooth": (TWO, {"solver": "ascent", "loss": "logistic"}),
    "ascent, three classes": (THREE, {"solver": "ascent", "loss": "squared_hinge", "multiclass": "ovr"}),
    "ascent, all scores at once": (THREE, {"solver": "ascent", "loss": "logistic"}),
    "ascent, a corner of all scores": (THREE, {"solver": "ascent", "loss": "hinge", "multiclass": "joint", "C": 0.01}),
    "ascent, numbers": (NUMBERS, {"solver": "ascent", "loss": "huber:1"}),
    "sdca, another norm": (TWO, {"solver": "sdca", "loss": "logistic", "penalty": "lp:1.5"}),
    "asdca, hinge": (TWO, {"solver": "asdca"}),
    "asdca, another norm": (TWO, {"solver": "asdca", "loss": "squared_hinge", "penalty": "lp:1.7"}),
    "pdprox, as in the paper": (TWO, {"solver": "pdprox:primal", "loss": "squared_hinge", "C": 0.01}),
}
CASES = [slow(case) if "paper" in case else case for case in PROBLEMS]  # a gradient step a pass takes long


@pytest.mark.parametrize("case", CASES)
def test_it_ends_where_a_start_at_0_does(case):
    y, options = PROBLEMS[case]
    options = {"tol": 1e-6, "passes": 20_000, "scale": "std", **options}
    tight = {**options, "tol": 1e-7 if "paper" in case else 1e-8}
    cold = sm.train(X, y, **tight)
    assert cold.converged
    fewer = slice(0, None, 2)
    starts = {
        "of half of the rows": sm.train(X[fewer], y[fewer], **options).model,
        "of another C": sm.train(X, y, **{**options, "C": 0.05}).model,
        "of nobody": LinearModel(
            RANDOM.standard_normal(cold.model.coef_.shape), np.zeros(len(cold.model.coef_)), cold.model.classes_, {}
        ),
    }
    for name, start in starts.items():
        warm = sm.train(X, y, init=start, **options)
        assert warm.converged and warm.certificate.gap <= 1e-6, name
        assert worth(cold) * (1.0 - 1e-7) <= worth(warm) <= worth(cold) * (1.0 + 1.1e-6), name


@pytest.mark.parametrize("case", CASES)
def test_from_the_optimum_it_takes_no_more_work(case):
    y, options = PROBLEMS[case]
    options = {"tol": 1e-4, "passes": 20_000, "scale": "std", **options}
    cold = sm.train(X, y, **options)
    tight = {**options, "tol": 1e-7 if "paper" in case else 1e-8}
    warm = sm.train(X, y, init=sm.train(X, y, **tight).model, **options)
    assert warm.converged and warm.passes <= cold.passes and multiplications(warm) <= multiplications(cold)
    if options.get("loss") in ("logistic", "squared_hinge", "squared_error", "huber:1") and "paper" not in case:
        assert warm.passes == 1  # the duals are those of the margins, so the first read proves it


# another C, new rows: fewer passes

FEWER = {  # the share of the passes, or of the multiplications in memory, that is left
    "newton": ({"solver": "newton", "loss": "logistic"}, multiplications, 0.8),
    "pdprox": ({"solver": "pdprox", "loss": "logistic", "passes": 20_000}, lambda result: result.passes, 0.5),
    "ascent": ({"solver": "ascent", "loss": "logistic"}, lambda result: result.passes, 0.5),
    "ascent, corner": ({"solver": "ascent", "C": 0.01}, lambda result: result.passes, 0.8),
    "active-set": ({"solver": "active-set", "C": math.inf}, lambda result: result.passes, 0.6),
}


def apart(rows=X):
    """Two classes (rows, y) with a margin between them, on the two sides of a plane through 0."""
    normal = np.linspace(-1.0, 1.0, rows.shape[1])
    y = np.where(rows @ normal > 0.0, 1, -1)
    return rows + 0.3 * y[:, None] * normal, y


@pytest.mark.parametrize("name", list(FEWER))
def test_another_C_and_new_rows_take_fewer_passes(name):
    options, work, most = FEWER[name]
    options = {"tol": 1e-3, "C": 0.1, **options}
    rows = np.random.default_rng(1).standard_normal((6000, 60)) + 0.1
    y = np.where(rows[:, 0] + np.random.default_rng(2).standard_normal(6000) > 0.0, 1, -1)
    if options["C"] == math.inf:
        rows, y = apart(rows)
    cold, tight = sm.train(rows, y, **options), sm.train(rows, y, **{**options, "tol": 1e-7})
    another = sm.train(rows, y, solver="newton", loss="logistic", C=min(0.05, options["C"])).model
    for start in (another, sm.train(rows[300:], y[300:], **options).model):
        warm = sm.train(rows, y, init=start, **options)
        assert warm.converged and work(warm) <= most * work(cold)
        assert worth(tight) * (1.0 - 1e-6) <= worth(warm) <= worth(tight) * (1.0 + 2.1e-3)


@pytest.mark.parametrize("loss, most", [("logistic", 0.5), ("hinge", 0.8)])
def test_ascent_on_all_scores_at_once_takes_fewer_passes(loss, most):
    random = np.random.default_rng(1)
    rows = random.standard_normal((6000, 60)) + 0.1
    y = (rows[:, 0] + random.standard_normal(6000) > 0.0) + 2 * (rows[:, 1] > 0.3)
    options = {"solver": "ascent", "loss": loss, "multiclass": "joint", "C": 0.1 if loss == "logistic" else 0.01}
    cold = sm.train(rows, y, **options)
    another = sm.train(rows, y, **{**options, "C": options["C"] / 2.0}).model
    for start in (another, sm.train(rows[300:], y[300:], **options).model):
        warm = sm.train(rows, y, init=start, **options)
        assert warm.converged and warm.passes <= most * cold.passes
        assert abs(worth(warm) - worth(cold)) <= 1.1e-3 * worth(cold)


# at C = inf


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("several", [False, True])
def test_the_largest_margin_is_that_of_a_start_at_0(form, several):
    rows, y = apart()
    if several:
        y = y + (rows[:, 2] > 0.0)
        rows = np.column_stack([rows, 3.0 * (y[:, None] == np.unique(y))])
    rows, options = as_form(rows, form, np.float64), {"solver": "active-set", "multiclass": "ovr", "tol": 1e-6}
    cold = sm.train(rows, y, **options)
    best = cold.model.coef_
    for w in (best, 1e3 * best, RANDOM.standard_normal(best.shape), np.zeros(best.shape)):
        start = LinearModel(w, np.zeros(len(w)), cold.model.classes_, {})
        warm = sm.train(rows, y, init=start, **options)
        assert warm.certificate.margin_lower == pytest.approx(cold.certificate.margin_lower, rel=1e-6)
        np.testing.assert_allclose(warm.model.coef_, best, rtol=1e-3, atol=1e-4)  # 1e3 times the weights, too


# what is converted


@pytest.mark.parametrize("scale", ["none", "maxabs", "std"])
@pytest.mark.parametrize("bias", [1.0, 0.0, 3.0, "free"])
@pytest.mark.parametrize("form, dtype", [("dense", np.float64), ("csr", np.float64), slow("csr", np.float32)])
@pytest.mark.parametrize("y", [TWO, THREE, NUMBERS], ids=["two", "three", "numbers"])
def test_scale_constant_and_signs_are_those_of_the_weights(scale, bias, form, dtype, y):
    # pdprox certifies the weights that it begins from: only the optimum itself is proven by the first pass
    of_loss = {"loss": "squared_error"} if y is NUMBERS else {"loss": "logistic", "multiclass": "ovr"}
    options = {"solver": "pdprox", **of_loss, "scale": scale, "bias": bias, "C": 0.1, "passes": 50_000}
    rows = as_form(X, form, dtype)
    model = sm.train(rows, y, tol=1e-6, **options).model
    warm = sm.train(rows, y, tol=1e-4, init=model, **options)
    assert warm.converged and warm.passes == 1
    np.testing.assert_allclose(warm.model.coef_, model.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(warm.model.intercept_, model.intercept_, rtol=1e-9, atol=1e-9)


def test_the_first_figures_are_those_of_the_model():
    model = LinearModel(RANDOM.standard_normal((1, COLUMNS)), np.array([0.7]), np.array([-1, 1]), {})
    warm = sm.train(X, TWO, solver="pdprox", C=0.5, bias=2.0, init=model, passes=1)
    w, b = model.coef_[0], 0.7
    expected = 0.5 * (w @ w + (b / 2.0) ** 2) + 0.5 * np.maximum(0.0, 1.0 - TWO * (X @ w + b)).sum()
    [first] = [event for event in warm.history if event["event"] == "certificate"]
    assert first["primal"] == pytest.approx(expected, rel=1e-12)


def test_each_C_begins_from_it():
    options = {"solver": "pdprox", "loss": "logistic", "multiclass": "ovr", "valid": (X, THREE), "passes": 20_000}
    alone = sm.train(X, THREE, solver="newton", loss="logistic", multiclass="ovr", C=0.1, tol=1e-9).model
    warm = sm.train(X, THREE, C=[0.05, 0.1], init=alone, **{**options, "passes": 1})
    first, second = [event for event in warm.history if event["event"] == "certificate"]
    assert second["gap"] <= 1e-6 < first["gap"]
    both = sm.train(X, THREE, C=[0.05, 0.1], init=alone, **options)
    assert both.converged and both.passes > 1


@pytest.mark.parametrize("solver", ["newton", "pdprox"])
@pytest.mark.parametrize(
    "penalty, nearest",
    [
        ("l2:radius=0.3", lambda line: line * min(1.0, 0.3 / np.linalg.norm(line))),
        ("l2:low=-0.1,high=0.2", lambda line: np.clip(line, -0.1, 0.2)),
    ],
)
def test_each_of_several_outputs_begins_inside_its_domain(penalty, nearest, solver, monkeypatch):
    y, options = SCORES[:, :2], {"loss": "l2_error", "bias": 0}
    start = sm.train((X, y), C=10.0, **options).model
    cls, begun = type(make_solver(solver)), []
    for each in {type(stage.solver) for stage in make_solver(solver).stages().values()} | {cls}:
        if hasattr(each, "begin_at"):
            before = each.begin_at
            monkeypatch.setattr(
                each, "begin_at", lambda self, p, s, w, before=before: begun.append(w.copy()) or before(self, p, s, w)
            )
    options |= {"penalty": penalty, "solver": solver, "tol": 1e-5, "passes": 3000}
    found, plain = sm.train((X, y), init=start, **options), sm.train((X, y), **options)
    expected = np.array([nearest(line) for line in start.coef_])
    assert np.abs(expected - start.coef_).max() > 0.05
    np.testing.assert_allclose(begun[0][:, :COLUMNS], expected, rtol=1e-9, atol=1e-12)
    assert found.converged and worth(found) == pytest.approx(worth(plain), rel=2e-5)


def test_a_column_that_scaling_makes_0_is_of_no_account():
    rows = np.column_stack([X, np.full(ROWS, 4.0)])
    model = LinearModel(np.ones((1, COLUMNS + 1)), np.array([-3.0]), np.array([-1, 1]), {})
    warm = sm.train(rows, TWO, scale="std", solver="newton", init=model, loss="logistic", tol=1e-8)
    cold = sm.train(rows, TWO, scale="std", solver="newton", loss="logistic", tol=1e-8)
    np.testing.assert_allclose(warm.model.coef_, cold.model.coef_, atol=1e-3)


# classes


def target_of(labels, rest=None):
    classes = np.array(labels)
    positive = np.array([1]) if len(labels) == 2 or rest is not None else np.arange(len(labels))
    return Target(classes, positive, rest)


def lines(model_classes, wanted, header=None, rest=None):
    """Weights of the first column by problem; those of the model are 1 for one output, else 1, 10, 100."""
    outputs = 1 if len(model_classes) == 2 else len(model_classes)
    weights = 10.0 ** np.arange(outputs)[:, None]
    model = LinearModel(weights, -weights[:, 0], np.array(model_classes), header or {})
    with open_source((np.ones((2, 1)), np.array([0, 1]))) as source:
        point = start_of(model, source, target_of(wanted, rest), None, 1 << 30, 0)
    np.testing.assert_array_equal(point.w[:, 1], -point.w[:, 0])
    return point.w[:, 0].tolist()


@pytest.mark.parametrize("known, wanted, expected", [
    (["a", "b"], ["a", "b"], [1.0]),
    (["b", "a"], ["a", "b"], [-1.0]),  # the positive class is the other one
    ([1, 2], ["1", "2"], [1.0]),  # numbers and text
    ([0.0, 1.0], [0, 1], [1.0]),
    (["a", "b", "c"], ["a", "b", "c"], [1.0, 10.0, 100.0]),
    (["c", "a", "b"], ["a", "b", "c"], [10.0, 100.0, 1.0]),
    (["a", "b", "c"], ["b", "c", "d"], [10.0, 100.0, 0.0]),  # d begins at 0
    (["a", "b"], ["a", "b", "c"], [-1.0, 1.0, 0.0]),  # the first of two is minus the second against the rest
    (["a", "b", "c"], ["a", "c"], [49.5]),  # half the difference
    (["a", "b", "c"], ["c", "d"], [-100.0]),
    (["a", "b", "c"], ["B", "b"], [10.0]),
    (["a", "b"], ["b", "c"], [-1.0]),
])  # fmt: skip
def test_classes_are_matched_by_label(known, wanted, expected):
    assert lines(known, wanted) == expected


@pytest.mark.parametrize("known, header, wanted, rest, expected", [
    (["not b", "b"], {"positive": "b"}, ["a", "b", "c"], None, [0.0, 1.0, 0.0]),
    (["not b", "b"], {"positive": "b"}, ["a", "b"], None, [1.0]),
    (["not b", "b"], {"positive": "b"}, ["b", "c"], None, [-1.0]),
    (["not b", "b"], {"positive": "b"}, ["not b", "b"], "b", [1.0]),
    (["a", "b", "c"], {}, ["not c", "c"], "c", [100.0]),
    (["a", "b"], {}, ["not a", "a"], "a", [-1.0]),
])  # fmt: skip
def test_one_class_against_the_rest(known, header, wanted, rest, expected):
    assert lines(known, wanted, header, rest) == expected


def test_a_class_that_is_new_is_named_and_learned(caplog):
    two = THREE != "c"
    start = sm.train(X[two], THREE[two], solver="newton").model
    with caplog.at_level(logging.WARNING):
        warm = sm.train(X, THREE, solver="newton", init=start, tol=1e-7)
    assert "the model of init lacks c of the classes of X: they begin at 0" in caplog.text
    assert worth(warm) == pytest.approx(worth(sm.train(X, THREE, solver="newton", tol=1e-7)), rel=1e-6)


# columns

NAMES = [f"c{j}" for j in range(COLUMNS)]


def named(path, X, y, names):
    write_h5(path, X, y)
    with h5py.File(path, "a") as file:
        write_names(file, np.array(names, object))
    return str(path)


def test_columns_are_matched_by_name(tmp_path, caplog):
    options = {"solver": "pdprox", "loss": "logistic", "scale": "std", "passes": 20_000}
    start = sm.train(named(tmp_path / "one.h5", X, TWO, NAMES), tol=1e-7, **options)
    start.model.save(tmp_path / "m.npz")
    order = RANDOM.permutation(COLUMNS)
    other = named(tmp_path / "two.h5", X[:, order], TWO, [NAMES[j] for j in order])
    with caplog.at_level(logging.WARNING):
        warm = sm.train(other, init=tmp_path / "m.npz", tol=1e-5, **options)
    assert warm.passes == 1 and warm.converged and not caplog.records


def test_columns_that_one_side_lacks_are_said(tmp_path, caplog):
    model = LinearModel(
        np.arange(1.0, COLUMNS + 1)[None], np.array([0.5]), np.array([-1, 1]), {}, np.array([*NAMES[:-1], "x"], object)
    )
    rows = named(tmp_path / "rows.h5", X, TWO, NAMES)
    with caplog.at_level(logging.INFO):
        warm = sm.train(rows, init=model, solver="pdprox", loss="logistic", passes=1)
    assert f"the weights begin at those of the model of init for {COLUMNS - 1} columns of " in caplog.text
    assert "lacks 1 column of the model of init (x): left out; if a column was only renamed, rename it" in caplog.text
    assert "the model of init lacks 1 column of " in caplog.text and f"({NAMES[-1]}): they begin at 0" in caplog.text
    w = np.append(np.arange(1.0, COLUMNS), [0.0, 0.5])
    margins = TWO * (np.column_stack([X, np.ones(ROWS)]) @ w)
    [first] = [event for event in warm.history if event["event"] == "certificate"]
    assert first["primal"] == pytest.approx(0.5 * w @ w + np.logaddexp(0.0, -margins).sum(), rel=1e-12)


# who takes it


def test_solvers_that_keep_weights_take_it_and_the_others_name_them():
    start = sm.train(X, TWO, solver="newton").model
    able = [name for name in list(SOLVER_CLASSES)[1:] if keeps_weights(make_solver(name))]
    assert sorted(able) == ["active-set", "ascent", "newton", "pdprox"]
    for name in list(SOLVER_CLASSES)[1:]:
        if name in able:
            assert sm.train(*(apart() if name == "active-set" else (X, TWO)), solver=name, init=start).converged
        else:
            said = (
                "cannot begin from weights; ascent, newton, pdprox can, for a finite C, and active-set for C = inf: "
                "name one with solver, or leave"
            )
            with pytest.raises(sm.UsageError, match=f"^{name} {said}"):
                sm.train(X, TWO, solver=name, init=start)


def test_auto_takes_a_solver_that_can_or_says_who_could():
    start = sm.train(X, TWO, solver="newton").model
    for options, taken in (({}, "newton"), ({"penalty": "l1"}, "newton"), ({"penalty": "linf"}, "newton")):
        warm = sm.train(X, TWO, init=start, **options)
        assert warm.converged and warm.model.header["solver"].startswith(taken)
    assert sm.train(*apart(), init=start, C=math.inf).model.header["solver"].startswith("active-set")
    for options, said in (
        ({"C": math.inf, "penalty": "lp:1.5"}, "asdca cannot begin from weights at C = inf; give a finite C, or leave"),
        (
            {"C": math.inf, "solver": "sdca"},
            "sdca cannot begin from weights at C = inf; give .*, or use solver=.active",
        ),
        ({"solver": "ascent:order=uniform"}, "with rows drawn with replacement; use solver=.ascent., or leave"),
        ({"solver": "sdca", "penalty": "elasticnet:0.5"}, "under penalty=.elasticnet.*; use solver=.pdprox., or leave"),
    ):
        with pytest.raises(sm.UsageError, match=said):
            sm.train(*apart(), init=start, **options)
    wide, y = noisy(rows=40, features=4000)
    zeros = LinearModel(np.zeros((1, 4000)), np.zeros(1), np.array([-1, 1]), {})
    for rows, options, taken in (
        (wide, {}, "ascent"), (as_form(wide, "csr", np.float32), {}, "ascent"),
        (wide, {"penalty": "elasticnet:0.5"}, "pdprox"), (wide, {"penalty": "lp:1.5"}, "ascent"),
    ):  # fmt: skip
        warm = sm.train(rows, y, init=zeros, passes=20_000, **options)
        assert warm.converged and warm.model.header["solver"].startswith(taken)


# out of core, and stopped


def rows_of_a_file(folder, rows=24_000, columns=20):
    random = np.random.default_rng(1)
    data = random.standard_normal((rows, columns))
    y = np.where(data @ random.standard_normal(columns) + 3.0 * random.standard_normal(rows) > 0.0, 1, -1)
    return write_h5(folder / "rows.h5", data, y), data, y


@pytest.mark.parametrize("memory", ["15M", "15.5M"], ids=["without room for rows", "rows near the margin are kept"])
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("solver", ["newton", "pdprox", "ascent"])
def test_out_of_core(solver, loss, memory, tmp_path):
    path, data, y = rows_of_a_file(tmp_path)
    options = {"solver": solver, "loss": loss, "C": 0.01, "passes": 5000}
    start = sm.train(data, y, **{**options, "solver": "newton"}, tol=1e-6).model
    cold = sm.train(path, memory=memory, **options)
    warm = sm.train(path, memory=memory, init=start, **options)
    assert warm.history[0]["plan"]["blocks"] > 1 and warm.converged
    if (solver, loss) != ("pdprox", "hinge"):  # there the duals, which no weights tell, take as many
        assert warm.passes < cold.passes
    assert abs(worth(warm) - worth(cold)) <= 1.1e-3 * worth(cold)


def test_the_weights_are_in_the_memory_plan(tmp_path):
    path, *_ = rows_of_a_file(tmp_path)
    model = LinearModel(np.zeros((1, 20)), np.zeros(1), np.array([-1, 1]), {})
    options = {"solver": "pdprox", "passes": 1}
    plans = [sm.train(path, init=init, **options).history[0]["plan"]["memory_bytes"] for init in (None, model)]
    assert plans[1] - plans[0] == 3 * 8 * 21


@pytest.mark.parametrize("options", [
    {"solver": "newton"}, {"solver": "newton", "penalty": "l1"}, {"solver": "pdprox"},
    {"solver": "ascent"}, {"solver": "ascent", "loss": "logistic"}, {"solver": "asdca", "loss": "squared_hinge"},
    {"solver": "pdprox", "penalty": "l1", "loss": "logistic", "multiclass": "ovr"},
], ids=lambda options: "-".join(options.values()))  # fmt: skip
@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
def test_stopped_anywhere_it_ends_in_the_same_bits(options, y, tmp_path):
    model = sm.train(X[::2], y[::2], solver="newton", loss="logistic").model
    options = {"scale": "maxabs", "tol": 1e-3, "passes": 600, "init": model, **options}
    source = CountingSource(X, y, bounds=range(0, ROWS + 1, 60))
    result, starts = until_done(partial(sm.train, source, checkpoint=str(tmp_path), **options), 8)
    unknown = "never_predicted", "rarely_predicted"  # null if a signal came in its read
    assert starts > 1 and bits(result, *unknown) == bits(sm.train(source, **options), *unknown)


def test_stopped_anywhere_the_largest_margin_has_the_same_bits(tmp_path):
    rows, y = apart()
    options = {"C": math.inf, "tol": 1e-6, "init": sm.train(rows[::9], y[::9], solver="newton").model}
    source = CountingSource(rows, y, bounds=range(0, ROWS + 1, 60))
    result, starts = until_done(partial(sm.train, source, checkpoint=str(tmp_path), **options), 7)
    assert starts > 1 and result.converged and bits(result) == bits(sm.train(source, **options))


def test_a_checkpoint_is_of_one_model(tmp_path):
    start = sm.train(X, TWO, solver="newton", C=0.1).model
    other = sm.train(X, TWO, solver="newton", C=0.2).model
    options = {"solver": "pdprox", "tol": 1e-9, "should_stop": lambda: "signal"}
    for first, second, error, text in (
        (start, other, sm.DataError, "the model of init has other first weights than those of the unfinished"),
        (start, None, sm.UsageError, "with a model to begin from; name it with init, delete"),
        (None, start, sm.UsageError, "without a model to begin from; leave out init, delete"),
    ):
        folder = str(tmp_path / f"{first is None}{second is None}")
        sm.train(X, TWO, checkpoint=folder, init=first, **options)
        with pytest.raises(error, match=text):
            sm.train(X, TWO, checkpoint=folder, init=second, **options)
        sm.train(X, TWO, checkpoint=folder, init=first, **options)


# what is refused


@pytest.mark.parametrize("model, options, error, text", [
    (lambda: LinearModel(np.ones((1, 3)), np.zeros(1), np.array([-1, 1]), {}), {}, sm.DataError,
     "was trained on 3 columns but .* has 8; give init a model of as many"),
    (lambda: sm.train(X, NUMBERS, loss="squared_error").model, {}, sm.UsageError,
     "predicts numbers, but this training is for classes; give init another model"),
    (lambda: sm.train(X, TWO).model, {"loss": "squared_error"}, sm.UsageError,
     "predicts classes, but this training is for numbers"),
    (lambda: sm.train(X, THREE).model, {}, sm.DataError, "has no class of .*, but a, b, c; give init a model of its"),
    (lambda: LinearModel(np.full((1, COLUMNS), 1e300), np.zeros(1), np.array([-1, 1]), {}), {}, sm.DataError,
     "the largest weight of the model of init, 1e[+]300, is too far from 0 to begin from"),
    (lambda: LinearModel(np.full((1, COLUMNS), np.nan), np.zeros(1), np.array([-1, 1]), {}), {}, sm.DataError,
     "the largest weight of the model of init, nan, is too far from 0"),
    (lambda: 3, {}, sm.UsageError, "init must be a model or the path of its file, not 3"),
    (lambda: sm.train(X, TWO).model, {"C": "path:4", "valid": (X, TWO)}, sm.UsageError,
     "a path over C begins at the weights 0; give values of C, or leave out init"),
    (lambda: sm.train(X, TWO).model, {"loss": "interpolate"}, sm.UsageError, "init does not apply to .*interpolate"),
])  # fmt: skip
def test_a_model_that_does_not_fit_is_refused_in_a_sentence(model, options, error, text):
    with pytest.raises(error, match=text) as raised:
        sm.train(X, TWO, solver=options.pop("solver", "auto"), init=model(), **options)
    assert "\n" not in str(raised.value)


def test_other_names_of_columns_altogether(tmp_path):
    model = LinearModel(np.ones((1, 2)), np.zeros(1), np.array([-1, 1]), {}, np.array(["x", "y"], object))
    with pytest.raises(sm.DataError, match=r"has no column of the model of init \(x, y\); give init a model of its"):
        sm.train(named(tmp_path / "rows.h5", X, TWO, NAMES), init=model)


def test_the_command_reads_the_file_and_never_writes_it(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows, model = write_h5(tmp_path / "rows.h5", X, TWO), tmp_path / "rows.model.npz"
    assert main(["train", rows, "--solver", "newton", "-q"]) == 0
    held = model.read_bytes()
    for arguments in (["--force"], ["--force", "-o", str(model)], ["--force", "--log-json", str(model), "-o", "new"],
                      ["-o", "new", "--force", "--checkpoint", str(model)]):  # fmt: skip
        assert main(["train", rows, "--init", str(model), *arguments]) == 2
        assert "is an input as well" in capsys.readouterr().err and model.read_bytes() == held
    assert main(["train", rows, "--init", str(model), "-o", "new.npz", "-q"]) == 0
    assert main(["train", rows, "--init", "none.npz", "-o", "newer.npz"]) == 66
    assert "none.npz: no such model file" in capsys.readouterr().err
    assert main(["train", rows, "--init", rows, "-o", "newer.npz"]) == 65
    assert "is not a model" in capsys.readouterr().err
    assert main(["train", rows, "--init", str(model), "--solver", "pegasos", "-o", "newer.npz"]) == 2
    said = capsys.readouterr().err
    assert "name one with --solver, or leave out --init" in said and not (tmp_path / "newer.npz").exists()
