"""What users pass by mistake: one sentence on what is wrong; no error of Python itself, no endless run."""

import math
import pathlib
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from reference.datasets import noisy

import streammargin as sm
from streammargin import wording

HUGE = 10**400
X, Y = noisy(30, 3)


@pytest.fixture(scope="module")
def model():
    return sm.train((X, Y)).model


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"C": HUGE}, "C must be a number, not 1000"),
        ({"C": 10**5000}, "C must be a number, not a value of the type int"),
        ({"penalty": sm.penalties.Lp(HUGE)}, r"the parameter p of lp must be a number in \(1, 2\] or sparse, not 1000"),
        (
            {"penalty": sm.penalties.Lp(np.array([1.5, 2.0]))},
            r"the parameter p of lp must be a number in \(1, 2\] or sparse",
        ),
        (
            {"loss": sm.losses.SmoothHinge(HUGE)},
            "the parameter width of smooth_hinge must be a positive number, not 1000",
        ),
        ({"memory": HUGE}, "memory must be a number of bytes or like 512M or 2G, not 1000"),
        ({"penalty": np.array(["l1", "l2"])}, "penalty must be a name, as l2, .*, not an array of shape"),
        ({"solver": np.array(["sdca", "auto"])}, "solver must be a name, as auto, or an object"),
        ({"loss": sp.csr_matrix(np.eye(2))}, "loss must be a name, as"),
        (
            {"solver": sm.solvers.Pdprox(np.zeros(2))},
            "the parameter algorithm of pdprox must be primal or dual, not an array",
        ),
        ({"class_weight": np.zeros(2)}, "class_weight must be balanced or a factor for each label"),
        ({"class_weight": {1: HUGE}}, "class_weight must be a number"),
        ({"class_weight": {None: 2.0}}, "class_weight must be a factor for each label, but None is not a label"),
        ({"classes": np.array("a")}, "classes must be a list of labels"),
        ({"classes": [1, np.ma.masked]}, "classes must be labels, not masked"),
        ({"classes": [HUGE, 1]}, "there is no label 1000"),
        ({"positive": np.ma.masked}, "positive must be a label, not masked"),
        ({"positive": HUGE}, "there is no label 1000"),
        ({"positive": 10**5000}, "positive must be a label, not a value of the type int"),
        ({"checkpoint": 1}, "checkpoint must be text or os.PathLike, without NUL, not 1"),
        ({"checkpoint": "a\0b"}, "checkpoint must be text or os.PathLike, without NUL"),
        ({"checkpoint": b"folder"}, "checkpoint must be text or os.PathLike, without NUL"),
        ({"should_stop": 1}, "should_stop must be a function, not 1"),
        ({"listeners": [1]}, r"listeners must be a list of functions, not \[1\]"),
        ({"listeners": 1}, "listeners must be a list of functions, not 1"),
        ({"valid": "a\0b"}, "a path must be text or os.PathLike, without NUL"),
        ({"valid": "\ud800"}, "a path must be text or os.PathLike, without NUL"),
    ],
    ids=wording.shown,
)
def test_a_value_that_cannot_be_is_refused_by_name(options, sentence):
    with pytest.raises(sm.UsageError, match=f"^{sentence}") as refused:
        sm.train((X, Y), **options)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 400


def test_checkpoints_go_to_a_path(tmp_path):
    assert sm.train((X, Y), checkpoint=pathlib.Path(tmp_path / "folder")).converged


def masked(values, row):
    hidden = np.ma.array(values)
    hidden[row] = np.ma.masked
    return hidden


@pytest.mark.parametrize("kind", ["X", "y", "sample_weight"])
@pytest.mark.parametrize("loss", ["hinge", "squared_error"])
def test_masked_rows_are_named(kind, loss, tmp_path, model):
    rows = {"X": X, "y": Y, "sample_weight": np.ones(30)}
    rows[kind] = masked(rows[kind], 7)
    with pytest.raises(sm.DataError, match=f"^{kind}: row 7 is masked"):
        sm.train((rows["X"], rows["y"]), sample_weight=rows["sample_weight"], loss=loss)
    estimator = {"hinge": sm.MarginClassifier, "squared_error": sm.MarginRegressor}[loss]()
    with pytest.raises(sm.DataError, match=f"^{kind}: row 7 is masked"):
        estimator.fit(rows["X"], rows["y"], rows["sample_weight"])
    if kind != "sample_weight":
        with pytest.raises(sm.DataError, match=f"^{kind}: row 7 is masked"):
            model.evaluate((rows["X"], rows["y"]))


def test_labels_beside_a_file_are_looked_at_too(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["X"] = X
    with pytest.raises(sm.DataError, match=r"^y: row 7 is masked"):
        sm.train(tmp_path / "rows.h5", masked(Y, 7))
    with pytest.raises(sm.DataError, match=r"^y is not an array"):
        sm.train(tmp_path / "rows.h5", [[1, 2], [3]])


def test_a_masked_array_that_hides_nothing_is_an_array():
    plain, hiding = (sm.train((rows, labels)) for rows, labels in ((X, Y), (np.ma.array(X), np.ma.array(Y))))
    assert np.array_equal(plain.model.coef_, hiding.model.coef_)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (((X, Y), Y), "X is not an array"),
        (([[1, 2], [3]], [0, 1]), "X is not an array"),
        ((X, [[1, 2], [3]]), "y is not an array"),
        (memoryview(X), "X is a memoryview"),
        ((X, np.array([np.zeros(2), np.ones(3)] * 15, object)), "X: labels must be numbers or text"),
        ((X, [HUGE] * 15 + [None] * 15), "X: row 15 has no label"),
    ],
    ids=["nested", "uneven rows", "uneven labels", "memoryview", "arrays as labels", "a label that is missing"],
)
def test_what_is_no_array_is_refused(data, sentence, model):
    with pytest.raises(sm.DataError, match=f"^{sentence}"):
        sm.train(data)
    with pytest.raises(sm.DataError, match=f"^{sentence}|has no labels"):
        model.evaluate(data)


@pytest.mark.parametrize("path", [1, None, [], "a\0b", b"name", "\ud800", np.float32(1.0)], ids=wording.shown)
def test_paths_of_models(path, model):
    with pytest.raises(sm.UsageError, match=r"a path must be text or os.PathLike"):
        sm.load_model(path)
    with pytest.raises(sm.UsageError, match=r"a path must be text or os.PathLike"):
        model.save(path)


def test_an_output_is_replaced_by_a_clear_word_only(tmp_path, model):
    model.save(tmp_path / "m.npz")
    with pytest.raises(sm.UsageError, match="force must be True or False, not 'no'"):
        model.save(tmp_path / "m.npz", force="no")


def test_scores_beyond_the_numbers_are_refused_by_row(model):
    rows = X.copy()
    rows[7] = 1.7e308 * np.sign(model.coef_[0])
    for call in (model.evaluate, model.predict, model.decision_function):
        with pytest.raises(sm.DataError, match=r"^X: the score of row 7 overflows"):
            call((rows, Y))


def test_numbers_beyond_the_numbers(model):
    numbers = sm.train((X, X[:, 0]), loss="squared_error").model
    with pytest.raises(sm.DataError, match=r"^X: the label of row 7 is nan"):
        numbers.evaluate((X, np.where(np.arange(30) == 7, np.nan, X[:, 0])))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figures = numbers.evaluate((X, 1e308 * np.sign(X[:, 0])))
    assert figures["r2"] is None and not any(math.isnan(value) for value in figures.values() if value is not None)
    assert numbers.evaluate((X, X[:, 0].astype(np.longdouble)))["largest_error"] < 1.0


def test_an_evaluation_takes_memory_as_text(model):
    assert model.evaluate((X, Y), memory="64M") == model.evaluate((X, Y)) == model.evaluate((X, Y), memory=None)
    for wrong in ("much", [1], HUGE):
        with pytest.raises(sm.UsageError, match="size must be a number of bytes"):
            model.evaluate((X, Y), memory=wrong)


def test_a_loss_without_a_value_has_no_mean(model):
    from reference.bare import own, stub

    from streammargin.losses import terms

    with pytest.raises(sm.UsageError, match="the loss Stub has no method primal"):
        model.evaluate((X, Y), loss=own(stub(terms("hinge"), ["step"])))


def test_rows_of_anndata():
    anndata = pytest.importorskip("anndata")
    for rows in (X, sp.csr_matrix(X)):
        plain, held = (sm.train(data, Y) for data in (rows, anndata.AnnData(rows)))
        assert np.array_equal(plain.model.coef_, held.model.coef_)
        assert np.array_equal(plain.model.predict(anndata.AnnData(rows)), plain.model.predict(rows))
    fitted = sm.MarginClassifier().fit(anndata.AnnData(X), Y)
    assert np.array_equal(fitted.predict(anndata.AnnData(X)), fitted.predict(X))
    with pytest.raises(sm.DataError, match="X"):
        sm.train(anndata.AnnData(obs={"a": np.zeros(30)}), Y)


def test_frames_of_numbers_and_booleans():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    values = np.column_stack([X, X[:, 0] > 0.0, np.arange(30) % 2])
    mixed = frame.assign(d=X[:, 0] > 0.0, e=pandas.array(np.arange(30) % 2, dtype="Int64"))
    assert np.array_equal(sm.train((mixed, Y)).model.coef_, sm.train((values, Y)).model.coef_)
    flags = frame > 0.0
    assert np.array_equal(sm.train((flags, Y)).model.coef_, sm.train((flags.to_numpy(), Y)).model.coef_)
    with pytest.raises(
        sm.DataError, match=r"^X: the columns 'when', 'word' hold neither numbers nor booleans; .*train\(frame, y="
    ):
        sm.train((mixed.assign(when=pandas.Timestamp("2020"), word="x"), Y))
    with pytest.raises(sm.DataError, match=r"row 4, column 4 is NaN"):
        sm.train((mixed.assign(e=pandas.array([1] * 4 + [None] + [1] * 25, dtype="Int64")), Y))


def test_frames_of_polars():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "d": X[:, 0] > 0.0})
    assert np.array_equal(
        sm.train((frame, Y)).model.coef_, sm.train((np.column_stack([X, X[:, 0] > 0.0]), Y)).model.coef_
    )
    with pytest.raises(sm.DataError, match=r"^X: the columns 'word' hold neither numbers nor booleans"):
        sm.train((frame.with_columns(word=polars.lit("x")), Y))


def broken(form):
    """A sparse matrix of this form whose parts contradict each other: SciPy writes if it has no room."""
    rows = sp.csr_matrix(X).asformat(form)
    if form == "lil":
        rows.rows[0], rows.data[0] = [0], [1.0] * 1000
    else:
        rows.indices[:] = 10**6
    return rows


@pytest.mark.parametrize("form", ["csc", "bsr", "lil"])
def test_a_broken_matrix_is_refused_before_scipy_converts_it(form, model):
    fitted = sm.MarginClassifier().fit(X, Y)
    calls = [lambda rows: sm.train((rows, Y)), model.predict, sm.MarginClassifier().fit, fitted.predict, fitted.score]
    for call in calls:
        with pytest.raises(sm.DataError, match=f"X is an invalid {form} matrix"):
            call(broken(form), *([Y] if call in calls[2:3] + calls[4:] else []))
    for whole in (sp.csr_matrix(X).asformat(form), sp.csr_array(X).asformat(form)):
        assert np.array_equal(fitted.predict(whole), fitted.predict(X))


@pytest.mark.parametrize("kind", ["y", "sample_weight"])
def test_numbers_that_are_no_floats(kind):
    given = {"y": Y.tolist(), "sample_weight": [1] * 30}
    given[kind][7] = HUGE
    with pytest.raises(sm.DataError, match="a number that does not fit into a float"):
        sm.MarginRegressor().fit(X, **given)
    with pytest.raises(sm.DataError):
        sm.train((X, given["y"]), sample_weight=given["sample_weight"], loss="squared_error")
    with pytest.raises(ValueError, match="X"):
        sm.MarginClassifier().fit(memoryview(X), Y)
