"""Columns of the model that a table lacks are an error, or 0 if they are asked to be, in every format."""

import logging

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import streammargin as sm
from streammargin.cli.main import main
from streammargin.data_tools.convert import convert
from streammargin.model.io import load_model

RNG = np.random.default_rng(5)
TABLE = pd.DataFrame({
    "size": RNG.normal(3.0, 1.0, 60), "city": RNG.choice(["Rome", "Oslo", "Lima"], 60),
    "note": RNG.choice(["red ink", "blue", "red red"], 60), "age": RNG.normal(9.0, 2.0, 60),
    "gap": np.where(np.arange(60) % 7, RNG.normal(2.0, 1.0, 60), np.nan),
})  # fmt: skip
TABLE["y"] = np.where(TABLE["size"] + (TABLE.city == "Oslo") > 3.2, "up", "down")
DENSE = {"drop": "note", "missing": "indicator"}
SPARSE = {"text": "note", "missing": "indicator"}


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def written(frame, kind):
    if kind == "polars":
        return pytest.importorskip("polars").from_pandas(frame)
    if kind == "frame":
        return frame
    name = f"rows.{kind}"
    {"csv": lambda: frame.to_csv(name, index=False), "parquet": lambda: frame.to_parquet(name),
     "feather": lambda: frame.to_feather(name)}[kind]()  # fmt: skip
    return name


def with_zeros(model, frame, lacking):
    """The scores if all columns that these become are 0, by the file of the numbers."""
    model.save("m.npz", force=True)
    frame.to_csv("whole.csv", index=False)
    convert("whole.csv", "whole.h5", like="m.npz", force=True)
    with h5py.File("whole.h5") as file:
        X = file["X"]
        if isinstance(X, h5py.Group):
            X = sp.csr_array((X["data"][:], X["indices"][:], X["indptr"][:]), X.attrs["shape"]).toarray()
        X = X[:]
    for column, start in zip(model.schema.columns, model.schema.starts, strict=False):
        if column.name in lacking:
            X[:, start : start + column.width] = 0.0
    return X @ model.coef_[0].astype(float) + model.intercept_[0]


@pytest.fixture(scope="module", params=[DENSE, SPARSE], ids=["dense", "sparse"])
def model(request):
    return sm.train(TABLE, y="y", C=0.5, tol=1e-2, **request.param).model


@pytest.mark.parametrize("kind", ["csv", "parquet", "feather", "frame", "polars"])
@pytest.mark.parametrize("lacking", [["city"], ["size", "age"], ["city", "age", "gap"]])
def test_they_count_as_zero_in_every_kind_of_table(kind, lacking, model, caplog):
    some = written(TABLE.drop(columns=["y", *lacking]), kind)
    for call in (model.predict, model.decision_function, lambda rows, **how: model.evaluate(rows, y="city", **how)):
        with pytest.raises(sm.DataError, match=r"lacks \d column.*count as 0 with missing_columns=\"zero\"$"):
            call(some)
    want = with_zeros(model, TABLE, lacking)
    assert "count as 0" not in caplog.text
    np.testing.assert_allclose(model.decision_function(some, missing_columns="zero"), want, rtol=1e-5, atol=1e-5)
    assert f"of the model's {len(model.schema.columns)} ({', '.join(lacking)}): they count as 0" in caplog.text
    labelled = written(TABLE.drop(columns=lacking), kind)
    right = model.evaluate(labelled, missing_columns="zero")["accuracy"]
    assert right == pytest.approx(np.mean(np.where(want > 0.0, "up", "down") == TABLE.y))


def test_a_lacking_text_counts_no_word():
    model = sm.train(TABLE, y="y", C=0.5, tol=1e-2, **SPARSE).model
    found = model.decision_function(TABLE.drop(columns="note"), missing_columns="zero")
    np.testing.assert_allclose(found, with_zeros(model, TABLE.assign(note="!"), []), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found, model.decision_function(TABLE.assign(note="!")), rtol=1e-5, atol=1e-5)


def test_a_table_with_none_of_the_columns_or_without_names_is_refused():
    model = sm.train(TABLE, y="y", **DENSE).model
    for how in ("error", "zero"):
        with pytest.raises(sm.DataError, match="lacks 4 columns"):
            model.predict(pd.DataFrame({"other": [1.0, 2.0]}), missing_columns=how)
    np.savetxt("bare.csv", np.ones((3, 2)), delimiter=",")
    with pytest.raises(sm.DataError, match="has 2 columns, but the model was trained on 4"):
        model.predict("bare.csv", missing_columns="zero")
    with pytest.raises(sm.UsageError, match="missing_columns must be error or zero, not 'none'"):
        model.predict(TABLE, missing_columns="none")


def test_labels_names_of_rows_and_tasks_are_never_let_be():
    model = sm.train(TABLE, y="y", **DENSE).model
    with pytest.raises(sm.DataError, match="lacks 1 column"):
        model.evaluate(TABLE.drop(columns=["y"]), missing_columns="zero")
    TABLE.drop(columns=["size"]).to_csv("t.csv", index=False)
    model.save("m.npz")
    assert main(["predict", "m.npz", "t.csv", "--missing-columns", "zero", "--id", "who"]) == 65
    assert main(["predict", "m.npz", "t.csv", "--id", "city"]) == 65


def test_the_shell_says_how_many_and_predicts(capsys, caplog):
    caplog.set_level(logging.WARNING)
    sm.train(TABLE, y="y", **DENSE).model.save("m.npz")
    some = TABLE.drop(columns=["size", "city"])
    some.to_csv("t.csv", index=False)
    some.to_parquet("t.parquet")
    want = load_model("m.npz").predict(some, missing_columns="zero").tolist()
    for path in ("t.csv", "t.parquet"):
        assert main(["predict", "m.npz", path, "--missing-columns", "zero"]) == 0
        found = capsys.readouterr()
        assert found.out.split() == want and "lacks 2 columns of the model's 4 (size, city)" in found.err
    assert main(["evaluate", "m.npz", "t.csv", "--missing-columns", "zero"]) == 0
