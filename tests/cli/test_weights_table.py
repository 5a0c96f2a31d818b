"""The table of weights that `train --coef` writes, beside the model that it is of."""

import csv
import json

import numpy as np
import pytest
from conftest import write_h5

import streammargin as sm

parquet = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.usefixtures("patient")
WORK, KINDS, LABELS = ("state", "private", "none; <b>"), "aab", "xyzx"
TABLE = [
    [str(20 + 7 * k % 50), WORK[k % 3], KINDS[k % 5 % 3], LABELS[k % 4]] for k in range(120)
]  # age, work, kind, label


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_of_a_table_each_word_has_a_row_with_its_count(tmp_path, here):
    lines = [["age", "work", "kind", "label"], *TABLE]
    (tmp_path / "t.csv").write_text("".join(",".join(line) + "\n" for line in lines))
    done = here("train", "t.csv", "-q", "-o", "m.npz", "--coef", "w.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    model, rows = sm.load_model(tmp_path / "m.npz"), read(tmp_path / "w.csv")
    assert [row["class"] for row in rows] == [label for label in "xyz" for _ in range(1 + model.coef_.shape[1])]
    names = iter(model.feature_names_in_.tolist() * 3)
    weights = np.hstack([model.intercept_[:, None], model.coef_]).ravel()
    assert [float(row["weight"]) for row in rows] == weights.tolist()
    for row in rows:
        if not row["column"]:
            assert row["word"] == row["scaled_weight"] == row["count"] == ""
            continue
        assert next(names) == (f"{row['column']}={row['word']}" if row["word"] else row["column"])
        place = ["age", "work", "kind"].index(row["column"])
        values = [line[place] for line in TABLE]
        if row["word"]:
            assert int(row["count"]) == values.count(row["word"])
        else:
            assert row["count"] == ""
        numbers = [float(value == row["word"]) if row["word"] else float(value) for value in values]
        assert float(row["scaled_weight"]) == pytest.approx(float(row["weight"]) * np.std(numbers), rel=1e-6, abs=1e-12)


def test_parquet_has_the_same(tmp_path, here, blobs):
    X, y = blobs
    write_h5(tmp_path / "a.h5", X, y)
    for ending in ("csv", "parquet"):
        done = here("train", "a.h5", "-q", "-o", f"{ending}.npz", "--coef", f"w.{ending}", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    plain, typed = read(tmp_path / "w.csv"), parquet.read_table(tmp_path / "w.parquet").to_pylist()
    assert len(plain) == 11 and [row["column"] for row in plain] == ["", *map(str, range(10))]
    for one, other in zip(plain, typed, strict=True):
        assert {name: None if text == "" else type(other[name])(text) for name, text in one.items()} == other
        assert other["class"] == "1" and other["count"] is None


def test_what_cannot_be_is_refused_before_anything_is_read(tmp_path, here, blobs_file):
    for more, code, text in (
        (["--coef", blobs_file], 2, "the weights"),
        (["--coef", "m.npz"], 2, "same file"),
        (["--coef", "w.csv", "--kernel", "rbf"], 2, "--coef"),
        (["--coef", "old.csv"], 73, "--force"),
        (["--coef", "no/w.csv"], 73, "no directory"),
    ):
        (tmp_path / "old.csv").write_text("mine")
        done = here("train", blobs_file, "-o", "m.npz", *more, cwd=tmp_path)
        assert done.returncode == code and text in done.stderr, done.stderr
        assert not (tmp_path / "m.npz").exists() and (tmp_path / "old.csv").read_text() == "mine"
    done = here("train", blobs_file, "-o", "m.npz", "--coef", "old.csv", "--force", cwd=tmp_path)
    assert done.returncode == 0 and done.stderr.endswith("the weights written to old.csv\n")
    assert len(read(tmp_path / "old.csv")) == 11


def test_a_table_that_cannot_be_written_costs_no_model(tmp_path, here, blobs_file):
    """A folder takes the name meanwhile."""
    made = tmp_path / "w.csv"

    def took(*arguments):
        made.mkdir()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            "streammargin.model.exports.files.named_columns", lambda model: took() or iter([("a", None)] * 10)
        )
        done = here("train", blobs_file, "-o", "m.npz", "--coef", "w.csv", "--log-json", "log", cwd=tmp_path)
    assert done.returncode == 73 and "warning: w.csv" in done.stderr
    assert sm.load_model(tmp_path / "m.npz").coef_.shape == (1, 10)
    *_, end = (json.loads(line) for line in (tmp_path / "log").read_text().splitlines())
    assert end["event"] == "run_end" and end["exit_code"] == 73 and end["model"] == "m.npz"
