"""Steps of rows: values are those of NumPy and scikit-learn, alone, in any block, and in a trained model."""

from functools import partial

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from reference.datasets import noisy
from reference.stopped import until_done
from sklearn.feature_extraction.text import TfidfTransformer

import streammargin as sm
from streammargin.errors import DataError, UsageError
from streammargin.model.exports.files import export
from streammargin.numpy_model import NumpyModel
from streammargin.options.steps import Scale, StepWords, parts_of
from streammargin.rows.blocks import DenseBlock, part, plain, values_of
from streammargin.sources.arrays import ArraySource
from streammargin.transforms import chain as chains
from streammargin.transforms.base import RowFault, TransformSums
from streammargin.transforms.chain import Chain
from streammargin.verification.verify import verify

random = np.random.default_rng(0)
COUNTS = random.poisson(0.7, (60, 9)) * random.integers(1, 9, (60, 9)).astype(np.float64)
COUNTS[[0, 17, 59]] = 0.0  # rows without a value
Y = np.where(COUNTS[:, 0] + random.normal(size=60) > 2.0, "up", "down")


def total(X, to=1e4):
    sums = X.sum(axis=1, keepdims=True)
    return X * (to / np.where(sums > 0.0, sums, 1.0))


FORMULAS = {
    "total": total,
    "total:50": lambda X: total(X, 50.0),
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "unit": lambda X: X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300),
    "tfidf": lambda X: TfidfTransformer(norm=None).fit_transform(X).toarray(),
    "tfidf,unit": lambda X: TfidfTransformer().fit_transform(X).toarray(),
    "total:10000,log1p": lambda X: np.log1p(total(X)),
}


def learned(words, X, dtype=np.float64):
    chain = Chain.of(StepWords().check("transform", words), np.dtype(dtype))
    chain.learn(TransformSums(np.count_nonzero(X, axis=0).astype(float), float(len(X))))
    return chain


def block_of(X, sparse):
    return ArraySource(sp.csr_array(X) if sparse else X).whole()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("words", FORMULAS)
def test_values_are_those_of_a_formula(words, sparse):
    found = plain(learned(words, COUNTS).rows(block_of(COUNTS, sparse)))
    assert sp.issparse(found) == sparse
    if sparse:
        assert found.nnz == np.count_nonzero(COUNTS)
        found = found.toarray()
    np.testing.assert_allclose(found, FORMULAS[words](COUNTS), rtol=1e-14, atol=0.0)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("words", FORMULAS)
def test_bits_depend_on_no_other_row(words, sparse, monkeypatch):
    chain, block = learned(words, COUNTS, np.float32), block_of(COUNTS.astype(np.float32), sparse)
    whole = values_of(chain.rows(block)).ravel()
    assert whole.dtype == np.float32
    alone = [values_of(chain.rows(part(block, row, row + 1))).ravel() for row in range(60)]
    monkeypatch.setattr(chains, "STEPPED_VALUES", 20)
    for pieces in (alone, [values_of(chain.rows(block)).ravel()]):
        np.testing.assert_array_equal(np.concatenate(pieces), whole)


def test_a_value_that_is_stored_and_0_is_no_count():
    X = sp.csr_array((np.array([0.0, 2.0, 3.0]), np.array([0, 1, 1]), np.array([0, 2, 3])), (2, 2))
    model = sm.train((X, [0, 1]), transform="tfidf").model
    np.testing.assert_allclose(model.steps.links[0].learned["factors"], [np.log(3.0) + 1.0, 1.0])


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("words", ["log1p", "sqrt", "total,log1p"])
def test_a_negative_value_is_refused_with_its_row(words, sparse):
    X = COUNTS.copy()
    X[33, 4] = -0.5
    data = sp.csr_matrix(X) if sparse else X
    with pytest.raises(DataError, match=r"row 33, column 4 is -.*, and the step (log1p|sqrt) takes no value below 0"):
        sm.train((data, Y), transform=words)
    model = sm.train((COUNTS, Y), transform=words).model
    with pytest.raises(DataError, match="row 33, column 4 is -"):
        model.predict(data)


@pytest.mark.parametrize("words", ["log1p", "total,log1p"])
def test_a_negative_value_is_told_as_it_is_stored_with_the_name_of_its_column(words):
    X = COUNTS.copy()
    X[33, 4] = -0.5
    names = [f"gene {k}" for k in range(X.shape[1])]
    frame, counts = (pd.DataFrame(values, columns=names) for values in (X, COUNTS))
    made = "" if words == "log1p" else r", which other steps make -\d+\.?\d*"
    said = f"row 33, column gene 4 is -0.5{made}, and the step log1p"
    with pytest.raises(DataError, match=said):
        sm.train((frame, Y), transform=words)
    with pytest.raises(DataError, match=said):
        sm.train((counts, Y), transform=words).model.predict(frame)


def test_a_sum_that_is_not_positive_and_values_that_overflow_are_refused():
    X = COUNTS.copy()
    X[5] = 0.0
    X[5, :2] = [1.0, -1.0]
    with pytest.raises(DataError, match="row 5 adds up to 0, and the step total:10000 divides by it"):
        sm.train((X, Y), transform="total")
    X[5, :2] = [1e-320, 0.0]
    with pytest.raises(DataError, match=r"row 5, column 0 is (inf|nan) behind the steps total:10000"):
        sm.train((X, Y), transform="total")
    X[5, 0] = np.nan
    with pytest.raises(DataError, match="row 5, column 0 is NaN"):
        sm.train((X, Y), transform="total")
    with pytest.raises(RowFault):
        learned("sqrt", COUNTS).rows(DenseBlock(-COUNTS, 0.0))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("words", FORMULAS)
def test_a_model_is_that_of_rows_that_were_transformed_before(words, form, tmp_path):
    given = form(COUNTS)
    ours = sm.train((given, Y), transform=words, C=0.1, tol=1e-9)
    before = form(FORMULAS[words](COUNTS))
    other = sm.train((before, Y), C=0.1, tol=1e-9)
    np.testing.assert_allclose(ours.model.coef_, other.model.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(ours.certificate.primal, other.certificate.primal, rtol=1e-12)
    scores = ours.model.decision_function(given)
    np.testing.assert_allclose(scores, other.model.decision_function(before), rtol=1e-6, atol=1e-9)
    ours.model.save(tmp_path / "m.npz")
    again = sm.load_model(tmp_path / "m.npz")
    np.testing.assert_array_equal(again.decision_function(given), scores)
    np.testing.assert_allclose(NumpyModel(tmp_path / "m.npz").decision_function(given), scores, rtol=1e-12)
    assert again.header["transform"] == ours.model.header["transform"] == str(ours.model.steps)
    assert again.evaluate((given, Y))["mistakes"] == ours.certificate.mistakes
    sm.write_hdf5([(given, Y)], tmp_path / "rows.h5")
    assert all(check.agrees is not False for check in verify(tmp_path / "m.npz", tmp_path / "rows.h5"))
    made = again.to_sklearn()
    np.testing.assert_allclose(made.decision_function(given), scores, rtol=1e-6, atol=1e-7 * np.abs(scores).max())
    assert np.array_equal(made.predict(given), again.predict(given))
    with pytest.raises(UsageError, match=r"exported as LIBLINEAR's text model; use streammargin\.numpy_model"):
        export(again, "liblinear", str(tmp_path / "liblinear"))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_a_clipped_scale_is_a_step_of_the_model(form, tmp_path):
    given, X = form(COUNTS), np.log1p(COUNTS)
    ours = sm.train((given, Y), transform="log1p", scale="std:clip=1.5", C=0.1, tol=1e-9)
    centred = X / X.std(axis=0) if sp.issparse(given) else (X - X.mean(axis=0)) / X.std(axis=0)
    assert np.abs(centred).max() > 1.5
    other = sm.train((np.clip(centred, -1.5, 1.5), Y), C=0.1, tol=1e-9)
    np.testing.assert_allclose(ours.model.coef_, other.model.coef_, rtol=1e-6)
    scores = other.model.decision_function(np.clip(centred, -1.5, 1.5))
    np.testing.assert_allclose(ours.model.decision_function(given), scores, rtol=1e-6, atol=1e-8)
    assert ours.model.header["scale"] == "std:clip=1.5"
    ours.model.save(tmp_path / "m.npz")
    sm.write_hdf5([(given, Y)], tmp_path / "rows.h5")
    np.testing.assert_allclose(
        NumpyModel(tmp_path / "m.npz").decision_function(given), ours.model.decision_function(given), rtol=1e-12
    )
    np.testing.assert_array_equal(
        sm.load_model(tmp_path / "m.npz").predict(given), ours.model.predict(tmp_path / "rows.h5")
    )
    assert all(check.agrees is not False for check in verify(tmp_path / "m.npz", tmp_path / "rows.h5"))


def test_weights_of_rows_count_them():
    weights = random.integers(0, 3, 60).astype(float)
    ours = sm.train((COUNTS, Y), sample_weight=weights, transform="tfidf").model
    twice = np.repeat(COUNTS, weights.astype(int), axis=0)
    np.testing.assert_allclose(ours.steps.links[0].learned["factors"], TfidfTransformer().fit(twice).idf_, rtol=1e-15)


WAYS = {"transform": "total:100,log1p,tfidf", "scale": "std:clip=2", "C": 0.5, "tol": 1e-6}


def test_files_blocks_threads_and_interruptions_give_the_same_bits(tmp_path):
    X, y = random.poisson(0.4, (100000, 40)).astype(np.float32), random.integers(0, 2, 100000)
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file.create_dataset("X", data=X, chunks=(1000, 40))
        file["y"] = y
    ways = WAYS | {"memory": "17M", "solver": "sdca", "passes": 4}
    whole = sm.train(tmp_path / "rows.h5", **ways)
    assert sm.train(tmp_path / "rows.h5", **ways, threads=2).model.coef_.tobytes() == whole.model.coef_.tobytes()
    factors = sm.train((X, y), **WAYS, passes=1).model.steps.links[2].learned["factors"]
    np.testing.assert_array_equal(whole.model.steps.links[2].learned["factors"], factors)
    found, starts = until_done(partial(sm.train, tmp_path / "rows.h5", **ways, checkpoint=tmp_path / "run"), 6)
    assert starts > 3 and whole.history[0]["plan"]["blocks"] > 1
    assert found.model.coef_.tobytes() == whole.model.coef_.tobytes()
    whole.model.save(tmp_path / "m.npz")
    assert all(check.agrees is not False for check in verify(tmp_path / "m.npz", tmp_path / "rows.h5"))


def test_columns_are_found_by_name_and_missing_ones_are_0_before_the_steps():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(COUNTS, columns=[f"gene {j}" for j in range(9)])
    model = sm.train((frame, Y), **WAYS).model
    scores = model.decision_function(frame)
    np.testing.assert_allclose(model.decision_function(frame[frame.columns[::-1]]), scores, rtol=1e-12)
    lacking = frame.assign(**{"gene 3": 0.0})
    found = model.decision_function(frame.drop(columns="gene 3"), missing_columns="zero")
    np.testing.assert_allclose(found, model.decision_function(lacking), rtol=1e-12)


def test_tables_repeat_the_steps(tmp_path):
    pandas = pytest.importorskip("pandas")
    path = tmp_path / "counts.csv"
    pandas.DataFrame(COUNTS, columns=list("abcdefghi")).assign(label=Y).to_csv(path, index=False)
    model = sm.train(path, **WAYS).model
    same = sm.train((COUNTS.astype(np.float32), Y), **WAYS).model
    np.testing.assert_allclose(model.decision_function(path), same.decision_function(COUNTS), rtol=1e-4, atol=1e-5)


def test_tasks_take_the_steps_too():
    tasks = np.arange(60) % 3
    ours = sm.train((COUNTS, Y), tasks=tasks, transform="log1p", solver="newton", C=0.1, tol=1e-8).model
    other = sm.train((np.log1p(COUNTS), Y), tasks=tasks, solver="newton", C=0.1, tol=1e-8).model
    scores = ours.decision_function(COUNTS, tasks=tasks)
    np.testing.assert_allclose(scores, other.decision_function(np.log1p(COUNTS), tasks=tasks), atol=1e-6)
    wrong = COUNTS.copy()
    wrong[41, 2] = -1.0
    with pytest.raises(DataError, match="row 41, column 2 is -1"):
        ours.predict(wrong, tasks=tasks)


def test_kernels_and_maps_take_the_steps_too():
    for way in ({"kernel": "rbf:0.1"}, {"map": "rff:20,gamma=0.1"}):
        ours = sm.train((COUNTS, Y), transform="log1p", tol=1e-6, **way).model
        other = sm.train((np.log1p(COUNTS), Y), tol=1e-6, **way).model
        found = ours.decision_function(COUNTS)
        np.testing.assert_allclose(found, other.decision_function(np.log1p(COUNTS)), atol=1e-3)


def test_held_out_rows_and_first_weights_take_the_steps():
    train, out = (COUNTS[:40], Y[:40]), (COUNTS[40:], Y[40:])
    found = sm.train(train, valid=out, transform="tfidf,unit", C=[0.1, 1.0, 10.0])
    assert found.certificate.valid_error == pytest.approx(1.0 - found.model.evaluate(out)["accuracy"])
    again = sm.train(train, transform="tfidf,unit", C=found.model.header["C"], init=found.model, solver="newton")
    assert again.converged
    for way in ({}, {"transform": "unit"}):
        with pytest.raises(UsageError, match='is for rows with transform="tfidf,unit"; train with the same steps'):
            sm.train(train, init=found.model, **way)
    with pytest.raises(UsageError, match="is for rows without transform"):
        sm.train(train, init=sm.train(train).model, transform="unit")


def test_estimators_repeat_the_steps(tmp_path):
    ways = {"transforms" if name == "transform" else name: value for name, value in WAYS.items()}
    for made in (sm.MarginClassifier(**ways), sm.KernelMarginClassifier(transforms="sqrt", scale="std:clip=2")):
        fitted = made.fit(COUNTS, Y)
        assert fitted.score(COUNTS, Y) > 0.7
        fitted.save(tmp_path / "m.npz", force=True)
        np.testing.assert_array_equal(sm.load_model(tmp_path / "m.npz").predict(COUNTS), fitted.predict(COUNTS))
    assert made.get_params()["transforms"] == "sqrt"


def test_words_are_read_and_spelled():
    assert [str(step) for step in StepWords().check("transform", "total:5,log1p,unit")] == ["total:5", "log1p", "unit"]
    assert [str(step) for step in StepWords().check("transform", "total:sum=5,sqrt")] == ["total:5", "sqrt"]
    assert StepWords().check("transform", sm.transforms.Total(5)) == (sm.transforms.Total(5.0),)
    assert StepWords().check("transform", ["unit", sm.transforms.Sqrt()]) == (
        sm.transforms.Unit(),
        sm.transforms.Sqrt(),
    )
    for wrong, said in (("log", "log1p"), ("total:-1", "positive"), ("", "unknown"), ([], "no step"), (3, "name")):
        with pytest.raises(UsageError, match=said):
            StepWords().check("`transform`", wrong)
    assert Scale().check("scale", "std:clip=1e1") == "std:clip=10" and parts_of("std:clip=10") == ("std", 10.0)
    for wrong in ("std:clip=0", "std:clip=", "maxabs:clip=3", "mean", None):
        with pytest.raises(UsageError):
            Scale().check("`scale`", wrong)


def test_streams_take_no_steps():
    with pytest.raises(UsageError, match="transform cannot be used with a stream"):
        sm.train(iter([noisy()]), solver="perceptron", transform="unit")


class Doubled(sm.transforms.Transform):
    """Twice the value."""

    def values(self, values, rows, learned):
        return values + values


def test_a_step_of_your_own_is_known_by_its_class(tmp_path):
    model = sm.train((COUNTS, Y), transform=[Doubled(), "sqrt"]).model
    other = sm.train((2.0 * COUNTS, Y), transform="sqrt").model
    np.testing.assert_array_equal(model.predict(COUNTS), other.predict(2.0 * COUNTS))
    model.save(tmp_path / "m.npz")
    np.testing.assert_array_equal(sm.load_model(tmp_path / "m.npz").predict(COUNTS), model.predict(COUNTS))
    with pytest.raises(ValueError, match="its step doubled is not built in"):
        NumpyModel(tmp_path / "m.npz")
    sm.write_hdf5([(COUNTS, Y)], tmp_path / "rows.h5")
    with pytest.raises(UsageError, match=r"verify does not know users' own formulas: .* has doubled"):
        verify(tmp_path / "m.npz", tmp_path / "rows.h5")


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"transform": np.array(["total:10000", "nosuch"])}, "unknown transform 'nosuch'"),
        ({"transform.dtypes": np.array(["float64", "float16"])}, "float16"),
        ({"transform.dtypes": np.array(["float64"])}, "shape"),
        ({"transform": np.array([], "U1"), "transform.dtypes": np.array([], "U1")}, "empty"),
        ({"transform.1.factors": np.ones(8)}, "9 finite numbers factors"),
        ({"transform.1.factors": np.full(9, np.inf)}, "finite"),
        ({"transform.1.factors": None}, "9 finite numbers factors"),
        ({"transform.dtypes": None}, "dtypes"),
    ],
)
def test_forged_steps_are_refused_in_a_sentence(tmp_path, changed, said):
    sm.train((COUNTS, Y), transform="total,tfidf").model.save(tmp_path / "m.npz")
    arrays = dict(np.load(tmp_path / "m.npz")) | changed
    np.savez(tmp_path / "f.npz", **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises((DataError, UsageError), match=said):
        sm.load_model(tmp_path / "f.npz")


def test_a_model_of_raw_counts_scores_the_layer_that_it_was_trained_on(tmp_path):
    path, other = tmp_path / "cells.h5", tmp_path / "other.h5"
    with h5py.File(path, "w") as file:
        file["X"], file["layers/counts"], file["y"] = np.log1p(COUNTS), COUNTS, Y.astype("S4")
    sm.write_hdf5([(COUNTS, Y)], other)
    model = sm.train(path, x="layers/counts", transform="total,log1p").model
    for data in (path, [path], other):  # the last one has them as X
        np.testing.assert_array_equal(model.decision_function(data), model.decision_function(COUNTS))
    assert model.evaluate(path)["mistakes"] == model.evaluate((COUNTS, Y))["mistakes"]
    assert model.evaluate(path, x="X")["loss"] != model.evaluate(path)["loss"]
