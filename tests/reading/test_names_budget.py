"""Names of columns count in the memory budget, and are counted before they are read."""

import h5py
import numpy as np
import pytest
from conftest import traced

import streammargin as sm
import streammargin.model.scoring
from streammargin.errors import UsageError
from streammargin.reading.plan import column_names
from streammargin.sources.hdf5.columns import TextReader, write_names
from streammargin.sources.open import open_source

COLUMNS, LENGTH = 4000, 2000  # 8 MB of names
X = np.random.default_rng(0).standard_normal((20, COLUMNS)).astype(np.float32)
Y = np.arange(20) % 2
OPTIONS = {"solver": "sdca", "passes": 1, "tol": 0.5}


def stored(path, letter):
    with h5py.File(path, "w") as file:
        file["X"], file["y"] = X, Y
        write_names(file, np.array([f"{k:05}" + letter * LENGTH for k in range(COLUMNS)], object))
    return str(path)


@pytest.fixture(scope="module", params=["a", "é", "漢", "😀"])
def path(request, tmp_path_factory):
    return stored(tmp_path_factory.mktemp("names") / "x.h5", request.param)


def test_they_take_no_more_than_was_counted(path):
    with open_source(path) as source:
        counted = source.names_bytes()
        with traced() as allocated:
            names = source.feature_names()
    assert len(names) == COLUMNS and allocated.held >= COLUMNS * LENGTH
    assert allocated.peak <= counted


def least(error):
    return str(error.value).split('memory="')[1].split('"')[0]


def test_a_budget_too_small_for_them_is_refused_before_they_are_read(tmp_path, monkeypatch):
    path = stored(tmp_path / "x.h5", "a")
    monkeypatch.setattr(TextReader, "read", lambda *given: pytest.fail("names were read"))
    with open_source(path) as source:
        budget = source.names_bytes()
    with pytest.raises(UsageError, match=r"too small for .*: the smallest plan needs"):
        sm.train(path, memory=budget, **OPTIONS)
    with pytest.raises(UsageError, match="the smallest plan needs") as plan:
        sm.train(path, memory="20M", **OPTIONS)
    monkeypatch.undo()
    plain = sm.train((X, Y), **OPTIONS).model
    assert np.array_equal(sm.train(path, memory=least(plan), **OPTIONS).model.coef_, plain.coef_)


def test_where_there_are_none_a_small_budget_speaks_of_none():
    with pytest.raises(UsageError, match="too small for X: reading it, beside what is in memory already, needs"):
        column_names(open_source((X, Y)), 100, 200)


def test_the_plan_of_named_columns_is_larger_by_the_names(tmp_path):
    path = stored(tmp_path / "x.h5", "a")
    with open_source(path) as source:
        names = source.names_bytes()
    named = sm.train(path, **OPTIONS).history[0]["plan"]["memory_bytes"]
    with h5py.File(path, "a") as file:
        del file["var"]
    assert named - sm.train(path, **OPTIONS).history[0]["plan"]["memory_bytes"] == names > COLUMNS * LENGTH


def test_prediction_counts_them_too(tmp_path, monkeypatch):
    path = stored(tmp_path / "x.h5", "a")
    model = sm.train(path, **OPTIONS).model
    assert model.evaluate(path, memory=64 << 20)["rows"] == len(X)
    with pytest.raises(UsageError, match="reading the names of its columns, beside what is in memory already, needs"):
        model.evaluate(path, memory=20 << 20)
    with traced() as allocated:
        names = [str(name + "a")[:-1] for name in model.feature_names_in_]
    assert len(names) == COLUMNS and model.nbytes - 2 * model.coef_.nbytes >= allocated.held
    with h5py.File(path, "a") as file:
        file["var/_index"][:] = file["var/_index"][:][::-1]
    words = "reading and matching its column names, besides the model, needs"
    with open_source(path) as source, pytest.raises(UsageError, match=words):
        model.evaluate(source, memory=model.nbytes + source.names_bytes() + COLUMNS)
    monkeypatch.setattr(streammargin.model.scoring, "BUDGET", 16 << 20)  # if none is given, names are beside it
    assert len(model.predict(path)) == len(X)
    model.feature_names_in_ = None  # then they are not read
    assert model.evaluate(path, memory=20 << 20)["rows"] == len(X)
