"""`verify` reads what `train` reads: tables, files of numbers and anndata, by rows that it makes of them itself."""

import os
import subprocess
import sys

import h5py
import numpy as np
import pandas as pd
import pytest

from streammargin import load_model
from streammargin.cli.main import main
from streammargin.data_tools.main import main as data_main

RNG, ROWS = np.random.default_rng(3), 60
FRAME = pd.DataFrame({
    "name": [f"p{row}" for row in range(ROWS)], "age": RNG.integers(18, 80, ROWS).astype(float),
    "city": RNG.choice(["Rome", "Oslo", "Lima"], ROWS), "share": [f"{v:.1f}%" for v in RNG.uniform(0, 100, ROWS)],
    "when": pd.date_range("2024-01-01", periods=ROWS).strftime("%Y-%m-%d"), "w": RNG.uniform(0.5, 2.0, ROWS),
})  # fmt: skip
FRAME.loc[::7, "age"] = np.nan
FRAME["income"] = np.where(FRAME.age.fillna(40) + 10 * (FRAME.city == "Oslo") > 45, "high", "low")
HOW = ("--y", "income", "--drop", "name", "--missing", "indicator", "--dates", "-C", "0.1", "--tol", "0.1", "-q")
HELD = FRAME.iloc[::-3][["income", "city", "when", "age", "w", "share"]]
pytestmark = pytest.mark.usefixtures("patient", "inside")


def written(frame, kind, name="rows"):
    if kind == "folder":
        os.mkdir(name)
        for number in range(2):
            frame.iloc[number::2].to_parquet(f"{name}/{number}.parquet")
        return name
    path = f"{name}.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else getattr(frame, f"to_{kind}")(path)
    return path


def train(*words):
    assert main(["train", *words, "-o", "m.npz", "--force"]) == 0
    for name in os.listdir():
        if name.endswith((".rows.h5", ".valid.h5")):  # nothing of the training is used again
            os.remove(name)


@pytest.mark.parametrize("kind", ["csv", "parquet", "feather", "folder"])
def test_tables_are_verified_as_they_are(kind, capsys):
    path = written(FRAME, kind)
    train(path, *HOW, "--valid", written(HELD, "csv", "held"))
    before = sorted(os.listdir())
    assert main(["verify", "m.npz", path, "--valid", "held.csv"]) == 0
    found = capsys.readouterr().out
    assert found.endswith("all agree\n") and "valid error" in found and sorted(os.listdir()) == before
    assert main(["verify", "m.npz", path, "--spool", "new/spool"]) == 0
    assert os.listdir("new/spool") == [f"{os.path.basename(path)}.verify.h5"]
    assert main(["verify", "m.npz", written(FRAME.replace("Oslo", "Rome"), "csv", "altered")]) == 65
    assert "DIFFERS" in capsys.readouterr().out


def test_a_pipe_weights_and_tasks(monkeypatch, capsys):
    path = written(FRAME, "csv")
    train(path, *HOW, "--sample-weight", "w", "--tasks", "city")
    assert main(["verify", "m.npz", path]) == 0
    assert capsys.readouterr().out.endswith("all agree\n")
    written(FRAME.assign(other=FRAME.w * 2), "csv", "other")
    assert main(["verify", "m.npz", "other.csv", "--sample-weight", "other"]) == 65
    assert "DIFFERS" in capsys.readouterr().out
    code = "import sys; from streammargin.cli.main import main; sys.exit(main(sys.argv[1:]) or [name for name in " + (
        "('numba', 'streammargin.compiled', 'streammargin.driver', 'streammargin.training') if name in sys.modules])"
    )
    words = [sys.executable, "-c", code, "verify", "m.npz", "-"]
    with open(path) as file:
        done = subprocess.run(words, stdin=file, capture_output=True, text=True)
    assert done.stdout.endswith("all agree\n") and done.stderr.strip() == "[]"


def test_weights_that_were_in_no_table_are_to_be_named(capsys):
    path = written(FRAME[["age", "income", "w"]].dropna().drop(columns="w"), "csv")
    assert data_main(["convert", path, "rows.h5", "--label-column", "income"]) == 0
    with h5py.File("rows.h5", "a") as file:
        file["sample_weight"] = np.arange(1.0, 1 + len(file["y"]))
    train("rows.h5", "--tol", "0.1", "-q")
    assert main(["verify", "m.npz", path]) == 2
    assert "have weights; name their column with --sample-weight" in capsys.readouterr().err


def test_what_is_no_table_of_the_training_is_a_sentence(capsys):
    path = written(FRAME, "csv")
    train(path, *HOW)
    np.save("x.npy", np.zeros((3, 2)))
    lacking = written(FRAME.drop(columns="age"), "csv", "a")
    unknown = written(FRAME.replace("Rome", "Bonn"), "csv", "b")
    capsys.readouterr()
    for words, code, said in (
        ([lacking], 65, "a.csv lacks 1 column"), ([unknown], 65, "b.csv, line "),
        (["no/rows.csv"], 66, "no/rows.csv: no such file"),
        (["x.npy"], 65, "x.npy has no labels"), ([path, "--y", "age"], 2, "the column age is one that m.npz"),
        ([path, "--sample-weight", "no"], 2, "has no column no for --sample-weight"),
        ([path, "--valid", path], 2, "was trained without held-out rows"),
    ):  # fmt: skip
        assert main(["verify", "m.npz", *words]) == code, words
        found = capsys.readouterr()
        assert said in found.err and found.err.startswith("streammargin: error: ") and not found.out
    assert main(["verify", "m.npz", unknown, "--unknown", "zero"]) == 65
    assert "DIFFERS" in capsys.readouterr().out


def test_files_of_numbers(capsys):
    X, y = RNG.normal(size=(ROWS, 3)).astype(np.float32), np.arange(ROWS) % 2
    np.save("x.npy", X)
    np.save("y.npy", y)
    np.savez("xy.npz", X=X, y=y)
    with open("x.svm", "w") as file:
        file.writelines(f"{label} 1:{row[0]:.9g} 3:{row[2]:.9g}\n" for row, label in zip(X, y, strict=True))
    for path, *names in (("x.npy", "--y", "y.npy"), ("xy.npz",), ("x.svm",)):
        train(path, *names, "--tol", "0.1", "-q")
        assert main(["verify", "m.npz", path, *names]) == 0, path
        assert capsys.readouterr().out.endswith("all agree\n")
    np.savez("xy.npz", X=X, y=1 - y)
    assert main(["verify", "m.npz", "xy.npz"]) == 65
    assert main(["verify", "m.npz", written(FRAME, "csv")]) == 65
    assert "is a table, and m.npz was trained on other rows" in capsys.readouterr().err


@pytest.mark.parametrize("y", ["kind", "obs/kind", "obs/text", "obs/number"])
def test_anndata_is_verified_as_it_is(y, capsys):
    anndata = pytest.importorskip("anndata")
    X = RNG.normal(size=(ROWS, 3)).astype(np.float32)
    names = np.where(X[:, 0] > 0, "T", "B")
    obs = pd.DataFrame({"kind": pd.Categorical(names), "text": names, "number": pd.Categorical(1.5 * (X[:, 0] > 0))},
                       index=[f"c{row}" for row in range(ROWS)])  # fmt: skip
    anndata.AnnData(X, obs=obs).write_h5ad("cells.h5ad")
    train("cells.h5ad", "--y", y, "--tol", "0.1", "-q")
    assert main(["verify", "m.npz", "cells.h5ad"]) == 0
    assert capsys.readouterr().out.endswith("all agree\n")
    if y == "kind":
        with h5py.File("cells.h5ad", "a") as file:
            file["obs/kind/codes"][3] = -1
        assert main(["verify", "m.npz", "cells.h5ad"]) == 65
        assert "a row has no label in /obs/kind/codes" in capsys.readouterr().err


def test_values_with_a_mask_are_verified(capsys):
    """anndata 0.13 writes the text of pandas 3 so: labels, categories, and names of columns."""
    X = RNG.normal(size=(ROWS, 2)).astype(np.float32)

    def write(home, name, values):
        group = home.create_group(name)
        group.attrs.update({"encoding-type": "nullable-string-array", "encoding-version": "0.1.0"})
        group["values"], group["mask"] = np.array(values, object), np.zeros(len(values), bool)

    with h5py.File("cells.h5ad", "w") as file:
        file["X"] = X
        write(file, "obs/text", np.where(X[:, 0] > 0, "T", "B"))
        write(file, "obs/kind/categories", ["B", "T"])
        file["obs/kind/codes"] = (X[:, 0] > 0).astype(np.int8)
        file["obs/kind"].attrs.update({"encoding-type": "categorical", "encoding-version": "0.2.0"})
        write(file, "var/_index", ["a", "b"])
        file["var"].attrs["_index"] = "_index"
    for y in ("obs/text", "kind"):
        train("cells.h5ad", "--y", y, "--tol", "0.1", "-q")
        assert load_model("m.npz").feature_names_in_.tolist() == ["a", "b"]
        assert main(["verify", "m.npz", "cells.h5ad"]) == 0
        assert capsys.readouterr().out.endswith("all agree\n")
    train("cells.h5ad", "--y", "obs/text", "--tol", "0.1", "-q")
    with h5py.File("cells.h5ad", "a") as file:
        file["obs/text/mask"][3] = True
    assert main(["verify", "m.npz", "cells.h5ad"]) == 65
    assert "a row has no label in /obs/text; drop it" in capsys.readouterr().err


def test_an_unknown_label_is_told_in_the_file_that_was_named(capsys):
    FRAME.to_csv("rows.csv", index=False)
    FRAME.assign(income=np.where(FRAME.index == 4, "odd", FRAME.income)).to_csv("odd.csv", index=False)
    train("rows.csv", *HOW)
    assert main(["evaluate", "m.npz", "odd.csv"]) == 65
    assert "odd.csv, line 6 has the label odd, unknown to the model" in capsys.readouterr().err
    assert main(["verify", "m.npz", "odd.csv"]) == 65
    assert "error: odd.csv: the label of row 4 is new, odd" in capsys.readouterr().err
