"""Learning from an iterator of batches: every row once, in order, and clear words if that cannot be."""

import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import traced
from reference import optimum
from reference import primal as twins
from reference.datasets import noisy, separable
from reference.norms import length
from reference.training import binary

import streammargin as sm
from streammargin.errors import DataError, UsageError
from streammargin.sinks.console import Console
from streammargin.training.stream import streaming_solvers

SOLVERS = ("perceptron", "mirror", "pegasos")
NULL = {"primal", "dual", "gap", "margin_lower", "margin_gap", "mistakes", "train_error", "valid_error", "per_class"}


def cut(X, y, *bounds, weights=None):
    """Batches between these rows, as a generator."""
    for start, stop in itertools.pairwise((0, *bounds, len(y))):
        rows = slice(start, stop)
        yield (X[rows], y[rows]) if weights is None else (X[rows], y[rows], weights[rows])


def endless(batches=None):
    """Separable batches for ever, and how many were asked for."""
    X, y = separable(50, 5)
    for k in itertools.count():
        if batches is not None:
            batches.append(k)
        yield X, y


def test_the_solvers_that_stream():
    assert set(streaming_solvers()) == set(SOLVERS)


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("norm", [2, 1.5])
def test_rows_are_learned_once_and_in_order(norm, average):
    X, y = separable(60, 5)
    A = y[:, None] * X
    largest = max(length(a, norm / (norm - 1)) for a in A)
    expected = {
        "perceptron": twins.perceptron(A, range(60), norm),
        "mirror": twins.mirror_descent(A, range(60), norm, largest),
        "pegasos": twins.pegasos(A, np.full(60, 0.3), range(60), 60),
    }
    for solver, (iterates, multiples) in expected.items():
        if solver == "pegasos" and norm != 2:
            continue
        C = 0.3 if solver == "pegasos" else None
        word = f"{solver}:average" if average else solver
        result = sm.train(iter([(X, y)]), solver=word, penalty=f"lp:{norm}", C=C, bias=0)
        w = iterates[:-1].mean(axis=0) if average else iterates[-1]
        np.testing.assert_allclose(result.model.coef_[0], w, rtol=1e-9, atol=1e-12)
        upper = result.certificate["margin_upper"]
        if solver == "pegasos":
            assert upper is None
        else:
            assert upper == pytest.approx(length(A.T @ multiples, norm / (norm - 1)) / multiples.sum())
        assert result.history[-2]["mistakes"] == sum(a @ w <= 0 for a, w in zip(A, iterates, strict=False))


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_cuts_between_batches_do_not_matter(solver):
    X, y = separable(60, 5)
    X[0] *= 10  # the largest norm comes first: mirror's step is known from the start
    options = {"solver": solver, "bias": 1.0, "classes": [-1, 1], "max_rows": 60}
    whole = sm.train(cut(X, y), **options)
    for bounds in ((1, 2, 31), range(1, 60)):
        parts = sm.train(cut(X, y, *bounds), **options)
        assert parts.model.coef_.tobytes() == whole.model.coef_.tobytes()
        assert parts.model.intercept_.tobytes() == whole.model.intercept_.tobytes()
        assert parts.certificate == whole.certificate


def test_the_step_of_mirror_falls_with_the_largest_norm_so_far():
    X, y = separable(40, 5)
    X[20:] *= 3
    A = y[:, None] * X
    first, second = (max(length(a, 2) for a in rows) for rows in (A[:20], A[20:]))
    theta = np.zeros(5)
    for k, a in enumerate(A):
        theta += max(1 - a @ theta, 0) / (first if k < 20 else second) ** 2 * a
    result = sm.train(cut(X, y, 20), solver="mirror")
    np.testing.assert_allclose(result.model.coef_[0], theta, rtol=1e-10)


@pytest.mark.parametrize("solver", SOLVERS)
def test_forms_and_types_of_batches(solver):
    X, y = separable(60, 5)
    X = X.astype(np.float32).astype(float)
    plain = sm.train(cut(X, y, 20, 40), solver=solver, max_rows=60)
    batches = [
        (np.asfortranarray(X[:20]), y[:20]),
        [sp.csc_array(X[20:40].astype(np.float32)), y[20:40].astype(float)],
        (sp.csr_matrix(X[40:]), y[40:].astype(object)),
    ]
    mixed = sm.train(iter(batches), solver=solver, max_rows=60)
    np.testing.assert_allclose(mixed.model.coef_, plain.model.coef_, rtol=1e-6)
    assert mixed.model.classes_.tolist() == [-1, 1]
    lists = sm.train(iter([(X.tolist(), y.tolist())]), solver=solver)
    np.testing.assert_array_equal(lists.model.coef_, sm.train(cut(X, y), solver=solver).model.coef_)


@pytest.mark.parametrize("solver", SOLVERS)
def test_several_classes_are_one_against_the_rest(solver):
    X, _ = noisy(90, 6)
    y = np.array(["a", "b", "c"])[np.random.default_rng(0).integers(0, 3, 90)]
    result = sm.train(cut(X, y, 30), solver=solver, max_rows=90)
    assert result.model.coef_.shape == (3, 6) and result.model.classes_.tolist() == ["a", "b", "c"]
    for k, label in enumerate("abc"):
        alone = sm.train(cut(X, y, 30), solver=solver, max_rows=90, positive=label)
        assert alone.model.classes_.tolist() == [f"not {label}", label]
        np.testing.assert_array_equal(alone.model.coef_[0], result.model.coef_[k])


def test_weights_of_rows_and_classes_scale_the_steps_of_pegasos():
    X, y = noisy(60, 6)
    weights = np.random.default_rng(0).choice([0.0, 0.5, 2.0], 60)
    result = sm.train(
        cut(X, y, 13, weights=weights), solver="pegasos", C=0.3, class_weight={1: 4.0}, max_rows=60, bias=0
    )  # fmt: skip
    there = weights > 0
    caps = 0.3 * weights * np.where(y > 0, 4.0, 1.0)
    iterates, _ = twins.pegasos(y[there, None] * X[there], caps[there], range(there.sum()), 60)
    np.testing.assert_allclose(result.model.coef_[0], iterates[-1], rtol=1e-9)


def test_pegasos_turns_C_into_steps_by_max_rows_or_the_first_batch():
    X, y = noisy(60, 6)
    A = y[:, None] * X
    for options, horizon in (({}, 20), ({"max_rows": 45}, 45)):
        result = sm.train(cut(X, y, 20), solver="pegasos", C=0.2, bias=0, **options)
        iterates, _ = twins.pegasos(A, np.full(60, 0.2), range(options.get("max_rows", 60)), horizon)
        np.testing.assert_allclose(result.model.coef_[0], iterates[-1], rtol=1e-9)


def test_a_long_stream_of_the_same_rows_comes_near_the_optimum():
    X, y = noisy(60, 6)
    rng = np.random.default_rng(0)
    draws = (rng.permutation(60) for _ in range(2000))
    result = sm.train(((X[i], y[i]) for i in draws), solver="pegasos", C=0.1, bias=0)
    problem = binary(X, y, C=0.1)
    assert problem.primal(result.model.coef_[0]) <= 1.01 * optimum.solve(problem, "hinge").primal


@pytest.mark.parametrize("solver", SOLVERS)
def test_how_a_stream_ends(solver):
    asked = []
    result = sm.train(endless(asked), solver=solver, max_rows=120)
    assert (result.reason, result.converged, result.passes) == ("passes", False, 1)
    assert result.model.header["rows"] == 120 and len(asked) == 3  # the last one was cut
    assert {key for key, value in result.certificate.to_dict().items() if value is None} >= NULL
    assert result.certificate["converged"] is False
    assert (result.certificate["margin_upper"] is None) == (solver == "pegasos")
    assert sm.train(endless(), solver=solver, max_seconds=0.05).reason == "seconds"
    assert sm.train(endless(), solver=solver, should_stop=lambda: "signal").reason == "signal"
    ended = sm.train(itertools.islice(endless(), 2), solver=solver, max_rows=1000, max_seconds=1000)
    assert ended.reason == "passes" and ended.model.header["rows"] == 100


@pytest.mark.parametrize("solver", ["perceptron", "mirror"])
def test_the_bound_of_a_stream_holds(solver):
    X, y = separable(50, 5)
    exact = 1 / length(optimum.solve(binary(X, y, C=np.inf), "hinge").w, 2)
    for rounds in (1, 4, 30):
        upper = sm.train(itertools.islice(endless(), rounds), solver=solver).certificate["margin_upper"]
        assert exact <= upper * (1 + 1e-7)
    assert upper < 1.5 * exact or solver == "perceptron"
    X[3] = 0  # its margin is 0
    assert sm.train(cut(X, y, 20), solver=solver).certificate["margin_upper"] == 0.0


def test_a_model_of_a_stream_is_like_any_other(tmp_path):
    X, y = separable(60, 5)
    events = []
    result = sm.train(cut(X, y, 20, 40), solver="perceptron", bias=2.0, listeners=[events.append, Console(1)])
    assert [e["event"] for e in events] == ["run_start", *["batch"] * 3, "pass_end", "run_end"]
    assert [e["rows"] for e in events[1:-1]] == [20, 40, 60, 60]
    assert [e["event"] for e in result.history] == ["run_start", "pass_end", "run_end"]
    result.model.save(tmp_path / "m.npz")
    saved = sm.load_model(tmp_path / "m.npz")
    np.testing.assert_array_equal(saved.predict(X), result.model.predict(X))
    assert saved.header["solver"] == "perceptron:average=no" and saved.evaluate((X, y))["rows"] == 60


def test_memory_does_not_grow_with_the_stream():
    def peak(batches):
        stream = ((X.copy(), y) for X, y in itertools.islice(endless(), batches))
        with traced() as allocated:
            sm.train(stream, solver="mirror")
        return allocated.peak

    peak(10)
    assert peak(3000) < peak(100) + 300_000  # the rows of 3000 batches are 6 MB


def test_empty_batches_are_passed_over():
    X, y = separable(40, 5)
    plain = sm.train(cut(X, y, 20), solver="mirror")
    holes = sm.train(cut(X, y, 0, 0, 20, 20), solver="mirror")
    np.testing.assert_array_equal(holes.model.coef_, plain.model.coef_)
    for stream in (iter([]), iter([(X[:0], y[:0])])):
        with pytest.raises(DataError, match="before its first row"):
            sm.train(stream, solver="mirror")


def test_a_later_unknown_label_is_named():
    X, _ = separable(40, 5)
    y = np.array(["a", "b"] * 20)
    y[33] = "c"
    with pytest.raises(DataError, match=r"batch 1: row 13 has the label c.*known labels are a, b.*classes=\["):
        sm.train(cut(X, y, 20), solver="perceptron")
    result = sm.train(cut(X, y, 20), solver="perceptron", classes=["c", "b", "a"])
    assert result.model.classes_.tolist() == ["a", "b", "c"]
    with pytest.raises(DataError, match="only the label a; list all labels"):
        sm.train(cut(X, np.sort(y), 10), solver="perceptron")
    sorted_rows = sm.train(cut(X, np.sort(y), 10), solver="perceptron", classes=["a", "b", "c"])
    assert sorted_rows.model.header["rows"] == 40
    with pytest.raises(DataError, match="two"):
        sm.train(cut(X, y, 20), solver="perceptron", classes=["a"])


def spoiled(row, column, value, rows=40):
    X, y = separable(rows, 5)
    X[row, column] = value
    return X, y


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("value, word", [(np.nan, "NaN"), (np.inf, "infinite")])
def test_bad_values_are_found_where_they_are(value, word, form):
    X, y = spoiled(25, 2, value)
    with pytest.raises(DataError, match=f"batch 1: row 5, column 2 is .*{word}"):
        sm.train(((form(a), b) for a, b in cut(X, y, 20)), solver="perceptron")
    rows = sm.train(((form(a), b) for a, b in cut(X, y, 20)), solver="perceptron", max_rows=25).model.header["rows"]
    assert rows == 25  # what is cut off was never looked at


def test_bad_batches_are_named():
    X, y = separable(40, 5)
    for batches, message in (
        ([(X, y), (X[:, :4], y)], "batch 1 has 4 columns but those before it had 5"),
        ([(X, y), (X, y[:-1])], r"y has shape \(39,\) but batch 1 has 40 rows"),
        ([(X, None)], "batch 0 has no labels"),
        ([(X, y), (X, y, np.full(40, -1.0))], "batch 1: the sample weight of row 0"),
        ([(X, y), (X, np.where(np.arange(40) == 7, np.nan, y))], "batch 1: the label of row 7 is NaN"),
        ([(X[0], y)], "batch 0 has 1 dimension"),
    ):
        with pytest.raises(DataError, match=message):
            sm.train(iter(batches), solver="perceptron")
    for batch in (X, (X,), (X, y, y, y), 5, "ab"):
        with pytest.raises((UsageError, DataError), match=r"batch 1.*\(X, y\)|batch 1"):
            sm.train(iter([(X, y), batch]), solver="perceptron")


class OddError(Exception):
    pass


def test_errors_of_the_iterator_pass_unchanged():
    error = OddError("mine")

    def broken():
        yield separable(40, 5)
        raise error

    with pytest.raises(OddError) as caught:
        sm.train(broken(), solver="perceptron")
    assert caught.value is error


@pytest.mark.parametrize("options, message", [
    ({"solver": "sdca"}, "perceptron.*streammargin-data convert"),
    ({"scale": "std"}, "scale"),
    ({"class_weight": "balanced"}, "balanced"),
    ({"valid": separable(10, 5)}, "valid"),
    ({"tol": 1e-2}, "tol.*max_rows"),
    ({"passes": 3}, "passes.*max_rows"),
    ({"x": "X"}, "x cannot"),
    ({"y": "y"}, "y cannot"),
    ({"sample_weight": np.ones(40)}, "sample_weight"),
    ({"max_rows": 0}, "max_rows"),
    ({"max_rows": 2.5}, "max_rows"),
    ({"max_seconds": -1}, "max_seconds"),
    ({"multiclass": "joint", "classes": [-1, 1, 2]}, "joint"),
    ({"C": 1.0}, "maximum margin"),
    ({"solver": "pegasos", "C": math.inf}, "perceptron"),
    ({"solver": "pegasos", "C": [1.0, 2.0]}, "held-out|several"),
    ({"solver": "pegasos", "C": "much"}, "C must be"),
    ({"bias": -1.0}, "bias"),
    ({"penalty": "lp:3"}, "the parameter p of lp"),
    ({"solver": "perceptron:decay=linear"}, "perceptron has no parameter 'decay'"),
    ({"positive": 1, "classes": [-1, 1]}, "leave out classes"),
], ids=str)  # fmt: skip
def test_what_a_stream_refuses(options, message):
    with pytest.raises(UsageError, match=message):
        sm.train(iter([separable(40, 5)]), **{"solver": "perceptron", **options})


@pytest.mark.parametrize("scale", [1e-150, 1e150])
@pytest.mark.parametrize("solver", SOLVERS)
def test_extreme_scales(solver, scale):
    X, y = separable(40, 5)
    result = sm.train(cut(X * scale, y, 20), solver=solver)
    assert np.all(np.isfinite(result.model.coef_))
    if solver != "pegasos":
        plain = sm.train(cut(X, y, 20), solver=solver)
        np.testing.assert_array_equal(result.model.predict(X * scale), plain.model.predict(X))
        assert result.certificate["margin_upper"] / scale == pytest.approx(plain.certificate["margin_upper"])


def test_batches_of_frames_have_names():
    pd = pytest.importorskip("pandas")
    X, y = separable(60, 3)
    frame = pd.DataFrame(X, columns=list("abc"))
    model = sm.train(cut(frame, y, 20, 40), solver="perceptron").model
    assert model.feature_names_in_.tolist() == list("abc")
    assert model.predict(frame[["c", "a", "b"]]).tolist() == model.predict(frame).tolist()
    with pytest.raises(DataError, match="batch 1 has its columns in another order than those before it: column 0 is c"):
        sm.train([(frame, y), (frame[["c", "a", "b"]], y)], solver="perceptron")
    assert sm.train([(frame, y), (X, y)], solver="perceptron").model.feature_names_in_.tolist() == list("abc")
