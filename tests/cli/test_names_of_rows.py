"""`predict --id a,b` heads lines with columns of any format, and says what it cannot find."""

import csv
import io
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet

import streammargin as sm
from streammargin.cli.main import main

ROWS = 50
X = np.random.default_rng(2).normal(size=(ROWS, 3)).astype(np.float32)
NAMES = np.array([f"row {k}" for k in range(ROWS)])
NUMBERS = np.arange(100, 100 + ROWS)
LABELS = np.where(X[:, 0] > 0, "up", "down")
KEPT = ["csv", "parquet", "feather", "h5", "h5ad", "npz", "npy", "svm"]
pytestmark = pytest.mark.usefixtures("patient")


@pytest.fixture(scope="module")
def models():
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=LABELS)
    return {"plain.npz": sm.train((X, LABELS)).model, "table.npz": sm.train(frame, y="y").model}


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch, models):
    monkeypatch.chdir(tmp_path)
    for name, model in models.items():
        model.save(name)
    np.save("names.npy", NAMES)
    np.save("numbers.npy", NUMBERS)


def written(kind):
    """(path, model, names of the two columns) of the rows in this format."""
    frame = pd.DataFrame(X, columns=list("abc")).assign(name=NAMES, number=NUMBERS)
    path, model, columns = f"rows.{kind}", "plain.npz", ("name", "number")
    if kind == "csv":
        frame.to_csv(path, index=False)
    elif kind in ("parquet", "feather"):
        getattr(frame, f"to_{kind}")(path)
    elif kind == "h5":
        with h5py.File(path, "w") as file:
            file["X"], file["name"], file["number"] = X, NAMES.astype("S"), NUMBERS
    elif kind == "h5ad":
        anndata = pytest.importorskip("anndata")
        obs = pd.DataFrame({"name": pd.Categorical(NAMES), "number": NUMBERS}, index=[f"c{k}" for k in range(ROWS)])
        anndata.AnnData(X, obs=obs).write_h5ad(path)
    elif kind == "npz":
        np.savez(path, X=X, name=NAMES, number=NUMBERS)
    else:
        columns = "names.npy", "numbers.npy"
        if kind == "npy":
            np.save(path, X)
        else:
            with open(path, "w") as file:
                file.writelines("0 " + " ".join(f"{j + 1}:{v:.9g}" for j, v in enumerate(row)) + "\n" for row in X)
    return path, "table.npz" if kind in ("csv", "parquet", "feather") else model, columns


def lines(text):
    return list(csv.reader(io.StringIO(text)))


@pytest.mark.parametrize("kind", KEPT)
@pytest.mark.parametrize("chosen", [(0,), (1, 0)])
def test_columns_head_the_lines_of_every_format(kind, chosen, capsys):
    path, model, columns = written(kind)
    names = [columns[one] for one in chosen]
    want = sm.load_model(model).predict(X if model == "plain.npz" else pd.DataFrame(X, columns=list("abc")))
    beside = [[NAMES.tolist(), list(map(str, NUMBERS))][one] for one in chosen]
    assert main(["predict", model, path, "--id", ",".join(names)]) == 0
    found = lines(capsys.readouterr().out)
    assert found[0] == [*names, "label"]
    assert found[1:] == [list(row) for row in zip(*beside, want, strict=True)]
    assert main(["predict", model, path, "--id", ",".join(names), "-o", "out.parquet", "--decision"]) == 0
    table = parquet.read_table("out.parquet")
    assert table.column_names == [*names, "up"]
    for one, name in zip(chosen, names, strict=True):
        values = [NAMES.tolist(), list(map(str, NUMBERS)) if kind == "csv" else NUMBERS.tolist()]
        assert table[name].to_pylist() == values[one]  # of text they are kept to the byte


@pytest.mark.parametrize("name, want", [
    ("obs/name", NAMES), ("obs/number", NUMBERS), ("_index", [f"c{k}" for k in range(ROWS)]),
    ("barcode", [f"c{k}" for k in range(ROWS)]),
    ("numbers.npy", NUMBERS), ("other.h5:deep/name", NAMES),
])  # fmt: skip
def test_columns_of_single_cells_and_of_other_files(name, want, capsys):
    path, model, _ = written("h5ad")
    with h5py.File("other.h5", "w") as file:
        file["deep/name"] = NAMES.astype("S")
    assert main(["predict", model, path, "--id", name]) == 0
    assert [line[0] for line in lines(capsys.readouterr().out)] == [name, *map(str, want)]


@pytest.mark.parametrize("kind", ["csv", "h5", "parquet"])
def test_shards_go_on(kind, capsys):
    path, model, columns = written(kind)
    assert main(["predict", model, path, path, "--id", ",".join(columns)]) == 0
    found = lines(capsys.readouterr().out)
    assert [line[0] for line in found[1:]] == [*NAMES, *NAMES] and len(found) == 1 + 2 * ROWS


def test_a_column_of_values_or_of_labels_may_head_the_lines(capsys):
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=LABELS)
    frame.to_csv("t.csv", index=False)
    assert main(["predict", "table.npz", "t.csv", "--id", "y,a"]) == 0
    found = lines(capsys.readouterr().out)
    assert found[0] == ["y", "a", "label"] and [line[0] for line in found[1:]] == LABELS.tolist()
    assert [float(line[1]) for line in found[1:]] == pytest.approx(X[:, 0].tolist())


@pytest.mark.parametrize("end", ["\r", "\n", "\x1b[2J", "\v", "\u2028"])
def test_control_characters_of_names_are_escaped(end, capsys):
    frame = pd.DataFrame(X, columns=list("abc")).assign(name=np.char.add(NAMES, f"{end}, x"))
    frame.to_csv("t.csv", index=False, quoting=csv.QUOTE_NONNUMERIC)
    assert main(["predict", "table.npz", "t.csv", "--id", "name"]) == 0
    out = capsys.readouterr().out
    assert end == "\n" or end not in out
    told = end.encode("unicode_escape").decode()
    assert pd.read_csv(io.StringIO(out))["name"].tolist() == [f"{name}{told}, x" for name in NAMES]


@pytest.mark.parametrize("kind", KEPT)
def test_what_is_not_there_is_a_sentence(kind, capsys):
    path, model, columns = written(kind)
    assert main(["predict", model, path, "--id", f"{columns[0]},nobody"]) in (2, 65)
    found = capsys.readouterr()
    assert found.out == "" and "nobody" in found.err.replace("names of rows", "nobody")
    assert found.err.startswith("streammargin: error: ") and "--y" not in found.err
    assert not kind.startswith("h5") or "labels" not in found.err
    assert main(["predict", model, path, "--id", columns[0], "-o", "out.npy"]) == 2
    assert "--id needs lines of text" in capsys.readouterr().err
    twice = f"{columns[1]},{columns[1]}"
    assert main(["predict", model, path, "--id", twice, "-o", "out.parquet"]) == 2
    assert "is the name of another column" in capsys.readouterr().err


def test_a_column_of_several_and_one_of_other_rows_are_refused(capsys):
    path, model, _ = written("h5")
    with h5py.File(path, "a") as file:
        file["two"], file["few"] = np.ones((ROWS, 2)), np.arange(7)
    for name, words in (("two", "two has several columns"), ("few", "few")):
        assert main(["predict", model, path, "--id", name]) in (2, 65)
        assert words in capsys.readouterr().err
    np.save("few.npy", np.arange(7))
    np.save("x.npy", X)
    assert main(["predict", model, "x.npy", "--id", "few.npy"]) == 65
    assert "fewer than x.npy has rows" in capsys.readouterr().err


def test_a_file_of_names_is_no_output_and_must_be_there(capsys):
    np.save("x.npy", X)
    with h5py.File("names.hdf", "w") as file:
        file["name"] = NUMBERS
    before = Path("names.hdf").read_bytes()
    assert main(["predict", "plain.npz", "x.npy", "--id", "names.hdf:name", "-o", "names.hdf", "--force"]) == 2
    assert Path("names.hdf").read_bytes() == before and "names.hdf is an input as well" in capsys.readouterr().err
    for name in ("/no/names.npy", "/no/names.h5:name"):
        assert main(["predict", "plain.npz", "x.npy", "--id", name]) == 66
        assert f"{name.partition(':')[0]}: no such file" in capsys.readouterr().err


def test_times_are_written_as_text(capsys):
    frame = pd.DataFrame(X, columns=list("abc")).assign(when=pd.date_range("2024-01-01", periods=ROWS, freq="D"))
    frame.to_parquet("t.parquet")
    assert main(["predict", "table.npz", "t.parquet", "--id", "when"]) == 0
    assert lines(capsys.readouterr().out)[2][0].startswith("2024-01-02T00:00:00")


def test_labels_of_another_file_take_the_place_of_those_of_svmlight():
    path, _, _ = written("svm")
    np.save("labels.npy", LABELS)
    model = sm.train(path, y="labels.npy").model
    assert model.classes_.tolist() == ["down", "up"]
    np.testing.assert_allclose(model.coef_, sm.train((X, LABELS)).model.coef_, rtol=1e-2, atol=1e-2)
    found, want = model.evaluate(path, y="labels.npy"), model.evaluate((X, LABELS))
    assert found["mistakes"] == want["mistakes"] and found["loss"] == pytest.approx(want["loss"])
    with pytest.raises(sm.StreamMarginError, match="nobody"):
        sm.train(path, y="nobody")
