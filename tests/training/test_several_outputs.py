"""y (n, K): each column is a problem of its own, and all are trained from the same reads."""

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from conftest import slow, write_h5
from reference.datasets import as_form, noisy
from reference.sources import CountingSource

import streammargin as sm

ROWS = 120
X, _ = noisy(ROWS, 6, seed=5)
RANDOM = np.random.default_rng(7)
Y = X @ RANDOM.standard_normal((6, 3)) + RANDOM.standard_normal((ROWS, 3)) + [0.0, 50.0, -3.0]
B = np.greater(Y, np.median(Y, axis=0) + [0.0, 0.5, -0.5]).astype(int)
TIGHT = {"tol": 1e-6, "passes": 3000}


def weights_of(result):
    return np.column_stack([result.model.coef_, result.model.intercept_])


def alone(y, data=X, **options):
    """The trainings on each column by itself."""
    return [sm.train((data, np.ascontiguousarray(column)), **options) for column in y.T]


@pytest.mark.parametrize("form", ["dense", slow("csr")])
@pytest.mark.parametrize(
    "y, options",
    [
        (Y, {"loss": "squared_error", "solver": "newton"}),
        (Y, {"loss": "absolute_error", "solver": "newton", "penalty": "l1"}),
        (Y, {"loss": "huber:0.7", "solver": "pdprox", "penalty": "elasticnet"}),
        (Y, {"loss": "quantile:0.8", "solver": "pdprox", "C": 0.1}),
        (Y, {"loss": "epsilon_insensitive:0.2", "solver": "newton", "bias": 0}),
        (B, {"loss": "hinge", "solver": "pdprox", "penalty": "l1"}),
        (B, {"loss": "logistic", "solver": "newton", "penalty": "l1"}),
        (B, {"loss": "squared_hinge", "solver": "newton", "class_weight": "balanced"}),
    ],
    ids=lambda each: " ".join(map(str, each.values())) if isinstance(each, dict) else "",
)
def test_each_output_is_its_own_training_to_the_bit(y, options, form):
    """Where sums over the rows keep their order; the passes are those of the output that takes most."""
    rows = as_form(X, form)
    weights = np.arange(ROWS) % 4 / 2.0
    result = sm.train((rows, y), sample_weight=weights, **TIGHT, **options)
    parts = alone(y, rows, sample_weight=weights, **TIGHT, **options)
    assert result.converged and result.passes == max(part.passes for part in parts)
    for line, part, figures in zip(weights_of(result), parts, result.certificate.per_class, strict=True):
        assert np.array_equal(line, weights_of(part)[0])
        assert {**figures} == part.certificate.per_class[0]
    assert result.certificate.primal == sum(part.certificate.primal for part in parts)
    assert result.certificate.gap == max(part.certificate.gap for part in parts)


@pytest.mark.parametrize("y, loss", [(Y, "squared_error"), (B, "hinge"), (B, "logistic")])
@pytest.mark.parametrize("solver", ["ascent", "asdca", "newton"])
def test_certificates_of_row_by_row_methods_agree(y, loss, solver):
    options = {"loss": loss, "solver": solver, "bias": 1.0, "tol": 1e-4, "passes": 3000}
    result = sm.train((X, y), **options)
    assert result.converged
    for figures, part in zip(result.certificate.per_class, alone(y, **options), strict=True):
        assert figures["dual"] <= part.certificate.primal and part.certificate.dual <= figures["primal"]


def test_least_squares_with_a_free_constant_is_the_solution_of_its_equations():
    result = sm.train((X, Y), loss="squared_error", C=0.7, tol=1e-11)
    A, centred = X - X.mean(axis=0), Y - Y.mean(axis=0)
    coef = np.linalg.solve(np.eye(6) / 0.7 + A.T @ A, A.T @ centred).T
    assert result.converged
    for weights, exact, figures in zip(result.model.coef_, coef, result.certificate.per_class, strict=True):
        # the objective has at least the curvature of ||w||^2 / 2; closer weights may have the same float64 objective
        assert np.linalg.norm(weights - exact) <= np.sqrt(2 * (figures["primal"] - figures["dual"])) < 1e-4
    np.testing.assert_allclose(result.model.intercept_, Y.mean(axis=0) - result.model.coef_ @ X.mean(axis=0), rtol=1e-9)


def test_reads_are_shared_and_each_output_stops_by_itself():
    bounds = np.linspace(0, ROWS, 5).astype(int)

    def reads(y):
        source = CountingSource(X, y, bounds)
        result = sm.train(source, loss="absolute_error", penalty="l1", solver="newton", tol=1e-3)
        assert result.converged
        return sum(source.reads.values()), result

    together, result = reads(Y)
    assert together == max(reads(column)[0] for column in Y.T)
    certificates = [event["per_class"] for event in result.history if event["event"] == "certificate"]
    done = [min(figures[k]["gap"] <= 1e-3 for figures in certificates[-1:]) for k in range(3)]
    assert all(done) and len({str(figures[0]) for figures in certificates}) < len(certificates)


def test_shapes_and_names_of_outputs(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(Y, columns=["a", "b b", "c"])
    np.save(tmp_path / "y.npy", Y)
    write_h5(tmp_path / "d.h5", X, Y, outputs=np.array([b"p", b"q", b"r"]))
    write_h5(tmp_path / "x.h5", X)
    path, bare = str(tmp_path / "d.h5"), str(tmp_path / "x.h5")
    expected = None
    for data, y, names in (
        ((X, Y), None, ["y0", "y1", "y2"]),
        ((X, frame), None, ["a", "b b", "c"]),
        ((sp.csr_array(X), np.asfortranarray(Y)), None, ["y0", "y1", "y2"]),
        (path, None, ["p", "q", "r"]),
        (bare, str(tmp_path / "y.npy"), ["y0", "y1", "y2"]),
        (bare, f"{path}:y", ["p", "q", "r"]),
        (bare, Y, ["y0", "y1", "y2"]),
    ):
        model = sm.train(data, y=y, loss="squared_error").model
        assert model.outputs == names and model.coef_.shape == (3, 6) and model.intercept_.shape == (3,)
        expected = model.predict(X) if expected is None else expected
        np.testing.assert_allclose(model.predict(X), expected, rtol=1e-9)
        model.save(tmp_path / "m.npz", force=True)
        again = sm.load_model(tmp_path / "m.npz")
        assert again.outputs == names and np.array_equal(again.predict(X), model.predict(X))
        assert [part["label"] for part in model.top_features(2)] == names
    one = sm.train((X, Y[:, :1]), loss="squared_error").model
    assert one.outputs == ["y0"] and one.coef_.shape == (1, 6) and one.predict(X).shape == (ROWS, 1)
    assert np.array_equal(one.coef_, sm.train((X, Y[:, 0]), loss="squared_error").model.coef_)
    alone = sm.train((X, B[:, :1]), loss="hinge").model
    assert alone.outputs is None and alone.predict(X).shape == (ROWS,)  # a column of classes, as scikit-learn takes it


def test_labels_of_several_columns():
    model = sm.train((X, B.astype(bool)), loss="logistic", tol=1e-4).model
    parts = [part.model for part in alone(B, loss="logistic", tol=1e-4)]
    assert model.classes_.tolist() == [0, 1] and set(np.unique(model.predict(X))) == {0, 1}
    np.testing.assert_array_equal(model.predict(X), np.column_stack([part.predict(X) for part in parts]))
    each = np.column_stack([part.predict_proba(X)[:, 1] for part in parts])
    np.testing.assert_allclose(model.predict_proba(X), each, rtol=1e-6)
    np.testing.assert_array_equal(model.predict(X), model.decision_function(X) > 0.0)


def test_several_C_are_compared_by_held_out_rows():
    for y, loss in ((Y, "huber"), (B, "logistic")):
        options = {"loss": loss, "C": [0.01, 1.0, 100.0], "tol": 1e-5, "passes": 3000}
        result = sm.train((X[::2], y[::2]), valid=(X[1::2], y[1::2]), **options)
        scores = result.model.decision_function(X[1::2])
        if loss == "logistic":
            error = np.mean((scores > 0.0) != y[1::2])
        else:
            u = np.abs(scores - y[1::2])
            error = np.where(u < 1.0, u**2 / 2.0, u - 0.5).sum(axis=1).mean()
        assert result.certificate.valid_error == pytest.approx(error, rel=1e-12)
        assert min(trial["valid_error"] for trial in result.run_end["trials"]) == pytest.approx(error, rel=1e-12)
        best = sm.train((X[::2], y[::2]), **{**options, "C": result.run_end["C"]})
        np.testing.assert_allclose(result.model.coef_, best.model.coef_, rtol=0.1, atol=1e-2)


def test_a_path_a_start_a_scale_and_early_stopping():
    options = {"loss": "squared_error", "penalty": "l1", "tol": 1e-5}
    path = sm.train((X[::2], Y[::2]), valid=(X[1::2], Y[1::2]), C="path:6", **options)
    at = sm.train((X[::2], Y[::2]), C=path.run_end["C"], **options)
    np.testing.assert_allclose(path.model.coef_, at.model.coef_, rtol=1e-2, atol=1e-3)
    begun = sm.train((X, Y), init=sm.train((X, Y), **options).model, **options)
    assert begun.converged and begun.passes <= 2
    model = sm.train((X, B), loss="hinge").model
    model.header["outputs"] = ["y2", "y0", "other"]
    order = sm.train((X, B), loss="hinge", init=model, passes=1, solver="newton", tol=0.5).model
    assert order.outputs == ["y0", "y1", "y2"]
    scaled = sm.train((X * [1, 1, 1, 1, 1, 1e4], Y), scale="std", C=3.0, **options).model
    plain = sm.train((X, Y), scale="std", C=3.0, **options).model
    np.testing.assert_allclose(scaled.predict(X * [1, 1, 1, 1, 1, 1e4]), plain.predict(X), rtol=1e-3, atol=1e-3)
    early = sm.train((X[::2], B[::2]), valid=(X[1::2], B[1::2]), loss="logistic", solver="pdprox", early_stop=3)
    wrong = early.model.predict(X[1::2]) != B[1::2]
    assert early.certificate.valid_error == pytest.approx(wrong.mean())
    mean = sm.train((X, Y), loss="huber", tol="absolute:1e-3").certificate
    assert mean.mean_gap <= 1e-3 and all(part["mean_gap"] <= 1e-3 for part in mean.per_class)


@pytest.mark.parametrize("columns", [1, 3])
def test_the_length_of_residuals_stops_early(columns):
    y = Y[:, :columns]
    early = sm.train((X[::2], y[::2]), valid=(X[1::2], y[1::2]), loss="l2_error", early_stop=1, tol=1e-9, C=10.0)
    lengths = np.linalg.norm(early.model.predict(X[1::2]) - y[1::2], axis=1)
    assert early.reason == "early_stop" and early.certificate.valid_error == pytest.approx(lengths.mean())
    lengths = np.linalg.norm(early.model.predict(X[::2]) - y[::2], axis=1)
    ridge = 0.5 * np.sum(early.model.coef_**2)
    assert early.certificate.primal == pytest.approx(ridge + 10.0 * lengths.sum())
    assert early.certificate.dual <= early.certificate.primal


def test_figures_of_each_output_and_their_means():
    model = sm.train((X, Y), loss="squared_error").model
    figures = model.evaluate((X, Y))
    errors = model.predict(X) - Y
    assert figures["mean_squared_error"] == pytest.approx((errors**2).mean())
    assert figures["largest_error"] == pytest.approx(np.abs(errors).max())
    for k, part in enumerate(figures["per_output"]):
        assert part["output"] == f"y{k}"
        assert part["mean_squared_error"] == pytest.approx((errors[:, k] ** 2).mean())
        assert part["r2"] == pytest.approx(1.0 - (errors[:, k] ** 2).sum() / ((Y[:, k] - Y[:, k].mean()) ** 2).sum())
    labels = sm.train((X, B), loss="logistic").model
    figures, right = labels.evaluate((X, B)), labels.predict(X) == B
    assert figures["accuracy"] == pytest.approx(right.mean()) and figures["mistakes"] == np.sum(~right)
    assert figures["subset_accuracy"] == pytest.approx(right.all(axis=1).mean())
    assert [part["accuracy"] for part in figures["per_output"]] == pytest.approx(right.mean(axis=0).tolist())


def bad(value, row=7, column=1, y=Y):
    changed = y.astype(object if isinstance(value, str) else float)
    changed[row, column] = value
    return changed


@pytest.mark.parametrize(
    "y, options, error, match",
    [
        (bad(np.nan), {"loss": "squared_error"}, sm.DataError, "X: the label y1 of row 7 is nan; drop the row"),
        (bad(np.inf), {"loss": "huber"}, sm.DataError, "X: the label y1 of row 7 is inf"),
        (bad("a"), {"loss": "huber"}, sm.DataError, "needs numbers as labels.* the label y1 of row 7 is 'a'"),
        (Y[:-1], {"loss": "huber"}, sm.DataError, r"y has shape \(119, 3\) but X has 120 rows"),
        (Y[:, :0], {"loss": "huber"}, sm.DataError, "y has no columns; give a label for each row"),
        (Y, {"loss": "interpolate"}, sm.UsageError, "its labels have 3 columns, and interpolation takes one"),
        (Y, {}, sm.DataError, "X: the label y0 of row 0 is .*; labels of several columns are 0 or 1, and for numbers"),
        (2 * B - 1, {}, sm.DataError, "of row .* is -1; labels of several columns are 0 or 1"),
        (bad(np.nan, y=B), {}, sm.DataError, "X: the label y1 of row 7 is nan"),
        (np.full((ROWS, 2), "a"), {}, sm.DataError, "are 0 or 1, and these are not numbers; .* row 0 is 'a'$"),
        (B * [1, 0, 1], {}, sm.DataError, "the label y1 is 0 in every row; training needs both, so drop it"),
        (B, {"positive": 1}, sm.UsageError, "its labels have 3 columns, .*; leave out positive, or name"),
        (B, {"multiclass": "joint"}, sm.UsageError, "leave out multiclass=.joint., or name"),
        (B, {"C": np.inf}, sm.UsageError, "takes one label a row, and these rows have several; give a finite C$"),
        (B, {"solver": "perceptron"}, sm.UsageError, "these rows have several; give a finite C with solver=.newton.$"),
        (Y * [1, 1e60, 1], {"loss": "huber"}, sm.DataError, "the largest of its labels y1, .* is too far from 1"),
        (Y * [1, 1, 1e-3] + [0, 0, 1e6], {"loss": "huber"}, sm.DataError, "its labels y2 are .* too far from 0"),
        (
            np.repeat(Y, 100, axis=1),
            {"loss": "squared_error", "memory": "64K"},
            sm.UsageError,
            "with memory=.* or more",
        ),
    ],
)
def test_what_cannot_be_is_one_sentence(y, options, error, match):
    with pytest.raises(error, match=match):
        sm.train((X, y), **options)


def test_held_out_labels_must_have_the_same_columns(tmp_path):
    with pytest.raises(sm.DataError, match="its labels have one column, but those of X have the columns y0, y1, y2"):
        sm.train((X, Y), loss="huber", valid=(X, Y[:, 0]))
    model = sm.train((X, Y), loss="huber").model
    with pytest.raises(sm.DataError, match="X has 1 column of labels, but the model predicts 3 columns of labels"):
        model.evaluate((X, Y[:, 0]))
    with pytest.raises(sm.UsageError, match="predicts numbers"):
        model.predict_proba(X)
    write_h5(tmp_path / "a.h5", X, Y)
    write_h5(tmp_path / "b.h5", X, Y[:, :2])
    with pytest.raises(sm.DataError, match="write the labels of all shards alike"):
        sm.train([str(tmp_path / "a.h5"), str(tmp_path / "b.h5")], loss="huber")
    text = np.full((ROWS, 2), b"a")
    write_h5(tmp_path / "c.h5", X, text)
    with pytest.raises(sm.DataError, match=r"c\.h5: y has 2 columns of text; labels of several columns are numbers"):
        sm.train(str(tmp_path / "c.h5"))


def test_batches_with_several_labels_are_written_and_joined(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(Y, columns=["a", "b", "c"])
    batches = [(X[:50], frame[:50] > 0), (X[50:], frame[50:])]
    for name, part in (("one.h5", batches), ("two.h5", batches[1:])):
        sm.write_hdf5(part, tmp_path / name)
    with h5py.File(tmp_path / "one.h5") as file:
        np.testing.assert_array_equal(file["y"][:], np.vstack([Y[:50] > 0, Y[50:]]))
        assert file["outputs"].asstr()[:].tolist() == ["a", "b", "c"]
    files = [str(tmp_path / "one.h5"), str(tmp_path / "two.h5")]
    model = sm.train(files, loss="squared_error").model
    both = np.vstack([X, X[50:]]), np.vstack([Y[:50] > 0, Y[50:], Y[50:]])
    np.testing.assert_allclose(model.coef_, sm.train(both, loss="squared_error").model.coef_, rtol=1e-7)
    assert model.outputs == ["a", "b", "c"]
    with pytest.raises(sm.DataError, match="the labels of batch 1 have one column, but those of the first one the col"):
        sm.write_hdf5([(X, Y), (X, Y[:, 0])], tmp_path / "three.h5")
    assert not (tmp_path / "three.h5").exists()


def test_the_commands(here, tmp_path):
    write_h5(tmp_path / "d.h5", X, Y, labels=B, outputs=np.array([b"p", b"q r", b"s"]))
    data, numbers, marks = (str(tmp_path / name) for name in ("d.h5", "n.npz", "l.npz"))
    assert here("train", data, "--loss", "squared_error", "-o", numbers, "-q").returncode == 0
    assert here("train", data, "--y", "labels", "--loss", "logistic", "-o", marks, "-q").returncode == 0
    model, labels = sm.load_model(numbers), sm.load_model(marks)
    done = here("predict", numbers, data)
    head, *lines = done.stdout.splitlines()
    assert done.returncode == 0 and head == 'p "q r" s'
    np.testing.assert_array_equal([line.split() for line in lines], model.predict(X).astype(str))
    for option, expected in (
        ([], labels.predict(X)),
        (["--decision"], labels.decision_function(X)),
        (["--probability"], labels.predict_proba(X)),
    ):
        done = here("predict", marks, data, *option)
        assert done.stdout.splitlines()[0] == 'p "q r" s'
        np.testing.assert_array_equal(
            np.array([line.split() for line in done.stdout.splitlines()[1:]], float), expected
        )
    for name in ("o.npy", "o.h5"):
        assert here("predict", numbers, data, "-o", str(tmp_path / name)).returncode == 0
    np.testing.assert_array_equal(np.load(tmp_path / "o.npy"), model.predict(X))
    with h5py.File(tmp_path / "o.h5") as file:
        np.testing.assert_array_equal(file["labels"][:], model.predict(X))
        assert file["outputs"].asstr()[:].tolist() == ["p", "q r", "s"]
    for path, y in ((numbers, []), (marks, ["--y", "labels"])):
        done = here("verify", path, data, *y)
        assert done.returncode == 0 and "primal of output q r" in done.stdout
        done = here("evaluate", path, data, *y)
        assert done.returncode == 0 and "output q r: " in done.stdout and "of 3 outputs, in the mean:" in done.stdout
        done = here("info", path, "--top", "2")
        assert done.returncode == 0 and "weights of q r times the standard deviation of the column, and" in done.stdout
    assert "outputs      p, q r, s" in here("info", data).stdout
    with h5py.File(tmp_path / "d.h5", "r+") as file:
        file["labels"][5, 2] = 1 - B[5, 2]
    assert here("verify", marks, data).returncode == 65
    done = here("predict", numbers, data, "--obs", "x", "-o", str(tmp_path / "o.h5ad"))
    assert done.returncode == 2 and "the model predicts several" in done.stderr
    done = here("export", marks, "--to", "liblinear", "-o", str(tmp_path / "l.txt"))
    assert done.returncode == 2 and "this one has several outputs" in done.stderr


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_labels_that_share_columns_are_counted_one_by_one(loss):
    result = sm.train((X, B), loss=loss, penalty="l21", tol=1e-3)
    wrong = result.model.predict(X) != B
    assert result.converged and len(result.certificate.per_class) == 1
    assert result.certificate.mistakes == wrong.sum() and result.certificate.train_error == wrong.mean()


def test_the_length_of_errors_is_evaluated_and_validated_as_it_is_trained(tmp_path):
    held_out = X[1::2], Y[1::2]
    result = sm.train((X[::2], Y[::2]), loss="l2_error", C=[0.1, 1.0], valid=held_out, penalty="l21")
    lengths = np.linalg.norm(result.model.predict(held_out[0]) - held_out[1], axis=1)
    figures = result.model.evaluate(held_out)
    assert figures["loss"] == pytest.approx(lengths.mean(), rel=1e-12)
    assert result.certificate.valid_error == pytest.approx(lengths.mean(), rel=1e-12)
    for output in figures["per_output"]:  # of one number it is the absolute error
        assert output["loss"] == pytest.approx(output["mean_absolute_error"], rel=1e-12)
    one = sm.train((X, Y[:, 0]), loss="l2_error").model
    assert one.evaluate((X, Y[:, 0]))["loss"] == pytest.approx(np.abs(one.predict(X) - Y[:, 0]).mean(), rel=1e-12)
