"""Held-out rows that are those of the training are said to be."""

import logging
import os

import numpy as np
import pandas as pd
import pytest
from conftest import write_h5

import streammargin as sm

OPTIONS = {"passes": 2, "solver": "sdca"}


@pytest.fixture
def said(caplog, tmp_path, monkeypatch):
    """Trains; what is warned of the held-out rows."""
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.WARNING, "streammargin")

    def trained(data, valid, call=sm.train, **options):
        caplog.clear()
        call(data, valid=valid, **options)
        found = [record.getMessage() for record in caplog.records if "training rows" in record.getMessage()]
        assert len(found) <= 1
        return found[0] if found else ""

    return trained


def rows(seed=0):
    X = np.random.default_rng(seed).standard_normal((40, 3))
    return X, np.where(X[:, 0] > 0, 1, -1)


@pytest.mark.parametrize("way", ["same", "path", "link", "hard"])
@pytest.mark.parametrize("form", ["h5", "csv", "parquet"])
def test_a_file_by_any_name(said, form, way):
    for name in ("a", "b", "c"):
        X, y = rows(ord(name))
        if form == "h5":
            write_h5(f"{name}.h5", X, y)
        else:
            frame = pd.DataFrame(X, columns=["p", "q", "r"]).assign(label=y)
            frame.to_csv(f"{name}.csv", index=False) if form == "csv" else frame.to_parquet(f"{name}.parquet")
    data, other = f"a.{form}", f"z.{form}"
    if way == "link":
        os.symlink(data, other)
    elif way == "hard":
        os.link(data, other)
    valid = {"same": data, "path": os.path.abspath(data)}.get(way, other)
    assert said(data, valid, **OPTIONS) == (
        f"valid has training rows, {valid}: their error says little about new rows; name others"
    )
    assert valid in said([f"b.{form}", data], valid, **OPTIONS)
    assert said([f"b.{form}", f"c.{form}"], valid, **OPTIONS) == ""
    os.link(f"b.{form}", f"y.{form}")  # twice among the rows of the training
    assert said([f"b.{form}", f"y.{form}"], valid, **OPTIONS) == ""


def test_a_file_of_a_folder(said):
    os.makedirs("F")
    for name in ("F/a.csv", "F/b.csv", "c.csv"):
        X, y = rows(len(name) + ord(name[-5]))
        pd.DataFrame(X, columns=["p", "q", "r"]).assign(label=y).to_csv(name, index=False)
    assert "F/b.csv" in said("F", "F/b.csv", **OPTIONS)
    assert "F/" in said("F", "F", **OPTIONS)
    assert said("F", "c.csv", **OPTIONS) == ""


def test_arrays_frames_and_sources(said):
    X, y = rows()
    assert "the same object" in said((X, y), (X, y), **OPTIONS)
    assert "the same array" in said((X, y), (X[:], y), **OPTIONS)
    assert said((X, y), (X.copy(), y), **OPTIONS) == said((X[:30], y[:30]), (X[30:], y[30:]), **OPTIONS) == ""
    frame = pd.DataFrame(X, columns=["p", "q", "r"]).assign(label=y)
    assert "the same object" in said(frame, frame, **OPTIONS)
    assert said(frame[:30], frame[30:], **OPTIONS) == ""
    with sm.open_source((X, y)) as source:
        assert "training rows" in said(source, source, **OPTIONS)


def test_two_datasets_of_one_file_are_other_rows(said):
    X, y = rows()
    write_h5("two.h5", X, y, test=rows(1)[0])
    with sm.open_source("two.h5") as source, sm.open_source("two.h5", x="test") as other:
        assert said(source, other, **OPTIONS) == ""


def test_ratings(said):
    pd.DataFrame({"row": [0, 0, 1, 1], "column": [0, 1, 0, 1], "value": [1.0, 2, 3, 4]}).to_csv("r.csv", index=False)
    assert "r.csv" in said("r.csv", "r.csv", sm.complete, passes=2)
