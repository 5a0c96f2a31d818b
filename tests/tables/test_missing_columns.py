"""Columns of the model that a table lacks are an error, or 0 if they are asked to be, in every format."""

import logging
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from table_rows import in_form

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
WAYS = {"dense": {"drop": "note", "missing": "indicator"}, "sparse": {"text": "note", "missing": "indicator"}}
pytestmark = pytest.mark.usefixtures("patient", "inside")


def numbers(model, frame):
    """The rows of a frame as the numbers that the model takes, by the file that convert makes of them."""
    model.save("m.npz", force=True)
    frame.to_csv("whole.csv", index=False)
    convert("whole.csv", "whole.h5", like="m.npz", force=True)
    with h5py.File("whole.h5") as file:
        X = file["X"]
        if isinstance(X, h5py.Group):
            return sp.csr_array((X["data"][:], X["indices"][:], X["indptr"][:]), X.attrs["shape"])
        return X[:]


def with_zeros(model, X, lacking):
    """The scores if all columns that these become are 0."""
    weights = model.coef_[0].astype(float)
    for column, start in zip(model.schema.columns, model.schema.starts, strict=False):
        if column.name in lacking:
            weights[start : start + column.width] = 0.0
    return X @ weights + model.intercept_[0]


@pytest.fixture(scope="module")
def models(tmp_path_factory, patient):
    """By name: (a model of the table, its rows as numbers)."""
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path_factory.mktemp("models"))
        found = {name: sm.train(TABLE, y="y", C=0.5, tol=0.1, **how).model for name, how in WAYS.items()}
        return {name: (model, numbers(model, TABLE)) for name, model in found.items()}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["csv", "parquet", "feather", "pandas", "polars"])
@pytest.mark.parametrize("lacking", [["city"], ["size", "age"], ["city", "age", "gap"]])
def test_they_count_as_zero_in_every_kind_of_table(way, kind, lacking, models, caplog):
    model, X = models[way]
    some = in_form(TABLE.drop(columns=["y", *lacking]), kind, Path())
    for call in (model.predict, model.decision_function, lambda rows, **how: model.evaluate(rows, y="city", **how)):
        with pytest.raises(sm.DataError, match=r"lacks \d column.*count as 0 with missing_columns=\"zero\"$"):
            call(some)
    want = with_zeros(model, X, lacking)
    assert "count as 0" not in caplog.text
    np.testing.assert_allclose(model.decision_function(some, missing_columns="zero"), want, rtol=1e-5, atol=1e-5)
    assert f"of the model's {len(model.schema.columns)} ({', '.join(lacking)}): they count as 0" in caplog.text
    labelled = in_form(TABLE.drop(columns=lacking), kind, Path())
    right = model.evaluate(labelled, missing_columns="zero")["accuracy"]
    assert right == pytest.approx(np.mean(np.where(want > 0.0, "up", "down") == TABLE.y))


def test_a_lacking_text_counts_no_word(models):
    model, _ = models["sparse"]
    found = model.decision_function(TABLE.drop(columns="note"), missing_columns="zero")
    silent = TABLE.assign(note="!")
    np.testing.assert_allclose(found, with_zeros(model, numbers(model, silent), []), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found, model.decision_function(silent), rtol=1e-5, atol=1e-5)


def test_a_table_with_none_of_the_columns_or_without_names_is_refused(models):
    model, _ = models["dense"]
    for how in ("error", "zero"):
        with pytest.raises(sm.DataError, match="lacks 4 columns"):
            model.predict(pd.DataFrame({"other": [1.0, 2.0]}), missing_columns=how)
    np.savetxt("bare.csv", np.ones((3, 2)), delimiter=",")
    with pytest.raises(sm.DataError, match="has 2 columns, but the model was trained on 4"):
        model.predict("bare.csv", missing_columns="zero")
    with pytest.raises(sm.UsageError, match="missing_columns must be error or zero, not 'none'"):
        model.predict(TABLE, missing_columns="none")


def test_labels_names_of_rows_and_tasks_are_never_let_be(models):
    model, _ = models["dense"]
    unlabelled = TABLE.drop(columns=["y"])
    with pytest.raises(
        sm.DataError, match=r"lacks 1 column asked for: y; .*name the .* or use predict, which needs none$"
    ):
        model.evaluate(unlabelled, missing_columns="zero")
    assert len(model.predict(unlabelled)) == len(TABLE)
    TABLE.drop(columns=["size"]).to_csv("t.csv", index=False)
    model.save("m.npz")
    assert main(["predict", "m.npz", "t.csv", "--missing-columns", "zero", "--id", "who"]) == 2
    assert main(["predict", "m.npz", "t.csv", "--id", "city"]) == 65


def test_the_shell_says_how_many_and_predicts(models, capsys, caplog):
    caplog.set_level(logging.WARNING)
    models["dense"][0].save("m.npz")
    some = TABLE.drop(columns=["size", "city"])
    some.to_csv("t.csv", index=False)
    some.to_parquet("t.parquet")
    want = load_model("m.npz").predict(some, missing_columns="zero").tolist()
    for path in ("t.csv", "t.parquet"):
        assert main(["predict", "m.npz", path, "--missing-columns", "zero"]) == 0
        found = capsys.readouterr()
        assert found.out.split() == want and "lacks 2 columns of the model's 4 (size, city)" in found.err
    assert main(["evaluate", "m.npz", "t.csv", "--missing-columns", "zero"]) == 0
